/* Tokenizers' patterns are written for Oniguruma with the syntax of Ruby; PCRE2 reads most of them otherwise
 * somewhere. */
#ifndef MT_TEXT_REGEX_DIALECT_H
#define MT_TEXT_REGEX_DIALECT_H

#include "core/base/error.h"
#include "core/text/tokenizer.h"

#include <stddef.h>

/* Appends what finds in PCRE2 what `pattern` finds in Oniguruma. MT_REASON_BAD_MODEL when it uses what is not
 * supported; what is wrong in both stays for the compiler to say. */
int mt_regex_translate(const char *pattern, size_t bytes, struct mt_text *out, struct mt_error *error);

/* The characters that came to a category ("Lu", "M", ...) with newer versions of Unicode than PCRE2 may have,
 * as ranges of a pattern; "" where there are none. */
const char *mt_regex_newer_ranges(const char *category);

#endif
