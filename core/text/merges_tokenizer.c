/* The two files, and the special tokens beside them, are written as a tokenizer.json in memory and read by
 * what reads those. */
#include "core/text/merges_tokenizer.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/text/json_tokenizer.h"
#include "core/text/patterns.h"
#include "core/text/pipeline.h"
#include "core/text/side_tokens.h"
#include "core/text/token_names.h"

#include <string.h>

#define MAX_MERGES_BYTES ((size_t)64 << 20)
#define DEFAULT_NAME "<|endoftext|>" /* what bos_token, eos_token and unk_token are where no file says */

struct loading {
    const char *folder;
    struct mt_side_tokens side;
    json_t *vocab, *document;
    struct mt_text described; /* all that determines ids, but for vocab.json */
    bool qwen;
    struct mt_error *error;
};

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
}

static int read_class(struct loading *loading)
{
    const char *name = json_string_value(json_object_get(loading->side.config, "tokenizer_class"));
    loading->qwen = name && mt_token_class_is(name, "Qwen2Tokenizer");
    if (!name || loading->qwen || mt_token_class_is(name, "GPT2Tokenizer"))
        return 0;
    return mt_error_set(loading->error, -ENOTSUP, MT_REASON_BAD_MODEL,
                        "vocab.json and merges.txt of the tokenizer_class %.60s are not supported without a "
                        "tokenizer.json: transformers writes one",
                        name);
}

static int read_vocab(struct loading *loading)
{
    mt_autofree char *path = mt_path_join(loading->folder, "vocab.json");
    int r = path ? mt_json_read(path, MT_REASON_BAD_MODEL, &loading->vocab, loading->error)
                 : no_memory(loading->error);
    if (r == 0 && !json_object_size(loading->vocab))
        r = mt_error_set(loading->error, -EINVAL, MT_REASON_BAD_MODEL, "vocab.json is no object of tokens");
    return r;
}

/* Lines of two tokens; the first one may name a version. */
static int read_merges(struct loading *loading, json_t *merges)
{
    mt_autofree char *path = mt_path_join(loading->folder, "merges.txt");
    mt_autofree char *text = NULL;
    size_t bytes;
    if (!path)
        return no_memory(loading->error);
    int r = mt_file_read(path, MAX_MERGES_BYTES, &text, &bytes, loading->error);
    if (r < 0) {
        if (loading->error && r != -ENOMEM)
            loading->error->reason = MT_REASON_BAD_MODEL;
        return r;
    }
    static const char version[] = "#version";
    for (size_t at = 0, number = 1; at < bytes; number++) {
        const char *line = text + at, *end = memchr(line, '\n', bytes - at);
        size_t length = end ? (size_t)(end - line) : bytes - at;
        at += length + 1;
        length -= length && line[length - 1] == '\r';
        if (!length || (length >= sizeof version - 1 && memcmp(line, version, sizeof version - 1) == 0))
            continue;
        json_t *merge = json_stringn(line, length);
        if (!merge)
            return mt_error_set(loading->error, -EINVAL, MT_REASON_BAD_MODEL,
                                "line %zu of merges.txt is not UTF-8", number);
        if (json_array_append_new(merges, merge) < 0)
            return no_memory(loading->error);
    }
    return mt_text_append(&loading->described, text, bytes) < 0 ? no_memory(loading->error) : 0;
}

/* --- special tokens ---------------------------------------------------------------------------------------
 */

static int32_t find_in_vocab(const void *context, const char *text, size_t bytes)
{
    const json_t *id = json_object_getn(context, text, bytes);
    return json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < MT_VOCAB_MAX_ID
               ? (int32_t)json_integer_value(id)
               : MT_TOKEN_NONE;
}

static int32_t find_token(void *context, const char *text)
{
    const struct loading *loading = context;
    const int32_t id = find_in_vocab(loading->vocab, text, strlen(text));
    return id != MT_TOKEN_NONE ? id : mt_side_tokens_find(&loading->side, text, strlen(text));
}

/* Does no file say what this token is? One that is null is said to be none. */
static bool is_default(const struct loading *loading, const char *name)
{
    return !json_object_get(loading->side.config, name) && !json_object_get(loading->side.map, name) &&
           json_object_get(loading->vocab, DEFAULT_NAME);
}

static int add_default(struct loading *loading)
{
    if (!is_default(loading, "bos_token") && !is_default(loading, "eos_token") &&
        !is_default(loading, "unk_token"))
        return 0;
    return mt_side_tokens_add(&loading->side, (struct mt_side_token){.text = DEFAULT_NAME,
                                                                     .bytes = strlen(DEFAULT_NAME),
                                                                     .id = -1,
                                                                     .special = true,
                                                                     .named = true}) < 0
               ? no_memory(loading->error)
               : 0;
}

static json_t *added_tokens(const struct loading *loading)
{
    json_t *list = json_array();
    for (size_t i = 0; i < loading->side.count; i++) {
        const struct mt_side_token *token = &loading->side.list[i];
        json_array_append_new(list,
                              json_pack("{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)token->id,
                                        "content", token->text, token->bytes, "single_word",
                                        token->single_word, "lstrip", token->lstrip, "rstrip", token->rstrip,
                                        "normalized", 0, "special", token->special));
    }
    return list;
}

