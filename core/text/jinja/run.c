/* Memory, bounds, failures and scopes of a rendering. */
#include "core/text/jinja/run.h"

#include "core/base/size.h"
#include "core/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *(mt_jfail_as)(struct mt_jrun *run, int code, enum mt_reason reason, const char *format, ...)
{
    if (run->failed)
        return NULL;
    run->failed = code;
    char message[MT_ERROR_MESSAGE_BYTES - 200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    mt_error_set(run->error, code, reason, "%s:%u:%u: %s", run->template->name, run->at ? run->at->line : 1,
                 run->at ? run->at->column : 1, message);
    return NULL;
}

void *(mt_jfail)(struct mt_jrun *run, const char *format, ...)
{
    char message[MT_ERROR_MESSAGE_BYTES - 200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return mt_jfail_as(run, -EDOM, MT_REASON_BAD_DATA, "%s", message);
}

void *(mt_jfail_unsupported)(struct mt_jrun *run, const char *format, ...)
{
    char message[MT_ERROR_MESSAGE_BYTES - 200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return mt_jfail_as(run, -ENOTSUP, MT_REASON_BAD_MODEL, "%s", message);
}

static void *fail_limit(struct mt_jrun *run, const char *what)
{
    return mt_jfail_as(run, -EOVERFLOW, MT_REASON_BAD_MODEL, "the template was stopped here: %s", what);
}

void *mt_jalloc(struct mt_jrun *run, size_t count, size_t size)
{
    size_t bytes;
    if (!mt_size_mul(count, size, &bytes) || !mt_size_add(bytes, 16, &bytes) ||
        bytes > run->limits->memory_bytes - run->memory_bytes)
        return fail_limit(run, "it uses too much memory");
    run->memory_bytes += bytes;
    void *memory = mt_arena_alloc(run->arena, count, size);
    if (!memory)
        return mt_jfail_as(run, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    return memory;
}

bool mt_jstep(struct mt_jrun *run)
{
    return run->steps++ < run->limits->steps || fail_limit(run, "it takes too many steps");
}

bool mt_jwork(struct mt_jrun *run, size_t bytes)
{
    const size_t all = run->walked_bytes + bytes; /* below a step before */
    run->steps += all / MT_J_STEP_BYTES;
    run->walked_bytes = all % MT_J_STEP_BYTES;
    return run->steps < run->limits->steps || fail_limit(run, "it takes too many steps");
}

bool mt_jenter(struct mt_jrun *run)
{
    if (run->depth >= run->limits->depth)
        return fail_limit(run, "it nests or recurs too deep");
    run->depth++;
    return true;
}

/* --- texts in the making -------------------------------------------------------------------------------- */

static bool reserve(struct mt_jrun *run, struct mt_jbuffer *buffer, size_t more)
{
    size_t needed;
    if (!mt_size_add(buffer->bytes, more, &needed) || needed > run->limits->output_bytes)
        return fail_limit(run, "it makes too long a text");
    if (needed <= buffer->capacity)
        return true;
    const size_t capacity = mt_size_max(needed, mt_size_max(64, 2 * buffer->capacity));
    char *data = mt_jalloc(run, capacity, 1);
    if (!data)
        return false;
    if (buffer->bytes)
        memcpy(data, buffer->data, buffer->bytes);
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool mt_jput(struct mt_jrun *run, struct mt_jbuffer *buffer, const char *data, size_t bytes)
{
    if (!bytes)
        return true;
    if (!reserve(run, buffer, bytes) || !mt_jwork(run, bytes))
        return false;
    memcpy(buffer->data + buffer->bytes, data, bytes);
    buffer->bytes += bytes;
    return true;
}

bool mt_jput_slice(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice text)
{
    return mt_jput(run, buffer, text.data, text.bytes);
}

bool mt_jputs(struct mt_jrun *run, struct mt_jbuffer *buffer, const char *text)
{
    return mt_jput(run, buffer, text, strlen(text));
}

bool mt_jputf(struct mt_jrun *run, struct mt_jbuffer *buffer, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text)
        return mt_jfail_unsupported(run, "a number with so many digits is not supported");
    return mt_jput(run, buffer, text, (size_t)length);
}

bool mt_jput_character(struct mt_jrun *run, struct mt_jbuffer *buffer, uint32_t character)
{
    char text[4];
    return mt_jput(run, buffer, text, mt_utf8_write(character, text));
}

bool mt_jput_repeated(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice text, size_t times)
{
    size_t bytes;
    if (!mt_size_mul(text.bytes, times, &bytes) || bytes > run->limits->output_bytes)
        return fail_limit(run, "it makes too long a text");
    if (!bytes)
        return true;
    if (!reserve(run, buffer, bytes) || !mt_jwork(run, bytes))
        return false;
    for (size_t i = 0; i < times; i++)
        memcpy(buffer->data + buffer->bytes + i * text.bytes, text.data, text.bytes);
    buffer->bytes += bytes;
    return true;
}

struct mt_jvalue *mt_jbuffer_value(struct mt_jrun *run, const struct mt_jbuffer *buffer, bool markup)
{
    return mt_jtext_of(run, (struct mt_jslice){buffer->data, buffer->bytes}, markup);
}

/* --- scopes --------------------------------------------------------------------------------------------- */

static bool set_variable(struct mt_jrun *run, struct mt_jframe *frame, uint32_t name, struct mt_jvalue *value)
{
    for (size_t i = 0; i < frame->count; i++)
        if (frame->variables[i].name == name) {
            frame->variables[i].value = value;
            return true;
        }
    if (frame->count == frame->capacity) {
        const size_t capacity = mt_size_max(4, 2 * frame->capacity);
        struct mt_jvariable *variables = mt_jalloc(run, capacity, sizeof *variables);
        if (!variables)
            return false;
        if (frame->count)
            memcpy(variables, frame->variables, frame->count * sizeof *variables);
        frame->variables = variables;
        frame->capacity = capacity;
    }
    frame->variables[frame->count++] = (struct mt_jvariable){name, value};
    return true;
}

bool mt_jassign(struct mt_jrun *run, uint32_t name, struct mt_jvalue *value)
{
    return set_variable(run, run->frame, name, value);
}

bool mt_jframe_reset(struct mt_jrun *run, struct mt_jframe *frame, const struct mt_jnames *undefined)
{
    frame->count = 0;
    for (size_t i = 0; undefined && i < undefined->count; i++)
        if (!set_variable(run, frame, undefined->names[i], NULL))
            return false;
    return true;
}

struct mt_jframe *mt_jframe_new(struct mt_jrun *run, struct mt_jframe *parent,
                                const struct mt_jnames *undefined)
{
    struct mt_jframe *frame = mt_jalloc(run, 1, sizeof *frame);
    if (!frame)
        return NULL;
    frame->parent = parent;
    return mt_jframe_reset(run, frame, undefined) ? frame : NULL;
}

struct mt_jvalue *mt_jlookup(const struct mt_jrun *run, uint32_t name)
{
    for (const struct mt_jframe *frame = run->frame; frame; frame = frame->parent)
        for (size_t i = 0; i < frame->count; i++)
            if (frame->variables[i].name == name)
                return frame->variables[i].value;
    return run->globals[name];
}
