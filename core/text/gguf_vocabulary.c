/* GGUF keeps a vocabulary as arrays: texts, types and scores by id, merges for byte pair encoding. Written as
 * the tokenizer.json that says the same it is read by what reads those, and is what checkpoints carry. A
 * SentencePiece vocabulary has no merges: any two pieces that make a third are one, and the third's score is
 * its rank, as transformers converts such models. */
#include "core/text/gguf_vocabulary.h"

#include "core/base/cleanup.h"
#include "core/base/utf8.h"
#include "core/text/gguf_pretokenizer.h"
#include "core/text/gguf_types.h"
#include "core/text/mark.h"
#include "core/text/tokenizer.h"
#include "core/text/vocab.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TOKENS ((size_t)1 << 24)

/* The format's types of tokens. */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

struct vocabulary {
    const struct mt_gguf *file;
    size_t count;
    struct mt_gguf_text *texts;
    const struct mt_gguf_value *types, *scores;
    json_t *ids; /* by text */
};

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory in the tokenizer");
}

#define bad_model(error, ...) mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, __VA_ARGS__)

static bool text_is(const struct mt_gguf_text *text, const char *word)
{
    return text->bytes == strlen(word) && memcmp(text->data, word, text->bytes) == 0;
}

static bool find_text(const struct mt_gguf *file, const char *key, struct mt_gguf_text *text)
{
    const struct mt_gguf_value *value = mt_gguf_find(file, key);
    return value && mt_gguf_string(value, text);
}

static bool flag(const struct mt_gguf *file, const char *key, bool otherwise)
{
    const struct mt_gguf_value *value = mt_gguf_find(file, key);
    int64_t set;
    return value && mt_gguf_integer(value, 0, &set) ? set != 0 : otherwise;
}

int64_t mt_gguf_token_id(const struct mt_gguf *file, const char *name)
{
    char key[64];
    int64_t id;
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    const struct mt_gguf_value *value = mt_gguf_find(file, key);
    const struct mt_gguf_value *tokens = mt_gguf_find(file, "tokenizer.ggml.tokens");
    return value && tokens && !value->is_array && mt_gguf_integer(value, 0, &id) && id >= 0 &&
                   (uint64_t)id < tokens->count
               ? id
               : -1;
}

/* --- texts by id --------------------------------------------------------------------------------------- */

static int64_t type_of(const struct vocabulary *vocabulary, size_t id)
{
    int64_t type = NORMAL;
    if (vocabulary->types)
        mt_gguf_integer(vocabulary->types, id, &type);
    return type;
}

static double score_of(const struct vocabulary *vocabulary, size_t id)
{
    double score = 0;
    mt_gguf_number(vocabulary->scores, id, &score);
    return score;
}

static int check_array(const struct vocabulary *vocabulary, const char *key, bool texts,
                       const struct mt_gguf_value **array, struct mt_error *error)
{
    *array = mt_gguf_find(vocabulary->file, key);
    if (*array && (!(*array)->is_array || ((*array)->kind == MT_GGUF_STRING) != texts ||
                   (*array)->count != vocabulary->count))
        return bad_model(error, "%s is not %s for each of the %zu tokens", key, texts ? "a text" : "a number",
                         vocabulary->count);
    return 0;
}

/* Vocabularies that were padded have texts of no meaning; they too must differ. */
static int read_texts(struct vocabulary *vocabulary, const struct mt_gguf_value *tokens,
                      struct mt_error *error)
{
    struct mt_gguf_strings strings = {.value = tokens};
    vocabulary->texts = calloc(vocabulary->count, sizeof *vocabulary->texts);
    vocabulary->ids = json_object();
    if (!vocabulary->texts || !vocabulary->ids)
        return no_memory(error);
    for (size_t i = 0; i < vocabulary->count; i++) {
        struct mt_gguf_text *text = &vocabulary->texts[i];
        if (!mt_gguf_next_string(&strings, text))
            return bad_model(error, "token %zu has no text", i);
        if (memchr(text->data, '\0', text->bytes))
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "token %zu has a zero byte in its text, which is not supported", i);
        json_t *there = json_object_getn(vocabulary->ids, text->data, text->bytes);
        if (there)
            return bad_model(error, "tokens %" JSON_INTEGER_FORMAT " and %zu have the same text",
                             json_integer_value(there), i);
        if (json_object_setn_new(vocabulary->ids, text->data, text->bytes, json_integer((json_int_t)i)) < 0)
            return bad_model(error, "the text of token %zu is not UTF-8", i);
    }
    return 0;
}

