/* The files that a job names: made absolute, kept inside the allowed folders, looked for where they must be
 * there. What is inside of them is for those who read them. */
#include "core/job/place.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/nearest.h"
#include "core/job/path.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *mt_place_resolve(const struct mt_place *place, const char *base, const char *text)
{
    const struct mt_job_context *context = place->reader->context;
    const char *path, *reason_text;
    enum mt_path_state state =
        mt_path_resolve(context, place->reader->arena, base, text, &path, &reason_text);
    const char *quoted = mt_text_quote(place->reader->arena, text, strlen(text));
    if (!path)
        place->reader->out_of_memory = true;
    if (state == MT_PATH_OUTSIDE)
        mt_reader_error(place->reader, MT_REASON_BAD_JOB, place->pointer, NULL,
                        "%s is outside of the folders that jobs may name; start megatraind with --allow-path "
                        "FOLDER, or set "
                        "allow_path in its configuration, to add one",
                        quoted);
    if (state == MT_PATH_MISSING)
        mt_reader_error(place->reader, place->reason, place->pointer, NULL, "cannot use %s: %s%s%s", path,
                        reason_text,
                        *text == '~' ? "; ~ stands for your home in a shell only, so write its path" : "",
                        place->advice ? place->advice : "");
    return state == MT_PATH_GOOD ? path : NULL;
}

bool mt_names_pickle(const char *name)
{
    return mt_path_ends_with(name, ".bin") || mt_path_ends_with(name, ".pt") ||
           mt_path_ends_with(name, ".pth") || mt_path_ends_with(name, ".ckpt") ||
           mt_path_ends_with(name, ".pkl");
}

static bool folder_has_entries(const char *path)
{
    DIR *entries = opendir(path);
    bool found = false;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries)) != NULL;)
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (entries)
        closedir(entries);
    return found;
}

/* There, readable, not empty. */
static void check_data_path(const struct mt_place *place, const char *path)
{
    struct stat status;
    if (place->reader->context->purpose != MT_JOB_RUN)
        return;
    if (access(path, R_OK) < 0 || stat(path, &status) < 0)
        mt_reader_error(place->reader, place->reason, place->pointer, NULL, "cannot read %s: %s", path,
                        strerror(errno));
    else if (S_ISDIR(status.st_mode) ? !folder_has_entries(path) : S_ISREG(status.st_mode) && !status.st_size)
        mt_reader_error(place->reader, place->reason, place->pointer, NULL, "%s is empty", path);
    else if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
        mt_reader_error(place->reader, place->reason, place->pointer, NULL,
                        "%s is neither a file nor a folder", path);
    else if (S_ISREG(status.st_mode) && mt_names_pickle(path))
        mt_reader_error(
            place->reader, place->reason, place->pointer, NULL,
            "%s: pickle files are never read, since they can run code; convert the data to .jsonl", path);
}

/* A path or a list of paths, resolved; new reference. `origin` is where the document has it. */
static json_t *place_paths(struct mt_job_reader *reader, const json_t *value, const char *origin)
{
    bool is_list = json_is_array(value);
    size_t count = is_list ? json_array_size(value) : 1;
    json_t *placed = json_array();
    for (size_t i = 0; placed && i < count; i++) {
        char pointer[MT_JOB_POINTER_BYTES];
        snprintf(pointer, sizeof pointer, "%s", origin);
        if (is_list)
            snprintf(pointer, sizeof pointer, "%s/%zu", origin, i);
        const struct mt_place place = {.reader = reader, .pointer = pointer, .reason = MT_REASON_BAD_DATA};
        const char *text = json_string_value(is_list ? json_array_get(value, i) : value);
        const char *path = mt_place_resolve(&place, reader->context->dataset_base, text);
        if (path)
            check_data_path(&place, path);
        if (json_array_append_new(placed, json_string(path ? path : text)) < 0)
            reader->out_of_memory = true;
    }
    json_t *result = is_list || !placed ? json_incref(placed) : json_incref(json_array_get(placed, 0));
    json_decref(placed);
    return result;
}

static void place_mix(struct mt_job_reader *reader)
{
    const char *origin = mt_reader_origin(reader, "/dataset/mix");
    size_t i;
    json_t *part;
    json_array_foreach(mt_reader_get(reader, "/dataset/mix"), i, part)
    {
        char pointer[MT_JOB_POINTER_BYTES];
        const json_t *path = json_object_get(part, "path");
        snprintf(pointer, sizeof pointer, "%s/%zu/path", origin, i);
        if (path && json_object_set_new(part, "path", place_paths(reader, path, pointer)) < 0)
            reader->out_of_memory = true;
    }
}

static bool mix_has_names(const struct mt_job_reader *reader)
{
    size_t i;
    json_t *part;
    json_array_foreach(mt_reader_get(reader, "/dataset/mix"), i,
                       part) if (json_object_get(part, "name")) return true;
    return false;
}

