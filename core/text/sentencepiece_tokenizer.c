/* The model's pieces, then what the files beside it add: special tokens are found in a text before
 * SentencePiece sees it. Which of them are put around a text is not in the files, but in the Python of each
 * model; the classes that are known are in a table, and tokenizer_config.json may say otherwise. */
#include "core/text/sentencepiece_tokenizer.h"

#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/text/byte_alphabet.h"
#include "core/text/mark.h"
#include "core/text/pipeline.h"
#include "core/text/sentencepiece_file.h"
#include "core/text/side_tokens.h"
#include "core/text/token_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define bad_model(error, ...) mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, __VA_ARGS__)

struct loading {
    struct mt_pipeline *tokenizer;
    struct mt_sentencepiece_file file;
    struct mt_side_tokens side;
    struct mt_text_map pieces; /* numbers of the file's, the first of each text */
    struct mt_text described;  /* for the fingerprint */
    struct mt_error *error;
};

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
}

/* --- what stands around a text ----------------------------------------------------------------------------
 */

static const struct class
{
    const char *name; /* without "Fast" at the end */
    bool begin, end;  /* put around a text unless add_bos_token, add_eos_token say otherwise */
    bool continues;   /* heeds `legacy: false` */
    const char *prefix[2];
} classes[] = {
    {"LlamaTokenizer", true, false, true, {NULL}},
    {"CodeLlamaTokenizer", true, false, true, {NULL}},
    {"GemmaTokenizer", true, false, false, {NULL}},
    {"BaichuanTokenizer", true, false, false, {NULL}},
    {"InternLMTokenizer", true, false, false, {NULL}},
    {"InternLM2Tokenizer", true, false, false, {NULL}},
    {"InternLM3Tokenizer", true, false, false, {NULL}},
    {"XverseTokenizer", true, false, false, {NULL}},
    {"OrionTokenizer", true, false, false, {NULL}},
    {"YiTokenizer", false, false, false, {NULL}},
    {"T5Tokenizer", false, true, true, {NULL}},
    {"ChatGLMTokenizer", false, false, false, {"[gMASK]", "sop"}},
    {"", false, false, false, {NULL}}, /* any other */
};

static const struct class *class_of(const json_t *config)
{
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    const struct class *class = classes; /* without a word about it: Llama's */
    if (!name)
        return class;
    while (*class->name && !mt_token_class_is(name, class->name))
        class ++;
    return class;
}

static bool flag(const json_t *config, const char *key, bool absent)
{
    const json_t *value = json_object_get(config, key);
    return json_is_boolean(value) ? json_is_true(value) : absent;
}

static int32_t find_piece(const void *context, const char *text, size_t bytes)
{
    const size_t at = mt_text_map_find(context, text, bytes);
    return at == SIZE_MAX ? MT_TOKEN_NONE : (int32_t)at;
}

/* An id by its text: an added token's, or a piece's. */
static int32_t find_text(const struct loading *loading, const char *text, size_t bytes)
{
    const int32_t id = mt_side_tokens_find(&loading->side, text, bytes);
    return id != MT_TOKEN_NONE ? id : find_piece(&loading->pieces, text, bytes);
}

static int32_t find_name(void *context, const char *text)
{
    return find_text(context, text, strlen(text));
}

static int read_around(struct loading *loading)
{
    struct mt_pipeline *tokenizer = loading->tokenizer;
    const json_t *config = loading->side.config;
    const struct class *class = class_of(config);
    const int32_t begin = tokenizer->base.begin, end = tokenizer->base.end;
    int r = 0;
    for (size_t i = 0; r == 0 && i < 2 && class->prefix[i]; i++) {
        const int32_t id = find_name(loading, class->prefix[i]);
        r = id == MT_TOKEN_NONE ? 0 : mt_ids_push(&tokenizer->prefix, id);
    }
    if (r == 0 && flag(config, "add_bos_token", class->begin) && begin != MT_TOKEN_NONE)
        r = mt_ids_push(&tokenizer->prefix, begin);
    if (r == 0 && flag(config, "add_eos_token", class->end) && end != MT_TOKEN_NONE)
        r = mt_ids_push(&tokenizer->suffix, end);
    tokenizer->continues = class->continues && !flag(config, "legacy", true);
    tokenizer->prefix_blank = loading->file.add_dummy_prefix && flag(config, "add_prefix_space", true);
    return r < 0 ? no_memory(loading->error) : 0;
}

/* --- pieces -----------------------------------------------------------------------------------------------
 */

static bool is_findable(unsigned char type)
{
    return type == MT_PIECE_NORMAL || type == MT_PIECE_USER_DEFINED || type == MT_PIECE_UNUSED;
}

