/* Attention against a naive one in fp64 and its finite differences. */
#include "tests/unit/device/device_support.h"

struct problem {
    size_t heads, kv_heads, dim, documents, window;
    const int32_t *starts, *key_starts;
    double scale, softcap;
    double *q, *k, *v, *dout; /* dense */
    double *out, *lse;
    const double *alibi; /* or NULL */
    bool alibi_bf16;
};

static float rounded(float value)
{
    return mt_bf16_to_float(mt_bf16_from_float(value));
}

/* The linear bias of a key for a query, both by their places in the document. */
static double bias(const struct problem *p, size_t head, size_t key, size_t query)
{
    if (p->alibi_bf16)
        return p->scale * (double)rounded((float)p->alibi[head] * rounded((float)key));
    return p->alibi[head] * ((double)key - (double)query);
}

UNSEEN static void reference(struct problem *p)
{
    const size_t group = p->heads / p->kv_heads;
    double *scores = malloc(sizeof(double) * 4096);
    for (size_t d = 0; d < p->documents; d++) {
        const size_t queries = (size_t)(p->starts[d + 1] - p->starts[d]);
        const size_t keys = (size_t)(p->key_starts[d + 1] - p->key_starts[d]);
        for (size_t t = 0; t < queries; t++)
            for (size_t h = 0; h < p->heads; h++) {
                const size_t token = (size_t)p->starts[d] + t, last = keys - queries + t;
                const size_t first = p->window && last + 1 > p->window ? last + 1 - p->window : 0;
                const double *q = p->q + (token * p->heads + h) * p->dim;
                double *out = p->out + (token * p->heads + h) * p->dim;
                double max = -INFINITY, sum = 0;
                for (size_t j = first; j <= last; j++) {
                    const double *k =
                        p->k + (((size_t)p->key_starts[d] + j) * p->kv_heads + h / group) * p->dim;
                    double s = 0;
                    for (size_t i = 0; i < p->dim; i++)
                        s += q[i] * k[i];
                    s *= p->scale;
                    if (p->softcap > 0)
                        s = p->softcap * tanh(s / p->softcap);
                    if (p->alibi)
                        s += bias(p, h, j, last);
                    scores[j] = s;
                    max = fmax(max, s);
                }
                for (size_t j = first; j <= last; j++)
                    sum += exp(scores[j] - max);
                for (size_t i = 0; i < p->dim; i++)
                    out[i] = 0;
                for (size_t j = first; j <= last; j++) {
                    const double *v =
                        p->v + (((size_t)p->key_starts[d] + j) * p->kv_heads + h / group) * p->dim;
                    for (size_t i = 0; i < p->dim; i++)
                        out[i] += exp(scores[j] - max) / sum * v[i];
                }
                p->lse[token * p->heads + h] = max + log(sum);
            }
    }
    free(scores);
}

static double loss(void *context)
{
    struct problem *p = context;
    reference(p);
    const size_t count = (size_t)p->starts[p->documents] * p->heads * p->dim;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += p->out[i] * p->dout[i];
    return sum;
}

/* Naive gradients in fp64, for shapes that are too large for finite differences; shown right by those on the
 * small ones. */
UNSEEN static void reference_gradients(struct problem *p, double *dq, double *dk, double *dv)
{
    const size_t group = p->heads / p->kv_heads;
    reference(p);
    for (size_t d = 0; d < p->documents; d++)
        for (size_t t = (size_t)p->starts[d]; t < (size_t)p->starts[d + 1]; t++)
            for (size_t h = 0; h < p->heads; h++) {
                const size_t start = (size_t)p->starts[d], row = (t * p->heads + h) * p->dim;
                const size_t seen = p->window && t - start + 1 > p->window ? t + 1 - p->window : start;
                double total = 0;
                for (size_t i = 0; i < p->dim; i++)
                    total += p->out[row + i] * p->dout[row + i];
                for (size_t j = seen; j <= t; j++) {
                    const size_t key = (j * p->kv_heads + h / group) * p->dim;
                    double s = 0, dp = 0;
                    for (size_t i = 0; i < p->dim; i++) {
                        s += p->scale * p->q[row + i] * p->k[key + i];
                        dp += p->dout[row + i] * p->v[key + i];
                    }
                    double slope = 1;
                    if (p->softcap > 0) {
                        slope = 1 - pow(tanh(s / p->softcap), 2);
                        s = p->softcap * tanh(s / p->softcap);
                    }
                    if (p->alibi)
                        s += bias(p, h, j - start, t - start);
                    const double probability = exp(s - p->lse[t * p->heads + h]);
                    const double ds = probability * (dp - total) * slope * p->scale;
                    for (size_t i = 0; i < p->dim; i++) {
                        dq[row + i] += ds * p->k[key + i];
                        dk[key + i] += ds * p->q[row + i];
                        dv[key + i] += probability * p->dout[row + i];
                    }
                }
            }
}

