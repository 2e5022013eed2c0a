/* Another device agrees with the CPU, operation by operation: products, attention and the loss. */
#include "tests/unit/device/agreement.h"

/* ---- products ---- */

enum {
    LINEAR_BF16 = 1,
    LINEAR_ADDED = 2,
    LINEAR_BIAS = 4,
    LINEAR_CAPPED = 8,
    LINEAR_GAPS = 16,
    LINEAR_TRANSPOSED = 32, /* the weight, and forward only */
    LINEAR_PART = 64,       /* of a wider weight, forward only */
    LINEAR_WIDE_DX = 128,
    LINEAR_DWEIGHT = 256,
    LINEAR_ODD = 512, /* addresses of parameters and their gradients */
    LINEAR_BITS = 10,
};

static void linear(size_t tokens, size_t in, size_t out, size_t gap, unsigned choices)
{
    const enum mt_dtype dtype = choices & LINEAR_BF16 ? MT_BF16 : MT_F32;
    const bool added = choices & LINEAR_ADDED, bias = choices & LINEAR_BIAS, wide = choices & LINEAR_WIDE_DX;
    const bool gaps = choices & LINEAR_GAPS, transposed = choices & LINEAR_TRANSPOSED;
    const bool dweight = choices & LINEAR_DWEIGHT;
    const size_t x_stride = in + (gaps ? gap : 0), y_stride = out + (gaps ? gap : 0);
    const size_t weight_stride = (transposed ? out : in) + (choices & LINEAR_PART ? gap : 0);
    const size_t odd = choices & LINEAR_ODD ? 1 : 0;
    struct pair p[] = {pair_random(dtype, tokens * x_stride, 1, 1),
                       pair_random(dtype, (transposed ? in : out) * weight_stride + 1, 0.5, 2),
                       pair_random(dtype, out + 1, 1, 3),
                       pair_random(dtype, tokens * y_stride, 1, 4),
                       pair_random(dtype, tokens * y_stride, 1, 5),
                       pair_random(wide ? MT_F32 : dtype, tokens * x_stride, 1, 6),
                       pair_random(MT_F32, out * in + 1, 1, 7),
                       pair_random(MT_F32, out + 1, 1, 8),
                       pair_random(dtype, out * in + 1, 0.5, 9)};
    ON_BOTH RUN(linear, (struct mt_linear_args){.x = p[0].t[d].at,
                                                .weight = into(&p[1].t[d], odd),
                                                .bias = bias ? into(&p[2].t[d], odd) : NULL,
                                                .y = p[3].t[d].at,
                                                .tokens = tokens,
                                                .in_features = in,
                                                .out_features = out,
                                                .x_stride = gaps ? x_stride : 0,
                                                .y_stride = gaps ? y_stride : 0,
                                                .accumulate = added,
                                                .softcap = choices & LINEAR_CAPPED ? 5.0f : 0.0f,
                                                .weight_transposed = transposed,
                                                .weight_stride = choices & LINEAR_PART ? weight_stride : 0,
                                                .dtype = dtype});
    const char *what =
        shape("linear, %zu tokens, %zu to %zu, gap %zu, choices %x", tokens, in, out, gap, choices);
    AGREE(p[3], twice(dtype), "y", what);
    ON_BOTH RUN(linear_backward_input,
                (struct mt_linear_backward_input_args){.dy = p[4].t[d].at,
                                                       .weight = into(&p[8].t[d], odd),
                                                       .dx = p[5].t[d].at,
                                                       .tokens = tokens,
                                                       .in_features = in,
                                                       .out_features = out,
                                                       .dy_stride = gaps ? y_stride : 0,
                                                       .dx_stride = gaps ? x_stride : 0,
                                                       .accumulate = added,
                                                       .wide_dx = wide,
                                                       .dtype = dtype});
    AGREE(p[5], wide ? 2e-5 : twice(dtype), "dx", what);
    ON_BOTH
    {
        RUN(linear_backward_weight,
            (struct mt_linear_backward_weight_args){.dy = p[4].t[d].at,
                                                    .x = p[0].t[d].at,
                                                    .dweight = dweight ? into(&p[6].t[d], odd) : NULL,
                                                    .dbias = bias ? into(&p[7].t[d], odd) : NULL,
                                                    .tokens = tokens,
                                                    .in_features = in,
                                                    .out_features = out,
                                                    .dy_stride = gaps ? y_stride : 0,
                                                    .x_stride = gaps ? x_stride : 0,
                                                    .accumulate = added,
                                                    .dtype = dtype});
    }
    AGREE(p[6], 2e-5, "dweight", what);
    AGREE(p[7], 2e-5, "dbias", what);
    PAIRS_FREE(p);
}

