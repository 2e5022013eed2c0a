/* Documents: reading, and what belongs to JSON pointers; see document.h. YAML stands in document_yaml.c. */
#include "core/base/document.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/size.h"

#include <stdint.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)16 << 20) /* of what people write */
#define MAX_JSON_BYTES ((size_t)64 << 20) /* of what programs write */
#define MAX_DEPTH 256

/* jansson's own bound on depth (2,048) is fixed, and its parser recursive: count before it runs. */
static bool depth_within_bounds(const char *text, size_t bytes, size_t *line, size_t *column)
{
    size_t depth = 0, line_start = 0;
    bool in_string = false;
    *line = 1;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\n') {
            (*line)++;
            line_start = i + 1;
        } else if (in_string) {
            if (text[i] == '\\')
                i++;
            else if (text[i] == '"')
                in_string = false;
        } else if (text[i] == '"') {
            in_string = true;
        } else if ((text[i] == '[' || text[i] == '{') && ++depth > MAX_DEPTH) {
            *column = i - line_start + 1;
            return false;
        } else if ((text[i] == ']' || text[i] == '}') && depth > 0) {
            depth--;
        }
    }
    return true;
}

#define WIDE_KEY "\001whole"

/* Whether a whole number of so many digits, without its sign, needs more than 64 bits. */
static bool is_wide(const char *digits, size_t count, bool negative)
{
    static const char largest[] = "9223372036854775807", smallest[] = "9223372036854775808";
    if (*digits == '0') /* of more digits it is no number, and stays what it is */
        return false;
    return count > 19 || (count == 19 && memcmp(digits, negative ? smallest : largest, 19) > 0);
}

/* The text with what jansson reads in place of whole numbers that its 64 bits can't hold: numbers with a
 * fraction, or objects that keep the digits. malloc'd; NULL when out of memory. */
static char *with_wide_numbers(const char *text, size_t bytes, bool keep_digits, size_t *widened_bytes)
{
    /* {"\u0001whole":"digits"} */
    char *widened = malloc(bytes + bytes / 19 * 20 + 2), *out = widened;
    bool in_string = false;
    for (size_t i = 0; widened && i < bytes;) {
        const char c = text[i];
        if (in_string && c == '\\' && i + 1 < bytes)
            *out++ = text[i++];
        else if (c == '"')
            in_string = !in_string;
        if (in_string || ((c < '0' || c > '9') && c != '-')) {
            *out++ = text[i++];
            continue;
        }
        const size_t begin = i;
        const bool negative = c == '-';
        i += negative;
        const size_t first = i;
        while (i < bytes && text[i] >= '0' && text[i] <= '9')
            i++;
        const size_t digits = i - first;
        const bool whole = i == bytes || !memchr(".eE", text[i], 3);
        while (!whole && i < bytes && text[i] && strchr("0123456789.eE+-", text[i]))
            i++; /* its fraction and exponent */
        const bool wide = whole && digits >= 19 && is_wide(text + first, digits, negative);
        if (wide && keep_digits)
            out = stpcpy(out, "{\"\\u0001whole\":\"");
        memcpy(out, text + begin, i - begin);
        out += i - begin;
        if (wide)
            out = stpcpy(out, keep_digits ? "\"}" : "e0");
    }
    *widened_bytes = widened ? (size_t)(out - widened) : 0;
    return widened;
}

static json_t *load(const char *text, size_t bytes, size_t flags, bool keep_digits, json_error_t *why)
{
    json_t *value = json_loadb(text, bytes, flags, why);
    if (value || json_error_code(why) != json_error_numeric_overflow)
        return value;
    size_t widened_bytes;
    mt_autofree char *widened = with_wide_numbers(text, bytes, keep_digits, &widened_bytes);
    return widened ? json_loadb(widened, widened_bytes, flags, why) : NULL;
}

json_t *mt_json_load(const char *text, size_t bytes, size_t flags, json_error_t *why)
{
    json_error_t unasked;
    return load(text, bytes, flags, true, why ? why : &unasked);
}

const char *mt_json_digits(const json_t *value)
{
    if (!json_is_object(value) || json_object_size(value) != 1)
        return NULL;
    const char *text = json_string_value(json_object_get(value, WIDE_KEY));
    const char *digits = text && *text == '-' ? text + 1 : text;
    const size_t count = digits ? strspn(digits, "0123456789") : 0;
    return count && !digits[count] && is_wide(digits, count, digits > text) ? text : NULL;
}

