/* What a folder that somebody names as a model stands for, where it is no model folder itself. */
#include "core/job/model_folder.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SAID 8 /* models that an error names */

/* "-00002-of-00003.gguf" */
#define PART_BYTES 20

bool mt_gguf_names_part(const char *name)
{
    static const char part[] = "-#####-of-#####.gguf";
    const size_t bytes = strlen(name);
    if (bytes <= PART_BYTES)
        return false;
    const char *end = name + bytes - PART_BYTES;
    for (size_t i = 0; i < PART_BYTES; i++)
        if (part[i] == '#' ? !isdigit((unsigned char)end[i]) : tolower((unsigned char)end[i]) != part[i])
            return false;
    return true;
}

bool mt_gguf_starts_model(const char *name)
{
    if (!mt_path_ends_with(name, ".gguf") || *name == '.')
        return false;
    if (strncasecmp(name, "mmproj", 6) == 0)
        return false; /* the part of a vision model that sees, in a file of its own */
    return !mt_gguf_names_part(name) || strncmp(name + strlen(name) - PART_BYTES + 1, "00001", 5) == 0;
}

static int starts_model(const struct dirent *entry)
{
    return mt_gguf_starts_model(entry->d_name);
}

static int say_which(const char *folder, struct dirent *const *entries, int count, struct mt_error *error)
{
    char names[600] = "";
    for (int i = 0; i < count && i < MOST_SAID; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", entries[i]->d_name);
    }
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                        "%s holds %d GGUF models; name one of them, as %s/%s: there are %s%s", folder, count,
                        folder, entries[0]->d_name, names, count > MOST_SAID ? ", ..." : "");
}

/* <cache>/models--Org--Name, which holds the model several times, a commit each. */
static int refuse_cache_entry(const char *folder, struct mt_error *error)
{
    const char *slash = strrchr(folder, '/'), *name = slash ? slash + 1 : folder;
    mt_autofree char *snapshots = mt_path_join(folder, "snapshots");
    if (strncmp(name, "models--", 8) != 0 || !snapshots || !mt_path_exists(snapshots))
        return 0;
    name += 8;
    const char *mark = strstr(name, "--");
    const int before = (int)(mark ? mark - name : 0);
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                        "%s is a folder of the hub's cache and no model itself; say %.*s%s%s instead of it, "
                        "in a job as model.name",
                        folder, before, name, mark ? "/" : "", mark ? mark + 2 : name);
}

int mt_gguf_in_folder(const char *folder, char **path, struct mt_error *error)
{
    *path = NULL;
    mt_autofree char *config = mt_path_join(folder, "config.json");
    struct dirent **entries = NULL;
    if (config && mt_path_exists(config))
        return 0;
    const int count = scandir(folder, &entries, starts_model, alphasort);
    int r = count == 0 ? refuse_cache_entry(folder, error) : 0;
    if (count > 1)
        r = say_which(folder, entries, count, error);
    else if (count == 1 && (*path = mt_path_join(folder, entries[0]->d_name)) == NULL)
        r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while looking for a model");
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return r;
}
