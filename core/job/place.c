/* The files that a job names: made absolute, kept inside the allowed folders, looked for where they must be
 * there. What is inside of them is for those who read them. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/job/model_folder.h"
#include "core/job/ollama.h"
#include "core/job/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A path that a job names, and whose fault it is when it is wrong. */
struct place {
    struct mt_job_reader *reader;
    const char *pointer;
    enum mt_reason reason;
    const char *advice; /* where it is not there, behind what the system says; NULL: none */
};

/* NULL after an error. */
static const char *resolve(const struct place *place, const char *base, const char *text)
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

static bool is_pickle(const char *name)
{
    return mt_path_ends_with(name, ".bin") || mt_path_ends_with(name, ".pt") ||
           mt_path_ends_with(name, ".pth") || mt_path_ends_with(name, ".ckpt") ||
           mt_path_ends_with(name, ".pkl");
}

#define CONVERT_HINT                                                                                         \
    "pickle files are never read, since they can run code: convert the model to safetensors, with "          \
    "transformers' save_pretrained(..., safe_serialization=True)"

static void check_model_folder(const struct place *place, const char *path)
{
    bool config = false, weights = false, pickle = false;
    DIR *entries = opendir(path);
    if (!entries) {
        mt_reader_error(place->reader, place->reason, place->pointer, NULL, "cannot read the folder %s: %s",
                        path, strerror(errno));
        return;
    }
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        config |= strcmp(entry->d_name, "config.json") == 0;
        weights |= mt_path_ends_with(entry->d_name, ".safetensors");
        pickle |= is_pickle(entry->d_name);
    }
    closedir(entries);
    if (!config)
        mt_reader_error(place->reader, place->reason, place->pointer, NULL,
                        "%s holds neither config.json nor a GGUF model; a model folder has config.json "
                        "beside its safetensors files",
                        path);
    else if (!weights)
        mt_reader_error(place->reader, place->reason, place->pointer, NULL,
                        "%s holds no .safetensors file%s%s", path, pickle ? ", only pickle files; " : "",
                        pickle ? CONVERT_HINT : "");
}

/* By its first bytes: Ollama's files have no endings. */
static bool is_gguf(const char *path)
{
    char magic[4];
    mt_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 && pread(fd, magic, sizeof magic, 0) == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
}

static void check_model_path(const struct place *place, const char *path)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return; /* while planning */
    if (S_ISDIR(status.st_mode))
        check_model_folder(place, path);
    else if (is_gguf(path))
        return; /* what is in it, the worker says */
    else if (is_pickle(path))
        mt_reader_error(place->reader, place->reason, place->pointer, NULL, "%s: %s", path, CONVERT_HINT);
    else
        mt_reader_error(place->reader, place->reason, place->pointer, NULL,
                        "%s is a file, and no GGUF file; a model is one, or a folder with config.json and "
                        ".safetensors files",
                        path);
}

/* The one GGUF model of a folder in the folder's place; NULL after an error. A path's file must lie where
 * paths may, a name's where its folder was found. */
static const char *enter_folder(const struct place *place, const char *path, bool by_path)
{
    struct mt_error error = {0};
    mt_autofree char *file = NULL;
    if (mt_gguf_in_folder(path, &file, &error) < 0) {
        mt_reader_error(place->reader, place->reason, place->pointer, NULL, "%s", error.message);
        return NULL;
    }
    if (file && by_path)
        return resolve(place, NULL, file);
    return file ? mt_arena_strdup(place->reader->arena, file) : path;
}

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

