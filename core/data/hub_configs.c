/* `configs` in the front matter of a data set's README.md: names of configurations and their data files by
 * split (huggingface.co/docs/hub, "Manual configuration"). Only this key of the front matter is parsed: what
 * else people write there does not matter. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/data/hub_internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_README_BYTES ((size_t)16 << 20)

/* The lines of the key `configs` of the front matter, cut out in place; NULL without any. */
static char *find_configs(char *text)
{
    if (strncmp(text, "---", 3) != 0)
        return NULL;
    char *end = strstr(text, "\n---"), *begin = strstr(text, "\nconfigs:");
    if (!end || !begin || begin > end)
        return NULL;
    end[1] = '\0';
    begin++;
    for (char *line = strchr(begin, '\n'); line; line = strchr(line + 1, '\n'))
        if (line[1] && !strchr(" -#\r\n", line[1])) { /* the next key */
            line[1] = '\0';
            break;
        }
    return begin;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int wrong_subset(const struct mt_hub_dataset *dataset, const json_t *configs, struct mt_error *error)
{
    char names[512] = "";
    size_t i, used = 0;
    json_t *config;
    json_array_foreach(configs, i, config)
    {
        const char *name = text_of(config, "config_name");
        if (name && used < sizeof names - 80)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%.60s", used ? ", " : "", name);
    }
    return mt_error_set(error, -ENOENT, MT_REASON_BAD_DATA,
                        dataset->subset ? "the data set %s has no subset \"%s\"; it has: %s"
                                        : "the data set %s has several subsets%s; name one of them: %s",
                        dataset->repository, dataset->subset ? dataset->subset : "", names);
}

/* The configuration that is asked for: by its name, else the one marked or named default, else the only one.
 */
static const json_t *find_config(const struct mt_hub_dataset *dataset, const json_t *configs)
{
    size_t i;
    json_t *config;
    const json_t *found = NULL;
    json_array_foreach(configs, i, config)
    {
        const char *name = text_of(config, "config_name");
        if (dataset->subset) {
            if (name && strcmp(name, dataset->subset) == 0)
                return config;
        } else if (json_is_true(json_object_get(config, "default"))) {
            return config;
        } else if (!name || strcmp(name, "default") == 0 || json_array_size(configs) == 1) {
            found = config;
        }
    }
    return found;
}

/* Files that patterns choose. */
struct choice {
    const char *base; /* folder that the patterns begin in, or NULL */
    const struct mt_hub_list *files;
    bool *taken; /* [files->count]: patterns may overlap */
    struct mt_arena *arena;
    struct mt_hub_list *chosen;
};

/* Adds the files that a pattern, or a list of them, names. */
static int add_matches(const struct choice *choice, const json_t *patterns)
{
    const struct mt_hub_list *files = choice->files;
    const size_t count = json_is_array(patterns) ? json_array_size(patterns) : 1;
    for (size_t i = 0; i < count; i++) {
        const char *pattern =
            json_string_value(json_is_array(patterns) ? json_array_get(patterns, i) : patterns);
        if (pattern && strncmp(pattern, "./", 2) == 0)
            pattern += 2;
        const char *full = pattern && choice->base
                               ? mt_arena_printf(choice->arena, "%s/%s", choice->base, pattern)
                               : pattern;
        if (pattern && !full)
            return -ENOMEM;
        for (size_t f = 0; full && f < files->count; f++) {
            if (choice->taken[f] || !mt_hub_matches(full, files->paths[f]))
                continue;
            choice->taken[f] = true;
            if (mt_hub_list_add(choice->chosen, choice->arena, files->paths[f]) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}

/* data_files: patterns of the split train, {split: patterns}, or [{split, path: patterns}]. */
static int add_split(const struct choice *choice, const json_t *data_files, const char *split)
{
    size_t i;
    json_t *entry;
    if (json_is_object(data_files))
        return add_matches(choice, json_object_get(data_files, split));
    if (!json_is_object(json_array_get(data_files, 0)))
        return strcmp(split, "train") == 0 ? add_matches(choice, data_files) : 0;
    int r = 0;
    json_array_foreach(data_files, i, entry)
    {
        const char *name = text_of(entry, "split");
        if (r == 0 && strcmp(name ? name : "train", split) == 0)
            r = add_matches(choice, json_object_get(entry, "path"));
    }
    return r;
}

int mt_hub_by_configs(const char *readme, const struct mt_hub_dataset *dataset, struct mt_arena *arena,
                      const struct mt_hub_list *files, struct mt_hub_list *chosen, struct mt_error *error)
{
    mt_autofree char *text = NULL;
    mt_autojson json_t *document = NULL;
    size_t bytes;
    if (!mt_path_exists(readme) || mt_file_read(readme, MAX_README_BYTES, &text, &bytes, NULL) < 0)
        return 0;
    char *part = find_configs(text);
    if (!part)
        return 0;
    int r = mt_yaml_parse(part, strlen(part), readme, &document, NULL, error);
    if (r < 0) {
        if (error && error->reason != MT_REASON_OUT_OF_MEMORY)
            error->reason = MT_REASON_BAD_DATA;
        return r;
    }
    const json_t *configs = json_object_get(document, "configs");
    const json_t *config = find_config(dataset, configs);
    if (!config)
        return json_array_size(configs) ? wrong_subset(dataset, configs, error) : 0;
    const json_t *data_files = json_object_get(config, "data_files");
    if (!data_files)
        return 0;
    const struct choice choice = {.base = text_of(config, "data_dir"),
                                  .files = files,
                                  .taken = mt_arena_alloc(arena, files->count + 1, sizeof *choice.taken),
                                  .arena = arena,
                                  .chosen = chosen};
    r = choice.taken ? add_split(&choice, data_files, dataset->split ? dataset->split : "train") : -ENOMEM;
    if (r < 0)
        return mt_error_set(error, r, MT_REASON_OUT_OF_MEMORY, "out of memory while looking for data");
    return 1;
}
