/* log_stream.c: the reader behind GET /jobs/{id}/logs?follow=1 and the plain log.
 *
 * Nothing is remembered for the client but the place in the file, so one that reads slowly, or not at all,
 * costs nothing. A silent followed stream of rows gets a space now and then, which a reader of JSON lines
 * passes over, so that no proxy in between takes the link for dead. */
#include "api/log_stream.h"

#include "api/text.h"
#include "core/base/cleanup.h"
#include "core/base/time.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEARTBEAT_SECONDS 15.0
#define STATE_SECONDS 1.0 /* how often the daemon is asked whether the job has ended */

struct log_stream {
    const struct mt_control *control;
    char id[32];
    char *folder; /* to open a file that is not there yet */
    struct mt_rows rows;
    bool plain, follow;
    bool ended; /* the job, before the file was last read to its end */
    struct mt_text pending;
    size_t sent; /* of pending */
    double last_sent, last_asked;
    bool heartbeat;
};

/* Text for a terminal: a message may hold what a data set holds. */
static void append_plain(struct mt_text *text, const char *words)
{
    for (; *words; words++) {
        unsigned char c = (unsigned char)*words;
        if (c == '\n')
            mt_text_puts(text, "\n    ");
        else
            mt_text_append(text, (c < 0x20 && c != '\t') || c == 0x7f ? "?" : words, 1);
    }
}

static void append_plain_row(struct mt_text *text, const json_t *row)
{
    static const char *const first[] = {"time", "level", "message"};
    for (size_t i = 0; i < 3; i++) {
        const char *words = json_string_value(json_object_get(row, first[i]));
        append_plain(text, words ? words : "-");
        mt_text_puts(text, i < 2 ? " " : "");
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)row, key, value)
    {
        if (strcmp(key, "time") == 0 || strcmp(key, "level") == 0 || strcmp(key, "message") == 0)
            continue;
        mt_text_puts(text, " ");
        append_plain(text, key);
        mt_text_puts(text, "=");
        mt_text_json(text, value);
    }
    mt_text_puts(text, "\n");
}

/* Puts the next row into `pending`; false when there is none now. */
static bool take_row(struct log_stream *stream)
{
    struct mt_row row;
    stream->pending.bytes = stream->sent = 0;
    if (!mt_rows_next(&stream->rows, &row))
        return false;
    if (stream->plain) {
        append_plain_row(&stream->pending, row.value);
    } else {
        mt_text_append(&stream->pending, row.text, row.bytes);
        mt_text_puts(&stream->pending, "\n");
    }
    json_decref(row.value);
    return !stream->pending.failed;
}

static ssize_t stream_read(void *context, char *buffer, size_t capacity)
{
    struct log_stream *stream = context;
    size_t bytes = 0;
    while (bytes < capacity) {
        if (stream->sent == stream->pending.bytes && !take_row(stream))
            break;
        size_t piece = stream->pending.bytes - stream->sent;
        if (piece > capacity - bytes)
            piece = capacity - bytes;
        memcpy(buffer + bytes, stream->pending.data + stream->sent, piece);
        stream->sent += piece;
        bytes += piece;
    }
    if (bytes == 0 && stream->heartbeat)
        buffer[bytes++] = ' ';
    stream->heartbeat = false;
    if (bytes > 0) {
        stream->last_sent = mt_time_monotonic();
        return (ssize_t)bytes;
    }
    return stream->follow && !stream->ended ? 0 : -1;
}

static bool job_ended(const struct log_stream *stream)
{
    static const char *const ends[] = {"completed", "failed", "cancelled"};
    const struct mt_control *control = stream->control;
    mt_autojson json_t *job = NULL;
    if (control->job_active(control->context, stream->id))
        return false;
    struct mt_error error = {0};
    enum mt_control_result result = control->job(control->context, stream->id, &job, &error);
    if (result != MT_CONTROL_OK)
        return result == MT_CONTROL_NOT_FOUND;
    const char *state = json_string_value(json_object_get(job, "state"));
    for (size_t i = 0; state && i < 3; i++) {
        if (strcmp(state, ends[i]) == 0)
            return true;
    }
    return false;
}

static bool has_grown(struct log_stream *stream)
{
    struct stat status;
    if (stream->rows.fd < 0) {
        mt_rows_open(&stream->rows, stream->folder, "log.jsonl");
        return stream->rows.fd >= 0;
    }
    if (fstat(stream->rows.fd, &status) != 0)
        return false;
    if (status.st_size < stream->rows.offset)
        mt_rows_seek(&stream->rows, status.st_size); /* a torn end was cut off by the next attempt */
    return status.st_size > stream->rows.offset;
}

static bool stream_due(void *context)
{
    struct log_stream *stream = context;
    double now = mt_time_monotonic();
    /* The state first: what the file holds after the end was seen is all there will be. */
    if (now - stream->last_asked >= STATE_SECONDS) {
        stream->last_asked = now;
        stream->ended = job_ended(stream);
    }
    if (has_grown(stream) || stream->ended)
        return true;
    stream->heartbeat = !stream->plain && now - stream->last_sent >= HEARTBEAT_SECONDS;
    return stream->heartbeat;
}

static void stream_free(void *context)
{
    struct log_stream *stream = context;
    mt_rows_close(&stream->rows);
    mt_text_free(&stream->pending);
    free(stream->folder);
    free(stream);
}

int mt_log_stream_new(const struct mt_control *control, const char *id, struct mt_rows *rows, bool plain,
                      bool follow, struct mt_stream *stream)
{
    struct log_stream *made = calloc(1, sizeof *made);
    char *folder = control->job_folder(control->context, id);
    if (!made || !folder) {
        free(made);
        free(folder);
        return -ENOMEM;
    }
    *made = (struct log_stream){.control = control,
                                .folder = folder,
                                .rows = *rows,
                                .plain = plain,
                                .follow = follow,
                                .last_sent = mt_time_monotonic()};
    snprintf(made->id, sizeof made->id, "%s", id);
    *rows = (struct mt_rows){.fd = -1};
    *stream =
        (struct mt_stream){.context = made, .read = stream_read, .due = stream_due, .free = stream_free};
    return 0;
}