static void place_model_name(struct mt_job_reader *reader)
{
    const struct mt_job_context *context = reader->context;
    const char *name = json_string_value(mt_reader_get(reader, "/model/name"));
    const struct place place = {
        .reader = reader, .pointer = mt_reader_origin(reader, "/model/name"), .reason = MT_REASON_BAD_MODEL};
    const char *path = NULL;
    const bool by_path = *name == '/' || *name == '.';
    if (by_path) {
        path = resolve(&place, context->model_base, name); /* as transformers' from_pretrained takes it */
        if (!path)
            return;
    } else if (!mt_is_model_name(name)) {
        mt_reader_error(reader, MT_REASON_BAD_JOB, place.pointer, NULL,
                        "%s is not the name of a model, which has the form Org/Model",
                        mt_text_quote(reader->arena, name, strlen(name)));
        return;
    } else {
        path = mt_model_locate(context, reader->arena, name);
    }
    if (path) {
        if (context->purpose != MT_JOB_LOAD && !(path = enter_folder(&place, path, by_path)))
            return;
        if (context->purpose != MT_JOB_LOAD)
            check_model_path(&place, path);
        mt_reader_put(reader, "/model/path", json_string(path));
        mt_reader_remove(reader, "/model/name");
    } else if (context->purpose == MT_JOB_RUN && context->allow_download) {
        mt_reader_put(reader, "/model/path", json_string(mt_model_place(context, reader->arena, name)));
        mt_reader_put(reader, "/model/download", json_string(name));
        mt_reader_remove(reader, "/model/name");
    } else if (context->purpose == MT_JOB_RUN) {
        mt_reader_error(
            reader, place.reason, place.pointer, NULL,
            "%s is neither in the models folder nor in the local Hugging Face cache; downloads are not "
            "allowed here (allow_download), so fetch it first (hf download %s), or give model.path",
            name, name);
    }
}

static void place_tokenizer(struct mt_job_reader *reader)
{
    const char *text = json_string_value(mt_reader_get(reader, "/model/tokenizer"));
    const struct place place = {.reader = reader,
                                .pointer = mt_reader_origin(reader, "/model/tokenizer"),
                                .reason = MT_REASON_BAD_MODEL};
    struct stat status;
    if (strcmp(text, "bytes") == 0)
        return;
    const char *path = resolve(&place, reader->context->model_base, text);
    if (!path)
        return;
    size_t folder_bytes = (size_t)(mt_job_key_name(path) - path) - 1;
    if (strcmp(mt_job_key_name(path), "tokenizer.json") == 0 && folder_bytes > 0)
        path = mt_arena_strndup(reader->arena, path, folder_bytes);
    else if (reader->context->purpose == MT_JOB_RUN && stat(path, &status) == 0 && !S_ISDIR(status.st_mode) &&
             !is_gguf(path))
        mt_reader_error(reader, place.reason, place.pointer, NULL,
                        "%s is neither a tokenizer.json, nor a folder that holds one, nor a GGUF file", path);
    mt_reader_put(reader, "/model/tokenizer", json_string(path ? path : text));
}

static void place_ollama(struct mt_job_reader *reader, const char *text)
{
    struct mt_error error = {0};
    mt_autofree char *path = NULL;
    const char *pointer = mt_reader_origin(reader, "/model/path"), *store = reader->context->ollama_store;
    if (!store)
        mt_reader_error(reader, MT_REASON_BAD_MODEL, pointer, NULL,
                        "there is no Ollama store to look for %s in",
                        mt_text_quote(reader->arena, text, strlen(text)));
    else if (mt_ollama_find(store, text, &path, &error) < 0)
        mt_reader_error(reader, error.reason, pointer, NULL, "%s", error.message);
    else
        mt_reader_put(reader, "/model/path", json_string(path));
}

/* A frozen document may come back (a resumed run's own): then it says no more than it did. */
static void check_download(struct mt_job_reader *reader, const char *path)
{
    const struct mt_job_context *context = reader->context;
    const char *name = json_string_value(mt_reader_get(reader, "/model/download"));
    const char *expected = mt_is_model_name(name) ? mt_model_place(context, reader->arena, name) : NULL;
    if (!path || !expected || strcmp(path, expected) != 0)
        mt_reader_error(
            reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/model/download"), NULL,
            "model.download is written by MegaTrain itself; to have a model downloaded give model.name");
    else if (!context->allow_download && access(path, F_OK) < 0)
        mt_reader_error(reader, MT_REASON_BAD_MODEL, mt_reader_origin(reader, "/model/download"), NULL,
                        "%s is not there, and downloads are not allowed", path);
}

