/* Tokenizers from tokenizer.json: the ids that the library `tokenizers` gives (tokenizers/make.py), and files
 * that are damaged or ask for what is not there. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/pool.h"
#include "core/text/regex.h"
#include "core/text/tokenizer.h"
#include "tests/unit/support.h"

#include <jansson.h>
#include <sys/stat.h>

#define GOLDEN "tests/unit/text/tokenizers"

static struct mt_tokenizer *load(const char *folder)
{
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    mt_assert_ok(mt_tokenizer_load(folder, &tokenizer, &error), &error);
    return tokenizer;
}

static struct mt_tokenizer *load_golden(const char *kind)
{
    char folder[256];
    snprintf(folder, sizeof folder, GOLDEN "/%s", kind);
    return load(folder);
}

static struct mt_ids encode(const struct mt_tokenizer *tokenizer, const char *text, size_t bytes,
                            bool add_special)
{
    struct mt_error error = {0};
    struct mt_ids ids = {0};
    mt_assert_ok(mt_tokenizer_encode(tokenizer, text, bytes, add_special, &ids, &error), &error);
    return ids;
}

static void assert_same_ids(const struct mt_ids *ids, size_t skip, const json_t *expected, const char *text)
{
    bool same = ids->count == json_array_size(expected) + skip;
    for (size_t i = skip; same && i < ids->count; i++)
        same = ids->data[i] == json_integer_value(json_array_get(expected, i - skip));
    if (!same)
        fail_msg("other ids for \"%s\"", text);
}

/* The pieces of a stream, together, must be the text. */
static void assert_streams_to(const struct mt_tokenizer *tokenizer, const struct mt_ids *ids,
                              const char *expected)
{
    struct mt_error error = {0};
    struct mt_detokenizer *detokenizer;
    struct mt_text all = {0};
    const char *piece;
    size_t bytes;
    mt_text_append(&all, "", 0);
    mt_assert_ok(mt_detokenizer_new(tokenizer, true, &detokenizer, &error), &error);
    for (size_t i = 0; i < ids->count; i++) {
        mt_assert_ok(mt_detokenizer_push(detokenizer, ids->data[i], &piece, &bytes, &error), &error);
        mt_text_append(&all, piece, bytes);
    }
    mt_assert_ok(mt_detokenizer_finish(detokenizer, &piece, &bytes, &error), &error);
    mt_text_append(&all, piece, bytes);
    assert_string_equal(all.data, expected);
    mt_text_free(&all);
    mt_detokenizer_free(detokenizer);
}

static void check_case(const struct mt_tokenizer *tokenizer, const json_t *one)
{
    struct mt_error error = {0};
    const json_t *text = json_object_get(one, "text"), *expected = json_object_get(one, "ids");
    const char *decoded = json_string_value(json_object_get(one, "decoded"));
    const char *words = json_string_value(text);
    struct mt_ids ids = encode(tokenizer, words, json_string_length(text), false);
    assert_same_ids(&ids, 0, expected, words);
    struct mt_ids with_special = encode(tokenizer, words, json_string_length(text), true);
    assert_same_ids(&with_special, 1, expected, words);
    assert_int_equal(with_special.data[0], mt_tokenizer_begin(tokenizer));
    struct mt_text back = {0};
    mt_assert_ok(mt_tokenizer_decode(tokenizer, ids.data, ids.count, true, &back, &error), &error);
    assert_string_equal(back.data, decoded);
    assert_streams_to(tokenizer, &ids, decoded);
    mt_text_free(&back);
    mt_ids_free(&ids);
    mt_ids_free(&with_special);
}

static void the_ids_are_those_of_the_library(void **state)
{
    const char *kind = *state;
    struct mt_error error = {0};
    char path[256];
    snprintf(path, sizeof path, GOLDEN "/%s/golden.json", kind);
    mt_autojson json_t *golden = NULL;
    mt_assert_ok(mt_document_read(path, &golden, NULL, &error), &error);
    struct mt_tokenizer *tokenizer = load_golden(kind);
    assert_string_equal(mt_tokenizer_kind(tokenizer), strncmp(kind, "unigram", 7) ? "BPE" : "Unigram");
    assert_int_equal(mt_tokenizer_begin(tokenizer), json_integer_value(json_object_get(golden, "begin")));
    assert_int_equal(mt_tokenizer_end(tokenizer), json_integer_value(json_object_get(golden, "end")));
    assert_int_equal(mt_tokenizer_pad(tokenizer), MT_TOKEN_NONE);
    assert_int_equal(mt_tokenizer_vocab_size(tokenizer),
                     json_integer_value(json_object_get(golden, "vocab_size")));
    const json_t *one;
    size_t i;
    assert_true(json_array_size(json_object_get(golden, "cases")) > 100);
    json_array_foreach(json_object_get(golden, "cases"), i, one) check_case(tokenizer, one);
    mt_tokenizer_free(tokenizer);
}

