/* UTF-8, a character at a time (Unicode 15, section 3.9, table 3-7). */
#ifndef MT_BASE_UTF8_H
#define MT_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define MT_UTF8_INCOMPLETE 0 /* the text ends inside a character that could still become well-formed */

/* Looks at the character at `data` (bytes > 0). Well-formed: its length (1 to 4), and `character` is set.
 * Ill-formed: minus the length of the maximal part that one U+FFFD stands for. MT_UTF8_INCOMPLETE as above.
 */
int mt_utf8_next(const char *data, size_t bytes, uint32_t *character);

/* Writes a character (below 0x110000, no surrogate); returns its length. */
size_t mt_utf8_write(uint32_t character, char out[4]);

/* Position of the first byte of what is not well-formed, or `bytes`. */
size_t mt_utf8_find_ill_formed(const char *data, size_t bytes);

#endif