/* What a piece decodes to. */
static int decoded(const struct mt_sentencepiece_file_piece *piece, struct mt_text *out)
{
    const int byte = piece->type == MT_PIECE_BYTE ? mt_byte_token_byte(piece->text, piece->bytes) : -1;
    out->bytes = 0;
    if (byte >= 0)
        return mt_text_append(out, &(char){(char)byte}, 1);
    int r = mt_text_append(out, "", 0);
    for (size_t i = 0; r == 0 && i < piece->bytes;) {
        const char *mark = memmem(piece->text + i, piece->bytes - i, MT_MARK, MT_MARK_BYTES);
        const size_t plain = mark ? (size_t)(mark - piece->text) - i : piece->bytes - i;
        r = mt_text_append(out, piece->text + i, plain);
        if (r == 0 && mark)
            r = mt_text_append(out, " ", 1);
        i += plain + (mark ? MT_MARK_BYTES : 0);
    }
    return r;
}

static int add_pieces(struct loading *loading)
{
    struct mt_pipeline *tokenizer = loading->tokenizer;
    struct mt_text scratch = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < loading->file.count; i++) {
        const struct mt_sentencepiece_file_piece *piece = &loading->file.pieces[i];
        if (!piece->bytes)
            r = bad_model(loading->error, "piece %zu is empty", i);
        if (r == 0)
            r = mt_vocab_add(&tokenizer->vocab, (int32_t)i, piece->text, piece->bytes,
                             is_findable(piece->type));
        if (r == -EEXIST)
            r = bad_model(loading->error, "the piece \"%.*s\" is there twice",
                          (int)mt_size_min(piece->bytes, 40), piece->text);
        if (r == 0)
            r = decoded(piece, &scratch);
        if (r == 0)
            r = mt_vocab_add(&tokenizer->pieces, (int32_t)i, scratch.data, scratch.bytes, false);
        tokenizer->special[i] = piece->type == MT_PIECE_CONTROL || piece->type == MT_PIECE_UNKNOWN;
    }
    mt_text_free(&scratch);
    return r == -ENOMEM ? no_memory(loading->error) : r;
}

static int add_side_token(struct loading *loading, const struct mt_side_token *token)
{
    struct mt_pipeline *tokenizer = loading->tokenizer;
    const int32_t id = (int32_t)token->id;
    int r = 0;
    if (!mt_vocab_has(&tokenizer->vocab, id))
        r = mt_vocab_add(&tokenizer->vocab, id, token->text, token->bytes, false);
    /* A piece that the files call otherwise is written as they have it. */
    if (r == 0)
        r = mt_vocab_has(&tokenizer->pieces, id)
                ? mt_vocab_replace(&tokenizer->pieces, id, token->text, token->bytes)
                : mt_vocab_add(&tokenizer->pieces, id, token->text, token->bytes, false);
    if (r < 0)
        return r == -ENOMEM ? no_memory(loading->error) : 0;
    r = mt_added_insert(tokenizer->added, token->text, token->bytes,
                        (struct mt_added_token){
                            .id = id,
                            .single_word = token->single_word,
                            .lstrip = token->lstrip,
                            .rstrip = token->rstrip,
                        },
                        loading->error);
    tokenizer->special[id] = tokenizer->special[id] || token->special;
    tokenizer->names[id] = token->named;
    return r;
}

/* Where the files name no special tokens, the model's own are. */
static int add_own_names(struct loading *loading)
{
    const struct mt_sentencepiece_file *file = &loading->file;
    const struct {
        const char *name;
        int64_t id;
    } own[] = {{"bos_token", file->begin}, {"eos_token", file->end}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < 2; i++) {
        if (own[i].id < 0 || (size_t)own[i].id >= file->count ||
            json_object_get(loading->side.config, own[i].name) ||
            json_object_get(loading->side.map, own[i].name))
            continue;
        const struct mt_sentencepiece_file_piece *piece = &file->pieces[own[i].id];
        if (piece->type != MT_PIECE_CONTROL)
            continue;
        r = mt_side_tokens_add(&loading->side, (struct mt_side_token){.text = piece->text,
                                                                      .bytes = piece->bytes,
                                                                      .id = own[i].id,
                                                                      .special = true});
        *(i == 0 ? &loading->tokenizer->base.begin : &loading->tokenizer->base.end) = (int32_t)own[i].id;
    }
    for (size_t i = 0; r == 0 && i < file->count; i++)
        if (file->pieces[i].type == MT_PIECE_UNKNOWN && !json_object_get(loading->side.config, "unk_token") &&
            !json_object_get(loading->side.map, "unk_token"))
            r = mt_side_tokens_add(&loading->side, (struct mt_side_token){.text = file->pieces[i].text,
                                                                          .bytes = file->pieces[i].bytes,
                                                                          .id = (int64_t)i,
                                                                          .named = true,
                                                                          .special = true});
    return r < 0 ? no_memory(loading->error) : 0;
}

