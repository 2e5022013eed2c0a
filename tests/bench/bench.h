/* What benchmarks share: medians of interleaved pairs, and the line that is printed for each figure. */
#ifndef MT_TESTS_BENCH_H
#define MT_TESTS_BENCH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bench_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double bench_median(const double *values, size_t count)
{
    double *sorted = malloc(count * sizeof *sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, bench_compare);
    const double median = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
    free(sorted);
    return median;
}

/* bench NAME VALUE UNIT LIMIT pass|fail */
static inline bool bench_at_least(const char *name, double value, const char *unit, double limit)
{
    printf("bench %s %.4g %s >=%.4g %s\n", name, value, unit, limit, value >= limit ? "pass" : "fail");
    return value >= limit;
}

static inline bool bench_at_most(const char *name, double value, const char *unit, double limit)
{
    printf("bench %s %.5g %s <=%.5g %s\n", name, value, unit, limit, value <= limit ? "pass" : "fail");
    return value <= limit;
}

/* A figure without a limit of its own. */
static inline void bench_note(const char *name, double value, const char *unit)
{
    printf("bench %s %.4g %s - pass\n", name, value, unit);
}

#endif
