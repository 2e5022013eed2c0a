/* What each operation of the CPU device costs in a training step of SmolLM2-135M's shape (30 layers, hidden
 * 576, 9 heads, 3 key-value heads, intermediate 1536, vocabulary 49152 tied; 2 documents of 512 tokens;
 * recomputation on), beside OpenBLAS alone, with its own threads, doing the same matrix products.
 *
 * The operations of one layer (forward, forward again, backward) and of the head run in the order of a step,
 * each timed; then the products alone, in the same order. Pairs of such runs alternate, so that a busy
 * machine slows both; figures are medians over pairs. Attention's own products are not in the roof: the whole
 * step's ratio is the lower for it.
 */
#include "core/base/pool.h"
#include "core/base/time.h"
#include "core/device/open.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAYERS = 30,
    HIDDEN = 576,
    HEADS = 9,
    KV_HEADS = 3,
    DIM = 64,
    KV = KV_HEADS * DIM,
    INTERMEDIATE = 1536,
    VOCAB = 49152,
    TOKENS = 1024,
    CHUNK = 256, /* tokens of the head at a time */
    PAIRS = 7,
    MOST = 64,
};

static const int32_t document_starts[] = {0, 512, 1024};

struct operation {
    const char *name;
    double times;               /* in a step */
    double seconds[PAIRS];      /* of one */
    double roof_seconds[PAIRS]; /* of its product, once */
    size_t m, n, k;             /* 0: no product */
    int kind;                   /* of the product: 0 a b^T, 1 a b, 2 a^T b */
};

struct bench {
    struct mt_device *device;
    struct mt_stream *stream;
    struct operation operations[MOST];
    size_t count, pair, next;
    float *roof_a, *roof_b, *roof_c;
};

static float *floats(size_t count, float scale)
{
    float *values = aligned_alloc(4096, (count * sizeof *values + 4095) / 4096 * 4096);
    if (!values)
        exit(1);
    for (size_t i = 0; i < count; i++)
        values[i] = scale * ((float)((i * 2654435761u >> 8) % 2048) / 1024.0f - 1.0f);
    return values;
}

/* Times what `call` put into the stream, as the next operation of the step. */
static void timed(struct bench *b, const char *name, double times, int kind, size_t m, size_t n, size_t k,
                  int code, double start)
{
    struct mt_error error;
    if (code || b->device->api->stream_synchronize(b->stream, &error)) {
        fprintf(stderr, "%s failed (%d): %s\n", name, code, b->device->api->last_error(b->device));
        exit(1);
    }
    struct operation *operation = &b->operations[b->next++];
    operation->name = name;
    operation->times = times;
    operation->kind = kind;
    operation->m = m;
    operation->n = n;
    operation->k = k;
    operation->seconds[b->pair] = mt_time_monotonic() - start;
    b->count = b->next;
}

