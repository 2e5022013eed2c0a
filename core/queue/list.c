/* Lists: keyset paging over `sequence`, so that a page costs the same wherever it is. */
#include "core/base/random.h"
#include "core/queue/database.h"
#include "core/queue/queue.h"
#include "core/queue/row.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cursor is the sequence of the last job shown and a check over it and the state asked for, both in
 * hexadecimal. The check is against mistakes (a cursor cut short, or used with another filter, which would
 * silently skip jobs), not against forgery: a forged cursor shows nothing that a list does not. */
static uint32_t cursor_check(int64_t sequence, int state)
{
    char text[48];
    snprintf(text, sizeof text, "cursor %" PRId64 " %d", sequence, state);
    uint64_t key = mt_random_key(0, text);
    return (uint32_t)(key ^ (key >> 32));
}

static void cursor_write(int64_t sequence, int state, char cursor[MT_QUEUE_CURSOR_BYTES])
{
    snprintf(cursor, MT_QUEUE_CURSOR_BYTES, "%" PRIx64 "-%08" PRIx32, (uint64_t)sequence,
             cursor_check(sequence, state));
}

static int cursor_read(const char *cursor, int state, int64_t *sequence, struct mt_error *error)
{
    char expected[MT_QUEUE_CURSOR_BYTES];
    char *end;
    errno = 0;
    int64_t value = (int64_t)strtoull(cursor, &end, 16);
    if (errno == 0 && value > 0) {
        cursor_write(value, state, expected);
        if (strcmp(expected, cursor) == 0) {
            *sequence = value;
            return 0;
        }
    }
    return mt_error_set(error, -EBADMSG, MT_REASON_USAGE,
                        "`after` is not a cursor of this list; take `next` of the page before, with the same "
                        "`state`");
}

void mt_queue_page_free(struct mt_queue_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        mt_queue_job_free(page->jobs[i]);
    free(page->jobs);
    memset(page, 0, sizeof *page);
}

/* Reads rows until `limit` are there; *more says whether another one stood behind them. */
static int read_rows(sqlite3 *db, sqlite3_stmt *statement, size_t limit, struct mt_queue_page *page,
                     bool *more, struct mt_error *error)
{
    size_t capacity = 0;
    int r;
    *more = false;
    while ((r = sqlite3_step(statement)) == SQLITE_ROW) {
        if (page->count == limit) {
            *more = true;
            return 0;
        }
        if (page->count == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            void *grown = realloc(page->jobs, capacity * sizeof *page->jobs);
            if (!grown)
                return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
            page->jobs = grown;
        }
        r = mt_row_read(db, statement, &page->jobs[page->count], error);
        if (r < 0)
            return r;
        page->count++;
    }
    return r == SQLITE_DONE ? 0 : mt_database_fail(db, error, "read");
}

int mt_queue_list(struct mt_queue *queue, int state, const char *after, size_t limit,
                  struct mt_queue_page *page, struct mt_error *error)
{
    memset(page, 0, sizeof *page);
    int64_t before = INT64_MAX;
    int r = after ? cursor_read(after, state, &before, error) : 0;
    if (r < 0)
        return r;
    MT_QUEUE_LOCK(queue);
    mt_autostatement sqlite3_stmt *statement = NULL;
    const char *sql = state < 0 ? MT_ROW_SELECT "WHERE sequence < ?1 ORDER BY sequence DESC LIMIT ?2"
                                : MT_ROW_SELECT "INDEXED BY jobs_by_state WHERE state = ?3 AND sequence < ?1 "
                                                "ORDER BY sequence DESC LIMIT ?2";
    r = mt_database_prepare(queue->db, sql, &statement, error);
    if (r < 0)
        return r;
    mt_bind_integer(statement, 1, before);
    mt_bind_integer(statement, 2, (int64_t)limit + 1);
    if (state >= 0)
        mt_bind_text(statement, 3, mt_queue_state_name((enum mt_queue_state)state));
    r = read_rows(queue->db, statement, limit, page, &page->has_more, error);
    if (r < 0)
        mt_queue_page_free(page);
    else if (page->has_more)
        cursor_write(page->jobs[page->count - 1]->sequence, state, page->next);
    return r;
}

int mt_queue_active(struct mt_queue *queue, struct mt_queue_page *page, struct mt_error *error)
{
    memset(page, 0, sizeof *page);
    MT_QUEUE_LOCK(queue);
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(queue->db,
                                MT_ROW_SELECT "WHERE state IN ('starting', 'running') ORDER BY sequence",
                                &statement, error);
    if (r == 0)
        r = read_rows(queue->db, statement, SIZE_MAX, page, &page->has_more, error);
    if (r < 0)
        mt_queue_page_free(page);
    return r;
}

int mt_queue_counts(struct mt_queue *queue, int64_t counts[MT_QUEUE_NUM_STATES], struct mt_error *error)
{
    memset(counts, 0, MT_QUEUE_NUM_STATES * sizeof *counts);
    MT_QUEUE_LOCK(queue);
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r =
        mt_database_prepare(queue->db, "SELECT state, count(*) FROM jobs GROUP BY state", &statement, error);
    if (r < 0)
        return r;
    while ((r = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        int state = name ? mt_queue_state_parse(name) : -1;
        if (state >= 0)
            counts[state] = sqlite3_column_int64(statement, 1);
    }
    return r == SQLITE_DONE ? 0 : mt_database_fail(queue->db, error, "read");
}