/* Every kind: spans are in order and in the text, together they cover all of it that is no blank, and a token
 * written in plain ASCII stands at its place. */
static void spans_tell_where_tokens_come_from(void **state)
{
    static const char *const kinds[] = {"gpt2",    "gpt2_prefix_space", "llama3",  "qwen2",   "llama2",
                                        "gemma",   "metaspace",         "mistral", "unigram", "unigram_bytes",
                                        "deepseek"};
    static const char text[] = "Hello <|end|>  w\xc3\xb6rld e\xcc\x81\xff\xe6\x88\x91 x";
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct mt_tokenizer *tokenizer = load_golden(kinds[k]);
        struct mt_error error = {0};
        struct mt_ids ids = {0}, plain = encode(tokenizer, text, sizeof text - 1, true);
        struct mt_spans spans = {0};
        bool covered[sizeof text] = {false};
        uint32_t begin = 0;
        mt_assert_ok(mt_tokenizer_encode_spans(tokenizer, text, sizeof text - 1, true, &ids, &spans, &error),
                     &error);
        assert_int_equal(ids.count, plain.count);
        assert_memory_equal(ids.data, plain.data, ids.count * sizeof *ids.data);
        assert_int_equal(spans.count, ids.count);
        for (size_t i = 0; i < spans.count; i++) {
            assert_true(spans.data[i].begin >= begin && spans.data[i].end >= spans.data[i].begin &&
                        spans.data[i].end < sizeof text);
            begin = spans.data[i].begin;
            for (size_t at = begin; at < spans.data[i].end; at++)
                covered[at] = true;
            struct mt_text piece = {0};
            mt_tokenizer_decode(tokenizer, &ids.data[i], 1, false, &piece, &error);
            if (strcmp(piece.data, "<|end|>") == 0) {
                assert_int_equal(spans.data[i].begin, 6);
                assert_int_equal(spans.data[i].end, 13);
            }
            /* The bytes of a character that is no token stand each for itself. */
            if (strcmp(kinds[k], "llama2") == 0 && piece.bytes == 1 && (unsigned char)piece.data[0] >= 0x80 &&
                (unsigned char)text[begin] != 0xff) {
                assert_int_equal(text[begin], piece.data[0]);
                assert_int_equal(spans.data[i].end, begin + 1);
            }
            mt_text_free(&piece);
        }
        assert_true(spans.data[0].begin == 0 && spans.data[0].end == 0); /* the begin token */
        for (size_t at = 0; at < sizeof text - 1; at++)
            assert_true(covered[at] || text[at] == ' ');
        mt_ids_free(&ids);
        mt_ids_free(&plain);
        mt_spans_free(&spans);
        mt_tokenizer_free(tokenizer);
    }
}

static void text_that_is_not_utf8_is_encoded_with_replacement_characters(void **state)
{
    (void)state;
    struct mt_tokenizer *tokenizer = load_golden("llama3");
    static const char bad[] = "a\xff\xe2\x82 b\xc3", good[] = "a\xef\xbf\xbd\xef\xbf\xbd b\xef\xbf\xbd";
    struct mt_ids a = encode(tokenizer, bad, sizeof bad - 1, false);
    struct mt_ids b = encode(tokenizer, good, sizeof good - 1, false);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.data, b.data, a.count * sizeof *a.data);
    mt_ids_free(&a);
    mt_ids_free(&b);
    mt_tokenizer_free(tokenizer);
}

static void a_zero_byte_is_a_character_like_others(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer = load_golden("gpt2");
    struct mt_ids ids = encode(tokenizer, "a\0b", 3, false);
    struct mt_text text = {0};
    mt_assert_ok(mt_tokenizer_decode(tokenizer, ids.data, ids.count, false, &text, &error), &error);
    assert_int_equal(text.bytes, 3);
    assert_memory_equal(text.data, "a\0b", 3);
    mt_text_free(&text);
    mt_ids_free(&ids);
    mt_tokenizer_free(tokenizer);
}

/* One word far beyond the bound of the quick way. That both ways agree is in the golden texts, some of which
 * have words of more than 64 bytes. */
