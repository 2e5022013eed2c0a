#include "core/data/value.h"

#include "core/base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MAX_DEPTH 256

const struct mt_value *mt_value_get(const struct mt_value *object, const char *key)
{
    const struct mt_value *found = NULL;
    if (!object || object->kind != MT_VALUE_OBJECT)
        return NULL;
    const size_t bytes = strlen(key);
    for (const struct mt_value *child = object->first; child; child = child->next)
        if (child->key_bytes == bytes && memcmp(child->key, key, bytes) == 0)
            found = child;
    return found;
}

const char *mt_value_kind_name(enum mt_value_kind kind)
{
    static const char *const names[] = {"null", "false", "true", "a number", "a text", "a list", "an object"};
    return names[kind];
}

/* The text of one part of a list; NULL where it has none. */
static const struct mt_value *part_text(const struct mt_value *part)
{
    if (part->kind == MT_VALUE_TEXT)
        return part;
    const struct mt_value *type = mt_value_get(part, "type");
    if (type && (type->kind != MT_VALUE_TEXT || type->bytes != 4 || memcmp(type->text, "text", 4) != 0))
        return NULL;
    const struct mt_value *text = mt_value_get(part, "text");
    if (!text)
        text = mt_value_get(part, "value");
    return text && text->kind == MT_VALUE_TEXT ? text : NULL;
}

static int join_parts(const struct mt_value *list, struct mt_arena *arena, const char **text, size_t *bytes,
                      struct mt_error *error)
{
    size_t total = 0;
    for (const struct mt_value *part = list->first; part; part = part->next) {
        const struct mt_value *one = part_text(part);
        if (!one)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                                "holds a list with a part that is not text; only text is supported yet");
        total += one->bytes; /* no overflow: they are parts of one file */
    }
    char *joined = mt_arena_alloc(arena, total, 1);
    if (!joined)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    *text = joined;
    *bytes = total;
    for (const struct mt_value *part = list->first; part; part = part->next) {
        const struct mt_value *one = part_text(part);
        if (one->bytes)
            memcpy(joined, one->text, one->bytes);
        joined += one->bytes;
    }
    return 0;
}

int mt_value_text(const struct mt_value *value, struct mt_arena *arena, const char **text, size_t *bytes,
                  struct mt_error *error)
{
    *text = "";
    *bytes = 0;
    if (!value)
        return 0;
    switch (value->kind) {
    case MT_VALUE_NULL:
        return 0;
    case MT_VALUE_NUMBER:
    case MT_VALUE_TEXT:
        *text = value->text;
        *bytes = value->bytes;
        return 0;
    case MT_VALUE_LIST:
        return join_parts(value, arena, text, bytes, error);
    case MT_VALUE_FALSE:
    case MT_VALUE_TRUE:
    case MT_VALUE_OBJECT:
        break;
    }
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "holds %s where a text is expected",
                        mt_value_kind_name(value->kind));
}

/* --- JSON --------------------------------------------------------------------------------------------------
 */

struct parser {
    const char *at, *end;
    struct mt_arena *arena;
    struct mt_error *error;
    size_t values;
};

static int expected(struct parser *parser, const char *what)
{
    if (parser->at == parser->end)
        return mt_error_set(parser->error, -EINVAL, MT_REASON_BAD_DATA, "the text ends where %s is expected",
                            what);
    return mt_error_set(parser->error, -EINVAL, MT_REASON_BAD_DATA, "%s is expected", what);
}

static int no_memory(struct parser *parser)
{
    return mt_error_set(parser->error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
}

static void skip_blanks(struct parser *parser)
{
    while (parser->at < parser->end &&
           (*parser->at == ' ' || *parser->at == '\n' || *parser->at == '\r' || *parser->at == '\t'))
        parser->at++;
}

static bool take(struct parser *parser, const char *word)
{
    const size_t length = strlen(word);
    if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, word, length) != 0)
        return false;
    parser->at += length;
    return true;
}

/* Four hexadecimal digits at parser->at. */
static bool take_hex(struct parser *parser, uint32_t *value)
{
    if (parser->end - parser->at < 4)
        return false;
    *value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = parser->at[i];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (uint32_t)((c | 0x20) - 'a') + 10;
        else
            return false;
        *value = *value << 4 | digit;
    }
    parser->at += 4;
    return true;
}

/* After "\u": the character, two escapes together where they are a surrogate pair. */
static bool take_unicode(struct parser *parser, uint32_t *character)
{
    if (!take_hex(parser, character))
        return false;
    if (*character >= 0xd800 && *character <= 0xdbff) {
        const char *before = parser->at;
        uint32_t low;
        if (take(parser, "\\u") && take_hex(parser, &low) && low >= 0xdc00 && low <= 0xdfff) {
            *character = 0x10000 + ((*character - 0xd800) << 10 | (low - 0xdc00));
            return true;
        }
        parser->at = before;
    }
    if (*character >= 0xd800 && *character <= 0xdfff)
        *character = 0xfffd;
    return true;
}

/* After a backslash; writes 1 to 4 bytes. An escape is never shorter than what it stands for. */
static bool take_escape(struct parser *parser, char **out)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (parser->at == parser->end)
        return false;
    const char letter = *parser->at++;
    if (letter == 'u') {
        uint32_t character;
        if (!take_unicode(parser, &character))
            return false;
        *out += mt_utf8_write(character, *out);
        return true;
    }
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (!found)
        return false;
    *(*out)++ = meanings[found - letters];
    return true;
}

