/* models.c: the models that are on this machine, for `GET /models`. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/model/on_disk.h"
#include "daemon/worker/tasks.h"

#include <stdio.h>

#define QUESTION_BYTES ((size_t)1 << 16)
#define MOST_MODELS 1000

static int answer(char **said, struct mt_error *error)
{
    mt_autofree char *text = NULL;
    mt_autojson json_t *question = NULL, *list = NULL;
    size_t bytes;
    int r = mt_file_read("/dev/stdin", QUESTION_BYTES, &text, &bytes, error);
    if (r == 0)
        r = mt_json_parse(text, bytes, "the question", &question, error);
    const char *folder = json_string_value(json_object_get(question, "models_folder"));
    if (r == 0 && !folder)
        r = mt_error_set(error, -EINVAL, MT_REASON_USAGE, "the question names no models_folder");
    if (r == 0)
        r = mt_models_on_disk(folder, MOST_MODELS, &list, error);
    if (r == 0 && !(*said = json_dumps(list, JSON_COMPACT)))
        r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the list of models");
    return r;
}

int mt_worker_models(void)
{
    struct mt_error error = {0};
    mt_autofree char *said = NULL;
    if (answer(&said, &error) < 0) {
        mt_log(LOG_ERR, "%s", error.message);
        return mt_reason_exit_code(error.reason);
    }
    puts(said);
    return ferror(stdout) || fflush(stdout) == EOF ? mt_reason_exit_code(MT_REASON_IO) : 0;
}
