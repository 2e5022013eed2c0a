/* Encoding and decoding with a tokenizer of parts. A text goes through: the added tokens that are looked for
 * in it as it is; between them the normalizer; the added tokens that are looked for after that; between those
 * the pre-tokenizer; and its words through the model. */
#include "core/text/pipeline.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/utf8.h"
#include "core/text/align.h"
#include "core/text/mark.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct encoding {
    const struct mt_pipeline *tokenizer;
    struct mt_ids *ids;
    struct mt_spans *spans; /* or NULL */
    struct mt_pretokenizer_scratch scratch;
    struct mt_mapped normal, spare;
    struct mt_sentencepiece_scratch pieces;
    struct mt_view whole, part; /* the text; a part between added tokens, normal */
    bool at_start;              /* the part at hand begins the text */
    size_t first;               /* of the text's own in `ids` */
};

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory in the tokenizer");
}

/* --- encoding
 * ----------------------------------------------------------------------------------------------- */

static int push_token(struct encoding *encoding, int32_t token, struct mt_view source)
{
    int r = mt_ids_push(encoding->ids, token);
    if (r == 0 && encoding->spans && source.spans)
        r = mt_spans_append(encoding->spans,
                            (struct mt_span){source.spans[0].begin, source.spans[source.bytes - 1].end}, 1);
    return r;
}

/* Through the model, or from memory. */
static int look_up(const struct mt_pipeline *tokenizer, struct mt_view word, struct mt_ids *ids)
{
    const size_t first = ids->count;
    int r = mt_word_cache_find(tokenizer->cache, word.text, word.bytes, ids);
    if (r != 0)
        return r < 0 ? r : 0;
    r = tokenizer->unigram ? mt_unigram_encode(tokenizer->unigram, word.text, word.bytes, ids)
                           : mt_bpe_encode(tokenizer->bpe, word.text, word.bytes, ids);
    if (r == 0)
        mt_word_cache_store(tokenizer->cache, word.text, word.bytes, ids->data + first, ids->count - first);
    return r;
}

static int encode_part_of_word(struct encoding *encoding, struct mt_view word)
{
    const struct mt_pipeline *tokenizer = encoding->tokenizer;
    const size_t first = encoding->ids->count;
    int r = look_up(tokenizer, word, encoding->ids);
    if (r == 0 && encoding->spans)
        r = mt_align_word(&tokenizer->vocab, tokenizer->bpe ? mt_bpe_affixes(tokenizer->bpe) : NULL, word,
                          encoding->ids->data + first, encoding->ids->count - first, encoding->spans);
    return r;
}

/* The end of the part of a word that begins at `begin`: before U+2581 that follows another character, and
 * around newlines where they are apart, too. */
static size_t part_end(struct mt_view word, size_t begin, bool lines)
{
    bool behind_mark = true;
    if (lines && word.text[begin] == '\n') {
        while (begin < word.bytes && word.text[begin] == '\n')
            begin++;
        return begin;
    }
    for (size_t at = begin; at < word.bytes; at++) {
        const char c = word.text[at];
        if (c == '\n' && lines)
            return at;
        const bool mark = c == MT_MARK[0] && mt_mark_at(word.text, word.bytes, at);
        if (mark && !behind_mark)
            return at;
        behind_mark = mark;
        at += mark ? MT_MARK_BYTES - 1 : 0;
    }
    return word.bytes;
}

static int encode_word(void *context, struct mt_view word)
{
    struct encoding *encoding = context;
    if (!encoding->tokenizer->cuts_at_marks)
        return encode_part_of_word(encoding, word);
    int r = 0;
    for (size_t begin = 0, end; r == 0 && begin < word.bytes; begin = end) {
        end = part_end(word, begin, encoding->tokenizer->cuts_at_lines);
        r = encode_part_of_word(encoding, mt_view_part(word, begin, end - begin));
    }
    return r;
}

static int encode_normal_part(void *context, const char *text, size_t offset, size_t bytes, int32_t token)
{
    struct encoding *encoding = context;
    (void)text;
    const struct mt_view part = mt_view_part(encoding->part, offset, bytes);
    if (token != MT_TOKEN_NONE)
        return push_token(encoding, token, part);
    return mt_pretokenizer_run(encoding->tokenizer->pretokenizer, &encoding->scratch, part,
                               encoding->at_start && offset == 0, encode_word, encoding);
}

/* A part for SentencePiece. Where parts continue a text (transformers' `legacy: false`) it is as if there
 * were one. */
