/* A model as people name it on the command line. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/job/gguf_names.h"
#include "core/job/model_folder.h"
#include "core/job/model_name.h"
#include "core/job/ollama.h"

#include <stdlib.h>
#include <string.h>

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while looking for a model");
}

/* The path, or the one GGUF model of the folder that it is. */
static int take(const char *found, char **path, struct mt_error *error)
{
    int r = mt_gguf_in_folder(found, NULL, path, error);
    if (r < 0)
        return r;
    if (!*path)
        *path = strdup(found);
    return *path ? 0 : no_memory(error);
}

/* What is nowhere stays as it was said: whoever opens it says what is missing. */
static int find(struct mt_arena *arena, const char *text, char **path, struct mt_error *error)
{
    mt_autofree char *hub_cache = mt_job_hub_cache();
    mt_autofree char *lm_studio = mt_job_lm_studio();
    const struct mt_job_context context = {.hub_cache = hub_cache, .lm_studio = lm_studio};
    struct mt_model_name name;
    struct mt_model_found found = {0};
    int r = 0;
    if (mt_model_name_read(text, &name))
        r = mt_model_locate(&context, arena, name.name, *name.file ? name.file : NULL, &found, error);
    if (r < 0)
        return r;
    *path = strdup(found.path ? found.path : found.part ? found.part : text);
    return *path ? 0 : no_memory(error);
}

int mt_job_find_model(const char *text, char **path, struct mt_error *error)
{
    *path = NULL;
    if (mt_is_ollama(text)) {
        mt_autofree char *store = mt_job_ollama_store();
        return store ? mt_ollama_find(store, text, path, NULL, error)
                     : mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL,
                                    "there is no Ollama store: neither OLLAMA_MODELS nor HOME is set");
    }
    mt_autofree char *below = mt_path_join("models", text); /* as the list of models names a file there */
    if (mt_path_exists(text))
        return take(text, path, error);
    if (below && mt_gguf_starts_model(text) && mt_path_stays_below(text) && mt_path_exists(below))
        return take(below, path, error);
    struct mt_arena *arena = mt_arena_new();
    int r = arena ? find(arena, text, path, error) : no_memory(error);
    mt_arena_free(arena);
    return r;
}
