/* The parts of a tokenizer.json: vocabulary, added tokens, post-processor, decoder. */
#include "core/text/json_tokenizer.h"

#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/base/utf8.h"
#include "core/text/byte_alphabet.h"
#include "core/text/json_types.h"
#include "core/text/pipeline.h"
#include "core/text/token_names.h"

#include <stdlib.h>
#include <string.h>

#define bad_model(error, ...) mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, __VA_ARGS__)
#define MAX_REPLACEMENT_BYTES 1024 /* each token of the vocabulary may hold it many times */
#define not_supported(error, ...) mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL, __VA_ARGS__)

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
}

static const char *type_of(const json_t *json)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    return type ? type : "(none)";
}

/* How a token's writing becomes the text it decodes to. */
struct decoding {
    bool byte_level, byte_fallback;
    const char *from, *to; /* replaced; NULL: nothing */
    const char *word_end;  /* written behind the last token of a word; NULL: nothing */
};

/* --- decoder
 * ------------------------------------------------------------------------------------------------ */

static int read_replace(const json_t *json, struct decoding *decoding, struct mt_error *error)
{
    const char *from = json_string_value(json_object_get(json_object_get(json, "pattern"), "String"));
    const char *to = json_string_value(json_object_get(json, "content"));
    if (!from || !*from || !to || decoding->from)
        return not_supported(error, "this Replace in a decoder is not supported yet");
    if (strlen(to) > MAX_REPLACEMENT_BYTES)
        return bad_model(error, "a Replace in the decoder has a text of %zu bytes; the bound is %d",
                         strlen(to), MAX_REPLACEMENT_BYTES);
    decoding->from = from;
    decoding->to = to;
    return 0;
}

static int read_strip(struct mt_pipeline *tokenizer, const json_t *json, struct mt_error *error)
{
    const char *content = json_string_value(json_object_get(json, "content"));
    const json_t *start = json_object_get(json, "start"), *stop = json_object_get(json, "stop");
    if (!content || strcmp(content, " ") != 0 || !json_is_integer(start) || json_integer_value(start) < 0 ||
        json_integer_value(stop) != 0)
        return not_supported(error, "this Strip in a decoder is not supported yet");
    tokenizer->strip_start = (size_t)json_integer_value(start);
    return 0;
}

static int read_decoder(struct mt_pipeline *tokenizer, const json_t *json, unsigned depth,
                        struct decoding *decoding, struct mt_error *error)
{
    const char *type = type_of(json);
    if (strcmp(type, "Sequence") == 0 && depth < 4) {
        const json_t *item;
        size_t i;
        int r = 0;
        json_array_foreach(json_object_get(json, "decoders"), i, item) if (r == 0) r =
            read_decoder(tokenizer, item, depth + 1, decoding, error);
        return r;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        decoding->byte_level = true;
        return 0;
    }
    if (strcmp(type, "ByteFallback") == 0) {
        decoding->byte_fallback = true;
        return 0;
    }
    if (strcmp(type, "Fuse") == 0)
        return 0;
    if (strcmp(type, "Replace") == 0)
        return read_replace(json, decoding, error);
    if (strcmp(type, "Strip") == 0)
        return read_strip(tokenizer, json, error);
    if (strcmp(type, "BPEDecoder") == 0) {
        decoding->word_end = json_string_value(json_object_get(json, "suffix"));
        return 0;
    }
    if (strcmp(type, "Metaspace") == 0) {
        const char *scheme = json_string_value(json_object_get(json, "prepend_scheme"));
        decoding->from = json_string_value(json_object_get(json, "replacement"));
        decoding->to = " ";
        tokenizer->strip_first =
            scheme ? strcmp(scheme, "never") != 0 : !json_is_false(json_object_get(json, "add_prefix_space"));
        return decoding->from && *decoding->from ? 0 : bad_model(error, "a Metaspace has no replacement");
    }
    return not_supported(error, "the decoder %s is not supported yet", type);
}

