/* SentencePiece (Kudo and Richardson, 2018): a text is normalised, blanks become U+2581, and the whole of it
 * is cut by byte pair encoding that goes by the pieces' scores, or by a unigram model. The same models come
 * in `tokenizer.model` files and in GGUF vocabularies of type "llama". */
#ifndef MT_TEXT_SENTENCEPIECE_H
#define MT_TEXT_SENTENCEPIECE_H

#include "core/text/mapped.h"
#include "core/text/vocab.h"

/* The numbers that both file formats have. */
enum mt_piece_type {
    MT_PIECE_NORMAL = 1,
    MT_PIECE_UNKNOWN = 2,
    MT_PIECE_CONTROL = 3,      /* never made of text */
    MT_PIECE_USER_DEFINED = 4, /* always found in a text, and never merged */
    MT_PIECE_UNUSED = 5,
    MT_PIECE_BYTE = 6, /* "<0x0A>" */
};

struct mt_sentencepiece_model {
    const struct mt_vocab *pieces; /* texts by id, all findable but the control, unknown and byte pieces */
    const float *scores;           /* [count]; NaN is refused */
    const unsigned char *types;    /* [count], enum mt_piece_type */
    size_t count;
    bool unigram; /* else byte pair encoding */
    bool byte_fallback;
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces, treat_whitespace_as_suffix;
    const void *charsmap; /* compiled normalization rules; NULL: none */
    size_t charsmap_bytes;
};

struct mt_sentencepiece;

/* `pieces` must outlive it, the rest is copied. MT_REASON_BAD_MODEL. */
int mt_sentencepiece_new(const struct mt_sentencepiece_model *model, struct mt_sentencepiece **sentencepiece,
                         struct mt_error *error);
void mt_sentencepiece_free(struct mt_sentencepiece *sentencepiece); /* NULL is fine */

/* Scratch of one thread. Starts as {0}. */
struct mt_sentencepiece_scratch {
    struct mt_mapped normal;
    struct mt_text word;
};
void mt_sentencepiece_scratch_free(struct mt_sentencepiece_scratch *scratch);

/* How a part of a text is taken that is not the whole of it. */
struct mt_sentencepiece_part {
    bool prefix;      /* the blank of add_dummy_prefix stands before it (or behind it) */
    bool keep_blanks; /* remove_extra_whitespaces does not hold for blanks at its beginning */
    bool plain_marks; /* U+2581 in the text counts as a blank */
};
/* As the model itself says. */
struct mt_sentencepiece_part mt_sentencepiece_whole(const struct mt_sentencepiece *sentencepiece);

/* Appends the ids of a text (U+FFFD for each byte that is not UTF-8), and their spans where `text` has them
 * and `spans` is not NULL. 0, -ENOMEM, or -EINVAL for a text of 2 GiB or more. */
int mt_sentencepiece_encode(const struct mt_sentencepiece *sentencepiece, struct mt_view text,
                            struct mt_sentencepiece_part part, struct mt_sentencepiece_scratch *scratch,
                            struct mt_ids *ids, struct mt_spans *spans);

#endif
