/* The model that a job names: where it is, and that it is one. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/job/gguf_names.h"
#include "core/job/model_folder.h"
#include "core/job/model_name.h"
#include "core/job/ollama.h"
#include "core/job/path.h"
#include "core/job/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONVERT_HINT                                                                                         \
    "pickle files are never read, since they can run code: convert the model to safetensors, with "          \
    "transformers' save_pretrained(..., safe_serialization=True)"

static void check_model_folder(const struct mt_place *place, const char *path)
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
        pickle |= mt_names_pickle(entry->d_name);
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

static void check_model_path(const struct mt_place *place, const char *path)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return; /* while planning */
    if (S_ISDIR(status.st_mode))
        check_model_folder(place, path);
    else if (is_gguf(path))
        return; /* what is in it, the worker says */
    else if (mt_names_pickle(path))
        mt_reader_error(place->reader, place->reason, place->pointer, NULL, "%s: %s", path, CONVERT_HINT);
    else
        mt_reader_error(place->reader, place->reason, place->pointer, NULL,
                        "%s is a file, and no GGUF file; a model is one, or a folder with config.json and "
                        ".safetensors files",
                        path);
}

/* model.file, checked; NULL: none. */
static const char *file_of(const struct mt_job_reader *reader)
{
    return json_string_value(mt_reader_get(reader, "/model/file"));
}

static void report(const struct mt_place *place, const struct mt_error *error, const char *behind)
{
    struct mt_job_reader *reader = place->reader;
    const bool of_file = error->code == -ENOENT && mt_reader_given(reader, "/model/file");
    if (error->code == -ENOMEM)
        reader->out_of_memory = true;
    else
        mt_reader_error(reader, place->reason,
                        of_file ? mt_reader_origin(reader, "/model/file") : place->pointer, NULL, "%s%s",
                        error->message, behind);
}

static void refuse_file(struct mt_job_reader *reader, const char *why)
{
    mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/model/file"), NULL,
                    "model.file says which GGUF file of a folder or of model.name is meant, and %s", why);
}

/* The GGUF model that is meant of a folder, in the folder's place; NULL after an error. The file must lie
 * where paths may. */
static const char *enter_folder(const struct mt_place *place, const char *path)
{
    struct mt_error error = {0};
    struct stat status;
    mt_autofree char *found = NULL;
    const char *file = file_of(place->reader);
    if (file && stat(path, &status) == 0 && !S_ISDIR(status.st_mode)) {
        refuse_file(place->reader, "model.path is a file itself; leave one of them out");
        return NULL;
    }
    if (mt_gguf_in_folder(path, file, &found, &error) < 0) {
        report(place, &error, "");
        return NULL;
    }
    return found ? mt_place_resolve(place, NULL, found) : path;
}

/* The model is there: nothing but its path is kept of how it was said. */
static void settle(const struct mt_place *place, const char *path)
{
    check_model_path(place, path);
    mt_reader_put(place->reader, "/model/path", json_string(path));
    mt_reader_remove(place->reader, "/model/name");
    mt_reader_remove(place->reader, "/model/file");
}

static void place_path(const struct mt_place *place, const char *text)
{
    const struct mt_job_context *context = place->reader->context;
    const char *path = mt_place_resolve(place, context->model_base, text);
    if (path && context->purpose == MT_JOB_LOAD)
        mt_reader_put(place->reader, "/model/path", json_string(path));
    else if (path && (path = enter_folder(place, path)) != NULL)
        settle(place, path);
}

static bool holds_config(const char *folder)
{
    mt_autofree char *config = mt_path_join(folder, "config.json");
    return config && mt_path_exists(config);
}

static void report_nowhere(const struct mt_place *place, const char *name)
{
    const char *file = file_of(place->reader);
    mt_reader_error(
        place->reader, place->reason, place->pointer, NULL,
        "%s is neither in the models folder nor in the local Hugging Face cache nor in LM Studio's folder; "
        "fetch it first (hf download %s%s), let it be fetched (--allow-download), or give model.path",
        name, name, file ? ", with the name of its file" : "");
}

static void find_name(const struct mt_place *place, const char *name)
{
    struct mt_job_reader *reader = place->reader;
    const struct mt_job_context *context = reader->context;
    const bool run = context->purpose == MT_JOB_RUN;
    struct mt_model_found found;
    struct mt_error error = {0};
    const int r = mt_model_locate(context, reader->arena, name, file_of(reader), &found, &error);
    if (found.path) {
        settle(place, found.path);
    } else if (run && context->allow_download && (r == 0 || r == -ENOENT)) {
        mt_reader_put(reader, "/model/path", json_string(mt_model_place(context, reader->arena, name)));
        mt_reader_put(reader, "/model/download", json_string(name));
        mt_reader_remove(reader, "/model/name");
    } else if (r < 0) {
        report(place, &error,
               run && r == -ENOENT
                   ? "; fetch it first, let it be fetched (--allow-download), or choose one that is there"
                   : "");
    } else if (found.part && (run || holds_config(found.part))) {
        settle(place, found.part);
    } else if (run) {
        report_nowhere(place, name);
    } else { /* a dry run finds it among the presets */
        mt_reader_put(reader, "/model/name", json_string(name));
        mt_reader_remove(reader, "/model/file");
    }
}