static void report_unknown_dataset(const struct mt_place *place, const char *name, const char *info_path,
                                   const json_t *info)
{
    const char *key, *best = NULL, *known = "";
    json_t *value;
    struct mt_nearest nearest = {name, strlen(name) / 3 + 2};
    size_t count = 0;
    struct mt_arena *arena = place->reader->arena;
    json_object_foreach((json_t *)(uintptr_t)info, key, value)
    {
        if (mt_nearest_is(&nearest, key))
            best = mt_arena_strdup(arena, key);
        if (count++ < 10 && known) {
            const char *quoted = mt_text_quote(arena, key, strlen(key));
            known = mt_arena_printf(arena, "%s%s%s", known, *known ? ", " : "", quoted);
        }
    }
    mt_reader_error(place->reader, place->reason, place->pointer, best, "%s has no entry %s; it has %s%s",
                    info_path, mt_text_quote(arena, name, strlen(name)), known && *known ? known : "none",
                    count > 10 ? ", ..." : "");
}

static void check_dataset_entry(const struct mt_place *place, const char *folder, const char *name)
{
    struct mt_job_reader *reader = place->reader;
    const char *info_path = mt_arena_printf(reader->arena, "%s/dataset_info.json", folder);
    mt_autojson json_t *info = NULL;
    struct mt_error error = {0};
    if (!info_path) {
        reader->out_of_memory = true;
        return;
    }
    if (mt_json_read(info_path, place->reason, &info, &error) < 0) {
        mt_reader_error(reader, place->reason, place->pointer, NULL, "%.600s", error.message);
        return;
    }
    const json_t *entry = json_object_get(info, name);
    if (!json_is_object(entry)) {
        report_unknown_dataset(place, name, info_path, info);
        return;
    }
    const json_t *files = json_object_get(entry, "file_name");
    if (!files && json_is_string(json_object_get(entry, "hf_hub_url")))
        return; /* in the hub cache, if at all: core/data looks there */
    if (!json_is_string(files) && !json_array_size(files)) {
        mt_reader_error(reader, place->reason, place->pointer, NULL,
                        "the entry %s of %s names no local file (file_name); nothing is downloaded, so fetch "
                        "the data and give dataset.path",
                        mt_text_quote(reader->arena, name, strlen(name)), info_path);
        return;
    }
    for (size_t i = 0; i < (json_is_array(files) ? json_array_size(files) : 1); i++) {
        const char *file = json_string_value(json_is_array(files) ? json_array_get(files, i) : files);
        const char *path = file ? mt_place_resolve(place, folder, file) : NULL;
        if (path)
            check_data_path(place, path);
    }
}

static void place_dataset(struct mt_job_reader *reader)
{
    const struct mt_job_context *context = reader->context;
    const char *text = json_string_value(mt_reader_get(reader, "/dataset/dataset_dir"));
    bool by_name = mt_reader_given(reader, "/dataset/name");
    if (mt_reader_given(reader, "/dataset/path"))
        mt_reader_put(reader, "/dataset/path",
                      place_paths(reader, mt_reader_get(reader, "/dataset/path"),
                                  mt_reader_origin(reader, "/dataset/path")));
    place_mix(reader);
    if (!text && context->dataset_dir)
        text = context->dataset_dir;
    const char *pointer = mt_reader_origin(reader, by_name && !mt_reader_given(reader, "/dataset/dataset_dir")
                                                       ? "/dataset/name"
                                                       : "/dataset/dataset_dir");
    const struct mt_place place = {
        .reader = reader,
        .pointer = pointer,
        .reason = MT_REASON_BAD_DATA,
        .advice = "; dataset.dataset_dir names the folder with dataset_info.json, dataset.path would "
                  "name the data itself"};
    if (!text)
        text = "data";
    if (!by_name && !mix_has_names(reader)) {
        mt_reader_remove(reader, "/dataset/dataset_dir"); /* nobody will look into it */
        return;
    }
    const char *folder = mt_place_resolve(&place, context->dataset_base, text);
    if (!folder)
        return;
    mt_reader_put(reader, "/dataset/dataset_dir", json_string(folder));
    if (context->purpose != MT_JOB_RUN)
        return;
    size_t i;
    json_t *part;
    json_array_foreach(mt_reader_get(reader, "/dataset/mix"), i, part)
    {
        char at[MT_JOB_POINTER_BYTES];
        snprintf(at, sizeof at, "%s/%zu/name", mt_reader_origin(reader, "/dataset/mix"), i);
        const struct mt_place part_place = {.reader = reader, .pointer = at, .reason = MT_REASON_BAD_DATA};
        if (json_object_get(part, "name"))
            check_dataset_entry(&part_place, folder, json_string_value(json_object_get(part, "name")));
    }
    if (by_name) {
        const struct mt_place name_place = {.reader = reader,
                                            .pointer = mt_reader_origin(reader, "/dataset/name"),
                                            .reason = MT_REASON_BAD_DATA};
        check_dataset_entry(&name_place, folder, json_string_value(mt_reader_get(reader, "/dataset/name")));
    }
}

void mt_job_place(struct mt_job_reader *reader)
{
    mt_place_model(reader);
    place_dataset(reader);
}
