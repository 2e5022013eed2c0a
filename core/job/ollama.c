/* Ollama keeps a model as a manifest, a JSON file that lists its layers by digest, and each layer as a file
 * of that digest's name. The layer of the type `model` is a GGUF file. */
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
    if (!bytes || bytes > 128 || *part == '.')
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!isalnum((unsigned char)part[i]) && !strchr("._-", part[i]))
            return false;
    return true;
}

/* "<store>/manifests/<host>/<namespace>/<name>/<tag>"; NULL for what is no name, or out of memory. */
static char *manifest_path(const char *store, const char *text)
{
    const char *name = text + strlen(MT_OLLAMA_PREFIX), *tag = strrchr(name, ':');
    const char *parts[MAX_PARTS], *end = tag ? tag : name + strlen(name);
    size_t lengths[MAX_PARTS], count = 0;
    for (const char *part = name; part <= end; part += lengths[count++] + 1) {
        const char *slash = memchr(part, '/', (size_t)(end - part));
        if (count == MAX_PARTS)
            return NULL;
        parts[count] = part;
        lengths[count] = (size_t)((slash ? slash : end) - part);
        if (!is_part(part, lengths[count]))
            return NULL;
    }
    tag = tag ? tag + 1 : "latest";
    if (!count || !is_part(tag, strlen(tag)))
        return NULL;
    const char *host = count == 3 ? parts[0] : DEFAULT_HOST,
               *space = count > 1 ? parts[count - 2] : DEFAULT_NAMESPACE;
    const size_t host_bytes = count == 3 ? lengths[0] : strlen(DEFAULT_HOST);
    const size_t space_bytes = count > 1 ? lengths[count - 2] : strlen(DEFAULT_NAMESPACE);
    char *path;
    return asprintf(&path, "%s/manifests/%.*s/%.*s/%.*s/%s", store, (int)host_bytes, host, (int)space_bytes,
                    space, (int)lengths[count - 1], parts[count - 1], tag) < 0
               ? NULL
               : path;
}

/* The digest's digits, of the one layer that is the model. */
static int find_layer(const char *path, const json_t *manifest, const char **digits, struct mt_error *error)
{
    size_t i;
    json_t *layer;
    *digits = NULL;
    json_array_foreach(json_object_get(manifest, "layers"), i, layer)
    {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *digest = json_string_value(json_object_get(layer, "digest"));
        if (type && (strcmp(type, ADAPTER_LAYER) == 0 || strcmp(type, PROJECTOR_LAYER) == 0))
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL, "%s: a model with %s is not supported",
                                path,
                                strcmp(type, ADAPTER_LAYER) == 0 ? "an adapter" : "a projector for images");
        if (!type || strcmp(type, MODEL_LAYER) != 0)
            continue;
        if (*digits)
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "%s: a model in several parts is not supported", path);
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

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
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

int mt_ollama_find(const char *store, const char *text, char **path, struct mt_error *error)
{
    *path = NULL;
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
        r = find_layer(manifest_file, manifest, &digits, error);
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
