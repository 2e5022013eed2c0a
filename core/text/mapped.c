#include "core/text/mapped.h"

#include "core/base/utf8.h"

void mt_mapped_free(struct mt_mapped *mapped)
{
    mt_text_free(&mapped->text);
    mt_spans_free(&mapped->spans);
    *mapped = (struct mt_mapped){0};
}

void mt_mapped_clear(struct mt_mapped *mapped)
{
    mapped->text.bytes = 0;
    mapped->spans.count = 0;
}

int mt_mapped_keep(struct mt_mapped *mapped, struct mt_view view, size_t offset, size_t bytes)
{
    if (mapped->tracked && bytes && mt_spans_copy(&mapped->spans, view.spans + offset, bytes) < 0)
        return -ENOMEM;
    return mt_text_append(&mapped->text, view.text ? view.text + offset : NULL, bytes);
}

/* Where the part of a view comes from; what is inserted has the place of what follows it. */
static struct mt_span source_of(struct mt_view view, size_t offset, size_t bytes)
{
    if (bytes)
        return (struct mt_span){view.spans[offset].begin, view.spans[offset + bytes - 1].end};
    if (offset < view.bytes)
        return view.spans[offset];
    const uint32_t end = offset ? view.spans[offset - 1].end : 0;
    return (struct mt_span){end, end};
}

int mt_mapped_put(struct mt_mapped *mapped, struct mt_view view, size_t offset, size_t bytes,
                  const char *data, size_t data_bytes)
{
    if (mapped->tracked && mt_spans_append(&mapped->spans, source_of(view, offset, bytes), data_bytes) < 0)
        return -ENOMEM;
    return mt_text_append(&mapped->text, data, data_bytes);
}

/* One ill-formed part, or what is left of the text. */
static int begin_ill_formed(struct mt_mapped *mapped, size_t at, size_t bytes)
{
    const struct mt_span span = {(uint32_t)at, (uint32_t)(at + bytes)};
    if (mapped->tracked && mt_spans_append(&mapped->spans, span, 3) < 0)
        return -ENOMEM;
    return mt_text_append(&mapped->text, "\xef\xbf\xbd", 3);
}

static int begin_plain(struct mt_mapped *mapped, const char *text, size_t at, size_t bytes)
{
    for (size_t i = 0; mapped->tracked && i < bytes; i++) {
        const struct mt_span span = {(uint32_t)(at + i), (uint32_t)(at + i + 1)};
        if (mt_spans_append(&mapped->spans, span, 1) < 0)
            return -ENOMEM;
    }
    return mt_text_append(&mapped->text, text + at, bytes);
}

int mt_mapped_begin(struct mt_mapped *mapped, const char *text, size_t bytes, bool as_utf8)
{
    mt_mapped_clear(mapped);
    int r = bytes < UINT32_MAX || !mapped->tracked ? mt_text_append(&mapped->text, NULL, 0) : -ENOMEM;
    if (r == 0 && !as_utf8)
        return begin_plain(mapped, text, 0, bytes);
    for (size_t i = 0; r == 0 && i < bytes;) {
        uint32_t character;
        const int length = mt_utf8_next(text + i, bytes - i, &character);
        const size_t step = length > 0                     ? (size_t)length
                            : length == MT_UTF8_INCOMPLETE ? bytes - i
                                                           : (size_t)-length;
        r = length > 0 ? begin_plain(mapped, text, i, step) : begin_ill_formed(mapped, i, step);
        i += step;
    }
    return r;
}
