/* Where Oniguruma and PCRE2 differ in what tokenizers' patterns use:
 *   \s       Unicode's White_Space; PCRE2 counts U+180E too
 *   \w       with marks and letters in circles, without numbers that are no digits, but for those of Latin-1
 *            where it stands outside of a class
 *   \b       where a \w begins or ends
 *   \pL      the letters p and L; a property only with braces
 *   \h       a hexadecimal digit; blank space in PCRE2
 *   \p{Han}  the script alone; by its extensions too in PCRE2
 *   ^ $      at every line (an option of the compiler)
 *   [a[b]]   classes within classes, and && between them: alternatives and looks ahead here
 *   {1,3}+   repeats the whole; possessive in PCRE2. {2}? is the whole or nothing, {,3} counts from none
 *   (?m:)    the dot takes newlines; (?s:) in PCRE2 */
#include "core/text/regex_dialect.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_CLASSES 16 /* within each other */
#define MAX_GROUPS 64

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

/* Alphabetic, marks, decimal digits and connectors. Outside of classes a \w takes more. */
#define WORD                                                                                                 \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"         \
    "\\x{1f170}-\\x{1f189}"
#define MORE_WORD "\\xb2\\xb3\\xb9\\xbc-\\xbe"
#define ANY_WORD "[" WORD MORE_WORD "]"

struct translation {
    const char *pattern;
    size_t bytes, at;
    struct mt_text *out;
    size_t atom; /* where in `out` begins what a quantifier would repeat */
    size_t groups[MAX_GROUPS], num_groups;
    struct mt_error *error;
};

static int refuse(const struct translation *t, const char *what)
{
    return mt_error_set(t->error, -ENOTSUP, MT_REASON_BAD_MODEL, "a pattern with %s is not supported yet",
                        what);
}

static int append(struct mt_text *text, const char *piece)
{
    return mt_text_append(text, piece, strlen(piece));
}

static int append_three(struct mt_text *text, const char *before, const struct mt_text *middle,
                        const char *behind)
{
    int r = append(text, before);
    if (r == 0 && middle->bytes)
        r = mt_text_append(text, middle->data, middle->bytes);
    return r == 0 ? append(text, behind) : r;
}

/* The character `ahead` of the one at hand; zero behind the end. */
static char peek(const struct translation *t, size_t ahead)
{
    return t->at + ahead < t->bytes ? t->pattern[t->at + ahead] : '\0';
}

/* Bytes of the character at hand. */
static size_t character_bytes(const struct translation *t)
{
    size_t length = 1;
    while (((unsigned char)peek(t, length) & 0xc0) == 0x80)
        length++;
    return length;
}

/* --- escapes ----------------------------------------------------------------------------------------------
 */

/* A property as it stands between brackets. Scripts are meant by the character's own script alone. */
static int append_property(const struct translation *t, struct mt_text *members, const char *name,
                           size_t length)
{
    char property[80];
    const int written =
        snprintf(property, sizeof property, "\\p{%s%.*s}", length > 2 ? "sc:" : "", (int)length, name);
    if (written < 0 || (size_t)written >= sizeof property)
        return refuse(t, "such a long property");
    int r = append(members, property);
    return r == 0 ? append(members, newer_ranges(name, length)) : r;
}

/* "p{Name}", "P{Name}" or "p{^Name}". */
static int read_property(struct translation *t, struct mt_text *members, bool *negated)
{
    const char *name = t->pattern + t->at + 2, *end = memchr(name, '}', t->bytes - t->at - 2);
    if (!end || end == name)
        return refuse(t, "a property without end");
    t->at = (size_t)(end + 1 - t->pattern);
    if (*name == '^') {
        *negated = !*negated;
        name++;
    }
    return append_property(t, members, name, (size_t)(end - name));
}

/* Behind a backslash: a letter that stands for a set of characters. 1 with its members, 0 for any other. */
static int read_set(struct translation *t, struct mt_text *members, bool *negated)
{
    const char c = peek(t, 0);
    int r;
    *negated = isupper((unsigned char)c);
    switch (tolower((unsigned char)c)) {
    case 's':
        r = append(members, WHITE_SPACE);
        break;
    case 'w':
        r = append(members, WORD);
        break;
    case 'd':
        r = append_property(t, members, "Nd", 2);
        break;
    case 'h':
        r = append(members, "0-9A-Fa-f");
        break;
    case 'p': /* without a brace it is a letter */
        if (peek(t, 1) != '{')
            return 0;
        r = read_property(t, members, negated);
        return r < 0 ? r : 1;
    default:
        return 0;
    }
    t->at++;
    return r < 0 ? r : 1;
}