static void products_agree(void **state)
{
    (void)state;
    static const size_t shapes[][4] = {{1, 1, 1, 1},       {1, 64, 128, 8},  {17, 7, 13, 1},
                                       {130, 64, 200, 8},  {33, 129, 65, 3}, {5, 128, 64, 8},
                                       {257, 40, 1027, 5}, {40, 72, 96, 8}};
    struct met met = {0};
    for (size_t i = 0; i < 10 * sizeof shapes / sizeof *shapes; i++) {
        const unsigned choices = choices_of(i, LINEAR_BITS);
        meet(&met, choices);
        linear(shapes[i / 10][0], shapes[i / 10][1], shapes[i / 10][2], shapes[i / 10][3], choices);
    }
    ASSERT_ALL_MET(met, LINEAR_BITS);
}

/* ---- attention ---- */

/* How heads lie: in tensors of their own, or in rows that hold the queries, key and value of a key-value head
 * one after another. */
enum { ALONE, TOGETHER };
enum { NONE, ALIBI, ALIBI_BF16 };

struct attention {
    size_t heads, kv_heads, dim, documents;
    int32_t starts[5], keys[5]; /* keys: all 0 where documents have no others */
    size_t window, gap;
    float softcap;
    int layout, alibi;
    bool no_lse; /* forward only, as where there are other keys */
};

struct attention_pairs {
    struct pair q, k, v, out, lse, dout, dq, dk, dv, slopes;
};

static bool decodes(const struct attention *a)
{
    return a->keys[a->documents] > 0;
}

static size_t tokens_of(const struct attention *a)
{
    return (size_t)a->starts[a->documents];
}

/* Elements of a row that holds all. */
static size_t row_together(const struct attention *a)
{
    return (a->heads + 2 * a->kv_heads) * a->dim + a->gap;
}

static struct attention_pairs attention_pairs(const struct attention *a, enum mt_dtype dtype)
{
    const size_t tokens = tokens_of(a), keys = decodes(a) ? (size_t)a->keys[a->documents] : tokens;
    const size_t q = a->heads * a->dim, q_row = q + a->gap, kv_row = a->kv_heads * a->dim + a->gap;
    const bool together = a->layout == TOGETHER;
    const size_t q_count = tokens * (together ? row_together(a) : q_row), kv = together ? 1 : keys * kv_row;
    struct attention_pairs p = {pair_random(dtype, q_count, 1.5, 1),
                                pair_random(dtype, kv, 1.5, 2),
                                pair_random(dtype, kv, 1, 3),
                                pair_random(dtype, tokens * q, 1, 4),
                                pair_random(MT_F32, tokens * a->heads, 1, 5),
                                pair_random(dtype, tokens * q, 1, 6),
                                pair_random(dtype, q_count, 1, 7),
                                pair_random(dtype, kv, 1, 8),
                                pair_random(dtype, kv, 1, 9),
                                pair_random(MT_F32, a->heads, 0.3, 10)};
    if (a->alibi == ALIBI_BF16)
        ON_BOTH
        {
            for (size_t i = 0; i < a->heads; i++)
                p.slopes.t[d].v[i] = 1.0 / (double)(2u << i);
            tensor_push(&p.slopes.t[d]);
        }
    return p;
}

