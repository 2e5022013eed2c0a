/* Packing: which samples lie together in a sequence. First fit, in the order given: a sample goes into the
 * first sequence that still has room for it (Johnson, 1973: at most 1.7 times the best). */
#ifndef MT_DATA_PACK_H
#define MT_DATA_PACK_H

#include <stddef.h>
#include <stdint.h>

struct mt_packs {
    size_t num_packs;
    uint32_t *starts;  /* [num_packs + 1], into `members` */
    uint32_t *members; /* [number of samples]: samples, pack after pack, in the order they were put in */
};

/* `order[i]` of `count` samples with `lengths[i]` tokens, each at most `capacity`. capacity 0: a sequence a
 * sample. O(count log count). 0 or -ENOMEM. */
int mt_packs_make(const uint32_t *order, const uint32_t *lengths, size_t count, uint32_t capacity,
                  struct mt_packs *packs);
void mt_packs_free(struct mt_packs *packs);

#endif
