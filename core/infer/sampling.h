/* Choosing the next token from logits. */
#ifndef MT_INFER_SAMPLING_H
#define MT_INFER_SAMPLING_H

#include "core/base/random.h"

#include <stddef.h>
#include <stdint.h>

struct mt_sampling {
    double temperature; /* 0: greedy */
    size_t top_k;       /* 0: all */
    double top_p;       /* (0, 1]; 1: all */
};

/* Greedy: the largest logit, the smallest id among equals. Else softmax(logits / temperature) cut to the
 * top_k likeliest, of those to the smallest set whose probabilities reach top_p (Holtzman et al., 2020), and
 * drawn by `random`. `scratch` holds vocab_size entries. Returns -1 when no logit is finite. */
struct mt_sampling_entry {
    float logit;
    int32_t id;
};
int32_t mt_sampling_choose(const struct mt_sampling *sampling, const float *logits, size_t vocab_size,
                           struct mt_random *random, struct mt_sampling_entry *scratch);

#endif