/* On device d, forward and, where it follows, backward. */
static void attend_on(int d, const struct attention *a, struct attention_pairs *p, enum mt_dtype dtype)
{
    const struct mt_device_api *api = rigs[d].api;
    const bool together = a->layout == TOGETHER, backward = !a->no_lse && !decodes(a);
    const size_t group = a->heads / a->kv_heads, step = (group + 2) * a->dim;
    const size_t q_stride = a->heads * a->dim + a->gap, kv_stride = a->kv_heads * a->dim + a->gap;
    struct mt_attention_args args = {
        .q = p->q.t[d].at,
        .k = together ? into(&p->q.t[d], group * a->dim) : p->k.t[d].at,
        .v = together ? into(&p->q.t[d], (group + 1) * a->dim) : p->v.t[d].at,
        .out = p->out.t[d].at,
        .lse = a->no_lse ? NULL : p->lse.t[d].at,
        .document_starts = a->starts,
        .key_starts = decodes(a) ? a->keys : NULL,
        .num_documents = a->documents,
        .num_heads = a->heads,
        .num_kv_heads = a->kv_heads,
        .head_dim = a->dim,
        .q_stride = together ? row_together(a)
                    : a->gap ? q_stride
                             : 0,
        .k_stride = together ? row_together(a)
                    : a->gap ? kv_stride
                             : 0,
        .v_stride = together ? row_together(a)
                    : a->gap ? kv_stride
                             : 0,
        .q_group_stride = together ? step : 0,
        .kv_head_stride = together ? step : 0,
        .window = a->window,
        .scale = 1 / sqrtf((float)a->dim),
        .softcap = a->softcap,
        .alibi = a->alibi ? p->slopes.t[d].at : NULL,
        .alibi_bf16 = a->alibi == ALIBI_BF16,
        .dtype = dtype,
    };
    const size_t forward_bytes = api->attention_workspace_bytes(rigs[d].device, &args, false);
    const size_t backward_bytes = backward ? api->attention_workspace_bytes(rigs[d].device, &args, true) : 0;
    const size_t bytes = forward_bytes > backward_bytes ? forward_bytes : backward_bytes;
    assert_int_equal(api->allocate(rigs[d].device, bytes + 1, &args.workspace, NULL), 0);
    assert_int_equal(api->attention(rigs[d].stream, &args), 0);
    if (backward)
        RUN(attention_backward, (struct mt_attention_backward_args){
                                    .forward = args,
                                    .dout = p->dout.t[d].at,
                                    .dq = p->dq.t[d].at,
                                    .dk = together ? into(&p->dq.t[d], group * a->dim) : p->dk.t[d].at,
                                    .dv = together ? into(&p->dq.t[d], (group + 1) * a->dim) : p->dv.t[d].at,
                                    .dq_stride = args.q_stride,
                                    .dk_stride = args.k_stride,
                                    .dv_stride = args.v_stride});
    rig_wait(&rigs[d]);
    api->release(rigs[d].device, args.workspace);
}

static void attend(enum mt_dtype dtype, const struct attention *a)
{
    struct attention_pairs p = attention_pairs(a, dtype);
    ON_BOTH attend_on(d, a, &p, dtype);
    const char *what = shape("attention, %zu tokens, %zu heads over %zu of %zu, gap %zu, window %zu, cap %g, "
                             "layout %d, alibi %d, %zu bytes an element",
                             tokens_of(a), a->heads, a->kv_heads, a->dim, a->gap, a->window,
                             (double)a->softcap, a->layout, a->alibi, mt_dtype_bytes(dtype));
    AGREE(p.out, 2 * twice(dtype), "out", what);
    AGREE(p.lse, 1e-5, "lse", what);
    AGREE(p.dq, 2 * twice(dtype), "dq", what);
    AGREE(p.dk, 2 * twice(dtype), "dk", what);
    AGREE(p.dv, 2 * twice(dtype), "dv", what);
    pairs_free(&p.q, sizeof p / sizeof p.q);
}

