/* Stages, each of which cuts what the one before it left. A stage that changes the text (a blank before it,
 * blanks as another character) works in a text of its own. */
#include "core/text/pretokenizer.h"

#include "core/base/utf8.h"
#include "core/text/byte_alphabet.h"
#include "core/text/character_class.h"
#include "core/text/patterns.h"
#include "core/text/scanner.h"

#include <stdlib.h>
#include <string.h>

/* Stages behind a ByteLevel see bytes as characters of the byte alphabet, and a number in ¼ that is a byte of
 * a letter: they stand between WRITE_BYTES and READ_BYTES. */
enum kind { SPLIT, PREFIX_BLANK, METASPACE, WRITE_BYTES, READ_BYTES };

/* What becomes of a match, and of the text between matches (HF's SplitDelimiterBehavior). */
enum behavior { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };

enum prepend { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

struct stage {
    enum kind kind;
    struct mt_regex *regex;
    mt_scanner scanner; /* finds the same, in place of `regex` */
    enum behavior behavior;
    bool invert; /* matches and what is between them change roles */
    char replacement[5];
    enum prepend prepend;
};

struct mt_pretokenizer {
    struct stage stages[MT_PRETOKENIZER_STAGES];
    size_t count;
    bool byte_level;
    bool writes_bytes; /* has WRITE_BYTES */
};

struct run {
    const struct mt_pretokenizer *pretokenizer;
    struct mt_pretokenizer_scratch *scratch;
    int (*word)(void *context, struct mt_view word);
    void *context;
};

/* --- running
 * ------------------------------------------------------------------------------------------------ */

static int run_stage(const struct run *run, size_t index, struct mt_view text, bool at_start);

/* As mt_regex_find, and mt_regex_next without `empty`. */
static int next_match(const struct stage *stage, struct mt_regex_scratch *scratch, struct mt_view text,
                      size_t from, bool empty, size_t *start, size_t *end)
{
    if (stage->scanner)
        return stage->scanner(mt_character_classes(), text.text, text.bytes, from, start, end);
    return (empty ? mt_regex_find : mt_regex_next)(stage->regex, scratch, text.text, text.bytes, from, start,
                                                   end);
}

/* Isolated: matches and what is between them, all as they are. Removed: one of the two. An empty match cuts
 * what is between, unless it stands right behind another match. */
static int split_directly(const struct run *run, size_t index, struct mt_view text, bool at_start)
{
    const struct stage *stage = &run->pretokenizer->stages[index];
    const bool matches = stage->behavior == ISOLATED || stage->invert;
    const bool between = stage->behavior == ISOLATED || !stage->invert;
    size_t done = 0, from = 0;
    while (done < text.bytes) {
        size_t start, end;
        int r = next_match(stage, run->scratch->regex, text, from, true, &start, &end);
        if (r < 0)
            return r;
        if (r == 0)
            start = end = text.bytes;
        if (start > done && between) {
            r = run_stage(run, index + 1, mt_view_part(text, done, start - done), at_start && done == 0);
            if (r != 0)
                return r;
        }
        if (end > start && matches) {
            r = run_stage(run, index + 1, mt_view_part(text, start, end - start), at_start && start == 0);
            if (r != 0)
                return r;
        }
        done = end;
        from = end > start ? end : mt_regex_behind(text.text, text.bytes, end);
    }
    return 0;
}

/* Ranges [start, end, is match] of the whole text. */
static int find_ranges(const struct stage *stage, struct mt_regex_scratch *scratch, struct mt_view text,
                       struct mt_ids *ranges)
{
    if (text.bytes > INT32_MAX)
        return -EINVAL;
    ranges->count = 0;
    for (size_t done = 0; done < text.bytes;) {
        size_t start, end;
        int r = next_match(stage, scratch, text, done, false, &start, &end);
        if (r < 0)
            return r;
        if (r == 0)
            start = end = text.bytes;
        const int32_t before[] = {(int32_t)done, (int32_t)start, stage->invert};
        const int32_t match[] = {(int32_t)start, (int32_t)end, !stage->invert};
        if ((start > done && mt_ids_append(ranges, before, 3) < 0) ||
            (end > start && mt_ids_append(ranges, match, 3) < 0))
            return -ENOMEM;
        done = end;
    }
    return 0;
}

/* Joins neighbours in place: a range goes with the one before it, or after it, as the behavior says. */
static void merge_ranges(enum behavior behavior, struct mt_ids *ranges)
{
    int32_t *data = ranges->data;
    const size_t count = ranges->count / 3;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const bool match = data[3 * i + 2], before = i && data[3 * (i - 1) + 2];
        bool join = false;
        if (i && behavior == CONTIGUOUS)
            join = match == before;
        else if (i && behavior == MERGED_WITH_PREVIOUS)
            join = match && !before;
        else if (i && behavior == MERGED_WITH_NEXT)
            join = before && !match;
        if (join) {
            data[3 * (kept - 1) + 1] = data[3 * i + 1];
        } else {
            data[3 * kept] = data[3 * i];
            data[3 * kept + 1] = data[3 * i + 1];
            kept++;
        }
        /* The flags stay at their place i: `kept` never passes it. */
        data[3 * i + 2] = match;
    }
    ranges->count = kept;
}