static int parse(const char *text, size_t bytes, const char *source, bool keep_digits, json_t **value,
                 struct mt_error *error)
{
    size_t blank = 0;
    while (blank < bytes && memchr(" \t\r\n", text[blank], 4))
        blank++;
    if (blank == bytes)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "%s is empty", source);
    size_t line, column = 0;
    if (!depth_within_bounds(text, bytes, &line, &column))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "%s: line %zu, column %zu: nested more than %d deep", source, line, column,
                            MAX_DEPTH);
    json_error_t failure;
    json_t *parsed = load(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, keep_digits, &failure);
    if (!parsed && json_error_code(&failure) == json_error_out_of_memory)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s",
                            source);
    if (!parsed)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "%s: line %d, column %d: %s", source,
                            failure.line, failure.column, failure.text);
    *value = parsed;
    return 0;
}

int mt_json_parse(const char *text, size_t bytes, const char *source, json_t **value, struct mt_error *error)
{
    return parse(text, bytes, source, false, value, error);
}

int mt_json_parse_exact(const char *text, size_t bytes, const char *source, json_t **value,
                        struct mt_error *error)
{
    return parse(text, bytes, source, true, value, error);
}

/* Editors of Windows put a byte order mark before a file's text. */
static size_t mark_bytes(const char *text, size_t bytes)
{
    return bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

int mt_json_read(const char *path, enum mt_reason reason, json_t **value, struct mt_error *error)
{
    mt_autofree char *text = NULL;
    size_t bytes;
    int result = mt_file_read(path, MAX_JSON_BYTES, &text, &bytes, error);
    const size_t mark = result == 0 ? mark_bytes(text, bytes) : 0;
    if (result == 0)
        result = mt_json_parse(text + mark, bytes - mark, path, value, error);
    if (result < 0 && result != -ENOMEM && error)
        error->reason = reason;
    return result;
}

int mt_document_read(const char *path, json_t **value, struct mt_lines **lines, struct mt_error *error)
{
    mt_autofree char *text = NULL;
    size_t bytes;
    if (lines)
        *lines = NULL;
    int result = mt_file_read(path, MAX_FILE_BYTES, &text, &bytes, error);
    if (result < 0) {
        if (error)
            error->reason = MT_REASON_BAD_JOB;
        return result;
    }
    const char *dot = strrchr(path, '.');
    if (!dot || strcmp(dot, ".json") != 0)
        return mt_yaml_parse(text, bytes, path, value, lines, error);
    const size_t mark = mark_bytes(text, bytes);
    result = mt_json_parse(text + mark, bytes - mark, path, value, error);
    if (result == 0 && lines) {
        json_t *again = NULL;
        (void)mt_yaml_parse(text, bytes, path, &again, lines, NULL);
        json_decref(again);
    }
    return result;
}

bool mt_pointer_append(char *pointer, size_t pointer_bytes, const char *key)
{
    size_t used = strlen(pointer), start = used;
    if (used + 2 > pointer_bytes)
        return false;
    pointer[used++] = '/';
    for (; *key; key++) {
        const char escaped[2] = {'~', *key == '~' ? '0' : '1'};
        size_t need = *key == '~' || *key == '/' ? 2 : 1;
        if (used + need + 1 > pointer_bytes) {
            pointer[start] = '\0';
            return false;
        }
        memcpy(pointer + used, need == 2 ? escaped : key, need);
        used += need;
    }
    pointer[used] = '\0';
    return true;
}

/* An array index as RFC 6901 has it: no sign, no leading zero. */
static bool parse_index(const char *text, size_t bytes, size_t *index)
{
    if (bytes == 0 || (bytes > 1 && *text == '0'))
        return false;
    *index = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9' || !mt_size_mul(*index, 10, index) ||
            !mt_size_add(*index, (size_t)(text[i] - '0'), index))
            return false;
    }
    return true;
}

json_t *mt_pointer_get(const json_t *root, const char *pointer)
{
    /* jansson's accessors of children do not take const. */
    json_t *value = (json_t *)(uintptr_t)root;
    while (value && *pointer == '/') {
        const char *token = ++pointer;
        size_t bytes = strcspn(token, "/"), index;
        pointer += bytes;
        if (json_is_array(value)) {
            value = parse_index(token, bytes, &index) ? json_array_get(value, index) : NULL;
            continue;
        }
        mt_autofree char *key = strndup(token, bytes);
        if (!key)
            return NULL;
        char *out = key;
        for (const char *in = key; *in; in++) {
            if (*in == '~' && (in[1] == '0' || in[1] == '1'))
                *out++ = *++in == '0' ? '~' : '/';
            else
                *out++ = *in;
        }
        *out = '\0';
        value = json_object_get(value, key);
    }
    return *pointer == '\0' ? value : NULL;
}
