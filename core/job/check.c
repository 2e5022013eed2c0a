/* What several keys say together: one model, one data set, one length of training, a shape that divides. */
#include "core/job/reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BYTES_VOCABULARY 259 /* of the tokenizer `bytes`: 256 bytes, begin, end, pad */
#define MAX_TOKENS_A_STEP 1099511627776.0

static double number_at(const struct mt_job_reader *reader, const char *key)
{
    return json_number_value(mt_reader_get(reader, key));
}

static void set_default(struct mt_job_reader *reader, const char *key, json_t *value)
{
    if (mt_reader_get(reader, key) || mt_reader_failed(reader, key))
        json_decref(value);
    else
        mt_reader_put(reader, key, value);
}

/* How many of the keys were given, and the first two of them. Failed ones count: the wish is there. */
static size_t count_given(const struct mt_job_reader *reader, const char *const *keys, const char *given[2])
{
    size_t count = 0;
    for (; *keys; keys++) {
        if (json_object_get(reader->origins, *keys)) {
            if (count < 2)
                given[count] = *keys;
            count++;
        }
    }
    return count;
}

/* Exactly one of `keys`; reports and returns false otherwise. `what` says what they name. */
static bool require_one(struct mt_job_reader *reader, const char *block, const char *const *keys,
                        const char *what)
{
    const char *given[2];
    size_t count = count_given(reader, keys, given);
    if (count == 0 && !mt_reader_failed(reader, block))
        mt_reader_error(reader, MT_REASON_BAD_JOB, block, NULL, "%s", what);
    if (count > 1)
        mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, given[1]), NULL,
                        "%s and %s exclude each other; give only one of them",
                        mt_reader_name(reader, given[0]), mt_reader_name(reader, given[1]));
    return count == 1;
}

static const char *const scratch_required[] = {"/model/hidden_size", "/model/num_layers",
                                               "/model/num_attention_heads"};

static bool require_scratch_keys(struct mt_job_reader *reader)
{
    bool good = true;
    for (size_t i = 0; i < sizeof scratch_required / sizeof *scratch_required; i++) {
        const char *key = scratch_required[i];
        if (mt_reader_failed(reader, key)) {
            good = false;
        } else if (!mt_reader_get(reader, key)) {
            mt_reader_error(reader, MT_REASON_BAD_JOB, key, NULL,
                            "%s is missing; a model that is trained from scratch needs it",
                            mt_job_key_name(key));
            good = false;
        }
    }
    return good;
}

static void check_heads(struct mt_job_reader *reader)
{
    size_t hidden = (size_t)number_at(reader, "/model/hidden_size");
    size_t heads = (size_t)number_at(reader, "/model/num_attention_heads");
    if (mt_reader_given(reader, "/model/head_dim")) {
        if ((size_t)number_at(reader, "/model/head_dim") % 2)
            mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/model/head_dim"), NULL,
                            "head_dim must be even: rotary positions turn pairs of numbers");
    } else if (mt_reader_failed(reader, "/model/head_dim")) {
        return;
    } else if (hidden % heads) {
        size_t below = hidden / heads * heads;
        mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/model/hidden_size"), NULL,
                        "hidden_size %zu is not divisible by num_attention_heads %zu; make it %zu, or give "
                        "head_dim",
                        hidden, heads, below ? below : heads);
    } else if (hidden / heads % 2) {
        mt_reader_error(
            reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/model/hidden_size"), NULL,
            "hidden_size %zu with %zu heads makes a head of %zu numbers, which must be even: rotary "
            "positions turn pairs of numbers",
            hidden, heads, hidden / heads);
    } else {
        set_default(reader, "/model/head_dim", json_integer((json_int_t)(hidden / heads)));
    }
    set_default(reader, "/model/num_key_value_heads", json_integer((json_int_t)heads));
    size_t kv_heads = (size_t)number_at(reader, "/model/num_key_value_heads");
    if (kv_heads && heads % kv_heads)
        mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/model/num_key_value_heads"),
                        NULL, "num_attention_heads %zu is not divisible by num_key_value_heads %zu", heads,
                        kv_heads);
    /* ceil(8/3 hidden) to a multiple of 64 */
    set_default(reader, "/model/intermediate_size",
                json_integer((json_int_t)(((8 * hidden + 2) / 3 + 63) / 64 * 64)));
}

