/* What the tests of agreement share: tensors that live on the CPU and on another device, cases by number, and
 * a count of which fields of an operation's arguments were met.
 *
 * The other device is the CUDA device where MEGATRAIN_CUDA_MODULE names a module, else the discrete CPU
 * device. Sizes are those at which kernels take another way: one token, 17 heads' worth of rows, rows that
 * fit vectors of 16 bytes and rows that do not, rows longer than a block of threads, strides with gaps (which
 * must stay as they were), addresses in the middle of a row.
 */
#ifndef MT_TEST_DEVICE_AGREEMENT_H
#define MT_TEST_DEVICE_AGREEMENT_H

#include "tests/unit/device/device_support.h"

extern struct rig rigs[2]; /* the CPU, and the other */
int open_both(void **state);
int close_both(void **state);

/* A tensor on both. */
struct pair {
    struct tensor t[2];
};

struct pair pair_random(enum mt_dtype dtype, size_t count, double scale, uint64_t seed);
struct pair pair_ints(size_t count, int32_t below, uint64_t seed);
void pairs_free(struct pair *pairs, size_t count);
#define PAIRS_FREE(pairs) pairs_free(pairs, sizeof(pairs) / sizeof *(pairs))

/* Both are pulled; every element counts, those between rows too. */
void agree_at(struct pair *pair, double tolerance, const char *what, const char *shape, const char *file,
              int line);
#define AGREE(pair, tolerance, name, shape) agree_at(&(pair), tolerance, name, shape, __FILE__, __LINE__)

#define ON_BOTH for (int d = 0; d < 2; d++)
#define RUN(operation, ...) assert_int_equal(rigs[d].api->operation(rigs[d].stream, &(__VA_ARGS__)), 0)

/* Two roundings of one value each: twice what one may be off by. */
static inline double twice(enum mt_dtype dtype)
{
    return 2 * tolerance_of(dtype);
}

const char *shape(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An address some elements into a tensor: vectors no longer fit. */
static inline void *into(const struct tensor *tensor, size_t elements)
{
    return (char *)tensor->at + elements * mt_dtype_bytes(tensor->dtype);
}

/* Which of an operation's choices case `number` makes: a bit each, in ever other combinations. */
static inline unsigned choices_of(size_t number, unsigned bits)
{
    return (unsigned)(((uint64_t)number + 1) * 0x9e3779b97f4a7c15u >> 36) & ((1u << bits) - 1);
}

/* Each choice was made and not made: every field was met with both values. */
struct met {
    unsigned on, off;
};

static inline void meet(struct met *met, unsigned choices)
{
    met->on |= choices;
    met->off |= ~choices;
}
#define ASSERT_ALL_MET(met, bits)                                                                            \
    assert_int_equal((met).on &(met).off &((1u << (bits)) - 1), (1u << (bits)) - 1)

#endif