static int open_vocabulary(const struct mt_gguf *file, struct vocabulary *vocabulary, struct mt_error *error)
{
    const struct mt_gguf_value *tokens = mt_gguf_find(file, "tokenizer.ggml.tokens");
    *vocabulary = (struct vocabulary){.file = file};
    if (!tokens || !tokens->is_array || tokens->kind != MT_GGUF_STRING || !tokens->count)
        return bad_model(error, "the file has no vocabulary (tokenizer.ggml.tokens)");
    if (tokens->count > MAX_TOKENS)
        return bad_model(error, "%zu tokens are more than the bound of %zu", tokens->count, MAX_TOKENS);
    vocabulary->count = tokens->count;
    int r = check_array(vocabulary, "tokenizer.ggml.token_type", false, &vocabulary->types, error);
    r = r ? r : check_array(vocabulary, "tokenizer.ggml.scores", false, &vocabulary->scores, error);
    double score;
    for (size_t i = 0; r == 0 && vocabulary->scores && i < vocabulary->count; i++)
        if (!mt_gguf_number(vocabulary->scores, i, &score) || !isfinite(score))
            r = bad_model(error, "tokenizer.ggml.scores: that of token %zu is not finite", i);
    return r ? r : read_texts(vocabulary, tokens, error);
}

static void close_vocabulary(struct vocabulary *vocabulary)
{
    free(vocabulary->texts);
    json_decref(vocabulary->ids);
}

static json_t *text_of(const struct vocabulary *vocabulary, size_t id)
{
    return json_stringn(vocabulary->texts[id].data, vocabulary->texts[id].bytes);
}

/* --- added tokens -------------------------------------------------------------------------------------- */

/* Phi-3's special tokens take the blanks behind them along, but for three; the format has no place for that,
 * so the model's name tells it, as llama.cpp has it too. */
static bool takes_blanks(const struct vocabulary *vocabulary, const struct mt_gguf_text *text, int64_t type)
{
    struct mt_gguf_text name = {"", 0};
    char lower[256];
    find_text(vocabulary->file, "general.name", &name);
    snprintf(lower, sizeof lower, "%.*s", (int)(name.bytes < 255 ? name.bytes : 255), name.data);
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (!strstr(lower, "phi-3") && !strstr(lower, "phi3"))
        return false;
    return (type == CONTROL || text_is(text, "</s>")) && !text_is(text, "<s>") && !text_is(text, "<unk>") &&
           !text_is(text, "<|endoftext|>");
}

static json_t *added_tokens(const struct vocabulary *vocabulary)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < vocabulary->count; i++) {
        const int64_t type = type_of(vocabulary, i);
        if ((type != CONTROL && type != UNKNOWN && type != USER_DEFINED) || !vocabulary->texts[i].bytes)
            continue;
        json_array_append_new(list,
                              json_pack("{s:I, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)i, "content",
                                        text_of(vocabulary, i), "single_word", 0, "lstrip", 0, "rstrip",
                                        takes_blanks(vocabulary, &vocabulary->texts[i], type), "normalized",
                                        0, "special", type != USER_DEFINED));
    }
    return list;
}

/* -1: nothing is written. Published files have ids beyond the vocabulary: where texts are not to have such a
 * token, there is none. */
static int written_id(const struct mt_gguf *file, const char *name, bool written, int64_t *id,
                      struct mt_error *error)
{
    char key[64];
    int64_t said;
    *id = written ? mt_gguf_token_id(file, name) : -1;
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    const struct mt_gguf_value *value = written && *id < 0 ? mt_gguf_find(file, key) : NULL;
    if (!value || !mt_gguf_integer(value, 0, &said) || said == -1 || said == UINT32_MAX)
        return 0; /* -1 in either width says that there is none */
    return bad_model(error, "%s, which every text is to have, is %lld, which is no id of the vocabulary", key,
                     (long long)said);
}

