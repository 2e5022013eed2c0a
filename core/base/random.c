/* Counter-based random numbers: see random.h. The four 32-bit words of a Philox counter are: the 64-bit block
 * number, zero, and the kind of the stream, so that draws and normal numbers of one key do not share blocks.
 */
#include "core/base/random.h"

#include <math.h>

enum stream_kind { STREAM_DRAWS = 0, STREAM_NORMAL = 1 };

void mt_random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static void stream_block(uint64_t key, uint64_t block, enum stream_kind kind, uint64_t out[2])
{
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, (uint32_t)kind};
    const uint32_t key_words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t words[4];
    mt_random_philox(counter, key_words, words);
    out[0] = (uint64_t)words[1] << 32 | words[0];
    out[1] = (uint64_t)words[3] << 32 | words[2];
}

static uint64_t splitmix64(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

uint64_t mt_random_key(uint64_t seed, const char *name)
{
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (const unsigned char *byte = (const unsigned char *)name; *byte; byte++)
        hash = (hash ^ *byte) * 0x100000001B3u;
    return splitmix64(splitmix64(seed) ^ hash);
}

uint64_t mt_random_u64(struct mt_random *random)
{
    uint64_t draw = random->counter++, block[2];
    stream_block(random->key, draw >> 1, STREAM_DRAWS, block);
    return block[draw & 1];
}

/* Lemire, "Fast random integer generation in an interval", 2019: the high word of draw * n, redrawn where the
 * low word falls into the part that would make some results more likely. */
uint64_t mt_random_below(struct mt_random *random, uint64_t n)
{
    uint64_t threshold = (0 - n) % n;
    unsigned __int128 product;
    do {
        product = (unsigned __int128)mt_random_u64(random) * n;
    } while ((uint64_t)product < threshold);
    return (uint64_t)(product >> 64);
}

double mt_random_uniform(struct mt_random *random)
{
    return (double)(mt_random_u64(random) >> 11) * 0x1p-53;
}

static void normal_pair(uint64_t key, uint64_t pair, double out[2])
{
    uint64_t block[2];
    stream_block(key, pair, STREAM_NORMAL, block);
    double u = (double)((block[0] >> 11) + 1) * 0x1p-53; /* (0, 1]: the logarithm stays finite */
    double angle = (double)(block[1] >> 11) * 0x1p-53 * 6.283185307179586476925;
    double radius = sqrt(-2 * log(u));
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

float mt_random_normal_at(uint64_t key, uint64_t index)
{
    double pair[2];
    normal_pair(key, index / 2, pair);
    return (float)pair[index & 1];
}

void mt_random_normal_fill(uint64_t key, uint64_t first_index, float mean, float std, float *values,
                           size_t count)
{
    double pair[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        uint64_t index = first_index + i;
        if (i == 0 || (index & 1) == 0)
            normal_pair(key, index / 2, pair);
        values[i] = mean + std * (float)pair[index & 1];
    }
}
