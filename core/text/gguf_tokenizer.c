/* A GGUF vocabulary is written as a tokenizer.json in memory and read by what reads those, so what trains,
 * what a checkpoint carries and what transformers makes of it are one tokenizer. */
#include "core/text/gguf_tokenizer.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/text/gguf_vocabulary.h"
#include "core/text/json_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define NUM_FILES 3

struct gguf_tokenizer {
    struct mt_tokenizer base;
    struct mt_tokenizer_ops ops; /* base.ops */
    struct mt_tokenizer *inner;
    char *files[NUM_FILES]; /* NULL: there is none */
};

static const char *const file_names[NUM_FILES] = {"tokenizer.json", "tokenizer_config.json",
                                                  "chat_template.jinja"};

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory in the tokenizer");
}

static const struct gguf_tokenizer *own(const struct mt_tokenizer *base)
{
    return (const struct gguf_tokenizer *)base;
}

static int encode(const struct mt_tokenizer *base, const char *text, size_t bytes, bool add_special,
                  struct mt_ids *ids, struct mt_spans *spans, struct mt_error *error)
{
    const struct mt_tokenizer *inner = own(base)->inner;
    return inner->ops->encode(inner, text, bytes, add_special, ids, spans, error);
}

static int piece(const struct mt_tokenizer *base, int32_t id, bool skip_special,
                 struct mt_decode_state *state, struct mt_text *text)
{
    const struct mt_tokenizer *inner = own(base)->inner;
    return inner->ops->piece(inner, id, skip_special, state, text);
}

static int save(const struct mt_tokenizer *base, const char *folder, struct mt_error *error)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < NUM_FILES; i++) {
        const char *text = own(base)->files[i];
        if (!text)
            continue;
        mt_autofree char *path = mt_path_join(folder, file_names[i]);
        r = path ? mt_file_write_atomic(path, text, strlen(text), 0666, error) : no_memory(error);
    }
    return r;
}

static void free_tokenizer(struct mt_tokenizer *base)
{
    struct gguf_tokenizer *tokenizer = (struct gguf_tokenizer *)base;
    mt_tokenizer_free(tokenizer->inner);
    for (size_t i = 0; i < NUM_FILES; i++)
        free(tokenizer->files[i]);
    free(tokenizer);
}

/* Of all that determines the ids. */
static void make_fingerprint(struct gguf_tokenizer *tokenizer)
{
    struct mt_sha256 hash;
    uint8_t digest[32];
    char ids[64];
    snprintf(ids, sizeof ids, " %d %d %d", tokenizer->base.begin, tokenizer->base.end, tokenizer->base.pad);
    mt_sha256_init(&hash);
    mt_sha256_update(&hash, tokenizer->files[0], strlen(tokenizer->files[0]));
    mt_sha256_update(&hash, ids, strlen(ids));
    mt_sha256_final(&hash, digest);
    mt_sha256_hex(digest, tokenizer->base.fingerprint);
}

static int make_files(const struct mt_gguf *file, const json_t *document, char *files[NUM_FILES],
                      struct mt_error *error)
{
    mt_autojson json_t *config = NULL;
    mt_autojson json_t *chat_template = NULL;
    int r = mt_gguf_vocabulary_config(file, &config, &chat_template, error);
    if (r < 0)
        return r;
    files[0] = json_dumps(document, JSON_INDENT(1));
    files[1] = json_dumps(config, JSON_INDENT(2));
    if (chat_template && !(files[2] = strdup(json_string_value(chat_template))))
        return no_memory(error);
    return files[0] && files[1] ? 0 : no_memory(error);
}

static int load(const struct mt_gguf *file, struct gguf_tokenizer *tokenizer, struct mt_error *error)
{
    mt_autojson json_t *document = NULL;
    int r = mt_gguf_vocabulary_document(file, &document, error);
    if (r == 0)
        r = make_files(file, document, tokenizer->files, error);
    if (r < 0)
        return r;
    r = mt_json_tokenizer_load(NULL, document, &tokenizer->inner, error);
    if (r < 0)
        return mt_error_prefix(error, "%s", mt_gguf_path(file)), r;
    tokenizer->ops = (struct mt_tokenizer_ops){.kind = tokenizer->inner->ops->kind,
                                               .encode = encode,
                                               .piece = piece,
                                               .save = save,
                                               .free = free_tokenizer};
    tokenizer->base.vocab_size = tokenizer->inner->vocab_size;
    tokenizer->base.begin = (int32_t)mt_gguf_token_id(file, "bos_token_id");
    tokenizer->base.end = (int32_t)mt_gguf_token_id(file, "eos_token_id");
    tokenizer->base.pad = (int32_t)mt_gguf_token_id(file, "padding_token_id");
    make_fingerprint(tokenizer);
    return 0;
}

int mt_gguf_tokenizer_load(const char *path, struct mt_tokenizer **result, struct mt_error *error)
{
    *result = NULL;
    struct mt_gguf *file;
    int r = mt_gguf_open(path, &file, error);
    if (r == 0)
        r = mt_gguf_tokenizer_of(file, result, error);
    mt_gguf_close(file);
    return r;
}

int mt_gguf_tokenizer_of(const struct mt_gguf *file, struct mt_tokenizer **result, struct mt_error *error)
{
    *result = NULL;
    struct gguf_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    int r = tokenizer ? load(file, tokenizer, error) : no_memory(error);
    if (r < 0) {
        if (tokenizer)
            free_tokenizer(&tokenizer->base);
        return r;
    }
    tokenizer->base.ops = &tokenizer->ops;
    *result = &tokenizer->base;
    return 0;
}

int mt_gguf_template_read(const char *path, json_t **chat_template, json_t **config, struct mt_error *error)
{
    struct mt_gguf *file;
    *chat_template = *config = NULL;
    int r = mt_gguf_open(path, &file, error);
    if (r == 0)
        r = mt_gguf_vocabulary_config(file, config, chat_template, error);
    mt_gguf_close(file);
    return r;
}
