#include "daemon/cli/progress.h"

#include "core/base/time.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void mt_progress_init(struct mt_progress *progress, FILE *out, uint64_t interval)
{
    const char *kind = getenv("TERM");
    memset(progress, 0, sizeof *progress);
    progress->out = out;
    progress->terminal = isatty(fileno(out)) && !(kind && strcmp(kind, "dumb") == 0);
    progress->interval = interval ? interval : 1;
}

const char *mt_progress_count(double value, char text[40])
{
    char digits[32];
    size_t used = 0;
    int count = snprintf(digits, sizeof digits, "%.0f", value >= 0 && value < 1e18 ? value : 0.0);
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

/* A growing text of at most so many bytes. */
struct line {
    char *text;
    size_t bytes, used;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (line->used + 1 < line->bytes) {
        int written = vsnprintf(line->text + line->used, line->bytes - line->used, format, arguments);
        if (written > 0)
            line->used += (size_t)written;
        if (line->used >= line->bytes)
            line->used = line->bytes - 1;
    }
    va_end(arguments);
}

static void add_figures(struct line *line, const struct mt_progress_state *state, bool all)
{
    char text[40];
    if (!isnan(state->loss))
        add(line, "  loss %.4f", state->loss);
    if (!isnan(state->val_loss))
        add(line, "  val_loss %.4f", state->val_loss);
    if (all && !isnan(state->learning_rate))
        add(line, "  lr %.3g", state->learning_rate);
    if (all && !isnan(state->grad_norm))
        add(line, "  grad %.3g", state->grad_norm);
    if (state->tokens_per_second > 0)
        add(line, "  %s tokens/s", mt_progress_count(state->tokens_per_second, text));
    if (state->eta_seconds >= 0 && state->step < state->max_steps)
        add(line, "  ETA %s", mt_time_duration(state->eta_seconds, text));
}

const char *mt_progress_bar(const struct mt_progress_state *state, unsigned width, char *text,
                            size_t text_bytes)
{
    char figures[256];
    struct line after = {figures, sizeof figures, 0}, line = {text, text_bytes, 0};
    *figures = *text = '\0';
    if (state->step > 0) {
        add(&after, " %llu/", (unsigned long long)state->step);
        if (state->max_steps)
            add(&after, "%llu", (unsigned long long)state->max_steps);
        else
            add(&after, "?");
        add_figures(&after, state, false);
    } else {
        add(&after, " %s", state->phase ? state->phase : "starting");
    }
    double share = state->max_steps ? (double)state->step / (double)state->max_steps : 0;
    share = share > 1 ? 1 : share;
    /* What is left of the line goes to the bar itself, 40 columns at most. */
    size_t room = width > after.used + 8 ? width - after.used - 8 : 0;
    size_t cells = room > 40 ? 40 : room;
    add(&line, "%3d%%", (int)(share * 100));
    if (cells >= 4) {
        add(&line, " [");
        for (size_t i = 0; i < cells; i++)
            add(&line, "%c", (double)i < share * (double)cells ? '#' : '.');
        add(&line, "]");
    }
    add(&line, "%s", figures);
    if (width > 0 && line.used >= width)
        text[width - 1] = '\0'; /* a line that wraps could not be drawn over */
    return text;
}

static unsigned terminal_width(FILE *out)
{
    struct winsize size;
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
}

static bool same_phase(const struct mt_progress *progress, const struct mt_progress_state *state)
{
    return !state->phase || strncmp(progress->last_phase, state->phase, sizeof progress->last_phase - 1) == 0;
}

static void show_plain(struct mt_progress *progress, const struct mt_progress_state *state)
{
    char text[256];
    struct line line = {text, sizeof text, 0};
    *text = '\0';
    if (state->step == 0) {
        if (same_phase(progress, state))
            return;
        snprintf(progress->last_phase, sizeof progress->last_phase, "%s", state->phase);
        fprintf(progress->out, "%s\n", state->phase);
        fflush(progress->out);
        return;
    }
    bool due = state->step % progress->interval == 0 || progress->last_step == 0 ||
               state->step == state->max_steps || !isnan(state->val_loss);
    if (state->step == progress->last_step || !due)
        return;
    progress->last_step = state->step;
    add(&line, "step %llu", (unsigned long long)state->step);
    if (state->max_steps)
        add(&line, "/%llu", (unsigned long long)state->max_steps);
    add_figures(&line, state, true);
    fprintf(progress->out, "%s\n", text);
    fflush(progress->out);
}

void mt_progress_show(struct mt_progress *progress, const struct mt_progress_state *state)
{
    char text[512];
    if (!progress->terminal) {
        show_plain(progress, state);
        return;
    }
    fprintf(progress->out, "\r%s\033[K",
            mt_progress_bar(state, terminal_width(progress->out), text, sizeof text));
    fflush(progress->out);
    progress->drawn = true;
}

void mt_progress_line(struct mt_progress *progress, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (progress->drawn)
        fputs("\r\033[K", progress->out);
    vfprintf(progress->out, format, arguments);
    fputc('\n', progress->out);
    fflush(progress->out);
    progress->drawn = false;
    va_end(arguments);
}

void mt_progress_end(struct mt_progress *progress)
{
    if (progress->drawn)
        fputc('\n', progress->out);
    fflush(progress->out);
    progress->drawn = false;
}