/* What is put around a text; JSON null: nothing. */
static json_t *post_processor(const struct vocabulary *vocabulary, int64_t begin, int64_t end)
{
    const bool with_begin = begin >= 0, with_end = end >= 0;
    if (!with_begin && !with_end)
        return json_null();
    json_t *single = json_array(), *pair = json_array(), *tokens = json_object();
    const struct {
        bool used;
        int64_t id;
    } ends[] = {{with_begin, begin}, {with_end, end}};
    for (int part = 0; part < 2; part++)
        for (int k = 0; k < 3; k++) {
            if (k == 1) {
                json_t *sequence =
                    json_pack("{s:{s:s, s:i}}", "Sequence", "id", part ? "B" : "A", "type_id", part);
                json_array_append_new(pair, sequence);
                if (!part)
                    json_array_append(single, sequence);
                continue;
            }
            if (!ends[k / 2].used)
                continue;
            json_t *text = text_of(vocabulary, (size_t)ends[k / 2].id);
            json_t *special = json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", text, "type_id", part);
            json_array_append_new(pair, special);
            if (!part)
                json_array_append(single, special);
            json_object_set_new(tokens, json_string_value(text),
                                json_pack("{s:O, s:[I], s:[O]}", "id", text, "ids",
                                          (json_int_t)ends[k / 2].id, "tokens", text));
            json_decref(text);
        }
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair,
                     "special_tokens", tokens);
}

/* --- byte-level BPE ------------------------------------------------------------------------------------ */

/* "left right" where that is plain, else a pair: a piece may hold blanks itself. */
static json_t *merge_of(const struct mt_gguf_text *text)
{
    const char *blank = text->bytes > 1 ? memchr(text->data + 1, ' ', text->bytes - 1) : NULL;
    if (!blank || text->data[0] == ' ')
        return NULL;
    const size_t left = (size_t)(blank - text->data), right = text->bytes - left - 1;
    if (!right)
        return NULL;
    if (!memchr(blank + 1, ' ', right))
        return json_stringn(text->data, text->bytes);
    return json_pack("[o, o]", json_stringn(text->data, left), json_stringn(blank + 1, right));
}

static int read_merges(const struct vocabulary *vocabulary, json_t **merges, struct mt_error *error)
{
    const struct mt_gguf_value *value = mt_gguf_find(vocabulary->file, "tokenizer.ggml.merges");
    struct mt_gguf_strings strings = {.value = value};
    struct mt_gguf_text text;
    if (!value || !value->is_array || value->kind != MT_GGUF_STRING)
        return bad_model(error, "the vocabulary has no merges (tokenizer.ggml.merges)");
    *merges = json_array();
    for (size_t i = 0; *merges && mt_gguf_next_string(&strings, &text); i++) {
        json_t *merge = merge_of(&text);
        if (!merge)
            return bad_model(error, "merge %zu of the vocabulary is not two pieces in UTF-8", i);
        json_array_append_new(*merges, merge);
    }
    return *merges ? 0 : no_memory(error);
}

static int add_post_processor(const struct vocabulary *vocabulary, bool add_begin, json_t *document,
                              struct mt_error *error)
{
    int64_t begin, end;
    int r = written_id(vocabulary->file, "bos_token_id",
                       flag(vocabulary->file, "tokenizer.ggml.add_bos_token", add_begin), &begin, error);
    r = r ? r
          : written_id(vocabulary->file, "eos_token_id",
                       flag(vocabulary->file, "tokenizer.ggml.add_eos_token", false), &end, error);
    if (r == 0)
        json_object_set_new(document, "post_processor", post_processor(vocabulary, begin, end));
    return r;
}

static int marked_bpe(const struct vocabulary *vocabulary, bool add_begin, json_t *document,
                      struct mt_error *error);

