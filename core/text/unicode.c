#include "core/text/unicode.h"

#include "core/base/utf8.h"

#include <utf8proc.h>

bool mt_is_white_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

/* Letters, marks and decimal digits that came with Unicode 15 to 16, in order; utf8proc may be older. */
static const struct {
    uint32_t first, last;
} newer_word[] = {
    {0x897, 0x897},     {0xcf3, 0xcf3},     {0xece, 0xece},     {0x1c89, 0x1c8a},   {0xa7cb, 0xa7cd},
    {0xa7da, 0xa7dc},   {0x105c0, 0x105f3}, {0x10d40, 0x10d65}, {0x10d69, 0x10d6d}, {0x10d6f, 0x10d85},
    {0x10ec2, 0x10ec4}, {0x10efc, 0x10eff}, {0x1123f, 0x11241}, {0x11380, 0x11389}, {0x1138b, 0x1138b},
    {0x1138e, 0x1138e}, {0x11390, 0x113b5}, {0x113b7, 0x113c0}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5},
    {0x113c7, 0x113ca}, {0x113cc, 0x113d3}, {0x113e1, 0x113e2}, {0x116d0, 0x116e3}, {0x11bc0, 0x11be0},
    {0x11bf0, 0x11bf9}, {0x11f00, 0x11f10}, {0x11f12, 0x11f3a}, {0x11f3e, 0x11f42}, {0x11f50, 0x11f5a},
    {0x1342f, 0x1342f}, {0x13440, 0x13455}, {0x13460, 0x143fa}, {0x16100, 0x16139}, {0x16d40, 0x16d6c},
    {0x16d70, 0x16d79}, {0x18cff, 0x18cff}, {0x1b132, 0x1b132}, {0x1b155, 0x1b155}, {0x1ccf0, 0x1ccf9},
    {0x1df25, 0x1df2a}, {0x1e030, 0x1e06d}, {0x1e08f, 0x1e08f}, {0x1e4d0, 0x1e4f9}, {0x1e5d0, 0x1e5fa},
    {0x2b739, 0x2b739}, {0x2ebf0, 0x2ee5d}, {0x31350, 0x323af}};

static bool is_newer_word(uint32_t c)
{
    for (size_t i = 0; i < sizeof newer_word / sizeof *newer_word && newer_word[i].first <= c; i++)
        if (c <= newer_word[i].last)
            return true;
    return false;
}

bool mt_is_word(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default: /* the joiners, and letters in circles and squares */
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
               (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189) || is_newer_word(c);
    }
}

size_t mt_utf8_before(const char *text, size_t bytes, uint32_t *character)
{
    size_t length = 1;
    while (length < 4 && length < bytes && ((unsigned char)text[bytes - length] & 0xc0) == 0x80)
        length++;
    mt_utf8_next(text + bytes - length, length, character);
    return length;
}

size_t mt_grapheme_bytes(const char *text, size_t bytes)
{
    uint32_t character, following;
    utf8proc_int32_t state = 0;
    size_t end = (size_t)mt_utf8_next(text, bytes, &character);
    while (end < bytes) {
        const size_t length = (size_t)mt_utf8_next(text + end, bytes - end, &following);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)character, (utf8proc_int32_t)following,
                                             &state))
            break;
        character = following;
        end += length;
    }
    return end;
}
