/* A model as people name it on the command line. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/job/job.h"
#include "core/job/model_folder.h"
#include "core/job/ollama.h"
#include "core/job/path.h"

#include <stdlib.h>
#include <string.h>

char *mt_job_ollama_store(void)
{
    const char *store = getenv("OLLAMA_MODELS"), *home = getenv("HOME");
    if (store && *store)
        return strdup(store);
    return home && *home ? mt_path_join(home, ".ollama/models") : NULL;
}

/* The path, or the one GGUF model of the folder that it is. */
static int take(const char *found, char **path, struct mt_error *error)
{
    int r = mt_gguf_in_folder(found, path, error);
    if (r < 0)
        return r;
    if (!*path)
        *path = strdup(found);
    return *path ? 0 : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
}

static int find(struct mt_arena *arena, const char *text, char **path, struct mt_error *error)
{
    mt_autofree char *hub_cache = mt_job_hub_cache();
    const struct mt_job_context context = {.hub_cache = hub_cache};
    const char *found = mt_is_model_name(text) ? mt_model_locate(&context, arena, text) : NULL;
    /* What is nowhere stays as it was said: whoever opens it says what is missing. */
    return take(found ? found : text, path, error);
}

int mt_job_find_model(const char *text, char **path, struct mt_error *error)
{
    *path = NULL;
    if (mt_is_ollama(text)) {
        mt_autofree char *store = mt_job_ollama_store();
        return store ? mt_ollama_find(store, text, path, error)
                     : mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL,
                                    "there is no Ollama store: neither OLLAMA_MODELS nor HOME is set");
    }
    if (mt_path_exists(text))
        return take(text, path, error);
    struct mt_arena *arena = mt_arena_new();
    int r = arena ? find(arena, text, path, error)
                  : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    mt_arena_free(arena);
    return r;
}