static int add_all(struct loading *loading)
{
    int r = add_own_names(loading);
    for (size_t i = 0; r == 0 && i < loading->file.count; i++) {
        const struct mt_sentencepiece_file_piece *piece = &loading->file.pieces[i];
        if (mt_text_map_put(&loading->pieces, piece->text, piece->bytes, i) == -ENOMEM)
            r = no_memory(loading->error);
    }
    if (r < 0)
        return r;
    const int64_t size = mt_side_tokens_number(&loading->side, loading->file.count, find_piece,
                                               &loading->pieces, loading->error);
    if (size < 0)
        return (int)size;
    if (mt_pipeline_allocate(loading->tokenizer, (size_t)size) < 0)
        return no_memory(loading->error);
    r = add_pieces(loading);
    for (size_t i = 0; r == 0 && i < loading->side.count; i++)
        r = add_side_token(loading, &loading->side.list[i]);
    return r;
}

/* --- the model --------------------------------------------------------------------------------------------
 */

static int make_model(struct loading *loading)
{
    const struct mt_sentencepiece_file *file = &loading->file;
    float *scores = malloc((file->count + 1) * sizeof *scores);
    unsigned char *types = malloc(file->count + 1);
    for (size_t i = 0; scores && types && i < file->count; i++) {
        scores[i] = file->pieces[i].score;
        types[i] = file->pieces[i].type;
    }
    const struct mt_sentencepiece_model model = {
        .pieces = &loading->tokenizer->vocab,
        .scores = scores,
        .types = types,
        .count = file->count,
        .unigram = file->model_type == 1,
        .byte_fallback = file->byte_fallback,
        .add_dummy_prefix = file->add_dummy_prefix,
        .remove_extra_whitespaces = file->remove_extra_whitespaces,
        .escape_whitespaces = file->escape_whitespaces,
        .treat_whitespace_as_suffix = file->treat_whitespace_as_suffix,
        .charsmap = file->charsmap,
        .charsmap_bytes = file->charsmap_bytes,
    };
    int r = scores && types ? mt_sentencepiece_new(&model, &loading->tokenizer->sentencepiece, loading->error)
                            : no_memory(loading->error);
    free(scores);
    free(types);
    loading->tokenizer->strip_start = file->remove_extra_whitespaces ? SIZE_MAX : file->add_dummy_prefix;
    return r;
}

static int check_supported(const struct mt_sentencepiece_file *file, struct mt_error *error)
{
    static const char *const types[] = {"", "", "", "word", "char"};
    if (file->model_type != 1 && file->model_type != 2)
        return mt_error_set(
            error, -ENOTSUP, MT_REASON_BAD_MODEL,
            "a SentencePiece model of type %lld (%s) is not supported yet: only unigram and bpe",
            (long long)file->model_type,
            file->model_type > 0 && file->model_type < 5 ? types[file->model_type] : "unknown");
    if (file->denormalizes)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "a SentencePiece model with denormalization rules is not supported yet");
    return 0;
}

static int load(struct loading *loading, const char *folder, const char *name, const char *data, size_t bytes)
{
    char settings[64];
    struct mt_pipeline *tokenizer = loading->tokenizer;
    int r = mt_sentencepiece_file_parse(data, bytes, &loading->file, loading->error);
    if (r == 0)
        r = check_supported(&loading->file, loading->error);
    if (r == 0)
        r = mt_side_tokens_read(folder, &loading->side, loading->error);
    if (r == 0)
        r = add_all(loading);
    if (r == 0)
        r = make_model(loading);
    if (r == 0)
        r = mt_token_names_read(folder, &tokenizer->base, find_name, loading, loading->error);
    if (r == 0)
        r = read_around(loading);
    if (r < 0)
        return r;
    snprintf(settings, sizeof settings, " %d%d %zu %zu", tokenizer->continues, tokenizer->prefix_blank,
             tokenizer->prefix.count, tokenizer->suffix.count);
    if (mt_text_append(&loading->described, settings, strlen(settings)) < 0 ||
        mt_side_tokens_describe(&loading->side, &loading->described) < 0)
        return no_memory(loading->error);
    return mt_pipeline_seal(tokenizer, folder, name, &loading->described, loading->error);
}

int mt_sentencepiece_tokenizer_load(const char *folder, const char *name, const char *data, size_t bytes,
                                    struct mt_tokenizer **result, struct mt_error *error)
{
    *result = NULL;
    struct loading loading = {.tokenizer = mt_pipeline_new("SentencePiece BPE"), .error = error};
    int r = loading.tokenizer ? load(&loading, folder, name, data, bytes) : no_memory(error);
    if (r == 0 && loading.file.model_type == 1)
        loading.tokenizer->ops.kind = "SentencePiece Unigram";
    mt_sentencepiece_file_free(&loading.file);
    mt_side_tokens_free(&loading.side);
    mt_text_map_free(&loading.pieces);
    mt_text_free(&loading.described);
    if (r < 0) {
        if (loading.tokenizer)
            mt_pipeline_free(loading.tokenizer);
        return r;
    }
    *result = &loading.tokenizer->base;
    return 0;
}
