/* Types whose blocks are one element or 32. Bits of 32 integers are packed alike everywhere: the low nibbles
 * of 16 bytes are elements 0 to 15, the high ones 16 to 31; fifth bits stand in a 32-bit word, element i's in
 * bit i. */
#include "core/formats/dequantise.h"

#define BLOCK ((size_t)32)

MT_DEQUANTISE_BLOCKS void f16_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                     float *restrict out)
{
    for (size_t i = 0; i < num_blocks; i++)
        out[i] = mt_half_at(blocks + 2 * i);
}
MT_DEQUANTISE(f16)

MT_DEQUANTISE_BLOCKS void bf16_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (size_t i = 0; i < num_blocks; i++) {
        uint16_t high;
        memcpy(&high, blocks + 2 * i, sizeof high);
        const uint32_t bits = (uint32_t)high << 16;
        memcpy(&out[i], &bits, sizeof bits);
    }
}
MT_DEQUANTISE(bf16)

/* Block: half d; 16 bytes of nibbles. */
MT_DEQUANTISE_BLOCKS void q4_0_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (; num_blocks; num_blocks--, blocks += 18, out += BLOCK) {
        const float d = mt_half_at(blocks);
        const unsigned char *nibbles = blocks + 2;
        for (size_t i = 0; i < 16; i++)
            out[i] = d * (float)((nibbles[i] & 15) - 8);
        for (size_t i = 0; i < 16; i++)
            out[i + 16] = d * (float)((nibbles[i] >> 4) - 8);
    }
}
MT_DEQUANTISE(q4_0)

/* Block: half d, half m; 16 bytes of nibbles. */
MT_DEQUANTISE_BLOCKS void q4_1_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (; num_blocks; num_blocks--, blocks += 20, out += BLOCK) {
        const float d = mt_half_at(blocks), m = mt_half_at(blocks + 2);
        const unsigned char *nibbles = blocks + 4;
        for (size_t i = 0; i < 16; i++)
            out[i] = d * (float)(nibbles[i] & 15) + m;
        for (size_t i = 0; i < 16; i++)
            out[i + 16] = d * (float)(nibbles[i] >> 4) + m;
    }
}
MT_DEQUANTISE(q4_1)

/* Element i of 16, its fifth bit among the 16 of `word`. */
MT_DEQUANTISE_BLOCKS int32_t with_fifth(uint32_t nibble, uint32_t word, uint32_t i)
{
    return (int32_t)(nibble | (word >> i & 1u) << 4);
}

MT_DEQUANTISE_BLOCKS uint32_t word_at(const unsigned char *data)
{
    uint32_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

/* Block: half d; word of fifth bits; 16 bytes of nibbles. */
MT_DEQUANTISE_BLOCKS void q5_0_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (; num_blocks; num_blocks--, blocks += 22, out += BLOCK) {
        const float d = mt_half_at(blocks);
        const uint32_t fifths = word_at(blocks + 2);
        const unsigned char *nibbles = blocks + 6;
        for (uint32_t i = 0; i < 16; i++)
            out[i] = d * (float)(with_fifth(nibbles[i] & 15u, fifths, i) - 16);
        for (uint32_t i = 0; i < 16; i++)
            out[i + 16] = d * (float)(with_fifth((uint32_t)nibbles[i] >> 4, fifths >> 16, i) - 16);
    }
}
MT_DEQUANTISE(q5_0)

/* Block: half d, half m; word of fifth bits; 16 bytes of nibbles. */
MT_DEQUANTISE_BLOCKS void q5_1_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (; num_blocks; num_blocks--, blocks += 24, out += BLOCK) {
        const float d = mt_half_at(blocks), m = mt_half_at(blocks + 2);
        const uint32_t fifths = word_at(blocks + 4);
        const unsigned char *nibbles = blocks + 8;
        for (uint32_t i = 0; i < 16; i++)
            out[i] = d * (float)with_fifth(nibbles[i] & 15u, fifths, i) + m;
        for (uint32_t i = 0; i < 16; i++)
            out[i + 16] = d * (float)with_fifth((uint32_t)nibbles[i] >> 4, fifths >> 16, i) + m;
    }
}
MT_DEQUANTISE(q5_1)

/* Block: half d; 32 signed bytes. */
MT_DEQUANTISE_BLOCKS void q8_0_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (; num_blocks; num_blocks--, blocks += 34, out += BLOCK) {
        const float d = mt_half_at(blocks);
        for (size_t i = 0; i < BLOCK; i++)
            out[i] = (float)(int8_t)blocks[2 + i] * d;
    }
}
MT_DEQUANTISE(q8_0)
