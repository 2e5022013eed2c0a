/* Tokenizers: text to ids and back. One interface, filled by a kind at a time; nothing above knows which.
 * A tokenizer does not change after it is loaded: all functions but the detokenizer's are thread-safe. */
#ifndef MT_TEXT_TOKENIZER_H
#define MT_TEXT_TOKENIZER_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing list of ids; starts as {0}. */
struct mt_ids {
    int32_t *data;
    size_t count, capacity;
};
int mt_ids_push(struct mt_ids *ids, int32_t id); /* 0 or -ENOMEM */
int mt_ids_append(struct mt_ids *ids, const int32_t *data, size_t count);
void mt_ids_free(struct mt_ids *ids); /* leaves {0} */

/* A growing text; starts as {0}. There is always a zero byte after the last one once anything was appended;
 * the text may hold zero bytes itself. */
struct mt_text {
    char *data;
    size_t bytes, capacity;
};
int mt_text_append(struct mt_text *text, const char *data, size_t bytes); /* 0 or -ENOMEM */
void mt_text_free(struct mt_text *text);                                  /* leaves {0} */
/* Appends `data` with each maximal ill-formed UTF-8 part replaced by U+FFFD (Unicode 15, section 3.9). */
int mt_text_append_utf8(struct mt_text *text, const char *data, size_t bytes);

/* Places of a text: bytes [begin, end). A list starts as {0}. */
struct mt_span {
    uint32_t begin, end;
};
struct mt_spans {
    struct mt_span *data;
    size_t count, capacity;
};
int mt_spans_append(struct mt_spans *spans, struct mt_span span,
                    size_t count); /* `count` times; 0 or -ENOMEM */
int mt_spans_copy(struct mt_spans *spans, const struct mt_span *data, size_t count); /* appends; the same */
void mt_spans_free(struct mt_spans *spans);                                          /* leaves {0} */

#define MT_TOKEN_NONE (-1)

struct mt_tokenizer;

/* "bytes", a GGUF file, or a folder: with a tokenizer.json (our own, or one of the library `tokenizers` with
 * a BPE or Unigram model), else with a SentencePiece or tiktoken file (docs/tokenizers.md).
 * MT_REASON_BAD_MODEL with what is wrong or not supported yet. */
int mt_tokenizer_load(const char *folder_or_kind, struct mt_tokenizer **tokenizer, struct mt_error *error);
void mt_tokenizer_free(struct mt_tokenizer *tokenizer); /* NULL is fine */

/* Writes the files that `transformers` (AutoTokenizer) and mt_tokenizer_load read: tokenizer.json and
 * tokenizer_config.json for `bytes`; a loaded tokenizer's own files are copied as they were. */
int mt_tokenizer_save(const struct mt_tokenizer *tokenizer, const char *folder, struct mt_error *error);

const char *mt_tokenizer_kind(const struct mt_tokenizer *tokenizer);  /* "bytes", ... */
size_t mt_tokenizer_vocab_size(const struct mt_tokenizer *tokenizer); /* largest id + 1 */
int32_t mt_tokenizer_begin(const struct mt_tokenizer *tokenizer);     /* MT_TOKEN_NONE when it has none */
int32_t mt_tokenizer_end(const struct mt_tokenizer *tokenizer);
int32_t mt_tokenizer_pad(const struct mt_tokenizer *tokenizer);
/* SHA-256 (hexadecimal) of all that determines its ids; equal for equal tokenizers. */
const char *mt_tokenizer_fingerprint(const struct mt_tokenizer *tokenizer);

/* Appends the ids of `text` to `ids`. Added and special tokens written out in the text are found, as
 * `transformers` does. `add_special`: what the tokenizer itself puts around a text (for `bytes` the begin
 * token before it; never an end token there). Text that is not UTF-8 is encoded byte by byte by `bytes`, and
 * with U+FFFD by the others. Errors: -ENOMEM; -EINVAL, MT_REASON_BAD_DATA where a tokenizer's pattern needs
 * more steps than its bound, or its model has no token for a character and none for unknown ones. */
