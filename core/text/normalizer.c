#include "core/text/normalizer.h"

#include "core/base/utf8.h"
#include "core/text/charsmap.h"
#include "core/text/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_STEPS 32
#define MAX_TEXT_BYTES ((size_t)1024)
/* Steps that each write a text for a character multiply: no real tokenizer comes near this. NFKC makes at
 * most 11 times the bytes, and a blank as U+2581 3 of one. */
#define MOST_GROWTH ((size_t)64)
#define MOST_ADDED ((size_t)1 << 16)

enum kind {
    NORMAL_FORM,
    LOWERCASE,
    STRIP,
    STRIP_MARKS,
    PREPEND,
    REPLACE,
    REPLACE_PATTERN,
    CHARSMAP,
    CLEAN,
    SPACE_IDEOGRAPHS
};

struct step {
    enum kind kind;
    utf8proc_option_t form;
    bool newest;               /* else characters that came later are left alone */
    bool left, right;          /* strip */
    bool all_marks;            /* strip marks: else those without a width of their own */
    struct mt_text from, text; /* replace: what, by what; prepend: what */
    struct mt_regex *regex;
    struct mt_charsmap *charsmap;
};

struct mt_normalizer {
    struct step steps[MAX_STEPS];
    size_t count;
};

/* --- steps
 * -------------------------------------------------------------------------------------------------- */

/* No character below U+0300 changes under NFC, and no ASCII character under any form. */
static bool needs_no_form(const char *text, size_t bytes, utf8proc_option_t form)
{
    const bool composed = (form & UTF8PROC_COMPOSE) && !(form & UTF8PROC_COMPAT);
    const unsigned char limit = composed ? 0xcc : 0x80; /* U+0300 begins with 0xcc */
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] >= limit)
            return false;
    return true;
}

/* The form of one part, as a text of its own. */
static int put_form(const struct step *step, struct mt_view text, size_t offset, size_t length,
                    struct mt_mapped *out)
{
    utf8proc_uint8_t *mapped;
    const utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)text.text + offset,
                                                (utf8proc_ssize_t)length, &mapped, step->form);
    if (bytes < 0)
        return bytes == UTF8PROC_ERROR_NOMEM ? -ENOMEM : -EINVAL;
    const int r = mt_mapped_put(out, text, offset, length, (const char *)mapped, (size_t)bytes);
    free(mapped);
    return r;
}

/* Characters that came with Unicode 11 and later and are composed, decomposed or reordered: the reference
 * implementation goes by an older version, and leaves them where they are. */
static const struct {
    uint32_t first, last;
} later[] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x105c0, 0x105f3},
    {0x10781, 0x107ba}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efc, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x11380, 0x113ff},
    {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34},
    {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42},
    {0x16100, 0x16139}, {0x16d40, 0x16d79}, {0x16ff0, 0x16ff1}, {0x1ccd6, 0x1ccf9}, {0x1e030, 0x1e06d},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
    {0x1e5ee, 0x1e5ef}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9},
};

/* U+11A7 stands just below the first final consonant of Hangul: it composes with nothing, but utf8proc takes
 * it into the syllable before it. */
#define BEFORE_FINAL_CONSONANTS 0x11a7

static bool is_left_alone(uint32_t character, bool newest)
{
    if (character == BEFORE_FINAL_CONSONANTS || newest)
        return character == BEFORE_FINAL_CONSONANTS;
    for (size_t i = 0; i < sizeof later / sizeof *later && later[i].first <= character; i++)
        if (character <= later[i].last)
            return true;
    return false;
}

/* Where such a character begins at or after `from`, or the end of the text; its length. */
static size_t next_left_alone(struct mt_view text, size_t from, bool newest, size_t *length)
{
    *length = 0;
    while (from < text.bytes) {
        if ((unsigned char)text.text[from] < 0xdf) { /* U+07FD begins with 0xdf */
            from++;
            continue;
        }
        uint32_t character;
        const int next = mt_utf8_next(text.text + from, text.bytes - from, &character);
        if (next > 0 && is_left_alone(character, newest)) {
            *length = (size_t)next;
            return from;
        }
        from += next > 0 ? (size_t)next : 1;
    }
    return from;
}

