/* Every kind of tokenizer: a stream of ids, cut off anywhere, is the text that the same ids decode to at
 * once. Ids are random, many of them bytes and parts of characters, so that a stream stands at every byte of
 * a character. */
#include "core/base/cleanup.h"
#include "core/base/random.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer.h"
#include "tests/unit/support.h"

#include <glob.h>

#define ROUNDS 400
#define LONGEST 14

struct choice {
    const struct mt_tokenizer *tokenizer;
    int32_t *parts; /* ids that are not characters of ASCII */
    size_t num_parts;
};

static void find_parts(struct choice *choice)
{
    const size_t size = mt_tokenizer_vocab_size(choice->tokenizer);
    struct mt_error error = {0};
    choice->parts = calloc(size, sizeof *choice->parts);
    assert_non_null(choice->parts);
    for (size_t i = 0; i < size; i++) {
        mt_cleanup(mt_text_free) struct mt_text text = {0};
        const int32_t id = (int32_t)i;
        mt_assert_ok(mt_tokenizer_decode(choice->tokenizer, &id, 1, false, &text, &error), &error);
        for (size_t k = 0; k < text.bytes; k++)
            if ((unsigned char)text.data[k] >= 0x80) {
                choice->parts[choice->num_parts++] = id;
                break;
            }
    }
}

/* All pieces of the first `count` ids; each is well-formed. */
static void stream(const struct mt_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special,
                   struct mt_text *all)
{
    struct mt_error error = {0};
    struct mt_detokenizer *detokenizer;
    const char *piece;
    size_t bytes;
    mt_assert_ok(mt_detokenizer_new(tokenizer, skip_special, &detokenizer, &error), &error);
    for (size_t i = 0; i <= count; i++) {
        if (i < count)
            mt_assert_ok(mt_detokenizer_push(detokenizer, ids[i], &piece, &bytes, &error), &error);
        else
            mt_assert_ok(mt_detokenizer_finish(detokenizer, &piece, &bytes, &error), &error);
        assert_int_equal(mt_utf8_find_ill_formed(piece, bytes), bytes);
        assert_int_equal(mt_text_append(all, piece, bytes), 0);
    }
    mt_detokenizer_free(detokenizer);
}

static void check_at(const struct mt_tokenizer *tokenizer, const int32_t *ids, size_t count,
                     bool skip_special)
{
    mt_cleanup(mt_text_free) struct mt_text raw = {0}, expected = {0}, got = {0};
    struct mt_error error = {0};
    mt_assert_ok(mt_tokenizer_decode(tokenizer, ids, count, skip_special, &raw, &error), &error);
    assert_int_equal(mt_text_append_utf8(&expected, raw.data, raw.bytes), 0);
    stream(tokenizer, ids, count, skip_special, &got);
    assert_int_equal(got.bytes, expected.bytes);
    if (got.bytes)
        assert_memory_equal(got.data, expected.data, got.bytes);
}

static void check_tokenizer(const char *path)
{
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    struct mt_random random = {0};
    mt_assert_ok(mt_tokenizer_load(path, &tokenizer, &error), &error);
    struct choice choice = {.tokenizer = tokenizer};
    find_parts(&choice);
    assert_true(choice.num_parts > 10); /* of a Unigram without bytes there are few */
    for (size_t round = 0; round < ROUNDS; round++) {
        int32_t ids[LONGEST];
        for (size_t i = 0; i < LONGEST; i++)
            ids[i] = mt_random_below(&random, 4)
                         ? choice.parts[mt_random_below(&random, choice.num_parts)]
                         : (int32_t)mt_random_below(&random, mt_tokenizer_vocab_size(tokenizer));
        for (size_t count = 0; count <= LONGEST; count++)
            check_at(tokenizer, ids, count, round % 2);
    }
    free(choice.parts);
    mt_tokenizer_free(tokenizer);
}

/* A text's own ids, too: those of a model are no random ones. */
static void check_text(const char *path)
{
    static const char text[] =
        "Hello, wörld 日本 \xf0\x9f\xa6\x99\xe2\x80\x8d\xf0\x9f\x91\xa9 \xff\xc3( \xd8\xb9\xd8\xb1\n  x";
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    struct mt_ids ids = {0};
    mt_assert_ok(mt_tokenizer_load(path, &tokenizer, &error), &error);
    mt_assert_ok(mt_tokenizer_encode(tokenizer, text, sizeof text - 1, true, &ids, &error), &error);
    for (size_t count = 0; count <= ids.count; count++)
        check_at(tokenizer, ids.data, count, true);
    mt_ids_free(&ids);
    mt_tokenizer_free(tokenizer);
}

static void check_folders(const char *pattern, size_t least)
{
    glob_t found = {0};
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= least);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        *strrchr(found.gl_pathv[i], '/') = '\0';
        check_tokenizer(found.gl_pathv[i]);
        check_text(found.gl_pathv[i]);
    }
    globfree(&found);
}

static void a_stream_of_a_tokenizer_json_is_its_text(void **state)
{
    (void)state;
    check_folders("tests/unit/text/tokenizers/*/tokenizer.json", 14);
}

static void a_stream_of_a_sentencepiece_model_is_its_text(void **state)
{
    (void)state;
    check_folders("tests/unit/text/sentencepiece/*/tokenizer.model", 6);
}

static void a_stream_of_bytes_is_its_text(void **state)
{
    (void)state;
    check_tokenizer("bytes");
    check_text("bytes");
}

static void a_stream_of_tiktoken_ranks_is_its_text(void **state)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    /* E3 81, 81 82 and 9F A6 in base64: parts of characters */
    static const char more[] = "44E= 256\ngYI= 257\nn6Y= 258\n";
    struct mt_test_folder *folder = *state;
    struct mt_error error = {0};
    char ranks[8192], config[] = "{\"tokenizer_class\": \"QWenTokenizer\"}";
    size_t bytes = 0;
    for (unsigned byte = 0; byte < 256; byte++)
        bytes += (size_t)sprintf(ranks + bytes, "%c%c== %u\n", alphabet[byte >> 2], alphabet[(byte & 3) << 4],
                                 byte);
    memcpy(ranks + bytes, more, sizeof more - 1);
    bytes += sizeof more - 1;
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, "qwen.tiktoken"), ranks, bytes, 0666, &error),
                 &error);
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, "tokenizer_config.json"), config, sizeof config - 1,
                                      0666, &error),
                 &error);
    check_tokenizer(folder->path);
    check_text(folder->path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_of_a_tokenizer_json_is_its_text),
        cmocka_unit_test(a_stream_of_a_sentencepiece_model_is_its_text),
        cmocka_unit_test(a_stream_of_bytes_is_its_text),
        mt_test_in_folder(a_stream_of_tiktoken_ranks_is_its_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
