/* The SQLite connection: how it is opened, checked and migrated, and how its errors become ours. */
#include "core/queue/database.h"

#include "core/queue/migrations.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* "MTQ1" in the header of the file: a database of ours. */
#define APPLICATION_ID 0x4d545131

/* A second process (someone's sqlite3 shell) may hold the lock for a moment. */
#define BUSY_TIMEOUT_MS 5000

/* The file grows by so much at a time, so that there is room in it when the disk has none. */
#define CHUNK_BYTES (256 << 10)

int mt_database_fail(sqlite3 *db, struct mt_error *error, const char *what)
{
    const char *path = db ? sqlite3_db_filename(db, "main") : NULL;
    if (!path)
        path = "the job database";
    if (!db)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "cannot %s %s: out of memory", what,
                            path);
    int code = sqlite3_extended_errcode(db);
    int system = sqlite3_system_errno(db);
    const char *message = sqlite3_errmsg(db);
    /* The index of the WAL is a file of its own, mapped; what it reports when it cannot grow is SHMSIZE. */
    if ((code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE ||
        ((code & 0xff) == SQLITE_IOERR && (system == ENOSPC || system == EDQUOT)))
        return mt_error_set(error, -ENOSPC, MT_REASON_DISK_FULL,
                            "cannot %s %s: the disk is full; make room and try again", what, path);
    switch (code & 0xff) {
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return mt_error_set(error, -EROFS, MT_REASON_IO, "cannot %s %s: it is read-only (%s)", what, path,
                            message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return mt_error_set(
            error, -EUCLEAN, MT_REASON_IO,
            "cannot %s %s: the database is damaged (%s); put a copy in its place, or move it away "
            "(with its -wal and -shm) to begin with an empty queue",
            what, path, message);
    case SQLITE_NOMEM:
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "cannot %s %s: out of memory", what,
                            path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return mt_error_set(error, -EBUSY, MT_REASON_IO, "cannot %s %s: another process keeps it locked",
                            what, path);
    default:
        return mt_error_set(error, -EIO, MT_REASON_IO, "cannot %s %s: %s%s%s", what, path, message,
                            system ? ": " : "", system ? strerror(system) : "");
    }
}

int mt_database_exec(sqlite3 *db, const char *sql, struct mt_error *error)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return mt_database_fail(db, error, "write");
    return 0;
}

int mt_database_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **statement, struct mt_error *error)
{
    if (sqlite3_prepare_v2(db, sql, -1, statement, NULL) != SQLITE_OK)
        return mt_database_fail(db, error, "read");
    return 0;
}

/* The disk is full: moves what the log holds into the database, whose file has room ahead, so that the next
 * writes fill the log from its beginning and need no new space. Without this even a DELETE could not be
 * recorded. */
static void make_room_in_log(sqlite3 *db)
{
    sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
}

int mt_database_run(sqlite3 *db, sqlite3_stmt *statement, struct mt_error *error)
{
    int step;
    do
        step = sqlite3_step(statement);
    while (step == SQLITE_ROW);
    if (step == SQLITE_DONE)
        return 0;
    int r = mt_database_fail(db, error, "write");
    sqlite3_reset(statement);
    if (r == -ENOSPC && sqlite3_get_autocommit(db))
        make_room_in_log(db);
    return r;
}

int mt_database_begin(sqlite3 *db, struct mt_error *error)
{
    return mt_database_exec(db, "BEGIN IMMEDIATE", error);
}

int mt_database_end(sqlite3 *db, int result, struct mt_error *error)
{
    if (result == 0)
        result = mt_database_exec(db, "COMMIT", error);
    /* A full disk makes SQLite roll back by itself; asking again is then an error that means nothing. */
    if (result < 0 && !sqlite3_get_autocommit(db))
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    if (result == -ENOSPC)
        make_room_in_log(db);
    return result;
}