struct shape {
    const char *name;
    size_t heads, kv_heads, dim, documents, window;
    int32_t starts[6], key_starts[6];
    double softcap;
    bool decoding, alibi, alibi_bf16;
};

static const struct shape small_shapes[] = {
    {"one token", 1, 1, 4, 1, 0, {0, 1}, {0}, 0, false, false, false},
    {"17 tokens", 2, 2, 8, 1, 0, {0, 17}, {0}, 0, false, false, false},
    {"grouped heads", 6, 2, 5, 1, 0, {0, 13}, {0}, 0, false, false, false},
    {"documents, one of them empty", 3, 1, 4, 4, 0, {0, 7, 7, 8, 19}, {0}, 0, false, false, false},
    {"window", 2, 1, 6, 2, 3, {0, 11, 16}, {0}, 0, false, false, false},
    {"capped scores", 2, 1, 7, 1, 0, {0, 12}, {0}, 1.5, false, false, false},
    {"window and capped scores", 4, 2, 3, 2, 5, {0, 3, 15}, {0}, 2, false, false, false},
    {"linear biases", 4, 2, 6, 2, 0, {0, 9, 16}, {0}, 0, false, true, false},
    {"linear biases and a window", 3, 3, 4, 1, 5, {0, 14}, {0}, 0, false, true, false},
    {"rounded linear biases", 4, 2, 6, 2, 0, {0, 9, 16}, {0}, 0, false, true, true},
};

/* More than a block in every direction, and not by a whole number. */
static const struct shape large_shapes[] = {
    {"long document", 6, 2, 20, 1, 0, {0, 700}, {0}, 0, false, false, false},
    {"long and short documents", 3, 3, 16, 4, 0, {0, 130, 133, 513, 720}, {0}, 0, false, false, false},
    {"one head", 1, 1, 64, 2, 0, {0, 300, 597}, {0}, 0, false, false, false},
    {"window", 4, 1, 24, 2, 150, {0, 411, 640}, {0}, 0, false, false, false},
    {"small window", 2, 1, 8, 1, 7, {0, 600}, {0}, 0, false, false, false},
    {"capped scores", 9, 3, 12, 1, 0, {0, 290}, {0}, 3, false, false, false},
    {"linear biases", 6, 2, 12, 2, 0, {0, 411, 640}, {0}, 0, false, true, false},
    {"rounded linear biases", 6, 2, 12, 2, 0, {0, 411, 640}, {0}, 0, false, true, true},
};

static const struct shape decoding_shapes[] = {
    {"one new token", 4, 2, 16, 1, 0, {0, 1}, {0, 300}, 0, true, false, false},
    {"two documents", 3, 1, 9, 2, 0, {0, 1, 4}, {0, 17, 160}, 0, true, false, false},
    {"window", 2, 2, 8, 1, 20, {0, 5}, {0, 140}, 0, true, false, false},
    {"keys that start later", 2, 1, 8, 1, 0, {0, 2}, {3, 30}, 0, true, false, false},
    {"linear biases", 3, 1, 9, 2, 0, {0, 1, 4}, {0, 17, 160}, 0, true, true, false},
    {"rounded linear biases", 3, 1, 9, 2, 0, {0, 1, 4}, {0, 17, 560}, 0, true, true, true},
};

/* Copies dense rows into rows `stride` apart (the gaps keep what they had) and back. */
static void spread(double *to, const double *from, size_t rows, size_t cols, size_t stride)
{
    for (size_t row = 0; row < rows; row++)
        memcpy(to + row * stride, from + row * cols, cols * sizeof *to);
}

