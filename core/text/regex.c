/* Differences between Oniguruma and PCRE2 that occur in tokenizers' patterns:
 *   \s      Unicode's White_Space; PCRE2 counts U+180E too
 *   ^ $     at every line
 *   [a[b]]  a class within a class, and && between classes: refused
 *   {1,3}+  repeats the whole; possessive in PCRE2: refused
 *   \h      a hexadecimal digit; blank space in PCRE2: refused */
#include "core/text/regex.h"

#include "core/text/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct mt_regex {
    pcre2_code *code;
    pcre2_match_context *context;
};

struct mt_regex_scratch {
    pcre2_match_data *match;
};

#define WHITE_SPACE                                                                                          \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static int refuse(struct mt_error *error, const char *what)
{
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL, "a pattern with %s is not supported yet", what);
}

static int append(struct mt_text *text, const char *piece)
{
    return mt_text_append(text, piece, strlen(piece));
}

/* After a backslash, at its letter. */
static int translate_escape(char letter, bool in_class, struct mt_text *out, struct mt_error *error)
{
    switch (letter) {
    case 's':
        return append(out, in_class ? WHITE_SPACE : "[" WHITE_SPACE "]");
    case 'S':
        return in_class ? refuse(error, "\\S in a class") : append(out, "[^" WHITE_SPACE "]");
    case 'h':
    case 'H':
        return refuse(error, "\\h");
    default:
        return mt_text_append(out, (const char[]){'\\', letter}, 2);
    }
}

static int translate(const char *pattern, size_t bytes, struct mt_text *out, struct mt_error *error)
{
    bool in_class = false;
    int r = 0;
    for (size_t i = 0; r == 0 && i < bytes; i++) {
        const char c = pattern[i], following = i + 1 < bytes ? pattern[i + 1] : '\0';
        if (c == '\\' && following) {
            r = translate_escape(following, in_class, out, error);
            i++;
            const char *brace = NULL; /* "\\p{L}", "\\x{3000}": not a repeat */
            if (i + 1 < bytes && pattern[i + 1] == '{' && strchr("pPxg", following))
                brace = memchr(pattern + i, '}', bytes - i);
            if (r == 0 && brace) {
                r = mt_text_append(out, pattern + i + 1, (size_t)(brace - pattern) - i);
                i = (size_t)(brace - pattern);
            }
            continue;
        }
        if (in_class && c == '[' && following != ':')
            return refuse(error, "a class in a class");
        if (in_class && c == '&' && following == '&')
            return refuse(error, "&& in a class");
        if (!in_class && c == '}' && following == '+')
            return refuse(error, "}+");
        r = mt_text_append(out, &c, 1);
        if (!in_class && c == '[') {
            in_class = true;
            /* A "]" that comes first is a character of the class. */
            const size_t first = i + (following == '^' ? 2 : 1);
            if (first < bytes && pattern[first] == ']') {
                r = mt_text_append(out, pattern + i + 1, first - i);
                i = first;
            }
        } else if (in_class && c == '[') { /* "[:alpha:]" */
            const char *end = memchr(pattern + i, ']', bytes - i);
            if (end) {
                r = mt_text_append(out, pattern + i + 1, (size_t)(end - pattern) - i);
                i = (size_t)(end - pattern);
            }
        } else if (in_class && c == ']') {
            in_class = false;
        }
    }
    return r;
}

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
    struct mt_regex *regex = calloc(1, sizeof *regex);
    struct mt_text translated = {0};
    int r = regex ? translate(pattern, bytes, &translated, error) : -ENOMEM;
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

int mt_regex_next(const struct mt_regex *regex, struct mt_regex_scratch *scratch, const char *text,
                  size_t bytes, size_t from, size_t *start, size_t *end)
{
    while (from < bytes) {
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
        if (range[1] > range[0]) {
            *start = range[0];
            *end = range[1];
            return 1;
        }
        /* An empty match: on by one character. */
        from = range[1] + 1;
        while (from < bytes && ((unsigned char)text[from] & 0xc0) == 0x80)
            from++;
    }
    return 0;
}
