/* checkpoint.c: one folder out, one folder in. */
#include "core/train/checkpoint.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/formats/gguf.h"
#include "core/store/files.h"
#include "core/text/alpaca.h"
#include "core/text/template.h"
#include "core/train/checkpoint_list.h"
#include "core/train/manifest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define SIDE_FILE_BYTES ((size_t)64 << 20)
#define SLACK_BYTES ((size_t)1 << 20) /* headers, small files, what the file system itself needs */

static int write_json(const char *folder, const char *name, const json_t *value, struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(folder, name);
    mt_autofree char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    if (!path || !text)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to write '%s'", name);
    return mt_file_write_atomic(path, text, strlen(text), 0644, error);
}

/* The config of a model from scratch gets its tokenizer's special ids; one that was read stays as it was. */
static int write_config(const char *folder, const struct mt_checkpoint_contents *contents,
                        struct mt_error *error)
{
    mt_autojson json_t *config = mt_model_to_config(mt_store_model(contents->store));
    const struct {
        const char *key;
        int32_t id;
    } ids[] = {{"bos_token_id", mt_tokenizer_begin(contents->tokenizer)},
               {"eos_token_id", mt_tokenizer_end(contents->tokenizer)},
               {"pad_token_id", mt_tokenizer_pad(contents->tokenizer)}};
    mt_autojson json_t *generation = json_object();
    for (size_t i = 0; i < 3 && config && generation && !contents->model_folder; i++) {
        if (ids[i].id == MT_TOKEN_NONE)
            continue;
        json_object_set_new(config, ids[i].key, json_integer(ids[i].id));
        json_object_set_new(generation, ids[i].key, json_integer(ids[i].id));
    }
    /* Of a GGUF file, whose config says when an answer ends, there is none to copy. */
    const bool of_file = contents->model_folder && mt_gguf_is(contents->model_folder);
    for (size_t i = 0; i < 2 && of_file; i++) {
        json_t *id = json_object_get(config, ids[i].key);
        if (id && !json_is_null(id))
            json_object_set(generation, ids[i].key, id);
    }
    int result = write_json(folder, "config.json", config, error);
    if (result == 0 && (of_file || !contents->model_folder))
        result = write_json(folder, "generation_config.json", generation, error);
    return result;
}

/* A file of the source that says how the model is used, and stays what it was. */
static int copy_file(const char *folder, const char *source, const char *name, struct mt_error *error)
{
    mt_autofree char *from = mt_path_join(source, name);
    mt_autofree char *to = mt_path_join(folder, name);
    mt_autofree char *data = NULL;
    size_t bytes;
    if (!from || !to)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to copy '%s'", name);
    if (!mt_path_exists(from))
        return 0;
    int result = mt_file_read(from, SIDE_FILE_BYTES, &data, &bytes, error);
    return result < 0 ? result : mt_file_write_atomic(to, data, bytes, 0644, error);
}

/* Who asks the model must ask it as it was trained. */
static int write_template(const char *folder, const struct mt_checkpoint_contents *contents,
                          struct mt_error *error)
{
    if (!contents->template) {
        const char *source = contents->template_folder;
        int result = source ? copy_file(folder, source, "chat_template.jinja", error) : 0;
        return source && result == 0 ? copy_file(folder, source, "chat_template.json", error) : result;
    }
    const char *named = mt_template_source(contents->template), *text = named ? named : mt_alpaca_jinja;
    mt_autofree char *path = mt_path_join(folder, "chat_template.jinja");
    return path ? mt_file_write_atomic(path, text, strlen(text), 0644, error)
                : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to write a chat template");
}

