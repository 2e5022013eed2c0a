/* Counter-based random numbers: a stream is a function of (key, counter) alone, so that any position can be
 * resumed exactly and values do not depend on threads. Philox4x32-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", 2011). */
#ifndef MT_BASE_RANDOM_H
#define MT_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct mt_random {
    uint64_t key;
    uint64_t counter; /* next draw; saving key and counter saves the stream */
};

/* A key from a seed and a name ("model.layers.0.mlp.up_proj.weight", "shuffle"): FNV-1a of the name mixed
 * with the seed: splitmix64(splitmix64(seed) ^ FNV-1a(name)). Draw n of a key is half n mod 2 of the block of
 * counter {n / 2 (64 bits), 0, 0}, normal numbers come from the blocks of {.., 0, 1}. */
uint64_t mt_random_key(uint64_t seed, const char *name);

uint64_t mt_random_u64(struct mt_random *random);
/* Uniform in [0, n), without bias; n > 0. */
uint64_t mt_random_below(struct mt_random *random, uint64_t n);
double mt_random_uniform(struct mt_random *random); /* [0, 1) with 53 bits */
/* Standard normal value number `index` of stream `key` (Box-Muller on Philox counter index / 2): random
 * access. */
float mt_random_normal_at(uint64_t key, uint64_t index);
/* values[i] = mean + std * normal number (first_index + i). */
void mt_random_normal_fill(uint64_t key, uint64_t first_index, float mean, float std, float *values,
                           size_t count);

/* The block function itself: Philox4x32-10 of a counter under a key. */
void mt_random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