static int encode_pieces(struct encoding *encoding, struct mt_view part)
{
    const struct mt_pipeline *tokenizer = encoding->tokenizer;
    struct mt_sentencepiece_part how = mt_sentencepiece_whole(tokenizer->sentencepiece);
    if (tokenizer->continues)
        how = (struct mt_sentencepiece_part){
            .prefix = encoding->at_start && tokenizer->prefix_blank,
            .keep_blanks = true,
            .plain_marks = true,
        };
    return mt_sentencepiece_encode(tokenizer->sentencepiece, part, how, &encoding->pieces, encoding->ids,
                                   encoding->spans);
}

/* Where an added token begins a text that is continued, the text's blank stands before it; but a blank that
 * is all there is before a special token goes. */
static int begin_with_token(struct encoding *encoding, int32_t token)
{
    const struct mt_pipeline *tokenizer = encoding->tokenizer;
    struct mt_ids *ids = encoding->ids;
    int r = encoding->at_start ? encode_pieces(encoding, mt_view_part(encoding->part, 0, 0)) : 0;
    size_t bytes;
    if (r < 0 || ids->count != encoding->first + 1 || !tokenizer->names[token] ||
        tokenizer->names[ids->data[encoding->first]])
        return r;
    const char *text = mt_vocab_text(&tokenizer->vocab, ids->data[encoding->first], &bytes);
    if (bytes == MT_MARK_BYTES && mt_mark_at(text, bytes, 0)) {
        ids->count--;
        if (encoding->spans)
            encoding->spans->count--;
    }
    return 0;
}

static int encode_part(void *context, const char *text, size_t offset, size_t bytes, int32_t token)
{
    struct encoding *encoding = context;
    const struct mt_pipeline *tokenizer = encoding->tokenizer;
    (void)text;
    encoding->part = mt_view_part(encoding->whole, offset, bytes);
    if (token != MT_TOKEN_NONE) {
        encoding->at_start = offset == 0;
        int r = tokenizer->continues ? begin_with_token(encoding, token) : 0;
        return r < 0 ? r : push_token(encoding, token, encoding->part);
    }
    encoding->at_start = offset == 0;
    if (tokenizer->sentencepiece)
        return encode_pieces(encoding, encoding->part);
    if (!mt_normalizer_is_empty(tokenizer->normalizer)) {
        mt_mapped_clear(&encoding->normal);
        encoding->normal.tracked = encoding->spans;
        int r = mt_mapped_keep(&encoding->normal, encoding->part, 0, bytes);
        if (r == 0)
            r = mt_normalizer_apply(tokenizer->normalizer, encoding->scratch.regex, &encoding->normal,
                                    &encoding->spare);
        if (r < 0)
            return r;
        encoding->part = mt_mapped_view(&encoding->normal);
    }
    return mt_added_split(tokenizer->added_normalized, encoding->part.text, encoding->part.bytes,
                          encode_normal_part, encoding);
}

/* Ids put around the text: they come from no part of it. */
static int push_around(struct encoding *encoding, const struct mt_ids *ids, size_t at)
{
    const struct mt_span nowhere = {(uint32_t)at, (uint32_t)at};
    int r = mt_ids_append(encoding->ids, ids->data, ids->count);
    return r == 0 && encoding->spans ? mt_spans_append(encoding->spans, nowhere, ids->count) : r;
}

static int encode_text(struct encoding *encoding, size_t bytes, bool add_special)
{
    const struct mt_pipeline *tokenizer = encoding->tokenizer;
    encoding->scratch.regex = mt_regex_scratch_new();
    if (!encoding->scratch.regex)
        return -ENOMEM;
    int r = add_special ? push_around(encoding, &tokenizer->prefix, 0) : 0;
    encoding->first = encoding->ids->count;
    if (r == 0)
        r = mt_added_split(tokenizer->added, encoding->whole.text, encoding->whole.bytes, encode_part,
                           encoding);
    if (r == 0 && add_special)
        r = push_around(encoding, &tokenizer->suffix, bytes);
    return r;
}

