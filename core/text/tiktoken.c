#include "core/text/tiktoken.h"

#include "core/base/cleanup.h"
#include "core/text/base64.h"
#include "core/text/patterns.h"
#include "core/text/pipeline.h"
#include "core/text/side_tokens.h"
#include "core/text/token_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define bad_model(error, ...) mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, __VA_ARGS__)

#define QWEN_EXTRAS 205

static const struct class
{
    const char *name; /* without "Fast" at the end */
    const char *pattern;
    bool nfc;
    bool qwen; /* has special tokens of its own, behind the ranks */
    const char *prefix[2];
} classes[] = {
    {"QWenTokenizer", MT_WORDS("\\p{N}"), true, true, {NULL}},
    {"ChatGLM4Tokenizer", MT_WORDS("\\p{N}{1,3}"), false, false, {"[gMASK]", "<sop>"}},
    {"PreTrainedTokenizer",
     MT_WORDS("\\p{N}{1,3}"),
     false,
     false,
     {NULL}}, /* what transformers takes any other for */
    {"TokenizersBackend", MT_WORDS("\\p{N}{1,3}"), false, false, {NULL}},
    {"LlamaTokenizer", MT_WORDS("\\p{N}{1,3}"), false, false, {NULL}},
};

struct loading {
    struct mt_pipeline *tokenizer;
    struct mt_side_tokens side;
    const struct class *class;
    char (*extras)[24]; /* Qwen's, by name */
    size_t ranks;       /* largest + 1 */
    struct mt_text described;
    struct mt_error *error;
};

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
}

/* --- lines ------------------------------------------------------------------------------------------------
 */

struct line {
    const char *text; /* base64 */
    size_t length;
    int64_t rank;
};

/* The line at `*at`, which goes behind it; 1, 0 where it is empty, -EINVAL. */
static int next_line(const char *data, size_t bytes, size_t *at, struct line *line)
{
    const char *end = memchr(data + *at, '\n', bytes - *at);
    size_t length = end ? (size_t)(end - data) - *at : bytes - *at;
    const char *text = data + *at, *blank;
    *at += length + (end ? 1 : 0);
    if (length && text[length - 1] == '\r')
        length--;
    if (!length)
        return 0;
    blank = memchr(text, ' ', length);
    if (!blank || blank == text || blank + 1 == text + length || length - (size_t)(blank - text) > 10)
        return -EINVAL;
    *line = (struct line){.text = text, .length = (size_t)(blank - text)};
    for (const char *digit = blank + 1; digit < text + length; digit++) {
        if (!isdigit((unsigned char)*digit))
            return -EINVAL;
        line->rank = line->rank * 10 + (*digit - '0');
    }
    return 1;
}

bool mt_tiktoken_is(const char *data, size_t bytes)
{
    struct line line;
    size_t at = 0, length;
    if (!bytes || next_line(data, bytes, &at, &line) != 1)
        return false;
    unsigned char *token = mt_base64_decode(line.text, line.length, &length);
    const bool good = token;
    free(token);
    return good;
}

static int measure(struct loading *loading, const char *data, size_t bytes)
{
    size_t number = 1;
    for (size_t at = 0; at < bytes; number++) {
        struct line line = {0};
        const int r = next_line(data, bytes, &at, &line);
        if (r < 0 || line.rank >= MT_VOCAB_MAX_ID)
            return bad_model(loading->error, "line %zu is not a token in base64 and its rank", number);
        if (r > 0 && (size_t)line.rank >= loading->ranks)
            loading->ranks = (size_t)line.rank + 1;
    }
    return loading->ranks ? 0 : bad_model(loading->error, "the vocabulary is empty");
}

