/* SHA-256 (FIPS 180-4): see sha256.h. Blocks are compressed by the CPU's SHA instructions where it has them
 * (several times as fast: checkpoints are gigabytes), else by plain C. */
#include "core/base/sha256.h"

#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void compress_plain(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    for (; blocks > 0; blocks--, data += 64) {
        uint32_t w[64];
        for (size_t t = 0; t < 16; t++)
            w[t] = (uint32_t)data[4 * t] << 24 | (uint32_t)data[4 * t + 1] << 16 |
                   (uint32_t)data[4 * t + 2] << 8 | data[4 * t + 3];
        for (size_t t = 16; t < 64; t++) {
            uint32_t s0 = rotate_right(w[t - 15], 7) ^ rotate_right(w[t - 15], 18) ^ w[t - 15] >> 3;
            uint32_t s1 = rotate_right(w[t - 2], 17) ^ rotate_right(w[t - 2], 19) ^ w[t - 2] >> 10;
            w[t] = w[t - 16] + s0 + w[t - 7] + s1;
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (size_t t = 0; t < 64; t++) {
            uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
            uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[t] + w[t];
            uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
            uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
            h = g;
            g = f;
            f = e;
            e = d + t1;
            d = c;
            c = b;
            b = a;
            a = t1 + t2;
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
        state[5] += f;
        state[6] += g;
        state[7] += h;
    }
}

/* The instructions keep the eight words as {a, b, e, f} and {c, d, g, h}, highest lane first; one does two
 * rounds and gives the new {a, b, e, f}, while the old one becomes the new {c, d, g, h}. */
__attribute__((target("sha,sse4.1"))) static void compress_fast(uint32_t state[8], const uint8_t *data,
                                                                size_t blocks)
{
    const __m128i big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i abef = _mm_set_epi32((int)state[0], (int)state[1], (int)state[4], (int)state[5]);
    __m128i cdgh = _mm_set_epi32((int)state[2], (int)state[3], (int)state[6], (int)state[7]);
    for (; blocks > 0; blocks--, data += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4]; /* the last sixteen words of the message schedule */
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; i++) {
            __m128i words;
            if (i < 4) {
                words = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)),
                                         big_endian);
            } else {
                words = _mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]);
                words = _mm_add_epi32(words, _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4));
                words = _mm_sha256msg2_epu32(words, w[(i + 3) % 4]);
            }
            w[i % 4] = words;
            __m128i sum = _mm_add_epi32(
                words, _mm_loadu_si128((const __m128i *)(const void *)(round_constants + 4 * i)));
            __m128i next = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            cdgh = abef;
            abef = next;
            next = _mm_sha256rnds2_epu32(cdgh, abef, _mm_shuffle_epi32(sum, 0x0e));
            cdgh = abef;
            abef = next;
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    state[0] = (uint32_t)_mm_extract_epi32(abef, 3);
    state[1] = (uint32_t)_mm_extract_epi32(abef, 2);
    state[2] = (uint32_t)_mm_extract_epi32(cdgh, 3);
    state[3] = (uint32_t)_mm_extract_epi32(cdgh, 2);
    state[4] = (uint32_t)_mm_extract_epi32(abef, 1);
    state[5] = (uint32_t)_mm_extract_epi32(abef, 0);
    state[6] = (uint32_t)_mm_extract_epi32(cdgh, 1);
    state[7] = (uint32_t)_mm_extract_epi32(cdgh, 0);
}

static bool cpu_has_sha(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (b & bit_SHA);
}

static void compress(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    static int fast = -1; /* asking the CPU is slow in a virtual machine; any thread finds the same */
    int use_fast = __atomic_load_n(&fast, __ATOMIC_RELAXED);
    if (use_fast < 0) {
        use_fast = cpu_has_sha();
        __atomic_store_n(&fast, use_fast, __ATOMIC_RELAXED);
    }
    (use_fast ? compress_fast : compress_plain)(state, data, blocks);
}

void mt_sha256_init(struct mt_sha256 *hash)
{
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, initial, sizeof initial);
    hash->total_bytes = 0;
    hash->block_bytes = 0;
}

void mt_sha256_update(struct mt_sha256 *hash, const void *data, size_t bytes)
{
    const uint8_t *next = data;
    hash->total_bytes += bytes;
    if (hash->block_bytes > 0) {
        size_t room = sizeof hash->block - hash->block_bytes;
        size_t part = bytes < room ? bytes : room;
        memcpy(hash->block + hash->block_bytes, next, part);
        hash->block_bytes += part;
        next += part;
        bytes -= part;
        if (hash->block_bytes < sizeof hash->block)
            return;
        compress(hash->state, hash->block, 1);
        hash->block_bytes = 0;
    }
    compress(hash->state, next, bytes / 64);
    next += bytes / 64 * 64;
    hash->block_bytes = bytes % 64;
    if (hash->block_bytes > 0)
        memcpy(hash->block, next, hash->block_bytes);
}

void mt_sha256_final(struct mt_sha256 *hash, uint8_t digest[32])
{
    uint64_t bits = hash->total_bytes * 8;
    uint8_t padding[72] = {0x80};
    size_t zeros = (hash->block_bytes < 56 ? 56 : 120) - hash->block_bytes;
    for (size_t i = 0; i < 8; i++)
        padding[zeros + i] = (uint8_t)(bits >> (56 - 8 * i));
    mt_sha256_update(hash, padding, zeros + 8);
    for (size_t i = 0; i < 32; i++)
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void mt_sha256_hex(const uint8_t digest[32], char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}