/* Untracked at once; tracked a grapheme at a time, unless that should give another text. */
static int apply_form_to_part(const struct step *step, struct mt_view text, struct mt_mapped *out)
{
    if (needs_no_form(text.text, text.bytes, step->form))
        return mt_mapped_keep(out, text, 0, text.bytes);
    if (!out->tracked)
        return put_form(step, text, 0, text.bytes, out);
    const size_t first = out->text.bytes;
    int r = 0;
    for (size_t done = 0, length; r == 0 && done < text.bytes; done += length) {
        length = mt_grapheme_bytes(text.text + done, text.bytes - done);
        r = needs_no_form(text.text + done, length, step->form) ? mt_mapped_keep(out, text, done, length)
                                                                : put_form(step, text, done, length, out);
    }
    struct mt_mapped whole = {0};
    if (r == 0)
        r = put_form(step, text, 0, text.bytes, &whole);
    const bool same = r == 0 && whole.text.bytes == out->text.bytes - first &&
                      memcmp(whole.text.data, out->text.data + first, whole.text.bytes) == 0;
    if (r == 0 && !same) {
        out->text.bytes = out->spans.count = first;
        r = mt_mapped_put(out, text, 0, text.bytes, whole.text.data, whole.text.bytes);
    }
    mt_mapped_free(&whole);
    return r;
}

static int apply_form(const struct step *step, struct mt_view text, struct mt_mapped *out)
{
    int r = 0;
    for (size_t done = 0, length; r == 0 && done < text.bytes;) {
        const size_t end = next_left_alone(text, done, step->newest, &length);
        if (end > done)
            r = apply_form_to_part(step, mt_view_part(text, done, end - done), out);
        if (r == 0)
            r = mt_mapped_keep(out, text, end, length);
        done = end + length;
    }
    return r;
}

/* A character at a time, without the rule for the final sigma, as the reference implementation does. */
static int lowercase(struct mt_view text, struct mt_mapped *out)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.bytes;) {
        uint32_t character;
        char lower[4];
        const size_t length = (size_t)mt_utf8_next(text.text + i, text.bytes - i, &character);
        if (character == 0x130) /* the one whose lower case is two characters */
            r = mt_mapped_put(out, text, i, length, "i\xcc\x87", 3);
        else
            r = mt_mapped_put(out, text, i, length, lower,
                              mt_utf8_write((uint32_t)utf8proc_tolower((utf8proc_int32_t)character), lower));
        i += length;
    }
    return r;
}

static int strip_marks(const struct step *step, struct mt_view text, struct mt_mapped *out)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.bytes;) {
        uint32_t character;
        const size_t length = (size_t)mt_utf8_next(text.text + i, text.bytes - i, &character);
        const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)character);
        const bool other = category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
        const bool unknown = !step->all_marks && is_left_alone(character, false);
        if ((category != UTF8PROC_CATEGORY_MN || unknown) && !(step->all_marks && other))
            r = mt_mapped_keep(out, text, i, length);
        i += length;
    }
    return r;
}

/* BERT's: no control characters, and one kind of blank. */
static int clean(struct mt_view text, struct mt_mapped *out)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.bytes;) {
        uint32_t character;
        const size_t length = (size_t)mt_utf8_next(text.text + i, text.bytes - i, &character);
        const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)character);
        const bool blank = character == '\t' || character == '\n' || character == '\r';
        const bool control = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
                             category == UTF8PROC_CATEGORY_CO;
        if (blank || (!control && mt_is_white_space(character)))
            r = mt_mapped_put(out, text, i, length, " ", 1);
        else if (!control && character != 0xfffd)
            r = mt_mapped_keep(out, text, i, length);
        i += length;
    }
    return r;
}

/* The blocks that BERT's normalizer knows, one of them with the slip that the library made of U+2B820. */
static bool is_ideograph(uint32_t character)
{
    static const struct {
        uint32_t first, last;
    } blocks[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
                  {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (character >= blocks[i].first && character <= blocks[i].last)
            return true;
    return false;
}

static int space_ideographs(struct mt_view text, struct mt_mapped *out)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.bytes;) {
        uint32_t character;
        const size_t length = (size_t)mt_utf8_next(text.text + i, text.bytes - i, &character);
        const bool alone = is_ideograph(character);
        if (alone)
            r = mt_mapped_put(out, text, i, 0, " ", 1);
        if (r == 0)
            r = mt_mapped_keep(out, text, i, length);
        i += length;
        if (r == 0 && alone)
            r = mt_mapped_put(out, text, i, 0, " ", 1);
    }
    return r;
}

static int strip(const struct step *step, struct mt_view text, struct mt_mapped *out)
{
    size_t start = 0, end = text.bytes;
    uint32_t character;
    while (step->left && start < end) {
        const int length = mt_utf8_next(text.text + start, end - start, &character);
        if (!mt_is_white_space(character))
            break;
        start += (size_t)length;
    }
    while (step->right && start < end) {
        const size_t length = mt_utf8_before(text.text, end, &character);
        if (!mt_is_white_space(character))
            break;
        end -= length;
    }
    return mt_mapped_keep(out, text, start, end - start);
}

