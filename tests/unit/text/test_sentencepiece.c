/* SentencePiece models: the ids that the tokenizers of `transformers` built on the library give
 * (sentencepiece/make.py), and files that are damaged. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/text/tokenizer.h"
#include "tests/unit/support.h"

#include <jansson.h>

#define GOLDEN "tests/unit/text/sentencepiece"

static struct mt_tokenizer *load(const char *folder)
{
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    mt_assert_ok(mt_tokenizer_load(folder, &tokenizer, &error), &error);
    return tokenizer;
}

static void assert_ids(const struct mt_tokenizer *tokenizer, const json_t *text, const json_t *expected,
                       bool special)
{
    struct mt_error error = {0};
    struct mt_ids ids = {0};
    struct mt_spans spans = {0};
    mt_assert_ok(mt_tokenizer_encode_spans(tokenizer, json_string_value(text), json_string_length(text),
                                           special, &ids, &spans, &error),
                 &error);
    bool same = ids.count == json_array_size(expected) && spans.count == ids.count;
    for (size_t i = 0; same && i < ids.count; i++)
        same = ids.data[i] == json_integer_value(json_array_get(expected, i));
    if (!same) {
        mt_autofree char *line = json_dumps(expected, 0);
        for (size_t i = 0; i < ids.count; i++)
            print_error("%d ", ids.data[i]);
        fail_msg("instead of %s for \"%s\"", line, json_string_value(text));
    }
    mt_ids_free(&ids);
    mt_spans_free(&spans);
}

/* null: the tokenizer has none. */
static void assert_name(const json_t *golden, const char *name, int32_t id)
{
    const json_t *expected = json_object_get(golden, name);
    assert_int_equal(id, json_is_null(expected) ? MT_TOKEN_NONE : json_integer_value(expected));
}

static void the_ids_are_those_of_transformers(void **state)
{
    char path[320], folder[256];
    snprintf(folder, sizeof folder, GOLDEN "/%s", (const char *)*state);
    snprintf(path, sizeof path, "%s/golden.json", folder);
    mt_autojson json_t *golden = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_non_null(golden);
    struct mt_tokenizer *tokenizer = load(folder);
    assert_name(golden, "begin", mt_tokenizer_begin(tokenizer));
    assert_name(golden, "end", mt_tokenizer_end(tokenizer));
    assert_name(golden, "pad", mt_tokenizer_pad(tokenizer));
    assert_int_equal(mt_tokenizer_vocab_size(tokenizer),
                     json_integer_value(json_object_get(golden, "vocab_size")));
    const json_t *one;
    size_t i;
    assert_true(json_array_size(json_object_get(golden, "cases")) > 120);
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        assert_ids(tokenizer, json_object_get(one, "text"), json_object_get(one, "ids"), false);
        assert_ids(tokenizer, json_object_get(one, "text"), json_object_get(one, "special"), true);
    }
    mt_tokenizer_free(tokenizer);
}

/* --- damaged files ----------------------------------------------------------------------------------------
 */

static void write_model(const struct mt_test_folder *folder, const char *data, size_t bytes)
{
    struct mt_error error = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizer.model", folder->path);
    mt_assert_ok(mt_file_write_atomic(path, data, bytes, 0666, &error), &error);
}

static void assert_refused(const struct mt_test_folder *folder, const char *words)
{
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    assert_true(mt_tokenizer_load(folder->path, &tokenizer, &error) < 0);
    assert_null(tokenizer);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    if (words && !strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
}

/* One piece, as the file has it. */
static size_t piece(char *out, const char *text, float score, char type)
{
    const size_t length = strlen(text);
    size_t at = 0;
    out[at++] = 0x0a;
    out[at++] = (char)(length + 9);
    out[at++] = 0x0a;
    out[at++] = (char)length;
    memcpy(out + at, text, length);
    at += length;
    out[at++] = 0x15;
    memcpy(out + at, &score, 4);
    at += 4;
    out[at++] = 0x18;
    out[at++] = type;
    return at;
}

static void what_is_wrong_with_the_pieces_is_named(void **state)
{
    struct mt_test_folder *folder = *state;
    char data[256];
    size_t bytes = piece(data, "a", 0, 1);
    write_model(folder, data, bytes);
    assert_refused(folder, "no piece stands for what is unknown");
    bytes += piece(data + bytes, "<unk>", 0, 2);
    size_t more = bytes + piece(data + bytes, "a", -1, 1);
    write_model(folder, data, more);
    assert_refused(folder, "is there twice");
    more = bytes + piece(data + bytes, "", -1, 1);
    write_model(folder, data, more);
    assert_refused(folder, "piece 2 is empty");
    more = bytes + piece(data + bytes, "b", (float)(0.0 / 0.0), 1);
    write_model(folder, data, more);
    assert_refused(folder, "the score of piece 2 is not a number");
    more = bytes + piece(data + bytes, "b", 0, 9);
    write_model(folder, data, more);
    assert_refused(folder, "type 9");
    more = bytes + piece(data + bytes, "<unk2>", 0, 2);
    write_model(folder, data, more);
    assert_refused(folder, "two pieces");
    memcpy(data + bytes, "\x12\x02\x18\x03", 4); /* trainer_spec.model_type: word */
    write_model(folder, data, bytes + 4);
    assert_refused(folder, "type 3 (word) is not supported yet");
    memcpy(data + bytes, "\x12\x03\x98\x02\x01", 5); /* byte_fallback */
    write_model(folder, data, bytes + 5);
    assert_refused(folder, "there is none for 0x00");
    /* Of two characters between <0x and >, but no byte: numbers with a sign or a blank. */
    static const char *const none[] = {"<0x-1>", "<0x+1>", "<0x 1>", "<0xg0>", "<0x1>", "<0x001>"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        more = bytes + piece(data + bytes, none[i], 0, 6);
        memcpy(data + more, "\x12\x03\x98\x02\x01", 5);
        write_model(folder, data, more + 5);
        assert_refused(folder, "the byte piece");
    }
    memcpy(data + bytes, "\x1a\x07\x12\x05\xff\xff\xff\xff\x00", 9); /* a trie of 4 GiB */
    write_model(folder, data, bytes + 9);
    assert_refused(folder, "precompiled_charsmap is damaged");
}

static void other_files_are_no_models(void **state)
{
    struct mt_test_folder *folder = *state;
    static const char *const data[] = {"",
                                       "\n",
                                       "version https://git-lfs.github.com/spec/v1\n",
                                       "{\"a\": 1}",
                                       "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                       "\n\x7f",
                                       "PK\x03\x04"};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        write_model(folder, data[i], strlen(data[i]));
        assert_refused(folder, "damaged, or is no SentencePiece model");
    }
}

