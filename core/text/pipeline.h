/* A tokenizer put together of parts, as the library `tokenizers` has them: added tokens, normalizer,
 * pre-tokenizer, model, what is put around a text, and decoding. What reads a file format fills it. */
#ifndef MT_TEXT_PIPELINE_H
#define MT_TEXT_PIPELINE_H

#include "core/text/added.h"
#include "core/text/bpe.h"
#include "core/text/normalizer.h"
#include "core/text/pretokenizer.h"
#include "core/text/sentencepiece.h"
#include "core/text/tokenizer.h"
#include "core/text/unigram.h"
#include "core/text/vocab.h"
#include "core/text/word_cache.h"

#define MT_PIPELINE_FILES 24

struct mt_pipeline {
    struct mt_tokenizer base;
    struct mt_tokenizer_ops ops; /* base.ops */
    struct mt_vocab vocab;       /* as the model sees words: bytes where byte_level, else as written */
    struct mt_vocab pieces;      /* what each id decodes to */
    bool *special;               /* [vocab_size] */
    bool *ends_word;             /* [vocab_size]: a blank goes before what is decoded next */
    bool byte_level;
    struct mt_added *added;            /* found in the text as it is */
    struct mt_added *added_normalized; /* found after normalization */
    struct mt_normalizer *normalizer;
    struct mt_pretokenizer *pretokenizer;
    struct mt_bpe *bpe; /* the model is one of these */
    struct mt_unigram *unigram;
    struct mt_sentencepiece *sentencepiece; /* also does what normalizer and pre-tokenizer do */
    struct mt_word_cache *cache;
    bool cuts_at_marks, cuts_at_lines; /* mt_bpe_cuts_at_marks, ..._lines */
    bool continues;    /* only the first part of a text is a beginning for it; else every part is */
    bool prefix_blank; /* a blank goes before that beginning */
    bool *names;       /* [vocab_size]: the special tokens that have a name; a blank alone before the first is
                          dropped */
    struct mt_ids prefix, suffix; /* put around a text */
    size_t strip_start;           /* blanks taken off the beginning of a decoded text */
    bool strip_first;             /* all blanks are taken off the first token (Metaspace) */
    bool join;                    /* without a decoder: blanks between tokens */
    struct {
        char *name; /* of a file of the folder, to be saved again */
        int fd;     /* open, since the folder may go away before that */
    } files[MT_PIPELINE_FILES];
    size_t num_files;
};

/* Empty, of this kind ("BPE", ...), without files; NULL when out of memory. */
struct mt_pipeline *mt_pipeline_new(const char *kind);
/* Makes room for ids below `vocab_size`. 0 or -ENOMEM. */
int mt_pipeline_allocate(struct mt_pipeline *pipeline, size_t vocab_size);
void mt_pipeline_free(struct mt_pipeline *pipeline);

/* The last step of loading: keeps the files of `folder` for saving, and hashes into the fingerprint the
 * `main` file among them and the begin, end and padding ids. */
int mt_pipeline_seal(struct mt_pipeline *pipeline, const char *folder, const char *main,
                     const struct mt_text *more, struct mt_error *error);

#endif