static int replace(const struct step *step, struct mt_view text, size_t most, struct mt_mapped *out)
{
    size_t done = 0;
    int r = 0;
    while (r == 0 && done < text.bytes) {
        const char *found = memmem(text.text + done, text.bytes - done, step->from.data, step->from.bytes);
        const size_t plain = found ? (size_t)(found - text.text) - done : text.bytes - done;
        r = mt_mapped_keep(out, text, done, plain);
        done += plain;
        if (r == 0 && found) {
            r = mt_mapped_put(out, text, done, step->from.bytes, step->text.data, step->text.bytes);
            done += step->from.bytes;
        }
        if (r == 0 && out->text.bytes > most)
            return -E2BIG;
    }
    return r;
}

static int replace_pattern(const struct step *step, struct mt_regex_scratch *scratch, struct mt_view text,
                           size_t most, struct mt_mapped *out)
{
    size_t done = 0;
    for (;;) {
        size_t start, end;
        int r = mt_regex_next(step->regex, scratch, text.text, text.bytes, done, &start, &end);
        if (r <= 0)
            return r < 0 ? r : mt_mapped_keep(out, text, done, text.bytes - done);
        if (mt_mapped_keep(out, text, done, start - done) < 0 ||
            mt_mapped_put(out, text, start, end - start, step->text.data, step->text.bytes) < 0)
            return -ENOMEM;
        if (out->text.bytes > most)
            return -E2BIG;
        done = end;
    }
}

static int apply(const struct step *step, struct mt_regex_scratch *scratch, struct mt_view text, size_t most,
                 struct mt_mapped *out)
{
    switch (step->kind) {
    case NORMAL_FORM:
        return apply_form(step, text, out);
    case LOWERCASE:
        return lowercase(text, out);
    case STRIP:
        return strip(step, text, out);
    case STRIP_MARKS:
        return strip_marks(step, text, out);
    case CLEAN:
        return clean(text, out);
    case SPACE_IDEOGRAPHS:
        return space_ideographs(text, out);
    case PREPEND:
        if (text.bytes && mt_mapped_put(out, text, 0, 0, step->text.data, step->text.bytes) < 0)
            return -ENOMEM;
        return mt_mapped_keep(out, text, 0, text.bytes);
    case REPLACE:
        return replace(step, text, most, out);
    case REPLACE_PATTERN:
        return replace_pattern(step, scratch, text, most, out);
    case CHARSMAP:
        return mt_charsmap_apply(step->charsmap, text, out);
    }
    return -EINVAL;
}

int mt_normalizer_apply(const struct mt_normalizer *normalizer, struct mt_regex_scratch *scratch,
                        struct mt_mapped *text, struct mt_mapped *spare)
{
    const size_t most = text->text.bytes * MOST_GROWTH + MOST_ADDED;
    for (size_t i = 0; i < normalizer->count; i++) {
        mt_mapped_clear(spare);
        spare->tracked = text->tracked;
        int r = mt_text_append(&spare->text, "", 0);
        if (r == 0)
            r = apply(&normalizer->steps[i], scratch, mt_mapped_view(text), most, spare);
        if (r == 0 && spare->text.bytes > most)
            r = -E2BIG;
        if (r < 0)
            return r;
        const struct mt_mapped swapped = *text;
        *text = *spare;
        *spare = swapped;
    }
    return 0;
}

bool mt_normalizer_is_empty(const struct mt_normalizer *normalizer)
{
    return normalizer->count == 0;
}

/* --- loading
 * ------------------------------------------------------------------------------------------------ */

static int copy_text(struct mt_text *text, const json_t *value, struct mt_error *error)
{
    if (!json_is_string(value))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "a normalizer lacks its text");
    if (json_string_length(value) > MAX_TEXT_BYTES)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "a normalizer's text is of %zu bytes; the bound is %zu",
                            json_string_length(value), MAX_TEXT_BYTES);
    if (mt_text_append(text, json_string_value(value), json_string_length(value)) < 0)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
    return 0;
}

static int load_replace(const json_t *json, struct step *step, struct mt_error *error)
{
    const json_t *pattern = json_object_get(json, "pattern");
    const json_t *text = json_object_get(pattern, "String"), *regex = json_object_get(pattern, "Regex");
    int r = copy_text(&step->text, json_object_get(json, "content"), error);
    if (r < 0)
        return r;
    if (regex) {
        step->kind = REPLACE_PATTERN;
        if (!json_is_string(regex))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "a normalizer's pattern is not a text");
        return mt_regex_compile(json_string_value(regex), json_string_length(regex), &step->regex, error);
    }
    step->kind = REPLACE;
    r = copy_text(&step->from, text, error);
    if (r == 0 && !step->from.bytes)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "a normalizer replaces the empty text");
    return r;
}

