/* See utf8_repair.h. */
#include "core/base/utf8_repair.h"

#include <stddef.h>

/* Bytes of the character that begins here, 0 when none does; the zero at the end of a text ends it as well.
 */
static size_t character_bytes(const unsigned char *text)
{
    unsigned char first = text[0], low = 0x80, high = 0xbf;
    if (first < 0x80)
        return 1;
    size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    if (first == 0xe0)
        low = 0xa0; /* shorter forms exist below */
    else if (first == 0xed)
        high = 0x9f; /* surrogates stand above */
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    return bytes;
}

char *mt_utf8_repair(char *text)
{
    for (char *at = text; *at;) {
        size_t bytes = character_bytes((const unsigned char *)at);
        if (bytes == 0)
            *at = '?';
        at += bytes > 0 ? bytes : 1;
    }
    return text;
}
