/* A tokenizer read from a tokenizer.json: added tokens, normalizer, pre-tokenizer, model, post-processor and
 * decoder, as the library `tokenizers` puts them together. */
#ifndef MT_TEXT_JSON_TOKENIZER_H
#define MT_TEXT_JSON_TOKENIZER_H

#include "core/text/added.h"
#include "core/text/bpe.h"
#include "core/text/normalizer.h"
#include "core/text/pretokenizer.h"
#include "core/text/tokenizer.h"
#include "core/text/unigram.h"
#include "core/text/vocab.h"

#include <jansson.h>

#define MT_JSON_TOKENIZER_FILES 8

struct mt_json_tokenizer {
    struct mt_tokenizer base;
    struct mt_vocab vocab;  /* as the model sees words: bytes where byte_level, else as written */
    struct mt_vocab pieces; /* what each id decodes to */
    bool *special;          /* [vocab_size] */
    bool byte_level;
    struct mt_added *added;            /* found in the text as it is */
    struct mt_added *added_normalized; /* found after normalization */
    struct mt_normalizer *normalizer;
    struct mt_pretokenizer *pretokenizer;
    struct mt_bpe *bpe; /* the model is one of these */
    struct mt_unigram *unigram;
    struct mt_ids prefix, suffix; /* put around a text */
    size_t strip_start;           /* blanks taken off the beginning of a decoded text */
    bool strip_first;             /* all blanks are taken off the first token (Metaspace) */
    bool join;                    /* without a decoder: blanks between tokens */
    struct {
        const char *name; /* of a file of the folder, to be saved again */
        int fd;           /* or -1; open, since the folder may go away before that */
    } files[MT_JSON_TOKENIZER_FILES];
};

/* `document`: the parsed tokenizer.json of `folder`. MT_REASON_BAD_MODEL. */
int mt_json_tokenizer_load(const char *folder, const json_t *document, struct mt_tokenizer **tokenizer,
                           struct mt_error *error);

/* The parts of loading that fill it; `tokenizer` is freed by the caller. */
int mt_json_tokenizer_read(struct mt_json_tokenizer *tokenizer, const json_t *document,
                           struct mt_error *error);

/* Begin, end and padding ids, by what the files beside tokenizer.json call bos_token and so on. */
int mt_json_tokenizer_read_names(struct mt_json_tokenizer *tokenizer, const char *folder,
                                 const json_t *document, struct mt_error *error);

#endif