static void check_token_ids(struct mt_job_reader *reader, double vocabulary)
{
    static const char *const keys[] = {"/model/bos_token_id", "/model/eos_token_id", "/model/pad_token_id"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const json_t *ids = mt_reader_get(reader, keys[k]);
        size_t count = json_is_array(ids) ? json_array_size(ids) : ids ? 1 : 0;
        for (size_t i = 0; i < count; i++) {
            const json_t *id = json_is_array(ids) ? json_array_get(ids, i) : ids;
            if (json_number_value(id) >= vocabulary)
                mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, keys[k]), NULL,
                                "%s %.0f is outside of the vocabulary of %.0f", mt_job_key_name(keys[k]),
                                json_number_value(id), vocabulary);
        }
    }
}

static void check_vocabulary(struct mt_job_reader *reader)
{
    if (mt_reader_failed(reader, "/model/vocab_size") || mt_reader_failed(reader, "/model/tokenizer"))
        return;
    set_default(reader, "/model/tokenizer", json_string("bytes"));
    const char *tokenizer = json_string_value(mt_reader_get(reader, "/model/tokenizer"));
    if (tokenizer && strcmp(tokenizer, "bytes") == 0) {
        set_default(reader, "/model/vocab_size", json_integer(BYTES_VOCABULARY));
        if (number_at(reader, "/model/vocab_size") < BYTES_VOCABULARY)
            mt_reader_error(
                reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/model/vocab_size"), NULL,
                "vocab_size %.0f is too small for the tokenizer bytes, which has %d ids; make it %d "
                "or leave it out",
                number_at(reader, "/model/vocab_size"), BYTES_VOCABULARY, BYTES_VOCABULARY);
    }
    if (mt_reader_get(reader, "/model/vocab_size"))
        check_token_ids(reader, number_at(reader, "/model/vocab_size"));
}

static void check_scratch(struct mt_job_reader *reader)
{
    const char *family = json_string_value(mt_reader_get(reader, "/model/architecture"));
    /* Other families have names and defaults of their own for what these are: core/model knows them. */
    const bool llama = family && strcmp(family, "llama") == 0;
    if (llama && require_scratch_keys(reader))
        check_heads(reader);
    check_vocabulary(reader);
    if (!llama)
        return;
    set_default(reader, "/model/rms_norm_eps", json_real(1e-5));
    if (!mt_reader_get(reader, "/model/rope_parameters"))
        set_default(reader, "/model/rope_theta", json_real(10000.0));
    set_default(reader, "/model/tie_word_embeddings", json_false());
    set_default(reader, "/model/attention_bias", json_false());
    set_default(reader, "/model/mlp_bias", json_false());
    set_default(reader, "/model/hidden_act", json_string("silu"));
    set_default(reader, "/model/initializer_range", json_real(0.02));
    if (!mt_reader_failed(reader, "/dataset/max_seq_len")) {
        double longest = fmax(2048, number_at(reader, "/dataset/max_seq_len"));
        set_default(reader, "/model/max_position_embeddings", json_integer((json_int_t)longest));
        if (number_at(reader, "/dataset/max_seq_len") > number_at(reader, "/model/max_position_embeddings") &&
            !mt_reader_failed(reader, "/model/max_position_embeddings"))
            mt_reader_note(
                reader,
                "dataset.max_seq_len %.0f is longer than the model's max_position_embeddings %.0f; "
                "other programs may refuse such long texts.",
                number_at(reader, "/dataset/max_seq_len"),
                number_at(reader, "/model/max_position_embeddings"));
    }
    if (number_at(reader, "/model/attention_dropout") > 0)
        mt_reader_note(reader, "model.attention_dropout: dropout is not applied.");
}

/* Keys that shape a new model make no sense beside a model that has its own config.json. */
static void refuse_scratch_keys(struct mt_job_reader *reader)
{
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        if ((key->flags & MT_KEY_CONFIG) && json_object_get(reader->origins, key->pointer))
            mt_reader_error(
                reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, key->pointer), NULL,
                "%s shapes a model that is trained from scratch, but this job starts from one that "
                "has its own config.json",
                mt_reader_name(reader, key->pointer));
    }
}

