/* probe.c: see probe.h. */
#include "daemon/megatraind/probe.h"

#include "core/base/log.h"
#include "daemon/megatraind/ask.h"

#include <stdbool.h>

static bool is_answer(const json_t *list)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(json_object_get(item, "pointer")) ||
            !json_is_string(json_object_get(item, "detail")))
            return false;
    }
    return json_is_array(list);
}

json_t *mt_probe_job(const char *program, const json_t *frozen, const struct mt_control_client *client)
{
    struct mt_error error = {0};
    json_t *found = NULL;
    if (mt_ask_worker(program, "probe", frozen, MT_ASK_SECONDS, client, &found, &error) == 0 &&
        is_answer(found))
        return found;
    json_decref(found);
    mt_log(LOG_WARNING, "a job's model and data were not looked at: %s",
           error.code ? error.message : "the answer has another form");
    return NULL;
}
