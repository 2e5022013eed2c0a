/* The sum of squares of a gradient on the host, in fp64 by fixed blocks: bits do not depend on threads. For
 * gradients that are finished on the host (the embedding's); the others are summed where they are finished,
 * on the device. */
#ifndef MT_OPTIM_NORM_H
#define MT_OPTIM_NORM_H

#include "core/base/pool.h"

#include <stddef.h>

/* Not finite when any value is not. 0 with *sum, or -ENOMEM. */
int mt_norm_sum_squares(const float *values, size_t count, struct mt_pool *pool, double *sum);

#endif
