/* Base64 (RFC 4648, section 4), as tokenizers' files have bytes in text. */
#ifndef MT_TEXT_BASE64_H
#define MT_TEXT_BASE64_H

#include <stddef.h>

/* malloc'd; padding may be missing. NULL when out of memory, or where a character is none of the alphabet. */
unsigned char *mt_base64_decode(const char *text, size_t length, size_t *bytes);

#endif
