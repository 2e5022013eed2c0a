#include "core/job/model_name.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/job/gguf_names.h"
#include "core/job/model_folder.h"
#include "core/job/path.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- names --------------------------------------------------------------------------------------------- */

bool mt_is_model_name(const char *name)
{
    size_t slashes = 0;
    bool start = true;
    for (const char *c = name; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (*c == '/' && !start)
            slashes++;
        else if (!letter && (start || !strchr("._-", *c)))
            return false;
        start = *c == '/';
    }
    return !start && slashes <= 1;
}

bool mt_model_name_read(const char *text, struct mt_model_name *name)
{
    static const char *const hosts[] = {"hf.co/", "huggingface.co/"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        const size_t bytes = strlen(hosts[i]);
        const char *slash = strncmp(text, hosts[i], bytes) == 0 ? strchr(text + bytes, '/') : NULL;
        if (slash) { /* and an Org/Model behind it */
            text += bytes;
            break;
        }
    }
    const char *colon = strchr(text, ':');
    const size_t bytes = colon ? (size_t)(colon - text) : strlen(text);
    if (bytes >= sizeof name->name || (colon && strlen(colon + 1) >= sizeof name->file))
        return false;
    snprintf(name->name, sizeof name->name, "%.*s", (int)bytes, text);
    snprintf(name->file, sizeof name->file, "%s", colon ? colon + 1 : "");
    return mt_is_model_name(name->name) && (!colon || mt_gguf_is_choice(name->file));
}

/* --- places -------------------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat status;
    return path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

const char *mt_model_place(const struct mt_job_context *context, struct mt_arena *arena, const char *name)
{
    const char *folder = context->models_folder;
    if (!folder)
        folder = mt_path_absolute(arena, context->model_base, "models", false);
    return folder ? mt_path_absolute(arena, folder, name, false) : NULL;
}

/* "<cache>/models--Org--Model/<below>" */
static const char *cache_path(struct mt_arena *arena, const char *cache, const char *name, const char *below)
{
    const char *slash = strchr(name, '/');
    return slash ? mt_arena_printf(arena, "%s/models--%.*s--%s/%s", cache, (int)(slash - name), name,
                                   slash + 1, below)
                 : mt_arena_printf(arena, "%s/models--%s/%s", cache, name, below);
}

const char *mt_hub_snapshot(struct mt_arena *arena, const char *cache, const char *name)
{
    const char *main_ref = cache_path(arena, cache, name, "refs/main");
    const char *snapshots = cache_path(arena, cache, name, "snapshots");
    mt_autofree char *commit = NULL;
    size_t bytes;
    if (!main_ref || !snapshots)
        return NULL;
    if (mt_file_read(main_ref, 256, &commit, &bytes, NULL) == 0) {
        commit[strspn(commit, "0123456789abcdefABCDEF")] = '\0';
        const char *snapshot = mt_arena_printf(arena, "%s/%s", snapshots, commit);
        if (*commit && is_folder(snapshot))
            return snapshot;
    }
    const char *found = NULL;
    DIR *entries = opendir(snapshots);
    for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] != '.' && (!found || strcmp(entry->d_name, mt_job_key_name(found)) < 0))
            found = mt_arena_printf(arena, "%s/%s", snapshots, entry->d_name);
    }
    if (entries)
        closedir(entries);
    return is_folder(found) ? found : NULL;
}

/* --- looking ------------------------------------------------------------------------------------------- */

struct search {
    struct mt_arena *arena;
    const char *name, *file;
    struct mt_model_found *found;
    bool other_files;
    struct mt_error there; /* what there is instead of the file */
};

static bool has_config(const char *folder)
{
    mt_autofree char *config = mt_path_join(folder, "config.json");
    return config && mt_path_exists(config);
}