static void a_million_characters_without_a_blank_end_soon_and_come_back(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer = load_golden("qwen2");
    enum { BYTES = 1000000 };
    char *text = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        text[i] = "etaoinshrdlu"[i * i % 11];
    struct mt_ids ids = encode(tokenizer, text, BYTES, false);
    struct mt_text back = {0};
    mt_assert_ok(mt_tokenizer_decode(tokenizer, ids.data, ids.count, false, &back, &error), &error);
    assert_int_equal(back.bytes, BYTES);
    assert_memory_equal(back.data, text, BYTES);
    mt_text_free(&back);
    mt_ids_free(&ids);
    free(text);
    mt_tokenizer_free(tokenizer);
}

struct shared {
    const struct mt_tokenizer *tokenizer;
    struct mt_ids results[64];
};

static void encode_task(void *context, size_t task)
{
    struct shared *shared = context;
    static const char text[] = "The quick brown fox's dog \xe6\x88\x91\xe8\x83\xbd 12345 <|end|>";
    mt_tokenizer_encode(shared->tokenizer, text, sizeof text - 1 - task % 8, false, &shared->results[task],
                        NULL);
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    struct mt_tokenizer *tokenizer = load_golden("deepseek");
    struct shared shared = {.tokenizer = tokenizer};
    struct mt_pool *pool = mt_pool_new(4);
    mt_pool_run(pool, 64, encode_task, &shared);
    for (size_t i = 8; i < 64; i++) {
        assert_int_equal(shared.results[i].count, shared.results[i % 8].count);
        assert_memory_equal(shared.results[i].data, shared.results[i % 8].data,
                            shared.results[i].count * sizeof(int32_t));
    }
    for (size_t i = 0; i < 64; i++)
        mt_ids_free(&shared.results[i]);
    mt_pool_free(pool);
    mt_tokenizer_free(tokenizer);
}

static void copy(const char *from, const char *to)
{
    struct mt_error error = {0};
    char *data;
    size_t bytes;
    mt_assert_ok(mt_file_read(from, 1 << 20, &data, &bytes, &error), &error);
    mt_assert_ok(mt_file_write_atomic(to, data, bytes, 0666, &error), &error);
    free(data);
}

static void the_files_are_saved_as_they_were_even_when_their_folder_is_gone(void **state)
{
    struct mt_error error = {0};
    const char *from = mt_test_path(state, "from"), *to = mt_test_path(state, "to");
    mt_assert_ok(mt_folder_create(from, 0777, &error), &error);
    mt_assert_ok(mt_folder_create(to, 0777, &error), &error);
    copy(GOLDEN "/smollm/tokenizer.json", mt_test_path(state, "from/tokenizer.json"));
    copy(GOLDEN "/smollm/tokenizer_config.json", mt_test_path(state, "from/tokenizer_config.json"));
    struct mt_tokenizer *tokenizer = load(from);
    mt_assert_ok(mt_folder_remove(from, &error), &error);
    mt_assert_ok(mt_tokenizer_save(tokenizer, to, &error), &error);
    struct mt_tokenizer *again = load(to), *original = load_golden("smollm");
    assert_string_equal(mt_tokenizer_fingerprint(again), mt_tokenizer_fingerprint(original));
    char a[65], b[65];
    mt_assert_ok(mt_file_sha256(mt_test_path(state, "to/tokenizer_config.json"), a, &error), &error);
    mt_assert_ok(mt_file_sha256(GOLDEN "/smollm/tokenizer_config.json", b, &error), &error);
    assert_string_equal(a, b);
    mt_tokenizer_free(tokenizer);
    mt_tokenizer_free(again);
    mt_tokenizer_free(original);
}

static void fingerprints_tell_tokenizers_apart(void **state)
{
    (void)state;
    struct mt_tokenizer *a = load_golden("gpt2"), *b = load_golden("gpt2_prefix_space"),
                        *c = load_golden("gpt2");
    assert_string_not_equal(mt_tokenizer_fingerprint(a), mt_tokenizer_fingerprint(b));
    assert_string_equal(mt_tokenizer_fingerprint(a), mt_tokenizer_fingerprint(c));
    mt_tokenizer_free(a);
    mt_tokenizer_free(b);
    mt_tokenizer_free(c);
}

/* --- what is refused
 * ---------------------------------------------------------------------------------------- */

#define MODEL(vocab, merges) "\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}"

static void assert_refused(void **state, const char *document, const char *why)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    struct mt_tokenizer *tokenizer;
    mt_assert_ok(
        mt_file_write_atomic(mt_test_path(state, "tokenizer.json"), document, strlen(document), 0666, &error),
        &error);
    if (mt_tokenizer_load(folder->path, &tokenizer, &error) == 0)
        fail_msg("accepted: %s", document);
    assert_null(tokenizer);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    mt_assert_mentions(error.message, why);
}