/* Bytes of a writing in the byte alphabet; false when a character of it is not in the alphabet. */
static bool to_bytes(const char *text, size_t bytes, struct mt_text *out)
{
    out->bytes = 0;
    if (mt_text_append(out, "", 0) < 0)
        return false;
    for (size_t i = 0; i < bytes;) {
        uint32_t character;
        const int length = mt_utf8_next(text + i, bytes - i, &character);
        const int byte = length > 0 ? mt_byte_alphabet_byte(character) : -1;
        if (byte < 0 || mt_text_append(out, &(char){(char)byte}, 1) < 0)
            return false;
        i += (size_t)length;
    }
    return true;
}

/* Bytes at the token's end that say that it ends a word, which are not part of its text; 0 where it does not.
 */
static size_t word_end_of(const struct decoding *decoding, const char *text, size_t bytes)
{
    const size_t length = decoding->word_end ? strlen(decoding->word_end) : 0;
    if (length > bytes || (length && memcmp(text + bytes - length, decoding->word_end, length) != 0))
        return 0;
    return length;
}

/* What a token decodes to. */
static int piece_of(const struct decoding *decoding, const char *text, size_t bytes, struct mt_text *out)
{
    if (decoding->byte_level && to_bytes(text, bytes, out))
        return 0;
    out->bytes = 0;
    bytes -= word_end_of(decoding, text, bytes);
    const int byte = decoding->byte_fallback ? mt_byte_token_byte(text, bytes) : -1;
    if (byte >= 0)
        return mt_text_append(out, &(char){(char)byte}, 1);
    int r = mt_text_append(out, "", 0);
    const size_t length = decoding->from ? strlen(decoding->from) : 0;
    for (size_t done = 0; r == 0 && done < bytes;) {
        const char *found = length ? memmem(text + done, bytes - done, decoding->from, length) : NULL;
        const size_t plain = found ? (size_t)(found - text) - done : bytes - done;
        r = mt_text_append(out, text + done, plain);
        if (r == 0 && found)
            r = mt_text_append(out, decoding->to, strlen(decoding->to));
        done += plain + (found ? length : 0);
    }
    return r;
}

/* --- vocabulary
 * --------------------------------------------------------------------------------------------- */

static int check_id(const json_t *value, const char *text, int64_t *id, struct mt_error *error)
{
    *id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (*id < 0 || *id >= MT_VOCAB_MAX_ID)
        return bad_model(error, "the id of the token \"%.40s\" is not a number from 0 to %lld", text,
                         (long long)MT_VOCAB_MAX_ID - 1);
    return 0;
}

/* Largest id + 1 of model and added tokens. The vocabulary is an object of ids, or a list of [text, score].
 */
static int measure(const json_t *document, const json_t *vocab, size_t *size, struct mt_error *error)
{
    const char *text;
    json_t *value;
    size_t i;
    int64_t id;
    *size = json_array_size(vocab);
    if (*size >= (size_t)MT_VOCAB_MAX_ID)
        return bad_model(error, "the vocabulary has %zu tokens, too many", *size);
    json_object_foreach((json_t *)vocab, text, value)
    {
        int r = check_id(value, text, &id, error);
        if (r < 0)
            return r;
        *size = mt_size_max(*size, (size_t)id + 1);
    }
    json_array_foreach(json_object_get(document, "added_tokens"), i, value)
    {
        text = json_string_value(json_object_get(value, "content"));
        if (!text)
            return bad_model(error, "added token %zu has no content", i);
        int r = check_id(json_object_get(value, "id"), text, &id, error);
        if (r < 0)
            return r;
        *size = mt_size_max(*size, (size_t)id + 1);
    }
    return *size ? 0 : bad_model(error, "the vocabulary is empty");
}

