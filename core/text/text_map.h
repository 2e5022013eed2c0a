/* Numbers by texts, however many: what vocabularies and the files beside them name. The texts stay the
 * caller's. */
#ifndef MT_TEXT_TEXT_MAP_H
#define MT_TEXT_TEXT_MAP_H

#include <stddef.h>
#include <stdint.h>

struct mt_text_entry {
    const char *text; /* NULL: free */
    size_t bytes, value;
};

struct mt_text_map { /* starts as {0} */
    struct mt_text_entry *entries;
    size_t mask, count;
};

/* Puts a text that is not there yet. 0, -EEXIST, -ENOMEM. */
int mt_text_map_put(struct mt_text_map *map, const char *text, size_t bytes, size_t value);
size_t mt_text_map_find(const struct mt_text_map *map, const char *text, size_t bytes); /* or SIZE_MAX */
void mt_text_map_free(struct mt_text_map *map);                                         /* leaves {0} */

/* A hash of any bytes. */
uint64_t mt_text_hash(const char *text, size_t bytes);

#endif
