#include "core/plan/inspect.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/data/source.h"
#include "core/formats/gguf.h"
#include "core/model/family.h"
#include "core/model/gguf_config.h"
#include "core/model/open.h"
#include "core/model/tensors.h"
#include "core/store/files.h"
#include "core/text/gguf_tokenizer.h"
#include "core/text/template.h"
#include "core/text/tokenizer.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_TEXT_BYTES 400 /* of a metadata text that is shown */

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while looking at a model");
}

/* A failure that is told among others. Out of memory stays one. */
static int note_problem(json_t *report, int result, struct mt_error *error)
{
    if (result == 0)
        return 0;
    if (error->reason == MT_REASON_OUT_OF_MEMORY)
        return result;
    json_array_append_new(json_object_get(report, "problems"), json_string(error->message));
    *error = (struct mt_error){0};
    return 0;
}

/* --- metadata ------------------------------------------------------------------------------------------ */

static json_t *text_value(const struct mt_gguf_text *text)
{
    const size_t bytes = text->bytes < MAX_TEXT_BYTES ? text->bytes : MAX_TEXT_BYTES;
    mt_cleanup(mt_text_free) struct mt_text shown = {0};
    if (mt_text_append_utf8(&shown, text->data, bytes) < 0)
        return NULL;
    return bytes < text->bytes ? json_sprintf("%s... (%zu bytes)", shown.data, text->bytes)
                               : json_stringn(shown.data ? shown.data : "", shown.bytes);
}

static json_t *metadata_value(const struct mt_gguf_value *value)
{
    struct mt_gguf_text text;
    int64_t integer;
    double number;
    if (value->is_array)
        return json_pack("{s:s, s:I}", "array", mt_gguf_kind_name(value->kind), "count",
                         (json_int_t)value->count);
    if (mt_gguf_string(value, &text))
        return text_value(&text);
    if (value->kind == MT_GGUF_BOOL && mt_gguf_integer(value, 0, &integer))
        return json_boolean(integer != 0);
    if (value->kind != MT_GGUF_F32 && value->kind != MT_GGUF_F64 && mt_gguf_integer(value, 0, &integer))
        return json_integer(integer);
    json_t *real = mt_gguf_number(value, 0, &number) ? json_real(number) : NULL;
    return real ? real : json_string("not a finite number");
}

static void show_gguf(json_t *report, const struct mt_gguf *file)
{
    json_t *metadata = json_object_get(report, "metadata");
    for (size_t i = 0; i < mt_gguf_num_values(file); i++) {
        const struct mt_gguf_value *value = mt_gguf_value_at(file, i);
        json_object_set_new(metadata, value->key, metadata_value(value));
    }
    json_object_set_new(report, "version", json_integer(mt_gguf_version(file)));
    json_t *parts = json_array();
    for (size_t i = 0; mt_gguf_num_parts(file) > 1 && i < mt_gguf_num_parts(file); i++)
        json_array_append_new(parts, json_string(mt_gguf_part_path(file, i)));
    json_object_set_new(report, "parts", parts);
}

/* --- tensors ------------------------------------------------------------------------------------------- */

static int add_tensor(json_t *report, const struct mt_tensor *tensor)
{
    json_t *types = json_object_get(report, "types"), *type = json_object_get(types, tensor->type);
    if (!type) {
        type = json_pack("{s:i, s:i, s:b}", "tensors", 0, "bytes", 0, "supported", tensor->readable);
        json_object_set_new(types, tensor->type, type);
    }
    json_object_set_new(type, "tensors",
                        json_integer(json_integer_value(json_object_get(type, "tensors")) + 1));
    json_object_set_new(
        type, "bytes",
        json_integer(json_integer_value(json_object_get(type, "bytes")) + (json_int_t)tensor->bytes));
    json_t *shape = json_array();
    for (size_t i = 0; i < tensor->rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    return json_array_append_new(json_object_get(report, "tensors"),
                                 json_pack("{s:s, s:s, s:o, s:I}", "name", tensor->name, "type", tensor->type,
                                           "shape", shape, "bytes", (json_int_t)tensor->bytes));
}

/* Here and below, `file` is the open GGUF file, or NULL for a folder or another file. */
static int read_tensors(json_t *report, const char *path, const struct mt_gguf *file, struct mt_error *error)
{
    struct mt_tensors *tensors;
    json_int_t bytes = 0;
    int r =
        file ? mt_tensors_of_gguf(file, NULL, &tensors, error) : mt_tensors_open(path, NULL, &tensors, error);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < mt_tensors_count(tensors); i++) {
        const struct mt_tensor *tensor = mt_tensors_at(tensors, i);
        bytes += (json_int_t)tensor->bytes;
        r = add_tensor(report, tensor) < 0 ? no_memory(error) : 0;
    }
    json_object_set_new(report, "bytes", json_integer(bytes));
    mt_tensors_close(tensors);

    const char *type;
    json_t *numbers;
    json_object_foreach(json_object_get(report, "types"), type, numbers)
    {
        if (r == 0 && json_is_false(json_object_get(numbers, "supported")))
            json_array_append_new(
                json_object_get(report, "problems"),
                json_sprintf("%" JSON_INTEGER_FORMAT " tensors have the type %s, which is not supported",
                             json_integer_value(json_object_get(numbers, "tensors")), type));
    }
    return r;
}