static int encode(const struct mt_tokenizer *base, const char *text, size_t bytes, bool add_special,
                  struct mt_ids *ids, struct mt_spans *spans, struct mt_error *error)
{
    struct encoding encoding = {
        .tokenizer = (const struct mt_pipeline *)base,
        .ids = ids,
        .spans = spans,
        .whole = {text, bytes, NULL},
    };
    struct mt_mapped fixed = {0}; /* a text that is not UTF-8 becomes one, with U+FFFD */
    int r = 0;
    fixed.tracked = spans;
    const bool as_utf8 = !encoding.tokenizer->sentencepiece; /* it has its own way */
    if (spans || (as_utf8 && mt_utf8_find_ill_formed(text, bytes) < bytes))
        r = mt_mapped_begin(&fixed, text, bytes, as_utf8);
    if (r == 0 && fixed.text.data)
        encoding.whole = mt_mapped_view(&fixed);
    if (r == 0)
        r = encode_text(&encoding, bytes, add_special);
    mt_pretokenizer_scratch_free(&encoding.scratch);
    mt_sentencepiece_scratch_free(&encoding.pieces);
    mt_mapped_free(&encoding.normal);
    mt_mapped_free(&encoding.spare);
    mt_mapped_free(&fixed);
    if (r == -ENOMEM)
        return out_of_memory(error);
    if (r == -E2BIG)
        return mt_error_set(error, r, MT_REASON_BAD_MODEL,
                            "the tokenizer's normalizer makes more than 64 times the text of it: the "
                            "tokenizer.json is damaged");
    if (r < 0)
        return mt_error_set(
            error, r, MT_REASON_BAD_DATA,
            "the tokenizer cannot encode the text: a pattern needs more steps than its bound, or there is "
            "no token for a character and none for unknown ones");
    return 0;
}

/* --- decoding
 * ----------------------------------------------------------------------------------------------- */

static int piece(const struct mt_tokenizer *base, int32_t id, bool skip_special,
                 struct mt_decode_state *state, struct mt_text *text)
{
    const struct mt_pipeline *tokenizer = (const struct mt_pipeline *)base;
    if (!mt_vocab_has(&tokenizer->pieces, id) || (skip_special && tokenizer->special[id]))
        return 0;
    size_t bytes;
    const char *data = mt_vocab_text(&tokenizer->pieces, id, &bytes);
    const bool first = state->tokens++ == 0;
    if (((tokenizer->join && !first) || state->blank) && mt_text_append(text, " ", 1) < 0)
        return -ENOMEM;
    state->blank = tokenizer->ends_word[id];
    while (bytes && *data == ' ' &&
           ((tokenizer->strip_first && first) ||
            (!state->started && state->stripped < tokenizer->strip_start))) {
        state->stripped++;
        data++;
        bytes--;
    }
    state->started = state->started || bytes;
    return mt_text_append(text, data, bytes);
}

/* --- files
 * -------------------------------------------------------------------------------------------------- */

/* With the Python of models whose tokenizer transformers does not have: it is saved, never run. */
static const char *const file_patterns[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "*.tiktoken",
    "tiktoken.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenization_*.py",
};

static bool is_tokenizer_file(const char *name)
{
    for (size_t i = 0; i < sizeof file_patterns / sizeof *file_patterns; i++)
        if (fnmatch(file_patterns[i], name, FNM_PERIOD) == 0)
            return true;
    return false;
}

static int open_file(struct mt_pipeline *tokenizer, int folder, const char *name)
{
    struct stat status;
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO is passed over below */
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno; /* a link to nothing */
    const bool regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    char *copy = regular && tokenizer->num_files < MT_PIPELINE_FILES ? strdup(name) : NULL;
    if (!copy) {
        close(fd);
        return !regular ? 0 : tokenizer->num_files == MT_PIPELINE_FILES ? -E2BIG : -ENOMEM;
    }
    tokenizer->files[tokenizer->num_files].name = copy;
    tokenizer->files[tokenizer->num_files++].fd = fd;
    return 0;
}

static int open_files(struct mt_pipeline *tokenizer, const char *folder, struct mt_error *error)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return mt_error_set_errno(error, MT_REASON_BAD_MODEL, "cannot read the tokenizer's files in %s",
                                  folder);
    int r = 0;
    for (const struct dirent *entry; r == 0 && (entry = readdir(directory)) != NULL;)
        if (is_tokenizer_file(entry->d_name))
            r = open_file(tokenizer, dirfd(directory), entry->d_name);
    closedir(directory);
    if (r == -E2BIG)
        return mt_error_set(error, r, MT_REASON_BAD_MODEL, "%s holds more than %d files of a tokenizer",
                            folder, MT_PIPELINE_FILES);
    errno = -r;
    return r < 0 ? mt_error_set_errno(error, MT_REASON_BAD_MODEL, "cannot read the tokenizer's files in %s",
                                      folder)
                 : 0;
}

static int copy_file(int fd, const char *path, struct mt_error *error)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot copy a file of the tokenizer to %s", path);
    const size_t bytes = (size_t)status.st_size;
    mt_autofree char *data = malloc(bytes + 1);
    if (!data)
        return out_of_memory(error);
    int r = mt_fd_pread_all(fd, data, bytes, 0);
    if (r < 0) {
        errno = -r;
        return mt_error_set_errno(error, MT_REASON_IO, "cannot copy a file of the tokenizer to %s", path);
    }
    return mt_file_write_atomic(path, data, bytes, 0666, error);
}