static void place_model(struct mt_job_reader *reader)
{
    const char *given = mt_reader_given(reader, "/model/path")
                            ? json_string_value(mt_reader_get(reader, "/model/path"))
                            : NULL;
    if (mt_reader_given(reader, "/model/download") && reader->context->purpose != MT_JOB_LOAD) {
        check_download(reader, given);
        if (given && access(given, F_OK) < 0)
            given = NULL; /* not there yet */
    }
    if (given && mt_is_ollama(given)) {
        if (reader->context->purpose != MT_JOB_LOAD)
            place_ollama(reader, given);
    } else if (given) {
        const struct place place = {.reader = reader,
                                    .pointer = mt_reader_origin(reader, "/model/path"),
                                    .reason = MT_REASON_BAD_MODEL};
        const char *path = resolve(&place, reader->context->model_base, given);
        if (path && reader->context->purpose != MT_JOB_LOAD &&
            (path = enter_folder(&place, path, true)) != NULL)
            check_model_path(&place, path);
        if (path)
            mt_reader_put(reader, "/model/path", json_string(path));
    } else if (mt_reader_given(reader, "/model/name")) {
        place_model_name(reader);
    }
    if (mt_reader_get(reader, "/model/tokenizer") && !mt_reader_failed(reader, "/model/tokenizer"))
        place_tokenizer(reader);
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
static void check_data_path(const struct place *place, const char *path)
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
    else if (S_ISREG(status.st_mode) && is_pickle(path))
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
        const struct place place = {.reader = reader, .pointer = pointer, .reason = MT_REASON_BAD_DATA};
        const char *text = json_string_value(is_list ? json_array_get(value, i) : value);
        const char *path = resolve(&place, reader->context->dataset_base, text);
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

static void report_unknown_dataset(const struct place *place, const char *name, const char *info_path,
                                   const json_t *info)
{
    const char *key, *nearest = NULL, *known = "";
    json_t *value;
    size_t limit = strlen(name) / 3 + 1, best = limit + 1, count = 0;
    struct mt_arena *arena = place->reader->arena;
    json_object_foreach((json_t *)(uintptr_t)info, key, value)
    {
        size_t distance = mt_text_distance(name, key, limit);
        if (distance < best) {
            best = distance;
            nearest = mt_arena_strdup(arena, key);
        }
        if (count++ < 10 && known) {
            const char *quoted = mt_text_quote(arena, key, strlen(key));
            known = mt_arena_printf(arena, "%s%s%s", known, *known ? ", " : "", quoted);
        }
    }
    mt_reader_error(place->reader, place->reason, place->pointer, nearest, "%s has no entry %s; it has %s%s",
                    info_path, mt_text_quote(arena, name, strlen(name)), known && *known ? known : "none",
                    count > 10 ? ", ..." : "");
}

static void check_dataset_entry(const struct place *place, const char *folder, const char *name)
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
        const char *path = file ? resolve(place, folder, file) : NULL;
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
    const struct place place = {
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
    const char *folder = resolve(&place, context->dataset_base, text);
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
        const struct place part_place = {.reader = reader, .pointer = at, .reason = MT_REASON_BAD_DATA};
        if (json_object_get(part, "name"))
            check_dataset_entry(&part_place, folder, json_string_value(json_object_get(part, "name")));
    }
    if (by_name) {
        const struct place name_place = {.reader = reader,
                                         .pointer = mt_reader_origin(reader, "/dataset/name"),
                                         .reason = MT_REASON_BAD_DATA};
        check_dataset_entry(&name_place, folder, json_string_value(mt_reader_get(reader, "/dataset/name")));
    }
}

void mt_job_place(struct mt_job_reader *reader)
{
    place_model(reader);
    place_dataset(reader);
}
