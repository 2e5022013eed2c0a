/* Cross entropy, whole and in tiles of the vocabulary, against fp64 and finite differences. */
#include "tests/unit/device/device_support.h"

struct problem {
    size_t rows, vocab;
    const int32_t *labels;
    double *logits, scale, *losses, *lse;
};

static double loss(void *context)
{
    struct problem *p = context;
    double total = 0;
    for (size_t row = 0; row < p->rows; row++) {
        const double *logits = p->logits + row * p->vocab;
        double max = -INFINITY, sum = 0; /* at least 1 in the end: the largest's */
        for (size_t i = 0; i < p->vocab; i++)
            max = fmax(max, logits[i]);
        for (size_t i = 0; i < p->vocab; i++)
            sum += exp(logits[i] - max);
        p->lse[row] = max + log(fmax(sum, 1));
        p->losses[row] = p->labels[row] == MT_LABEL_IGNORED ? 0 : p->lse[row] - logits[p->labels[row]];
        total += p->losses[row];
    }
    return total * p->scale;
}

/* Runs the operations over tiles of `tile` columns; logits of a tile are dense, as its product leaves them.
 */
static void check_tiled(struct rig *rig, enum mt_dtype dtype, size_t rows, size_t vocab, size_t tile,
                        bool accumulate, double spread)
{
    int32_t *labels = calloc(rows, sizeof *labels);
    for (size_t row = 0; row < rows; row++)
        labels[row] = row % 5 == 3 ? MT_LABEL_IGNORED : (int32_t)(row * 7 % vocab);
    struct tensor label = tensor_ints(rig, labels, rows);
    struct tensor all = tensor_random(rig, dtype, rows * vocab, spread, 1);
    struct tensor max = tensor_empty(rig, MT_F32, rows), sum = tensor_empty(rig, MT_F32, rows);
    struct tensor target = tensor_empty(rig, MT_F32, rows), lse = tensor_empty(rig, MT_F32, rows);
    struct tensor losses = tensor_empty(rig, MT_F32, rows), total = tensor_random(rig, MT_F64, 1, 1, 2);
    const double before = accumulate ? total.v[0] : 0;
    const size_t tiles = (vocab + tile - 1) / tile;
    struct tensor *parts = calloc(tiles, sizeof *parts);
    for (size_t n = 0; n < tiles; n++) {
        const size_t first = n * tile, cols = vocab - first < tile ? vocab - first : tile;
        parts[n] = tensor_empty(rig, dtype, rows * cols);
        for (size_t row = 0; row < rows; row++)
            memcpy(parts[n].v + row * cols, all.v + row * vocab + first, cols * sizeof(double));
        tensor_push(&parts[n]);
        assert_int_equal(rig->api->cross_entropy_statistics(
                             rig->stream, &(struct mt_cross_entropy_statistics_args){.logits = parts[n].at,
                                                                                     .labels = label.at,
                                                                                     .max = max.at,
                                                                                     .sum = sum.at,
                                                                                     .target = target.at,
                                                                                     .rows = rows,
                                                                                     .cols = cols,
                                                                                     .vocab_offset = first,
                                                                                     .vocab_size = vocab,
                                                                                     .first = n == 0,
                                                                                     .dtype = dtype}),
                         0);
    }
    assert_int_equal(rig->api->cross_entropy_finish(
                         rig->stream, &(struct mt_cross_entropy_finish_args){.max = max.at,
                                                                             .sum = sum.at,
                                                                             .target = target.at,
                                                                             .labels = label.at,
                                                                             .lse = lse.at,
                                                                             .losses = losses.at,
                                                                             .loss_sum = total.at,
                                                                             .rows = rows,
                                                                             .accumulate = accumulate}),
                     0);
    double *want_losses = calloc(rows, sizeof(double)), *want_lse = calloc(rows, sizeof(double));
    struct problem p = {rows, vocab, labels, all.v, 1, want_losses, want_lse};
    const double want_total = before + loss(&p);
    expect_close(&lse, want_lse, 1e-6);
    expect_close(&losses, want_losses, 1e-6);
    expect_close(&total, &want_total, 1e-6);
    p.scale = 0.37;
    double *gradient = finite_differences(loss, &p, all.v, all.count);
    for (size_t n = 0; n < tiles; n++) {
        const size_t first = n * tile, cols = vocab - first < tile ? vocab - first : tile;
        assert_int_equal(rig->api->cross_entropy_backward(
                             rig->stream, &(struct mt_cross_entropy_backward_args){.logits = parts[n].at,
                                                                                   .labels = label.at,
                                                                                   .lse = lse.at,
                                                                                   .rows = rows,
                                                                                   .cols = cols,
                                                                                   .vocab_offset = first,
                                                                                   .grad_scale = 0.37f,
                                                                                   .dtype = dtype}),
                         0);
        double *want = calloc(rows * cols, sizeof *want);
        for (size_t row = 0; row < rows; row++)
            memcpy(want + row * cols, gradient + row * vocab + first, cols * sizeof *want);
        expect_close(&parts[n], want, tolerance_of(dtype));
        for (size_t row = 0; row < rows; row++) /* nothing at all, not even a little, where it is ignored */
            for (size_t i = 0; labels[row] == MT_LABEL_IGNORED && i < cols; i++)
                assert_true(parts[n].v[row * cols + i] == 0);
        free(want);
        tensor_free(&parts[n]);
    }
    free(gradient);
    free(want_losses);
    free(want_lse);
    free(parts);
    free(labels);
    struct tensor *every[] = {&label, &all, &max, &sum, &target, &lse, &losses, &total};
    for (size_t i = 0; i < sizeof every / sizeof *every; i++)
        tensor_free(every[i]);
}

