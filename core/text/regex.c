/* Differences between Oniguruma and PCRE2 that occur in tokenizers' patterns:
 *   \s      Unicode's White_Space; PCRE2 counts U+180E too
 *   \w      with marks and letters in circles, without numbers that are no digits, but for those of Latin-1
 *   \b      where a \w begins or ends
 *   \p{Han} the script alone; by its extensions too in PCRE2
 *   ^ $     at every line
 *   [a[b]]  a class within a class, and && between classes: refused
 *   {1,3}+  repeats the whole; possessive in PCRE2: refused
 *   \h      a hexadecimal digit; blank space in PCRE2: refused */
#include "core/text/regex.h"

#include "core/text/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATTERN_BYTES ((size_t)1 << 16) /* those of real tokenizers have up to some 1,000 */

struct mt_regex {
    pcre2_code *code;
    pcre2_match_context *context;
};

struct mt_regex_scratch {
    pcre2_match_data *match;
};

#define WHITE_SPACE                                                                                          \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* Characters of categories that came with Unicode 15 to 16, which the reference implementation knows and
 * PCRE2 10.42 does not; none changed its category since Unicode 14. Where PCRE2 is newer they do no harm. */
static const struct {
    const char *name, *ranges;
} newer[] = {
    {"L", "\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}"
          "\\x{10d4a}-\\x{10d65}\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{11240}"
          "\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}"
          "\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}"
          "\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}"
          "\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}"
          "\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}"
          "\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"Lu", "\\x{1c89}\\x{a7cb}-\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}"},
    {"Ll", "\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}"},
    {"Lm", "\\x{10d4e}\\x{10d6f}\\x{16d40}-\\x{16d42}\\x{16d6b}-\\x{16d6c}\\x{1e030}-\\x{1e06d}"
           "\\x{1e4eb}"},
    {"Lo", "\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4d}\\x{10d4f}\\x{10ec2}-\\x{10ec4}"
           "\\x{1123f}-\\x{11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}"
           "\\x{113b7}\\x{113d1}\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}"
           "\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}"
           "\\x{16100}-\\x{1611d}\\x{16d43}-\\x{16d6a}\\x{18cff}\\x{1b132}\\x{1b155}"
           "\\x{1e4d0}-\\x{1e4ea}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}"
           "\\x{31350}-\\x{323af}"},
    {"M", "\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}"
          "\\x{113b8}-\\x{113c0}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}"
          "\\x{113d2}\\x{113e1}-\\x{113e2}\\x{11f00}-\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}"
          "\\x{11f3e}-\\x{11f42}\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}"
          "\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}-\\x{1e5ef}"},
    {"N", "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"
          "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}"
          "\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"},
    {"Nd", "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"
           "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1e4f0}-\\x{1e4f9}"
           "\\x{1e5f1}-\\x{1e5fa}"},
    {"P", "\\x{1b4e}-\\x{1b4f}\\x{1b7f}\\x{10d6e}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}"
          "\\x{11b00}-\\x{11b09}\\x{11be1}\\x{11f43}-\\x{11f4f}\\x{16d6d}-\\x{16d6f}\\x{1e5ff}"},
    {"S", "\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}\\x{31e4}-\\x{31e5}\\x{31ef}\\x{10d8e}-\\x{10d8f}"
          "\\x{1cc00}-\\x{1ccef}\\x{1cd00}-\\x{1ceb3}\\x{1f6dc}\\x{1f774}-\\x{1f776}"
          "\\x{1f77b}-\\x{1f77f}\\x{1f7d9}\\x{1f8b2}-\\x{1f8bb}\\x{1f8c0}-\\x{1f8c1}"
          "\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}\\x{1fa8f}\\x{1faad}-\\x{1faaf}"
          "\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}-\\x{1facf}\\x{1fada}-\\x{1fadc}\\x{1fadf}"
          "\\x{1fae8}-\\x{1fae9}\\x{1faf7}-\\x{1faf8}\\x{1fbcb}-\\x{1fbef}"},
    {"Han", "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
};

/* The ranges to add to a property; "" for most. */
static const char *newer_ranges(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
        if (strlen(newer[i].name) == bytes && memcmp(newer[i].name, name, bytes) == 0)
            return newer[i].ranges;
    return "";
}

const char *mt_regex_newer_ranges(const char *category)
{
    return newer_ranges(category, strlen(category));
}

/* Alphabetic, marks, decimal digits, connectors, and the numbers of Latin-1. */
#define WORD                                                                                                 \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"    \
    "\\x{1f150}-\\x{1f169}"                                                                                  \
    "\\x{1f170}-\\x{1f189}"

static int refuse(struct mt_error *error, const char *what)
{
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL, "a pattern with %s is not supported yet", what);
}