static int split_merged(const struct run *run, size_t index, struct mt_view text, bool at_start)
{
    const struct stage *stage = &run->pretokenizer->stages[index];
    struct mt_ids *ranges = &run->scratch->ranges[index];
    int r = find_ranges(stage, run->scratch->regex, text, ranges);
    if (r < 0)
        return r;
    merge_ranges(stage->behavior, ranges);
    for (size_t i = 0; r == 0 && i < ranges->count; i++) {
        const size_t start = (size_t)ranges->data[3 * i], end = (size_t)ranges->data[3 * i + 1];
        r = run_stage(run, index + 1, mt_view_part(text, start, end - start), at_start && start == 0);
    }
    return r;
}

/* The stage's own text, empty. */
static struct mt_mapped *own_text(const struct run *run, size_t index, struct mt_view text)
{
    struct mt_mapped *own = &run->scratch->texts[index];
    mt_mapped_clear(own);
    own->tracked = text.spans;
    return own;
}

static int prefix_blank(const struct run *run, size_t index, struct mt_view text, bool at_start)
{
    if (text.bytes && text.text[0] == ' ')
        return run_stage(run, index + 1, text, at_start);
    struct mt_mapped *own = own_text(run, index, text);
    if (mt_mapped_put(own, text, 0, 0, " ", 1) < 0 || mt_mapped_keep(own, text, 0, text.bytes) < 0)
        return -ENOMEM;
    return run_stage(run, index + 1, mt_mapped_view(own), at_start);
}

/* Blanks become the replacement, and each begins a word. */
static int metaspace(const struct run *run, size_t index, struct mt_view text, bool at_start)
{
    const struct stage *stage = &run->pretokenizer->stages[index];
    const size_t length = strlen(stage->replacement);
    const bool there =
        text.bytes &&
        (text.text[0] == ' ' || (text.bytes >= length && memcmp(text.text, stage->replacement, length) == 0));
    struct mt_mapped *own = own_text(run, index, text);
    int r = 0;
    if (!there && (stage->prepend == PREPEND_ALWAYS || (stage->prepend == PREPEND_FIRST && at_start)))
        r = mt_mapped_put(own, text, 0, 0, stage->replacement, length);
    for (size_t done = 0; r == 0 && done < text.bytes;) {
        const char *blank = memchr(text.text + done, ' ', text.bytes - done);
        const size_t plain = blank ? (size_t)(blank - text.text) - done : text.bytes - done;
        r = mt_mapped_keep(own, text, done, plain);
        done += plain;
        if (r == 0 && blank)
            r = mt_mapped_put(own, text, done++, 1, stage->replacement, length);
    }
    if (r < 0)
        return r;
    return stage->regex ? split_merged(run, index, mt_mapped_view(own), at_start)
                        : run_stage(run, index + 1, mt_mapped_view(own), at_start);
}

static int write_bytes(const struct run *run, size_t index, struct mt_view text, bool at_start)
{
    struct mt_mapped *own = own_text(run, index, text);
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.bytes; i++) {
        char character[4];
        r = mt_mapped_put(own, text, i, 1, character,
                          mt_utf8_write(mt_byte_alphabet_character((uint8_t)text.text[i]), character));
    }
    return r < 0 ? r : run_stage(run, index + 1, mt_mapped_view(own), at_start);
}

static int read_bytes(const struct run *run, size_t index, struct mt_view text, bool at_start)
{
    struct mt_mapped *own = own_text(run, index, text);
    int r = 0;
    for (size_t i = 0, length; r == 0 && i < text.bytes; i += length) {
        uint32_t character;
        length = (size_t)mt_utf8_next(text.text + i, text.bytes - i, &character);
        r = mt_mapped_put(own, text, i, length, &(char){(char)mt_byte_alphabet_byte(character)}, 1);
    }
    return r < 0 ? r : run_stage(run, index + 1, mt_mapped_view(own), at_start);
}

