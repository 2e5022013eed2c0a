/* What --model names, on this machine or as a job of the daemon. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/id.h"
#include "core/job/model_name.h"
#include "core/train/checkpoint_list.h"
#include "core/train/manifest.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while looking for a model");
}

/* --- a job --------------------------------------------------------------------------------------------- */

/* The newest checkpoint of the job that was answered. */
static int take_checkpoint(const char *id, const char *url, const struct mt_response *response, char **path,
                           struct mt_error *error)
{
    const char *state = json_string_value(json_object_get(response->json, "state"));
    const char *detail = json_string_value(json_object_get(response->json, "detail"));
    const char *found =
        json_string_value(json_object_get(json_object_get(response->json, "last_checkpoint"), "path"));
    if (!json_object_get(response->json, response->status < 300 ? "id" : "title"))
        return mt_error_set(
            error, -ECONNREFUSED, MT_REASON_IO,
            "what answered at %s with status %ld, when asked for the job %s, is not megatraind; "
            "MEGATRAIN_URL says where megatraind is",
            url, response->status, id);
    if (response->status == 404)
        return mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL,
                            "there is no job %s at %s (megatrain jobs lists those there are), and no file or "
                            "folder of that name",
                            id, url);
    if (response->status >= 300)
        return mt_error_set(error, -EIO, MT_REASON_BAD_MODEL,
                            "%s does not tell of the job %s: it answered %ld%s%s", url, id, response->status,
                            detail ? ", " : "", detail ? detail : "");
    if (!found)
        return mt_error_set(
            error, -ENOENT, MT_REASON_BAD_MODEL,
            "the job %s is %s and has no checkpoint yet; one is saved by checkpoint.every_steps, by "
            "a pause, and at the end",
            id, state ? state : "there");
    if (access(found, R_OK | X_OK) < 0)
        return mt_error_set(
            error, -errno, MT_REASON_BAD_MODEL,
            "the job %s has the checkpoint %s, which cannot be opened here: %s; ask it on the "
            "daemon's machine, as a user who may read that folder",
            id, found, strerror(errno));
    *path = strdup(found);
    return *path ? 0 : no_memory(error);
}

static int find_job(const char *id, char **path, struct mt_error *error)
{
    struct mt_client *client;
    struct mt_response response = {0};
    char resource[16 + MT_ID_BYTES];
    int r = mt_client_open(&client, error);
    if (r < 0)
        return r;
    snprintf(resource, sizeof resource, "/jobs/%s", id);
    const struct mt_request request = {.method = "GET", .path = resource};
    r = mt_client_send(client, &request, &response, error);
    if (r < 0)
        mt_error_prefix(
            error,
            "there is no file or folder %s, and whether it is a job only the daemon can tell (its "
            "checkpoints are below jobs/%s of its state folder)",
            id, id);
    else
        r = take_checkpoint(id, mt_client_url(client), &response, path, error);
    mt_response_free(&response);
    mt_client_close(client);
    return r;
}

/* --- all of it ----------------------------------------------------------------------------------------- */

static int refuse_absent(const char *text, struct mt_error *error)
{
    struct mt_model_name name;
    return mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL,
                        "cannot open %s: there is no such file or folder%s", text,
                        mt_model_name_read(text, &name)
                            ? ", and no model of that name in ./models, the local hub cache or LM Studio's "
                              "folder (megatrain models lists them; one of Ollama's is said ollama:NAME)"
                            : "");
}

int mt_cli_find_model(const char *text, char **path, struct mt_error *error)
{
    mt_autofree char *found = NULL;
    *path = NULL;
    int r = mt_job_find_model(text, &found, error);
    if (r < 0)
        return r;
    if (!mt_path_exists(found))
        return mt_id_valid(text) ? find_job(text, path, error) : refuse_absent(found, error);
    mt_autofree char *checkpoints = mt_path_join(found, "checkpoints");
    if (!checkpoints)
        return no_memory(error);
    if (mt_path_exists(checkpoints))
        return mt_checkpoint_resolve(found, path, error);
    *path = found;
    found = NULL;
    return 0;
}

int mt_cli_check_model(const char *path, struct mt_error *error)
{
    mt_autofree char *manifest = mt_path_join(path, MT_MANIFEST_NAME);
    if (!manifest)
        return no_memory(error);
    if (!mt_path_exists(manifest))
        return 0;
    struct mt_error problem = {0};
    const int r = mt_manifest_verify(path, MT_MANIFEST_MODEL, &problem);
    if (r < 0 && problem.reason == MT_REASON_BAD_MODEL)
        return mt_error_set(error, r, MT_REASON_BAD_MODEL,
                            "%s; name another checkpoint, or, if this was changed on purpose, remove %s",
                            problem.message, manifest);
    if (r < 0 && error)
        *error = problem;
    return r;
}
