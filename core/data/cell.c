/* Cells of a row as JSON. */
#include "core/base/document.h"
#include "core/data/conversation_internal.h"

int mt_cell_text(const struct mt_value *cell, json_t **text, struct mt_error *error)
{
    struct mt_arena *arena = cell && cell->kind == MT_VALUE_LIST ? mt_arena_new() : NULL;
    const char *start;
    size_t bytes;
    *text = NULL;
    int r = mt_value_text(cell, arena, &start, &bytes, error);
    if (r == 0 && !(*text = json_stringn_nocheck(start, bytes)))
        r = mt_conversation_no_memory(error);
    mt_arena_free(arena);
    return r;
}

json_t *mt_cell_json(const struct mt_value *cell)
{
    json_t *json = NULL;
    switch (cell->kind) {
    case MT_VALUE_NULL:
        return json_null();
    case MT_VALUE_FALSE:
        return json_false();
    case MT_VALUE_TRUE:
        return json_true();
    case MT_VALUE_TEXT:
        return json_stringn_nocheck(cell->text, cell->bytes);
    case MT_VALUE_NUMBER:
        json = mt_json_load(cell->text, cell->bytes, JSON_DECODE_ANY, NULL);
        return json ? json : json_stringn_nocheck(cell->text, cell->bytes); /* NaN and the like */
    case MT_VALUE_LIST:
        json = json_array();
        for (const struct mt_value *item = cell->first; json && item; item = item->next)
            if (json_array_append_new(json, mt_cell_json(item)) < 0) {
                json_decref(json);
                json = NULL;
            }
        return json;
    case MT_VALUE_OBJECT:
        json = json_object();
        for (const struct mt_value *item = cell->first; json && item; item = item->next)
            if (json_object_setn_new_nocheck(json, item->key, item->key_bytes, mt_cell_json(item)) < 0) {
                json_decref(json);
                json = NULL;
            }
        return json;
    }
    return NULL;
}