static int add_token(struct loading *loading, const struct line *line, size_t number)
{
    struct mt_pipeline *tokenizer = loading->tokenizer;
    size_t bytes;
    unsigned char *token = mt_base64_decode(line->text, line->length, &bytes);
    int r = 0;
    if (!token || !bytes) {
        r = bad_model(loading->error, "line %zu is not a token in base64 and its rank", number);
    } else if (bytes > MT_VOCAB_MAX_BYTES) {
        r = bad_model(loading->error, "line %zu: a token of %zu bytes; the bound is %zu", number, bytes,
                      MT_VOCAB_MAX_BYTES);
    } else {
        r = mt_vocab_add(&tokenizer->vocab, (int32_t)line->rank, (const char *)token, bytes, true);
        if (r == -EEXIST)
            r = bad_model(loading->error, "line %zu: its token or its rank is there already", number);
        if (r == 0)
            r = mt_vocab_add(&tokenizer->pieces, (int32_t)line->rank, (const char *)token, bytes, false);
    }
    free(token);
    return r == -ENOMEM ? no_memory(loading->error) : r;
}

static int add_tokens(struct loading *loading, const char *data, size_t bytes)
{
    size_t number = 1;
    int r = 0;
    for (size_t at = 0; r == 0 && at < bytes; number++) {
        struct line line = {0};
        if (next_line(data, bytes, &at, &line) > 0)
            r = add_token(loading, &line, number);
    }
    for (unsigned byte = 0; r == 0 && byte < 256; byte++)
        if (mt_vocab_find(&loading->tokenizer->vocab, &(char){(char)byte}, 1) == MT_TOKEN_NONE)
            r = bad_model(loading->error, "no token stands for the byte 0x%02X", byte);
    return r;
}

/* --- special tokens ---------------------------------------------------------------------------------------
 */

static const struct class *class_of(const json_t *config)
{
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    if (!name)
        return NULL;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (mt_token_class_is(name, classes[i].name))
            return &classes[i];
    return NULL;
}

static int add_qwen_tokens(struct loading *loading)
{
    static const char *const first[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    loading->extras = calloc(3 + QWEN_EXTRAS, sizeof *loading->extras);
    int r = loading->extras ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < 3 + QWEN_EXTRAS; i++) {
        char *text = loading->extras[i];
        if (i < 3)
            snprintf(text, sizeof *loading->extras, "%s", first[i]);
        else
            snprintf(text, sizeof *loading->extras, "<|extra_%zu|>", i - 3);
        r = mt_side_tokens_add(&loading->side, (struct mt_side_token){.text = text,
                                                                      .bytes = strlen(text),
                                                                      .id = (int64_t)(loading->ranks + i),
                                                                      .special = true});
    }
    return r < 0 ? no_memory(loading->error) : 0;
}

/* Ranks are not written: a special token is none of them. */
static int32_t find_none(const void *context, const char *text, size_t bytes)
{
    (void)context;
    (void)text;
    (void)bytes;
    return MT_TOKEN_NONE;
}

/* Where the text is normalised, that is before they are looked for. */
static int add_side_tokens(struct loading *loading)
{
    struct mt_pipeline *tokenizer = loading->tokenizer;
    struct mt_added *found_in = loading->class->nfc ? tokenizer->added_normalized : tokenizer->added;
    for (size_t i = 0; i < loading->side.count; i++) {
        const struct mt_side_token *token = &loading->side.list[i];
        const int32_t id = (int32_t)token->id;
        if (mt_vocab_has(&tokenizer->vocab, id))
            return bad_model(loading->error, "the special token \"%.40s\" has the id %d of another token",
                             token->text, id);
        const struct mt_added_token added = {
            .id = id, .single_word = token->single_word, .lstrip = token->lstrip, .rstrip = token->rstrip};
        if (mt_vocab_add(&tokenizer->vocab, id, token->text, token->bytes, false) < 0 ||
            mt_vocab_add(&tokenizer->pieces, id, token->text, token->bytes, false) < 0)
            return no_memory(loading->error);
        int r = mt_added_insert(found_in, token->text, token->bytes, added, loading->error);
        if (r < 0)
            return r;
        tokenizer->special[id] = token->special;
    }
    return 0;
}

static int32_t find_name(void *context, const char *text)
{
    const struct loading *loading = context;
    return mt_side_tokens_find(&loading->side, text, strlen(text));
}

/* --- all together -----------------------------------------------------------------------------------------
 */

