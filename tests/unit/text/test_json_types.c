/* Every key of a tokenizer.json with values of other types, and the files beside it: refused by name, and
 * never taken for absent, where a default would stand in for it without a word. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/text/json_tokenizer.h"
#include "core/text/json_types.h"
#include "core/text/tokenizer.h"
#include "tests/unit/other_types.h"
#include "tests/unit/support.h"

#define GOLDEN "tests/unit/text/tokenizers"

struct looked_at {
    json_t *document;
    size_t changes;
};

/* What says nothing of the ids of a text. The vocabulary and merges have tests of their own. */
static bool without_effect(const char *place, const char *key)
{
    static const char *const keys[] = {"version", "truncation", "padding", "pair",
                                       "type_id", "vocab",      "merges",  "tokens",
                                       "id",      "cls",        "sep",     "cache_capacity"};
    (void)place;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static void refuses(void *context, const char *place, const char *key, const char *value)
{
    struct looked_at *looked = context;
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    char outer[64];
    snprintf(outer, sizeof outer, "%.*s", (int)strcspn(place, "."), place);
    if (strcmp(key, "dropout") == 0 && strcmp(value, "{\"a\": 1}") != 0)
        return; /* null in all of them: a number is none of another type */
    looked->changes++;
    if (mt_json_tokenizer_load(NULL, looked->document, &tokenizer, &error) == 0) {
        mt_tokenizer_free(tokenizer);
        fail_msg("`%s` was accepted as %s", place, value);
    }
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    assert_true(strlen(error.message) > 10);
}

static void values_of_other_types_are_refused(void **state)
{
    (void)state;
    static const char *const kinds[] = {"gpt2",    "llama3", "qwen2",  "deepseek",  "falcon", "llama2",
                                        "mistral", "gemma",  "smollm", "metaspace", "unigram"};
    size_t changes = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct mt_error error = {0};
        struct looked_at looked = {0};
        char path[256];
        snprintf(path, sizeof path, GOLDEN "/%s/tokenizer.json", kinds[i]);
        mt_assert_ok(mt_json_read(path, MT_REASON_BAD_MODEL, &looked.document, &error), &error);
        mt_other_types_run(&(struct mt_other_types){
            .root = looked.document, .try = refuses, .passed_over = without_effect, .context = &looked});
        changes += looked.changes;
        json_decref(looked.document);
    }
    printf("# %zu changes\n", changes);
    assert_true(changes > 500);
}

static void check_document(const char *text, const char *mention)
{
    struct mt_error error = {0};
    mt_autojson json_t *document = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(document);
    if (mt_json_types_of_tokenizer(document, &error) == 0)
        fail_msg("%s was accepted", text);
    mt_assert_mentions(error.message, mention);
}

static void a_sequence_without_its_steps_is_refused(void **state)
{
    (void)state;
    check_document("{\"pre_tokenizer\":{\"type\":\"Sequence\"}}", "`pre_tokenizer` is a Sequence without");
    check_document("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[null]}}",
                   "`decoder.decoders` must be a list of objects");
    check_document("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":7}]}}",
                   "`normalizer.normalizers.0.type` must be a text");
    check_document("7", "no JSON object");
}

static void keys_that_few_files_have_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const switches[] = {"clean_text", "handle_chinese_chars", "strip_accents",
                                           "lowercase"};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        char text[128], mention[96];
        struct mt_error error = {0};
        snprintf(text, sizeof text, "{\"normalizer\":{\"type\":\"BertNormalizer\",\"%s\":\"false\"}}",
                 switches[i]);
        snprintf(mention, sizeof mention, "`normalizer.%s` must be true or false", switches[i]);
        check_document(text, mention);
        mt_autojson json_t *unsaid =
            json_pack("{s:{s:s, s:n}}", "normalizer", "type", "BertNormalizer", switches[i]);
        mt_assert_ok(mt_json_types_of_tokenizer(unsaid, &error), &error);
    }
    check_document("{\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":7}}", "`decoder.suffix` must be a text");
}

static void check_side(const char *text, const char *mention)
{
    struct mt_error error = {0};
    mt_autojson json_t *document = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(document);
    const int r = mt_json_types_of_tokens(document, "folder/file.json", &error);
    if (!mention) {
        mt_assert_ok(r, &error);
        return;
    }
    if (r == 0)
        fail_msg("%s was accepted", text);
    mt_assert_mentions(error.message, "folder/file.json");
    mt_assert_mentions(error.message, mention);
}

static void what_files_beside_it_say_of_tokens_is_refused_by_name(void **state)
{
    (void)state;
    check_side("[]", "no JSON object");
    check_side("{\"add_bos_token\":\"true\"}", "`add_bos_token` must be true or false");
    check_side("{\"legacy\":1}", "`legacy` must be true or false");
    check_side("{\"bos_token\":[\"<s>\"]}", "`bos_token` must be a text, or an object");
    check_side("{\"eos_token\":{\"text\":\"</s>\"}}", "`eos_token` must be a text, or an object");
    check_side("{\"pad_token\":{\"content\":\"<p>\",\"lstrip\":\"yes\"}}",
               "`pad_token.lstrip` must be true or false");
    check_side("{\"eos_token_id\":\"2\"}", "`eos_token_id` must be a whole number or a list");
    check_side("{\"eos_token_id\":[2,\"7\"]}", "`eos_token_id` must be a whole number or a list");
    check_side("{\"additional_special_tokens\":[\"<a>\",7]}", "each of `additional_special_tokens`");
    check_side("{\"extra_special_tokens\":\"<a>\"}", "`extra_special_tokens` must be a list or an object");
    check_side("{\"added_tokens_decoder\":[]}", "`added_tokens_decoder` must be an object");
    check_side("{\"added_tokens_decoder\":{\"3\":7}}", "`added_tokens_decoder.3` must be");
    check_side("{\"added_tokens_decoder\":{\"3\":{\"content\":\"a\",\"special\":1}}}",
               "`added_tokens_decoder.3.special`");
    check_side(
        "{\"bos_token\":null,\"eos_token\":{\"content\":\"</s>\",\"lstrip\":false},\"eos_token_id\":[1,2],"
        "\"pad_token_id\":-1,\"additional_special_tokens\":null,\"extra_special_tokens\":{\"x\":\"<x>\"},"
        "\"tokenizer_class\":\"LlamaTokenizer\",\"model_max_length\":1e30}",
        NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_other_types_are_refused),
        cmocka_unit_test(a_sequence_without_its_steps_is_refused),
        cmocka_unit_test(keys_that_few_files_have_are_refused_by_name),
        cmocka_unit_test(what_files_beside_it_say_of_tokens_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
