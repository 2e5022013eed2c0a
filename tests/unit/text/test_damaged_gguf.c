/* GGUF files with changed bytes, cut ends and metadata of other types: read or refused with a sentence, and
 * nothing else, while the sanitizers look on. MT_FUZZ_CASES says how many (2,000); MT_FUZZ_SEED from where.
 */
#include "core/base/random.h"
#include "core/formats/gguf.h"
#include "core/model/open.h"
#include "core/model/tensors.h"
#include "core/text/template.h"
#include "core/text/tokenizer.h"
#include "tests/unit/support.h"

#define MODEL "tests/golden/gguf/phi3_longrope_long.gguf"

static size_t number_of(const char *variable, size_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoul(text, NULL, 10) : otherwise;
}

static void write_file(const char *path, const char *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
}

static void check_sentence(int result, const struct mt_error *error)
{
    if (result == 0)
        return;
    assert_true(error->reason == MT_REASON_BAD_MODEL || error->reason == MT_REASON_OUT_OF_MEMORY);
    assert_true(strlen(error->message) > 10);
}

static void read_tensors(const char *path, const struct mt_model *model)
{
    struct mt_error error = {0};
    struct mt_tensors *tensors;
    int r = mt_tensors_open(path, model, &tensors, &error);
    check_sentence(r, &error);
    for (size_t i = 0; r == 0 && i < mt_tensors_count(tensors); i++) {
        const struct mt_tensor *tensor = mt_tensors_at(tensors, i);
        const size_t count = tensor->elements < 4096 ? tensor->elements : 4096;
        float values[4096];
        if (tensor->readable) {
            assert_int_equal(mt_tensor_read(tensor, 0, count, values), 0);
            assert_int_equal(mt_tensor_read(tensor, tensor->elements - count, count, values), 0);
        }
    }
    if (r == 0)
        mt_tensors_close(tensors);
}

/* All that is made of a file. */
static bool use(const char *path)
{
    struct mt_error error = {0};
    struct mt_model *model = NULL;
    struct mt_tokenizer *tokenizer = NULL;
    struct mt_template *template = NULL;
    int model_result = mt_model_open(path, &model, &error);
    check_sentence(model_result, &error);
    read_tensors(path, model);
    int r = mt_tokenizer_load(path, &tokenizer, &error);
    check_sentence(r, &error);
    struct mt_ids ids = {0};
    if (r == 0)
        mt_tokenizer_encode(tokenizer, "Hello <b> world", 15, true, &ids, &error);
    mt_ids_free(&ids);
    mt_tokenizer_free(tokenizer);
    check_sentence(mt_template_load(path, &template, &error), &error);
    mt_template_free(template);
    mt_model_free(model);
    return model_result == 0;
}

static void put(struct mt_text *text, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char byte = (char)(value >> 8 * i);
        assert_int_equal(mt_text_append(text, &byte, 1), 0);
    }
}

static void put_text(struct mt_text *text, const char *value)
{
    put(text, strlen(value), 8);
    assert_int_equal(mt_text_append(text, value, strlen(value)), 0);
}