/* --- model and tokenizer ------------------------------------------------------------------------------- */

static int check_weights(const struct mt_model *model, const char *path, const struct mt_gguf *file,
                         struct mt_error *error)
{
    if (!file)
        return mt_store_check_files(model, path, error);
    struct mt_tensors *tensors;
    int r = mt_tensors_of_gguf(file, model, &tensors, error);
    if (r == 0)
        r = mt_store_check_weights(model, tensors, error);
    mt_tensors_close(tensors);
    return r;
}

static int read_model(json_t *report, const char *path, const struct mt_gguf *file, struct mt_error *error)
{
    static const char *const dtypes[] = {[MT_F32] = "float32", [MT_BF16] = "bfloat16", [MT_F16] = "float16"};
    json_t *config = NULL;
    struct mt_model *model = NULL;
    int r = file ? mt_gguf_to_config(file, &config, error) : mt_model_read_config(path, &config, error);
    if (r == 0)
        json_object_set_new(report, "config", config);
    r = r ? r : mt_model_of_path(path, config, &model, error);
    if (r == 0) {
        json_object_set_new(
            report, "model",
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:s}", "model_type", model->family->model_type,
                      "architecture", model->family->architecture, "parameters",
                      (json_int_t)model->total_count, "layers", (json_int_t)model->num_layers, "hidden_size",
                      (json_int_t)model->hidden_size, "vocab_size", (json_int_t)model->vocab_size, "tied",
                      model->tied, "dtype", dtypes[model->source_dtype]));
        json_object_set(report, "notes", model->notes);
        if (json_array_size(json_object_get(report, "tensors")))
            r = check_weights(model, path, file, error);
    }
    mt_model_free(model);
    return r;
}

static json_t *id_value(int32_t id)
{
    return id == MT_TOKEN_NONE ? json_null() : json_integer(id);
}

static int read_tokenizer(json_t *report, const char *path, const struct mt_gguf *file,
                          struct mt_error *error)
{
    struct mt_tokenizer *tokenizer;
    struct mt_template *template = NULL;
    int r = file ? mt_gguf_tokenizer_of(file, &tokenizer, error) : mt_tokenizer_load(path, &tokenizer, error);
    if (r < 0)
        return r;
    json_t *shown =
        json_pack("{s:s, s:I, s:o, s:o, s:o, s:b}", "kind", mt_tokenizer_kind(tokenizer), "vocab_size",
                  (json_int_t)mt_tokenizer_vocab_size(tokenizer), "begin",
                  id_value(mt_tokenizer_begin(tokenizer)), "end", id_value(mt_tokenizer_end(tokenizer)),
                  "pad", id_value(mt_tokenizer_pad(tokenizer)), "chat_template", 0);
    mt_tokenizer_free(tokenizer);
    json_object_set_new(report, "tokenizer", shown);
    r = file ? mt_template_of_gguf(file, &template, error) : mt_template_load(path, &template, error);
    if (r == 0)
        json_object_set_new(shown, "chat_template", json_boolean(template != NULL));
    mt_template_free(template);
    return r;
}