static int byte_level(const struct vocabulary *vocabulary, json_t *document, struct mt_error *error)
{
    static const char *const marked[] = {"gemma4", "sarvam-moe", "granite-embed-multi-311m"};
    struct mt_gguf_text pre = {"default", 7};
    struct mt_gguf_pretokenizer kind;
    find_text(vocabulary->file, "tokenizer.ggml.pre", &pre);
    for (size_t i = 0; i < sizeof marked / sizeof *marked; i++)
        if (text_is(&pre, marked[i]))
            return marked_bpe(vocabulary, false, document, error);
    int r = mt_gguf_pretokenizer_find(pre.data, pre.bytes, &kind, error);
    if (r < 0)
        return r;
    json_object_set_new(document, "normalizer", kind.normalizer ? kind.normalizer : json_null());
    json_object_set_new(document, "pre_tokenizer", kind.pre_tokenizer);
    mt_autojson json_t *merges = NULL;
    r = read_merges(vocabulary, &merges, error);
    r = r ? r : add_post_processor(vocabulary, kind.add_begin, document, error);
    if (r < 0)
        return r;
    json_object_set_new(document, "decoder",
                        json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                                  "trim_offsets", 1, "use_regex", 1));
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:O, s:O}", "type", "BPE", "dropout", "unk_token",
                  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                  "ignore_merges", kind.ignore_merges, "vocab", vocabulary->ids, "merges", merges);
    return json_object_set_new(document, "model", model) < 0 ? no_memory(error) : 0;
}

/* --- SentencePiece ------------------------------------------------------------------------------------- */

struct pair {
    uint32_t whole, left; /* id of what is made; bytes of its left piece */
    uint32_t left_id, right_id;
    double score;
};

/* Higher scores first; of one piece's merges, those of earlier pieces. */
static int compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->whole != y->whole)
        return x->whole < y->whole ? -1 : 1;
    if (x->left_id != y->left_id)
        return x->left_id < y->left_id ? -1 : 1;
    return (x->right_id > y->right_id) - (x->right_id < y->right_id);
}

/* The id of a piece that takes part in merges; -1 when the text is none. */
static int64_t piece_id(const struct vocabulary *vocabulary, const char *text, size_t bytes)
{
    const json_t *id = json_object_getn(vocabulary->ids, text, bytes);
    return id && type_of(vocabulary, (size_t)json_integer_value(id)) == NORMAL ? json_integer_value(id) : -1;
}

static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

static int find_pairs(const struct vocabulary *vocabulary, struct pair **pairs, size_t *count,
                      struct mt_error *error)
{
    size_t capacity = 0;
    *pairs = NULL;
    *count = 0;
    for (size_t i = 0; i < vocabulary->count; i++) {
        const struct mt_gguf_text *text = &vocabulary->texts[i];
        if (type_of(vocabulary, i) != NORMAL)
            continue;
        if (text->bytes > MT_VOCAB_MAX_BYTES)
            return bad_model(error, "token %zu is of %zu bytes; the bound is %zu", i, text->bytes,
                             MT_VOCAB_MAX_BYTES);
        for (size_t left = 1; left < text->bytes; left++) {
            if (!begins_character(text->data[left]))
                continue;
            const int64_t left_id = piece_id(vocabulary, text->data, left);
            const int64_t right_id =
                left_id < 0 ? -1 : piece_id(vocabulary, text->data + left, text->bytes - left);
            if (right_id < 0)
                continue;
            if (*count == capacity) {
                capacity = capacity ? 2 * capacity : 1 << 16;
                struct pair *more = realloc(*pairs, capacity * sizeof *more);
                if (!more)
                    return no_memory(error);
                *pairs = more;
            }
            (*pairs)[(*count)++] = (struct pair){.whole = (uint32_t)i,
                                                 .left = (uint32_t)left,
                                                 .left_id = (uint32_t)left_id,
                                                 .right_id = (uint32_t)right_id,
                                                 .score = score_of(vocabulary, i)};
        }
    }
    return 0;
}

static int derive_merges(const struct vocabulary *vocabulary, json_t **merges, struct mt_error *error)
{
    struct pair *pairs;
    size_t count;
    int r = find_pairs(vocabulary, &pairs, &count, error);
    mt_autofree struct pair *owned = pairs;
    if (r < 0)
        return r;
    if (count)
        qsort(pairs, count, sizeof *pairs, compare_pairs);
    *merges = json_array();
    for (size_t i = 0; *merges && i < count; i++) {
        const struct mt_gguf_text *text = &vocabulary->texts[pairs[i].whole];
        json_array_append_new(
            *merges, json_pack("[o, o]", json_stringn(text->data, pairs[i].left),
                               json_stringn(text->data + pairs[i].left, text->bytes - pairs[i].left)));
    }
    return *merges ? 0 : no_memory(error);
}