/* A vocabulary of bytes and a few merges, without tensors. */
static struct mt_text make_vocabulary(const char *model)
{
    static const char *const tokens[] = {"<unk>", "<b>", "H",  "e",  "l",        "o",           "w",
                                         "r",     "d",   "He", "ll", "\xc4\xa0", "\xe2\x96\x81"};
    static const char *const merges[] = {"H e", "l l"};
    const size_t count = sizeof tokens / sizeof *tokens;
    struct mt_text text = {0};
    assert_int_equal(mt_text_append(&text, "GGUF", 4), 0);
    put(&text, 3, 4);
    put(&text, 0, 8);
    put(&text, 9, 8);
    put_text(&text, "general.architecture");
    put(&text, MT_GGUF_STRING, 4);
    put_text(&text, "llama");
    put_text(&text, "tokenizer.ggml.model");
    put(&text, MT_GGUF_STRING, 4);
    put_text(&text, model);
    put_text(&text, "tokenizer.ggml.pre");
    put(&text, MT_GGUF_STRING, 4);
    put_text(&text, "qwen2");
    put_text(&text, "tokenizer.ggml.tokens");
    put(&text, MT_GGUF_ARRAY, 4);
    put(&text, MT_GGUF_STRING, 4);
    put(&text, count, 8);
    for (size_t i = 0; i < count; i++)
        put_text(&text, tokens[i]);
    put_text(&text, "tokenizer.ggml.token_type");
    put(&text, MT_GGUF_ARRAY, 4);
    put(&text, MT_GGUF_I32, 4);
    put(&text, count, 8);
    for (size_t i = 0; i < count; i++)
        put(&text, i == 0 ? 2 : i == 1 ? 3 : 1, 4);
    put_text(&text, "tokenizer.ggml.scores");
    put(&text, MT_GGUF_ARRAY, 4);
    put(&text, MT_GGUF_F32, 4);
    put(&text, count, 8);
    for (size_t i = 0; i < count; i++)
        put(&text, 0xbf800000u + (i << 16), 4);
    put_text(&text, "tokenizer.ggml.merges");
    put(&text, MT_GGUF_ARRAY, 4);
    put(&text, MT_GGUF_STRING, 4);
    put(&text, 2, 8);
    for (size_t i = 0; i < 2; i++)
        put_text(&text, merges[i]);
    put_text(&text, "tokenizer.ggml.bos_token_id");
    put(&text, MT_GGUF_U32, 4);
    put(&text, 1, 4);
    put_text(&text, "tokenizer.chat_template");
    put(&text, MT_GGUF_STRING, 4);
    put_text(&text, "{% for m in messages %}{{ m.content }}{% endfor %}");
    return text;
}

/* Changes `data` of `bytes` bytes, of which `head` matter most; gives the new length. */
static size_t damage(struct mt_random *random, char *data, size_t bytes, size_t head)
{
    static const uint64_t odd[] = {0,          1,          0xff,       0x7fffffff,    0xffffffff,
                                   1ull << 32, 1ull << 62, UINT64_MAX, UINT64_MAX - 7};
    const uint64_t changes = 1 + mt_random_below(random, 3);
    for (uint64_t i = 0; i < changes; i++) {
        const size_t at = mt_random_below(random, head);
        const uint64_t value = odd[mt_random_below(random, 9)];
        switch (mt_random_below(random, 4)) {
        case 0:
            data[at] ^= (char)(1u << mt_random_below(random, 8));
            break;
        case 1:
            data[at] = (char)mt_random_below(random, 256);
            break;
        case 2:
            if (at + 8 <= bytes)
                memcpy(data + at, &value, 8);
            break;
        default:
            if (at + 4 <= bytes)
                memcpy(data + at, &value, 4);
        }
    }
    return mt_random_below(random, 16) ? bytes : mt_random_below(random, bytes + 1);
}

static void survives(void **state, const char *data, size_t bytes, size_t head, size_t cases,
                     const char *name)
{
    const char *path = mt_test_path(state, "damaged.gguf");
    struct mt_random random = {.key = mt_random_key(number_of("MT_FUZZ_SEED", 6), name)};
    char *copy = malloc(bytes + 8);
    size_t good = 0;
    assert_non_null(copy);
    for (size_t i = 0; i < cases; i++) {
        memcpy(copy, data, bytes);
        write_file(path, copy, damage(&random, copy, bytes, head));
        good += use(path);
    }
    printf("# %s: %zu of %zu were models all the same\n", name, good, cases);
    free(copy);
}

static void damaged_models_are_read_or_refused(void **state)
{
    struct mt_error error = {0};
    char *data;
    size_t bytes;
    mt_assert_ok(mt_file_read(MODEL, 1 << 20, &data, &bytes, &error), &error);
    assert_true(use(MODEL));
    survives(state, data, bytes, bytes < 4096 ? bytes : 4096, number_of("MT_FUZZ_CASES", 2000), "a model");
    free(data);
}