#define PLAIN(times, operation, ...)                                                                         \
    do {                                                                                                     \
        const double start_ = mt_time_monotonic();                                                           \
        const int code_ =                                                                                    \
            b->device->api->operation(b->stream, &(struct mt_##operation##_args){__VA_ARGS__});              \
        timed(b, #operation, times, 0, 0, 0, 0, code_, start_);                                              \
    } while (0)

/* y = x W^T, dx = dy W, dW = dy^T x for W [o, i]. */
static void linear(struct bench *b, double times, size_t tokens, size_t i, size_t o, const float *x,
                   const float *w, float *y, bool accumulate)
{
    const double start = mt_time_monotonic();
    const int code = b->device->api->linear(b->stream, &(struct mt_linear_args){.x = x,
                                                                                .weight = w,
                                                                                .y = y,
                                                                                .tokens = tokens,
                                                                                .in_features = i,
                                                                                .out_features = o,
                                                                                .accumulate = accumulate});
    timed(b, "linear", times, 0, tokens, o, i, code, start);
}

static void linear_backward(struct bench *b, double times, size_t tokens, size_t i, size_t o, const float *x,
                            const float *w, const float *dy, float *dx, float *dw, bool accumulate)
{
    double start = mt_time_monotonic();
    int code = b->device->api->linear_backward_input(
        b->stream, &(struct mt_linear_backward_input_args){.dy = dy,
                                                           .weight = w,
                                                           .dx = dx,
                                                           .tokens = tokens,
                                                           .in_features = i,
                                                           .out_features = o,
                                                           .accumulate = accumulate});
    timed(b, "linear_backward_input", times, 1, tokens, i, o, code, start);
    start = mt_time_monotonic();
    code = b->device->api->linear_backward_weight(
        b->stream, &(struct mt_linear_backward_weight_args){.dy = dy,
                                                            .x = x,
                                                            .dweight = dw,
                                                            .tokens = tokens,
                                                            .in_features = i,
                                                            .out_features = o,
                                                            .accumulate = false});
    timed(b, "linear_backward_weight", times, 2, o, i, tokens, code, start);
}

/* Buffers of a layer and of the head. */
struct buffers {
    float *x, *normed, *rstd, *q, *k, *v, *attended, *lse, *gate, *up, *gated;
    float *dx, *dnormed, *dq, *dk, *dv, *dattended, *dgate, *dup, *dgated;
    float *w_q, *w_k, *w_v, *w_o, *w_gate, *w_up, *w_down, *w_norm, *dw;
    float *cos, *sin, *workspace;
    float *table, *dtable, *logits, *max, *sum, *target, *losses, *dwide;
    int32_t *positions, *labels;
    double *loss;
};

static struct buffers make_buffers(void)
{
    struct buffers s = {
        .x = floats(TOKENS * HIDDEN, 1),
        .normed = floats(TOKENS * HIDDEN, 1),
        .rstd = floats(TOKENS, 1),
        .q = floats(TOKENS * HIDDEN, 1),
        .k = floats(TOKENS * KV, 1),
        .v = floats(TOKENS * KV, 1),
        .attended = floats(TOKENS * HIDDEN, 1),
        .lse = floats(TOKENS * HEADS, 1),
        .gate = floats(TOKENS * INTERMEDIATE, 1),
        .up = floats(TOKENS * INTERMEDIATE, 1),
        .gated = floats(TOKENS * INTERMEDIATE, 1),
        .dx = floats(TOKENS * HIDDEN, 1),
        .dnormed = floats(TOKENS * HIDDEN, 1),
        .dq = floats(TOKENS * HIDDEN, 1),
        .dk = floats(TOKENS * KV, 1),
        .dv = floats(TOKENS * KV, 1),
        .dattended = floats(TOKENS * HIDDEN, 1),
        .dgate = floats(TOKENS * INTERMEDIATE, 1),
        .dup = floats(TOKENS * INTERMEDIATE, 1),
        .dgated = floats(TOKENS * INTERMEDIATE, 1),
        .w_q = floats(HIDDEN * HIDDEN, 0.04f),
        .w_k = floats(KV * HIDDEN, 0.04f),
        .w_v = floats(KV * HIDDEN, 0.04f),
        .w_o = floats(HIDDEN * HIDDEN, 0.04f),
        .w_gate = floats(HIDDEN * INTERMEDIATE, 0.04f),
        .w_up = floats(HIDDEN * INTERMEDIATE, 0.04f),
        .w_down = floats(HIDDEN * INTERMEDIATE, 0.04f),
        .w_norm = floats(HIDDEN, 1),
        .dw = floats(HIDDEN * INTERMEDIATE, 1),
        .cos = floats(512 * DIM / 2, 1),
        .sin = floats(512 * DIM / 2, 1),
        .table = floats((size_t)VOCAB * HIDDEN, 0.04f),
        .dtable = floats((size_t)VOCAB * HIDDEN, 0),
        .logits = floats((size_t)CHUNK * VOCAB, 1),
        .max = floats(CHUNK, 1),
        .sum = floats(CHUNK, 1),
        .target = floats(CHUNK, 1),
        .losses = floats(CHUNK, 1),
        .dwide = floats(TOKENS * HIDDEN, 1),
        .positions = calloc(TOKENS, sizeof(int32_t)),
        .labels = calloc(TOKENS, sizeof(int32_t)),
        .loss = calloc(1, sizeof(double)),
    };
    for (int t = 0; t < TOKENS; t++) {
        s.positions[t] = t % 512;
        s.labels[t] = (t * 7919) % VOCAB;
    }
    return s;
}

static struct mt_attention_args attention_args(const struct buffers *s)
{
    return (struct mt_attention_args){.q = s->q,
                                      .k = s->k,
                                      .v = s->v,
                                      .out = s->attended,
                                      .lse = s->lse,
                                      .document_starts = document_starts,
                                      .workspace = s->workspace,
                                      .num_documents = 2,
                                      .num_heads = HEADS,
                                      .num_kv_heads = KV_HEADS,
                                      .head_dim = DIM,
                                      .scale = 0.125f};
}

static void rope_both(struct bench *b, double times, float *q, float *k, const struct buffers *s,
                      bool inverse)
{
    PLAIN(times, rope, .x = q, .positions = s->positions, .cos = s->cos, .sin = s->sin, .tokens = TOKENS,
          .heads = HEADS, .head_dim = DIM, .rotary_dim = DIM, .num_positions = 512, .inverse = inverse);
    PLAIN(times, rope, .x = k, .positions = s->positions, .cos = s->cos, .sin = s->sin, .tokens = TOKENS,
          .heads = KV_HEADS, .head_dim = DIM, .rotary_dim = DIM, .num_positions = 512, .inverse = inverse);
}

static void layer_forward(struct bench *b, const struct buffers *s)
{
    const double times = 2 * LAYERS; /* recomputed in the backward pass */
    const struct mt_attention_args attention = attention_args(s);
    PLAIN(times, rms_norm, .x = s->x, .weight = s->w_norm, .y = s->normed, .rstd = s->rstd, .rows = TOKENS,
          .cols = HIDDEN, .eps = 1e-5f);
    linear(b, times, TOKENS, HIDDEN, HIDDEN, s->normed, s->w_q, s->q, false);
    linear(b, times, TOKENS, HIDDEN, KV, s->normed, s->w_k, s->k, false);
    linear(b, times, TOKENS, HIDDEN, KV, s->normed, s->w_v, s->v, false);
    rope_both(b, times, s->q, s->k, s, false);
    const double start = mt_time_monotonic();
    const int code = b->device->api->attention(b->stream, &attention);
    timed(b, "attention", times, 0, 0, 0, 0, code, start);
    linear(b, times, TOKENS, HIDDEN, HIDDEN, s->attended, s->w_o, s->dwide, true);
    PLAIN(times, rms_norm, .x = s->x, .weight = s->w_norm, .y = s->normed, .rstd = s->rstd, .rows = TOKENS,
          .cols = HIDDEN, .eps = 1e-5f);
    linear(b, times, TOKENS, HIDDEN, INTERMEDIATE, s->normed, s->w_gate, s->gate, false);
    linear(b, times, TOKENS, HIDDEN, INTERMEDIATE, s->normed, s->w_up, s->up, false);
    PLAIN(times, gated_activation, .gate = s->gate, .up = s->up, .out = s->gated, .rows = TOKENS,
          .cols = INTERMEDIATE);
    linear(b, times, TOKENS, INTERMEDIATE, HIDDEN, s->gated, s->w_down, s->dwide, true);
}

static void layer_backward(struct bench *b, const struct buffers *s)
{
    const double times = LAYERS;
    linear_backward(b, times, TOKENS, INTERMEDIATE, HIDDEN, s->gated, s->w_down, s->dx, s->dgated, s->dw,
                    false);
    PLAIN(times, gated_activation_backward, .gate = s->gate, .up = s->up, .dout = s->dgated,
          .dgate = s->dgate, .dup = s->dup, .rows = TOKENS, .cols = INTERMEDIATE);
    linear_backward(b, times, TOKENS, HIDDEN, INTERMEDIATE, s->normed, s->w_up, s->dup, s->dnormed, s->dw,
                    false);
    linear_backward(b, times, TOKENS, HIDDEN, INTERMEDIATE, s->normed, s->w_gate, s->dgate, s->dnormed, s->dw,
                    true);
    PLAIN(times, rms_norm_backward, .x = s->x, .weight = s->w_norm, .dy = s->dnormed, .rstd = s->rstd,
          .dx = s->dwide, .dweight = s->dw, .rows = TOKENS, .cols = HIDDEN, .accumulate_dx = true);
    linear_backward(b, times, TOKENS, HIDDEN, HIDDEN, s->attended, s->w_o, s->dx, s->dattended, s->dw, false);
    const double start = mt_time_monotonic();
    const int code = b->device->api->attention_backward(
        b->stream,
        &(struct mt_attention_backward_args){
            .forward = attention_args(s), .dout = s->dattended, .dq = s->dq, .dk = s->dk, .dv = s->dv});
    timed(b, "attention_backward", times, 0, 0, 0, 0, code, start);
    rope_both(b, times, s->dq, s->dk, s, true);
    linear_backward(b, times, TOKENS, HIDDEN, HIDDEN, s->normed, s->w_q, s->dq, s->dnormed, s->dw, false);
    linear_backward(b, times, TOKENS, HIDDEN, KV, s->normed, s->w_k, s->dk, s->dnormed, s->dw, true);
    linear_backward(b, times, TOKENS, HIDDEN, KV, s->normed, s->w_v, s->dv, s->dnormed, s->dw, true);
    PLAIN(times, rms_norm_backward, .x = s->x, .weight = s->w_norm, .dy = s->dnormed, .rstd = s->rstd,
          .dx = s->dwide, .dweight = s->dw, .rows = TOKENS, .cols = HIDDEN, .accumulate_dx = true);
}

static void head(struct bench *b, const struct buffers *s)
{
    const size_t chunks = TOKENS / CHUNK;
    const double times = (double)chunks;
    linear(b, times, CHUNK, HIDDEN, VOCAB, s->normed, s->table, s->logits, false);
    PLAIN(times, cross_entropy_statistics, .logits = s->logits, .labels = s->labels, .max = s->max,
          .sum = s->sum, .target = s->target, .rows = CHUNK, .cols = VOCAB, .vocab_size = VOCAB,
          .first = true);
    PLAIN(times, cross_entropy_finish, .max = s->max, .sum = s->sum, .target = s->target, .labels = s->labels,
          .lse = s->max, .losses = s->losses, .loss_sum = s->loss, .rows = CHUNK);
    PLAIN(times, cross_entropy_backward, .logits = s->logits, .labels = s->labels, .lse = s->max,
          .rows = CHUNK, .cols = VOCAB, .grad_scale = 1.0f / TOKENS);
    linear_backward(b, times, CHUNK, HIDDEN, VOCAB, s->normed, s->table, s->logits, s->dnormed, s->dtable,
                    false);
    PLAIN(1, sum_squares, .x = s->dtable, .sum = s->loss, .count = (size_t)VOCAB * HIDDEN);
    PLAIN(1, embedding, .ids = s->labels, .table = s->table, .out = s->x, .tokens = TOKENS, .hidden = HIDDEN,
          .vocab_size = VOCAB);
    PLAIN(1, embedding_backward, .ids = s->labels, .dout = s->dnormed, .dtable = s->dtable, .tokens = TOKENS,
          .hidden = HIDDEN, .vocab_size = VOCAB);
}

/* The same products by the library alone. */
static void roof(struct bench *b, size_t threads)
{
    openblas_set_num_threads((int)threads);
    for (size_t i = 0; i < b->count; i++) {
        struct operation *o = &b->operations[i];
        if (!o->m)
            continue;
        const blasint m = (blasint)o->m, n = (blasint)o->n, k = (blasint)o->k;
        const double start = mt_time_monotonic();
        cblas_sgemm(CblasRowMajor, o->kind == 2 ? CblasTrans : CblasNoTrans,
                    o->kind == 0 ? CblasTrans : CblasNoTrans, m, n, k, 1, b->roof_a, o->kind == 2 ? m : k,
                    b->roof_b, o->kind == 0 ? k : n, 0, b->roof_c, n);
        o->roof_seconds[b->pair] = mt_time_monotonic() - start;
    }
    openblas_set_num_threads(1);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double values[PAIRS])
{
    double sorted[PAIRS];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, PAIRS, sizeof *sorted, by_value);
    return sorted[PAIRS / 2];
}

static bool line(const char *name, double value, const char *unit, double limit)
{
    const bool pass = value >= limit;
    printf("bench %s %.3f %s %.2f %s\n", name, value, unit, limit, pass ? "pass" : "fail");
    return pass;
}

/* One line an operation of a name: all calls of a step together. */
static void report(const struct bench *b, double step_seconds)
{
    printf("%-28s %8s %8s %8s %8s\n", "operation (all of a step)", "ms", "share", "roof ms", "roof/ms");
    for (size_t i = 0; i < b->count; i++) {
        const char *name = b->operations[i].name;
        double seconds = 0, roof_seconds = 0;
        bool seen = false;
        for (size_t j = 0; j < b->count; j++) {
            if (strcmp(b->operations[j].name, name))
                continue;
            seen = seen || j < i;
            seconds += b->operations[j].times * median(b->operations[j].seconds);
            roof_seconds += b->operations[j].times * median(b->operations[j].roof_seconds);
        }
        if (seen)
            continue;
        printf("%-28s %8.1f %7.1f%%", name, 1e3 * seconds, 100 * seconds / step_seconds);
        if (roof_seconds > 0)
            printf(" %8.1f %8.3f", 1e3 * roof_seconds, roof_seconds / seconds);
        printf("\n");
    }
}

static void details(const struct bench *b)
{
    printf("%-28s %8s %8s %8s\n", "product (m n k, one)", "ms", "roof ms", "roof/ms");
    for (size_t i = 0; i < b->count; i++) {
        const struct operation *o = &b->operations[i];
        if (!o->m)
            continue;
        const double seconds = median(o->seconds), roof_seconds = median(o->roof_seconds);
        printf("%-6s %5zu %5zu %5zu     %8.2f %8.2f %8.3f\n",
               (const char *[]){"a b^T", "a b", "a^T b"}[o->kind], o->m, o->n, o->k, 1e3 * seconds,
               1e3 * roof_seconds, roof_seconds / seconds);
    }
}

int main(int argc, char **argv)
{
    struct bench *b = calloc(1, sizeof *b);
    struct mt_pool *pool = mt_pool_new(0);
    struct mt_error error;
    if (!b || !pool || mt_device_open("cpu", &(struct mt_device_options){.pool = pool}, &b->device, &error) ||
        b->device->api->stream_create(b->device, "bench", &b->stream, &error)) {
        fprintf(stderr, "cannot open the device\n");
        return 1;
    }
    struct buffers s = make_buffers();
    const struct mt_attention_args attention = attention_args(&s);
    s.workspace =
        floats(b->device->api->attention_workspace_bytes(b->device, &attention, true) / sizeof(float) + 1, 0);
    b->roof_a = floats((size_t)VOCAB * TOKENS, 1);
    b->roof_b = floats((size_t)VOCAB * HIDDEN, 1);
    b->roof_c = floats((size_t)VOCAB * TOKENS, 1);
    double step[PAIRS] = {0}, step_roof[PAIRS] = {0}, linear_roof[PAIRS] = {0};
    for (int warm = 1; warm >= 0; warm--) /* the first pass only warms up */
        for (b->pair = 0; b->pair < (warm ? 1 : PAIRS); b->pair++) {
            b->next = 0;
            layer_forward(b, &s);
            layer_backward(b, &s);
            head(b, &s);
            roof(b, mt_pool_threads(pool));
            double all = 0, products = 0, products_roof = 0;
            for (size_t i = 0; i < b->count; i++) {
                const struct operation *o = &b->operations[i];
                all += o->times * o->seconds[b->pair];
                products += o->m ? o->times * o->seconds[b->pair] : 0;
                products_roof += o->m ? o->times * o->roof_seconds[b->pair] : 0;
            }
            step[b->pair] = all;
            step_roof[b->pair] = products_roof / all;
            linear_roof[b->pair] = products_roof / products;
        }
    report(b, median(step));
    if (argc > 1 && !strcmp(argv[1], "--details"))
        details(b);
    printf("a step: %.2f s, %.0f tokens/s\n", median(step), TOKENS / median(step));
    const bool linear_pass = line("device_linear_roof_ratio", median(linear_roof), "ratio", 0.95);
    const bool step_pass = line("device_step_roof_ratio", median(step_roof), "ratio", 0.78);
    b->device->api->stream_destroy(b->stream);
    mt_device_close(b->device);
    mt_pool_free(pool);
    return linear_pass && step_pass ? 0 : 1;
}
