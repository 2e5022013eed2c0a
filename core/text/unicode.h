/* Properties of characters that tokenizers ask for. */
#ifndef MT_TEXT_UNICODE_H
#define MT_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool mt_is_white_space(uint32_t character); /* Unicode's White_Space */
bool mt_is_word(uint32_t character);        /* \w of Unicode's regular expressions (UTS 18, annex C) */

/* The character that ends before `bytes` in a text that is UTF-8 (bytes > 0); returns its length. */
size_t mt_utf8_before(const char *text, size_t bytes, uint32_t *character);

/* Where the grapheme that begins a text that is UTF-8 (bytes > 0) ends. */
size_t mt_grapheme_bytes(const char *text, size_t bytes);

#endif
