/* The patterns that most models cut text with, by hand: what core/text/regex.h finds with them, many times
 * faster. */
#ifndef MT_TEXT_SCANNER_H
#define MT_TEXT_SCANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first match at or after `from` in a text that is UTF-8; false when there is none. */
typedef bool (*mt_scanner)(const uint16_t *classes, const char *text, size_t bytes, size_t from,
                           size_t *start, size_t *end);

/* The scanner of a pattern, or NULL where there is none for it. */
mt_scanner mt_scanner_find(const char *pattern, size_t bytes);

/* All patterns that have one, for tests; ends with NULL. */
const char *const *mt_scanner_patterns(void);

#endif
