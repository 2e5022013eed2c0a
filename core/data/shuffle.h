/* A seeded permutation: a function of key and count alone. */
#ifndef MT_DATA_SHUFFLE_H
#define MT_DATA_SHUFFLE_H

#include "core/base/random.h"

#include <stddef.h>
#include <stdint.h>

/* order becomes a permutation of 0 to count - 1 (Fisher and Yates, without bias). */
static inline void mt_shuffle(uint64_t key, uint32_t *order, size_t count)
{
    struct mt_random random = {.key = key};
    for (size_t i = 0; i < count; i++) {
        const size_t other = (size_t)mt_random_below(&random, i + 1); /* inside out: no first pass */
        order[i] = order[other];
        order[other] = (uint32_t)i;
    }
}

#endif