static void damaged_vocabularies_are_refused(void **state)
{
    assert_refused(state, "{" MODEL("\"a\":0,\"b\":0", "") "}", "two tokens have the id 0");
    assert_refused(state, "{" MODEL("\"a\":0,\"a\":1", "") "}", "duplicate");
    assert_refused(state, "{" MODEL("\"a\":-1", "") "}", "the id of the token \"a\"");
    assert_refused(state, "{" MODEL("\"a\":99999999999", "") "}", "the id of the token \"a\"");
    assert_refused(state, "{" MODEL("\"a\":1.5", "") "}", "the id of the token \"a\"");
    assert_refused(state, "{" MODEL("", "") "}", "empty");
    assert_refused(state, "{\"model\":{\"type\":\"BPE\",\"merges\":[]}}", "no vocabulary");
    assert_refused(state, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "no list of merges");
    assert_refused(state, "[]", "no JSON object");
    assert_refused(state, "{\"added_tokens\":[{\"id\":0,\"content\":\"x\"}]," MODEL("\"a\":0", "") "}",
                   "two tokens have the id 0");
    assert_refused(state, "{\"added_tokens\":[{\"id\":5}]," MODEL("\"a\":0", "") "}", "has no content");
    char document[2048];
    snprintf(document, sizeof document,
             "{\"added_tokens\":[{\"id\":1,\"content\":\"%01025d\"}]," MODEL("\"a\":0", "") "}", 0);
    assert_refused(state, document, "is of 1025 bytes; the bound is 1024");
    assert_refused(state, "{\"added_tokens\":[{\"id\":-5,\"content\":\"x\"}]," MODEL("\"a\":0", "") "}",
                   "the id of");
}

static void damaged_merges_are_refused(void **state)
{
    assert_refused(state, "{" MODEL("\"a\":0", "\"a b\"") "}", "names a token that is not in the vocabulary");
    assert_refused(state, "{" MODEL("\"a\":0,\"b\":1", "[\"a\",\"b\"]") "}", "not in the vocabulary");
    assert_refused(state, "{" MODEL("\"a\":0", "\"ab\"") "}", "merge 0 is not a pair");
    assert_refused(state, "{" MODEL("\"a\":0", "\"a a a\"") "}", "merge 0 is not a pair");
    assert_refused(state, "{" MODEL("\"a\":0", "[\"a\"]") "}", "merge 0 is not a pair");
    assert_refused(state, "{" MODEL("\"a\":0", "7") "}", "merge 0 is not a pair");
}

/* By its name it is to be saved again; nobody will ever write to it. */
static void a_pipe_among_the_files_is_passed_over(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    static const char document[] = "{" MODEL("\"a\":0", "") "}";
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, "tokenizer.json"), document, sizeof document - 1,
                                      0666, &error),
                 &error);
    assert_int_equal(mkfifo(mt_test_path(state, "vocab.json"), 0600), 0);
    alarm(20);
    struct mt_tokenizer *tokenizer = load(folder->path);
    alarm(0);
    const char *saved = mt_test_path(state, "saved");
    mt_assert_ok(mt_folder_create(saved, 0777, &error), &error);
    mt_assert_ok(mt_tokenizer_save(tokenizer, saved, &error), &error);
    assert_false(mt_path_exists(mt_test_path(state, "saved/vocab.json")));
    assert_true(mt_path_exists(mt_test_path(state, "saved/tokenizer.json")));
    mt_tokenizer_free(tokenizer);
}

/* Merges that lead in circles (also through a token without text) take symbols away each time, so they end.
 */
static void merges_in_circles_end(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    static const char document[] =
        "{" MODEL("\"a\":0,\"b\":1,\"ab\":2,\"ba\":3,\"aba\":4,\"\":5",
                  "\"a b\",\"b a\",\"ab a\",\"a ba\",[\"a\",\"\"],[\"\",\"a\"],[\"\",\"\"],\"a b\"") "}";
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, "tokenizer.json"), document, sizeof document - 1,
                                      0666, &error),
                 &error);
    struct mt_tokenizer *tokenizer = load(folder->path);
    static const size_t lengths[] = {2, 3, 63, 64, 65, 100000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char *text = malloc(lengths[i]);
        size_t bytes = 0;
        for (size_t k = 0; k < lengths[i]; k++)
            text[k] = "ab"[k % 2];
        struct mt_ids ids = encode(tokenizer, text, lengths[i], false);
        for (size_t k = 0; k < ids.count; k++) /* the lengths of their texts */
            bytes += (size_t) "\1\1\2\2\3\0"[ids.data[k]];
        assert_int_equal(bytes, lengths[i]);
        assert_true(ids.count < lengths[i]);
        mt_ids_free(&ids);
        free(text);
    }
    mt_tokenizer_free(tokenizer);
}