static int make_stages(struct loading *loading)
{
    struct mt_pipeline *tokenizer = loading->tokenizer;
    mt_autojson json_t *stages =
        json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}]}", "type", "Sequence", "pretokenizers",
                  "type", "Split", "pattern", "Regex", loading->class->pattern, "behavior", "Isolated",
                  "invert", 0, "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
    int r = 0;
    if (loading->class->nfc)
        tokenizer->normalizer = mt_normalizer_new_nfc();
    else
        r = mt_normalizer_load(NULL, &tokenizer->normalizer, loading->error);
    if (!stages || !tokenizer->normalizer)
        return no_memory(loading->error);
    if (r == 0)
        r = mt_pretokenizer_load(stages, &tokenizer->pretokenizer, loading->error);
    tokenizer->byte_level = true;
    return r == 0 ? mt_bpe_new_from_ranks(&tokenizer->vocab, loading->ranks, &tokenizer->bpe, loading->error)
                  : r;
}

static int add_around(struct loading *loading)
{
    for (size_t i = 0; i < 2 && loading->class->prefix[i]; i++) {
        const int32_t id = find_name(loading, loading->class->prefix[i]);
        if (id == MT_TOKEN_NONE)
            return bad_model(loading->error,
                             "a %s puts %s before a text, and tokenizer_config.json has no such token",
                             loading->class->name, loading->class->prefix[i]);
        if (mt_ids_push(&loading->tokenizer->prefix, id) < 0)
            return no_memory(loading->error);
    }
    return 0;
}

static int read_class(struct loading *loading)
{
    const char *name = json_string_value(json_object_get(loading->side.config, "tokenizer_class"));
    loading->class = class_of(loading->side.config);
    if (loading->class)
        return 0;
    return mt_error_set(
        loading->error, -ENOTSUP, MT_REASON_BAD_MODEL,
        "a tiktoken vocabulary has neither pattern nor special tokens; those of the tokenizer_class "
        "%.60s are not known: a tokenizer.json beside it would tell",
        name ? name : "(none given)");
}

static int load(struct loading *loading, const char *folder, const char *name, const char *data, size_t bytes)
{
    struct mt_pipeline *tokenizer = loading->tokenizer;
    int r = mt_side_tokens_read(folder, &loading->side, loading->error);
    if (r == 0)
        r = read_class(loading);
    if (r == 0)
        r = measure(loading, data, bytes);
    if (r == 0 && loading->class->qwen)
        r = add_qwen_tokens(loading);
    if (r < 0)
        return r;
    const int64_t size =
        mt_side_tokens_number(&loading->side, loading->ranks, find_none, NULL, loading->error);
    if (size < 0)
        return (int)size;
    if (mt_pipeline_allocate(tokenizer, (size_t)size) < 0)
        return no_memory(loading->error);
    r = add_tokens(loading, data, bytes);
    if (r == 0)
        r = add_side_tokens(loading);
    if (r == 0)
        r = make_stages(loading);
    if (r == 0)
        r = mt_token_names_read(folder, &tokenizer->base, find_name, loading, loading->error);
    if (r == 0 && loading->class->qwen && tokenizer->base.end == MT_TOKEN_NONE)
        tokenizer->base.end = (int32_t)loading->ranks; /* <|endoftext|> */
    if (r == 0)
        r = add_around(loading);
    if (r < 0)
        return r;
    if (mt_text_append(&loading->described, loading->class->name, strlen(loading->class->name)) < 0 ||
        mt_side_tokens_describe(&loading->side, &loading->described) < 0)
        return no_memory(loading->error);
    return mt_pipeline_seal(tokenizer, folder, name, &loading->described, loading->error);
}

int mt_tiktoken_load(const char *folder, const char *name, const char *data, size_t bytes,
                     struct mt_tokenizer **result, struct mt_error *error)
{
    *result = NULL;
    struct loading loading = {.tokenizer = mt_pipeline_new("tiktoken"), .error = error};
    int r = loading.tokenizer ? load(&loading, folder, name, data, bytes) : no_memory(error);
    mt_side_tokens_free(&loading.side);
    mt_text_free(&loading.described);
    free(loading.extras);
    if (r < 0) {
        if (loading.tokenizer)
            mt_pipeline_free(loading.tokenizer);
        return r;
    }
    *result = &loading.tokenizer->base;
    return 0;
}
