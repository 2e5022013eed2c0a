/* U+2581, which SentencePiece and its likes write for a blank. */
#ifndef MT_TEXT_MARK_H
#define MT_TEXT_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define MT_MARK "\xe2\x96\x81"
#define MT_MARK_BYTES 3

/* `at` is at most `bytes`. */
static inline bool mt_mark_at(const char *text, size_t bytes, size_t at)
{
    return bytes - at >= MT_MARK_BYTES && memcmp(text + at, MT_MARK, MT_MARK_BYTES) == 0;
}

/* Does a token go on with a mark after something else? Then a text can't be cut before marks. */
static inline bool mt_mark_is_crossed(const char *token, size_t bytes)
{
    for (size_t i = 1; i < bytes; i++)
        if (mt_mark_at(token, bytes, i) &&
            (i < MT_MARK_BYTES || !mt_mark_at(token, bytes, i - MT_MARK_BYTES)))
            return true;
    return false;
}

#endif
