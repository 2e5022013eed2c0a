/* Packing: which samples lie together in a sequence. First fit, in the order given: a sample goes into the
 * first sequence that still has room for it (Johnson, 1973: at most 1.7 times the best). */
#ifndef MT_DATA_PACK_H
#define MT_DATA_PACK_H

#include "core/data/bulk.h"

#include <stddef.h>
#include <stdint.h>

struct mt_packs {
    struct mt_bulk arrays[2]; /* uint32_t: [num_packs + 1] places in the other one, where packs begin; [number
                                 of samples] samples, pack after pack, in the order they were put in */
    size_t num_packs, num_members;
};

/* The folder is borrowed until mt_packs_seal; `names` are those of the two files, and stay. */
void mt_packs_begin(struct mt_packs *packs, struct mt_bulk_folder *folder, const char *const names[2]);
/* Adds sequences of `count` samples: `order[i]` with `lengths[i]` tokens, each at most `capacity`. capacity
 * 0: a sequence a sample. Samples of different calls do not share a sequence. O(count log count). */
int mt_packs_add(struct mt_packs *packs, const uint32_t *order, const uint32_t *lengths, size_t count,
                 uint32_t capacity, struct mt_error *error);
int mt_packs_seal(struct mt_packs *packs, struct mt_error *error);
/* The samples of a sealed pack, malloc'd; on any thread. */
int mt_packs_read(const struct mt_packs *packs, size_t i, uint32_t **members, size_t *count,
                  struct mt_error *error);
void mt_packs_free(struct mt_packs *packs);

#endif
