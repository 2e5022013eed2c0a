#include "core/optim/norm.h"

#include "core/base/cleanup.h"
#include "core/base/size.h"

#include <errno.h>

#define BLOCK ((size_t)1 << 15)
#define LANES 8u

struct work {
    const float *values;
    size_t count;
    double *sums; /* [blocks] */
};

static void sum_block(void *context, size_t task)
{
    struct work *work = context;
    const float *values = work->values + task * BLOCK;
    const size_t count = mt_size_min(BLOCK, work->count - task * BLOCK);
    double lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            lanes[lane] += (double)values[i + lane] * (double)values[i + lane];
    for (; i < count; i++)
        lanes[0] += (double)values[i] * (double)values[i];
    double sum = 0;
    for (size_t lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    work->sums[task] = sum;
}

int mt_norm_sum_squares(const float *values, size_t count, struct mt_pool *pool, double *sum)
{
    const size_t blocks = mt_size_ceil_div(count, BLOCK);
    mt_autofree double *sums = calloc(blocks ? blocks : 1, sizeof *sums);
    *sum = 0;
    if (!sums)
        return -ENOMEM;
    struct work work = {.values = values, .count = count, .sums = sums};
    mt_pool_run(pool, blocks, sum_block, &work);
    for (size_t i = 0; i < blocks; i++)
        *sum += sums[i];
    return 0;
}
