/* The `bytes` tokenizer. Saved, it is a byte-level BPE without merges whose 256 tokens have the byte values
 * as ids: what `transformers` reads then gives the same ids for every text. Byte-level tokenizers write bytes
 * as printable characters (the table of GPT-2): a byte that is a printable Latin-1 character stands for
 * itself, the others follow from U+0100 on in order. */
#include "core/text/bytes.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/utf8.h"
#include "core/text/byte_alphabet.h"

#include <stdlib.h>
#include <string.h>

static const char *const special_tokens[] = {"<|begin|>", "<|end|>", "<|pad|>"};
#define NUM_SPECIAL (sizeof special_tokens / sizeof *special_tokens)

/* The id of the special token that is written out at `text`, or MT_TOKEN_NONE. */
static int32_t special_at(const char *text, size_t bytes, size_t *length)
{
    for (size_t i = 0; i < NUM_SPECIAL; i++) {
        *length = strlen(special_tokens[i]);
        if (bytes >= *length && memcmp(text, special_tokens[i], *length) == 0)
            return MT_BYTES_BEGIN + (int32_t)i;
    }
    return MT_TOKEN_NONE;
}

static int encode(const struct mt_tokenizer *tokenizer, const char *text, size_t bytes, bool add_special,
                  struct mt_ids *ids, struct mt_spans *spans, struct mt_error *error)
{
    (void)tokenizer;
    int r = add_special ? mt_ids_push(ids, MT_BYTES_BEGIN) : 0;
    if (r == 0 && add_special && spans)
        r = mt_spans_append(spans, (struct mt_span){0, 0}, 1);
    for (size_t i = 0; r == 0 && i < bytes;) {
        size_t length;
        int32_t id = text[i] == '<' ? special_at(text + i, bytes - i, &length) : MT_TOKEN_NONE;
        if (id == MT_TOKEN_NONE) {
            id = (unsigned char)text[i];
            length = 1;
        }
        r = mt_ids_push(ids, id);
        if (r == 0 && spans)
            r = mt_spans_append(spans, (struct mt_span){(uint32_t)i, (uint32_t)(i + length)}, 1);
        i += length;
    }
    if (r < 0)
        return mt_error_set(error, r, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokens of a text");
    return 0;
}

static int piece(const struct mt_tokenizer *tokenizer, int32_t id, bool skip_special,
                 struct mt_decode_state *state, struct mt_text *text)
{
    (void)tokenizer;
    (void)state;
    if (id >= 0 && id < 256)
        return mt_text_append(text, &(char){(char)id}, 1);
    if (id >= MT_BYTES_BEGIN && id < MT_BYTES_VOCAB && !skip_special) {
        const char *name = special_tokens[id - MT_BYTES_BEGIN];
        return mt_text_append(text, name, strlen(name));
    }
    return 0;
}

static json_t *vocabulary(void)
{
    json_t *vocab = json_object();
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[5] = {0};
        mt_utf8_write(mt_byte_alphabet_character((uint8_t)byte), name);
        json_object_set_new(vocab, name, json_integer(byte));
    }
    return vocab;
}

static json_t *added_tokens(void)
{
    json_t *tokens = json_array();
    for (size_t i = 0; i < NUM_SPECIAL; i++)
        json_array_append_new(tokens,
                              json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", MT_BYTES_BEGIN + (int)i,
                                        "content", special_tokens[i], "single_word", 0, "lstrip", 0, "rstrip",
                                        0, "normalized", 0, "special", 1));
    return tokens;
}

static json_t *template_special(void)
{
    return json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", special_tokens[0], "type_id", 0);
}

static json_t *template_sequence(const char *id, int type)
{
    return json_pack("{s:{s:s, s:i}}", "Sequence", "id", id, "type_id", type);
}

/* The begin token before a text, and once before a pair of texts. */
static json_t *post_processor(void)
{
    return json_pack("{s:s, s:[o, o], s:[o, o, o], s:{s:{s:s, s:[i], s:[s]}}}", "type", "TemplateProcessing",
                     "single", template_special(), template_sequence("A", 0), "pair", template_special(),
                     template_sequence("A", 0), template_sequence("B", 1), "special_tokens",
                     special_tokens[0], "id", special_tokens[0], "ids", MT_BYTES_BEGIN, "tokens",
                     special_tokens[0]);
}

static json_t *byte_level(void)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 0,
                     "use_regex", 0);
}

static json_t *tokenizer_json(void)
{
    return json_pack(
        "{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o,"
        " s:[]}}",
        "version", "1.0", "truncation", "padding", "added_tokens", added_tokens(), "normalizer",
        "pre_tokenizer", byte_level(), "post_processor", post_processor(), "decoder", byte_level(), "model",
        "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
        0, "byte_fallback", 0, "ignore_merges", 0, "vocab", vocabulary(), "merges");
}

static json_t *tokenizer_config_json(void)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                     "bos_token", special_tokens[0], "eos_token", special_tokens[1], "pad_token",
                     special_tokens[2], "clean_up_tokenization_spaces", 0, "add_prefix_space", 0);
}

/* Takes the document. */
static int write_json(const char *folder, const char *name, json_t *document, struct mt_error *error)
{
    mt_autojson json_t *owned = document;
    mt_autofree char *text = owned ? json_dumps(owned, JSON_INDENT(2)) : NULL;
    mt_autofree char *path = mt_path_join(folder, name);
    if (!text || !path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while saving %s", name);
    return mt_file_write_atomic(path, text, strlen(text), 0666, error);
}

static int save(const struct mt_tokenizer *tokenizer, const char *folder, struct mt_error *error)
{
    (void)tokenizer;
    int r = write_json(folder, "tokenizer.json", tokenizer_json(), error);
    return r < 0 ? r : write_json(folder, "tokenizer_config.json", tokenizer_config_json(), error);
}

static void free_tokenizer(struct mt_tokenizer *tokenizer)
{
    free(tokenizer);
}

static const struct mt_tokenizer_ops bytes_ops = {
    .kind = "bytes",
    .encode = encode,
    .piece = piece,
    .save = save,
    .free = free_tokenizer,
};

struct mt_tokenizer *mt_bytes_tokenizer_new(void)
{
    struct mt_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return NULL;
    *tokenizer = (struct mt_tokenizer){
        .ops = &bytes_ops,
        .vocab_size = MT_BYTES_VOCAB,
        .begin = MT_BYTES_BEGIN,
        .end = MT_BYTES_END,
        .pad = MT_BYTES_PAD,
    };
    static const char identity[] = "megatrain tokenizer: bytes, 1";
    struct mt_sha256 hash;
    uint8_t digest[32];
    mt_sha256_init(&hash);
    mt_sha256_update(&hash, identity, sizeof identity - 1);
    mt_sha256_final(&hash, digest);
    mt_sha256_hex(digest, tokenizer->fingerprint);
    return tokenizer;
}

bool mt_bytes_tokenizer_is(const json_t *document)
{
    mt_autojson json_t *own = tokenizer_json();
    return own && json_equal((json_t *)document, own);
}