/* Behind a backslash: any other character, as it is. */
static int copy_escape(struct translation *t, struct mt_text *out)
{
    size_t length = 1;
    if (peek(t, 0) == 'p' || peek(t, 0) == 'P') /* a letter */
        return mt_text_append(out, &t->pattern[t->at++], 1);
    if (peek(t, 0) == 'v' || peek(t, 0) == 'u') { /* another character each in PCRE2, or none */
        const bool tab = peek(t, 0) == 'v';
        length = tab ? 1 : 5;
        int r = append(out, tab ? "\\x0b" : "\\x{");
        if (r == 0 && !tab && t->at + length <= t->bytes)
            r = mt_text_append(out, t->pattern + t->at + 1, 4);
        t->at += length;
        return r < 0 || tab ? r : append(out, "}");
    }
    if (peek(t, 0) == 'x' && peek(t, 1) == '{') { /* its brace is not a quantifier's */
        const char *end = memchr(t->pattern + t->at, '}', t->bytes - t->at);
        length = end ? (size_t)(end - t->pattern) + 1 - t->at : 1;
    }
    int r = append(out, "\\");
    if (r == 0)
        r = mt_text_append(out, t->pattern + t->at, length);
    t->at += length;
    return r;
}

/* --- classes ----------------------------------------------------------------------------------------------
 */

/* What a class takes: members of one of PCRE2's, and "|a|b", patterns of one character each. */
struct set {
    struct mt_text members, others;
};

static void free_set(struct set *set)
{
    mt_text_free(&set->members);
    mt_text_free(&set->others);
}

/* A pattern that takes one character of the set. */
static int append_set(struct mt_text *out, const struct set *set)
{
    if (!set->others.bytes)
        return set->members.bytes ? append_three(out, "[", &set->members, "]") : append(out, "(?!)");
    int r = append(out, "(?:");
    if (r == 0 && set->members.bytes)
        r = append_three(out, "[", &set->members, "]");
    const size_t bar = set->members.bytes ? 0 : 1;
    if (r == 0)
        r = mt_text_append(out, set->others.data + bar, set->others.bytes - bar);
    return r == 0 ? append(out, ")") : r;
}

enum before { NOTHING, CHARACTER, RANGE }; /* what stands before an item: can a range begin there? */

/* Does a minus begin a range here? Else it is a character. */
static bool is_range(const struct translation *t, enum before before)
{
    const char c = peek(t, 1);
    return before == CHARACTER && c && c != ']' && c != '[' && !(c == '&' && peek(t, 2) == '&') &&
           !(c == '\\' && peek(t, 2) && strchr("sSwWdDhHpP", peek(t, 2)));
}

static int read_class(struct translation *t, unsigned depth, struct set *result);

/* "[:digit:]" and its like, that PCRE2 has for other characters. */
static const struct {
    const char *name, *members;
} posix[] = {
    {"ascii", "\\x00-\\x7f"}, {"blank", "\\t\\p{Zs}"}, {"cntrl", "\\p{Cc}"},
    {"space", WHITE_SPACE},   {"word", WORD},          {"xdigit", "0-9A-Fa-f"},
};

/* At "[:", with its end. */
static int read_posix(struct translation *t, const char *end, struct set *set)
{
    struct mt_text members = {0};
    const bool negated = peek(t, 2) == '^';
    const char *name = t->pattern + t->at + (negated ? 3 : 2);
    const size_t length = (size_t)(end - name);
    int r = length == 5 && memcmp(name, "digit", 5) == 0 ? append_property(t, &members, "Nd", 2) : 0;
    for (size_t i = 0; r == 0 && i < sizeof posix / sizeof *posix; i++)
        if (strlen(posix[i].name) == length && memcmp(posix[i].name, name, length) == 0)
            r = append(&members, posix[i].members);
    if (r == 0 && !members.bytes)
        r = refuse(t, "such a class between [: and :]");
    if (r == 0)
        r = negated ? append_three(&set->others, "|[^", &members, "]")
                    : mt_text_append(&set->members, members.data, members.bytes);
    t->at = (size_t)(end + 2 - t->pattern);
    mt_text_free(&members);
    return r;
}

/* A class within this one. */
static int read_inner_class(struct translation *t, unsigned depth, struct set *set)
{
    const char *end = peek(t, 1) == ':' ? memmem(t->pattern + t->at, t->bytes - t->at, ":]", 2) : NULL;
    if (end && end > t->pattern + t->at + 2)
        return read_posix(t, end, set);
    struct set inner = {0};
    t->at++;
    int r = depth < MAX_CLASSES ? read_class(t, depth + 1, &inner) : refuse(t, "classes nested so deep");
    if (r == 0 && inner.members.bytes)
        r = mt_text_append(&set->members, inner.members.data, inner.members.bytes);
    if (r == 0 && inner.others.bytes)
        r = mt_text_append(&set->others, inner.others.data, inner.others.bytes);
    free_set(&inner);
    return r;
}