static json_t *replace(const char *pattern, const char *content)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", pattern, "content",
                     content);
}

static bool falls_back_to_bytes(const struct vocabulary *vocabulary)
{
    size_t bytes = 0;
    for (size_t i = 0; i < vocabulary->count; i++)
        bytes += type_of(vocabulary, i) == BYTE;
    return bytes == 256;
}

static int with_marks(const struct vocabulary *vocabulary, bool prefix, bool add_begin, json_t *merges,
                      json_t *document, struct mt_error *error)
{
    const int64_t unknown = mt_gguf_token_id(vocabulary->file, "unknown_token_id");
    json_t *normalizers = json_array(), *decoders = json_array();
    if (prefix)
        json_array_append_new(normalizers, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", MT_MARK));
    json_array_append_new(normalizers, replace(" ", MT_MARK));
    json_array_append_new(decoders, replace(MT_MARK, " "));
    json_array_append_new(decoders, json_pack("{s:s}", "type", "ByteFallback"));
    json_array_append_new(decoders, json_pack("{s:s}", "type", "Fuse"));
    if (prefix)
        json_array_append_new(decoders, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                                  "start", 1, "stop", 0));
    json_object_set_new(document, "normalizer",
                        json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", normalizers));
    json_object_set_new(document, "pre_tokenizer", json_null());
    int r = add_post_processor(vocabulary, add_begin, document, error);
    if (r < 0)
        return json_decref(decoders), r;
    json_object_set_new(document, "decoder",
                        json_pack("{s:s, s:o}", "type", "Sequence", "decoders", decoders));
    json_t *model = json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:O, s:O}", "type", "BPE", "dropout",
                              "unk_token", unknown >= 0 ? text_of(vocabulary, (size_t)unknown) : json_null(),
                              "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 1,
                              "byte_fallback", falls_back_to_bytes(vocabulary), "ignore_merges", 0, "vocab",
                              vocabulary->ids, "merges", merges);
    return json_object_set_new(document, "model", model) < 0 ? no_memory(error) : 0;
}

static int sentencepiece(const struct vocabulary *vocabulary, json_t *document, struct mt_error *error)
{
    static const char *const refused[] = {"tokenizer.ggml.remove_extra_whitespaces"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (flag(vocabulary->file, refused[i], false))
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "%s is not supported for SentencePiece vocabularies", refused[i]);
    if (mt_gguf_find(vocabulary->file, "tokenizer.ggml.precompiled_charsmap"))
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "tokenizer.ggml.precompiled_charsmap is not supported for SentencePiece "
                            "vocabularies of the kind llama");
    if (!vocabulary->scores)
        return bad_model(error, "the vocabulary has no scores (tokenizer.ggml.scores)");
    mt_autojson json_t *merges = NULL;
    int r = derive_merges(vocabulary, &merges, error);
    return r < 0 ? r
                 : with_marks(vocabulary, flag(vocabulary->file, "tokenizer.ggml.add_space_prefix", true),
                              true, merges, document, error);
}

/* SentencePiece's marks with merges of its own. */
static int marked_bpe(const struct vocabulary *vocabulary, bool add_begin, json_t *document,
                      struct mt_error *error)
{
    mt_autojson json_t *merges = NULL;
    int r = read_merges(vocabulary, &merges, error);
    return r < 0 ? r
                 : with_marks(vocabulary, flag(vocabulary->file, "tokenizer.ggml.add_space_prefix", false),
                              add_begin, merges, document, error);
}

/* --- documents ----------------------------------------------------------------------------------------- */