static void check(struct rig *rig, enum mt_dtype dtype, const struct shape *shape, size_t gap,
                  bool differences)
{
    const size_t tokens = (size_t)shape->starts[shape->documents];
    const int32_t *key_starts = shape->decoding ? shape->key_starts : shape->starts;
    const size_t keys = (size_t)key_starts[shape->documents];
    const size_t q_cols = shape->heads * shape->dim, k_cols = shape->kv_heads * shape->dim;
    const size_t q_stride = q_cols + gap, k_stride = k_cols + 2 * gap, v_stride = k_cols + 3 * gap;
    struct tensor q = tensor_random(rig, dtype, tokens * q_cols, 1, 1);
    struct tensor k = tensor_random(rig, dtype, keys * k_cols, 1, 2);
    struct tensor v = tensor_random(rig, dtype, keys * k_cols, 1, 3);
    struct tensor dout = tensor_random(rig, dtype, tokens * q_cols, 1, 4);
    struct tensor q_spread = tensor_random(rig, dtype, tokens * q_stride, 1, 5);
    struct tensor k_spread = tensor_random(rig, dtype, keys * k_stride, 1, 6);
    struct tensor v_spread = tensor_random(rig, dtype, keys * v_stride, 1, 7);
    spread(q_spread.v, q.v, tokens, q_cols, q_stride);
    spread(k_spread.v, k.v, keys, k_cols, k_stride);
    spread(v_spread.v, v.v, keys, k_cols, v_stride);
    tensor_push(&q_spread);
    tensor_push(&k_spread);
    tensor_push(&v_spread);
    struct tensor out = tensor_empty(rig, dtype, tokens * q_cols);
    struct tensor lse = tensor_empty(rig, MT_F32, tokens * shape->heads);
    struct tensor slopes = tensor_random(rig, MT_F32, shape->heads, 0.1, 11);
    struct mt_attention_args args = {
        .q = q_spread.at,
        .k = k_spread.at,
        .v = v_spread.at,
        .out = out.at,
        .lse = lse.at,
        .document_starts = shape->starts,
        .key_starts = shape->decoding ? shape->key_starts : NULL,
        .num_documents = shape->documents,
        .num_heads = shape->heads,
        .num_kv_heads = shape->kv_heads,
        .head_dim = shape->dim,
        .q_stride = gap ? q_stride : 0,
        .k_stride = gap ? k_stride : 0,
        .v_stride = gap ? v_stride : 0,
        .window = shape->window,
        .scale = 0.5f,
        .softcap = (float)shape->softcap,
        .alibi = shape->alibi ? slopes.at : NULL,
        .alibi_bf16 = shape->alibi_bf16,
        .dtype = dtype,
    };
    const size_t forward_bytes = rig->api->attention_workspace_bytes(rig->device, &args, false);
    const size_t backward_bytes = rig->api->attention_workspace_bytes(rig->device, &args, true);
    const size_t workspace_bytes = forward_bytes > backward_bytes ? forward_bytes : backward_bytes;
    if (workspace_bytes)
        assert_int_equal(rig->api->allocate(rig->device, workspace_bytes, &args.workspace, NULL), 0);
    assert_int_equal(rig->api->attention(rig->stream, &args), 0);
    double *want = calloc(tokens * q_cols, sizeof *want), *want_lse = calloc(lse.count, sizeof *want_lse);
    struct problem p = {shape->heads,
                        shape->kv_heads,
                        shape->dim,
                        shape->documents,
                        shape->window,
                        shape->starts,
                        key_starts,
                        0.5,
                        shape->softcap,
                        q.v,
                        k.v,
                        v.v,
                        dout.v,
                        want,
                        want_lse,
                        shape->alibi ? slopes.v : NULL,
                        shape->alibi_bf16};
    reference(&p);
    expect_close(&out, want, tolerance_of(dtype));
    expect_close(&lse, want_lse, 5e-6);
    struct tensor *all[] = {&q, &k, &v, &dout, &q_spread, &k_spread, &v_spread, &out, &lse, &slopes};
    if (!shape->decoding) {
        struct tensor dq = tensor_random(rig, dtype, tokens * q_stride, 1, 8);
        struct tensor dk = tensor_random(rig, dtype, keys * k_stride, 1, 9);
        struct tensor dv = tensor_random(rig, dtype, keys * v_stride, 1, 10);
        const struct mt_attention_backward_args backward = {
            .forward = args,
            .dout = dout.at,
            .dq = dq.at,
            .dk = dk.at,
            .dv = dv.at,
            .dq_stride = args.q_stride,
            .dk_stride = args.k_stride,
            .dv_stride = args.v_stride,
        };
        assert_int_equal(rig->api->attention_backward(rig->stream, &backward), 0);
        double *want_dq = calloc(q.count, sizeof(double)), *want_dk = calloc(k.count, sizeof(double));
        double *want_dv = calloc(v.count, sizeof(double));
        reference_gradients(&p, want_dq, want_dk, want_dv);
        if (differences) { /* the naive gradients themselves are right */
            double *const naive[] = {want_dq, want_dk, want_dv}, *const inputs[] = {q.v, k.v, v.v};
            const size_t counts[] = {q.count, k.count, v.count};
            for (size_t n = 0; n < 3; n++) {
                double *gradient = finite_differences(loss, &p, inputs[n], counts[n]);
                for (size_t i = 0; i < counts[n]; i++)
                    assert_true(fabs(gradient[i] - naive[n][i]) < 1e-7 * fmax(1, fabs(naive[n][i])));
                free(gradient);
            }
        }
        double *spread_dq = calloc(dq.count, sizeof(double)), *spread_dk = calloc(dk.count, sizeof(double));
        double *spread_dv = calloc(dv.count, sizeof(double));
        memcpy(spread_dq, dq.v, dq.count * sizeof(double));
        memcpy(spread_dk, dk.v, dk.count * sizeof(double));
        memcpy(spread_dv, dv.v, dv.count * sizeof(double));
        spread(spread_dq, want_dq, tokens, q_cols, q_stride);
        spread(spread_dk, want_dk, keys, k_cols, k_stride);
        spread(spread_dv, want_dv, keys, k_cols, v_stride);
        /* D comes from the rounded output in bf16. */
        expect_close(&dq, spread_dq, 2 * tolerance_of(dtype));
        expect_close(&dk, spread_dk, 2 * tolerance_of(dtype));
        expect_close(&dv, spread_dv, 2 * tolerance_of(dtype));
        double *const made[] = {want_dq, want_dk, want_dv, spread_dq, spread_dk, spread_dv};
        for (size_t i = 0; i < sizeof made / sizeof *made; i++)
            free(made[i]);
        tensor_free(&dq);
        tensor_free(&dk);
        tensor_free(&dv);
    }
    free(want);
    free(want_lse);
    rig->api->release(rig->device, args.workspace);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void small(struct rig *rig, enum mt_dtype dtype)
{
    for (size_t i = 0; i < sizeof small_shapes / sizeof *small_shapes; i++) {
        check(rig, dtype, &small_shapes[i], 0, dtype == MT_F32);
        check(rig, dtype, &small_shapes[i], 3, false);
    }
}

static void large(struct rig *rig, enum mt_dtype dtype)
{
    for (size_t i = 0; i < sizeof large_shapes / sizeof *large_shapes; i++)
        check(rig, dtype, &large_shapes[i], i % 2 ? 0 : 5, false);
}

static void decoding(struct rig *rig, enum mt_dtype dtype)
{
    for (size_t i = 0; i < sizeof decoding_shapes / sizeof *decoding_shapes; i++)
        check(rig, dtype, &decoding_shapes[i], i % 2 ? 0 : 5, false);
}

static void small_shapes_agree_with_fp64_and_finite_differences(void **state)
{
    (void)state;
    on_every_device(small);
}

static void blocks_fit_together(void **state)
{
    (void)state;
    on_every_device(large);
}

static void new_queries_see_all_earlier_keys(void **state)
{
    (void)state;
    on_every_device(decoding);
}

/* Forward and backward of two documents, the second one's q, k, v and dout drawn from `seed`; the bytes of
 * out, dq, dk, dv. */
static unsigned char *two_documents(struct rig *rig, uint64_t seed, size_t *bytes)
{
    enum { FIRST = 333, SECOND = 180, HEADS = 6, KV_HEADS = 2, DIM = 16 };
    static const int32_t starts[] = {0, FIRST, FIRST + SECOND};
    const size_t counts[] = {(FIRST + SECOND) * HEADS * DIM, (FIRST + SECOND) * KV_HEADS * DIM,
                             (FIRST + SECOND) * KV_HEADS * DIM, (FIRST + SECOND) * HEADS * DIM};
    struct tensor in[4], out[4];
    for (size_t i = 0; i < 4; i++) {
        in[i] = tensor_random(rig, MT_F32, counts[i], 1, i);
        struct tensor other = tensor_random(rig, MT_F32, counts[i], 1, seed + i);
        const size_t first = counts[i] / (FIRST + SECOND) * FIRST;
        memcpy(in[i].v + first, other.v + first, (counts[i] - first) * sizeof(double));
        tensor_push(&in[i]);
        tensor_free(&other);
    }
    const size_t of[] = {0, 0, 1, 2}; /* out is as large as q; dq, dk, dv */
    for (size_t i = 0; i < 4; i++)
        out[i] = tensor_empty(rig, MT_F32, counts[of[i]]);
    struct tensor lse = tensor_empty(rig, MT_F32, (FIRST + SECOND) * HEADS);
    struct mt_attention_backward_args b = {
        .forward = {.q = in[0].at,
                    .k = in[1].at,
                    .v = in[2].at,
                    .out = out[0].at,
                    .lse = lse.at,
                    .document_starts = starts,
                    .num_documents = 2,
                    .num_heads = HEADS,
                    .num_kv_heads = KV_HEADS,
                    .head_dim = DIM,
                    .scale = 0.25f},
        .dout = in[3].at,
        .dq = out[1].at,
        .dk = out[2].at,
        .dv = out[3].at,
    };
    const size_t workspace = rig->api->attention_workspace_bytes(rig->device, &b.forward, true);
    assert_int_equal(rig->api->allocate(rig->device, workspace, &b.forward.workspace, NULL), 0);
    assert_int_equal(rig->api->attention(rig->stream, &b.forward), 0);
    assert_int_equal(rig->api->attention_backward(rig->stream, &b), 0);
    *bytes = 0;
    unsigned char *all = calloc(4 * counts[0], 4);
    for (int document = 0; document < 2; document++)
        for (size_t i = 0; i < 4; i++) { /* all of the first document before all of the second */
            const size_t first = out[i].count / (FIRST + SECOND) * FIRST * sizeof(float);
            unsigned char *raw = tensor_bytes(&out[i]);
            const size_t some = document ? out[i].count * sizeof(float) - first : first;
            memcpy(all + *bytes, raw + (document ? first : 0), some);
            *bytes += some;
            free(raw);
        }
    for (size_t i = 0; i < 4; i++) {
        tensor_free(&in[i]);
        tensor_free(&out[i]);
    }
    tensor_free(&lse);
    rig->api->release(rig->device, b.forward.workspace);
    return all;
}

static void a_document_changes_no_bit_of_another(void **state)
{
    (void)state;
    struct rig rig = rig_of_test(2);
    size_t bytes;
    unsigned char *one = two_documents(&rig, 100, &bytes), *two = two_documents(&rig, 200, &bytes);
    const size_t first = bytes / (333 + 180) * 333;
    assert_memory_equal(one, two, first);
    assert_memory_not_equal(one + first, two + first, bytes - first);
    free(one);
    free(two);
    rig_close(&rig);
}

static unsigned char *bits(struct rig *rig, size_t *bytes)
{
    return two_documents(rig, 100, bytes);
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    same_bits_for_any_threads(bits);
}

/* Rows that hold q, k, v head by head give the very bits of dense rows, forward and backward. */
static void side_by_side(struct rig *rig, enum mt_dtype dtype)
{
    enum { TOKENS = 300, KV = 2, GROUP = 3, DIM = 8, RUN = (GROUP + 2) * DIM, ROW = KV * RUN };
    const int32_t starts[] = {0, 40, TOKENS};
    const size_t element = mt_dtype_bytes(dtype), q_cols = KV * GROUP * DIM, k_cols = KV * DIM;
    struct tensor mixed = tensor_random(rig, dtype, (size_t)TOKENS * ROW, 1, 1);
    struct tensor dmixed = tensor_empty(rig, dtype, (size_t)TOKENS * ROW);
    struct tensor dout = tensor_random(rig, dtype, TOKENS * q_cols, 1, 2);
    struct tensor dense[3], ddense[3], out[2], lse[2];
    for (size_t i = 0; i < 3; i++) {
        const size_t cols = i ? k_cols : q_cols, own = cols / KV, place = i ? (GROUP + i - 1) * DIM : 0;
        dense[i] = tensor_empty(rig, dtype, TOKENS * cols);
        ddense[i] = tensor_empty(rig, dtype, TOKENS * cols);
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t c = 0; c < cols; c++)
                dense[i].v[t * cols + c] = mixed.v[t * ROW + c / own * RUN + place + c % own];
        tensor_push(&dense[i]);
    }
    for (size_t layout = 0; layout < 2; layout++) {
        char *base = mixed.at, *dbase = dmixed.at;
        out[layout] = tensor_empty(rig, dtype, TOKENS * q_cols);
        lse[layout] = tensor_empty(rig, MT_F32, TOKENS * KV * GROUP);
        struct mt_attention_backward_args args = {
            .forward = {.q = layout ? base : dense[0].at,
                        .k = layout ? base + GROUP * DIM * element : dense[1].at,
                        .v = layout ? base + (GROUP + 1) * DIM * element : dense[2].at,
                        .out = out[layout].at,
                        .lse = lse[layout].at,
                        .document_starts = starts,
                        .num_documents = 2,
                        .num_heads = KV * GROUP,
                        .num_kv_heads = KV,
                        .head_dim = DIM,
                        .q_stride = layout ? ROW : 0,
                        .k_stride = layout ? ROW : 0,
                        .v_stride = layout ? ROW : 0,
                        .q_group_stride = layout ? RUN : 0,
                        .kv_head_stride = layout ? RUN : 0,
                        .scale = 0.5f,
                        .dtype = dtype},
            .dout = dout.at,
            .dq = layout ? dbase : ddense[0].at,
            .dk = layout ? dbase + GROUP * DIM * element : ddense[1].at,
            .dv = layout ? dbase + (GROUP + 1) * DIM * element : ddense[2].at,
            .dq_stride = layout ? ROW : 0,
            .dk_stride = layout ? ROW : 0,
            .dv_stride = layout ? ROW : 0,
        };
        const size_t forward = rig->api->attention_workspace_bytes(rig->device, &args.forward, false);
        const size_t backward = rig->api->attention_workspace_bytes(rig->device, &args.forward, true);
        struct tensor work = tensor_empty(rig, MT_F32, (forward > backward ? forward : backward) / 4 + 1);
        args.forward.workspace = work.at;
        assert_int_equal(rig->api->attention(rig->stream, &args.forward), 0);
        assert_int_equal(rig->api->attention_backward(rig->stream, &args), 0);
        tensor_pull(&out[layout]);
        tensor_free(&work);
    }
    assert_memory_equal(out[0].v, out[1].v, out[0].count * sizeof(double));
    tensor_pull(&dmixed);
    for (size_t i = 0; i < 3; i++) {
        const size_t cols = i ? k_cols : q_cols, own = cols / KV, place = i ? (GROUP + i - 1) * DIM : 0;
        tensor_pull(&ddense[i]);
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t c = 0; c < cols; c++)
                assert_true(ddense[i].v[t * cols + c] == dmixed.v[t * ROW + c / own * RUN + place + c % own]);
        tensor_free(&dense[i]);
        tensor_free(&ddense[i]);
    }
    struct tensor *all[] = {&mixed, &dmixed, &dout, &out[0], &out[1], &lse[0], &lse[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void heads_may_lie_side_by_side(void **state)
{
    (void)state;
    on_every_device(side_by_side);
}

static void bad_shapes_are_refused(void **state)
{
    (void)state;
    struct rig rig = rig_of_test(1);
    struct tensor memory = tensor_random(&rig, MT_F32, 64, 1, 1);
    float *const some = memory.at;
    int32_t starts[] = {0, 2}, keys[] = {0, 1}, backwards[] = {0, -1};
    struct mt_attention_args a = {.q = some,
                                  .k = some,
                                  .v = some,
                                  .out = some + 32,
                                  .document_starts = starts,
                                  .num_documents = 1,
                                  .num_heads = 3,
                                  .num_kv_heads = 2,
                                  .head_dim = 4,
                                  .scale = 1};
    assert_int_equal(rig.api->attention(rig.stream, &a), -EINVAL); /* 3 heads do not share 2 */
    a.num_heads = 2;
    const size_t bytes = rig.api->attention_workspace_bytes(rig.device, &a, false);
    assert_int_equal(rig.api->allocate(rig.device, bytes + 1, &a.workspace, NULL), 0);
    a.key_starts = keys; /* fewer keys than queries */
    assert_int_equal(rig.api->attention(rig.stream, &a), -EINVAL);
    a.key_starts = NULL;
    a.document_starts = backwards;
    assert_int_equal(rig.api->attention(rig.stream, &a), -EINVAL);
    a.document_starts = starts;
    a.q_stride = 7; /* rows overlap */
    assert_int_equal(rig.api->attention(rig.stream, &a), -EINVAL);
    a.q_stride = 0;
    assert_int_equal(rig.api->attention(rig.stream, &a), 0);
    rig_wait(&rig);
    rig.api->release(rig.device, a.workspace);
    tensor_free(&memory);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes_agree_with_fp64_and_finite_differences),
        cmocka_unit_test(blocks_fit_together),
        cmocka_unit_test(new_queries_see_all_earlier_keys),
        cmocka_unit_test(a_document_changes_no_bit_of_another),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(heads_may_lie_side_by_side),
        cmocka_unit_test(bad_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