/* `own`: where models are put by hand or by a download, whose config.json alone says that one is meant. */
static int look(struct search *search, const char *folder, bool own)
{
    mt_autofree char *gguf = NULL;
    struct mt_error error = {0};
    if (search->found->path || !folder || !is_folder(folder))
        return 0;
    int r = mt_gguf_in_repository(folder, search->name, search->file, &gguf, &error);
    if (r == -ENOENT) {
        if (!search->other_files)
            search->there = error;
        search->other_files = true;
        return 0;
    }
    if (r < 0) {
        search->there = error;
        return r;
    }
    if (gguf)
        search->found->path = mt_arena_strdup(search->arena, gguf);
    else if (own ? has_config(folder) : mt_model_folder_is_whole(folder))
        search->found->path = folder;
    else if (!search->found->part)
        search->found->part = folder;
    return gguf && !search->found->path ? -ENOMEM : 0;
}

/* A file that was fetched of an earlier commit is still there. */
static int look_in_snapshots(struct search *search, const char *cache)
{
    const char *newest = mt_hub_snapshot(search->arena, cache, search->name);
    int r = look(search, newest, false);
    const char *snapshots = cache_path(search->arena, cache, search->name, "snapshots");
    if (r < 0 || !search->file || !newest || !snapshots)
        return r;
    struct dirent **entries;
    const int count = scandir(snapshots, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (r == 0 && *entries[i]->d_name != '.')
            r = look(search, mt_arena_printf(search->arena, "%s/%s", snapshots, entries[i]->d_name), false);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return r;
}

int mt_model_locate(const struct mt_job_context *context, struct mt_arena *arena, const char *name,
                    const char *file, struct mt_model_found *found, struct mt_error *error)
{
    struct search search = {.arena = arena, .name = name, .file = file, .found = found};
    const char *place = mt_model_place(context, arena, name);
    *found = (struct mt_model_found){0};
    int r = place ? look(&search, place, true) : -ENOMEM;
    if (r == 0 && context->hub_cache)
        r = look_in_snapshots(&search, context->hub_cache);
    if (r == 0 && context->lm_studio)
        r = look(&search, mt_arena_printf(arena, "%s/%s", context->lm_studio, name), false);
    if (r == -ENOMEM)
        return mt_error_set(error, r, MT_REASON_OUT_OF_MEMORY, "out of memory while looking for a model");
    if (r == 0 && !found->path && search.other_files)
        r = -ENOENT;
    if (r < 0 && error)
        *error = search.there;
    return r;
}

/* --- where this user has them --------------------------------------------------------------------------- */

char *mt_job_hub_cache(void)
{
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"HF_HUB_CACHE", ""},
        {"HF_HOME", "/hub"},
        {"XDG_CACHE_HOME", "/huggingface/hub"},
        {"HOME", "/.cache/huggingface/hub"},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        char *path = NULL;
        if (value && *value && asprintf(&path, "%s%s", value, places[i].below) >= 0)
            return path;
    }
    return NULL;
}

char *mt_job_ollama_store(void)
{
    const char *store = getenv("OLLAMA_MODELS"), *home = getenv("HOME");
    if (store && *store)
        return strdup(store);
    return home && *home ? mt_path_join(home, ".ollama/models") : NULL;
}

/* The first line of ~/.lmstudio-home-pointer: where LM Studio keeps its files, if it wrote that. */
static char *studio_home(const char *home)
{
    mt_autofree char *pointer = mt_path_join(home, ".lmstudio-home-pointer");
    char *text = NULL;
    size_t bytes;
    if (!pointer || mt_file_read(pointer, 4096, &text, &bytes, NULL) < 0)
        return NULL;
    text[strcspn(text, "\r\n")] = '\0';
    return text;
}

char *mt_job_lm_studio(void)
{
    const char *home = getenv("HOME");
    if (!home || !*home)
        return NULL;
    mt_autofree char *own = studio_home(home);
    mt_autofree char *now = mt_path_join(home, ".lmstudio");
    mt_autofree char *before = mt_path_join(home, ".cache/lm-studio");
    const char *const homes[] = {own, now, before};
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        char *models = homes[i] && *homes[i] == '/' ? mt_path_join(homes[i], "models") : NULL;
        if (is_folder(models))
            return models;
        free(models);
    }
    return NULL;
}
