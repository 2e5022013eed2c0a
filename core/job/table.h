/* The one table of all keys of the job document (table.c). Inside core/job only. */
#ifndef MT_JOB_TABLE_H
#define MT_JOB_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum mt_key_type {
    MT_KEY_BLOCK,         /* an object whose keys are in the table */
    MT_KEY_TEXT,          /* const char * */
    MT_KEY_NAME,          /* const char *: at most 128 bytes that can be the name of a folder */
    MT_KEY_BOOL,          /* bool */
    MT_KEY_COUNT,         /* size_t: a whole number within the range */
    MT_KEY_COUNT_OR_AUTO, /* size_t; "auto" is 0 */
    MT_KEY_INTEGER,       /* int64_t */
    MT_KEY_NUMBER,        /* double */
    MT_KEY_CHOICE,        /* an enum (int): one of `choices` */
    MT_KEY_WORD,          /* const char *: one of `choices` */
    MT_KEY_DEVICE,        /* const char *: a device's name; a number N stands for cuda:N */
    MT_KEY_PATH,          /* const char *; absolute once resolved */
    MT_KEY_PATHS,         /* const char *const * and size_t after it: a path or a list of paths */
    MT_KEY_TEXTS,         /* const char *const * and size_t after it: a list of strings */
    MT_KEY_LABELS,        /* an object of strings */
    MT_KEY_BYTES,         /* size_t: a number or "64MiB" */
    MT_KEY_OBJECT,        /* an object that another floor reads */
    MT_KEY_TOKEN_IDS,     /* a whole number or a list of them */
    MT_KEY_MIX,           /* struct mt_job_mix: a list of data sets (mix.h) */
    MT_KEY_LIST,          /* a list; only empty so far where no other type fits */
};

enum mt_key_flags {
    MT_KEY_LATER = 1 << 0,     /* known, not supported yet: any value is refused by name */
    MT_KEY_NO_EFFECT = 1 << 1, /* accepted, noted, left out of the frozen document */
    MT_KEY_CONFIG = 1 << 2,    /* a key of config.json, for training from scratch */
    MT_KEY_ABOVE = 1 << 3,     /* the minimum itself is not allowed */
    MT_KEY_BELOW = 1 << 4,     /* the maximum itself is not allowed */
    MT_KEY_ONLY_ONE = 1 << 5,  /* values other than the minimum are not supported yet */
    MT_KEY_PLANNABLE = 1 << 6, /* values that are not supported yet are fine in a dry run */
    MT_KEY_OWN = 1 << 7,       /* written into frozen documents; nobody else's to give */
};

enum mt_job_choice_state {
    MT_JOB_CHOICE_NOW,
    MT_JOB_CHOICE_ALIAS, /* another word for the first choice of the same value */
    MT_JOB_CHOICE_LATER, /* known, not supported yet */
};

struct mt_job_choice {
    const char *word; /* NULL ends the list */
    int value;
    enum mt_job_choice_state state;
};

#define MT_KEY_NO_FIELD ((size_t)-1)

struct mt_job_key {
    const char *pointer; /* RFC 6901 */
    enum mt_key_type type;
    unsigned flags;
    double minimum, maximum; /* of numbers and of the elements of lists of numbers */
    const struct mt_job_choice *choices;
    const char *default_json; /* NULL: none, or one that follows from other keys (default_text) */
    const char *default_text; /* for people, where default_json does not say it */
    const char *unit;         /* or NULL */
    size_t offset;            /* of the field in struct mt_job, or MT_KEY_NO_FIELD */
    const char *help;         /* one sentence */
    const char *note;         /* no-effect keys: why; later keys: what it would be */
};

struct mt_job_alias {
    const char *pointer;
    const char *canonical;
};

extern const struct mt_job_key mt_job_keys[];
extern const size_t mt_job_num_keys;
extern const struct mt_job_alias mt_job_aliases[];
extern const size_t mt_job_num_aliases;

/* NULL when unknown. */
const struct mt_job_key *mt_job_key_find(const char *pointer);
/* The key that `pointer` is an alias of; NULL when it is none. */
const struct mt_job_key *mt_job_key_of_alias(const char *pointer);
/* Whether `key` stands directly in the block `block` ("" is the whole document). */
bool mt_job_key_in_block(const char *pointer, const char *block);
/* The last part of a pointer. */
const char *mt_job_key_name(const char *pointer);
/* "training.learning_rate" for "/training/learning_rate"; returns `text`. */
const char *mt_job_key_dotted(const char *pointer, char *text, size_t text_bytes);
/* The nearest known key for an unknown one: the key's name when it stands in the same block, a dotted one
 * when elsewhere; NULL when none is near. Writes to `text`. */
const char *mt_job_key_nearest(const char *block, const char *name, char *text, size_t text_bytes);
/* The nearest of the choices that are supported now, or NULL. */
const char *mt_job_choice_nearest(const struct mt_job_choice *choices, const char *word);
const struct mt_job_choice *mt_job_choice_find(const struct mt_job_choice *choices, const char *word);
/* The word that stands for a value. */
const char *mt_job_choice_word(const struct mt_job_choice *choices, int value);
/* "a, b or c" of what is supported now. */
const char *mt_job_choice_list(const struct mt_job_choice *choices, char *text, size_t text_bytes);

#endif
