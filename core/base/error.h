/* The one way to report a failure: an int result (0 or a negative errno) and a sentence for the user. */
#ifndef MT_BASE_ERROR_H
#define MT_BASE_ERROR_H

#include <errno.h>
#include <stddef.h>

#define MT_ERROR_MESSAGE_BYTES 2048

/* What kind of failure it was; decides the exit code of a program and the `reason` of a job. */
enum mt_reason {
    MT_REASON_NONE,
    MT_REASON_USAGE,           /* wrong command line: exit 64 */
    MT_REASON_BAD_JOB,         /* wrong job document: exit 78 */
    MT_REASON_BAD_DATA,        /* dataset missing, unreadable, empty or malformed: exit 65 */
    MT_REASON_BAD_MODEL,       /* model or checkpoint missing, malformed or not supported: exit 65 */
    MT_REASON_OUT_OF_MEMORY,   /* host or device memory: exit 70 */
    MT_REASON_NON_FINITE_LOSS, /* too many refused steps in a row: exit 70 */
    MT_REASON_DEVICE,          /* the accelerator failed: exit 70 */
    MT_REASON_DISK_FULL,       /* ENOSPC or EDQUOT: exit 74 */
    MT_REASON_IO,              /* any other input/output error: exit 74 */
    MT_REASON_INTERRUPTED,     /* stopped by a signal or the daemon, resumable: exit 75 */
    MT_REASON_INTERNAL,        /* a broken invariant that could be reported: exit 70 */
};

struct mt_error {
    int code; /* 0 or a negative errno */
    enum mt_reason reason;
    char message[MT_ERROR_MESSAGE_BYTES]; /* one or more sentences: what, where, what to do; UTF-8, whatever
                                             bytes the arguments held */
};

/* Fills `error` (may be NULL) and returns `code`, which must be a negative errno. */
int mt_error_set(struct mt_error *error, int code, enum mt_reason reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Like mt_error_set for a failed system call: appends ": " and strerror(errno), maps ENOSPC/EDQUOT to
 * MT_REASON_DISK_FULL and ENOMEM to MT_REASON_OUT_OF_MEMORY, every other errno to `reason`. Returns -errno.
 */
int mt_error_set_errno(struct mt_error *error, enum mt_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "<prefix>: " before the message that stands there (cut at the end when too long). Returns error->code.
 */
int mt_error_prefix(struct mt_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The name that jobs show as `reason` ("bad_data", "disk_full", "io_error", ...); NULL for MT_REASON_NONE. */
const char *mt_reason_name(enum mt_reason reason);

/* The exit code (sysexits) that belongs to a reason; 0 for MT_REASON_NONE. */
int mt_reason_exit_code(enum mt_reason reason);

#ifdef __clang_analyzer__
/* The analyser of `make lint` does not look into other files: tell it that these results are negative. */
#define mt_error_set(error, code, ...) (mt_error_set(error, code, __VA_ARGS__), (code))
#define mt_error_set_errno(...) (mt_error_set_errno(__VA_ARGS__), -EIO)
#endif

#endif
