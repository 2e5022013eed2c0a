/* What is found by hand is what PCRE2 finds, in any text; and each character's class is that of the patterns.
 */
#include "core/base/utf8.h"
#include "core/text/character_class.h"
#include "core/text/regex.h"
#include "core/text/scanner.h"
#include "tests/unit/support.h"

static struct mt_regex *compile(const char *pattern)
{
    struct mt_error error = {0};
    struct mt_regex *regex;
    mt_assert_ok(mt_regex_compile(pattern, strlen(pattern), &regex, &error), &error);
    return regex;
}

static void characters_have_the_classes_of_the_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        unsigned class;
    } classes[] = {
        {"\\p{L}", MT_CLASS_L},   {"\\p{Lu}", MT_CLASS_LU}, {"\\p{Ll}", MT_CLASS_LL},
        {"\\p{Lt}", MT_CLASS_LT}, {"\\p{Lm}", MT_CLASS_LM}, {"\\p{Lo}", MT_CLASS_LO},
        {"\\p{M}", MT_CLASS_M},   {"\\p{N}", MT_CLASS_N},   {"\\p{P}", MT_CLASS_P},
        {"\\p{S}", MT_CLASS_S},   {"\\s", MT_CLASS_SPACE},  {"[\\r\\n]", MT_CLASS_NEWLINE},
    };
    struct mt_regex_scratch *scratch = mt_regex_scratch_new();
    const uint16_t *table = mt_character_classes();
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        struct mt_regex *regex = compile(classes[i].pattern);
        for (uint32_t c = 0; c < 0x110000; c++) {
            char text[4];
            size_t start, end, length;
            if (c >= 0xd800 && c < 0xe000)
                continue;
            const size_t bytes = mt_utf8_write(c, text);
            const int found = mt_regex_next(regex, scratch, text, bytes, 0, &start, &end);
            if (found != !!(table[c] & classes[i].class) || mt_class_at(table, text, &length) != table[c])
                fail_msg("U+%04X and %s", c, classes[i].pattern);
        }
        mt_regex_free(regex);
    }
    mt_regex_scratch_free(scratch);
}

/* --- random texts -----------------------------------------------------------------------------------------
 */

static uint64_t next_random(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *random >> 33;
}

/* Characters of every class, those that the patterns name most often. */
static size_t random_text(uint64_t *random, char *text)
{
    static const uint32_t characters[] = {
        ' ',     ' ',    ' ',    '\n',   '\r',    '\t',   '\'',   's',   'S',     't',     'r',
        'E',     'v',    'l',    'L',    'm',     'd',    'a',    'Z',   '0',     '7',     '/',
        '.',     '_',    '$',    0x17f,  0x212a,  0xe9,   0xc9,   0x1c5, 0x2b0,   0x301,   0x903,
        0x4e00,  0x9fa5, 0x3042, 0x30a2, 0x30fc,  0x303f, 0x9fa6, 0xa0,  0x3000,  0x85,    0x200b,
        0x180e,  0x663,  0x2167, 0xbd,   0x2019,  0x20ac, 0x0,    0x7f,  0x1f600, 0x1d7d8, 0x10400,
        0x10428, 0x378,  0x1c89, 0x2028, 0x11bf0, 0xfeff, 0x61c,  0xe000};
    const size_t count = next_random(random) % 24;
    size_t bytes = 0;
    uint32_t c = ' ';
    for (size_t i = 0; i < count; i++) {
        if (next_random(random) % 4)
            c = characters[next_random(random) % (sizeof characters / sizeof *characters)];
        if (next_random(random) % 200 == 0)
            c = (uint32_t)(next_random(random) % 0xd800);
        bytes += mt_utf8_write(c, text + bytes);
    }
    return bytes;
}

static void scanners_find_what_the_patterns_find(void **state)
{
    (void)state;
    struct mt_regex_scratch *scratch = mt_regex_scratch_new();
    const uint16_t *classes = mt_character_classes();
    for (const char *const *pattern = mt_scanner_patterns(); *pattern; pattern++) {
        struct mt_regex *regex = compile(*pattern);
        const mt_scanner scanner = mt_scanner_find(*pattern, strlen(*pattern));
        uint64_t random = 1;
        assert_non_null(scanner);
        for (size_t i = 0; i < 200000; i++) {
            char text[128];
            const size_t bytes = random_text(&random, text);
            for (size_t from = 0; from < bytes;) {
                size_t start = 0, end = 0, expected_start = 0, expected_end = 0;
                const int expected =
                    mt_regex_next(regex, scratch, text, bytes, from, &expected_start, &expected_end);
                const bool found = scanner(classes, text, bytes, from, &start, &end);
                if (found != (expected > 0) || (found && (start != expected_start || end != expected_end)))
                    fail_msg("%s in \"%.*s\" from %zu: %zu to %zu instead of %zu to %zu", *pattern,
                             (int)bytes, text, from, start, end, expected_start, expected_end);
                if (!found)
                    break;
                from = end;
            }
        }
        mt_regex_free(regex);
    }
    mt_regex_scratch_free(scratch);
}

static void other_patterns_have_no_scanner(void **state)
{
    (void)state;
    assert_null(mt_scanner_find("\\p{L}+", 6));
    assert_null(mt_scanner_find("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_have_the_classes_of_the_patterns),
        cmocka_unit_test(scanners_find_what_the_patterns_find),
        cmocka_unit_test(other_patterns_have_no_scanner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