static int run_stage(const struct run *run, size_t index, struct mt_view text, bool at_start)
{
    if (index == run->pretokenizer->count)
        return run->word(run->context, text);
    switch (run->pretokenizer->stages[index].kind) {
    case PREFIX_BLANK:
        return prefix_blank(run, index, text, at_start);
    case METASPACE:
        return metaspace(run, index, text, at_start);
    case WRITE_BYTES:
        return write_bytes(run, index, text, at_start);
    case READ_BYTES:
        return read_bytes(run, index, text, at_start);
    case SPLIT:
        break;
    }
    const enum behavior behavior = run->pretokenizer->stages[index].behavior;
    return behavior == ISOLATED || behavior == REMOVED ? split_directly(run, index, text, at_start)
                                                       : split_merged(run, index, text, at_start);
}

int mt_pretokenizer_run(const struct mt_pretokenizer *pretokenizer, struct mt_pretokenizer_scratch *scratch,
                        struct mt_view text, bool at_start, int (*word)(void *context, struct mt_view word),
                        void *context)
{
    const struct run run = {
        .pretokenizer = pretokenizer, .scratch = scratch, .word = word, .context = context};
    return text.bytes ? run_stage(&run, 0, text, at_start) : 0;
}

void mt_pretokenizer_scratch_free(struct mt_pretokenizer_scratch *scratch)
{
    mt_regex_scratch_free(scratch->regex);
    for (size_t i = 0; i < MT_PRETOKENIZER_STAGES; i++) {
        mt_mapped_free(&scratch->texts[i]);
        mt_ids_free(&scratch->ranges[i]);
    }
}

/* --- loading
 * ------------------------------------------------------------------------------------------------ */

#define bad_model(error, ...) mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, __VA_ARGS__)

static int add_stage(struct mt_pretokenizer *pretokenizer, struct stage stage, struct mt_error *error)
{
    if (pretokenizer->count == MT_PRETOKENIZER_STAGES) {
        mt_regex_free(stage.regex);
        return bad_model(error, "there are more than %d pre-tokenizers", MT_PRETOKENIZER_STAGES);
    }
    pretokenizer->stages[pretokenizer->count++] = stage;
    return 0;
}

static int add_split(struct mt_pretokenizer *pretokenizer, const char *pattern, size_t bytes,
                     enum behavior behavior, bool invert, struct mt_error *error)
{
    struct stage stage = {
        .kind = SPLIT, .behavior = behavior, .invert = invert, .scanner = mt_scanner_find(pattern, bytes)};
    int r = stage.scanner ? 0 : mt_regex_compile(pattern, bytes, &stage.regex, error);
    return r < 0 ? r : add_stage(pretokenizer, stage, error);
}

static int add_pattern(struct mt_pretokenizer *pretokenizer, const char *pattern, enum behavior behavior,
                       bool invert, struct mt_error *error)
{
    return add_split(pretokenizer, pattern, strlen(pattern), behavior, invert, error);
}

/* A text to be found as it is. */
static int escape(const char *text, size_t bytes, struct mt_text *pattern)
{
    int r = mt_text_append(pattern, "", 0);
    for (size_t i = 0; r == 0 && i < bytes; i++) {
        const char c = text[i];
        const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (unsigned char)c >= 0x80;
        r = mt_text_append(pattern, plain ? &c : (const char[]){'\\', c}, plain ? 1 : 2);
    }
    return r;
}

static int add_literal(struct mt_pretokenizer *pretokenizer, const char *text, size_t bytes,
                       enum behavior behavior, bool invert, struct mt_error *error)
{
    struct mt_text pattern = {0};
    int r = escape(text, bytes, &pattern) < 0
                ? mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer")
                : add_split(pretokenizer, pattern.data, pattern.bytes, behavior, invert, error);
    mt_text_free(&pattern);
    return r;
}

static int read_behavior(const json_t *json, enum behavior *behavior, struct mt_error *error)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    const char *name = json_string_value(json_object_get(json, "behavior"));
    *behavior = ISOLATED;
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) {
            *behavior = (enum behavior)i;
            return 0;
        }
    return name ? bad_model(error, "the split behavior \"%s\" is unknown", name) : 0;
}

