/* The regular expressions of tokenizers, by PCRE2. They are written for Oniguruma; where the two differ the
 * pattern is translated, or refused. */
#ifndef MT_TEXT_REGEX_H
#define MT_TEXT_REGEX_H

#include "core/base/error.h"

#include <stddef.h>

struct mt_regex;

/* MT_REASON_BAD_MODEL when the pattern is wrong or uses what is not supported. */
int mt_regex_compile(const char *pattern, size_t bytes, struct mt_regex **regex, struct mt_error *error);
void mt_regex_free(struct mt_regex *regex); /* NULL is fine */

/* What one thread needs to match; for any expression. NULL when out of memory. */
struct mt_regex_scratch *mt_regex_scratch_new(void);
void mt_regex_scratch_free(struct mt_regex_scratch *scratch); /* NULL is fine */

/* The first match at or after `from` in a text that is UTF-8, which may be empty: 1 and its range, 0 when
 * there is none, -EINVAL when matching went beyond its bounds. */
int mt_regex_find(const struct mt_regex *regex, struct mt_regex_scratch *scratch, const char *text,
                  size_t bytes, size_t from, size_t *start, size_t *end);
/* Where to look on after an empty match at `at`: behind the character there. */
size_t mt_regex_behind(const char *text, size_t bytes, size_t at);

/* The same, of at least one character. */
int mt_regex_next(const struct mt_regex *regex, struct mt_regex_scratch *scratch, const char *text,
                  size_t bytes, size_t from, size_t *start, size_t *end);

#endif
