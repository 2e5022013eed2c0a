/* Checked arithmetic on sizes that come from a file, a job or the network. Each returns false on overflow. */
#ifndef MT_BASE_SIZE_H
#define MT_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool mt_size_add(size_t a, size_t b, size_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

static inline bool mt_size_mul(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

/* Rounds up to a multiple of `alignment`, a power of two. */
static inline bool mt_size_align(size_t value, size_t alignment, size_t *aligned)
{
    size_t sum;
    if (!mt_size_add(value, alignment - 1, &sum))
        return false;
    *aligned = sum & ~(alignment - 1);
    return true;
}

static inline size_t mt_size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t mt_size_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* a / b rounded up; b > 0. */
static inline size_t mt_size_ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* Parses "64MiB", "24G", "1024", "1.5GiB" (K, M, G, T are binary with or without iB; kB, MB, GB, TB decimal).
 * 0, or -EINVAL / -ERANGE. */
int mt_size_parse(const char *text, size_t *bytes);

/* Writes "1.5 GiB" and the like; returns `buffer`. */
const char *mt_size_format(size_t bytes, char *buffer, size_t buffer_bytes);

#endif