static int load_split(struct mt_pretokenizer *pretokenizer, const json_t *json, struct mt_error *error)
{
    const json_t *pattern = json_object_get(json, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"), *text = json_object_get(pattern, "String");
    const bool invert = json_is_true(json_object_get(json, "invert"));
    enum behavior behavior;
    int r = read_behavior(json, &behavior, error);
    if (r < 0)
        return r;
    if (json_is_string(regex))
        return add_split(pretokenizer, json_string_value(regex), json_string_length(regex), behavior, invert,
                         error);
    if (json_is_string(text) && json_string_length(text))
        return add_literal(pretokenizer, json_string_value(text), json_string_length(text), behavior, invert,
                           error);
    return bad_model(error, "a Split has no pattern");
}

/* Absent is true: that is the default of both flags. */
static bool is_not_false(const json_t *json, const char *key)
{
    return !json_is_false(json_object_get(json, key));
}

static int load_byte_level(struct mt_pretokenizer *pretokenizer, const json_t *json, struct mt_error *error)
{
    int r = 0;
    if (is_not_false(json, "add_prefix_space"))
        r = add_stage(pretokenizer, (struct stage){.kind = PREFIX_BLANK}, error);
    if (r == 0 && is_not_false(json, "use_regex"))
        r = add_pattern(pretokenizer, MT_GPT2_WORDS, ISOLATED, false, error);
    pretokenizer->byte_level = true;
    return r;
}

static int load_metaspace(struct mt_pretokenizer *pretokenizer, const json_t *json, struct mt_error *error)
{
    struct stage stage = {.kind = METASPACE, .behavior = MERGED_WITH_NEXT, .prepend = PREPEND_ALWAYS};
    const json_t *replacement = json_object_get(json, "replacement");
    const char *scheme = json_string_value(json_object_get(json, "prepend_scheme"));
    const size_t length = json_string_length(replacement);
    if (!length || length > 4)
        return bad_model(error, "a Metaspace has no replacement character");
    memcpy(stage.replacement, json_string_value(replacement), length);
    if (scheme && strcmp(scheme, "first") == 0)
        stage.prepend = PREPEND_FIRST;
    else if ((scheme && strcmp(scheme, "never") == 0) ||
             json_is_false(json_object_get(json, "add_prefix_space")))
        stage.prepend = PREPEND_NEVER;
    if (is_not_false(json, "split")) {
        int r = mt_regex_compile(stage.replacement, length, &stage.regex, error);
        if (r < 0)
            return r;
    }
    return add_stage(pretokenizer, stage, error);
}

/* Punctuation of ASCII and of Unicode 8: the reference implementation goes by that version here. */
#define LATER_PUNCTUATION                                                                                    \
    "\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{1b7d}-\\x{1b7e}\\x{2e43}-\\x{2e4f}"                         \
    "\\x{2e52}-\\x{2e5d}\\x{10ead}\\x{10f55}-\\x{10f59}\\x{10f86}-\\x{10f89}"                                \
    "\\x{1144b}-\\x{1144f}\\x{1145a}-\\x{1145b}\\x{1145d}\\x{11660}-\\x{1166c}\\x{116b9}"                    \
    "\\x{1183b}\\x{11944}-\\x{11946}\\x{119e2}\\x{11a3f}-\\x{11a46}\\x{11a9a}-\\x{11a9c}"                    \
    "\\x{11a9e}-\\x{11aa2}\\x{11c41}-\\x{11c45}\\x{11c70}-\\x{11c71}\\x{11ef7}-\\x{11ef8}"                   \
    "\\x{11fff}\\x{12ff1}-\\x{12ff2}\\x{16e97}-\\x{16e9a}\\x{16fe2}\\x{1e95e}-\\x{1e95f}"                    \
    "\\x{1b4e}-\\x{1b4f}\\x{1b7f}\\x{10d6e}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}"                       \
    "\\x{11b00}-\\x{11b09}\\x{11be1}\\x{11f43}-\\x{11f4f}\\x{16d6d}-\\x{16d6f}\\x{1e5ff}"
#define PUNCTUATION                                                                                          \
    "(?![" LATER_PUNCTUATION "])[!-\\/:-@\\[-`{-~\\p{Pc}\\p{Pd}\\p{Ps}\\p{Pe}\\p{Pi}\\p{Pf}\\p{Po}\\x{166d}" \
    "\\x{111c9}]"
#define NUMBER "[\\p{N}\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}]" /* up to Unicode 17 */

/* One that cuts, behind a ByteLevel. */
static int begin_bytes(struct mt_pretokenizer *pretokenizer, const char *type, struct mt_error *error)
{
    if (strcmp(type, "ByteLevel") == 0 || strcmp(type, "Metaspace") == 0)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "the pre-tokenizer %s after ByteLevel is not supported yet", type);
    if (pretokenizer->writes_bytes)
        return 0;
    pretokenizer->writes_bytes = true;
    return add_stage(pretokenizer, (struct stage){.kind = WRITE_BYTES}, error);
}