static int read_checkpoint(json_t *report, const char *path, struct mt_error *error)
{
    mt_autofree char *file = mt_path_join(path, "megatrain/trainer_state.json");
    json_t *state = NULL;
    if (!file)
        return no_memory(error);
    if (!mt_path_exists(file))
        return 0;
    json_object_set_new(report, "kind", json_string("checkpoint"));
    int r = mt_json_read(file, MT_REASON_BAD_MODEL, &state, error);
    return r == 0 && json_object_set_new(report, "checkpoint", state) < 0 ? no_memory(error) : r;
}

/* --- all of it ----------------------------------------------------------------------------------------- */

static bool exists_in(const char *folder, const char *name)
{
    mt_autofree char *path = mt_path_join(folder, name);
    return path && mt_path_exists(path);
}

static bool holds_tokenizer(const char *folder)
{
    static const char *const names[] = {"tokenizer_config.json", "tokenizer.json",          "tokenizer.model",
                                        "spiece.model",          "sentencepiece.bpe.model", "qwen.tiktoken",
                                        "tiktoken.model"};
    bool holds = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        holds = holds || exists_in(folder, names[i]);
    return holds;
}

static bool holds_model(const char *folder)
{
    return exists_in(folder, "config.json") || exists_in(folder, "model.safetensors") ||
           exists_in(folder, "model.safetensors.index.json") || holds_tokenizer(folder);
}

/* Why a file can't be read; data is told from damaged models. */
static int refuse_file(const char *path, int result, const struct mt_error *problem, struct mt_error *error)
{
    struct mt_source_file data;
    const char *dot = strrchr(path, '.');
    if (problem->reason == MT_REASON_BAD_MODEL && mt_source_format(path, &data) && strcmp(dot, ".json") != 0)
        return mt_error_set(error, result, MT_REASON_BAD_MODEL,
                            "%s is a file of data and no model; `megatrain data JOB` shows what a job "
                            "learns of its data",
                            path);
    if (error)
        *error = *problem;
    return result;
}

static int read_rest(json_t *report, const char *path, const struct mt_gguf *file, bool is_folder,
                     struct mt_error *problem)
{
    int r = 0;
    if (file)
        show_gguf(report, file);
    if (is_folder)
        r = note_problem(report, read_checkpoint(report, path, problem), problem);
    if (r == 0 && (is_folder || file))
        r = note_problem(report, read_model(report, path, file, problem), problem);
    if (r == 0 && (file || holds_tokenizer(path)))
        return note_problem(report, read_tokenizer(report, path, file, problem), problem);
    if (r == 0 && is_folder &&
        json_array_append_new(json_object_get(report, "notes"),
                              json_string("there is no tokenizer in this folder; a job names one with "
                                          "model.tokenizer")) < 0)
        return no_memory(problem);
    return r;
}

int mt_inspect(const char *path, json_t **result, struct mt_error *error)
{
    struct mt_error problem = {0};
    struct stat status;
    struct mt_gguf *file = NULL;
    *result = NULL;
    if (stat(path, &status) < 0)
        return mt_error_set_errno(error, errno == ENOENT ? MT_REASON_BAD_MODEL : MT_REASON_IO,
                                  "cannot open %s", path);
    const bool is_folder = S_ISDIR(status.st_mode), is_gguf = mt_gguf_is(path);
    if (is_folder && !holds_model(path))
        return mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL,
                            "%s holds no model: neither config.json nor model.safetensors nor a GGUF file; "
                            "name the folder or file below it that is one",
                            path);
    mt_autojson json_t *report =
        json_pack("{s:s, s:s, s:n, s:n, s:n, s:n, s:n, s:[], s:{}, s:{}, s:[], s:[]}", "path", path, "kind",
                  is_folder ? "folder"
                  : is_gguf ? "gguf"
                            : "safetensors",
                  "bytes", "model", "config", "tokenizer", "checkpoint", "notes", "metadata", "types",
                  "tensors", "problems");
    if (!report)
        return no_memory(error);
    int r = is_gguf ? mt_gguf_open(path, &file, &problem) : 0;
    if (r == 0)
        r = read_tensors(report, path, file, &problem);
    if (r < 0 && !is_folder) { /* a file that can't be read has nothing to show */
        mt_gguf_close(file);
        return refuse_file(path, r, &problem, error);
    }
    r = note_problem(report, r, &problem);
    if (r == 0)
        r = read_rest(report, path, file, is_folder, &problem);
    mt_gguf_close(file);
    if (r < 0) {
        if (error)
            *error = problem;
        return r;
    }
    *result = json_incref(report);
    return 0;
}
