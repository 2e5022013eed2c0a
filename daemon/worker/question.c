/* question.c: see question.h. */
#include "daemon/worker/question.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/log.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#define QUESTION_BYTES ((size_t)4 << 20)

static int say(const char *path, mt_worker_answer *answer, struct mt_error *error)
{
    mt_autojson json_t *question = NULL, *reply = NULL;
    mt_autofree char *text = NULL, *said = NULL;
    size_t bytes;
    int r = path ? mt_file_read(path, QUESTION_BYTES, &text, &bytes, error) : 0;
    if (path && r == 0)
        r = mt_json_parse(text, bytes, "the question", &question, error);
    if (r == 0)
        r = answer(question, &reply, error);
    if (r < 0)
        return r;
    said = reply ? json_dumps(reply, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (!said)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the answer");
    if (puts(said) == EOF || fflush(stdout) == EOF)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot write the answer");
    return 0;
}

int mt_worker_reply(const char *path, mt_worker_answer *answer)
{
    struct mt_error error = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (say(path, answer, &error) == 0)
        return 0;
    mt_log(LOG_ERR, "%s", error.message);
    return mt_reason_exit_code(error.reason);
}