int mt_tokenizer_encode(const struct mt_tokenizer *tokenizer, const char *text, size_t bytes,
                        bool add_special, struct mt_ids *ids, struct mt_error *error);

/* The same, and appends to `spans` (NULL: not wanted) for each id where it comes from in `text`, so that a
 * conversation can be rendered whole, tokenised once, as `transformers` does, and its learned parts found in
 * the tokens. Spans come in the order of the text and do not overlap, but that the tokens of one character
 * that is several (its bytes, its parts) each have the whole of it, and a blank that the tokenizer puts
 * before a text has the place of the character after it. What is put around a text (add_special) has an empty
 * span. Texts of 4 GiB and more are refused (-EINVAL). */
int mt_tokenizer_encode_spans(const struct mt_tokenizer *tokenizer, const char *text, size_t bytes,
                              bool add_special, struct mt_ids *ids, struct mt_spans *spans,
                              struct mt_error *error);

/* A text that brings its own begin token (written out, or by its template) gets no second one: of two at
 * `first`, one is taken away. */
void mt_tokenizer_single_begin(const struct mt_tokenizer *tokenizer, struct mt_ids *ids, size_t first);

/* Appends the bytes that the ids stand for (not checked for UTF-8: a token may be part of a character).
 * Special tokens are left out with `skip_special`. Ids outside the vocabulary stand for nothing. */
int mt_tokenizer_decode(const struct mt_tokenizer *tokenizer, const int32_t *ids, size_t count,
                        bool skip_special, struct mt_text *text, struct mt_error *error);

/* Incremental decoding for streams: the pieces, one after another, are the decoded text as UTF-8 with U+FFFD
 * for what is ill-formed; a piece never ends in the middle of a character. One thread at a time. */
struct mt_detokenizer;
int mt_detokenizer_new(const struct mt_tokenizer *tokenizer, bool skip_special,
                       struct mt_detokenizer **detokenizer, struct mt_error *error);
void mt_detokenizer_free(struct mt_detokenizer *detokenizer); /* NULL is fine */
/* `piece` (may come out empty) lives until the next call. */
int mt_detokenizer_push(struct mt_detokenizer *detokenizer, int32_t id, const char **piece, size_t *bytes,
                        struct mt_error *error);
/* What is left at the end. */
int mt_detokenizer_finish(struct mt_detokenizer *detokenizer, const char **piece, size_t *bytes,
                          struct mt_error *error);

/* --- for implementers ---------------------------------------------------------------------------------- */

/* Where decoding stands in a text; starts as {0}. */
struct mt_decode_state {
    size_t tokens;   /* decoded so far, without those left out */
    size_t stripped; /* blanks taken off the beginning */
    bool started;    /* something but such blanks came */
    bool blank;      /* goes before what comes next: a word ended */
};

struct mt_tokenizer_ops {
    const char *kind;
    int (*encode)(const struct mt_tokenizer *tokenizer, const char *text, size_t bytes, bool add_special,
                  struct mt_ids *ids, struct mt_spans *spans, struct mt_error *error); /* spans may be NULL */
    /* Appends the bytes of one token and notes in `state` what the next one depends on. 0 or -ENOMEM. */
    int (*piece)(const struct mt_tokenizer *tokenizer, int32_t id, bool skip_special,
                 struct mt_decode_state *state, struct mt_text *text);
    int (*save)(const struct mt_tokenizer *tokenizer, const char *folder, struct mt_error *error);
    void (*free)(struct mt_tokenizer *tokenizer); /* frees the whole object */
};

/* The first member of every kind's own struct. */
struct mt_tokenizer {
    const struct mt_tokenizer_ops *ops;
    size_t vocab_size;
    int32_t begin, end, pad;
    char fingerprint[65];
};

#endif
