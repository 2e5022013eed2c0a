/* curve.c: a polyline of training losses and one of validation losses. See curve.h. Colours are middle tones,
 * readable on light and on dark ground. */
#include "api/curve.h"

#include "api/problem.h"
#include "api/rows.h"
#include "api/server.h"
#include "core/base/cleanup.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MOST_POINTS 400
#define WHOLE_BYTES ((off_t)256 << 10)    /* a series up to here is read whole, and averaged */
#define SEARCHED_BYTES ((off_t)128 << 10) /* of a point's part of a longer one, for validation losses */
#define LAST_BYTES ((off_t)8192)          /* the last row is in them */
#define WIDTH 720.0
#define HEIGHT 240.0
#define LEFT 56.0
#define BOTTOM 24.0
#define TOP 8.0
#define RIGHT 8.0
#define TICKS 4

struct point {
    double step, loss, validation; /* NAN: not there */
};

struct series {
    struct point *points;
    size_t count, capacity;
};

static double number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    const double found = json_is_number(value) ? json_number_value(value) : NAN;
    return isfinite(found) ? found : NAN;
}

/* Takes the row's value; rows that go back in steps are of an earlier attempt. */
static void add(struct series *series, json_t *row)
{
    const struct point point = {number(row, "step"), number(row, "loss"), number(row, "val_loss")};
    json_decref(row);
    if (isnan(point.step) || (isnan(point.loss) && isnan(point.validation)) ||
        (series->count > 0 && point.step <= series->points[series->count - 1].step))
        return;
    if (series->count == series->capacity) {
        const size_t capacity = series->capacity ? series->capacity * 2 : 512;
        struct point *grown = realloc(series->points, capacity * sizeof *grown);
        if (!grown)
            return;
        series->points = grown;
        series->capacity = capacity;
    }
    series->points[series->count++] = point;
}

/* Rows at even distances, the last one, and those with a validation loss, of which there are few. */
static void sample(struct mt_rows *rows, struct series *series, off_t bytes)
{
    const off_t part = bytes / MOST_POINTS;
    struct mt_row row;
    for (off_t i = 0; i < MOST_POINTS; i++) {
        mt_rows_seek_tail(rows, bytes - part * i);
        if (mt_rows_next(rows, &row))
            add(series, row.value);
        const off_t end = part * i + (part < SEARCHED_BYTES ? part : SEARCHED_BYTES);
        while (mt_rows_find(rows, "\"val_loss\":", end, &row))
            add(series, row.value);
    }
    mt_rows_seek_tail(rows, LAST_BYTES);
    bool found = mt_rows_next(rows, &row);
    for (struct mt_row next; found && mt_rows_next(rows, &next); row = next)
        json_decref(row.value);
    if (found)
        add(series, row.value);
}

static void read_series(struct mt_rows *rows, struct series *series)
{
    struct stat status;
    struct mt_row row;
    if (rows->fd < 0 || fstat(rows->fd, &status) != 0)
        return;
    if (status.st_size > WHOLE_BYTES) {
        sample(rows, series, status.st_size);
        return;
    }
    while (mt_rows_next(rows, &row))
        add(series, row.value);
}

/* Means of neighbours, so that no more than so many points are drawn. */
static void thin(struct series *series)
{
    if (series->count <= MOST_POINTS)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < MOST_POINTS; i++) {
        const size_t from = i * series->count / MOST_POINTS, to = (i + 1) * series->count / MOST_POINTS;
        double sum = 0, validation = NAN;
        size_t count = 0;
        for (size_t j = from; j < to; j++) {
            if (!isnan(series->points[j].loss)) {
                sum += series->points[j].loss;
                count++;
            }
            if (!isnan(series->points[j].validation))
                validation = series->points[j].validation;
        }
        series->points[kept++] =
            (struct point){series->points[to - 1].step, count ? sum / (double)count : NAN, validation};
    }
    series->count = kept;
}

struct frame {
    double first, last, low, high;
};