static const struct {
    const char *name;
    utf8proc_option_t form;
} forms[] = {
    {"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
    {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
    {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
};

static int load_step(const json_t *json, const char *type, struct step *step, struct mt_error *error)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(type, forms[i].name) == 0) {
            step->kind = NORMAL_FORM;
            step->form = forms[i].form;
            return 0;
        }
    if (strcmp(type, "Lowercase") == 0) {
        step->kind = LOWERCASE;
        return 0;
    }
    if (strcmp(type, "StripAccents") == 0) {
        step->kind = STRIP_MARKS;
        step->all_marks = true;
        return 0;
    }
    if (strcmp(type, "Strip") == 0) {
        step->kind = STRIP;
        step->left = json_is_true(json_object_get(json, "strip_left"));
        step->right = json_is_true(json_object_get(json, "strip_right"));
        return 0;
    }
    if (strcmp(type, "Prepend") == 0) {
        step->kind = PREPEND;
        return copy_text(&step->text, json_object_get(json, "prepend"), error);
    }
    if (strcmp(type, "Precompiled") == 0) {
        const char *rules = json_string_value(json_object_get(json, "precompiled_charsmap"));
        step->kind = CHARSMAP;
        return mt_charsmap_load(rules ? rules : "", &step->charsmap, error);
    }
    if (strcmp(type, "Replace") == 0)
        return load_replace(json, step, error);
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL, "the normalizer %s is not supported yet", type);
}

static int no_room(struct mt_error *error)
{
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "there are more than %d normalizers", MAX_STEPS);
}

/* Several steps in one. Accents go with the capitals where the file does not say. */
static int load_bert(struct mt_normalizer *normalizer, const json_t *json, struct mt_error *error)
{
    const bool small = !json_is_false(json_object_get(json, "lowercase"));
    const json_t *accents = json_object_get(json, "strip_accents");
    if (normalizer->count + 5 > MAX_STEPS)
        return no_room(error);
    struct step *step = normalizer->steps + normalizer->count;
    if (!json_is_false(json_object_get(json, "clean_text")))
        *step++ = (struct step){.kind = CLEAN};
    if (!json_is_false(json_object_get(json, "handle_chinese_chars")))
        *step++ = (struct step){.kind = SPACE_IDEOGRAPHS};
    if (json_is_boolean(accents) ? json_is_true(accents) : small) {
        *step++ = (struct step){.kind = NORMAL_FORM, .form = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE};
        *step++ = (struct step){.kind = STRIP_MARKS};
    }
    if (small)
        *step++ = (struct step){.kind = LOWERCASE};
    normalizer->count = (size_t)(step - normalizer->steps);
    return 0;
}

static int load(struct mt_normalizer *normalizer, const json_t *json, unsigned depth, struct mt_error *error)
{
    if (!json || json_is_null(json))
        return 0;
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "a normalizer has no type");
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(json, "normalizers"), *item;
        size_t i;
        if (depth == 8)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "normalizers are nested too deep");
        int r = 0;
        json_array_foreach(list, i, item) if (r == 0) r = load(normalizer, item, depth + 1, error);
        return r;
    }
    if (strcmp(type, "BertNormalizer") == 0)
        return load_bert(normalizer, json, error);
    if (normalizer->count == MAX_STEPS)
        return no_room(error);
    return load_step(json, type, &normalizer->steps[normalizer->count++], error);
}

int mt_normalizer_load(const json_t *json, struct mt_normalizer **result, struct mt_error *error)
{
    *result = NULL;
    struct mt_normalizer *normalizer = calloc(1, sizeof *normalizer);
    if (!normalizer)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
    int r = load(normalizer, json, 0, error);
    if (r < 0) {
        mt_normalizer_free(normalizer);
        return r;
    }
    *result = normalizer;
    return 0;
}

struct mt_normalizer *mt_normalizer_new_nfc(void)
{
    struct mt_normalizer *normalizer = calloc(1, sizeof *normalizer);
    if (normalizer)
        normalizer->steps[normalizer->count++] =
            (struct step){.kind = NORMAL_FORM, .form = UTF8PROC_STABLE | UTF8PROC_COMPOSE, .newest = true};
    return normalizer;
}

void mt_normalizer_free(struct mt_normalizer *normalizer)
{
    if (!normalizer)
        return;
    for (size_t i = 0; i < normalizer->count; i++) {
        mt_text_free(&normalizer->steps[i].from);
        mt_text_free(&normalizer->steps[i].text);
        mt_regex_free(normalizer->steps[i].regex);
        mt_charsmap_free(normalizer->steps[i].charsmap);
    }
    free(normalizer);
}
