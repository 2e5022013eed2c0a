/* What Python's str knows of characters. Case and categories come from utf8proc; what it lacks (mappings to
 * several characters) from a table. */
#ifndef MT_TEXT_JINJA_UNICODE_H
#define MT_TEXT_JINJA_UNICODE_H

#include "core/text/jinja/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at `data` and its length in bytes; a byte that is not well-formed UTF-8 is U+FFFD. bytes > 0.
 */
size_t mt_jcharacter(const char *data, size_t bytes, uint32_t *character);
/* The character before data + bytes. */
size_t mt_jcharacter_before(const char *data, size_t bytes, uint32_t *character);
size_t mt_jcount(struct mt_jslice text); /* characters */
/* Bytes before character number `index` (all where there are fewer). */
size_t mt_joffset(struct mt_jslice text, size_t index);
bool mt_jis_ascii(struct mt_jslice text);
bool mt_jis_utf8(struct mt_jslice text);

bool mt_jis_space(uint32_t character);     /* str.isspace, and `\s` */
bool mt_jis_printable(uint32_t character); /* str.isprintable, which decides what repr shows */
bool mt_jis_letter(uint32_t character);    /* str.isalpha */
bool mt_jis_decimal(uint32_t character);   /* str.isdecimal */
bool mt_jis_digit(uint32_t character);     /* str.isdigit */
bool mt_jis_numeric(uint32_t character);   /* str.isnumeric */
bool mt_jis_lower(uint32_t character);
bool mt_jis_upper(uint32_t character);
bool mt_jis_title(uint32_t character);
bool mt_jis_word(uint32_t character); /* `\w` */

#define MT_J_CASE_MAX 3 /* characters that one can become */
enum mt_jcase { MT_J_UPPER, MT_J_LOWER, MT_J_TITLE, MT_J_FOLD };
/* Writes what the character becomes; returns how many characters. Lower-casing a sigma is the caller's. */
size_t mt_jmap_case(uint32_t character, enum mt_jcase mapping, uint32_t out[MT_J_CASE_MAX]);

#endif
