/* SentencePiece's compiled normalization rules (`precompiled_charsmap`): a double-array trie (Darts-clone)
 * from texts to their replacements. */
#ifndef MT_TEXT_CHARSMAP_H
#define MT_TEXT_CHARSMAP_H

#include "core/text/mapped.h"

struct mt_charsmap;

/* From base64. -EINVAL, MT_REASON_BAD_MODEL when it is damaged. */
int mt_charsmap_load(const char *base64, struct mt_charsmap **charsmap, struct mt_error *error);
/* The same from the bytes themselves, which are copied. */
int mt_charsmap_new(const void *data, size_t bytes, struct mt_charsmap **charsmap, struct mt_error *error);
void mt_charsmap_free(struct mt_charsmap *charsmap); /* NULL is fine */

/* Appends the normal form of `text` (UTF-8), a grapheme at a time, as `tokenizers` does: the rule for the
 * shortest beginning of a grapheme of less than 6 bytes replaces all of it; else each character goes by its
 * own rule. 0 or -ENOMEM. */
int mt_charsmap_apply(const struct mt_charsmap *charsmap, struct mt_view text, struct mt_mapped *out);

/* The replacement of the longest beginning of `text` that has one (zero-terminated, borrowed) and that
 * beginning's length; NULL: none has. This is how the library `sentencepiece` goes by the rules. */
const char *mt_charsmap_longest(const struct mt_charsmap *charsmap, const char *text, size_t bytes,
                                size_t *length);

#endif
