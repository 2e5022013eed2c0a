/* The `bytes` tokenizer: ids, special tokens, decoding in pieces, and the files that it is saved as. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer.h"
#include "tests/unit/support.h"

static struct mt_tokenizer *bytes_tokenizer(void)
{
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    mt_assert_ok(mt_tokenizer_load("bytes", &tokenizer, &error), &error);
    return tokenizer;
}

static void assert_ids(const struct mt_tokenizer *tokenizer, const char *text, size_t bytes, bool add_special,
                       const int32_t *expected, size_t count)
{
    struct mt_error error = {0};
    struct mt_ids ids = {0};
    mt_assert_ok(mt_tokenizer_encode(tokenizer, text, bytes, add_special, &ids, &error), &error);
    assert_int_equal(ids.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ids.data[i], expected[i]);
    mt_ids_free(&ids);
}

static void an_id_is_the_byte_it_stands_for(void **state)
{
    (void)state;
    struct mt_tokenizer *tokenizer = bytes_tokenizer();
    char text[256];
    int32_t expected[257] = {256};
    for (int i = 0; i < 256; i++) {
        text[i] = (char)i;
        expected[i + 1] = i;
    }
    assert_ids(tokenizer, text, 256, false, expected + 1, 256);
    assert_ids(tokenizer, text, 256, true, expected, 257); /* one begin token, no end token */
    assert_ids(tokenizer, "", 0, true, expected, 1);
    assert_int_equal(mt_tokenizer_vocab_size(tokenizer), 259);
    assert_int_equal(mt_tokenizer_begin(tokenizer), 256);
    assert_int_equal(mt_tokenizer_end(tokenizer), 257);
    assert_int_equal(mt_tokenizer_pad(tokenizer), 258);
    assert_string_equal(mt_tokenizer_kind(tokenizer), "bytes");
    mt_tokenizer_free(tokenizer);
}

#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)

/* Ids as `transformers` 5.24 gives them from the files that mt_tokenizer_save writes. */
static void texts_get_the_ids_that_transformers_gives_them(void **state)
{
    (void)state;
    struct mt_tokenizer *tokenizer = bytes_tokenizer();
    static const char special[] = "a<|end|><|begin|>\n<|end><|pad|>";
    assert_ids(tokenizer, special, sizeof special - 1, false,
               IDS(97, 257, 256, 10, 60, 124, 101, 110, 100, 62, 258));
    static const char llama[] = "\xf0\x9f\xa6\x99 h\xc3\xa9";
    assert_ids(tokenizer, llama, sizeof llama - 1, true, IDS(256, 240, 159, 166, 153, 32, 104, 195, 169));
    static const char half[] = "<<|end|>|";
    assert_ids(tokenizer, half, sizeof half - 1, false, IDS(60, 257, 124));
    static const char cut[] = "<|en";
    assert_ids(tokenizer, cut, sizeof cut - 1, false, IDS(60, 124, 101, 110));
    mt_tokenizer_free(tokenizer);
}

static void decoding_gives_back_every_text(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer = bytes_tokenizer();
    const int32_t ids[] = {256, 104, 105, 0, 255, 257, 258, 300, -1};
    struct mt_text text = {0};
    mt_assert_ok(mt_tokenizer_decode(tokenizer, ids, 9, true, &text, &error), &error);
    assert_int_equal(text.bytes, 4);
    assert_memory_equal(text.data, "hi\0\xff", 5);
    text.bytes = 0;
    mt_assert_ok(mt_tokenizer_decode(tokenizer, ids, 9, false, &text, &error), &error);
    static const char with_special[] = "<|begin|>hi\0\xff<|end|><|pad|>";
    assert_int_equal(text.bytes, sizeof with_special - 1);
    assert_memory_equal(text.data, with_special, sizeof with_special);
    mt_text_free(&text);
    mt_assert_ok(mt_tokenizer_decode(tokenizer, NULL, 0, false, &text, &error), &error);
    assert_string_equal(text.data, "");
    mt_text_free(&text);
    mt_tokenizer_free(tokenizer);
}

/* Bytes pushed one at a time; "|" after each piece. */
static void assert_pieces(const char *bytes, size_t count, const char *expected)
{
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer = bytes_tokenizer();
    struct mt_detokenizer *detokenizer;
    struct mt_text all = {0};
    const char *piece;
    size_t length;
    mt_assert_ok(mt_detokenizer_new(tokenizer, true, &detokenizer, &error), &error);
    for (size_t i = 0; i < count; i++) {
        mt_assert_ok(mt_detokenizer_push(detokenizer, (unsigned char)bytes[i], &piece, &length, &error),
                     &error);
        mt_text_append(&all, piece, length);
        mt_text_append(&all, "|", 1);
    }
    mt_assert_ok(mt_detokenizer_finish(detokenizer, &piece, &length, &error), &error);
    mt_text_append(&all, piece, length);
    assert_string_equal(all.data, expected);
    mt_text_free(&all);
    mt_detokenizer_free(detokenizer);
    mt_tokenizer_free(tokenizer);
}

static void a_stream_never_ends_inside_a_character(void **state)
{
    (void)state;
    assert_pieces("ab", 2, "a|b|");
    assert_pieces("\xc3\xa9x", 3, "|\xc3\xa9|x|");
    assert_pieces("\xf0\x9f\xa6\x99", 4, "|||\xf0\x9f\xa6\x99|");
}

#define R "\xef\xbf\xbd"