/* Longer than a block of queries (256) and a block of keys (512), and windows and documents across them. */
static void attention_agrees(void **state)
{
    (void)state;
    static const struct attention shapes[] = {
        {.heads = 1, .kv_heads = 1, .dim = 64, .documents = 1, .starts = {0, 1}},
        {.heads = 17, .kv_heads = 1, .dim = 64, .documents = 1, .starts = {0, 17}},
        {.heads = 17, .kv_heads = 17, .dim = 40, .documents = 1, .starts = {0, 9}, .layout = TOGETHER},
        {.heads = 4, .kv_heads = 2, .dim = 80, .documents = 1, .starts = {0, 131}, .no_lse = true},
        {.heads = 2, .kv_heads = 2, .dim = 128, .documents = 3, .starts = {0, 1, 70, 150}, .gap = 8},
        {.heads = 3, .kv_heads = 1, .dim = 96, .documents = 2, .starts = {0, 33, 133}, .window = 20},
        {.heads = 2, .kv_heads = 1, .dim = 256, .documents = 1, .starts = {0, 65}, .softcap = 5},
        {.heads = 6, .kv_heads = 3, .dim = 7, .documents = 2, .starts = {0, 64, 129}, .gap = 3},
        {.heads = 6,
         .kv_heads = 3,
         .dim = 7,
         .documents = 2,
         .starts = {0, 64, 129},
         .gap = 3,
         .layout = TOGETHER,
         .alibi = ALIBI},
        {.heads = 8,
         .kv_heads = 2,
         .dim = 32,
         .documents = 4,
         .starts = {0, 5, 5, 90, 260},
         .window = 70,
         .softcap = 2},
        {.heads = 2, .kv_heads = 1, .dim = 64, .documents = 2, .starts = {0, 40, 1120}, .softcap = 3},
        {.heads = 2,
         .kv_heads = 1,
         .dim = 20,
         .documents = 1,
         .starts = {0, 700},
         .window = 530,
         .softcap = 1,
         .layout = TOGETHER},
        {.heads = 3, .kv_heads = 3, .dim = 16, .documents = 2, .starts = {0, 7, 790}, .alibi = ALIBI},
        {.heads = 4, .kv_heads = 2, .dim = 24, .documents = 2, .starts = {0, 30, 630}, .alibi = ALIBI_BF16},
        {.heads = 2,
         .kv_heads = 2,
         .dim = 8,
         .documents = 1,
         .starts = {0, 600},
         .window = 90,
         .alibi = ALIBI,
         .layout = TOGETHER,
         .gap = 8},
        {.heads = 4,
         .kv_heads = 2,
         .dim = 64,
         .documents = 3,
         .starts = {0, 1, 3, 4},
         .keys = {0, 700, 703, 1300}},
        {.heads = 17,
         .kv_heads = 1,
         .dim = 33,
         .documents = 2,
         .starts = {0, 1, 2},
         .keys = {5, 600, 601},
         .window = 100,
         .softcap = 4,
         .gap = 1,
         .no_lse = true},
        {.heads = 2,
         .kv_heads = 1,
         .dim = 32,
         .documents = 2,
         .starts = {0, 2, 3},
         .keys = {0, 530, 540},
         .alibi = ALIBI_BF16},
    };
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++)
        attend(i % 2 ? MT_BF16 : MT_F32, &shapes[i / 2]);
}

/* ---- cross entropy ---- */

enum { LOSS_BF16 = 1, LOSS_CAPPED = 2, LOSS_IGNORED = 4, LOSS_ADDED = 8, LOSS_BITS = 4 };

