/* tiktoken vocabularies that are damaged, and what the classes of tokenizers add to a good one. That ids are
 * the library's is in tests/e2e/tokenizers.py. */
#include "core/base/cleanup.h"
#include "core/text/base64.h"
#include "core/text/tokenizer.h"
#include "tests/unit/support.h"

#include <time.h>

static void write_file(const struct mt_test_folder *folder, const char *name, const char *data, size_t bytes)
{
    struct mt_error error = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    mt_assert_ok(mt_file_write_atomic(path, data, bytes, 0666, &error), &error);
}

static void base64_of(const char *data, size_t bytes, char *out)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes; i += 3) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < bytes ? (unsigned char)data[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            *out++ = i + k <= bytes ? alphabet[bits >> (18 - 6 * k) & 63] : '=';
    }
    *out = '\0';
}

/* All bytes, then these tokens. */
static size_t vocabulary(char *out, const char *const *tokens)
{
    size_t at = 0, rank = 0;
    char token[64];
    for (; rank < 256; rank++) {
        base64_of(&(char){(char)rank}, 1, token);
        at += (size_t)sprintf(out + at, "%s %zu\n", token, rank);
    }
    for (; *tokens; tokens++, rank++) {
        base64_of(*tokens, strlen(*tokens), token);
        at += (size_t)sprintf(out + at, "%s %zu\n", token, rank);
    }
    return at;
}

static const char *const tokens[] = {"he", "ll", "llo", "hello", " hello", NULL};
static const char qwen[] = "{\"tokenizer_class\": \"QWenTokenizer\"}";

static void assert_refused(const struct mt_test_folder *folder, const char *words)
{
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    assert_true(mt_tokenizer_load(folder->path, &tokenizer, &error) < 0);
    assert_null(tokenizer);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
}