static int read_escape_in_class(struct translation *t, struct set *set, enum before *before)
{
    struct mt_text members = {0};
    bool negated;
    t->at++;
    int r = read_set(t, &members, &negated);
    if (r > 0) {
        *before = NOTHING;
        r = negated ? append_three(&set->others, "|[^", &members, "]")
                    : mt_text_append(&set->members, members.data, members.bytes);
    } else if (r == 0) {
        *before = *before == RANGE ? NOTHING : CHARACTER;
        r = copy_escape(t, &set->members);
    }
    mt_text_free(&members);
    return r;
}

static int read_item(struct translation *t, unsigned depth, struct set *set, enum before *before)
{
    const char c = peek(t, 0);
    if (c == '[') {
        *before = NOTHING;
        return read_inner_class(t, depth, set);
    }
    if (c == '\\' && t->at + 1 < t->bytes)
        return read_escape_in_class(t, set, before);
    const bool range = c == '-' && is_range(t, *before);
    *before = range ? RANGE : *before == RANGE ? NOTHING : CHARACTER;
    int r = !range && strchr("-^]\\.:=", c) ? append(&set->members, "\\") : 0;
    const size_t length = character_bytes(t);
    t->at += length;
    return r == 0 ? mt_text_append(&set->members, t->pattern + t->at - length, length) : r;
}

/* Up to the "]" or "&&". A "]" that comes first is a character of the class. */
static int read_union(struct translation *t, unsigned depth, bool first, struct set *set)
{
    enum before before = NOTHING;
    int r = 0;
    while (r == 0) {
        const char c = peek(t, 0);
        if (t->at >= t->bytes)
            return refuse(t, "a class without end");
        if ((c == ']' && !first) || (c == '&' && peek(t, 1) == '&'))
            return 0;
        r = read_item(t, depth, set, &before);
        first = false;
    }
    return r;
}

/* What `result` is when `set` is the class's last part, `wanted` looks ahead for those before it. */
static int finish_class(struct set *set, const struct mt_text *wanted, bool negated, struct set *result)
{
    if (!negated && !wanted->bytes) {
        *result = *set;
        *set = (struct set){0};
        return 0;
    }
    if (!wanted->bytes && !set->others.bytes)
        return append_three(&result->others, "|[^", &set->members, "]");
    int r = append_three(&result->others, negated ? "|(?:(?!" : "|(?:", wanted, "");
    if (r == 0)
        r = append_set(&result->others, set);
    return r == 0 ? append(&result->others, negated ? ")(?s:.))" : ")") : r;
}

/* Behind its bracket. */
static int read_class(struct translation *t, unsigned depth, struct set *result)
{
    struct set set = {0};
    struct mt_text wanted = {0};
    const bool negated = peek(t, 0) == '^';
    t->at += negated;
    int r = read_union(t, depth, true, &set);
    while (r == 0 && peek(t, 0) == '&') {
        t->at += 2;
        r = append(&wanted, "(?=");
        if (r == 0)
            r = append_set(&wanted, &set);
        if (r == 0)
            r = append(&wanted, ")");
        free_set(&set);
        if (r == 0)
            r = read_union(t, depth, false, &set);
    }
    t->at++;
    if (r == 0)
        r = finish_class(&set, &wanted, negated, result);
    free_set(&set);
    mt_text_free(&wanted);
    return r;
}

static int translate_class(struct translation *t)
{
    struct set set = {0};
    t->at++;
    int r = read_class(t, 0, &set);
    if (r == 0 && !set.members.bytes && set.others.bytes &&
        memchr(set.others.data + 1, '|', set.others.bytes - 1) == NULL)
        r = mt_text_append(t->out, set.others.data + 1, set.others.bytes - 1);
    else if (r == 0)
        r = append_set(t->out, &set);
    free_set(&set);
    return r;
}

/* --- all together -----------------------------------------------------------------------------------------
 */

