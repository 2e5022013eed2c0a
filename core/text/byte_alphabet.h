/* The printable characters that byte-level tokenizers write bytes as (GPT-2's table): a byte that is a
 * printable Latin-1 character stands for itself, the others follow from U+0100 on in order. */
#ifndef MT_TEXT_BYTE_ALPHABET_H
#define MT_TEXT_BYTE_ALPHABET_H

#include <stddef.h>
#include <stdint.h>

#define MT_BYTE_ALPHABET_END 0x144 /* no character of the table is beyond */

uint32_t mt_byte_alphabet_character(uint8_t byte);
int mt_byte_alphabet_byte(uint32_t character); /* -1 when it is not in the table */

/* The byte that a token stands for where bytes are written as "<0x0A>"; -1 for any other text. */
int mt_byte_token_byte(const char *text, size_t bytes);

#endif
