#include "core/text/byte_alphabet.h"

#include <string.h>

/* The first and last of each run of bytes that are not printable, and the character of the first. */
static const struct {
    uint8_t first, last;
    uint16_t character;
} runs[] = {{0x00, 0x20, 0x100}, {0x7f, 0xa0, 0x121}, {0xad, 0xad, 0x143}};

uint32_t mt_byte_alphabet_character(uint8_t byte)
{
    for (int i = 0; i < 3; i++)
        if (byte >= runs[i].first && byte <= runs[i].last)
            return (uint32_t)(runs[i].character + (byte - runs[i].first));
    return byte;
}

int mt_byte_alphabet_byte(uint32_t character)
{
    for (int i = 0; i < 3; i++) {
        const uint32_t count = (uint32_t)(runs[i].last - runs[i].first) + 1;
        if (character >= runs[i].character && character < runs[i].character + count)
            return (int)(character - runs[i].character + runs[i].first);
        if (character >= runs[i].first && character <= runs[i].last)
            return -1;
    }
    return character < 0x100 ? (int)character : -1;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int mt_byte_token_byte(const char *text, size_t bytes)
{
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}
