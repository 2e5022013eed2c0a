/* The numeric types of GGUF tensors: names, block sizes, and which are read. */
#include "core/formats/gguf_types.h"

#include "core/base/file.h"
#include "core/base/size.h"

#include <errno.h>
#include <string.h>

#define NUM_TYPES 41
#define MAX_BLOCK_ELEMENTS 256
#define MAX_BLOCK_BYTES 292
#define BUFFER_BYTES ((size_t)1 << 16) /* stays in a core's cache */

/* Types by number; those without a function are known by name and size alone, so that a file that has some
 * can be shown. */
static const struct mt_gguf_type_info types[NUM_TYPES] = {
    [MT_GGUF_TYPE_F32] = {"F32", 1, 4, NULL},
    [MT_GGUF_TYPE_F16] = {"F16", 1, 2, mt_dequantise_f16},
    [MT_GGUF_TYPE_Q4_0] = {"Q4_0", 32, 18, mt_dequantise_q4_0},
    [MT_GGUF_TYPE_Q4_1] = {"Q4_1", 32, 20, mt_dequantise_q4_1},
    [MT_GGUF_TYPE_Q5_0] = {"Q5_0", 32, 22, mt_dequantise_q5_0},
    [MT_GGUF_TYPE_Q5_1] = {"Q5_1", 32, 24, mt_dequantise_q5_1},
    [MT_GGUF_TYPE_Q8_0] = {"Q8_0", 32, 34, mt_dequantise_q8_0},
    [9] = {"Q8_1", 32, 36, NULL},
    [MT_GGUF_TYPE_Q2_K] = {"Q2_K", 256, 84, mt_dequantise_q2_k},
    [MT_GGUF_TYPE_Q3_K] = {"Q3_K", 256, 110, mt_dequantise_q3_k},
    [MT_GGUF_TYPE_Q4_K] = {"Q4_K", 256, 144, mt_dequantise_q4_k},
    [MT_GGUF_TYPE_Q5_K] = {"Q5_K", 256, 176, mt_dequantise_q5_k},
    [MT_GGUF_TYPE_Q6_K] = {"Q6_K", 256, 210, mt_dequantise_q6_k},
    [15] = {"Q8_K", 256, 292, NULL},
    [16] = {"IQ2_XXS", 256, 66, NULL},
    [17] = {"IQ2_XS", 256, 74, NULL},
    [18] = {"IQ3_XXS", 256, 98, NULL},
    [19] = {"IQ1_S", 256, 50, NULL},
    [20] = {"IQ4_NL", 32, 18, NULL},
    [21] = {"IQ3_S", 256, 110, NULL},
    [22] = {"IQ2_S", 256, 82, NULL},
    [23] = {"IQ4_XS", 256, 136, NULL},
    [24] = {"I8", 1, 1, NULL},
    [25] = {"I16", 1, 2, NULL},
    [26] = {"I32", 1, 4, NULL},
    [27] = {"I64", 1, 8, NULL},
    [28] = {"F64", 1, 8, NULL},
    [29] = {"IQ1_M", 256, 56, NULL},
    [MT_GGUF_TYPE_BF16] = {"BF16", 1, 2, mt_dequantise_bf16},
    [34] = {"TQ1_0", 256, 54, NULL},
    [35] = {"TQ2_0", 256, 66, NULL},
    [39] = {"MXFP4", 32, 17, NULL},
    [40] = {"NVFP4", 64, 36, NULL},
};

const struct mt_gguf_type_info *mt_gguf_type_find(uint32_t type)
{
    return type < NUM_TYPES && types[type].name ? &types[type] : NULL;
}

const char *mt_gguf_type_name(uint32_t type)
{
    const struct mt_gguf_type_info *info = mt_gguf_type_find(type);
    return info ? info->name : NULL;
}

bool mt_gguf_type_is_read(uint32_t type)
{
    const struct mt_gguf_type_info *info = mt_gguf_type_find(type);
    return info && (info->dequantise || type == MT_GGUF_TYPE_F32);
}

/* Part of the block at `at`, through a whole one. */
static int read_part(const struct mt_gguf_type_info *info, int fd, off_t at, size_t first, size_t count,
                     float *out)
{
    unsigned char block[MAX_BLOCK_BYTES];
    float whole[MAX_BLOCK_ELEMENTS];
    int r = mt_fd_pread_all(fd, block, info->bytes, at);
    if (r < 0)
        return r;
    info->dequantise(block, 1, whole);
    memcpy(out, whole + first, count * sizeof *out);
    return 0;
}

static int read_blocks(const struct mt_gguf_type_info *info, int fd, off_t at, size_t blocks, float *out)
{
    unsigned char buffer[BUFFER_BYTES];
    while (blocks > 0) {
        const size_t part = mt_size_min(sizeof buffer / info->bytes, blocks);
        int r = mt_fd_pread_all(fd, buffer, part * info->bytes, at);
        if (r < 0)
            return r;
        info->dequantise(buffer, part, out);
        at += (off_t)(part * info->bytes);
        out += part * info->elements;
        blocks -= part;
    }
    return 0;
}

int mt_gguf_read_f32(const struct mt_gguf_tensor *tensor, size_t first, size_t count, float *out)
{
    const struct mt_gguf_type_info *info = mt_gguf_type_find(tensor->type);
    if (!mt_gguf_type_is_read(tensor->type))
        return -ENOTSUP;
    if (first > tensor->elements || count > tensor->elements - first)
        return -ERANGE;
    off_t at = (off_t)(tensor->offset + first / info->elements * info->bytes);
    if (!info->dequantise)
        return mt_fd_pread_all(tensor->fd, out, count * sizeof *out, at);
    const size_t begin = first % info->elements;
    if (begin && count) {
        const size_t part = mt_size_min(info->elements - begin, count);
        int r = read_part(info, tensor->fd, at, begin, part, out);
        if (r < 0)
            return r;
        at += (off_t)info->bytes;
        out += part;
        count -= part;
    }
    const size_t blocks = count / info->elements, rest = count % info->elements;
    int r = read_blocks(info, tensor->fd, at, blocks, out);
    if (r < 0 || !rest)
        return r;
    return read_part(info, tensor->fd, at + (off_t)(blocks * info->bytes), 0, rest,
                     out + blocks * info->elements);
}
