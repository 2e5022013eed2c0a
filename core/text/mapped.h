/* A text that was made of another one and knows where each of its bytes comes from. */
#ifndef MT_TEXT_MAPPED_H
#define MT_TEXT_MAPPED_H

#include "core/text/tokenizer.h"

/* Starts as {0}. */
struct mt_mapped {
    struct mt_text text;
    struct mt_spans spans; /* one a byte of `text` when tracked, else empty */
    bool tracked;
};
void mt_mapped_free(struct mt_mapped *mapped);  /* leaves {0} */
void mt_mapped_clear(struct mt_mapped *mapped); /* empty; keeps its memory and whether it is tracked */

/* A piece of a text: `spans` (one a byte) is NULL where nobody asks for them. */
struct mt_view {
    const char *text;
    size_t bytes;
    const struct mt_span *spans;
};

static inline struct mt_view mt_mapped_view(const struct mt_mapped *mapped)
{
    return (struct mt_view){mapped->text.data, mapped->text.bytes,
                            mapped->tracked ? mapped->spans.data : NULL};
}

static inline struct mt_view mt_view_part(struct mt_view view, size_t offset, size_t bytes)
{
    return (struct mt_view){view.text + offset, bytes, view.spans ? view.spans + offset : NULL};
}

/* Each appends; 0 or -ENOMEM. A part as it is: */
int mt_mapped_keep(struct mt_mapped *mapped, struct mt_view view, size_t offset, size_t bytes);
/* Another text for a part, which may be empty: then `data` was inserted before `offset`. */
int mt_mapped_put(struct mt_mapped *mapped, struct mt_view view, size_t offset, size_t bytes,
                  const char *data, size_t data_bytes);
/* Begins with a whole text: as it is, or as UTF-8 (U+FFFD for what is ill-formed, as mt_text_append_utf8 has
 * it). `mapped->tracked` says whether each byte is to know its place in the text. */
int mt_mapped_begin(struct mt_mapped *mapped, const char *text, size_t bytes, bool as_utf8);

#endif
