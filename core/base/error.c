/* Error values: see error.h. Messages are formatted aside first, so that an argument may be the old message.
 */
#include "core/base/error.h"

#include "core/base/utf8_repair.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef mt_error_set /* see the end of error.h */
#undef mt_error_set_errno

static const struct {
    const char *name;
    int exit_code;
} reasons[] = {
    [MT_REASON_NONE] = {NULL, 0},
    [MT_REASON_USAGE] = {"usage", 64},
    [MT_REASON_BAD_JOB] = {"bad_job", 78},
    [MT_REASON_BAD_DATA] = {"bad_data", 65},
    [MT_REASON_BAD_MODEL] = {"bad_model", 65},
    [MT_REASON_OUT_OF_MEMORY] = {"out_of_memory", 70},
    [MT_REASON_NON_FINITE_LOSS] = {"non_finite_loss", 70},
    [MT_REASON_DEVICE] = {"device_error", 70},
    [MT_REASON_DISK_FULL] = {"disk_full", 74},
    [MT_REASON_IO] = {"io_error", 74},
    [MT_REASON_INTERRUPTED] = {"interrupted", 75},
    [MT_REASON_INTERNAL] = {"internal_error", 70},
};

/* Copies text that may have to be cut, never within a UTF-8 sequence. Names in files may be any bytes, and a
 * message goes into JSON and to terminals, which obey control characters. */
static void message_copy(char *message, const char *text)
{
    size_t bytes = strlen(text);
    if (bytes >= MT_ERROR_MESSAGE_BYTES) {
        bytes = MT_ERROR_MESSAGE_BYTES - 1;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
            bytes--;
    }
    memcpy(message, text, bytes);
    message[bytes] = '\0';
    mt_utf8_repair(message);
    for (char *c = message; *c; c++)
        if (((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f)
            *c = '?';
}

/* One byte more than a message holds, so that message_copy sees that it was cut. */
#define SCRATCH_BYTES (MT_ERROR_MESSAGE_BYTES + 1)

int mt_error_set(struct mt_error *error, int code, enum mt_reason reason, const char *format, ...)
{
    assert(code < 0);
    if (error) {
        char text[SCRATCH_BYTES];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        error->code = code;
        error->reason = reason;
        message_copy(error->message, text);
    }
    return code;
}

int mt_error_set_errno(struct mt_error *error, enum mt_reason reason, const char *format, ...)
{
    int number = errno != 0 ? errno : EIO;
    if (error) {
        char what[SCRATCH_BYTES], text[2 * SCRATCH_BYTES], buffer[128];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(what, sizeof what, format, arguments);
        va_end(arguments);
        snprintf(text, sizeof text, "%s: %s", what, strerror_r(number, buffer, sizeof buffer));
        error->code = -number;
        error->reason = reason;
        if (number == ENOSPC || number == EDQUOT)
            error->reason = MT_REASON_DISK_FULL;
        else if (number == ENOMEM)
            error->reason = MT_REASON_OUT_OF_MEMORY;
        message_copy(error->message, text);
    }
    errno = number;
    return -number;
}

int mt_error_prefix(struct mt_error *error, const char *format, ...)
{
    if (!error)
        return 0;
    char prefix[SCRATCH_BYTES], text[2 * SCRATCH_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof text, "%s: %s", prefix, error->message);
    message_copy(error->message, text);
    return error->code;
}

const char *mt_reason_name(enum mt_reason reason)
{
    size_t index = (size_t)reason;
    return index < sizeof reasons / sizeof *reasons ? reasons[index].name : NULL;
}

int mt_reason_exit_code(enum mt_reason reason)
{
    size_t index = (size_t)reason;
    return index < sizeof reasons / sizeof *reasons ? reasons[index].exit_code : 70;
}
