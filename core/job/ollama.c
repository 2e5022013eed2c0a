/* Ollama keeps a model as a manifest, a JSON file that lists its layers by digest, and each layer as a file
 * of that digest's name. The layer of the type `model` is a GGUF file, and has all that training needs: those
 * of the types `template`, `system`, `params`, `messages` and `license` are for Ollama's own use. */
#include "core/job/ollama.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/job/path.h"

#include <ctype.h>
#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MODEL_LAYER "application/vnd.ollama.image.model"
#define ADAPTER_LAYER "application/vnd.ollama.image.adapter"
#define PROJECTOR_LAYER "application/vnd.ollama.image.projector"
#define DEFAULT_HOST "registry.ollama.ai"
#define DEFAULT_NAMESPACE "library"
#define MAX_PARTS 3
#define MAX_PART_BYTES 128
#define DIGEST_DIGITS 64

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while looking for a model");
}

bool mt_is_ollama(const char *text)
{
    return strncmp(text, MT_OLLAMA_PREFIX, strlen(MT_OLLAMA_PREFIX)) == 0;
}

/* One part of a name: no way out of the folder that it stands in. */
static bool is_part(const char *part, size_t bytes)
{
    if (!bytes || bytes > MAX_PART_BYTES || *part == '.')
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!isalnum((unsigned char)part[i]) && !strchr("._-", part[i]))
            return false;
    return true;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* folder/name, or what is there instead with other capitals; NULL: out of memory. */
static char *entry_path(const char *folder, const char *name)
{
    char *path = mt_path_join(folder, name);
    if (!path || mt_path_exists(path))
        return path;
    struct dirent **entries;
    const int count = scandir(folder, &entries, visible, alphasort);
    for (int i = 0; i < count; i++) {
        if (path && strcasecmp(entries[i]->d_name, name) == 0)
            memcpy(path + strlen(path) - strlen(name), entries[i]->d_name, strlen(name));
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return path;
}

/* "<store>/manifests/<host>/<namespace>/<name>/<tag>"; NULL for what is no name, or out of memory. */
static char *manifest_path(const char *store, const char *text)
{
    const char *name = text + strlen(MT_OLLAMA_PREFIX), *tag = strrchr(name, ':');
    const char *end = tag ? tag : name + strlen(name);
    char parts[MAX_PARTS][MAX_PART_BYTES + 1];
    size_t count = 0;
    for (const char *part = name; part <= end; count++) {
        const char *slash = memchr(part, '/', (size_t)(end - part));
        const size_t bytes = (size_t)((slash ? slash : end) - part);
        if (count == MAX_PARTS || !is_part(part, bytes))
            return NULL;
        snprintf(parts[count], sizeof parts[count], "%.*s", (int)bytes, part);
        part += bytes + 1;
    }
    tag = tag ? tag + 1 : "latest";
    if (!count || !is_part(tag, strlen(tag)))
        return NULL;
    const char *const steps[] = {count == 3 ? parts[0] : DEFAULT_HOST,
                                 count > 1 ? parts[count - 2] : DEFAULT_NAMESPACE, parts[count - 1], tag};
    char *path = mt_path_join(store, "manifests");
    for (size_t i = 0; path && i < sizeof steps / sizeof *steps; i++) {
        mt_autofree char *folder = path;
        path = entry_path(folder, steps[i]);
    }
    return path;
}

/* What a model with an adapter or in parts would need first. */
static int refuse_layer(const char *text, const char *what, struct mt_error *error)
{
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                        "'%s' %s (ollama show --modelfile %s names its parts)", text, what,
                        text + strlen(MT_OLLAMA_PREFIX));
}

/* The digest's digits, of the one layer that is the model. */
static int find_layer(const char *text, const char *path, const json_t *manifest, const char **digits,
                      const char **note, struct mt_error *error)
{
    size_t i;
    json_t *layer;
    *digits = NULL;
    json_array_foreach(json_object_get(manifest, "layers"), i, layer)
    {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *digest = json_string_value(json_object_get(layer, "digest"));
        if (type && strcmp(type, ADAPTER_LAYER) == 0)
            return refuse_layer(
                text,
                "is a model with an adapter beside it, which is not supported: train on the model "
                "that the adapter was made for, or on one with the adapter merged into it",
                error);
        if (type && note && strcmp(type, PROJECTOR_LAYER) == 0)
            *note =
                "The model has a projector for images, which stays as it is and is no part of a checkpoint: "
                "its text model is what is trained.";
        if (!type || strcmp(type, MODEL_LAYER) != 0)
            continue;
        if (*digits)
            return refuse_layer(
                text,
                "is a model in several parts, whose order the store does not tell: name its GGUF "
                "files by model.path, any one of them, or join them (llama-gguf-split --merge)",
                error);
        if (!digest || strncmp(digest, "sha256:", 7) != 0 || strlen(digest + 7) != DIGEST_DIGITS ||
            strspn(digest + 7, "0123456789abcdef") != DIGEST_DIGITS)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s: the digest of the model is none",
                                path);
        *digits = digest + 7;
    }
    return *digits
               ? 0
               : mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s names no layer that is a model", path);
}

/* "; there are tags 135m, latest of it", where the model is there with other tags; else "". */
static void other_tags(const char *manifest, char *text, size_t bytes)
{
    mt_autofree char *folder = strndup(manifest, (size_t)(strrchr(manifest, '/') - manifest));
    struct dirent **entries = NULL;
    const int count = folder ? scandir(folder, &entries, visible, alphasort) : 0;
    *text = '\0';
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s", i ? ", " : "; of it there is ", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

int mt_ollama_find(const char *store, const char *text, char **path, const char **note,
                   struct mt_error *error)
{
    *path = NULL;
    if (note)
        *note = NULL;
    mt_autofree char *manifest_file = manifest_path(store, text);
    if (!manifest_file)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "'%s' is not the name of an Ollama model, which has the form ollama:NAME:TAG",
                            text);
    if (!mt_path_exists(manifest_file)) {
        char tags[300];
        other_tags(manifest_file, tags, sizeof tags);
        return mt_error_set(
            error, -ENOENT, MT_REASON_BAD_MODEL,
            "'%s' is not in the local Ollama store: %s is not there%s; fetch it first (ollama pull %s), "
            "or set OLLAMA_MODELS",
            text, manifest_file, tags, text + strlen(MT_OLLAMA_PREFIX));
    }
    mt_autojson json_t *manifest = NULL;
    const char *digits = NULL;
    int r = mt_json_read(manifest_file, MT_REASON_BAD_MODEL, &manifest, error);
    if (r == 0)
        r = find_layer(text, manifest_file, manifest, &digits, note, error);
    if (r < 0)
        return r;
    mt_autofree char *blob = NULL;
    if (asprintf(&blob, "%s/blobs/sha256-%s", store, digits) < 0) {
        blob = NULL;
        return no_memory(error);
    }
    mt_autofree char *real_store = realpath(store, NULL);
    char *real = realpath(blob, NULL);
    struct stat status;
    if (!real || !real_store || stat(real, &status) < 0 || !S_ISREG(status.st_mode) ||
        !mt_path_inside(real, real_store)) {
        free(real);
        return mt_error_set(
            error, -ENOENT, MT_REASON_BAD_MODEL,
            "'%s': the file %s, which its manifest names, is not there; fetch it again (ollama pull %s)",
            text, blob, text + strlen(MT_OLLAMA_PREFIX));
    }
    *path = real;
    return 0;
}