static void place_name(const struct mt_place *place, const char *text)
{
    struct mt_job_reader *reader = place->reader;
    struct mt_model_name name;
    if (*text == '/' || *text == '.') {
        place_path(place, text); /* as transformers' from_pretrained takes it */
        return;
    }
    if (!mt_model_name_read(text, &name)) {
        mt_reader_error(
            reader, MT_REASON_BAD_JOB, place->pointer, NULL,
            "%s is not the name of a model, which has the form Org/Model, or Org/Model:FILE for one "
            "of several GGUF files",
            mt_text_quote(reader->arena, text, strlen(text)));
        return;
    }
    if (*name.file && file_of(reader)) {
        refuse_file(reader, "model.name says one itself, behind the colon; leave one of them out");
        return;
    }
    if (*name.file)
        mt_reader_put(reader, "/model/file", json_string(name.file));
    find_name(place, name.name);
}

static void place_tokenizer(struct mt_job_reader *reader)
{
    const char *text = json_string_value(mt_reader_get(reader, "/model/tokenizer"));
    const struct mt_place place = {.reader = reader,
                                   .pointer = mt_reader_origin(reader, "/model/tokenizer"),
                                   .reason = MT_REASON_BAD_MODEL};
    struct stat status;
    if (strcmp(text, "bytes") == 0)
        return;
    const char *path = mt_place_resolve(&place, reader->context->model_base, text);
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
    const char *note = NULL;
    if (!store)
        mt_reader_error(reader, MT_REASON_BAD_MODEL, pointer, NULL,
                        "there is no Ollama store to look for %s in",
                        mt_text_quote(reader->arena, text, strlen(text)));
    else if (mt_ollama_find(store, text, &path, &note, &error) < 0)
        mt_reader_error(reader, error.reason, pointer, NULL, "%s", error.message);
    else
        mt_reader_put(reader, "/model/path", json_string(path));
    if (path && note)
        mt_reader_note(reader, "%s", note);
}

/* Whether `path` is `folder`, or what a download may have put into it. */
static bool is_of_folder(const char *path, const char *folder)
{
    const size_t bytes = strlen(folder);
    return strncmp(path, folder, bytes) == 0 &&
           (path[bytes] == '\0' || (path[bytes] == '/' && mt_path_stays_below(path + bytes + 1)));
}

/* A frozen document may come back (a resumed run's own): then it says no more than it did. */
static void check_download(struct mt_job_reader *reader, const char *path)
{
    const struct mt_job_context *context = reader->context;
    const char *name = json_string_value(mt_reader_get(reader, "/model/download"));
    const char *expected = mt_is_model_name(name) ? mt_model_place(context, reader->arena, name) : NULL;
    if (!path || !expected || !is_of_folder(path, expected))
        mt_reader_error(
            reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/model/download"), NULL,
            "model.download is written by MegaTrain itself; to have a model downloaded give model.name");
    else if (!context->allow_download && mt_model_is_to_come(path, file_of(reader)))
        mt_reader_error(reader, MT_REASON_BAD_MODEL, mt_reader_origin(reader, "/model/download"), NULL,
                        "%s is not there, and downloads are not allowed", path);
}

static bool check_file(struct mt_job_reader *reader)
{
    const char *file = file_of(reader);
    if (!file || mt_gguf_is_choice(file))
        return true;
    mt_reader_error(reader, MT_REASON_BAD_JOB, mt_reader_origin(reader, "/model/file"), NULL,
                    "%s is neither the name of a GGUF file in a folder nor a quantisation, such as Q4_K_M",
                    mt_text_quote(reader->arena, file, strlen(file)));
    return false;
}

static const char *text_given(const struct mt_job_reader *reader, const char *key)
{
    return mt_reader_given(reader, key) ? json_string_value(mt_reader_get(reader, key)) : NULL;
}

static void place_model(struct mt_job_reader *reader)
{
    const bool load = reader->context->purpose == MT_JOB_LOAD;
    const char *path = text_given(reader, "/model/path"), *name = text_given(reader, "/model/name");
    const struct mt_place place = {.reader = reader,
                                   .pointer = mt_reader_origin(reader, path ? "/model/path" : "/model/name"),
                                   .reason = MT_REASON_BAD_MODEL};
    if (path && mt_reader_given(reader, "/model/download") && !load) {
        check_download(reader, path);
        if (mt_model_is_to_come(path, file_of(reader)))
            return;
    }
    if (path && mt_is_ollama(path)) {
        if (file_of(reader))
            refuse_file(reader, "a model of Ollama has only one");
        if (!load)
            place_ollama(reader, path);
    } else if (path) {
        place_path(&place, path);
    } else if (name && !load) {
        place_name(&place, name);
    } else if (file_of(reader) && !load) {
        refuse_file(reader, "this job names neither");
    }
}

void mt_place_model(struct mt_job_reader *reader)
{
    if (mt_reader_given(reader, "/model/download") && !mt_reader_given(reader, "/model/path") &&
        reader->context->purpose != MT_JOB_LOAD)
        check_download(reader, NULL);
    if (check_file(reader))
        place_model(reader);
    if (mt_reader_get(reader, "/model/tokenizer") && !mt_reader_failed(reader, "/model/tokenizer"))
        place_tokenizer(reader);
}