static void cross_entropy(size_t rows, size_t vocab, size_t tile, unsigned choices)
{
    const enum mt_dtype dtype = choices & LOSS_BF16 ? MT_BF16 : MT_F32;
    const size_t tiles = (vocab + tile - 1) / tile;
    struct pair labels = pair_ints(rows, (int32_t)vocab, 3), logits[4];
    struct pair max = pair_random(MT_F32, rows, 1, 1), sum = pair_random(MT_F32, rows, 1, 2);
    struct pair target = pair_random(MT_F32, rows, 1, 3), lse = pair_random(MT_F32, rows, 1, 4);
    struct pair losses = pair_random(MT_F32, rows, 1, 5), loss_sum = pair_random(MT_F64, 1, 1, 6);
    if (choices & LOSS_IGNORED)
        ON_BOTH
        {
            labels.t[d].v[rows / 2] = MT_LABEL_IGNORED;
            tensor_push(&labels.t[d]);
        }
    assert_true(tiles <= 4);
    for (size_t i = 0; i < tiles; i++)
        logits[i] = pair_random(dtype, rows * (i + 1 < tiles ? tile : vocab - i * tile), 2, 10 + i);
    for (size_t i = 0; i < tiles; i++)
        ON_BOTH RUN(cross_entropy_statistics,
                    (struct mt_cross_entropy_statistics_args){.logits = logits[i].t[d].at,
                                                              .labels = labels.t[d].at,
                                                              .max = max.t[d].at,
                                                              .sum = sum.t[d].at,
                                                              .target = target.t[d].at,
                                                              .rows = rows,
                                                              .cols = logits[i].t[d].count / rows,
                                                              .vocab_offset = i * tile,
                                                              .vocab_size = vocab,
                                                              .first = i == 0,
                                                              .dtype = dtype});
    ON_BOTH RUN(cross_entropy_finish,
                (struct mt_cross_entropy_finish_args){.max = max.t[d].at,
                                                      .sum = sum.t[d].at,
                                                      .target = target.t[d].at,
                                                      .labels = labels.t[d].at,
                                                      .lse = lse.t[d].at,
                                                      .losses = losses.t[d].at,
                                                      .loss_sum = loss_sum.t[d].at,
                                                      .rows = rows,
                                                      .accumulate = choices & LOSS_ADDED});
    const char *what =
        shape("cross entropy, %zu rows, %zu tokens in tiles of %zu, choices %x", rows, vocab, tile, choices);
    AGREE(max, 1e-6, "max", what);
    AGREE(lse, 1e-5, "lse", what);
    AGREE(losses, 1e-5, "losses", what);
    AGREE(loss_sum, 1e-5, "loss_sum", what);
    for (size_t i = 0; i < tiles; i++) {
        ON_BOTH RUN(cross_entropy_backward,
                    (struct mt_cross_entropy_backward_args){.logits = logits[i].t[d].at,
                                                            .labels = labels.t[d].at,
                                                            .lse = lse.t[d].at,
                                                            .rows = rows,
                                                            .cols = logits[i].t[d].count / rows,
                                                            .vocab_offset = i * tile,
                                                            .grad_scale = 0.125f,
                                                            .softcap = choices & LOSS_CAPPED ? 10.0f : 0.0f,
                                                            .dtype = dtype});
        AGREE(logits[i], twice(dtype), "dlogits", what);
        pairs_free(&logits[i], 1);
    }
    struct pair all[] = {labels, max, sum, target, lse, losses, loss_sum};
    PAIRS_FREE(all);
}

static void cross_entropy_agrees(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{1, 1, 1},      {1, 64, 64},     {17, 7, 3},      {130, 256, 64},
                                       {9, 1027, 400}, {3, 5000, 5000}, {33, 2048, 1024}};
    struct met met = {0};
    for (size_t i = 0; i < 5 * sizeof shapes / sizeof *shapes; i++) {
        const unsigned choices = choices_of(i, LOSS_BITS);
        meet(&met, choices);
        cross_entropy(shapes[i / 5][0], shapes[i / 5][1], shapes[i / 5][2], choices);
    }
    ASSERT_ALL_MET(met, LOSS_BITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree),
        cmocka_unit_test(attention_agrees),
        cmocka_unit_test(cross_entropy_agrees),
    };
    cmocka_set_test_filter(getenv("MT_TEST_CASE")); /* NULL: all */
    return cmocka_run_group_tests(tests, open_both, close_both);
}