static int fill(const struct vocabulary *vocabulary, json_t *document, struct mt_error *error)
{
    struct mt_gguf_text model = {"", 0};
    json_object_set_new(document, "version", json_string("1.0"));
    json_object_set_new(document, "truncation", json_null());
    json_object_set_new(document, "padding", json_null());
    if (json_object_set_new(document, "added_tokens", added_tokens(vocabulary)) < 0)
        return no_memory(error);
    if (!find_text(vocabulary->file, "tokenizer.ggml.model", &model))
        return bad_model(error, "the file does not say its tokenizer.ggml.model");
    if (text_is(&model, "gpt2"))
        return byte_level(vocabulary, document, error);
    if (text_is(&model, "llama"))
        return sentencepiece(vocabulary, document, error);
    if (text_is(&model, "gemma4"))
        return marked_bpe(vocabulary, true, document, error);
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                        "tokenizer.ggml.model `%.*s` is not supported (gpt2, llama and gemma4 are)",
                        (int)(model.bytes < 64 ? model.bytes : 64), model.data);
}

int mt_gguf_vocabulary_document(const struct mt_gguf *file, json_t **document, struct mt_error *error)
{
    struct vocabulary vocabulary;
    *document = NULL;
    int r = mt_gguf_types_of_tokenizer(file, error);
    if (r < 0)
        return r;
    mt_autojson json_t *object = json_object();
    r = open_vocabulary(file, &vocabulary, error);
    if (r == 0)
        r = object ? fill(&vocabulary, object, error) : no_memory(error);
    close_vocabulary(&vocabulary);
    if (r < 0)
        return mt_error_prefix(error, "%s", mt_gguf_path(file)), r;
    *document = json_incref(object);
    return 0;
}

static json_t *token_text(const struct mt_gguf *file, int64_t id)
{
    struct mt_gguf_strings strings = {.value = mt_gguf_find(file, "tokenizer.ggml.tokens")};
    struct mt_gguf_text text = {"", 0};
    for (int64_t i = 0; i <= id; i++)
        if (!mt_gguf_next_string(&strings, &text))
            return NULL;
    return json_stringn(text.data, text.bytes);
}

static int read_templates(const struct mt_gguf *file, json_t *config, json_t **chat_template,
                          struct mt_error *error)
{
    struct mt_gguf_text usual = {NULL, 0}, with_tools = {NULL, 0};
    find_text(file, "tokenizer.chat_template", &usual);
    find_text(file, "tokenizer.chat_template.tool_use", &with_tools);
    if (!usual.data)
        return 0;
    json_t *text = json_stringn(usual.data, usual.bytes);
    json_t *tools = with_tools.data ? json_stringn(with_tools.data, with_tools.bytes) : NULL;
    if (!text || (with_tools.data && !tools)) {
        json_decref(text);
        return bad_model(error, "%s: its chat template is not UTF-8", mt_gguf_path(file));
    }
    if (!tools) {
        *chat_template = text;
        return 0;
    }
    json_t *list = json_pack("[{s:s, s:o}, {s:s, s:o}]", "name", "default", "template", text, "name",
                             "tool_use", "template", tools);
    return json_object_set_new(config, "chat_template", list) < 0 ? no_memory(error) : 0;
}

int mt_gguf_vocabulary_config(const struct mt_gguf *file, json_t **config, json_t **chat_template,
                              struct mt_error *error)
{
    static const struct {
        const char *id, *name;
    } special[] = {{"bos_token_id", "bos_token"},       {"eos_token_id", "eos_token"},
                   {"unknown_token_id", "unk_token"},   {"padding_token_id", "pad_token"},
                   {"seperator_token_id", "sep_token"}, {"cls_token_id", "cls_token"},
                   {"mask_token_id", "mask_token"}};
    *config = *chat_template = NULL;
    int r = mt_gguf_types_of_tokenizer(file, error);
    if (r < 0)
        return r;
    mt_autojson json_t *object = json_pack("{s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                                           "clean_up_tokenization_spaces", 0);
    if (!object)
        return no_memory(error);
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        const int64_t id = mt_gguf_token_id(file, special[i].id);
        json_t *text = id >= 0 ? token_text(file, id) : NULL;
        if (text)
            json_object_set_new(object, special[i].name, text);
    }
    r = read_templates(file, object, chat_template, error);
    if (r == 0)
        *config = json_incref(object);
    return r;
}
