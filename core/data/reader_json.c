/* JSON: objects one a line (.jsonl), or one after another or in an array (.json). Finding where a row ends is
 * all that must be done in order; the parsing is left to mt_reader_parse. */
#include "core/base/cleanup.h"
#include "core/data/reader_internal.h"

#include <stdlib.h>
#include <string.h>

struct json {
    bool array; /* rows in [ ] */
    bool ended; /* after the array's end */
};

/* The row's end, sought from `*scanned` on; what is known so far is kept between calls. */
struct scan {
    size_t at; /* from the row's beginning */
    size_t depth;
    bool quoted;
};

static int open_json(struct mt_reader *reader, struct mt_error *error)
{
    struct mt_window *window = &reader->window;
    struct json *json = calloc(1, sizeof *json);
    if (!json)
        return mt_reader_no_memory(reader, error);
    reader->own = json;
    int r = mt_window_skip_blanks(window, error);
    if (r > 0 && window->data[window->begin] == '[') {
        json->array = true;
        mt_window_take(window, 1);
    }
    return r < 0 ? r : 0;
}

static void close_json(struct mt_reader *reader)
{
    free(reader->own);
}

static int unexpected(const struct mt_reader *reader, const char *message, struct mt_error *error)
{
    mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "%s", message);
    mt_error_prefix(error, "%s: line %zu, column %zu", reader->file->path, reader->window.line,
                    reader->window.column);
    return -EINVAL;
}

/* Passes what stands between two rows. 1 when another one follows, 0 at the end. */
static int enter_row(struct mt_reader *reader, struct mt_error *error)
{
    struct mt_window *window = &reader->window;
    struct json *json = reader->own;
    int r = mt_window_skip_blanks(window, error);
    if (r < 0)
        return r;
    const bool at_end = r == 0;
    const char next = at_end ? '\0' : window->data[window->begin];
    if (!json->array || json->ended) {
        if (json->ended && !at_end)
            return unexpected(reader, "something follows the end of the list of rows", error);
        return !at_end;
    }
    if (!at_end && next == ']') {
        mt_window_take(window, 1);
        json->ended = true;
        return enter_row(reader, error);
    }
    if (reader->rows == 0 && !at_end)
        return 1;
    if (at_end && window->cut) {
        reader->partial = true;
        return 0;
    }
    if (at_end || next != ',')
        return unexpected(reader,
                          at_end ? "the text ends before the \"]\" of the list of rows"
                                 : "\",\" or \"]\" is expected after a row",
                          error);
    mt_window_take(window, 1);
    r = mt_window_skip_blanks(window, error);
    if (r == 0 && window->cut) {
        reader->partial = true;
        return 0;
    }
    return r < 0 ? r : 1;
}

/* Goes on to the end of the value that begins at text[0], as far as brackets and quotes tell. True when
 * found: scan->at is behind it. What cannot be a part of a value ends it, too: the parser will say why. */
static bool scan_value(struct scan *scan, const char *text, size_t bytes)
{
    size_t i = scan->at;
    for (; i < bytes; i++) {
        const char c = text[i];
        if (scan->quoted) {
            if (c == '\\') {
                if (i + 1 == bytes)
                    break; /* look at both together */
                i++;
            } else if (c == '"') {
                scan->quoted = false;
            } else if (c == '\n') { /* strings do not go over lines */
                scan->at = i + 1;
                return true;
            }
            continue;
        }
        switch (c) {
        case '"':
            scan->quoted = true;
            break;
        case '{':
        case '[':
            scan->depth++;
            break;
        case '}':
        case ']':
            if (scan->depth <= 1) {
                scan->at = i + (scan->depth == 1 || i == 0);
                return true;
            }
            scan->depth--;
            break;
        case ',':
        case '\n':
            if (scan->depth == 0) { /* a number or the like */
                scan->at = i + (i == 0);
                return true;
            }
            break;
        default:
            break;
        }
    }
    scan->at = i;
    return false;
}

static int take_value(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                      struct mt_error *error)
{
    struct mt_window *window = &reader->window;
    struct scan scan = {0};
    while (!scan_value(&scan, window->data + window->begin, window->end - window->begin)) {
        int r = mt_window_more(window, error);
        if (r < 0)
            return r;
        if (r == 0) {
            reader->partial = window->cut;
            if (window->cut)
                return 0;
            scan.at = window->end - window->begin;
            break;
        }
    }
    return mt_reader_take_raw(reader, scan.at, arena, row, error);
}

static int take_line(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                     struct mt_error *error)
{
    struct mt_window *window = &reader->window;
    size_t seen = 0;
    for (;;) {
        const char *text = window->data + window->begin;
        const size_t bytes = window->end - window->begin;
        const char *newline = memchr(text + seen, '\n', bytes - seen);
        if (newline)
            return mt_reader_take_raw(reader, (size_t)(newline - text), arena, row, error);
        seen = bytes;
        int r = mt_window_more(window, error);
        if (r < 0)
            return r;
        if (r == 0) {
            reader->partial = window->cut;
            return window->cut ? 0 : mt_reader_take_raw(reader, bytes, arena, row, error);
        }
    }
}

static int take(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row, struct mt_error *error)
{
    const struct json *json = reader->own;
    int r = enter_row(reader, error);
    if (r <= 0)
        return r;
    return reader->file->format == MT_FORMAT_LINES && !json->array ? take_line(reader, arena, row, error)
                                                                   : take_value(reader, arena, row, error);
}

static int parse(const struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                 struct mt_error *error)
{
    int r = mt_reader_check_utf8(reader, row, error);
    if (r < 0)
        return r;
    struct mt_value *value;
    size_t used;
    r = mt_value_parse(row->raw, row->raw_bytes, arena, &value, &used, error);
    if (r < 0)
        return r == -ENOMEM ? r : (mt_reader_locate(reader, row, used, error), r);
    if (value->kind != MT_VALUE_OBJECT) {
        mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                     "a row is %s where an object with columns is expected", mt_value_kind_name(value->kind));
        return mt_reader_locate(reader, row, 0, error), -EINVAL;
    }
    while (used < row->raw_bytes && memchr(" \t\r\n", row->raw[used], 4))
        used++;
    if (used < row->raw_bytes) {
        mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "something follows the row in its line");
        return mt_reader_locate(reader, row, used, error), -EINVAL;
    }
    row->object = value;
    return 0;
}

const struct mt_reader_format mt_reader_json = {
    .open = open_json, .take = take, .parse = parse, .close = close_json};
