/* A scanner says at each place how long the pattern's match there is, going through its alternatives in
 * order; which of the shorter ones a repetition falls back to is thought out, not tried. */
#include "core/text/scanner.h"

#include "core/text/character_class.h"
#include "core/text/patterns.h"

#include <string.h>

struct at {
    const uint16_t *classes;
    const char *text;
    size_t bytes;
};

/* The class of the character at a place, 0 at the end of the text; `length` is 0 there. */
static inline unsigned class_at(const struct at *at, size_t place, size_t *length)
{
    if (place >= at->bytes) {
        *length = 0;
        return 0;
    }
    return mt_class_at(at->classes, at->text + place, length);
}

/* The end of a run of characters that have any of the classes. */
static inline size_t run_of(const struct at *at, size_t place, unsigned classes)
{
    while (place < at->bytes) {
        size_t length;
        if (!(mt_class_at(at->classes, at->text + place, &length) & classes))
            break;
        place += length;
    }
    return place;
}

static inline size_t run_without(const struct at *at, size_t place, unsigned classes)
{
    while (place < at->bytes) {
        size_t length;
        if (mt_class_at(at->classes, at->text + place, &length) & classes)
            break;
        place += length;
    }
    return place;
}

/* "'s" and the like; 0 where there is none. */
static size_t contraction(const struct at *at, size_t place, bool any_case)
{
    if (place + 1 >= at->bytes || at->text[place] != '\'')
        return 0;
    const unsigned char *text = (const unsigned char *)at->text + place + 1;
    const size_t left = at->bytes - place - 1;
    if (any_case && left >= 2 && text[0] == 0xc5 && text[1] == 0xbf) /* the long s */
        return 3;
    const unsigned fold = any_case ? 0x20 : 0;
    const unsigned first = text[0] | (text[0] >= 'A' && text[0] <= 'Z' ? fold : 0);
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return 2;
    if (left < 2)
        return 0;
    const unsigned second = text[1] | (text[1] >= 'A' && text[1] <= 'Z' ? fold : 0);
    return (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l')
               ? 3
               : 0;
}

/* \s+(?!\S)|\s+ at white space: all of it at the end of the text, else all but the last, at least one. */
static size_t blanks(const struct at *at, size_t place)
{
    size_t length, last = place, end = place;
    while (end < at->bytes && mt_class_at(at->classes, at->text + end, &length) & MT_CLASS_SPACE) {
        last = end;
        end += length;
    }
    return end == at->bytes || last == place ? end : last;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+: up to the last newline, where there is one. */
static size_t lines_or_blanks(const struct at *at, size_t place)
{
    size_t length, newline = 0, end = place;
    unsigned class;
    while (end < at->bytes && (class = mt_class_at(at->classes, at->text + end, &length)) & MT_CLASS_SPACE) {
        end += length;
        if (class & MT_CLASS_NEWLINE)
            newline = end;
    }
    return newline ? newline : blanks(at, place);
}

/* --- GPT-2 ------------------------------------------------------------------------------------------------
 */

static size_t gpt2_at(const struct at *at, size_t place)
{
    const unsigned word = MT_CLASS_L | MT_CLASS_N | MT_CLASS_SPACE;
    size_t length, behind;
    unsigned class = class_at(at, place, &length);
    size_t done = contraction(at, place, false);
    if (done)
        return place + done;
    done = place;
    if (at->text[place] == ' ') {
        const unsigned next = class_at(at, place + 1, &behind);
        if (!behind || next & MT_CLASS_SPACE)
            return blanks(at, place);
        done = place + 1;
        class = next;
    }
    if (class & MT_CLASS_L)
        return run_of(at, done, MT_CLASS_L);
    if (class & MT_CLASS_N)
        return run_of(at, done, MT_CLASS_N);
    return class & MT_CLASS_SPACE ? blanks(at, place) : run_without(at, done, word);
}

/* --- Llama 3, Qwen 2 --------------------------------------------------------------------------------------
 */

/* A run of digits, so many at most. */
static size_t digits(const struct at *at, size_t place, unsigned most)
{
    size_t length;
    for (unsigned count = 0; count < most && class_at(at, place, &length) & MT_CLASS_N; count++)
        place += length;
    return place;
}

/* The alternatives behind the words: digits, signs with what of `tail` follows them, newlines, blanks. */
static size_t signs_at(const struct at *at, size_t place, unsigned class, unsigned most_digits, bool slash)
{
    size_t length, done = place;
    if (class & MT_CLASS_N)
        return digits(at, place, most_digits);
    if (at->text[place] == ' ') {
        const unsigned next = class_at(at, place + 1, &length);
        if (!length || next & (MT_CLASS_SPACE | MT_CLASS_L | MT_CLASS_N))
            return lines_or_blanks(at, place);
        done = place + 1;
    } else if (class & MT_CLASS_SPACE) {
        return lines_or_blanks(at, place);
    }
    done = run_without(at, done, MT_CLASS_L | MT_CLASS_N | MT_CLASS_SPACE);
    while (done < at->bytes &&
           (at->text[done] == '\r' || at->text[done] == '\n' || (slash && at->text[done] == '/')))
        done++;
    return done;
}

static inline size_t llama3_at(const struct at *at, size_t place, unsigned most_digits)
{
    size_t length, behind;
    const unsigned class = class_at(at, place, &length);
    if (class & MT_CLASS_L)
        return run_of(at, place, MT_CLASS_L);
    const size_t done = contraction(at, place, true);
    if (done)
        return place + done;
    if (!(class & (MT_CLASS_N | MT_CLASS_NEWLINE)) && class_at(at, place + length, &behind) & MT_CLASS_L)
        return run_of(at, place + length, MT_CLASS_L);
    return signs_at(at, place, class, most_digits, false);
}

/* --- GPT-4o -----------------------------------------------------------------------------------------------
 */

#define BOTH (MT_CLASS_LM | MT_CLASS_LO | MT_CLASS_M)
#define UPPER (MT_CLASS_LU | MT_CLASS_LT | BOTH)
#define LOWER (MT_CLASS_LL | BOTH)

/* UPPER*LOWER+ at a place; its end, or 0. What can be both is given back to the second half. */
static size_t small_word(const struct at *at, size_t place)
{
    size_t length, both = 0, end = place;
    unsigned class;
    while ((class = class_at(at, end, &length)) & UPPER) {
        end += length;
        if (class & BOTH)
            both = end;
    }
    return class & LOWER ? run_of(at, end, LOWER) : both;
}

static size_t gpt4o_at(const struct at *at, size_t place)
{
    size_t length, end = 0;
    const unsigned class = class_at(at, place, &length);
    const bool may_lead = !(class & (MT_CLASS_L | MT_CLASS_N | MT_CLASS_NEWLINE));
    if (may_lead)
        end = small_word(at, place + length);
    if (!end)
        end = small_word(at, place);
    if (!end && may_lead) { /* then the letters that follow are all UPPER alone */
        end = run_of(at, place + length, UPPER);
        end = end == place + length ? 0 : end;
    }
    if (!end && class & UPPER)
        end = run_of(at, place, UPPER);
    return end ? end + contraction(at, end, true) : signs_at(at, place, class, 3, true);
}

/* --- DeepSeek ---------------------------------------------------------------------------------------------
 */

static bool is_ascii_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static size_t deepseek_at(const struct at *at, size_t place)
{
    size_t length, behind;
    const unsigned class = class_at(at, place, &length);
    const char c = at->text[place];
    if (c > ' ' && c < 0x7f && class & (MT_CLASS_P | MT_CLASS_S) && place + 1 < at->bytes &&
        is_ascii_letter(at->text[place + 1])) {
        size_t end = place + 2;
        while (end < at->bytes && is_ascii_letter(at->text[end]))
            end++;
        return end;
    }
    if (class & (MT_CLASS_L | MT_CLASS_M))
        return run_of(at, place, MT_CLASS_L | MT_CLASS_M);
    const unsigned next = class_at(at, place + length, &behind);
    if (!(class & (MT_CLASS_P | MT_CLASS_S | MT_CLASS_NEWLINE)) && next & (MT_CLASS_L | MT_CLASS_M))
        return run_of(at, place + length, MT_CLASS_L | MT_CLASS_M);
    size_t end = class & (MT_CLASS_P | MT_CLASS_S)              ? place
                 : c == ' ' && next & (MT_CLASS_P | MT_CLASS_S) ? place + 1
                                                                : SIZE_MAX;
    if (end != SIZE_MAX) {
        end = run_of(at, end, MT_CLASS_P | MT_CLASS_S);
        return run_of(at, end, MT_CLASS_NEWLINE);
    }
    return class & MT_CLASS_SPACE ? lines_or_blanks(at, place) : 0;
}

/* --- what is found ----------------------------------------------------------------------------------------
 */

/* Matches cover all text. */
#define COVERING(name, match)                                                                                \
    static bool name(const uint16_t *classes, const char *text, size_t bytes, size_t from, size_t *start,    \
                     size_t *end)                                                                            \
    {                                                                                                        \
        const struct at at = {classes, text, bytes};                                                         \
        *start = from;                                                                                       \
        *end = from < bytes ? match : from;                                                                  \
        return from < bytes;                                                                                 \
    }
COVERING(scan_gpt2, gpt2_at(&at, from))
COVERING(scan_llama3, llama3_at(&at, from, 3))
COVERING(scan_qwen2, llama3_at(&at, from, 1))
COVERING(scan_gpt4o, gpt4o_at(&at, from))

static bool scan_deepseek(const uint16_t *classes, const char *text, size_t bytes, size_t from, size_t *start,
                          size_t *end)
{
    const struct at at = {classes, text, bytes};
    for (size_t length; from < bytes; from += length) {
        *start = from;
        *end = deepseek_at(&at, from);
        if (*end)
            return true;
        mt_class_at(classes, text + from, &length);
    }
    return false;
}

static bool scan_digits(const uint16_t *classes, const char *text, size_t bytes, size_t from, unsigned most,
                        size_t *start, size_t *end)
{
    const struct at at = {classes, text, bytes};
    *start = run_without(&at, from, MT_CLASS_N);
    *end = digits(&at, *start, most);
    return *start < bytes;
}

static bool scan_three_digits(const uint16_t *classes, const char *text, size_t bytes, size_t from,
                              size_t *start, size_t *end)
{
    return scan_digits(classes, text, bytes, from, 3, start, end);
}

static bool scan_digit(const uint16_t *classes, const char *text, size_t bytes, size_t from, size_t *start,
                       size_t *end)
{
    return scan_digits(classes, text, bytes, from, 1, start, end);
}

/* U+3040 to U+30FF and U+4E00 to U+9FA5: e3 81 80 to e3 83 bf, e4 b8 80 to e9 be a5. */
static bool is_east_asian(const char *text, size_t left)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0xe3 || at[0] > 0xe9 || left < 3)
        return false;
    const uint32_t character = (at[0] & 0xfu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
    return (character >= 0x3040 && character <= 0x30ff) || (character >= 0x4e00 && character <= 0x9fa5);
}

static bool scan_east_asian(const uint16_t *classes, const char *text, size_t bytes, size_t from,
                            size_t *start, size_t *end)
{
    (void)classes;
    while (from < bytes && !is_east_asian(text + from, bytes - from))
        from++; /* bytes inside of a character are none that begins one */
    *start = from;
    while (from < bytes && is_east_asian(text + from, bytes - from))
        from += 3;
    *end = from;
    return *end > *start;
}

/* --- by pattern -------------------------------------------------------------------------------------------
 */

static const char *const patterns[] = {
    MT_GPT2_WORDS,
    MT_WORDS("\\p{N}{1,3}"),
    MT_WORDS("\\p{N}"),
    MT_CASED_WORDS(MT_CONTRACTIONS "?", "\\p{N}{1,3}"),
    MT_DEEPSEEK_WORDS,
    "\\p{N}{1,3}",
    "\\p{N}",
    MT_DEEPSEEK_EAST_ASIAN,
    NULL,
};
static const mt_scanner scanners[] = {scan_gpt2,     scan_llama3,       scan_qwen2, scan_gpt4o,
                                      scan_deepseek, scan_three_digits, scan_digit, scan_east_asian};

mt_scanner mt_scanner_find(const char *pattern, size_t bytes)
{
    for (size_t i = 0; patterns[i]; i++)
        if (strlen(patterns[i]) == bytes && memcmp(patterns[i], pattern, bytes) == 0)
            return scanners[i];
    return NULL;
}

const char *const *mt_scanner_patterns(void)
{
    return patterns;
}
