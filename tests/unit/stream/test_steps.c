/* What a step does beside its numbers: the mean over target tokens, documents that do not see each other,
 * refused steps, evaluation between deferred updates, frozen parameters, the decoder's agreement. */
#include "core/stream/decoder.h"
#include "tests/unit/stream/stream_support.h"

#include <math.h>

static const char small[] =
    "{\"vocab_size\": 61, \"hidden_size\": 24, \"num_layers\": 3, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"intermediate_size\": 40}";

static double evaluate(struct bed *bed, const struct mt_batch *batch, size_t *targets)
{
    struct mt_error error = {0};
    double sum;
    mt_assert_ok(mt_executor_evaluate(bed->executor, batch, &sum, targets, &error), &error);
    return sum;
}

static struct mt_step_result step(struct bed *bed, const struct mt_batch *batch)
{
    struct mt_error error = {0};
    struct mt_step_result result;
    mt_assert_ok(mt_executor_step(bed->executor, batch, 1e-3, &result, &error), &error);
    return result;
}

static void loss_is_the_mean_over_all_target_tokens_of_the_step(void **state)
{
    (void)state;
    const size_t lengths[2] = {3, 19};
    struct setting setting = usual_setting(2, 32);
    struct mt_batch *both = batch_new(2, lengths, 61, 1);
    struct mt_batch first = *both, second = *both;
    struct bed bed;
    first.num_sequences = second.num_sequences = 1;
    second.sequences = both->sequences + 1;
    bed_open(&bed, small, &setting);
    size_t a, b;
    const double sum = evaluate(&bed, &first, &a) + evaluate(&bed, &second, &b);
    assert_int_equal(a + b, both->target_tokens);
    const struct mt_step_result result = step(&bed, both);
    assert_int_equal(result.target_tokens, a + b);
    assert_int_equal(result.tokens, 22);
    assert_true(fabs(result.loss - sum / (double)(a + b)) < 1e-12);
    bed_close(&bed);
    batch_free(both);
}

static void documents_of_a_pack_do_not_see_each_other(void **state)
{
    (void)state;
    const size_t lengths[2] = {9, 14}, packed_length[1] = {23};
    struct setting setting = usual_setting(2, 32);
    struct mt_error error = {0};
    struct bed bed;
    struct mt_batch *alone = batch_new(2, lengths, 61, 3), *pack = batch_new(1, packed_length, 61, 3);
    struct mt_sequence *row = &pack->sequences[0];
    free(row->document_starts);
    row->num_documents = 2;
    row->document_starts = calloc(3, sizeof(int32_t));
    row->document_starts[1] = 9;
    row->document_starts[2] = 23;
    memcpy(row->ids, alone->sequences[0].ids, 9 * sizeof(int32_t));
    memcpy(row->ids + 9, alone->sequences[1].ids, 14 * sizeof(int32_t));
    float *of_alone = malloc(23 * 61 * sizeof(float)), *of_pack = malloc(23 * 61 * sizeof(float));
    float *changed = malloc(23 * 61 * sizeof(float));
    bed_open(&bed, small, &setting);
    mt_assert_ok(mt_executor_logits(bed.executor, alone, of_alone, &error), &error);
    mt_assert_ok(mt_executor_logits(bed.executor, pack, of_pack, &error), &error);
    for (size_t i = 0; i < 23 * 61; i++)
        assert_true(fabsf(of_alone[i] - of_pack[i]) <= 1e-5f);
    row->ids[3] = (row->ids[3] + 1) % 61;
    mt_assert_ok(mt_executor_logits(bed.executor, pack, changed, &error), &error);
    assert_memory_not_equal(changed, of_pack, 9 * 61 * sizeof(float));
    assert_memory_equal(changed + 9 * 61, of_pack + 9 * 61, 14 * 61 * sizeof(float));
    bed_close(&bed);
    batch_free(alone);
    batch_free(pack);
    free(of_alone);
    free(of_pack);
    free(changed);
}