static void qwen_has_special_tokens_of_its_own(void **state)
{
    struct mt_test_folder *folder = *state;
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    char data[8192];
    write_file(folder, "qwen.tiktoken", data, vocabulary(data, tokens));
    write_file(folder, "tokenizer_config.json", qwen, sizeof qwen - 1);
    mt_assert_ok(mt_tokenizer_load(folder->path, &tokenizer, &error), &error);
    assert_int_equal(mt_tokenizer_vocab_size(tokenizer), 261 + 208);
    assert_int_equal(mt_tokenizer_end(tokenizer), 261);
    assert_string_equal(mt_tokenizer_kind(tokenizer), "tiktoken");
    struct mt_ids ids = {0};
    static const char text[] = "hello hellohe<|im_end|>";
    static const int32_t expected[] = {259, 260, 256, 263};
    mt_assert_ok(mt_tokenizer_encode(tokenizer, text, sizeof text - 1, true, &ids, &error), &error);
    assert_int_equal(ids.count, 4);
    assert_memory_equal(ids.data, expected, sizeof expected);
    struct mt_text back = {0};
    mt_assert_ok(mt_tokenizer_decode(tokenizer, ids.data, ids.count, false, &back, &error), &error);
    assert_string_equal(back.data, text);
    char other[512];
    snprintf(other, sizeof other, "%s/saved", folder->path);
    mt_assert_ok(mt_folder_create(other, 0777, &error), &error);
    mt_assert_ok(mt_tokenizer_save(tokenizer, other, &error), &error);
    struct mt_tokenizer *again;
    mt_assert_ok(mt_tokenizer_load(other, &again, &error), &error);
    assert_string_equal(mt_tokenizer_fingerprint(again), mt_tokenizer_fingerprint(tokenizer));
    mt_tokenizer_free(again);
    mt_text_free(&back);
    mt_ids_free(&ids);
    mt_tokenizer_free(tokenizer);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    struct mt_test_folder *folder = *state;
    char data[8192];
    const size_t bytes = vocabulary(data, tokens);
    write_file(folder, "tokenizer_config.json", qwen, sizeof qwen - 1);
    static const struct {
        const char *line, *words;
    } wrong[] = {
        {"!!!! 261\n", "line 262 is not a token in base64"},
        {"aGU= 261\n", "line 262: its token or its rank is there"},
        {"aGVh 5\n", "line 262: its token or its rank"},
        {"aGVh x\n", "line 262 is not"},
        {"aGVh\n", "line 262 is not"},
        {"aGVh 99999999\n", "line 262 is not"},
        {"aGVh -1\n", "line 262 is not"},
        {"aGVh 99999999999999999999\n", "line 262 is not"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        strcpy(data + bytes, wrong[i].line);
        write_file(folder, "qwen.tiktoken", data, bytes + strlen(wrong[i].line));
        assert_refused(folder, wrong[i].words);
    }
    const size_t second = (size_t)(strchr(data, '\n') - data) + 1;
    write_file(folder, "qwen.tiktoken", data + second, bytes - second);
    assert_refused(folder, "no token stands for the byte 0x00");
}

static void classes_that_are_not_known_are_named(void **state)
{
    struct mt_test_folder *folder = *state;
    char data[8192];
    write_file(folder, "tokenizer.model", data, vocabulary(data, tokens));
    assert_refused(folder, "(none given) are not known");
    static const char other[] = "{\"tokenizer_class\": \"OtherTokenizer\"}";
    write_file(folder, "tokenizer_config.json", other, sizeof other - 1);
    assert_refused(folder, "OtherTokenizer are not known");
    static const char glm[] = "{\"tokenizer_class\": \"ChatGLM4Tokenizer\"}";
    write_file(folder, "tokenizer_config.json", glm, sizeof glm - 1);
    assert_refused(folder, "puts [gMASK] before a text");
    static const char taken[] =
        "{\"tokenizer_class\": \"ChatGLM4Tokenizer\", \"added_tokens_decoder\": {\"7\": "
        "{\"content\": \"[gMASK]\"}}}";
    write_file(folder, "tokenizer_config.json", taken, sizeof taken - 1);
    assert_refused(folder, "\"[gMASK]\" has the id 7 of another token");
}

static void a_token_longer_than_the_bound_is_refused(void **state)
{
    struct mt_test_folder *folder = *state;
    char data[8192], token[2048];
    const size_t bytes = vocabulary(data, (const char *const[]){NULL});
    memset(token, 'x', sizeof token);
    base64_of(token, 1025, data + bytes);
    strcat(data + bytes, " 256\n");
    write_file(folder, "tokenizer_config.json", qwen, sizeof qwen - 1);
    write_file(folder, "qwen.tiktoken", data, strlen(data));
    assert_refused(folder, "line 257: a token of 1025 bytes; the bound is 1024");

    token[1025] = '\0';
    mt_autofree char *config = NULL;
    assert_true(asprintf(&config,
                         "{\"tokenizer_class\": \"QWenTokenizer\", \"additional_special_tokens\": [\"%s\"]}",
                         token) > 0);
    write_file(folder, "tokenizer_config.json", config, strlen(config));
    write_file(folder, "qwen.tiktoken", data, bytes);
    assert_refused(folder, "is of 1025 bytes; the bound is 1024");
}

/* Each of them is looked for among the others: in a map, or for minutes. */
static void hundreds_of_thousands_of_added_tokens_load_soon(void **state)
{
    enum { COUNT = 400000 };
    struct mt_test_folder *folder = *state;
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    char data[8192];
    size_t bytes = 1;
    mt_autofree char *added = malloc((size_t)COUNT * 40);
    assert_non_null(added);
    added[0] = '{';
    for (size_t i = 0; i < COUNT; i++)
        bytes += (size_t)sprintf(added + bytes, "%s\"<added-%zu>\":%zu", i ? "," : "", i, 1000 + i);
    added[bytes++] = '}';
    write_file(folder, "qwen.tiktoken", data, vocabulary(data, tokens));
    write_file(folder, "tokenizer_config.json", qwen, sizeof qwen - 1);
    write_file(folder, "added_tokens.json", added, bytes);
    const clock_t begin = clock();
    mt_assert_ok(mt_tokenizer_load(folder->path, &tokenizer, &error), &error);
    assert_true((clock() - begin) / CLOCKS_PER_SEC < 40); /* under sanitizers, too */
    struct mt_ids ids = {0};
    static const char text[] = "<added-7><added-399999>";
    mt_assert_ok(mt_tokenizer_encode(tokenizer, text, sizeof text - 1, true, &ids, &error), &error);
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.data[0], 1007);
    assert_int_equal(ids.data[1], 400999);
    mt_ids_free(&ids);
    mt_tokenizer_free(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(qwen_has_special_tokens_of_its_own),
        mt_test_in_folder(what_is_wrong_is_named_with_its_line),
        mt_test_in_folder(classes_that_are_not_known_are_named),
        mt_test_in_folder(a_token_longer_than_the_bound_is_refused),
        mt_test_in_folder(hundreds_of_thousands_of_added_tokens_load_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
