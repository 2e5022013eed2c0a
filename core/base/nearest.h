/* The word that was likely meant: for "did you mean". */
#ifndef MT_BASE_NEAREST_H
#define MT_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/* Edit distance (optimal string alignment); at most `limit` + 1. */
size_t mt_text_distance(const char *a, const char *b, size_t limit);

/* A search for what is nearest to `word`: the last candidate that mt_nearest_is was true for. */
struct mt_nearest {
    const char *word;
    size_t below; /* candidates that are as far away, or farther, are no misspelling of it */
};
/* Whether the candidate is nearer than all before; of those equally near the first is taken. */
bool mt_nearest_is(struct mt_nearest *nearest, const char *candidate);

#endif