static int save(const struct mt_tokenizer *base, const char *folder, struct mt_error *error)
{
    const struct mt_pipeline *tokenizer = (const struct mt_pipeline *)base;
    int r = 0;
    for (size_t i = 0; r == 0 && i < tokenizer->num_files; i++) {
        mt_autofree char *path = mt_path_join(folder, tokenizer->files[i].name);
        r = path ? copy_file(tokenizer->files[i].fd, path, error) : out_of_memory(error);
    }
    return r;
}

/* The file as it is, the three ids that come from beside it, and more from there. */
static int make_fingerprint(struct mt_pipeline *tokenizer, const char *folder, const char *main,
                            const struct mt_text *more, struct mt_error *error)
{
    char hex[65], ids[64];
    mt_autofree char *path = mt_path_join(folder, main);
    if (!path)
        return out_of_memory(error);
    int r = mt_file_sha256(path, hex, error);
    if (r < 0)
        return r;
    struct mt_sha256 hash;
    uint8_t digest[32];
    snprintf(ids, sizeof ids, " %d %d %d", tokenizer->base.begin, tokenizer->base.end, tokenizer->base.pad);
    mt_sha256_init(&hash);
    mt_sha256_update(&hash, hex, strlen(hex));
    mt_sha256_update(&hash, ids, strlen(ids));
    if (more && more->bytes)
        mt_sha256_update(&hash, more->data, more->bytes);
    mt_sha256_final(&hash, digest);
    mt_sha256_hex(digest, tokenizer->base.fingerprint);
    return 0;
}

int mt_pipeline_seal(struct mt_pipeline *tokenizer, const char *folder, const char *main,
                     const struct mt_text *more, struct mt_error *error)
{
    int r = open_files(tokenizer, folder, error);
    return r < 0 ? r : make_fingerprint(tokenizer, folder, main, more, error);
}

int mt_pipeline_allocate(struct mt_pipeline *tokenizer, size_t size)
{
    tokenizer->base.vocab_size = size;
    tokenizer->special = calloc(size + 1, sizeof *tokenizer->special);
    tokenizer->ends_word = calloc(size + 1, sizeof *tokenizer->ends_word);
    tokenizer->names = calloc(size + 1, sizeof *tokenizer->names);
    tokenizer->added = mt_added_new();
    tokenizer->added_normalized = mt_added_new();
    return tokenizer->special && tokenizer->ends_word && tokenizer->names && tokenizer->added &&
                   tokenizer->added_normalized && mt_vocab_init(&tokenizer->vocab, size) == 0 &&
                   mt_vocab_init(&tokenizer->pieces, size) == 0 &&
                   (tokenizer->cache = mt_word_cache_new()) != NULL
               ? 0
               : -ENOMEM;
}

void mt_pipeline_free(struct mt_pipeline *tokenizer)
{
    for (size_t i = 0; i < tokenizer->num_files; i++) {
        close(tokenizer->files[i].fd);
        free(tokenizer->files[i].name);
    }
    mt_sentencepiece_free(tokenizer->sentencepiece);
    mt_bpe_free(tokenizer->bpe);
    mt_word_cache_free(tokenizer->cache);
    mt_unigram_free(tokenizer->unigram);
    mt_pretokenizer_free(tokenizer->pretokenizer);
    mt_normalizer_free(tokenizer->normalizer);
    mt_added_free(tokenizer->added);
    mt_added_free(tokenizer->added_normalized);
    mt_vocab_free(&tokenizer->vocab);
    mt_vocab_free(&tokenizer->pieces);
    mt_ids_free(&tokenizer->prefix);
    mt_ids_free(&tokenizer->suffix);
    free(tokenizer->special);
    free(tokenizer->ends_word);
    free(tokenizer->names);
    free(tokenizer);
}

static void free_tokenizer(struct mt_tokenizer *base)
{
    mt_pipeline_free((struct mt_pipeline *)base);
}

struct mt_pipeline *mt_pipeline_new(const char *kind)
{
    struct mt_pipeline *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return NULL;
    tokenizer->ops = (struct mt_tokenizer_ops){
        .kind = kind, .encode = encode, .piece = piece, .save = save, .free = free_tokenizer};
    tokenizer->base = (struct mt_tokenizer){
        .ops = &tokenizer->ops, .begin = MT_TOKEN_NONE, .end = MT_TOKEN_NONE, .pad = MT_TOKEN_NONE};
    return tokenizer;
}
