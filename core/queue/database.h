/* Inside core/queue: the connection, and statements that clean up after themselves. */
#ifndef MT_QUEUE_DATABASE_H
#define MT_QUEUE_DATABASE_H

#include "core/base/cleanup.h"
#include "core/base/error.h"
#include "core/queue/statistics.h"

#include <pthread.h>
#include <sqlite3.h>

struct mt_queue {
    pthread_mutex_t mutex; /* held through each public function */
    sqlite3 *db;
    char *path;
    struct mt_statistics statistics;
};

/* The connection with its settings, checked and migrated; for mt_queue_open. */
int mt_database_open(const char *path, sqlite3 **db, struct mt_error *error);

/* Translates the connection's last error: code, reason, and "cannot <what> <path>: ...". */
int mt_database_fail(sqlite3 *db, struct mt_error *error, const char *what);

int mt_database_exec(sqlite3 *db, const char *sql, struct mt_error *error);
int mt_database_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **statement, struct mt_error *error);
/* Runs a statement that gives no rows. */
int mt_database_run(sqlite3 *db, sqlite3_stmt *statement, struct mt_error *error);

/* Transactions that will write: begun so that no later statement finds the database busy. */
int mt_database_begin(sqlite3 *db, struct mt_error *error);
/* Commits when `result` is 0 and rolls back otherwise; returns the first failure. */
int mt_database_end(sqlite3 *db, int result, struct mt_error *error);

/* Binding by position; NULL text is SQL's NULL. The text must live until the statement ends. */
void mt_bind_text(sqlite3_stmt *statement, int position, const char *text);
void mt_bind_integer(sqlite3_stmt *statement, int position, int64_t value);

static inline void mt_cleanup_statement(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}

static inline void mt_cleanup_unlock(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}

#define mt_autostatement mt_cleanup(mt_cleanup_statement)

/* Holds the queue's mutex to the end of the block. */
#define MT_QUEUE_LOCK(queue)                                                                                 \
    mt_cleanup(mt_cleanup_unlock) pthread_mutex_t *queue_lock = &(queue)->mutex;                             \
    pthread_mutex_lock(queue_lock)

#endif