static void shapes(struct rig *rig, enum mt_dtype dtype)
{
    static const size_t cases[][3] = {{1, 1, 1},   {1, 100, 100}, {17, 37, 37},
                                      {17, 37, 8}, {17, 37, 5},   {6, 211, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int accumulate = 0; accumulate < 2; accumulate++)
            check_tiled(rig, dtype, cases[i][0], cases[i][1], cases[i][2], accumulate, 3);
    check_tiled(rig, dtype, 5, 60, 16, false, 60); /* far apart: e^x alone would overflow */
}

static void whole_and_tiled_agree_with_fp64_and_finite_differences(void **state)
{
    (void)state;
    on_every_device(shapes);
}

/* The loss of rows of 20 logits, of which the last has label 3; -EIO when the device fails. */
static int loss_of(struct rig *rig, struct tensor *logits, int32_t first_label, double *total,
                   struct mt_error *error)
{
    const size_t rows = logits->count / 20;
    int32_t labels[2] = {first_label, 3};
    struct tensor label = tensor_ints(rig, labels + 2 - rows, rows);
    struct tensor stats = tensor_empty(rig, MT_F32, 5 * rows), sum = tensor_empty(rig, MT_F64, 1);
    float *at = stats.at;
    rig->api->cross_entropy_statistics(rig->stream,
                                       &(struct mt_cross_entropy_statistics_args){.logits = logits->at,
                                                                                  .labels = label.at,
                                                                                  .max = at,
                                                                                  .sum = at + rows,
                                                                                  .target = at + 2 * rows,
                                                                                  .rows = rows,
                                                                                  .cols = 20,
                                                                                  .vocab_size = 20,
                                                                                  .first = true,
                                                                                  .dtype = logits->dtype});
    rig->api->cross_entropy_finish(rig->stream,
                                   &(struct mt_cross_entropy_finish_args){.max = at,
                                                                          .sum = at + rows,
                                                                          .target = at + 2 * rows,
                                                                          .labels = label.at,
                                                                          .lse = at + 3 * rows,
                                                                          .losses = at + 4 * rows,
                                                                          .loss_sum = sum.at,
                                                                          .rows = rows});
    const int code = rig->api->stream_synchronize(rig->stream, error);
    if (!code)
        tensor_pull(&sum);
    *total = sum.v[0];
    tensor_free(&label);
    tensor_free(&stats);
    tensor_free(&sum);
    return code;
}

static void not_finite(struct rig *rig, enum mt_dtype dtype)
{
    const double bad[] = {NAN, INFINITY};
    struct mt_error error;
    for (size_t n = 0; n < 2; n++)
        for (size_t where = 0; where < 20; where++) {
            double values[20] = {0}, total;
            values[where] = bad[n];
            struct tensor logits = tensor_of(rig, dtype, values, 20);
            mt_assert_ok(loss_of(rig, &logits, 0, &total, &error), &error);
            assert_true(isnan(total) || isinf(total));
            tensor_free(&logits);
        }
}

static void what_is_not_finite_shows_in_the_loss(void **state)
{
    (void)state;
    on_every_device(not_finite);
}

static void a_label_that_is_no_token_fails_the_device(void **state)
{
    (void)state;
    static const int32_t wrong[] = {-1, 20, 21, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct rig rig = rig_of_test(1);
        struct mt_error error;
        struct tensor logits = tensor_random(&rig, MT_F32, 40, 1, 1);
        double total;
        char told[64];
        snprintf(told, sizeof told, "row 0 has the label %d", (int)wrong[i]);
        mt_assert_ok(loss_of(&rig, &logits, MT_LABEL_IGNORED, &total, &error), &error);
        mt_assert_ok(loss_of(&rig, &logits, 19, &total, &error), &error);
        assert_int_equal(loss_of(&rig, &logits, wrong[i], &total, &error), -EIO);
        assert_int_equal(error.reason, MT_REASON_DEVICE);
        mt_assert_mentions(error.message, told);
        mt_assert_mentions(error.message, "vocabulary");
        tensor_free(&logits);
        rig_close(&rig);
    }
}

/* Tiles that reach beyond the vocabulary: no label could be looked for there. */
static void a_tile_beyond_the_vocabulary_is_refused(void **state)
{
    (void)state;
    struct rig rig = rig_of_test(1);
    struct tensor logits = tensor_random(&rig, MT_F32, 20, 1, 1), stats = tensor_empty(&rig, MT_F32, 3);
    struct tensor label = tensor_ints(&rig, &(int32_t){3}, 1);
    float *at = stats.at;
    struct mt_cross_entropy_statistics_args args = {.logits = logits.at,
                                                    .labels = label.at,
                                                    .max = at,
                                                    .sum = at + 1,
                                                    .target = at + 2,
                                                    .rows = 1,
                                                    .cols = 20,
                                                    .first = true};
    const size_t shapes[][2] = {{0, 0}, {0, 19}, {1, 20}, {21, 20}, {SIZE_MAX, 20}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        args.vocab_offset = shapes[i][0];
        args.vocab_size = shapes[i][1];
        assert_int_equal(rig.api->cross_entropy_statistics(rig.stream, &args), -EINVAL);
    }
    rig_wait(&rig);
    tensor_free(&logits);
    tensor_free(&stats);
    tensor_free(&label);
    rig_close(&rig);
}

static unsigned char *bits(struct rig *rig, size_t *bytes)
{
    enum { ROWS = 77, VOCAB = 333 };
    int32_t labels[ROWS];
    for (int row = 0; row < ROWS; row++)
        labels[row] = row;
    struct tensor label = tensor_ints(rig, labels, ROWS),
                  logits = tensor_random(rig, MT_F32, ROWS * VOCAB, 3, 1);
    struct tensor stats = tensor_empty(rig, MT_F32, 3 * ROWS);
    float *s = stats.at;
    rig->api->cross_entropy_statistics(rig->stream,
                                       &(struct mt_cross_entropy_statistics_args){.logits = logits.at,
                                                                                  .labels = label.at,
                                                                                  .max = s,
                                                                                  .sum = s + ROWS,
                                                                                  .target = s + 2 * ROWS,
                                                                                  .rows = ROWS,
                                                                                  .cols = VOCAB,
                                                                                  .vocab_size = VOCAB,
                                                                                  .first = true});
    unsigned char *result = tensor_bytes(&stats);
    *bytes = stats.count * sizeof(float);
    tensor_free(&label);
    tensor_free(&logits);
    tensor_free(&stats);
    return result;
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    same_bits_for_any_threads(bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_and_tiled_agree_with_fp64_and_finite_differences),
        cmocka_unit_test(what_is_not_finite_shows_in_the_loss),
        cmocka_unit_test(a_label_that_is_no_token_fails_the_device),
        cmocka_unit_test(a_tile_beyond_the_vocabulary_is_refused),
        cmocka_unit_test(bits_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
