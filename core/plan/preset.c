#include "core/plan/preset.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/nearest.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".json"

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

char *mt_preset_folder(void)
{
    const char *asked = getenv("MEGATRAIN_PRESETS");
    char path[PATH_MAX];
    if (asked && *asked)
        return strdup(asked);
    /* A build folder; what is installed, under any DESTDIR, with the prefix /usr, or /usr/local. */
    static const char *const beside[] = {"../etc/presets", "../../etc/megatrain/presets",
                                         "../../../etc/megatrain/presets"};
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    path[bytes > 0 ? bytes : 0] = '\0';
    char *slash = strrchr(path, '/');
    for (size_t i = 0; slash && i < sizeof beside / sizeof *beside; i++) {
        const size_t room = sizeof path - (size_t)(slash + 1 - path);
        if ((size_t)snprintf(slash + 1, room, "%s", beside[i]) < room && is_folder(path))
            return strdup(path);
    }
    return is_folder("/etc/megatrain/presets") ? strdup("/etc/megatrain/presets") : NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

json_t *mt_preset_list(const char *folder)
{
    DIR *entries = folder ? opendir(folder) : NULL;
    if (!entries)
        return NULL;
    char *names[512] = {NULL};
    size_t count = 0;
    for (struct dirent *entry; count < 512 && (entry = readdir(entries)) != NULL;) {
        const size_t bytes = strlen(entry->d_name), end = sizeof SUFFIX - 1;
        if (bytes <= end || entry->d_name[0] == '.' || strcmp(entry->d_name + bytes - end, SUFFIX) != 0)
            continue;
        names[count] = strndup(entry->d_name, bytes - end);
        if (names[count])
            count++;
    }
    closedir(entries);
    qsort(names, count, sizeof(char *), compare_names);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(list, json_string(names[i]));
        free(names[i]);
    }
    return list;
}

int mt_preset_read(const char *folder, const char *name, json_t **preset, struct mt_error *error)
{
    char file[NAME_MAX + 1];
    snprintf(file, sizeof file, "%s" SUFFIX, name);
    mt_autofree char *path = mt_path_join(folder, file);
    return path ? mt_json_read(path, MT_REASON_BAD_MODEL, preset, error)
                : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to read a preset");
}

#define MOST_TYPOS 2

/* The name that was likely meant. */
struct nearest {
    char name[128];
    size_t distance;
};

static bool is_name(const char *known, const char *name, struct nearest *nearest)
{
    const size_t distance = mt_text_distance(name, known, MOST_TYPOS);
    if (distance < nearest->distance) {
        nearest->distance = distance;
        snprintf(nearest->name, sizeof nearest->name, "%s", known);
    }
    return strcasecmp(known, name) == 0;
}

/* Under its own name, or one of those on the hub. */
static bool goes_by(const json_t *preset, const char *own, const char *name, struct nearest *nearest)
{
    size_t i;
    json_t *item;
    bool found = is_name(own, name, nearest);
    json_array_foreach(json_object_get(preset, "names"), i, item)
    {
        found = found || (json_is_string(item) && is_name(json_string_value(item), name, nearest));
    }
    return found;
}

static int unknown(const char *name, size_t count, const struct nearest *nearest, struct mt_error *error)
{
    char advice[sizeof nearest->name + 64] = "no folder of presets was found; MEGATRAIN_PRESETS names one";
    if (*nearest->name)
        snprintf(advice, sizeof advice, "did you mean \"%s\"?", nearest->name);
    else if (count > 0)
        snprintf(advice, sizeof advice, "megatrain plan --presets lists the %zu that there are", count);
    return mt_error_set(
        error, -ENOENT, MT_REASON_BAD_MODEL,
        "the model %.120s is not known yet: it is not on this machine, and there is no preset "
        "of it; %s",
        name, advice);
}

int mt_preset_find(const char *folder, const char *name, json_t **preset, struct mt_error *error)
{
    mt_autojson json_t *list = mt_preset_list(folder);
    size_t i;
    json_t *item;
    struct nearest nearest = {.distance = MOST_TYPOS + 1};
    *preset = NULL;
    json_array_foreach(list, i, item)
    {
        mt_autojson json_t *candidate = NULL;
        int r = mt_preset_read(folder, json_string_value(item), &candidate, error);
        if (r)
            return r;
        if (!goes_by(candidate, json_string_value(item), name, &nearest))
            continue;
        if (!json_is_object(json_object_get(candidate, "config")))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "the preset %s/%s" SUFFIX " has no config", folder, json_string_value(item));
        *preset = json_incref(candidate);
        return 0;
    }
    return unknown(name, json_array_size(list), &nearest, error);
}