static int add_token(struct mt_pipeline *tokenizer, const struct decoding *decoding, int32_t id,
                     const char *text, size_t bytes, bool findable, struct mt_text *scratch,
                     struct mt_error *error)
{
    /* Tokens of a byte-level vocabulary that are not written in the alphabet are never made of bytes. */
    const bool as_bytes = tokenizer->byte_level && to_bytes(text, bytes, scratch);
    findable = findable && (as_bytes || !tokenizer->byte_level);
    int r = as_bytes ? mt_vocab_add(&tokenizer->vocab, id, scratch->data, scratch->bytes, findable)
                     : mt_vocab_add(&tokenizer->vocab, id, text, bytes, findable);
    if (r == -EEXIST)
        return bad_model(error, "two tokens have the id %d or the text \"%.40s\"", id, text);
    if (r == 0)
        r = piece_of(decoding, text, bytes, scratch);
    if (r == 0)
        r = mt_vocab_add(&tokenizer->pieces, id, scratch->data, scratch->bytes, false);
    tokenizer->ends_word[id] = word_end_of(decoding, text, bytes) > 0;
    return r < 0 ? no_memory(error) : 0;
}

static int read_vocab(struct mt_pipeline *tokenizer, const json_t *vocab, const struct decoding *decoding,
                      struct mt_error *error)
{
    struct mt_text scratch = {0};
    const char *text;
    json_t *value;
    size_t i;
    int r = 0;
    json_object_foreach((json_t *)vocab, text, value) if (r == 0) r = add_token(
        tokenizer, decoding, (int32_t)json_integer_value(value), text, strlen(text), true, &scratch, error);
    json_array_foreach(vocab, i, value)
    {
        const json_t *token = json_array_get(value, 0);
        if (r == 0 && !json_is_string(token))
            r = bad_model(error, "token %zu has no text", i);
        if (r == 0)
            r = add_token(tokenizer, decoding, (int32_t)i, json_string_value(token),
                          json_string_length(token), true, &scratch, error);
    }
    mt_text_free(&scratch);
    return r;
}

/* --- added tokens
 * ------------------------------------------------------------------------------------------- */

static bool flag(const json_t *json, const char *key)
{
    return json_is_true(json_object_get(json, key));
}

/* Into the set it is looked for with: as it is, or as the normalizer leaves it; the latter decodes so, too.
 */
static int insert_added(struct mt_pipeline *tokenizer, const json_t *json, int32_t id,
                        const struct decoding *decoding, struct mt_error *error)
{
    const json_t *content = json_object_get(json, "content");
    const struct mt_added_token token = {
        .id = id,
        .single_word = flag(json, "single_word"),
        .lstrip = flag(json, "lstrip"),
        .rstrip = flag(json, "rstrip"),
    };
    if (!flag(json, "normalized"))
        return mt_added_insert(tokenizer->added, json_string_value(content), json_string_length(content),
                               token, error);
    struct mt_mapped normal = {0}, spare = {0};
    const struct mt_text *text = &normal.text;
    struct mt_regex_scratch *scratch = mt_regex_scratch_new();
    int r = scratch ? mt_text_append(&normal.text, json_string_value(content), json_string_length(content))
                    : -ENOMEM;
    if (r == 0)
        r = mt_normalizer_apply(tokenizer->normalizer, scratch, &normal, &spare);
    if (r == 0)
        r = piece_of(decoding, text->data, text->bytes, &spare.text);
    if (r == 0)
        r = mt_vocab_replace(&tokenizer->pieces, id, spare.text.data, spare.text.bytes);
    int result = r == -ENOMEM ? no_memory(error)
                 : r < 0 ? bad_model(error, "the normalizer can't be applied to the added token \"%.40s\"",
                                     json_string_value(content))
                         : 0;
    if (r == 0)
        result = mt_added_insert(tokenizer->added_normalized, text->data, text->bytes, token, error);
    mt_regex_scratch_free(scratch);
    mt_mapped_free(&normal);
    mt_mapped_free(&spare);
    return result;
}

/* The model's id of a token as the file writes it. */
static int32_t find_in_model(const struct mt_pipeline *tokenizer, const json_t *vocab, const char *text)
{
    if (json_is_array(vocab))
        return mt_vocab_find(&tokenizer->vocab, text, strlen(text));
    const json_t *id = json_object_get(vocab, text);
    return id ? (int32_t)json_integer_value(id) : MT_TOKEN_NONE;
}

