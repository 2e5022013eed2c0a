/* The SQL files of migrations/, embedded by the Makefile in the order of their numbers. */
#ifndef MT_QUEUE_MIGRATIONS_H
#define MT_QUEUE_MIGRATIONS_H

#include <stddef.h>

struct mt_migration {
    int number;       /* from 1, without gaps; the schema version after it */
    const char *name; /* "0001_queue" */
    const char *sql;
};

extern const struct mt_migration mt_migrations[];
extern const size_t mt_migrations_count;

#endif
