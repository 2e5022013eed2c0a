/* The list of what is wrong with a document. */
#include "core/job/reader.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ERRORS 100 /* of a document that is wrong all over, the first ones tell enough */

bool mt_job_errors_full(const struct mt_job_errors *errors)
{
    return errors->count >= MAX_ERRORS;
}

void mt_job_errors_add(struct mt_job_errors *errors, const struct mt_job_error *item, bool *out_of_memory)
{
    if (mt_job_errors_full(errors))
        return;
    if (errors->count == errors->capacity) {
        size_t capacity = errors->capacity ? 2 * errors->capacity : 8;
        struct mt_job_error *items = realloc(errors->items, capacity * sizeof *items);
        if (!items) {
            *out_of_memory = true;
            return;
        }
        errors->items = items;
        errors->capacity = capacity;
    }
    if (!errors->arena)
        errors->arena = mt_arena_new();
    struct mt_job_error copy = *item;
    if (errors->arena) {
        copy.pointer = mt_arena_strdup(errors->arena, item->pointer);
        copy.detail = mt_arena_strdup(errors->arena, item->detail);
        copy.suggestion = item->suggestion ? mt_arena_strdup(errors->arena, item->suggestion) : NULL;
    }
    if (!errors->arena || !copy.pointer || !copy.detail || (item->suggestion && !copy.suggestion)) {
        *out_of_memory = true;
        return;
    }
    errors->items[errors->count++] = copy;
}

void mt_job_errors_free(struct mt_job_errors *errors)
{
    free(errors->items);
    mt_arena_free(errors->arena);
    memset(errors, 0, sizeof *errors);
}

json_t *mt_job_errors_json(const struct mt_job_errors *errors)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < errors->count; i++) {
        const struct mt_job_error *item = &errors->items[i];
        json_t *entry = json_pack("{s:s, s:s}", "pointer", item->pointer, "detail", item->detail);
        if (!entry ||
            (item->suggestion &&
             json_object_set_new(entry, "suggestion", json_string(item->suggestion)) < 0) ||
            json_array_append(list, entry) < 0) {
            json_decref(list);
            list = NULL;
        }
        json_decref(entry);
    }
    return list;
}

int mt_job_errors_report(const struct mt_job_errors *errors, struct mt_error *error)
{
    struct mt_arena *arena = mt_arena_new();
    const char *text = "";
    enum mt_reason reason = MT_REASON_NONE;
    for (size_t i = 0; i < errors->count && text; i++) {
        const struct mt_job_error *item = &errors->items[i];
        const char *pointer = *item->pointer ? item->pointer : "the document";
        const char *line = item->line ? mt_arena_printf(arena, "line %d: ", item->line) : "";
        text = mt_arena_printf(arena, "%s%s%s%s: %s", text, i ? "\n" : "", line ? line : "", pointer,
                               item->detail);
        if (reason == MT_REASON_NONE || item->reason == MT_REASON_BAD_JOB)
            reason = item->reason;
    }
    int result = mt_error_set(error, -EINVAL, reason == MT_REASON_NONE ? MT_REASON_BAD_JOB : reason, "%s",
                              text ? text : "out of memory");
    mt_arena_free(arena);
    return result;
}