static int read_added(struct mt_pipeline *tokenizer, const json_t *document, const json_t *vocab,
                      const struct decoding *decoding, struct mt_error *error)
{
    struct mt_text scratch = {0};
    json_t *json;
    size_t i;
    int r = 0;
    json_array_foreach(json_object_get(document, "added_tokens"), i, json)
    {
        const json_t *content = json_object_get(json, "content");
        const char *text = json_string_value(content);
        const int32_t known = find_in_model(tokenizer, vocab, text); /* its id goes before */
        const int32_t id =
            known != MT_TOKEN_NONE ? known : (int32_t)json_integer_value(json_object_get(json, "id"));
        if (known == MT_TOKEN_NONE)
            r = add_token(tokenizer, decoding, id, text, json_string_length(content), false, &scratch, error);
        if (r == 0)
            r = insert_added(tokenizer, json, id, decoding, error);
        if (r < 0)
            break;
        tokenizer->special[id] = tokenizer->special[id] || flag(json, "special");
    }
    mt_text_free(&scratch);
    return r;
}

/* --- post-processor
 * ----------------------------------------------------------------------------------------- */

static int push_special(const struct mt_pipeline *tokenizer, const json_t *id, struct mt_ids *ids,
                        struct mt_error *error)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= (json_int_t)tokenizer->base.vocab_size)
        return bad_model(error, "the post-processor names an id that is not in the vocabulary");
    return mt_ids_push(ids, (int32_t)json_integer_value(id)) < 0 ? no_memory(error) : 0;
}

static int read_template(struct mt_pipeline *tokenizer, const json_t *json, struct mt_error *error)
{
    const json_t *special_tokens = json_object_get(json, "special_tokens");
    json_t *item, *id;
    size_t i, k;
    bool seen = false;
    json_array_foreach(json_object_get(json, "single"), i, item)
    {
        if (json_object_get(item, "Sequence")) {
            if (seen)
                return not_supported(error, "a template with the text twice is not supported yet");
            seen = true;
            continue;
        }
        const char *name = json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
        const json_t *ids = name ? json_object_get(json_object_get(special_tokens, name), "ids") : NULL;
        if (!json_array_size(ids))
            return bad_model(error, "the post-processor's template names a special token without ids");
        json_array_foreach(ids, k, id)
        {
            int r = push_special(tokenizer, id, seen ? &tokenizer->suffix : &tokenizer->prefix, error);
            if (r < 0)
                return r;
        }
    }
    return seen ? 0 : bad_model(error, "the post-processor's template has no place for the text");
}

static int read_post_processor(struct mt_pipeline *tokenizer, const json_t *json, unsigned depth,
                               struct mt_error *error)
{
    if (!json || json_is_null(json))
        return 0;
    const char *type = type_of(json);
    if (strcmp(type, "ByteLevel") == 0) /* offsets only */
        return 0;
    if (strcmp(type, "Sequence") == 0 && depth < 4) {
        const json_t *item;
        size_t i;
        int r = 0;
        json_array_foreach(json_object_get(json, "processors"), i, item) if (r == 0) r =
            read_post_processor(tokenizer, item, depth + 1, error);
        return r;
    }
    if (tokenizer->prefix.count || tokenizer->suffix.count)
        return not_supported(error, "several templates in the post-processor are not supported yet");
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(tokenizer, json, error);
    if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0) {
        int r = push_special(tokenizer, json_array_get(json_object_get(json, "cls"), 1), &tokenizer->prefix,
                             error);
        return r < 0 ? r
                     : push_special(tokenizer, json_array_get(json_object_get(json, "sep"), 1),
                                    &tokenizer->suffix, error);
    }
    return not_supported(error, "the post-processor %s is not supported yet", type);
}

/* --- all together
 * ------------------------------------------------------------------------------------------- */

static int check_model(const json_t *model, bool *unigram, struct mt_error *error)
{
    const char *type = json_string_value(json_object_get(model, "type"));
    const json_t *vocab = json_object_get(model, "vocab");
    *unigram = type && strcmp(type, "Unigram") == 0;
    if (!*unigram && (type ? strcmp(type, "BPE") != 0 : !json_object_get(model, "merges")))
        return not_supported(error, "a tokenizer with a model of type %s is not supported yet",
                             type ? type : "(none)");
    return (*unigram ? json_is_array(vocab) : json_is_object(vocab))
               ? 0
               : bad_model(error, "the model has no vocabulary");
}

