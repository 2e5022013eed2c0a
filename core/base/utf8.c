#include "core/base/utf8.h"

#include <string.h>

int mt_utf8_next(const char *data, size_t bytes, uint32_t *character)
{
    const unsigned char *text = (const unsigned char *)data;
    const unsigned lead = text[0];
    if (lead < 0x80) {
        *character = lead;
        return 1;
    }

    size_t length;
    unsigned low = 0x80, high = 0xbf; /* of the second byte: no long forms, no surrogates, at most U+10FFFF */
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        length = 3;
        if (lead == 0xe0)
            low = 0xa0;
        else if (lead == 0xed)
            high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        if (lead == 0xf0)
            low = 0x90;
        else if (lead == 0xf4)
            high = 0x8f;
    } else {
        return -1;
    }

    uint32_t value = lead & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if (i == bytes)
            return MT_UTF8_INCOMPLETE;
        if (text[i] < low || text[i] > high)
            return -(int)i;
        value = value << 6 | (text[i] & 0x3fu);
        low = 0x80;
        high = 0xbf;
    }
    *character = value;
    return (int)length;
}

size_t mt_utf8_write(uint32_t character, char out[4])
{
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    if (character < 0x800) {
        out[0] = (char)(0xc0 | character >> 6);
        out[1] = (char)(0x80 | (character & 0x3f));
        return 2;
    }
    if (character < 0x10000) {
        out[0] = (char)(0xe0 | character >> 12);
        out[1] = (char)(0x80 | (character >> 6 & 0x3f));
        out[2] = (char)(0x80 | (character & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | character >> 18);
    out[1] = (char)(0x80 | (character >> 12 & 0x3f));
    out[2] = (char)(0x80 | (character >> 6 & 0x3f));
    out[3] = (char)(0x80 | (character & 0x3f));
    return 4;
}

size_t mt_utf8_find_ill_formed(const char *data, size_t bytes)
{
    size_t i = 0;
    while (i < bytes) {
        uint64_t word; /* eight ASCII characters at a time */
        if (bytes - i >= sizeof word) {
            memcpy(&word, data + i, sizeof word);
            if (!(word & UINT64_C(0x8080808080808080))) {
                i += sizeof word;
                continue;
            }
        }
        uint32_t character;
        const int length = mt_utf8_next(data + i, bytes - i, &character);
        if (length <= 0)
            return i;
        i += (size_t)length;
    }
    return bytes;
}
