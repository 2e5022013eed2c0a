/* What regular expressions are compiled and matched with: PCRE2, after core/text/regex_dialect.h. */
#include "core/text/regex.h"

#include "core/base/size.h"
#include "core/text/regex_dialect.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#define MAX_PATTERN_BYTES ((size_t)1 << 16) /* those of real tokenizers have up to some 1,000 */

struct mt_regex {
    pcre2_code *code;
    pcre2_match_context *context;
};

struct mt_regex_scratch {
    pcre2_match_data *match;
};

static int compile(struct mt_regex *regex, const struct mt_text *pattern, struct mt_error *error)
{
    int code;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return -ENOMEM;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    regex->code = pcre2_compile((PCRE2_SPTR)pattern->data, pattern->bytes,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code,
                                &offset, context);
    pcre2_compile_context_free(context);
    if (!regex->code) {
        char message[256];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "the pattern is wrong at character %zu: %s",
                            offset, message);
    }
    pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE); /* slower without, nothing else */
    regex->context = pcre2_match_context_create(NULL);
    return regex->context ? 0 : -ENOMEM;
}

int mt_regex_compile(const char *pattern, size_t bytes, struct mt_regex **result, struct mt_error *error)
{
    *result = NULL;
    if (bytes > MAX_PATTERN_BYTES)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "a pattern of %zu bytes is beyond the bound of %zu", bytes, MAX_PATTERN_BYTES);
    struct mt_regex *regex = calloc(1, sizeof *regex);
    struct mt_text translated = {0};
    int r = regex ? mt_regex_translate(pattern, bytes, &translated, error) : -ENOMEM;
    if (r == 0)
        r = mt_text_append(&translated, "", 0);
    if (r == 0)
        r = compile(regex, &translated, error);
    mt_text_free(&translated);
    if (r == -ENOMEM)
        mt_error_set(error, r, MT_REASON_OUT_OF_MEMORY, "out of memory for a pattern");
    if (r < 0) {
        mt_regex_free(regex);
        return r;
    }
    *result = regex;
    return 0;
}

void mt_regex_free(struct mt_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    pcre2_match_context_free(regex->context);
    free(regex);
}

struct mt_regex_scratch *mt_regex_scratch_new(void)
{
    struct mt_regex_scratch *scratch = calloc(1, sizeof *scratch);
    if (scratch && !(scratch->match = pcre2_match_data_create(1, NULL))) {
        free(scratch);
        return NULL;
    }
    return scratch;
}

void mt_regex_scratch_free(struct mt_regex_scratch *scratch)
{
    if (!scratch)
        return;
    pcre2_match_data_free(scratch->match);
    free(scratch);
}

int mt_regex_find(const struct mt_regex *regex, struct mt_regex_scratch *scratch, const char *text,
                  size_t bytes, size_t from, size_t *start, size_t *end)
{
    if (from > bytes)
        return 0;
    int r = pcre2_match(regex->code, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK, scratch->match,
                        regex->context);
    if (r == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter keeps its state on the heap */
        r = pcre2_match(regex->code, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                        scratch->match, regex->context);
    if (r == PCRE2_ERROR_NOMATCH)
        return 0;
    if (r < 0)
        return r == PCRE2_ERROR_NOMEMORY ? -ENOMEM : -EINVAL;
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(scratch->match);
    *start = range[0];
    *end = mt_size_max(range[0], range[1]); /* \K in a look ahead begins a match behind its end */
    return 1;
}

size_t mt_regex_behind(const char *text, size_t bytes, size_t at)
{
    at++;
    while (at < bytes && ((unsigned char)text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

int mt_regex_next(const struct mt_regex *regex, struct mt_regex_scratch *scratch, const char *text,
                  size_t bytes, size_t from, size_t *start, size_t *end)
{
    while (from < bytes) {
        int r = mt_regex_find(regex, scratch, text, bytes, from, start, end);
        if (r <= 0 || *end > *start)
            return r;
        from = mt_regex_behind(text, bytes, *end);
    }
    return 0;
}