/* The string whose opening quote is at parser->at. */
static int parse_string(struct parser *parser, const char **text, size_t *bytes)
{
    const char *begin = ++parser->at, *stop = begin;
    bool escapes = false;
    while (stop < parser->end && *stop != '"' && (unsigned char)*stop >= 0x20) {
        if (*stop == '\\') {
            escapes = true;
            if (++stop == parser->end)
                break;
        }
        stop++;
    }
    if (stop >= parser->end || *stop != '"') {
        const bool control = stop < parser->end;
        parser->at = control ? stop : parser->end;
        return control ? mt_error_set(parser->error, -EINVAL, MT_REASON_BAD_DATA,
                                      "a string holds a control character (a line must not end inside of it)")
                       : expected(parser, "the end of a string");
    }
    *text = begin;
    *bytes = (size_t)(stop - begin);
    if (!escapes) {
        parser->at = stop + 1;
        return 0;
    }

    char *out = mt_arena_alloc(parser->arena, *bytes, 1);
    if (!out)
        return no_memory(parser);
    *text = out;
    while (parser->at < stop) {
        const char *escape = memchr(parser->at, '\\', (size_t)(stop - parser->at));
        const size_t plain = (size_t)((escape ? escape : stop) - parser->at);
        memcpy(out, parser->at, plain);
        out += plain;
        parser->at += plain;
        if (!escape)
            break;
        parser->at++;
        if (!take_escape(parser, &out))
            return mt_error_set(parser->error, -EINVAL, MT_REASON_BAD_DATA, "the escape is unknown");
    }
    *bytes = (size_t)(out - *text);
    parser->at = stop + 1;
    return 0;
}

static bool take_digits(struct parser *parser)
{
    const char *begin = parser->at;
    while (parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9')
        parser->at++;
    return parser->at > begin;
}

static bool take_number(struct parser *parser)
{
    take(parser, "-");
    if (take(parser, "Infinity"))
        return true;
    if (!take(parser, "0") && !take_digits(parser))
        return false;
    if (take(parser, ".") && !take_digits(parser))
        return false;
    if (take(parser, "e") || take(parser, "E")) {
        if (!take(parser, "+"))
            take(parser, "-");
        return take_digits(parser);
    }
    return true;
}

static int parse_value(struct parser *parser, struct mt_value *value, unsigned depth);

/* What is between "[" or "{" (at parser->at) and its end. */
static int parse_children(struct parser *parser, struct mt_value *parent, unsigned depth)
{
    const bool object = parent->kind == MT_VALUE_OBJECT;
    const char *close = object ? "}" : "]";
    struct mt_value **link = &parent->first;

    parser->at++;
    skip_blanks(parser);
    if (take(parser, close))
        return 0;
    for (;;) {
        struct mt_value *child = mt_arena_alloc(parser->arena, 1, sizeof *child);
        if (!child)
            return no_memory(parser);
        if (object) {
            skip_blanks(parser);
            if (parser->at == parser->end || *parser->at != '"')
                return expected(parser, "a key in quotes");
            int r = parse_string(parser, &child->key, &child->key_bytes);
            if (r < 0)
                return r;
            skip_blanks(parser);
            if (!take(parser, ":"))
                return expected(parser, "\":\" after a key");
        }
        int r = parse_value(parser, child, depth);
        if (r < 0)
            return r;
        *link = child;
        link = &child->next;
        skip_blanks(parser);
        if (take(parser, close))
            return 0;
        if (!take(parser, ","))
            return expected(parser, object ? "\",\" or \"}\"" : "\",\" or \"]\"");
    }
}

static int parse_value(struct parser *parser, struct mt_value *value, unsigned depth)
{
    skip_blanks(parser);
    if (parser->at == parser->end)
        return expected(parser, "a value");
    if (depth == MAX_DEPTH)
        return mt_error_set(parser->error, -EINVAL, MT_REASON_BAD_DATA, "nested more than %d deep",
                            MAX_DEPTH);
    if (++parser->values > MT_VALUE_MAX)
        return mt_error_set(parser->error, -EINVAL, MT_REASON_BAD_DATA, "a row of more than %zu values",
                            MT_VALUE_MAX);

    const char *begin = parser->at;
    switch (*parser->at) {
    case '"':
        value->kind = MT_VALUE_TEXT;
        return parse_string(parser, &value->text, &value->bytes);
    case '{':
        value->kind = MT_VALUE_OBJECT;
        return parse_children(parser, value, depth + 1);
    case '[':
        value->kind = MT_VALUE_LIST;
        return parse_children(parser, value, depth + 1);
    case 'n':
        value->kind = MT_VALUE_NULL;
        return take(parser, "null") ? 0 : expected(parser, "a value");
    case 't':
        value->kind = MT_VALUE_TRUE;
        return take(parser, "true") ? 0 : expected(parser, "a value");
    case 'f':
        value->kind = MT_VALUE_FALSE;
        return take(parser, "false") ? 0 : expected(parser, "a value");
    default:
        value->kind = MT_VALUE_NUMBER;
        if (!take(parser, "NaN") && !take_number(parser))
            return expected(parser, parser->at == begin ? "a value" : "a digit");
        value->text = begin;
        value->bytes = (size_t)(parser->at - begin);
        return 0;
    }
}

int mt_value_parse(const char *text, size_t bytes, struct mt_arena *arena, struct mt_value **value,
                   size_t *used, struct mt_error *error)
{
    struct parser parser = {.at = text, .end = text + bytes, .arena = arena, .error = error};
    struct mt_value *root = mt_arena_alloc(arena, 1, sizeof *root);
    int r = root ? parse_value(&parser, root, 0) : no_memory(&parser);
    *used = (size_t)(parser.at - text);
    *value = r == 0 ? root : NULL;
    return r;
}