/* Cut anywhere, and with any byte changed: refused, or a tokenizer that encodes. */
static void a_damaged_model_is_refused_or_works(void **state)
{
    struct mt_test_folder *folder = *state;
    struct mt_error error = {0};
    char *data;
    size_t bytes, loaded = 0;
    mt_assert_ok(mt_file_read(GOLDEN "/t5/tokenizer.model", 1 << 20, &data, &bytes, &error), &error);
    for (size_t i = 0; i < 400; i++) {
        struct mt_tokenizer *tokenizer;
        const size_t at = i * 7919 % bytes;
        const char kept = data[at];
        data[at] = (char)(kept ^ (1 << i % 8));
        write_model(folder, data, i % 2 ? at : bytes);
        data[at] = kept;
        if (mt_tokenizer_load(folder->path, &tokenizer, &error) < 0)
            continue;
        static const char text[] = "The quick \xc3\xa9 brown \xe6\x88\x91 \xff \xef\xac\x81 ne";
        struct mt_ids ids = {0};
        if (mt_tokenizer_encode(tokenizer, text, sizeof text - 1, true, &ids, &error) == 0)
            loaded++;
        mt_ids_free(&ids);
        mt_tokenizer_free(tokenizer);
    }
    assert_true(loaded > 100);
    free(data);
}

static void added_tokens_with_the_same_id_are_refused(void **state)
{
    struct mt_test_folder *folder = *state;
    struct mt_error error = {0};
    static const char config[] =
        "{\"added_tokens_decoder\": {\"5\": {\"content\": \"<a>\"}, \"05\": {\"content\": \"<b>\"}}}";
    char *data, path[512];
    size_t bytes;
    mt_assert_ok(mt_file_read(GOLDEN "/t5/tokenizer.model", 1 << 20, &data, &bytes, &error), &error);
    write_model(folder, data, bytes);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder->path);
    mt_assert_ok(mt_file_write_atomic(path, config, sizeof config - 1, 0666, &error), &error);
    assert_refused(folder, "both have the id 5");
    free(data);
}

static void a_saved_tokenizer_is_the_same(void **state)
{
    struct mt_test_folder *folder = *state;
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer = load(GOLDEN "/llama");
    mt_assert_ok(mt_tokenizer_save(tokenizer, folder->path, &error), &error);
    struct mt_tokenizer *again = load(folder->path);
    assert_string_equal(mt_tokenizer_fingerprint(tokenizer), mt_tokenizer_fingerprint(again));
    struct mt_tokenizer *other = load(GOLDEN "/llama_legacy");
    assert_string_not_equal(mt_tokenizer_fingerprint(tokenizer), mt_tokenizer_fingerprint(other));
    mt_tokenizer_free(tokenizer);
    mt_tokenizer_free(again);
    mt_tokenizer_free(other);
}

#define GOLDEN_TEST(kind)                                                                                    \
    {                                                                                                        \
        "the_ids_are_those_of_transformers_" kind, the_ids_are_those_of_transformers, NULL, NULL,            \
            (void *)(kind)                                                                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        GOLDEN_TEST("llama_legacy"),
        GOLDEN_TEST("llama"),
        GOLDEN_TEST("llama_no_prefix"),
        GOLDEN_TEST("llama_old_files"),
        GOLDEN_TEST("gemma"),
        GOLDEN_TEST("t5"),
        mt_test_in_folder(what_is_wrong_with_the_pieces_is_named),
        mt_test_in_folder(other_files_are_no_models),
        mt_test_in_folder(a_damaged_model_is_refused_or_works),
        mt_test_in_folder(added_tokens_with_the_same_id_are_refused),
        mt_test_in_folder(a_saved_tokenizer_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
