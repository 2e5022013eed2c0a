#include "core/text/text_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t mt_text_hash(const char *text, size_t bytes)
{
    uint64_t hash = bytes * UINT64_C(0x9e3779b97f4a7c15);
    while (bytes >= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
        text += 8;
        bytes -= 8;
    }
    uint64_t rest = 0;
    memcpy(&rest, text, bytes);
    hash = (hash ^ rest) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 29;
}

/* The entry of the text, or the free one where it would go. */
static struct mt_text_entry *find_entry(const struct mt_text_map *map, const char *text, size_t bytes)
{
    size_t slot = (size_t)mt_text_hash(text, bytes) & map->mask;
    for (; map->entries[slot].text; slot = (slot + 1) & map->mask)
        if (map->entries[slot].bytes == bytes && memcmp(map->entries[slot].text, text, bytes) == 0)
            break;
    return &map->entries[slot];
}

static int grow(struct mt_text_map *map)
{
    const size_t slots = map->entries ? 2 * (map->mask + 1) : 64;
    struct mt_text_map larger = {.entries = calloc(slots, sizeof *larger.entries), .mask = slots - 1};
    if (!larger.entries)
        return -ENOMEM;
    for (size_t i = 0; map->entries && i <= map->mask; i++)
        if (map->entries[i].text)
            *find_entry(&larger, map->entries[i].text, map->entries[i].bytes) = map->entries[i];
    larger.count = map->count;
    free(map->entries);
    *map = larger;
    return 0;
}

int mt_text_map_put(struct mt_text_map *map, const char *text, size_t bytes, size_t value)
{
    if (2 * map->count >= map->mask && grow(map) < 0)
        return -ENOMEM;
    struct mt_text_entry *entry = find_entry(map, text, bytes);
    if (entry->text)
        return -EEXIST;
    *entry = (struct mt_text_entry){.text = text, .bytes = bytes, .value = value};
    map->count++;
    return 0;
}

size_t mt_text_map_find(const struct mt_text_map *map, const char *text, size_t bytes)
{
    const struct mt_text_entry *entry = map->entries ? find_entry(map, text, bytes) : NULL;
    return entry && entry->text ? entry->value : SIZE_MAX;
}

void mt_text_map_free(struct mt_text_map *map)
{
    free(map->entries);
    *map = (struct mt_text_map){0};
}