static int read_parts(struct mt_pipeline *tokenizer, const json_t *document, struct mt_error *error)
{
    const json_t *model = json_object_get(document, "model"), *vocab = json_object_get(model, "vocab");
    const json_t *decoder = json_object_get(document, "decoder");
    struct decoding decoding = {0};
    size_t size = 0;
    bool unigram = false;
    int r = mt_json_types_of_tokenizer(document, error);
    if (r == 0)
        r = check_model(model, &unigram, error);
    if (r == 0)
        r = mt_normalizer_load(json_object_get(document, "normalizer"), &tokenizer->normalizer, error);
    if (r == 0)
        r = mt_pretokenizer_load(json_object_get(document, "pre_tokenizer"), &tokenizer->pretokenizer, error);
    if (r == 0 && decoder && !json_is_null(decoder))
        r = read_decoder(tokenizer, decoder, 0, &decoding, error);
    else
        tokenizer->join = true;
    if (r == 0)
        r = measure(document, vocab, &size, error);
    if (r == 0)
        r = mt_pipeline_allocate(tokenizer, size) < 0 ? no_memory(error) : 0;
    if (r < 0)
        return r;
    tokenizer->byte_level = mt_pretokenizer_is_byte_level(tokenizer->pretokenizer);
    if (unigram && tokenizer->byte_level)
        return not_supported(error, "a byte-level Unigram model is not supported yet");
    r = read_vocab(tokenizer, vocab, &decoding, error);
    if (r == 0)
        r = read_added(tokenizer, document, vocab, &decoding, error);
    if (r == 0)
        r = read_post_processor(tokenizer, json_object_get(document, "post_processor"), 0, error);
    if (r < 0)
        return r;
    r = unigram ? mt_unigram_load(model, &tokenizer->vocab, &tokenizer->unigram, error)
                : mt_bpe_load(model, tokenizer->byte_level, &tokenizer->vocab, &tokenizer->bpe, error);
    tokenizer->cuts_at_marks = r == 0 && tokenizer->bpe && mt_bpe_cuts_at_marks(tokenizer->bpe);
    tokenizer->cuts_at_lines = tokenizer->cuts_at_marks && mt_bpe_cuts_at_lines(tokenizer->bpe);
    return r;
}

/* --- names of special tokens
 * ---------------------------------------------------------------------------------- */

struct named {
    const struct mt_pipeline *tokenizer;
    const json_t *document;
};

static int32_t find_token(void *context, const char *text)
{
    const struct named *named = context;
    json_t *json;
    size_t i;
    const int32_t known = find_in_model(
        named->tokenizer, json_object_get(json_object_get(named->document, "model"), "vocab"), text);
    if (known != MT_TOKEN_NONE)
        return known;
    json_array_foreach(json_object_get(named->document, "added_tokens"), i, json)
    {
        const char *content = json_string_value(json_object_get(json, "content"));
        if (content && strcmp(content, text) == 0)
            return (int32_t)json_integer_value(json_object_get(json, "id"));
    }
    return MT_TOKEN_NONE;
}

int mt_json_tokenizer_load(const char *folder, const json_t *document, struct mt_tokenizer **result,
                           struct mt_error *error)
{
    *result = NULL;
    struct mt_pipeline *tokenizer = mt_pipeline_new("BPE");
    if (!tokenizer)
        return no_memory(error);
    int r = read_parts(tokenizer, document, error);
    if (r == 0 && folder)
        r = mt_token_names_read(folder, &tokenizer->base, find_token, &(struct named){tokenizer, document},
                                error);
    if (r == 0 && folder)
        r = mt_pipeline_seal(tokenizer, folder, "tokenizer.json", NULL, error);
    if (r < 0) {
        mt_pipeline_free(tokenizer);
        return r;
    }
    if (tokenizer->unigram)
        tokenizer->ops.kind = "Unigram";
    *result = &tokenizer->base;
    return 0;
}