#define UNIGRAM(vocab) "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":" vocab "}}"

static void damaged_unigram_models_are_refused(void **state)
{
    assert_refused(state, UNIGRAM("{}"), "no vocabulary");
    assert_refused(state, UNIGRAM("[]"), "empty");
    assert_refused(state, UNIGRAM("[[\"a\"]]"), "token 0 has no score");
    assert_refused(state, UNIGRAM("[[\"a\",\"b\"]]"), "token 0 has no score");
    assert_refused(state, UNIGRAM("[[1,1]]"), "token 0 has no text");
    assert_refused(state, UNIGRAM("[7]"), "token 0 has no text");
    assert_refused(state, UNIGRAM("[[\"a\",-1],[\"a\",-2]]"), "two tokens have the id 1 or the text \"a\"");
    char document[2048];
    snprintf(document, sizeof document, UNIGRAM("[[\"%01025d\",-1]]"), 0);
    assert_refused(state, document, "token 0 is of 1025 bytes; the bound is 1024");
    assert_refused(state, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",-1]]}}",
                   "unk_id is not in the vocabulary");
}

/* Rules that lead anywhere: the text comes out somehow, and nothing is read outside of the rules. */
static void damaged_normalization_rules_are_refused_or_harmless(void **state)
{
#define RULES(base64)                                                                                        \
    "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"" base64                           \
    "\"}," MODEL("\"a\":0", "") "}"
    assert_refused(state, RULES(""), "precompiled_charsmap is damaged");
    assert_refused(state, RULES("!!!!"), "precompiled_charsmap is damaged");
    assert_refused(state, RULES("/////w=="), "precompiled_charsmap is damaged");
    assert_refused(state, RULES("BAAAAA=="), "precompiled_charsmap is damaged");
    assert_refused(state, RULES("BAAAAAAAAAD/AA=="), "precompiled_charsmap is damaged"); /* no UTF-8 */

    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    static const char *const wild[] = {RULES("BAAAAP////8="), RULES("CAAAAAAEAAD/////"),
                                       RULES("CAAAAGEFAABhAQAA")};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        mt_assert_ok(mt_file_write_atomic(mt_test_path(state, "tokenizer.json"), wild[i], strlen(wild[i]),
                                          0666, &error),
                     &error);
        struct mt_tokenizer *tokenizer = load(folder->path);
        struct mt_ids ids = encode(tokenizer, "a ab \xc3\xa9\r\n", 8, false);
        mt_ids_free(&ids);
        mt_tokenizer_free(tokenizer);
    }
}

static void a_character_without_a_token_and_without_an_unknown_one_is_an_error(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    static const char document[] = "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1]]}}";
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, "tokenizer.json"), document, sizeof document - 1,
                                      0666, &error),
                 &error);
    struct mt_tokenizer *tokenizer = load(folder->path);
    struct mt_ids ids = {0};
    mt_assert_ok(mt_tokenizer_encode(tokenizer, "aa", 2, false, &ids, &error), &error);
    assert_int_equal(ids.count, 2);
    assert_true(mt_tokenizer_encode(tokenizer, "ab", 2, false, &ids, &error) < 0);
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    mt_ids_free(&ids);
    mt_tokenizer_free(tokenizer);
}

/* A BPE model without an unknown token leaves them out, as the library does; the second time from the cache.
 */
static void a_word_without_any_token_has_no_ids(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    static const char document[] =
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}," MODEL(
            "\"a\":0", "") "}";
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, "tokenizer.json"), document, sizeof document - 1,
                                      0666, &error),
                 &error);
    struct mt_tokenizer *tokenizer = load(folder->path);
    struct mt_ids ids = {0};
    for (int i = 0; i < 2; i++) {
        mt_assert_ok(mt_tokenizer_encode(tokenizer, "xyz", 3, false, &ids, &error), &error);
        assert_int_equal(ids.count, 0);
    }
    mt_assert_ok(mt_tokenizer_encode(tokenizer, "xyz a", 5, false, &ids, &error), &error);
    assert_int_equal(ids.count, 1);
    mt_ids_free(&ids);
    mt_tokenizer_free(tokenizer);
}

