/* Sizes as people write and read them: see size.h. */
#include "core/base/size.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *suffix;
    uint64_t unit;
} units[] = {
    {"", 1},
    {"B", 1},
    {"k", 1ull << 10},
    {"K", 1ull << 10},
    {"KiB", 1ull << 10},
    {"kB", 1000ull},
    {"m", 1ull << 20},
    {"M", 1ull << 20},
    {"MiB", 1ull << 20},
    {"MB", 1000000ull},
    {"g", 1ull << 30},
    {"G", 1ull << 30},
    {"GiB", 1ull << 30},
    {"GB", 1000000000ull},
    {"t", 1ull << 40},
    {"T", 1ull << 40},
    {"TiB", 1ull << 40},
    {"TB", 1000000000000ull},
};

static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

int mt_size_parse(const char *text, size_t *bytes)
{
    if (!is_digit(*text))
        return -EINVAL;
    size_t whole = 0;
    for (; is_digit(*text); text++) {
        if (!mt_size_mul(whole, 10, &whole) || !mt_size_add(whole, (size_t)(*text - '0'), &whole))
            return -ERANGE;
    }
    /* Nine digits of the fraction count: to the byte up to 1 GiB, and closer than anyone writes above. */
    uint64_t fraction = 0, scale = 1;
    if (*text == '.') {
        text++;
        if (!is_digit(*text))
            return -EINVAL;
        for (; is_digit(*text); text++) {
            if (scale < 1000000000ull) {
                fraction = fraction * 10 + (uint64_t)(*text - '0');
                scale *= 10;
            }
        }
    }
    if (*text == ' ')
        text++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text, units[i].suffix) != 0)
            continue;
        size_t product;
        size_t part = (size_t)((unsigned __int128)fraction * units[i].unit / scale);
        if (!mt_size_mul(whole, units[i].unit, &product) || !mt_size_add(product, part, &product))
            return -ERANGE;
        *bytes = product;
        return 0;
    }
    return -EINVAL;
}

const char *mt_size_format(size_t bytes, char *buffer, size_t buffer_bytes)
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(buffer, buffer_bytes, "%zu B", bytes);
        return buffer;
    }
    /* 1023.95 KiB would print as "1024.0 KiB": go on to the next unit. */
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < sizeof names / sizeof *names) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, buffer_bytes, "%.1f %s", value, names[unit]);
    return buffer;
}
