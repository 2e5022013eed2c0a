/* A seeded permutation: a function of key, count and position alone. */
#ifndef MT_DATA_SHUFFLE_H
#define MT_DATA_SHUFFLE_H

#include "core/base/random.h"

#include <stddef.h>
#include <stdint.h>

/* Up to this count the permutation is a table; beyond, every place of it is computed when it is asked for, so
 * that no memory is needed. */
#define MT_SHUFFLE_TABLE ((size_t)1 << 22)

/* order becomes a permutation of 0 to count - 1 (Fisher and Yates, without bias). */
static inline void mt_shuffle(uint64_t key, uint32_t *order, size_t count)
{
    struct mt_random random = {.key = key};
    for (size_t i = 0; i < count; i++) {
        const size_t other = (size_t)mt_random_below(&random, i + 1); /* inside out: no first pass */
        if (other < i)
            order[i] = order[other];
        order[other] = (uint32_t)i;
    }
}

/* A permutation that can be asked for one place at a time. */
struct mt_order {
    uint64_t key;
    size_t count;    /* at most 2^32 */
    uint32_t *table; /* NULL: computed */
    unsigned half;   /* of the bits of a place, where it is computed */
};

/* A table, or computed, by the count. -ENOMEM. */
int mt_order_make(struct mt_order *order, uint64_t key, size_t count);
/* Always computed; nothing to free. Another permutation than the table's. */
struct mt_order mt_order_computed(uint64_t key, size_t count);
/* 0, 1, 2, ... */
struct mt_order mt_order_identity(size_t count);
void mt_order_free(struct mt_order *order); /* {0} is fine; leaves {0} */
/* The element at place `i` < count. */
size_t mt_order_at(const struct mt_order *order, size_t i);

#endif
