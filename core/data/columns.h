/* Which cells of a row mean what, as a job or an entry of dataset_info.json says. */
#ifndef MT_DATA_COLUMNS_H
#define MT_DATA_COLUMNS_H

#include "core/job/job.h"

#include <stdbool.h>

/* Data for preference training, as a registry marks it. It is recognised, so that nothing is learned from it
 * by mistake; no method reads it yet. */
enum mt_preference {
    MT_PREFERENCE_NONE,
    MT_PREFERENCE_RANKING, /* `ranking`: two answers, `chosen` and `rejected` */
    MT_PREFERENCE_KTO,     /* `kto_tag`: an answer, and whether it is wanted */
};

/* Names of columns. In options NULL stands for the usual name; "" for no such column. */
struct mt_columns {
    const char *prompt;   /* "instruction" */
    const char *query;    /* "input"; none where `prompt` was given */
    const char *response; /* "output" */
    const char *system;   /* "system" */
    const char *history;  /* "history" */
    const char *text;     /* "text": a document instead of a conversation */
    const char *messages; /* "messages" or "conversations" */
    const char *tools;    /* "tools": a list, or its JSON text */
    enum mt_job_formatting formatting;
    struct mt_job_tags tags;
    enum mt_preference preference;
};

#endif
