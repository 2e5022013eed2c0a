/* What the steps of checking a document share. Inside core/job only.
 *
 * A document goes through: read.c (keys, aliases, types and ranges, into the canonical tree `values`),
 * check.c and place.c (what several keys say together, and files), freeze.c (defaults, the typed struct, the
 * frozen document). Every step reports all it finds; a later one passes over keys that already failed. */
#ifndef MT_JOB_READER_H
#define MT_JOB_READER_H

#include "core/job/job.h"
#include "core/job/table.h"

#define MT_JOB_POINTER_BYTES 512

struct mt_job_reader {
    const struct mt_job_context *context;
    struct mt_arena *arena; /* of the job */
    struct mt_job_errors *errors;
    json_t *values;  /* canonical keys with checked values */
    json_t *origins; /* canonical pointer -> pointer in the document as written */
    json_t *failed;  /* canonical pointer -> true */
    json_t *notes;   /* sentences */
    json_t *extra;   /* pointer -> value: keys of a family's config.json that the table does not have */
    bool scratch;    /* the document has a model.architecture that has such keys */
    bool out_of_memory;
};

void mt_reader_error(struct mt_job_reader *reader, enum mt_reason reason, const char *pointer,
                     const char *suggestion, const char *format, ...) __attribute__((format(printf, 5, 6)));
void mt_reader_note(struct mt_job_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The document gave this key (by whatever name) and its value passed. */
bool mt_reader_given(const struct mt_job_reader *reader, const char *canonical);
/* Its value did not pass: what depends on it cannot be checked. */
bool mt_reader_failed(const struct mt_job_reader *reader, const char *canonical);
void mt_reader_fail(struct mt_job_reader *reader, const char *canonical);
/* Where the document has it; the canonical pointer when nowhere. */
const char *mt_reader_origin(const struct mt_job_reader *reader, const char *canonical);
/* The last part of that: the name the user gave. */
const char *mt_reader_name(const struct mt_job_reader *reader, const char *canonical);
/* The value, borrowed, or NULL. */
json_t *mt_reader_get(const struct mt_job_reader *reader, const char *canonical);
/* Takes the reference `value`; a NULL value means out of memory. */
void mt_reader_put(struct mt_job_reader *reader, const char *canonical, json_t *value);
void mt_reader_remove(struct mt_job_reader *reader, const char *canonical);

/* "the string \"8\"", "a list", "the number 1.5": what was found, safe to print. In the arena. */
const char *mt_value_describe(struct mt_job_reader *reader, const json_t *value);
/* Text in quotes, with control characters replaced and cut at 80 bytes. In the arena. */
const char *mt_text_quote(struct mt_arena *arena, const char *text, size_t bytes);

/* The canonical form of `value` for `key` (new reference), or NULL after an error was reported at `pointer`.
 */
json_t *mt_value_check(struct mt_job_reader *reader, const struct mt_job_key *key, const char *pointer,
                       const json_t *value);

/* The steps. */
void mt_job_read(struct mt_job_reader *reader, const json_t *document);
void mt_job_check(struct mt_job_reader *reader);
void mt_job_place(struct mt_job_reader *reader);
void mt_job_fill_defaults(struct mt_job_reader *reader);
int mt_job_freeze(struct mt_job_reader *reader, struct mt_job *job);

/* Whether further errors would be left out. */
bool mt_job_errors_full(const struct mt_job_errors *errors);

void mt_job_errors_add(struct mt_job_errors *errors, const struct mt_job_error *item, bool *out_of_memory);

#endif