/* A final norm of 3e38 makes every logit infinite. */
static void spoil(struct bed *bed, float value)
{
    struct mt_error error = {0};
    const struct mt_parameter *p = mt_model_find(bed->model, "model.norm.weight");
    for (size_t i = 0; i < p->count; i++)
        mt_assert_ok(mt_store_write(bed->store, p, MT_STORE_MASTER, i, 1, &value, &error), &error);
}

static void a_step_that_is_not_finite_changes_nothing(void **state)
{
    (void)state;
    const size_t lengths[2] = {8, 19};
    const char *devices[] = {"cpu", "cpu-discrete"};
    for (size_t d = 0; d < 2; d++) {
        struct setting setting = usual_setting(2, 32);
        struct mt_error error = {0};
        struct mt_batch *batch = batch_new(2, lengths, 61, 1);
        struct bed bed, undisturbed;
        setting.device = devices[d];
        bed_open(&bed, small, &setting);
        bed_open(&undisturbed, small, &setting);
        spoil(&bed, 3e38f);
        const uint64_t before = bed_hash(&bed);
        const struct mt_step_result result = step(&bed, batch);
        assert_true(result.skipped);
        assert_false(isfinite(result.loss) && isfinite(result.grad_norm));
        mt_assert_ok(mt_executor_finish(bed.executor, &error), &error);
        assert_true(bed_hash(&bed) == before);
        assert_int_equal(mt_store_updates(bed.store), 0);
        /* And the next one is as if nothing had been. */
        spoil(&bed, 1);
        for (size_t i = 0; i < 3; i++) {
            const struct mt_step_result a = step(&bed, batch), b = step(&undisturbed, batch);
            assert_true(!a.skipped && a.loss == b.loss && a.grad_norm == b.grad_norm);
        }
        mt_assert_ok(mt_executor_finish(bed.executor, &error), &error);
        mt_assert_ok(mt_executor_finish(undisturbed.executor, &error), &error);
        assert_true(bed_hash(&bed) == bed_hash(&undisturbed));
        bed_close(&bed);
        bed_close(&undisturbed);
        batch_free(batch);
    }
}

static void without_skipped_steps_a_gradient_that_is_not_finite_is_an_error(void **state)
{
    (void)state;
    const size_t lengths[2] = {8, 19};
    struct setting setting = usual_setting(2, 32);
    struct mt_error error = {0};
    struct mt_step_result result;
    struct mt_batch *batch = batch_new(2, lengths, 61, 1);
    struct bed bed;
    setting.executor.max_grad_norm = 0;
    setting.executor.max_skipped_steps = 0;
    bed_open(&bed, small, &setting);
    spoil(&bed, 3e38f);
    assert_int_not_equal(mt_executor_step(bed.executor, batch, 1e-3, &result, &error), 0);
    assert_int_equal(error.reason, MT_REASON_NON_FINITE_LOSS);
    assert_int_not_equal(mt_executor_finish(bed.executor, &error), 0); /* so that nobody saves it */
    bed_close(&bed);
    batch_free(batch);
}

/* The update is deferred, so it is the next call that tells. */
static void an_update_that_spoils_a_parameter_is_an_error(void **state)
{
    (void)state;
    const size_t lengths[2] = {8, 19};
    for (size_t i = 0; i < 2; i++) {
        struct setting setting = usual_setting(2, 32);
        struct mt_error error = {0};
        struct mt_step_result result;
        struct mt_batch *batch = batch_new(2, lengths, 61, 1);
        struct bed bed;
        bed_open(&bed, small, &setting);
        mt_assert_ok(mt_executor_step(bed.executor, batch, 1e39, &result, &error), &error);
        if (i == 0)
            assert_int_not_equal(mt_executor_step(bed.executor, batch, 1e-3, &result, &error), 0);
        else
            assert_int_not_equal(mt_executor_finish(bed.executor, &error), 0);
        assert_int_equal(error.reason, MT_REASON_NON_FINITE_LOSS);
        mt_assert_mentions(error.message, "learning rate");
        bed_close(&bed);
        batch_free(batch);
    }
}

