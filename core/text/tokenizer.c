/* What all kinds of tokenizers share: finding out the kind, and decoding built on one token at a time. */
#include "core/text/tokenizer.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/formats/gguf.h"
#include "core/text/bytes.h"
#include "core/text/gguf_tokenizer.h"
#include "core/text/json_tokenizer.h"
#include "core/text/merges_tokenizer.h"
#include "core/text/sentencepiece_tokenizer.h"
#include "core/text/tiktoken.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TOKENIZER_BYTES ((size_t)256 << 20)

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory in the tokenizer");
}

static int load_json(const char *folder, const char *path, struct mt_tokenizer **tokenizer,
                     struct mt_error *error)
{
    mt_autofree char *text = NULL;
    size_t bytes;
    int r = mt_file_read(path, MAX_TOKENIZER_BYTES, &text, &bytes, error);
    if (r < 0)
        return r;
    mt_autojson json_t *document = NULL;
    r = mt_json_parse(text, bytes, path, &document, error);
    if (r < 0) {
        if (error && r != -ENOMEM)
            error->reason = MT_REASON_BAD_MODEL;
        return r;
    }
    if (!mt_bytes_tokenizer_is(document)) {
        r = mt_json_tokenizer_load(folder, document, tokenizer, error);
        return r < 0 ? mt_error_prefix(error, "%s", path) : 0;
    }
    *tokenizer = mt_bytes_tokenizer_new();
    return *tokenizer ? 0 : out_of_memory(error);
}

static int load_model(const char *folder, const char *name, const char *path, struct mt_tokenizer **tokenizer,
                      struct mt_error *error)
{
    mt_autofree char *data = NULL;
    size_t bytes;
    int r = mt_file_read(path, MAX_TOKENIZER_BYTES, &data, &bytes, error);
    if (r < 0)
        return r;
    r = mt_tiktoken_is(data, bytes)
            ? mt_tiktoken_load(folder, name, data, bytes, tokenizer, error)
            : mt_sentencepiece_tokenizer_load(folder, name, data, bytes, tokenizer, error);
    return r < 0 ? mt_error_prefix(error, "%s", path) : 0;
}

int mt_tokenizer_load(const char *folder, struct mt_tokenizer **tokenizer, struct mt_error *error)
{
    *tokenizer = NULL;
    if (strcmp(folder, "bytes") == 0) {
        *tokenizer = mt_bytes_tokenizer_new();
        return *tokenizer ? 0 : out_of_memory(error);
    }
    if (mt_gguf_is(folder))
        return mt_gguf_tokenizer_load(folder, tokenizer, error);

    mt_autofree char *path = mt_path_join(folder, "tokenizer.json");
    if (!path)
        return out_of_memory(error);
    if (mt_path_exists(path))
        return load_json(folder, path, tokenizer, error);
    if (!mt_path_exists(folder))
        return mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL, "the tokenizer's folder %s is not there",
                            folder);
    static const char *const models[] = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                         "qwen.tiktoken", "tiktoken.model"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        mt_autofree char *model = mt_path_join(folder, models[i]);
        if (model && mt_path_exists(model))
            return load_model(folder, models[i], model, tokenizer, error);
    }
    mt_autofree char *vocab = mt_path_join(folder, "vocab.json");
    mt_autofree char *merges = mt_path_join(folder, "merges.txt");
    if (vocab && merges && mt_path_exists(vocab) && mt_path_exists(merges))
        return mt_merges_tokenizer_load(folder, tokenizer, error);
    static const char *const others[] = {"vocab.json", "vocab.txt", "tekken.json"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        mt_autofree char *other = mt_path_join(folder, others[i]);
        if (other && mt_path_exists(other))
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "%s: this kind of tokenizer without a tokenizer.json is not supported yet",
                                other);
    }
    return mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL,
                        "%s holds no tokenizer.json, and no tokenizer.model or tiktoken file", folder);
}

void mt_tokenizer_free(struct mt_tokenizer *tokenizer)
{
    if (tokenizer)
        tokenizer->ops->free(tokenizer);
}

int mt_tokenizer_save(const struct mt_tokenizer *tokenizer, const char *folder, struct mt_error *error)
{
    return tokenizer->ops->save(tokenizer, folder, error);
}

const char *mt_tokenizer_kind(const struct mt_tokenizer *tokenizer)
{
    return tokenizer->ops->kind;
}

size_t mt_tokenizer_vocab_size(const struct mt_tokenizer *tokenizer)
{
    return tokenizer->vocab_size;
}

int32_t mt_tokenizer_begin(const struct mt_tokenizer *tokenizer)
{
    return tokenizer->begin;
}

int32_t mt_tokenizer_end(const struct mt_tokenizer *tokenizer)
{
    return tokenizer->end;
}

int32_t mt_tokenizer_pad(const struct mt_tokenizer *tokenizer)
{
    return tokenizer->pad;
}

const char *mt_tokenizer_fingerprint(const struct mt_tokenizer *tokenizer)
{
    return tokenizer->fingerprint;
}

int mt_tokenizer_encode(const struct mt_tokenizer *tokenizer, const char *text, size_t bytes,
                        bool add_special, struct mt_ids *ids, struct mt_error *error)
{
    return tokenizer->ops->encode(tokenizer, text, bytes, add_special, ids, NULL, error);
}

int mt_tokenizer_encode_spans(const struct mt_tokenizer *tokenizer, const char *text, size_t bytes,
                              bool add_special, struct mt_ids *ids, struct mt_spans *spans,
                              struct mt_error *error)
{
    if (spans && bytes >= UINT32_MAX)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "a text of %zu bytes is too long", bytes);
    return tokenizer->ops->encode(tokenizer, text, bytes, add_special, ids, spans, error);
}

void mt_tokenizer_single_begin(const struct mt_tokenizer *tokenizer, struct mt_ids *ids, size_t first)
{
    const int32_t begin = tokenizer->begin;
    if (begin == MT_TOKEN_NONE || ids->count < first + 2 || ids->data[first] != begin ||
        ids->data[first + 1] != begin)
        return;
    ids->count--;
    memmove(ids->data + first, ids->data + first + 1, (ids->count - first) * sizeof *ids->data);
}

int mt_tokenizer_decode(const struct mt_tokenizer *tokenizer, const int32_t *ids, size_t count,
                        bool skip_special, struct mt_text *text, struct mt_error *error)
{
    int r = mt_text_append(text, NULL, 0); /* even nothing ends with a zero byte */
    struct mt_decode_state state = {0};
    for (size_t i = 0; r == 0 && i < count; i++)
        r = tokenizer->ops->piece(tokenizer, ids[i], skip_special, &state, text);
    return r < 0 ? out_of_memory(error) : 0;
}