static void check_model(struct mt_job_reader *reader)
{
    static const char *const one_of[] = {"/model/path", "/model/name", "/model/architecture", NULL};
    if (!require_one(reader, "/model", one_of,
                     "the model is missing: give model.path (a folder to start from), model.name or "
                     "model.architecture (to train from scratch)"))
        return;
    if (json_object_get(reader->origins, "/model/architecture"))
        check_scratch(reader);
    else
        refuse_scratch_keys(reader);
}

static void check_dataset(struct mt_job_reader *reader)
{
    static const char *const one_of[] = {"/dataset/name", "/dataset/path", "/dataset/mix", NULL};
    require_one(reader, "/dataset", one_of,
                "the data is missing: give dataset.path (a file or folder), dataset.name (an entry of "
                "dataset_info.json) or dataset.mix (several of these)");
    if (mt_reader_given(reader, "/dataset/mix_strategy") && !mt_reader_get(reader, "/dataset/mix") &&
        !mt_reader_failed(reader, "/dataset/mix"))
        mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/dataset/mix_strategy"), NULL,
                        "mix_strategy says how the data sets of dataset.mix are mixed, and there is no mix");
    const json_t *packing = mt_reader_get(reader, "/dataset/packing");
    if (json_is_true(mt_reader_get(reader, "/dataset/group_by_length")) && !json_is_false(packing))
        mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/dataset/group_by_length"), NULL,
                        "packing fills every sequence already; group_by_length needs packing: false");
    double held_out = number_at(reader, "/dataset/val_size");
    if (held_out >= 1 && held_out != floor(held_out))
        mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/dataset/val_size"), NULL,
                        "val_size must be a share below 1 or a whole number of samples, found %.15g",
                        held_out);
}

static void check_steps(struct mt_job_reader *reader)
{
    static const char *const one_of[] = {"/training/max_steps", "/training/num_epochs", NULL};
    const char *given[2];
    size_t count = count_given(reader, one_of, given);
    if (count > 1)
        mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, given[1]), NULL,
                        "%s and %s exclude each other: give the number of updates or the number of epochs",
                        mt_reader_name(reader, given[0]), mt_reader_name(reader, given[1]));
    if (count == 0)
        mt_reader_note(reader, "Neither training.max_steps nor training.num_epochs is given: training takes "
                               "100 steps.");
}

static void check_batch(struct mt_job_reader *reader)
{
    double batch = number_at(reader, "/training/batch_size");
    double steps = number_at(reader, "/training/gradient_accumulation_steps");
    double micro = number_at(reader, "/training/micro_batch_size"); /* 0: auto */
    if (mt_reader_failed(reader, "/training/batch_size") ||
        mt_reader_failed(reader, "/training/gradient_accumulation_steps"))
        return;
    if (micro > batch * steps)
        mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/training/micro_batch_size"),
                        NULL, "micro_batch_size %.0f is larger than a whole step of %.0f sequences", micro,
                        batch * steps);
    if (!mt_reader_failed(reader, "/dataset/max_seq_len") &&
        batch * steps * number_at(reader, "/dataset/max_seq_len") > MAX_TOKENS_A_STEP)
        mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/training/batch_size"), NULL,
                        "batch_size x gradient_accumulation_steps x max_seq_len is %.3g tokens a step; no "
                        "machine holds so many",
                        batch * steps * number_at(reader, "/dataset/max_seq_len"));
}

/* Layers that are visited together are recomputed together. */
static void check_memory(struct mt_job_reader *reader)
{
    const char *recompute = json_string_value(mt_reader_get(reader, "/memory/recompute"));
    const double interval = number_at(reader, "/memory/checkpoint_interval");
    if (recompute && strcmp(recompute, "never") == 0 && interval > 1)
        mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/memory/recompute"), NULL,
                        "recompute: never keeps what every layer computes, and checkpoint_interval: %.0f "
                        "recomputes %.0f layers from one input: leave one of them out",
                        interval, interval);
}

void mt_job_check(struct mt_job_reader *reader)
{
    check_model(reader);
    check_dataset(reader);
    check_steps(reader);
    check_batch(reader);
    check_memory(reader);
}