static void an_evaluation_sees_the_deferred_updates(void **state)
{
    (void)state;
    const size_t lengths[2] = {8, 19};
    const char *devices[] = {"cpu", "cpu-discrete"};
    for (size_t d = 0; d < 2; d++) {
        struct setting deferred = usual_setting(2, 32), immediate;
        struct mt_batch *batch = batch_new(2, lengths, 61, 1);
        struct bed a, b;
        deferred.device = devices[d];
        immediate = deferred;
        immediate.executor.immediate_update = true;
        bed_open(&a, small, &deferred);
        bed_open(&b, small, &immediate);
        size_t targets;
        for (size_t i = 0; i < 4; i++) {
            step(&a, batch);
            step(&b, batch);
            assert_true(evaluate(&a, batch, &targets) == evaluate(&b, batch, &targets));
        }
        bed_close(&a);
        bed_close(&b);
        batch_free(batch);
    }
}

static void frozen_parameters_keep_their_bits(void **state)
{
    (void)state;
    const size_t lengths[2] = {8, 19};
    const char *devices[] = {"cpu", "cpu-discrete"};
    const char *globs[] = {"model.embed_tokens.*", "model.layers.0.*",
                           "model.layers.2.self_attn.k_proj.weight"};
    for (size_t d = 0; d < 4; d++) {
        struct setting setting = usual_setting(2, 32);
        struct mt_error error = {0};
        struct mt_batch *batch = batch_new(2, lengths, 61, 1);
        struct mt_model *model;
        struct bed bed = {0};
        json_t *keys = json_loads(small, 0, NULL);
        setting.device = devices[d % 2];
        setting.executor.checkpoint_interval = 1 + d / 2;
        mt_assert_ok(mt_model_from_keys("llama", keys, &model, &error), &error);
        json_decref(keys);
        mt_assert_ok(mt_model_freeze(model, globs, 3, &error), &error);
        mt_assert_ok(bed_try(&bed, model, &setting, &error), &error);
        size_t count;
        float *before = bed_masters(&bed, &count);
        const double first = step(&bed, batch).loss;
        double last = 0;
        for (size_t i = 0; i < 20; i++)
            last = step(&bed, batch).loss;
        assert_true(last < first);
        mt_assert_ok(mt_executor_finish(bed.executor, &error), &error);
        float *after = bed_masters(&bed, &count);
        for (size_t i = 0, at = 0; i < model->num_parameters; at += model->parameters[i++].count) {
            const bool same =
                memcmp(before + at, after + at, model->parameters[i].count * sizeof *before) == 0;
            assert_true(same == model->parameters[i].frozen);
        }
        free(before);
        free(after);
        bed_close(&bed);
        batch_free(batch);
    }
}

static void what_no_reader_may_hand_over_is_refused(void **state)
{
    (void)state;
    const size_t lengths[2] = {8, 19};
    struct setting setting = usual_setting(2, 19);
    struct mt_error error = {0};
    struct mt_step_result result;
    struct mt_batch *batch = batch_new(2, lengths, 61, 1);
    struct bed bed;
    bed_open(&bed, small, &setting);
    batch->sequences[1].ids[4] = 61;
    assert_int_equal(mt_executor_step(bed.executor, batch, 1e-3, &result, &error), -EINVAL);
    mt_assert_mentions(error.message, "vocabulary");
    batch->sequences[1].ids[4] = 60;
    batch->sequences[0].labels[2] = -7;
    assert_int_equal(mt_executor_step(bed.executor, batch, 1e-3, &result, &error), -EINVAL);
    for (size_t r = 0; r < 2; r++)
        for (size_t t = 0; t < lengths[r]; t++)
            batch->sequences[r].labels[t] = MT_LABEL_IGNORED;
    assert_int_equal(mt_executor_step(bed.executor, batch, 1e-3, &result, &error), -EINVAL);
    mt_assert_mentions(error.message, "target");
    batch_free(batch);
    const size_t longer[1] = {20};
    batch = batch_new(1, longer, 61, 1);
    assert_int_equal(mt_executor_step(bed.executor, batch, 1e-3, &result, &error), -E2BIG);
    batch_free(batch);
    batch = batch_new(2, lengths, 61, 1); /* and it still works */
    assert_false(step(&bed, batch).skipped);
    bed_close(&bed);
    batch_free(batch);
}