/* Five steps that make each a hundred of it would make 10 GB of one. */
static void a_normalizer_that_multiplies_is_stopped(void **state)
{
#define STEP(pattern) "{\"type\":\"Replace\",\"pattern\":{\"" pattern "\":\"a\"},\"content\":\"%0100d\"}"
    static const char *const formats[] = {
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" STEP("String") "," STEP("String") "," STEP(
            "String") "," STEP("String") "," STEP("String") "]}," MODEL("\"a\":0", "") "}",
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" STEP("Regex") "," STEP("Regex") "," STEP(
            "Regex") "," STEP("Regex") "," STEP("Regex") "]}," MODEL("\"a\":0", "") "}"};
    for (size_t i = 0; i < 2; i++) {
        struct mt_error error = {0};
        struct mt_test_folder *folder = *state;
        char document[2048];
        snprintf(document, sizeof document, formats[i], 0, 0, 0, 0, 0);
        for (char *c = document; *c; c++)
            if (*c == '0' && c[-1] != ':')
                *c = 'a';
        mt_assert_ok(mt_file_write_atomic(mt_test_path(state, "tokenizer.json"), document, strlen(document),
                                          0666, &error),
                     &error);
        struct mt_tokenizer *tokenizer = load(folder->path);
        struct mt_ids ids = {0};
        assert_int_equal(mt_tokenizer_encode(tokenizer, "aaaa", 4, false, &ids, &error), -E2BIG);
        assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
        mt_assert_mentions(error.message, "more than 64 times");
        mt_ids_free(&ids);
        mt_tokenizer_free(tokenizer);
    }
#undef STEP
    char document[4096];
    snprintf(document, sizeof document,
             "{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"%02000d\"}," MODEL("\"a\":0", "") "}", 0);
    assert_refused(state, document, "a normalizer's text is of 2000 bytes; the bound is 1024");
    snprintf(
        document, sizeof document,
        "{\"decoder\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%02000d\"}," MODEL(
            "\"a\":0", "") "}",
        0);
    assert_refused(state, document, "a Replace in the decoder has a text of 2000 bytes; the bound is 1024");
    /* An added token that it can't be applied to is not passed over. */
    snprintf(
        document, sizeof document,
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a+)+b|(a|aa)+c\"},\"content\":\"\"},"
        "\"added_tokens\":[{\"id\":1,\"normalized\":true,\"content\":\"%064d\"}]," MODEL("\"a\":0", "") "}",
        0);
    for (char *c = strstr(document, "content\":\"0"); *c; c++)
        if (*c == '0' && c[-1] != ':')
            *c = 'a';
    assert_refused(state, document, "can't be applied to the added token");
}

static void a_pattern_of_any_length_is_refused_at_once(void **state)
{
    (void)state;
    const size_t bytes = (size_t)10 << 20;
    struct mt_error error = {0};
    struct mt_regex *regex;
    char *pattern = malloc(bytes);
    assert_non_null(pattern);
    memset(pattern, 'a', bytes);
    assert_int_equal(mt_regex_compile(pattern, bytes, &regex, &error), -EINVAL);
    mt_assert_mentions(error.message, "beyond the bound of 65536");
    free(pattern);
}

static void what_is_not_supported_yet_is_named(void **state)
{
    assert_refused(state, "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}",
                   "WordLevel is not supported yet");
    assert_refused(state, "{\"normalizer\":{\"type\":\"Nmt\"}," MODEL("\"a\":0", "") "}",
                   "the normalizer Nmt is not supported yet");
    assert_refused(state, "{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," MODEL("\"a\":0", "") "}",
                   "the pre-tokenizer UnicodeScripts is not supported yet");
    assert_refused(state, "{\"decoder\":{\"type\":\"CTC\"}," MODEL("\"a\":0", "") "}",
                   "the decoder CTC is not");
    assert_refused(state, "{\"post_processor\":{\"type\":\"New\"}," MODEL("\"a\":0", "") "}",
                   "post-processor New");
}