static int load_one(struct mt_pretokenizer *pretokenizer, const json_t *json, const char *type,
                    struct mt_error *error)
{
    if (pretokenizer->byte_level) {
        int r = begin_bytes(pretokenizer, type, error);
        if (r < 0)
            return r;
    }
    if (strcmp(type, "ByteLevel") == 0)
        return load_byte_level(pretokenizer, json, error);
    if (strcmp(type, "Split") == 0)
        return load_split(pretokenizer, json, error);
    if (strcmp(type, "Metaspace") == 0)
        return load_metaspace(pretokenizer, json, error);
    if (strcmp(type, "Digits") == 0)
        return add_pattern(pretokenizer,
                           json_is_true(json_object_get(json, "individual_digits")) ? NUMBER : NUMBER "+",
                           ISOLATED, false, error);
    if (strcmp(type, "Punctuation") == 0) {
        enum behavior behavior;
        int r = read_behavior(json, &behavior, error);
        return r < 0 ? r : add_pattern(pretokenizer, PUNCTUATION, behavior, false, error);
    }
    if (strcmp(type, "Whitespace") == 0)
        return add_pattern(pretokenizer, "[\\w\\x{200c}\\x{200d}]+|[^\\w\\s\\x{200c}\\x{200d}]+", REMOVED,
                           true, error);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_pattern(pretokenizer, "\\s", REMOVED, false, error);
    if (strcmp(type, "BertPreTokenizer") == 0) {
        int r = add_pattern(pretokenizer, "\\s", REMOVED, false, error);
        return r < 0 ? r : add_pattern(pretokenizer, PUNCTUATION, ISOLATED, false, error);
    }
    if (strcmp(type, "CharDelimiterSplit") == 0) {
        const json_t *delimiter = json_object_get(json, "delimiter");
        if (!json_string_length(delimiter))
            return bad_model(error, "a CharDelimiterSplit has no delimiter");
        return add_literal(pretokenizer, json_string_value(delimiter), json_string_length(delimiter), REMOVED,
                           false, error);
    }
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL, "the pre-tokenizer %s is not supported yet",
                        type);
}

static int load(struct mt_pretokenizer *pretokenizer, const json_t *json, unsigned depth,
                struct mt_error *error)
{
    if (!json || json_is_null(json))
        return 0;
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type)
        return bad_model(error, "a pre-tokenizer has no type");
    if (strcmp(type, "Sequence") != 0)
        return load_one(pretokenizer, json, type, error);
    if (depth == 8)
        return bad_model(error, "pre-tokenizers are nested too deep");
    const json_t *item;
    size_t i;
    int r = 0;
    json_array_foreach(json_object_get(json, "pretokenizers"), i, item) if (r == 0) r =
        load(pretokenizer, item, depth + 1, error);
    return r;
}

int mt_pretokenizer_load(const json_t *json, struct mt_pretokenizer **result, struct mt_error *error)
{
    *result = NULL;
    struct mt_pretokenizer *pretokenizer = calloc(1, sizeof *pretokenizer);
    if (!pretokenizer)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
    int r = load(pretokenizer, json, 0, error);
    if (r == 0 && pretokenizer->writes_bytes)
        r = add_stage(pretokenizer, (struct stage){.kind = READ_BYTES}, error);
    if (r < 0) {
        mt_pretokenizer_free(pretokenizer);
        return r;
    }
    *result = pretokenizer;
    return 0;
}

void mt_pretokenizer_free(struct mt_pretokenizer *pretokenizer)
{
    if (!pretokenizer)
        return;
    for (size_t i = 0; i < pretokenizer->count; i++)
        mt_regex_free(pretokenizer->stages[i].regex);
    free(pretokenizer);
}

bool mt_pretokenizer_is_byte_level(const struct mt_pretokenizer *pretokenizer)
{
    return pretokenizer->byte_level;
}