static void damaged_vocabularies_are_read_or_refused(void **state)
{
    static const char *const models[] = {"gpt2", "llama", "gemma4"};
    for (size_t i = 0; i < 3; i++) {
        struct mt_text text = make_vocabulary(models[i]);
        const char *path = mt_test_path(state, "whole.gguf");
        struct mt_tokenizer *tokenizer;
        struct mt_error error = {0};
        write_file(path, text.data, text.bytes);
        mt_assert_ok(mt_tokenizer_load(path, &tokenizer, &error), &error);
        mt_tokenizer_free(tokenizer);
        survives(state, text.data, text.bytes, text.bytes, number_of("MT_FUZZ_CASES", 2000) / 3, models[i]);
        mt_text_free(&text);
    }
}

static void tokens_of_one_text_are_refused(void **state)
{
    struct mt_text text = make_vocabulary("gpt2");
    struct mt_tokenizer *tokenizer;
    struct mt_error error = {0};
    const char *path = mt_test_path(state, "twice.gguf");
    char *found = memmem(text.data, text.bytes, "He\2\0\0\0\0\0\0\0ll", 12);
    assert_non_null(found);
    memcpy(found + 10, "He", 2);
    write_file(path, text.data, text.bytes);
    assert_int_equal(mt_tokenizer_load(path, &tokenizer, &error), -EINVAL);
    mt_assert_mentions(error.message, "tokens 9 and 10 have the same text");
    mt_text_free(&text);
}

/* The file with one more key, whose value is the lowest `bytes` of `value`. */
static void check_metadata(void **state, const char *key, enum mt_gguf_kind kind, uint64_t value,
                           size_t bytes, const char *mention)
{
    struct mt_text text = make_vocabulary("gpt2");
    struct mt_tokenizer *tokenizer;
    struct mt_error error = {0};
    const char *path = mt_test_path(state, "types.gguf");
    text.data[16]++;
    put_text(&text, key);
    put(&text, kind, 4);
    put(&text, value, bytes);
    write_file(path, text.data, text.bytes);
    const int r = mt_tokenizer_load(path, &tokenizer, &error);
    if (!mention) {
        mt_assert_ok(r, &error);
        mt_tokenizer_free(tokenizer);
    } else {
        assert_int_equal(r, -EINVAL);
        mt_assert_mentions(error.message, path);
        mt_assert_mentions(error.message, key);
        mt_assert_mentions(error.message, mention);
    }
    mt_text_free(&text);
}

/* It would pass for absent: no begin token, another pattern, a usual epsilon. */
static void metadata_of_other_types_is_refused_by_name(void **state)
{
    check_metadata(state, "tokenizer.ggml.add_bos_token", MT_GGUF_STRING, 0, 8, "must be true or false");
    check_metadata(state, "tokenizer.ggml.add_bos_token", MT_GGUF_U32, 2, 4, "must be true or false");
    check_metadata(state, "tokenizer.ggml.add_eos_token", MT_GGUF_F32, 0x3f000000, 4,
                   "must be true or false");
    check_metadata(state, "tokenizer.ggml.eos_token_id", MT_GGUF_F32, 0x3fc00000, 4,
                   "must be a whole number");
    check_metadata(state, "tokenizer.ggml.eos_token_id", MT_GGUF_STRING, 0, 8, "must be a whole number");
    check_metadata(state, "tokenizer.ggml.padding_token_id", MT_GGUF_BOOL, 1, 1, "must be a whole number");
    check_metadata(state, "tokenizer.chat_template.tool_use", MT_GGUF_U8, 1, 1, "must be a text");
    check_metadata(state, "tokenizer.ggml.eos_token_id", MT_GGUF_U32, UINT32_MAX, 4, NULL); /* none */
    check_metadata(state, "tokenizer.ggml.padding_token_id", MT_GGUF_U32, 99, 4, NULL);
    check_metadata(state, "tokenizer.ggml.add_eos_token", MT_GGUF_U8, 0, 1, NULL);
}

