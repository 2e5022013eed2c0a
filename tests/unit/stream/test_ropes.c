/* Rotary tables that depend on how long the batch is: one that comes back is the very one it was, and a
 * sequence that grows past the point where tables change goes on as if it had been that long all along. */
#include "core/stream/decoder.h"
#include "tests/unit/stream/stream_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LONGEST 48u
#define ORIGINAL 16u
#define VOCABULARY 64u

enum kind { DYNAMIC, LONGROPE, KINDS };

/* With `fixed`, tables that depend on nothing are those that batches of `length` tokens ask for. */
static void scaling_of(enum kind kind, bool fixed, size_t length, char text[static 512])
{
    static const char *const factors[2] = {"[1.0, 1.1, 1.3, 1.6]", "[1.0, 2.0, 3.5, 5.0]"};
    const double ratio = length > ORIGINAL ? 2.0 * (double)length / ORIGINAL - 1 : 1;
    const size_t use = length > ORIGINAL;
    if (kind == LONGROPE)
        snprintf(text, 512,
                 "\"rope_scaling\": {\"type\": \"longrope\", \"original_max_position_embeddings\": 16,"
                 " \"factor\": 4.0, \"short_factor\": %s, \"long_factor\": %s}",
                 factors[fixed ? use : 0], factors[fixed ? use : 1]);
    else if (fixed)
        snprintf(text, 512, "\"rope_theta\": %.17g", 10000 * pow(ratio, 8.0 / 6.0));
    else
        snprintf(text, 512,
                 "\"rope_theta\": 10000.0, \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}");
}

static void open_scaled(struct bed *bed, const char *scaling, const char *device)
{
    char keys[768];
    struct setting setting = usual_setting(1, LONGEST);
    setting.device = device;
    snprintf(keys, sizeof keys,
             "{\"vocab_size\": 64, \"hidden_size\": 32, \"num_layers\": 2, \"num_attention_heads\": 4,"
             " \"intermediate_size\": 64, \"max_position_embeddings\": 16, %s}",
             scaling);
    bed_open(bed, keys, &setting);
}

static float *logits_of(const struct bed *bed, size_t length)
{
    struct mt_error error = {0};
    struct mt_batch *batch = batch_new(1, &length, VOCABULARY, 3);
    float *logits = malloc(length * VOCABULARY * sizeof *logits);
    assert_non_null(logits);
    mt_assert_ok(mt_executor_logits(bed->executor, batch, logits, &error), &error);
    batch_free(batch);
    return logits;
}

/* More lengths than tables are kept, some of them again and again. */
static void a_table_that_comes_back_is_the_same(void **state)
{
    (void)state;
    static const size_t lengths[] = {20, 8, 30, 20, 40, 16, 17, 48, 20, 5, 33, 25, 40, 20};
    static const char *const devices[] = {"cpu", "cpu-discrete"};
    for (size_t n = 0; n < 2 * KINDS; n++) {
        struct bed bed;
        char scaling[512];
        scaling_of(n % KINDS, false, 0, scaling);
        open_scaled(&bed, scaling, devices[n / KINDS]);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            struct bed fixed;
            scaling_of(n % KINDS, true, lengths[i], scaling);
            open_scaled(&fixed, scaling, devices[n / KINDS]);
            float *seen = logits_of(&bed, lengths[i]), *wanted = logits_of(&fixed, lengths[i]);
            assert_memory_equal(seen, wanted, lengths[i] * VOCABULARY * sizeof *seen);
            free(seen);
            free(wanted);
            bed_close(&fixed);
        }
        bed_close(&bed);
    }
}

/* A decoder for one sequence, and the tokens of it. */
static struct mt_decoder *open_decoder(struct bed *bed, enum kind kind, struct mt_batch **batch)
{
    const size_t longest = LONGEST;
    const struct mt_decoder_options options = {.max_sequences = 1, .max_tokens = LONGEST};
    struct mt_error error = {0};
    struct mt_decoder *decoder;
    char scaling[512];
    scaling_of(kind, false, 0, scaling);
    open_scaled(bed, scaling, "cpu");
    mt_assert_ok(mt_decoder_new(bed->store, bed->device, bed->pool, &options, &decoder, &error), &error);
    *batch = batch_new(1, &longest, VOCABULARY, 3);
    return decoder;
}

static void close_decoder(struct bed *bed, struct mt_decoder *decoder, struct mt_batch *batch)
{
    mt_decoder_free(decoder);
    batch_free(batch);
    bed_close(bed);
}

/* Token by token over the point, and again after most of it was forgotten. */
static void a_sequence_that_grows_long_is_turned_anew(void **state)
{
    (void)state;
    struct mt_error error = {0};
    float logits[VOCABULARY];
    struct bed bed;
    struct mt_batch *batch;
    struct mt_decoder *decoder = open_decoder(&bed, LONGROPE, &batch);
    for (size_t turn = 0; turn < 2; turn++) {
        mt_decoder_truncate(decoder, 0, turn ? 4 : 0);
        for (size_t done = mt_decoder_length(decoder, 0); done < LONGEST;) {
            const struct mt_decoder_input input = {
                .ids = batch->sequences[0].ids + done, .tokens = done ? 1 : 3, .logits = logits};
            mt_assert_ok(mt_decoder_forward(decoder, &input, 1, &error), &error);
            done += input.tokens;
            assert_int_equal(mt_decoder_length(decoder, 0), done);
            float *wanted = logits_of(&bed, done), *last = wanted + (done - 1) * VOCABULARY;
            for (size_t v = 0; v < VOCABULARY; v++)
                if (!(fabsf(logits[v] - last[v]) <= 1e-5f))
                    fail_msg("turn %zu, %zu tokens: logit %zu is %g, must be %g", turn, done, v,
                             (double)logits[v], (double)last[v]);
            free(wanted);
        }
    }
    close_decoder(&bed, decoder, batch);
}

static int no_host_memory(struct mt_device *device, size_t bytes, void **memory, bool *pinned,
                          struct mt_error *error)
{
    (void)device;
    (void)bytes;
    (void)memory;
    (void)pinned;
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "none left");
}

/* What is left then is the table of another length. */
static void a_table_that_could_not_be_made_is_not_read(void **state)
{
    (void)state;
    struct mt_error error = {0};
    float logits[VOCABULARY];
    struct bed bed;
    struct mt_batch *batch;
    struct mt_decoder *decoder = open_decoder(&bed, DYNAMIC, &batch);
    struct mt_decoder_input input = {.ids = batch->sequences[0].ids, .tokens = 20, .logits = logits};
    mt_assert_ok(mt_decoder_forward(decoder, &input, 1, &error), &error);
    const struct mt_device_api *own = bed.device->api;
    struct mt_device_api without = *own;
    without.host_allocate = no_host_memory;
    bed.device->api = &without;
    input = (struct mt_decoder_input){.ids = batch->sequences[0].ids + 20, .tokens = 1, .logits = logits};
    assert_int_equal(mt_decoder_forward(decoder, &input, 1, &error), -ENOMEM);
    bed.device->api = own;
    assert_int_equal(mt_decoder_forward(decoder, &input, 1, &error), -EIO);
    mt_assert_mentions(error.message, "failed before");
    close_decoder(&bed, decoder, batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_comes_back_is_the_same),
        cmocka_unit_test(a_sequence_that_grows_long_is_turned_anew),
        cmocka_unit_test(a_table_that_could_not_be_made_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