static void damaged_parts_are_refused(void **state)
{
#define SPLIT(pattern)                                                                                       \
    "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern                               \
    "\"},\"behavior\":\"Isolated\"}," MODEL("\"a\":0", "") "}"
    assert_refused(state, SPLIT("(a"), "pattern is wrong");
    assert_refused(state, SPLIT("[[:alpha:]]"), "between [: and :]");
    assert_refused(state, SPLIT("[a"), "a class without end");
    assert_refused(state, SPLIT("[a[b]"), "a class without end");
    assert_refused(state, SPLIT("[a&&"), "a class without end");
    assert_refused(state, SPLIT("[[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]]"), "classes nested so deep");
    assert_refused(state, SPLIT("((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("),
                   "groups nested so deep");
    assert_refused(state, SPLIT("(?x: a)"), "the option x");
    assert_refused(state, SPLIT("\\\\p{"), "property");
    assert_refused(state, SPLIT("{2}+"), "pattern is wrong");
    assert_refused(state, SPLIT("\\\\u4e"), "pattern is wrong");
    assert_refused(state, "{\"pre_tokenizer\":{\"type\":\"Split\"}," MODEL("\"a\":0", "") "}", "no pattern");
    assert_refused(state, "{\"pre_tokenizer\":{}," MODEL("\"a\":0", "") "}", "no type");
    assert_refused(state, "{\"normalizer\":{\"type\":\"Prepend\"}," MODEL("\"a\":0", "") "}",
                   "lacks its text");
    assert_refused(
        state,
        "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}," MODEL("\"a\":0", "") "}",
        "no place for the text");
    assert_refused(
        state,
        "{\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"x\",9],\"sep\":[\"x\",0]}," MODEL(
            "\"a\":0", "") "}",
        "not in the vocabulary");
}

static void write_text(void **state, const char *name, const char *text)
{
    struct mt_error error = {0};
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, name), text, strlen(text), 0666, &error), &error);
}

static void assert_folder_refused(void **state, const char *why)
{
    struct mt_test_folder *folder = *state;
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    assert_true(mt_tokenizer_load(folder->path, &tokenizer, &error) < 0);
    assert_null(tokenizer);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    mt_assert_mentions(error.message, why);
}

/* vocab.json and merges.txt without a tokenizer.json. */
static void a_vocabulary_and_its_merges_are_a_tokenizer(void **state)
{
    struct mt_test_folder *folder = *state;
    struct mt_error error = {0};
    write_text(state, "vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2, \"<|endoftext|>\": 3}");
    assert_folder_refused(state, "vocab.json");
    write_text(state, "merges.txt", "#version: 0.2\r\na b\r\n");
    struct mt_tokenizer *tokenizer = load(folder->path);
    struct mt_ids ids = {0};
    mt_assert_ok(mt_tokenizer_encode(tokenizer, "aba<|endoftext|>", 16, true, &ids, &error), &error);
    assert_int_equal(ids.count, 3);
    assert_int_equal(ids.data[0], 2);
    assert_int_equal(ids.data[2], 3);
    assert_int_equal(mt_tokenizer_begin(tokenizer), 3);
    assert_int_equal(mt_tokenizer_end(tokenizer), 3);
    char other[65];
    snprintf(other, sizeof other, "%s", mt_tokenizer_fingerprint(tokenizer));
    mt_tokenizer_free(tokenizer);
    write_text(state, "merges.txt", "");
    tokenizer = load(folder->path);
    assert_string_not_equal(mt_tokenizer_fingerprint(tokenizer), other);
    mt_tokenizer_free(tokenizer);
    mt_ids_free(&ids);

    write_text(state, "merges.txt", "a c\n");
    assert_folder_refused(state, "merge");
    write_text(state, "merges.txt", "\xff\n");
    assert_folder_refused(state, "line 1 of merges.txt is not UTF-8");
    write_text(state, "merges.txt", "a b\n");
    write_text(state, "vocab.json", "[]");
    assert_folder_refused(state, "no object of tokens");
    write_text(state, "tokenizer_config.json", "{\"tokenizer_class\": \"BertTokenizer\"}");
    assert_folder_refused(state, "BertTokenizer");
}