/* As Mistral-11B-OmniMix has it: an end token that was meant to be added to the vocabulary, and was not. */
static void an_id_beyond_the_vocabulary_is_none_where_no_text_has_it(void **state)
{
    static const struct {
        bool added, refused;
        uint32_t id;
    } cases[] = {{false, false, 99}, {true, true, 99}, {true, false, UINT32_MAX}, {true, false, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_text text = make_vocabulary("gpt2");
        struct mt_tokenizer *tokenizer;
        struct mt_error error = {0};
        const char *path = mt_test_path(state, "beyond.gguf");
        text.data[16] = (char)(text.data[16] + 2);
        put_text(&text, "tokenizer.ggml.eos_token_id");
        put(&text, MT_GGUF_U32, 4);
        put(&text, cases[i].id, 4);
        put_text(&text, "tokenizer.ggml.add_eos_token");
        put(&text, MT_GGUF_BOOL, 4);
        put(&text, cases[i].added, 1);
        write_file(path, text.data, text.bytes);
        const int r = mt_tokenizer_load(path, &tokenizer, &error);
        if (cases[i].refused) {
            assert_int_equal(r, -EINVAL);
            mt_assert_mentions(error.message, path);
            mt_assert_mentions(error.message,
                               "tokenizer.ggml.eos_token_id, which every text is to have, is 99");
        } else {
            mt_assert_ok(r, &error);
            assert_int_equal(mt_tokenizer_end(tokenizer), cases[i].id == 2 ? 2 : MT_TOKEN_NONE);
            mt_tokenizer_free(tokenizer);
        }
        mt_text_free(&text);
    }
}

/* A value of a whole model's file gets other bits, and its key another type of the same width. */
static void check_number(void **state, const char *key, enum mt_gguf_kind kind, uint32_t bits,
                         const char *mention)
{
    struct mt_error error = {0};
    struct mt_model *model;
    const char *path = mt_test_path(state, "number.gguf");
    char *data;
    size_t bytes;
    mt_assert_ok(mt_file_read(MODEL, 1 << 20, &data, &bytes, &error), &error);
    char *found = memmem(data, bytes, key, strlen(key));
    assert_non_null(found);
    const uint32_t type = kind;
    memcpy(found + strlen(key), &type, 4);
    memcpy(found + strlen(key) + 4, &bits, 4);
    write_file(path, data, bytes);
    assert_int_equal(mt_model_open(path, &model, &error), -EINVAL);
    mt_assert_mentions(error.message, path);
    mt_assert_mentions(error.message, key);
    mt_assert_mentions(error.message, mention);
    free(data);
}

static void numbers_that_are_none_are_refused_by_name(void **state)
{
    check_number(state, "phi3.rope.freq_base", MT_GGUF_F32, 0x7fc00000, "must be a finite number");
    check_number(state, "phi3.attention.layer_norm_rms_epsilon", MT_GGUF_F32, 0x7f800000,
                 "must be a finite number");
    check_number(state, "phi3.rope.dimension_count", MT_GGUF_F32, 0x3fc00000, "must be a whole number");
    check_number(state, "phi3.rope.scaling.original_context_length", MT_GGUF_F32, 0x3fc00000,
                 "must be a whole number");
}

static void a_score_that_is_no_number_is_refused(void **state)
{
    struct mt_text text = make_vocabulary("llama");
    struct mt_tokenizer *tokenizer;
    struct mt_error error = {0};
    const char *path = mt_test_path(state, "scores.gguf");
    char *found = memmem(text.data, text.bytes, "tokenizer.ggml.scores", 21);
    assert_non_null(found);
    memcpy(found + 21 + 16 + 4, "\0\0\xc0\x7f", 4);
    write_file(path, text.data, text.bytes);
    assert_int_equal(mt_tokenizer_load(path, &tokenizer, &error), -EINVAL);
    mt_assert_mentions(error.message, "tokenizer.ggml.scores: that of token 1 is not finite");
    mt_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(damaged_models_are_read_or_refused),
        mt_test_in_folder(damaged_vocabularies_are_read_or_refused),
        mt_test_in_folder(tokens_of_one_text_are_refused),
        mt_test_in_folder(an_id_beyond_the_vocabulary_is_none_where_no_text_has_it),
        mt_test_in_folder(metadata_of_other_types_is_refused_by_name),
        mt_test_in_folder(numbers_that_are_none_are_refused_by_name),
        mt_test_in_folder(a_score_that_is_no_number_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