static struct frame frame_of(const struct series *series)
{
    struct frame frame = {series->points[0].step, series->points[series->count - 1].step, INFINITY,
                          -INFINITY};
    for (size_t i = 0; i < series->count; i++) {
        const struct point *point = &series->points[i];
        frame.low = fmin(frame.low, fmin(point->loss, point->validation)); /* a NAN gives way */
        frame.high = fmax(frame.high, fmax(point->loss, point->validation));
    }
    if (frame.high - frame.low < 1e-9 * fmax(1, fabs(frame.high))) { /* a flat curve is in the middle */
        const double half = fmax(0.5e-3, fabs(frame.high) * 0.05);
        frame.low -= half;
        frame.high += half;
    }
    return frame;
}

static double x_of(const struct frame *frame, double step)
{
    return LEFT + (step - frame->first) / (frame->last - frame->first) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct frame *frame, double loss)
{
    return TOP + (frame->high - loss) / (frame->high - frame->low) * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(struct mt_text *text, const struct frame *frame)
{
    for (int i = 0; i <= TICKS; i++) {
        const double loss = frame->low + (frame->high - frame->low) * i / TICKS,
                     step = frame->first + (frame->last - frame->first) * i / TICKS, y = y_of(frame, loss),
                     x = x_of(frame, step);
        mt_text_printf(text, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#8884\"/>", LEFT,
                       y, WIDTH - RIGHT, y);
        mt_text_printf(text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>", LEFT - 6, y + 4,
                       loss);
        mt_text_printf(text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%.0f</text>\n", x, HEIGHT - 6,
                       i == 0       ? "start"
                       : i == TICKS ? "end"
                                    : "middle",
                       step);
    }
}

static void draw_line(struct mt_text *text, const struct series *series, const struct frame *frame,
                      bool validation, const char *colour)
{
    bool begun = false;
    for (size_t i = 0; i < series->count; i++) {
        const double loss = validation ? series->points[i].validation : series->points[i].loss;
        if (isnan(loss))
            continue;
        if (!begun)
            mt_text_printf(text, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"",
                           colour);
        mt_text_printf(text, "%s%.1f,%.1f", begun ? " " : "", x_of(frame, series->points[i].step),
                       y_of(frame, loss));
        begun = true;
    }
    if (begun)
        mt_text_puts(text, "\"/>\n");
}

bool mt_curve_draw(struct mt_text *text, const char *folder, bool alone)
{
    struct series series = {0};
    struct mt_rows rows;
    if (mt_rows_open(&rows, folder, "metrics.jsonl") < 0)
        return false;
    read_series(&rows, &series);
    mt_rows_close(&rows);
    if (series.count < 2) {
        free(series.points);
        return false;
    }
    const struct point last = series.points[series.count - 1];
    thin(&series);
    const struct frame frame = frame_of(&series);
    mt_text_printf(text,
                   "<svg %sviewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"Loss from step %.0f to %.0f, "
                   "last %.4g\" font-family=\"system-ui, sans-serif\" font-size=\"11\" fill=\"#888\">\n",
                   alone ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", WIDTH, HEIGHT, frame.first,
                   frame.last, isnan(last.loss) ? last.validation : last.loss);
    draw_axes(text, &frame);
    draw_line(text, &series, &frame, false, "#3b82d6");
    draw_line(text, &series, &frame, true, "#d97a28");
    mt_text_puts(text, "</svg>\n");
    free(series.points);
    return true;
}

void mt_job_chart(struct mt_request *request)
{
    const struct mt_control *control = request->listener->api->control;
    mt_autofree char *folder = control->job_folder(control->context, request->path_value);
    struct mt_text text = {0};
    if (!folder)
        mt_problem(request, 404, "There is no job %s.", request->path_value);
    else if (!mt_curve_draw(&text, folder, true))
        mt_problem(request, 404, "The job has not made two steps yet: there is no curve.");
    else
        mt_reply_text(request, 200, "image/svg+xml", &text);
    mt_text_free(&text);
}
