/* The K types: blocks of 256 elements, in groups with integer scales of their own. */
#include "core/formats/dequantise.h"

#define BLOCK ((size_t)256)

/* Block: 16 bytes of scales, low nibble s, high nibble t; 64 bytes with four integers of two bits each; half
 * d, half m. Byte i of the first 32 has elements i, 32 + i, 64 + i, 96 + i, from its low bits up; the other
 * 32 bytes the second half. */
MT_DEQUANTISE_BLOCKS void q2_k_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (; num_blocks; num_blocks--, blocks += 84, out += BLOCK) {
        const float d = mt_half_at(blocks + 80), m = mt_half_at(blocks + 82);
        for (size_t group = 0; group < 16; group++) {
            const unsigned char scale = blocks[group];
            const float step = d * (float)(scale & 15), low = m * (float)(scale >> 4);
            const unsigned char *pairs = blocks + 16 + group / 8 * 32 + group % 2 * 16;
            const unsigned shift = (unsigned)(group % 8 / 2 * 2);
            for (size_t i = 0; i < 16; i++)
                out[16 * group + i] = step * (float)(pairs[i] >> shift & 3) - low;
        }
    }
}
MT_DEQUANTISE(q2_k)

/* Block: 32 bytes of third bits, bit k of byte i that of element 32 k + i; 64 bytes of low bits as in Q2_K;
 * 12 bytes of scales; half d. Scale g has its low four bits in byte g % 8 (the low nibble for g < 8) and its
 * high two in byte 8 + g % 4, at bit g / 4 * 2. A third bit that is set means no offset of 4. */
MT_DEQUANTISE_BLOCKS void q3_k_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (; num_blocks; num_blocks--, blocks += 110, out += BLOCK) {
        const float d = mt_half_at(blocks + 108);
        const unsigned char *scales = blocks + 96;
        for (size_t group = 0; group < 16; group++) {
            const int low = scales[group % 8] >> (group / 8 * 4) & 15;
            const int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
            const float step = d * (float)((low | high << 4) - 32);
            const unsigned char *pairs = blocks + 32 + group / 8 * 32 + group % 2 * 16;
            const unsigned char *thirds = blocks + group % 2 * 16;
            const unsigned shift = (unsigned)(group % 8 / 2 * 2), bit = (unsigned)(group / 2);
            for (size_t i = 0; i < 16; i++)
                out[16 * group + i] =
                    step * (float)((pairs[i] >> shift & 3) - ((~(unsigned)thirds[i] >> bit & 1) ? 4 : 0));
        }
    }
}
MT_DEQUANTISE(q3_k)

/* The 12 bytes of Q4_K and Q5_K: six bits each of eight s, then eight t. Of groups 0 to 3 they are the low
 * six bits of bytes 0 to 3 and 4 to 7; of 4 to 7 the low and the high nibbles of bytes 8 to 11, and above
 * them the top two bits of bytes 0 to 3 and 4 to 7. */
MT_DEQUANTISE_BLOCKS void six_bit_scales(const unsigned char *data, size_t group, float *s, float *t)
{
    if (group < 4) {
        *s = (float)(data[group] & 63);
        *t = (float)(data[group + 4] & 63);
    } else {
        *s = (float)((data[group + 4] & 15) | (data[group - 4] >> 6) << 4);
        *t = (float)(data[group + 4] >> 4 | (data[group] >> 6) << 4);
    }
}

/* Block: half d, half m; 12 bytes of scales; 128 bytes of nibbles: byte i of each 32 has element i of a group
 * in its low nibble and of the next group in its high one. */
MT_DEQUANTISE_BLOCKS void q4_k_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (; num_blocks; num_blocks--, blocks += 144, out += BLOCK) {
        const float d = mt_half_at(blocks), m = mt_half_at(blocks + 2);
        for (size_t group = 0; group < 8; group++) {
            float s, t;
            six_bit_scales(blocks + 4, group, &s, &t);
            const float step = d * s, low = m * t;
            const unsigned char *nibbles = blocks + 16 + group / 2 * 32;
            const unsigned shift = (unsigned)(group % 2 * 4);
            for (size_t i = 0; i < 32; i++)
                out[32 * group + i] = step * (float)(nibbles[i] >> shift & 15) - low;
        }
    }
}
MT_DEQUANTISE(q4_k)

/* Block: half d, half m; 12 bytes of scales; 32 bytes of fifth bits, bit g of byte i that of element i of
 * group g; 128 bytes of nibbles as in Q4_K. */
MT_DEQUANTISE_BLOCKS void q5_k_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (; num_blocks; num_blocks--, blocks += 176, out += BLOCK) {
        const float d = mt_half_at(blocks), m = mt_half_at(blocks + 2);
        const unsigned char *fifths = blocks + 16;
        for (size_t group = 0; group < 8; group++) {
            float s, t;
            six_bit_scales(blocks + 4, group, &s, &t);
            const float step = d * s, low = m * t;
            const unsigned char *nibbles = blocks + 48 + group / 2 * 32;
            const unsigned shift = (unsigned)(group % 2 * 4), bit = (unsigned)group;
            for (size_t i = 0; i < 32; i++)
                out[32 * group + i] =
                    step * (float)((nibbles[i] >> shift & 15) | (fifths[i] >> bit & 1) << 4) - low;
        }
    }
}
MT_DEQUANTISE(q5_k)

/* Block: 128 bytes of low nibbles, 64 bytes of high bits, 16 signed scales, half d. A half of the block is
 * four runs of 32: the low nibbles of bytes 0 to 31 and of 32 to 63, then their high nibbles; byte i of the
 * half's 32 bytes of high bits has those of element i of each run, from its low bits up. */
MT_DEQUANTISE_BLOCKS void q6_k_blocks(const unsigned char *restrict blocks, size_t num_blocks,
                                      float *restrict out)
{
    for (; num_blocks; num_blocks--, blocks += 210, out += BLOCK) {
        const float d = mt_half_at(blocks + 208);
        for (size_t group = 0; group < 16; group++) {
            const size_t half = group / 8, run = group % 8 / 2, within = group % 2 * 16;
            const float step = d * (float)(int8_t)blocks[192 + group];
            const unsigned char *nibbles = blocks + 64 * half + run % 2 * 32 + within;
            const unsigned char *highs = blocks + 128 + 32 * half + within;
            const unsigned low_shift = (unsigned)(run / 2 * 4), high_shift = (unsigned)(run * 2);
            for (size_t i = 0; i < 16; i++)
                out[16 * group + i] =
                    step * (float)(((nibbles[i] >> low_shift & 15) | (highs[i] >> high_shift & 3) << 4) - 32);
        }
    }
}
MT_DEQUANTISE(q6_k)
