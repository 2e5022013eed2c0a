/* text.c: the growing text, and the writers of numbers, JSON and HTML into it. */
#include "api/text.h"

#include "core/base/size.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct mt_text *text, size_t more)
{
    size_t needed;
    if (text->failed)
        return false;
    if (!mt_size_add(text->bytes, more, &needed)) {
        text->failed = true;
        return false;
    }
    if (needed <= text->capacity)
        return true;
    size_t capacity = mt_size_max(needed, text->capacity < 512 ? 1024 : text->capacity * 2);
    char *grown = realloc(text->data, capacity);
    if (!grown) {
        text->failed = true;
        return false;
    }
    text->data = grown;
    text->capacity = capacity;
    return true;
}

void mt_text_append(struct mt_text *text, const void *data, size_t bytes)
{
    if (bytes == 0 || !reserve(text, bytes))
        return;
    memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
}

void mt_text_puts(struct mt_text *text, const char *words)
{
    mt_text_append(text, words, strlen(words));
}

void mt_text_printf(struct mt_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    /* One byte more: vsnprintf writes its zero, which the next append overwrites. */
    if (length < 0 || !reserve(text, (size_t)length + 1))
        return;
    va_start(arguments, format);
    vsnprintf(text->data + text->bytes, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->bytes += (size_t)length;
}

void mt_text_free(struct mt_text *text)
{
    free(text->data);
    *text = (struct mt_text){0};
}

void mt_text_number(struct mt_text *text, double value)
{
    if (isnan(value)) {
        mt_text_puts(text, "NaN");
    } else if (isinf(value)) {
        mt_text_puts(text, value > 0 ? "+Inf" : "-Inf");
    } else {
        char digits[40];
        for (int precision = 15; precision <= 17; precision++) {
            snprintf(digits, sizeof digits, "%.*g", precision, value);
            if (strtod(digits, NULL) == value)
                break;
        }
        mt_text_puts(text, digits);
    }
}

static void words_json(struct mt_text *text, const char *words, size_t bytes)
{
    mt_text_append(text, "\"", 1);
    size_t from = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)words[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        mt_text_append(text, words + from, i - from);
        from = i + 1;
        if (c == '"' || c == '\\')
            mt_text_printf(text, "\\%c", c);
        else if (c == '\n')
            mt_text_puts(text, "\\n");
        else
            mt_text_printf(text, "\\u%04x", c);
    }
    mt_text_append(text, words + from, bytes - from);
    mt_text_append(text, "\"", 1);
}

static void real(struct mt_text *text, double value)
{
    size_t before = text->bytes;
    mt_text_number(text, value);
    /* A real stays one when it is read back: 2 is written 2.0. */
    if (!text->failed && !memchr(text->data + before, '.', text->bytes - before) &&
        !memchr(text->data + before, 'e', text->bytes - before))
        mt_text_puts(text, ".0");
}

void mt_text_json(struct mt_text *text, const json_t *value)
{
    const char *separator = "";
    switch (json_typeof(value)) {
    case JSON_OBJECT: {
        const char *key;
        json_t *member;
        mt_text_puts(text, "{");
        json_object_foreach((json_t *)value, key, member)
        {
            mt_text_puts(text, separator);
            words_json(text, key, strlen(key));
            mt_text_puts(text, ":");
            mt_text_json(text, member);
            separator = ",";
        }
        mt_text_puts(text, "}");
        break;
    }
    case JSON_ARRAY:
        mt_text_puts(text, "[");
        for (size_t i = 0; i < json_array_size(value); i++) {
            mt_text_puts(text, separator);
            mt_text_json(text, json_array_get(value, i));
            separator = ",";
        }
        mt_text_puts(text, "]");
        break;
    case JSON_STRING:
        words_json(text, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        mt_text_printf(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        real(text, json_real_value(value));
        break;
    case JSON_TRUE:
        mt_text_puts(text, "true");
        break;
    case JSON_FALSE:
        mt_text_puts(text, "false");
        break;
    case JSON_NULL:
        mt_text_puts(text, "null");
        break;
    }
}

void mt_text_html(struct mt_text *text, const char *words)
{
    for (; *words; words++) {
        switch (*words) {
        case '&':
            mt_text_puts(text, "&amp;");
            break;
        case '<':
            mt_text_puts(text, "&lt;");
            break;
        case '>':
            mt_text_puts(text, "&gt;");
            break;
        case '"':
            mt_text_puts(text, "&quot;");
            break;
        case '\'':
            mt_text_puts(text, "&#39;");
            break;
        default:
            mt_text_append(text, words, 1);
        }
    }
}