/* The text between the begin and end tokens that tokenizer_config.json asks for; null where it asks none. */
static json_t *post_processor(struct loading *loading)
{
    static const struct {
        const char *flag, *name;
    } around[] = {{"add_bos_token", "bos_token"}, {"add_eos_token", "eos_token"}};
    json_t *single = json_array(), *special = json_object();
    for (size_t i = 0; i < 2; i++) {
        const char *text = mt_token_config_text(loading->side.config, around[i].name);
        if (!text)
            text = is_default(loading, around[i].name)
                       ? DEFAULT_NAME
                       : mt_token_config_text(loading->side.map, around[i].name);
        const int32_t id = text ? find_token(loading, text) : MT_TOKEN_NONE;
        if (i == 1)
            json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
        if (id == MT_TOKEN_NONE || !json_is_true(json_object_get(loading->side.config, around[i].flag)))
            continue;
        json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", text, "type_id", 0));
        json_object_set_new(special, text,
                            json_pack("{s:s, s:[i], s:[s]}", "id", text, "ids", id, "tokens", text));
    }
    return json_pack("{s:s, s:o, s:o}", "type", "TemplateProcessing", "single", single, "special_tokens",
                     special);
}

/* --- all together -----------------------------------------------------------------------------------------
 */

static json_t *byte_level(bool prefix, bool regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", prefix, "trim_offsets",
                     1, "use_regex", regex);
}

static json_t *pre_tokenizer(const struct loading *loading)
{
    if (!loading->qwen)
        return byte_level(json_is_true(json_object_get(loading->side.config, "add_prefix_space")), true);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type",
                     "Split", "pattern", "Regex", MT_WORDS("\\p{N}"), "behavior", "Isolated", "invert", 0,
                     byte_level(false, false));
}

static int make_document(struct loading *loading, json_t *merges)
{
    json_t *model = json_pack("{s:s, s:O, s:O}", "type", "BPE", "vocab", loading->vocab, "merges", merges);
    loading->document =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "model", model, "added_tokens", added_tokens(loading),
                  "pre_tokenizer", pre_tokenizer(loading), "decoder", byte_level(false, true),
                  "post_processor", post_processor(loading), "normalizer",
                  loading->qwen ? json_pack("{s:s}", "type", "NFC") : json_null());
    return loading->document ? 0 : no_memory(loading->error);
}

/* What becomes of the files' texts, in words, for the fingerprint. */
static int describe(struct loading *loading)
{
    mt_autojson json_t *parts =
        json_pack("{s:O, s:O, s:O}", "normalizer", json_object_get(loading->document, "normalizer"),
                  "pre_tokenizer", json_object_get(loading->document, "pre_tokenizer"), "post_processor",
                  json_object_get(loading->document, "post_processor"));
    mt_autofree char *text = parts ? json_dumps(parts, JSON_SORT_KEYS) : NULL;
    return text && mt_text_append(&loading->described, text, strlen(text)) == 0 &&
                   mt_side_tokens_describe(&loading->side, &loading->described) == 0
               ? 0
               : no_memory(loading->error);
}

static int load(struct loading *loading, struct mt_tokenizer **tokenizer)
{
    struct mt_error *error = loading->error;
    mt_autojson json_t *merges = json_array();
    int r = mt_side_tokens_read(loading->folder, &loading->side, error);
    if (r == 0)
        r = read_class(loading);
    if (r == 0)
        r = read_vocab(loading);
    if (r == 0)
        r = read_merges(loading, merges);
    if (r == 0)
        r = add_default(loading);
    if (r == 0 && mt_side_tokens_number(&loading->side, json_object_size(loading->vocab), find_in_vocab,
                                        loading->vocab, error) < 0)
        return -EINVAL;
    if (r == 0)
        r = make_document(loading, merges);
    if (r == 0)
        r = describe(loading);
    if (r == 0)
        r = mt_json_tokenizer_load(NULL, loading->document, tokenizer, error);
    if (r == 0)
        r = mt_token_names_read(loading->folder, *tokenizer, find_token, loading, error);
    if (r == 0 && (*tokenizer)->begin == MT_TOKEN_NONE && is_default(loading, "bos_token"))
        (*tokenizer)->begin = find_token(loading, DEFAULT_NAME);
    if (r == 0 && (*tokenizer)->end == MT_TOKEN_NONE && is_default(loading, "eos_token"))
        (*tokenizer)->end = find_token(loading, DEFAULT_NAME);
    return r == 0 ? mt_pipeline_seal((struct mt_pipeline *)*tokenizer, loading->folder, "vocab.json",
                                     &loading->described, error)
                  : r;
}

int mt_merges_tokenizer_load(const char *folder, struct mt_tokenizer **tokenizer, struct mt_error *error)
{
    struct loading loading = {.folder = folder, .error = error};
    *tokenizer = NULL;
    int r = load(&loading, tokenizer);
    if (r < 0 && *tokenizer) {
        mt_tokenizer_free(*tokenizer);
        *tokenizer = NULL;
    }
    json_decref(loading.vocab);
    json_decref(loading.document);
    mt_side_tokens_free(&loading.side);
    mt_text_free(&loading.described);
    return r < 0 ? mt_error_prefix(error, "%s", folder) : 0;
}
