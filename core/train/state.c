#include "core/train/state.h"

#include <stdio.h>

#define COURSE_POINTS 4

json_t *mt_state_row(const struct mt_step_row *row)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:I, s:I}", "epoch", row->epoch, "loss", row->loss,
                     "grad_norm", row->grad_norm, "learning_rate", row->learning_rate, "tokens",
                     (json_int_t)row->tokens, "target_tokens", (json_int_t)row->target_tokens, "step_seconds",
                     row->step_seconds, "skipped_steps", (json_int_t)row->skipped_steps, "attempt",
                     (json_int_t)row->attempt);
}

void mt_state_read_row(const json_t *value, size_t step, struct mt_step_row *row)
{
    *row = (struct mt_step_row){
        .step = step,
        .epoch = json_number_value(json_object_get(value, "epoch")),
        .loss = json_number_value(json_object_get(value, "loss")),
        .grad_norm = json_number_value(json_object_get(value, "grad_norm")),
        .learning_rate = json_number_value(json_object_get(value, "learning_rate")),
        .tokens = (size_t)json_integer_value(json_object_get(value, "tokens")),
        .target_tokens = (size_t)json_integer_value(json_object_get(value, "target_tokens")),
        .step_seconds = json_number_value(json_object_get(value, "step_seconds")),
        .skipped_steps = (size_t)json_integer_value(json_object_get(value, "skipped_steps")),
        .attempt = (unsigned)json_integer_value(json_object_get(value, "attempt")),
    };
}

json_t *mt_state_schedule(const struct mt_schedule *schedule)
{
    return json_pack("{s:i, s:f, s:I, s:I}", "kind", (int)schedule->kind, "learning_rate",
                     schedule->learning_rate, "total_updates", (json_int_t)schedule->total_updates,
                     "warmup_updates", (json_int_t)schedule->warmup_updates);
}

bool mt_state_new_course(const json_t *saved, const struct mt_schedule *schedule, size_t step, char *text,
                         size_t bytes)
{
    struct mt_schedule old = {
        .kind = (enum mt_schedule_kind)json_integer_value(json_object_get(saved, "kind")),
        .learning_rate = json_number_value(json_object_get(saved, "learning_rate")),
        .total_updates = (uint64_t)json_integer_value(json_object_get(saved, "total_updates")),
        .warmup_updates = (uint64_t)json_integer_value(json_object_get(saved, "warmup_updates")),
    };
    bool same = !saved || (old.kind == schedule->kind && old.learning_rate == schedule->learning_rate &&
                           old.total_updates == schedule->total_updates &&
                           old.warmup_updates == schedule->warmup_updates);
    if (same || step >= schedule->total_updates)
        return false;
    uint64_t first = step, last = schedule->total_updates - 1;
    size_t used = 0;
    text[0] = '\0';
    for (uint64_t i = 0, before = UINT64_MAX; i < COURSE_POINTS; i++) {
        uint64_t update = first + (last - first) * i / (COURSE_POINTS - 1);
        if (update == before)
            continue;
        before = update;
        int put = snprintf(text + used, bytes - used, "%sstep %llu %.3g", used > 0 ? ", " : "",
                           (unsigned long long)update + 1, mt_schedule_rate(schedule, update));
        used += put > 0 && (size_t)put < bytes - used ? (size_t)put : 0;
        if (update < old.total_updates) {
            put = snprintf(text + used, bytes - used, " (was %.3g)", mt_schedule_rate(&old, update));
            used += put > 0 && (size_t)put < bytes - used ? (size_t)put : 0;
        }
    }
    return true;
}
