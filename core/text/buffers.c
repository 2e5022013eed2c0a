/* Growing lists of ids, places and texts. */
#include "core/base/size.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for `more` elements of `width` bytes, at least doubling. */
static int grow(void **data, size_t count, size_t *capacity, size_t more, size_t width)
{
    size_t needed, bytes;
    if (!mt_size_add(count, more, &needed))
        return -ENOMEM;
    if (needed <= *capacity)
        return 0;
    needed = mt_size_max(mt_size_max(needed, *capacity < SIZE_MAX / 2 ? *capacity * 2 : needed), 64);
    if (!mt_size_mul(needed, width, &bytes))
        return -ENOMEM;
    void *moved = realloc(*data, bytes);
    if (!moved)
        return -ENOMEM;
    *data = moved;
    *capacity = needed;
    return 0;
}

int mt_ids_push(struct mt_ids *ids, int32_t id)
{
    return mt_ids_append(ids, &id, 1);
}

int mt_ids_append(struct mt_ids *ids, const int32_t *data, size_t count)
{
    if (!count)
        return 0;
    void *moved = ids->data;
    int r = grow(&moved, ids->count, &ids->capacity, count, sizeof *ids->data);
    ids->data = moved;
    if (r < 0)
        return r;
    memcpy(ids->data + ids->count, data, count * sizeof *data);
    ids->count += count;
    return 0;
}

void mt_ids_free(struct mt_ids *ids)
{
    free(ids->data);
    *ids = (struct mt_ids){0};
}

static int grow_spans(struct mt_spans *spans, size_t more)
{
    void *moved = spans->data;
    const int r = grow(&moved, spans->count, &spans->capacity, more, sizeof *spans->data);
    spans->data = moved;
    return r;
}

int mt_spans_append(struct mt_spans *spans, struct mt_span span, size_t count)
{
    if (grow_spans(spans, count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        spans->data[spans->count++] = span;
    return 0;
}

int mt_spans_copy(struct mt_spans *spans, const struct mt_span *data, size_t count)
{
    if (!count)
        return 0;
    if (grow_spans(spans, count) < 0)
        return -ENOMEM;
    memcpy(spans->data + spans->count, data, count * sizeof *data);
    spans->count += count;
    return 0;
}

void mt_spans_free(struct mt_spans *spans)
{
    free(spans->data);
    *spans = (struct mt_spans){0};
}

int mt_text_append(struct mt_text *text, const char *data, size_t bytes)
{
    size_t with_end;
    if (!mt_size_add(bytes, 1, &with_end))
        return -ENOMEM;
    void *moved = text->data;
    int r = grow(&moved, text->bytes, &text->capacity, with_end, 1);
    text->data = moved;
    if (r < 0)
        return r;
    if (bytes)
        memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
    text->data[text->bytes] = '\0';
    return 0;
}

void mt_text_free(struct mt_text *text)
{
    free(text->data);
    *text = (struct mt_text){0};
}

int mt_text_append_utf8(struct mt_text *text, const char *data, size_t bytes)
{
    size_t done = 0, good = 0; /* [done, good) is well-formed and not yet appended */
    while (good < bytes) {
        uint32_t character;
        const int length = mt_utf8_next(data + good, bytes - good, &character);
        if (length > 0) {
            good += (size_t)length;
            continue;
        }
        if (mt_text_append(text, data + done, good - done) < 0 || mt_text_append(text, "\xef\xbf\xbd", 3) < 0)
            return -ENOMEM;
        good = length == MT_UTF8_INCOMPLETE ? bytes : good + (size_t)-length;
        done = good;
    }
    return mt_text_append(text, data + done, good - done);
}
