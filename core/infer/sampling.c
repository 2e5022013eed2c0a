/* sampling.c: greedy, temperature, top-k and top-p. Candidates are ordered by logit and then by id, so that
 * equal logits never make the result depend on the sort. */
#include "core/infer/sampling.h"

#include <math.h>
#include <stdlib.h>

static int by_logit(const void *a, const void *b)
{
    const struct mt_sampling_entry *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int32_t choose_greedy(const float *logits, size_t vocab_size)
{
    int32_t best = -1;
    for (size_t i = 0; i < vocab_size; i++) {
        if (isfinite(logits[i]) && (best < 0 || logits[i] > logits[best]))
            best = (int32_t)i;
    }
    return best;
}

int32_t mt_sampling_choose(const struct mt_sampling *sampling, const float *logits, size_t vocab_size,
                           struct mt_random *random, struct mt_sampling_entry *scratch)
{
    if (!(sampling->temperature > 0))
        return choose_greedy(logits, vocab_size);
    size_t count = 0;
    for (size_t i = 0; i < vocab_size; i++) {
        if (isfinite(logits[i]))
            scratch[count++] = (struct mt_sampling_entry){logits[i], (int32_t)i};
    }
    if (count == 0)
        return -1;
    qsort(scratch, count, sizeof *scratch, by_logit);
    if (sampling->top_k > 0 && sampling->top_k < count)
        count = sampling->top_k;
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += exp(((double)scratch[i].logit - (double)scratch[0].logit) / sampling->temperature);
    double kept = 0;
    size_t end = 0;
    while (end < count && (end == 0 || kept < sampling->top_p * total))
        kept += exp(((double)scratch[end++].logit - (double)scratch[0].logit) / sampling->temperature);
    double target = mt_random_uniform(random) * kept, sum = 0;
    for (size_t i = 0; i < end; i++) {
        sum += exp(((double)scratch[i].logit - (double)scratch[0].logit) / sampling->temperature);
        if (target < sum)
            return scratch[i].id;
    }
    return scratch[end - 1].id;
}