/* Patterns that PCRE2 alone would read otherwise: where they match, by numbers of bytes. */
static void patterns_are_read_as_oniguruma_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        int matches[8]; /* begin and end, until both are 0 */
    } cases[] = {
        {" ?[^(\\s|[.,!?])]+", "Hi (you), so", {0, 2, 4, 7, 9, 12}},
        {"[\\p{Lu}\\p{Lo}&&[^\\p{Han}]]+", "A\xe6\x97\xa5\xe3\x81\x82", {0, 1, 4, 7}},
        {"[a-z&&[^aeiou]]+", "strange", {0, 3, 4, 6}},
        {"[^a-c&&b-d]", "abd", {0, 1, 2, 3}},
        {"[^[^a-c]]+", "xabcx", {1, 4}},
        {"[\\s\\S]{2}", "a\nb", {0, 2}},
        {"[\\P{L}]+", "a1 b", {1, 3}},
        {"[^\\P{L}]+", "1ab ", {1, 3}},
        {"\\d{1,3}+", "12345", {0, 5}},
        {"x\\d{2}+", "x12345", {0, 5}},
        {"a{,2}b", "aaab", {1, 4}},
        {"x{2}?y", "xxy y", {0, 3, 4, 5}},
        {"\\h+", " 0fg", {1, 3}},
        {"\\pL+", "pLx", {0, 2}},
        {"(?m:a.)", "a\nb", {0, 2}},
        {"[-a]+[a-]+", "-a-", {0, 3}},
        {"[..]", "a.", {1, 2}},
        {"\\w+", "\xc2\xbd", {0, 2}},
        {"[\\w]+",
         "\xc2\xbd"
         "a",
         {2, 3}},
        {"\\u0041|\\v", "A\x0b", {0, 1, 1, 2}},
    };
    struct mt_regex_scratch *scratch = mt_regex_scratch_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_error error = {0};
        struct mt_regex *regex;
        const size_t bytes = strlen(cases[i].text);
        mt_assert_ok(mt_regex_compile(cases[i].pattern, strlen(cases[i].pattern), &regex, &error), &error);
        size_t start, end = 0, k = 0;
        for (; mt_regex_next(regex, scratch, cases[i].text, bytes, end, &start, &end) == 1; k += 2) {
            assert_int_equal(start, cases[i].matches[k]);
            assert_int_equal(end, cases[i].matches[k + 1]);
        }
        assert_int_equal(cases[i].matches[k + 1], 0);
        mt_regex_free(regex);
    }
    mt_regex_scratch_free(scratch);
}

/* Patterns that take exponential time on some text end with an error, not never. */
static void a_pattern_without_end_is_stopped(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_regex *regex;
    mt_assert_ok(mt_regex_compile("(a+)+b|(a|aa)+c", 15, &regex, &error), &error);
    struct mt_regex_scratch *scratch = mt_regex_scratch_new();
    char text[64];
    size_t start, end;
    memset(text, 'a', sizeof text);
    assert_int_equal(mt_regex_next(regex, scratch, text, sizeof text, 0, &start, &end), -EINVAL);
    mt_regex_scratch_free(scratch);
    mt_regex_free(regex);
}

#define GOLDEN_TEST(kind)                                                                                    \
    {                                                                                                        \
        "the_ids_are_those_of_the_library_" kind, the_ids_are_those_of_the_library, NULL, NULL,              \
            (void *)(kind)                                                                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        GOLDEN_TEST("gpt2"),
        GOLDEN_TEST("gpt2_prefix_space"),
        GOLDEN_TEST("llama3"),
        GOLDEN_TEST("qwen2"),
        GOLDEN_TEST("gpt4o"),
        GOLDEN_TEST("deepseek"),
        GOLDEN_TEST("smollm"),
        GOLDEN_TEST("falcon"),
        GOLDEN_TEST("llama2"),
        GOLDEN_TEST("mistral"),
        GOLDEN_TEST("metaspace"),
        GOLDEN_TEST("gemma"),
        GOLDEN_TEST("unigram"),
        GOLDEN_TEST("unigram_bytes"),
        cmocka_unit_test(spans_tell_where_tokens_come_from),
        cmocka_unit_test(text_that_is_not_utf8_is_encoded_with_replacement_characters),
        cmocka_unit_test(a_zero_byte_is_a_character_like_others),
        cmocka_unit_test(a_million_characters_without_a_blank_end_soon_and_come_back),
        cmocka_unit_test(threads_share_a_tokenizer),
        mt_test_in_folder(the_files_are_saved_as_they_were_even_when_their_folder_is_gone),
        cmocka_unit_test(fingerprints_tell_tokenizers_apart),
        mt_test_in_folder(damaged_vocabularies_are_refused),
        mt_test_in_folder(damaged_merges_are_refused),
        mt_test_in_folder(merges_in_circles_end),
        mt_test_in_folder(a_pipe_among_the_files_is_passed_over),
        mt_test_in_folder(damaged_unigram_models_are_refused),
        mt_test_in_folder(damaged_normalization_rules_are_refused_or_harmless),
        mt_test_in_folder(a_character_without_a_token_and_without_an_unknown_one_is_an_error),
        mt_test_in_folder(a_word_without_any_token_has_no_ids),
        mt_test_in_folder(a_normalizer_that_multiplies_is_stopped),
        cmocka_unit_test(a_pattern_of_any_length_is_refused_at_once),
        mt_test_in_folder(what_is_not_supported_yet_is_named),
        mt_test_in_folder(damaged_parts_are_refused),
        mt_test_in_folder(a_vocabulary_and_its_merges_are_a_tokenizer),
        cmocka_unit_test(patterns_are_read_as_oniguruma_reads_them),
        cmocka_unit_test(a_pattern_without_end_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