static void a_stream_shows_ill_formed_bytes_as_replacement_characters(void **state)
{
    (void)state;
    assert_pieces("\xff", 1, R "|");
    assert_pieces("\xc3(", 2, "|" R "(|");
    assert_pieces("\xf0\x9f", 2, "||" R);
    assert_pieces("\xe0\x80", 2, "|" R R "|");
}

static void utf8_is_told_from_what_is_not(void **state)
{
    (void)state;
    uint32_t character;
    assert_int_equal(mt_utf8_next("\xc3\xa9", 2, &character), 2);
    assert_int_equal(character, 0xe9);
    assert_int_equal(mt_utf8_next("\xf4\x8f\xbf\xbf", 4, &character), 4);
    assert_int_equal(character, 0x10ffff);
    assert_int_equal(mt_utf8_next("\xf4\x90\x80\x80", 4, &character), -1); /* beyond U+10FFFF */
    assert_int_equal(mt_utf8_next("\xed\xa0\x80", 3, &character), -1);     /* a surrogate */
    assert_int_equal(mt_utf8_next("\xc0\x80", 2, &character), -1);         /* a long form */
    assert_int_equal(mt_utf8_next("\xe2\x82(", 3, &character), -2);
    assert_int_equal(mt_utf8_next("\xe2\x82", 2, &character), MT_UTF8_INCOMPLETE);
    /* The example of the Unicode standard, table 3-8. */
    struct mt_text text = {0};
    mt_text_append_utf8(&text, "\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", 13);
    assert_string_equal(text.data, "a" R R R "b" R "c" R R "d");
    mt_text_free(&text);
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c <= 0xdfff)
            continue;
        char out[4];
        const size_t length = mt_utf8_write(c, out);
        if (mt_utf8_next(out, length, &character) != (int)length || character != c)
            fail_msg("U+%04X does not come back", c);
    }
}

static void the_saved_form_is_known_again(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    struct mt_tokenizer *tokenizer = bytes_tokenizer(), *loaded;
    mt_assert_ok(mt_tokenizer_save(tokenizer, folder->path, &error), &error);
    mt_assert_ok(mt_tokenizer_load(folder->path, &loaded, &error), &error);
    assert_string_equal(mt_tokenizer_kind(loaded), "bytes");
    assert_string_equal(mt_tokenizer_fingerprint(loaded), mt_tokenizer_fingerprint(tokenizer));
    mt_tokenizer_free(loaded);
    mt_tokenizer_free(tokenizer);
}

/* The parts that decide what `transformers` makes of it. */
static void the_saved_form_is_a_byte_level_vocabulary(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    struct mt_tokenizer *tokenizer = bytes_tokenizer();
    mt_assert_ok(mt_tokenizer_save(tokenizer, folder->path, &error), &error);
    mt_tokenizer_free(tokenizer);

    mt_autojson json_t *document = NULL, *config = NULL;
    mt_assert_ok(mt_document_read(mt_test_path(state, "tokenizer.json"), &document, NULL, &error), &error);
    mt_assert_ok(mt_document_read(mt_test_path(state, "tokenizer_config.json"), &config, NULL, &error),
                 &error);
    const json_t *vocab = mt_pointer_get(document, "/model/vocab");
    assert_int_equal(json_object_size(vocab), 256);
    assert_int_equal(json_integer_value(json_object_get(vocab, "a")), 'a');
    assert_int_equal(json_integer_value(json_object_get(vocab, "\xc4\xa0")), ' ');  /* U+0120 */
    assert_int_equal(json_integer_value(json_object_get(vocab, "\xc4\x8a")), '\n'); /* U+010A */
    assert_int_equal(json_integer_value(json_object_get(vocab, "\xc4\x80")), 0);    /* U+0100 */
    assert_int_equal(json_integer_value(json_object_get(vocab, "\xc5\x83")), 0xad); /* U+0143, the last */
    assert_int_equal(json_integer_value(json_object_get(vocab, "\xc3\xbf")), 0xff);
    assert_int_equal(json_array_size(mt_pointer_get(document, "/model/merges")), 0);
    assert_int_equal(json_integer_value(mt_pointer_get(document, "/added_tokens/1/id")), 257);
    assert_string_equal(json_string_value(mt_pointer_get(document, "/added_tokens/1/content")),
                        json_string_value(json_object_get(config, "eos_token")));
}

static void a_folder_without_a_usable_tokenizer_is_refused(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    struct mt_tokenizer *tokenizer;
    assert_int_equal(mt_tokenizer_load(folder->path, &tokenizer, &error), -ENOENT);
    mt_assert_mentions(error.message, "no tokenizer.json");
    assert_int_equal(mt_tokenizer_load(mt_test_path(state, "absent"), &tokenizer, &error), -ENOENT);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    const char *path = mt_test_path(state, "tokenizer.json");
    static const char broken[] = "{\"model\":";
    mt_assert_ok(mt_file_write_atomic(path, broken, sizeof broken - 1, 0666, &error), &error);
    assert_true(mt_tokenizer_load(folder->path, &tokenizer, &error) < 0);
    mt_assert_mentions(error.message, "line 1");
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    assert_null(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_the_byte_it_stands_for),
        cmocka_unit_test(texts_get_the_ids_that_transformers_gives_them),
        cmocka_unit_test(decoding_gives_back_every_text),
        cmocka_unit_test(a_stream_never_ends_inside_a_character),
        cmocka_unit_test(a_stream_shows_ill_formed_bytes_as_replacement_characters),
        cmocka_unit_test(utf8_is_told_from_what_is_not),
        mt_test_in_folder(the_saved_form_is_known_again),
        mt_test_in_folder(the_saved_form_is_a_byte_level_vocabulary),
        mt_test_in_folder(a_folder_without_a_usable_tokenizer_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