/* Prompts in pieces, then token by token, two sequences beside each other: the logits of the whole pass. */
static void check_decoder(const char *device, enum mt_dtype dtype, float tolerance)
{
    const size_t lengths[2] = {13, 21};
    struct setting setting = usual_setting(2, 32);
    struct mt_error error = {0};
    struct mt_batch *batch = batch_new(2, lengths, 61, 8);
    struct mt_decoder *decoder;
    struct bed bed;
    setting.device = device;
    setting.dtype = dtype;
    bed_open(&bed, small, &setting);
    float *wanted = malloc(34 * 61 * sizeof *wanted), logits[2][61];
    mt_assert_ok(mt_executor_logits(bed.executor, batch, wanted, &error), &error);
    const struct mt_decoder_options options = {
        .max_sequences = 2, .max_tokens = 21, .max_new_tokens_at_once = 6};
    mt_assert_ok(mt_decoder_new(bed.store, bed.device, bed.pool, &options, &decoder, &error), &error);

    size_t done[2] = {0, 0};
    while (done[0] < 13 || done[1] < 21) {
        struct mt_decoder_input inputs[2];
        size_t count = 0;
        for (size_t s = 0; s < 2; s++) {
            const size_t take = done[s] ? 1 : 8 + s;
            if (done[s] < lengths[s])
                inputs[count++] = (struct mt_decoder_input){.sequence = s,
                                                            .ids = batch->sequences[s].ids + done[s],
                                                            .tokens = take,
                                                            .logits = logits[s]};
            done[s] += done[s] < lengths[s] ? take : 0;
        }
        mt_assert_ok(mt_decoder_forward(decoder, inputs, count, &error), &error);
        for (size_t i = 0; i < count; i++) {
            const size_t s = inputs[i].sequence, row = (s ? 13 : 0) + done[s] - 1;
            assert_int_equal(mt_decoder_length(decoder, s), done[s]);
            for (size_t v = 0; v < 61; v++)
                assert_true(fabsf(logits[s][v] - wanted[row * 61 + v]) <= tolerance);
        }
    }
    struct mt_decoder_input more = {
        .sequence = 1, .ids = batch->sequences[0].ids, .tokens = 1, .logits = logits[0]};
    assert_int_equal(mt_decoder_forward(decoder, &more, 1, &error), -ERANGE);
    mt_decoder_truncate(decoder, 1, 20);
    more.ids = batch->sequences[1].ids + 20;
    mt_assert_ok(mt_decoder_forward(decoder, &more, 1, &error), &error);
    for (size_t v = 0; v < 61; v++)
        assert_true(fabsf(logits[0][v] - wanted[33 * 61 + v]) <= tolerance);
    mt_decoder_free(decoder);
    free(wanted);
    bed_close(&bed);
    batch_free(batch);
}

static void the_decoder_gives_the_logits_of_the_whole_pass(void **state)
{
    (void)state;
    check_decoder("cpu", MT_F32, 1e-5f);
    check_decoder("cpu-discrete", MT_F32, 1e-5f);
    check_decoder("cpu", MT_BF16, 0.02f);
    check_decoder("cpu-discrete", MT_BF16, 0.02f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_is_the_mean_over_all_target_tokens_of_the_step),
        cmocka_unit_test(documents_of_a_pack_do_not_see_each_other),
        cmocka_unit_test(a_step_that_is_not_finite_changes_nothing),
        cmocka_unit_test(without_skipped_steps_a_gradient_that_is_not_finite_is_an_error),
        cmocka_unit_test(an_update_that_spoils_a_parameter_is_an_error),
        cmocka_unit_test(an_evaluation_sees_the_deferred_updates),
        cmocka_unit_test(frozen_parameters_keep_their_bits),
        cmocka_unit_test(what_no_reader_may_hand_over_is_refused),
        cmocka_unit_test(the_decoder_gives_the_logits_of_the_whole_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