static int check_space(const char *checkpoints, const struct mt_model *model, struct mt_error *error)
{
    struct statvfs disk;
    if (statvfs(checkpoints, &disk) != 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot ask for the free space of '%s'", checkpoints);
    size_t needed = mt_store_saved_bytes(model) + SLACK_BYTES, available;
    if (!mt_size_mul((size_t)disk.f_bavail, (size_t)disk.f_frsize, &available) || available >= needed)
        return 0;
    return mt_error_set(
        error, -ENOSPC, MT_REASON_DISK_FULL,
        "the disk is full: a checkpoint needs %zu bytes and '%s' has %zu; free some space (the last "
        "checkpoint is untouched) and resume",
        needed, checkpoints, available);
}

static int write_contents(const char *folder, const struct mt_checkpoint_contents *contents,
                          struct mt_error *error)
{
    const struct mt_model *model = mt_store_model(contents->store);
    mt_autofree char *inner = mt_path_join(folder, "megatrain");
    if (!inner)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to save a checkpoint");
    int result = mt_folder_create(inner, 0755, error);
    if (result == 0)
        result = mt_store_save_weights(contents->store, folder, "model", model->source_dtype, error);
    if (result == 0 && model->source_dtype != MT_F32)
        result = mt_store_save_weights(contents->store, inner, "master", MT_F32, error);
    if (result == 0)
        result = mt_store_save_moments(contents->store, inner, "optimizer", error);
    if (result == 0)
        result = write_config(folder, contents, error);
    if (result == 0)
        result = mt_tokenizer_save(contents->tokenizer, folder, error);
    if (result == 0 && contents->model_folder)
        result = copy_file(folder, contents->model_folder, "generation_config.json", error);
    if (result == 0)
        result = write_template(folder, contents, error);
    mt_autojson json_t *state = json_copy((json_t *)(uintptr_t)contents->state);
    if (state)
        json_object_set_new(state, "updates", json_integer((json_int_t)mt_store_updates(contents->store)));
    if (result == 0)
        result = write_json(inner, "trainer_state.json", state, error);
    uint64_t bytes;
    if (result == 0)
        result = mt_manifest_write(folder, contents->step, contents->loss, &bytes, error);
    if (result == 0)
        result = mt_folder_sync(inner, error);
    if (result == 0)
        result = mt_folder_sync(folder, error);
    return result;
}

/* Gives the finished folder its name; what had it before goes aside first and is removed after. */
static int rename_finished(const char *checkpoints, const char *unfinished, const char *finished,
                           struct mt_error *error)
{
    mt_autofree char *aside = mt_path_join(checkpoints, ".tmp-replaced");
    int result =
        aside ? mt_folder_remove(aside, error)
              : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to save a checkpoint");
    if (result < 0)
        return result;
    if (rename(finished, aside) != 0 && errno != ENOENT)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot replace '%s'", finished);
    if (rename(unfinished, finished) != 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot rename '%s' to '%s'", unfinished, finished);
    result = mt_folder_sync(checkpoints, error);
    return result < 0 ? result : mt_folder_remove(aside, error);
}

int mt_checkpoint_save(const char *checkpoints, const struct mt_checkpoint_contents *contents, char **path,
                       struct mt_error *error)
{
    *path = NULL;
    char name[32], unfinished_name[48];
    mt_checkpoint_folder_name(contents->step, name);
    snprintf(unfinished_name, sizeof unfinished_name, ".tmp-%s", name);
    mt_autofree char *unfinished = mt_path_join(checkpoints, unfinished_name);
    mt_autofree char *finished = mt_path_join(checkpoints, name);
    if (!unfinished || !finished)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to save a checkpoint");
    int result = mt_folder_create(checkpoints, 0755, error);
    if (result == 0)
        result = check_space(checkpoints, mt_store_model(contents->store), error);
    if (result == 0)
        result = mt_folder_remove(unfinished, error);
    if (result == 0)
        result = mt_folder_create(unfinished, 0755, error);
    if (result == 0)
        result = write_contents(unfinished, contents, error);
    if (result == 0)
        result = rename_finished(checkpoints, unfinished, finished, error);
    if (result < 0) {
        mt_error_prefix(error, "saving the checkpoint of step %zu", contents->step);
        mt_folder_remove(unfinished, NULL);
        return result;
    }
    *path = finished;
    finished = NULL;
    return 0;
}

static int load_arrays(const char *folder, const char *file, struct mt_store *store, struct mt_pool *pool,
                       int (*load)(struct mt_store *, const struct mt_tensors *, struct mt_pool *,
                                   struct mt_error *),
                       struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(folder, file);
    mt_autofree char *index = NULL;
    if (!path || asprintf(&index, "%s.index.json", path) < 0)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to load '%s'", file);
    struct mt_tensors *opened;
    int result = mt_tensors_open(mt_path_exists(index) ? index : path, mt_store_model(store), &opened, error);
    if (result < 0)
        return result;
    result = load(store, opened, pool, error);
    mt_tensors_close(opened);
    return result;
}

int mt_checkpoint_load(const char *path, struct mt_store *store, struct mt_pool *pool, json_t **state,
                       struct mt_error *error)
{
    *state = NULL;
    const struct mt_model *model = mt_store_model(store);
    mt_autofree char *state_path = mt_path_join(path, "megatrain/trainer_state.json");
    mt_autojson json_t *value = NULL;
    int result =
        state_path ? mt_json_read(state_path, MT_REASON_BAD_MODEL, &value, error)
                   : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to load a checkpoint");
    json_t *updates = json_object_get(value, "updates");
    if (result == 0 && (!json_is_integer(updates) || json_integer_value(updates) < 0))
        result = mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                              "'%s' does not say how many updates were made", state_path);
    if (result == 0)
        result = load_arrays(
            path, model->source_dtype == MT_F32 ? "model.safetensors" : "megatrain/master.safetensors", store,
            pool, mt_store_load_weights, error);
    if (result == 0)
        result =
            load_arrays(path, "megatrain/optimizer.safetensors", store, pool, mt_store_load_moments, error);
    if (result < 0) {
        mt_error_prefix(error, "loading the checkpoint '%s'", path);
        return result;
    }
    mt_store_set_updates(store, (uint64_t)json_integer_value(updates));
    *state = json_incref(value);
    return 0;
}
