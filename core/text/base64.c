#include "core/text/base64.h"

#include <stdint.h>
#include <stdlib.h>

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

unsigned char *mt_base64_decode(const char *text, size_t length, size_t *bytes)
{
    while (length && text[length - 1] == '=')
        length--;
    unsigned char *data = malloc(length / 4 * 3 + 4);
    uint32_t bits = 0;
    unsigned count = 0;
    *bytes = 0;
    for (size_t i = 0; data && i < length; i++) {
        const int value = value_of(text[i]);
        if (value < 0) {
            free(data);
            return NULL;
        }
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            data[(*bytes)++] = (unsigned char)(bits >> count);
        }
    }
    return data;
}
