#include "core/text/charsmap.h"

#include "core/base/bytes.h"
#include "core/base/utf8.h"
#include "core/text/base64.h"
#include "core/text/unicode.h"

#include <stdlib.h>
#include <string.h>

struct mt_charsmap {
    uint32_t *units;
    size_t num_units;
    char *texts; /* each ends with a zero byte */
    size_t text_bytes;
};

/* --- the trie ------------------------------------------------------------------------------------------- */

static uint32_t unit_offset(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* The replacement for the shortest, or the longest, beginning of `text` that has one, or NULL. All positions
 * are checked: the file may hold anything. */
static const char *find(const struct mt_charsmap *charsmap, const char *text, size_t bytes, bool longest,
                        size_t *length)
{
    const char *found = NULL;
    size_t at = 0;
    if (!charsmap->num_units)
        return NULL;
    at ^= unit_offset(charsmap->units[0]);
    for (size_t i = 0; i < bytes && (longest || !found); i++) {
        at ^= (unsigned char)text[i];
        if (at >= charsmap->num_units)
            break;
        const uint32_t unit = charsmap->units[at];
        if ((unit & (1u << 31 | 0xff)) != (unsigned char)text[i])
            break;
        at ^= unit_offset(unit);
        if (!(unit >> 8 & 1))
            continue;
        const size_t value = at < charsmap->num_units ? charsmap->units[at] & 0x7fffffff : SIZE_MAX;
        if (value >= charsmap->text_bytes || ((unsigned char)charsmap->texts[value] & 0xc0) == 0x80)
            break; /* it lies elsewhere, or inside of a character */
        found = charsmap->texts + value;
        *length = i + 1;
    }
    return found;
}

const char *mt_charsmap_longest(const struct mt_charsmap *charsmap, const char *text, size_t bytes,
                                size_t *length)
{
    return find(charsmap, text, bytes, true, length);
}

/* Up to a zero byte: the reference implementation of the graphemes' rules goes no further. */
static const char *find_shortest(const struct mt_charsmap *charsmap, const char *text, size_t bytes)
{
    size_t length;
    return find(charsmap, text, strnlen(text, bytes), false, &length);
}

static int apply_characters(const struct mt_charsmap *charsmap, struct mt_view text, size_t from,
                            size_t bytes, struct mt_mapped *out)
{
    int r = 0;
    for (size_t i = from; r == 0 && i < from + bytes;) {
        uint32_t character;
        const size_t length = (size_t)mt_utf8_next(text.text + i, text.bytes - i, &character);
        const char *found = find_shortest(charsmap, text.text + i, length);
        r = found ? mt_mapped_put(out, text, i, length, found, strlen(found))
                  : mt_mapped_keep(out, text, i, length);
        i += length;
    }
    return r;
}

int mt_charsmap_apply(const struct mt_charsmap *charsmap, struct mt_view text, struct mt_mapped *out)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.bytes;) {
        const size_t length = mt_grapheme_bytes(text.text + i, text.bytes - i);
        const char *found = length < 6 ? find_shortest(charsmap, text.text + i, length) : NULL;
        r = found ? mt_mapped_put(out, text, i, length, found, strlen(found))
                  : apply_characters(charsmap, text, i, length, out);
        i += length;
    }
    return r;
}

/* --- loading -------------------------------------------------------------------------------------------- */

static int load(struct mt_charsmap *charsmap, const unsigned char *data, size_t bytes)
{
    const size_t trie_bytes = bytes >= 4 ? (uint32_t)mt_little_endian(data, 4) : 0;
    if (bytes < 4 || trie_bytes > bytes - 4 || trie_bytes % 4)
        return -EINVAL;
    charsmap->num_units = trie_bytes / 4;
    charsmap->text_bytes = bytes - 4 - trie_bytes;
    charsmap->units = malloc(trie_bytes + 4);
    charsmap->texts = malloc(charsmap->text_bytes + 1);
    if (!charsmap->units || !charsmap->texts)
        return -ENOMEM;
    for (size_t i = 0; i < charsmap->num_units; i++)
        charsmap->units[i] = (uint32_t)mt_little_endian(data + 4 + 4 * i, 4);
    memcpy(charsmap->texts, data + 4 + trie_bytes, charsmap->text_bytes);
    charsmap->texts[charsmap->text_bytes] = '\0';
    /* What comes after the normalizer goes by it that texts are UTF-8. */
    return mt_utf8_find_ill_formed(charsmap->texts, charsmap->text_bytes) == charsmap->text_bytes ? 0
                                                                                                  : -EINVAL;
}

int mt_charsmap_new(const void *data, size_t bytes, struct mt_charsmap **result, struct mt_error *error)
{
    *result = NULL;
    struct mt_charsmap *charsmap = calloc(1, sizeof *charsmap);
    int r = charsmap ? load(charsmap, data, bytes) : -ENOMEM;
    if (r < 0) {
        mt_charsmap_free(charsmap);
        return r == -ENOMEM
                   ? mt_error_set(error, r, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer")
                   : mt_error_set(error, r, MT_REASON_BAD_MODEL, "the precompiled_charsmap is damaged");
    }
    *result = charsmap;
    return 0;
}

int mt_charsmap_load(const char *base64, struct mt_charsmap **charsmap, struct mt_error *error)
{
    *charsmap = NULL;
    size_t bytes;
    unsigned char *data = mt_base64_decode(base64, strlen(base64), &bytes);
    if (!data)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "the precompiled_charsmap is damaged");
    int r = mt_charsmap_new(data, bytes, charsmap, error);
    free(data);
    return r;
}

void mt_charsmap_free(struct mt_charsmap *charsmap)
{
    if (!charsmap)
        return;
    free(charsmap->units);
    free(charsmap->texts);
    free(charsmap);
}
