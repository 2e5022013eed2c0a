/* What the steps share: reporting, and the canonical tree with its memory of where each value came from. */
#include "core/job/reader.h"

#include "core/base/utf8_repair.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *format_text(struct mt_job_reader *reader, const char *format, va_list arguments)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    mt_utf8_repair(text); /* it may have been cut within a character */
    const char *copy = mt_arena_strdup(reader->arena, text);
    if (!copy)
        reader->out_of_memory = true;
    return copy ? copy : "";
}

void mt_reader_error(struct mt_job_reader *reader, enum mt_reason reason, const char *pointer,
                     const char *suggestion, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const struct mt_job_error item = {.pointer = pointer,
                                      .detail = format_text(reader, format, arguments),
                                      .suggestion = suggestion,
                                      .line = mt_lines_find_around(reader->context->lines, pointer),
                                      .reason = reason};
    va_end(arguments);
    mt_job_errors_add(reader->errors, &item, &reader->out_of_memory);
}

void mt_reader_note(struct mt_job_reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (json_array_append_new(reader->notes, json_string(format_text(reader, format, arguments))) < 0)
        reader->out_of_memory = true;
    va_end(arguments);
}

bool mt_reader_failed(const struct mt_job_reader *reader, const char *canonical)
{
    return json_object_get(reader->failed, canonical) != NULL;
}

void mt_reader_fail(struct mt_job_reader *reader, const char *canonical)
{
    if (json_object_set_new(reader->failed, canonical, json_true()) < 0)
        reader->out_of_memory = true;
}

bool mt_reader_given(const struct mt_job_reader *reader, const char *canonical)
{
    return json_object_get(reader->origins, canonical) && !mt_reader_failed(reader, canonical);
}

const char *mt_reader_origin(const struct mt_job_reader *reader, const char *canonical)
{
    const char *origin = json_string_value(json_object_get(reader->origins, canonical));
    return origin ? origin : canonical;
}

const char *mt_reader_name(const struct mt_job_reader *reader, const char *canonical)
{
    return mt_job_key_name(mt_reader_origin(reader, canonical));
}

json_t *mt_reader_get(const struct mt_job_reader *reader, const char *canonical)
{
    return mt_pointer_get(reader->values, canonical);
}

/* The block that holds `canonical`, made when `create`; `*name` is the last part. NULL when absent. */
static json_t *find_block(struct mt_job_reader *reader, const char *canonical, bool create, const char **name)
{
    json_t *block = reader->values;
    const char *part = canonical + 1;
    for (const char *slash; (slash = strchr(part, '/')) != NULL; part = slash + 1) {
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)(slash - part), part);
        json_t *next = json_object_get(block, key);
        if (!next && create && json_object_set_new(block, key, json_object()) == 0)
            next = json_object_get(block, key);
        if (!next)
            return NULL;
        block = next;
    }
    *name = part;
    return block;
}

void mt_reader_put(struct mt_job_reader *reader, const char *canonical, json_t *value)
{
    const char *name;
    json_t *block = find_block(reader, canonical, true, &name);
    if (!block || !value)
        json_decref(value);
    if (!block || !value || json_object_set_new(block, name, value) < 0)
        reader->out_of_memory = true;
}

void mt_reader_remove(struct mt_job_reader *reader, const char *canonical)
{
    const char *name;
    json_t *block = find_block(reader, canonical, false, &name);
    if (block)
        json_object_del(block, name);
}

const char *mt_text_quote(struct mt_arena *arena, const char *text, size_t bytes)
{
    bool cut = bytes > 80;
    if (cut) {
        bytes = 80;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
            bytes--; /* not inside a UTF-8 sequence */
    }
    char *copy = mt_arena_alloc(arena, bytes + 1, 1);
    if (!copy)
        return "";
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            copy[i] = '?';
        else
            copy[i] = text[i];
    }
    const char *quoted = mt_arena_printf(arena, "\"%s%s\"", copy, cut ? "..." : "");
    return quoted ? quoted : "";
}

const char *mt_value_describe(struct mt_job_reader *reader, const json_t *value)
{
    const char *text;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        text = mt_arena_printf(
            reader->arena, "the string %s",
            mt_text_quote(reader->arena, json_string_value(value), json_string_length(value)));
        break;
    case JSON_INTEGER:
        text = mt_arena_printf(reader->arena, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        text = mt_arena_printf(reader->arena, "%.15g", json_real_value(value));
        break;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return "no value (null)";
    }
    return text ? text : "";
}