static int translate_escape(struct translation *t)
{
    struct mt_text members = {0};
    bool negated;
    t->at++;
    const char c = peek(t, 0);
    if (c == 'b' || c == 'B') {
        t->at++;
        return append(t->out,
                      c == 'b' ? "(?:(?<=" ANY_WORD ")(?!" ANY_WORD ")|(?<!" ANY_WORD ")(?=" ANY_WORD "))"
                               : "(?:(?<=" ANY_WORD ")(?=" ANY_WORD ")|(?<!" ANY_WORD ")(?!" ANY_WORD "))");
    }
    int r = read_set(t, &members, &negated);
    if (r > 0 && (c == 'w' || c == 'W') && append(&members, MORE_WORD) < 0)
        r = -ENOMEM;
    if (r > 0)
        r = append_three(t->out, negated ? "[^" : "[", &members, "]");
    else if (r == 0)
        r = copy_escape(t, t->out);
    mt_text_free(&members);
    return r;
}

/* "(", with the options behind it. */
static int translate_open(struct translation *t)
{
    if (t->num_groups == MAX_GROUPS)
        return refuse(t, "groups nested so deep");
    t->groups[t->num_groups++] = t->out->bytes;
    const bool options = peek(t, 1) == '?';
    t->at += options ? 2 : 1;
    int r = append(t->out, options ? "(?" : "(");
    for (; r == 0 && options && peek(t, 0) && strchr("imx-", peek(t, 0)); t->at++) {
        if (peek(t, 0) == 'x')
            return refuse(t, "the option x");
        r = mt_text_append(t->out, peek(t, 0) == 'm' ? "s" : &t->pattern[t->at], 1);
    }
    return r;
}

/* Puts the last atom, with its quantifier, into a group. */
static int wrap_atom(struct translation *t)
{
    static const char open[] = "(?:";
    const size_t length = sizeof open - 1;
    if (append(t->out, open) < 0 || append(t->out, ")") < 0)
        return -ENOMEM;
    char *atom = t->out->data + t->atom;
    memmove(atom + length, atom, t->out->bytes - t->atom - length - 1);
    memcpy(atom, open, length);
    return 0;
}

struct interval {
    size_t bytes; /* 0: it is none, and the brace a character */
    unsigned low; /* at least; 2 stands for all above */
    bool fixed;   /* "{2}" */
};

/* "{2}", "{2,}", "{2,3}" or "{,3}". */
static struct interval interval_here(const struct translation *t)
{
    struct interval interval = {0};
    size_t length = 1, digits = 0;
    for (; isdigit((unsigned char)peek(t, length)); length++, digits++)
        interval.low = interval.low || peek(t, length) > '1' ? 2 : (unsigned)(peek(t, length) - '0');
    interval.fixed = peek(t, length) == '}';
    if (!interval.fixed && peek(t, length++) != ',')
        return interval;
    for (; isdigit((unsigned char)peek(t, length)); length++)
        digits++;
    interval.bytes = digits && peek(t, length) == '}' ? length + 1 : 0;
    return interval;
}

/* An interval that is repeated: "{1,3}+" is "{1,}", which has fewer ways to be taken. */
static int translate_brace(struct translation *t)
{
    const struct interval interval = interval_here(t);
    if (!interval.bytes) {
        t->atom = t->out->bytes;
        t->at++;
        return append(t->out, "\\{");
    }
    const char *text = t->pattern + t->at + 1, next = peek(t, interval.bytes);
    const bool repeated = next == '+' || next == '*' || next == '{' || (next == '?' && interval.fixed);
    t->at += interval.bytes;
    if (next == '+' && interval.low < 2 && !interval.fixed) {
        t->at++;
        return append(t->out, interval.low ? "{1,}" : "{0,}");
    }
    int r = append(t->out, *text == ',' ? "{0" : "{");
    if (r == 0)
        r = mt_text_append(t->out, text, interval.bytes - 1);
    return r == 0 && repeated ? wrap_atom(t) : r;
}

static int translate_one(struct translation *t)
{
    const char c = peek(t, 0);
    if (c == '{')
        return translate_brace(t);
    if (c == ')') /* what is repeated is the group */
        t->atom = t->num_groups ? t->groups[--t->num_groups] : t->out->bytes;
    else if (c != '*' && c != '+' && c != '?')
        t->atom = t->out->bytes;
    if (c == '\\' && t->at + 1 < t->bytes)
        return translate_escape(t);
    if (c == '[')
        return translate_class(t);
    if (c == '(')
        return translate_open(t);
    const size_t length = character_bytes(t);
    t->at += length;
    return mt_text_append(t->out, t->pattern + t->at - length, length);
}

int mt_regex_translate(const char *pattern, size_t bytes, struct mt_text *out, struct mt_error *error)
{
    struct translation t = {.pattern = pattern, .bytes = bytes, .out = out, .error = error};
    int r = 0;
    while (r == 0 && t.at < bytes)
        r = translate_one(&t);
    return r;
}