void mt_bind_text(sqlite3_stmt *statement, int position, const char *text)
{
    if (text)
        sqlite3_bind_text(statement, position, text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(statement, position);
}

void mt_bind_integer(sqlite3_stmt *statement, int position, int64_t value)
{
    sqlite3_bind_int64(statement, position, value);
}

static int pragma_integer(sqlite3 *db, const char *sql, int64_t *value, struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(db, sql, &statement, error);
    if (r < 0)
        return r;
    if (sqlite3_step(statement) != SQLITE_ROW)
        return mt_database_fail(db, error, "read");
    *value = sqlite3_column_int64(statement, 0);
    return 0;
}

static int check_health(sqlite3 *db, struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(db, "PRAGMA quick_check(1)", &statement, error);
    if (r < 0)
        return r;
    if (sqlite3_step(statement) != SQLITE_ROW)
        return mt_database_fail(db, error, "read");
    const char *verdict = (const char *)sqlite3_column_text(statement, 0);
    if (verdict && strcmp(verdict, "ok") == 0)
        return 0;
    return mt_error_set(error, -EUCLEAN, MT_REASON_IO,
                        "the database %s is damaged (%s); put a copy in its place, or move it away (with its "
                        "-wal and -shm) to begin with an empty queue",
                        sqlite3_db_filename(db, "main"), verdict ? verdict : "unknown damage");
}

static int migrate_one(sqlite3 *db, const struct mt_migration *migration, struct mt_error *error)
{
    int r = mt_database_begin(db, error);
    if (r < 0)
        return r;
    r = mt_database_exec(db, migration->sql, error);
    if (r == 0) {
        char sql[96];
        snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d", APPLICATION_ID,
                 migration->number);
        r = mt_database_exec(db, sql, error);
    }
    r = mt_database_end(db, r, error);
    if (r < 0)
        mt_error_prefix(error, "migration %s", migration->name);
    return r;
}

static int migrate(sqlite3 *db, struct mt_error *error)
{
    int64_t version = 0, application = 0, tables = 0;
    int r = pragma_integer(db, "PRAGMA user_version", &version, error);
    if (r == 0)
        r = pragma_integer(db, "PRAGMA application_id", &application, error);
    if (r == 0)
        r = pragma_integer(db, "SELECT count(*) FROM sqlite_schema", &tables, error);
    if (r < 0)
        return r;
    const char *path = sqlite3_db_filename(db, "main");
    if (application != APPLICATION_ID && (application != 0 || version != 0 || tables != 0))
        return mt_error_set(
            error, -EPROTO, MT_REASON_IO,
            "%s is a database of another program; move it away or choose another state folder", path);
    int64_t known = mt_migrations_count ? mt_migrations[mt_migrations_count - 1].number : 0;
    if (version > known)
        return mt_error_set(
            error, -EPROTO, MT_REASON_IO,
            "%s was written by a newer MegaTrain (schema %lld, this one knows %lld); install that "
            "version again, or choose another state folder",
            path, (long long)version, (long long)known);
    for (size_t i = 0; i < mt_migrations_count; i++) {
        if (mt_migrations[i].number <= version)
            continue;
        r = migrate_one(db, &mt_migrations[i], error);
        if (r < 0)
            return r;
    }
    return 0;
}

int mt_database_open(const char *path, sqlite3 **db, struct mt_error *error)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(path, db, flags, NULL) != SQLITE_OK) {
        int r = mt_database_fail(*db, error, "open");
        sqlite3_close(*db);
        *db = NULL;
        return r;
    }
    sqlite3_busy_timeout(*db, BUSY_TIMEOUT_MS);
    /* A read-only file opens without a word; it is the queue of a daemon that must write. */
    int r = 0;
    if (sqlite3_db_readonly(*db, "main") == 1)
        r = mt_error_set(error, -EROFS, MT_REASON_IO, "cannot write %s: it is read-only", path);
    if (r == 0)
        r = mt_database_exec(
            *db,
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
            "PRAGMA wal_autocheckpoint=100; PRAGMA journal_size_limit=4194304; PRAGMA cache_size=-2000;"
            "PRAGMA trusted_schema=OFF",
            error);
    int chunk = CHUNK_BYTES;
    if (r == 0)
        sqlite3_file_control(*db, "main", SQLITE_FCNTL_CHUNK_SIZE, &chunk);
    if (r == 0)
        r = check_health(*db, error);
    if (r == 0)
        r = migrate(*db, error);
    if (r < 0) {
        sqlite3_close(*db);
        *db = NULL;
    }
    return r;
}