static int append(struct mt_text *text, const char *piece)
{
    return mt_text_append(text, piece, strlen(piece));
}

/* "p{Name}", "P{Name}" or "pL" after a backslash; `*used` counts its characters. */
static int translate_property(const char *text, size_t bytes, bool in_class, size_t *used,
                              struct mt_text *out, struct mt_error *error)
{
    const char *name = text + 1;
    size_t length = 1;
    *used = 2;
    if (bytes > 1 && text[1] == '{') {
        const char *end = memchr(text, '}', bytes);
        if (!end || end == text + 2)
            return refuse(error, "a property without end");
        name = text + 2;
        length = (size_t)(end - name);
        *used = length + 3;
    } else if (bytes < 2) {
        return refuse(error, "a property without name");
    }
    const bool negated = (*text == 'P') != (*name == '^');
    if (*name == '^') {
        name++;
        length--;
    }
    const char *ranges = newer_ranges(name, length);
    if (negated && in_class && *ranges)
        return refuse(error, "\\P in a class");
    /* Scripts are meant by the character's own script alone. */
    char property[80];
    const int written = snprintf(property, sizeof property, "\\%c{%s%.*s}", negated && in_class ? 'P' : 'p',
                                 length > 2 ? "sc:" : "", (int)length, name);
    if (written < 0 || (size_t)written >= sizeof property)
        return refuse(error, "such a long property");
    int r = in_class ? 0 : append(out, negated ? "[^" : "[");
    if (r == 0)
        r = append(out, property);
    if (r == 0)
        r = append(out, ranges);
    return r < 0 || in_class ? r : append(out, "]");
}

/* After a backslash; `*used` counts the characters taken. */
static int translate_escape(const char *text, size_t bytes, bool in_class, size_t *used, struct mt_text *out,
                            struct mt_error *error)
{
    size_t unused;
    *used = 1;
    switch (*text) {
    case 's':
        return append(out, in_class ? WHITE_SPACE : "[" WHITE_SPACE "]");
    case 'S':
        return in_class ? refuse(error, "\\S in a class") : append(out, "[^" WHITE_SPACE "]");
    case 'w':
        return append(out, in_class ? WORD : "[" WORD "]");
    case 'W':
        return in_class ? refuse(error, "\\W in a class") : append(out, "[^" WORD "]");
    case 'b':
        return append(out,
                      in_class ? "\\b" : "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))");
    case 'B':
        return append(out, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))");
    case 'd':
        return translate_property("p{Nd}", 5, in_class, &unused, out, error);
    case 'h':
    case 'H':
        return refuse(error, "\\h");
    case 'p':
    case 'P':
        return translate_property(text, bytes, in_class, used, out, error);
    default:
        if (*text == 'x' && bytes > 1 && text[1] == '{') { /* its brace is not a repeat's */
            const char *end = memchr(text, '}', bytes);
            *used = end ? (size_t)(end - text) + 1 : 1;
        }
        return append(out, "\\") < 0 ? -ENOMEM : mt_text_append(out, text, *used);
    }
}

static int translate(const char *pattern, size_t bytes, struct mt_text *out, struct mt_error *error)
{
    bool in_class = false;
    int r = 0;
    for (size_t i = 0; r == 0 && i < bytes; i++) {
        const char c = pattern[i], following = i + 1 < bytes ? pattern[i + 1] : '\0';
        if (c == '\\' && i + 1 < bytes) {
            size_t used;
            r = translate_escape(pattern + i + 1, bytes - i - 1, in_class, &used, out, error);
            i += r == 0 ? used : 0;
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
    if (bytes > MAX_PATTERN_BYTES)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "a pattern of %zu bytes is beyond the bound of %zu", bytes, MAX_PATTERN_BYTES);
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
