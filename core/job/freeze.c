/* Defaults, the typed struct, and the frozen document, all driven by the table. */
#include "core/job/mix.h"
#include "core/job/reader.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void mt_job_fill_defaults(struct mt_job_reader *reader)
{
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        bool other_length = strcmp(key->pointer, "/training/max_steps") == 0 &&
                            json_object_get(reader->origins, "/training/num_epochs");
        if (key->default_json && !mt_reader_get(reader, key->pointer) && !other_length)
            mt_reader_put(reader, key->pointer, json_loads(key->default_json, JSON_DECODE_ANY, NULL));
    }
}

static const char *copy_text(struct mt_job_reader *reader, const char *text)
{
    const char *copy = text ? mt_arena_strdup(reader->arena, text) : NULL;
    if (text && !copy)
        reader->out_of_memory = true;
    return copy;
}

/* A string is a list of one. The count stands behind the pointer in the struct. */
static void fill_texts(struct mt_job_reader *reader, const json_t *value, void *field)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    const char **texts = mt_arena_alloc(reader->arena, count + 1, sizeof *texts);
    if (!texts) {
        reader->out_of_memory = true;
        return;
    }
    for (size_t i = 0; i < count; i++)
        texts[i] =
            copy_text(reader, json_string_value(json_is_array(value) ? json_array_get(value, i) : value));
    memcpy(field, &texts, sizeof texts);
    memcpy((char *)field + sizeof texts, &count, sizeof count);
}

static void fill_field(struct mt_job_reader *reader, const struct mt_job_key *key, const json_t *value,
                       void *field)
{
    const char *text = json_string_value(value);
    switch (key->type) {
    case MT_KEY_TEXT:
    case MT_KEY_NAME:
    case MT_KEY_WORD:
    case MT_KEY_DEVICE:
    case MT_KEY_PATH:
        *(const char **)field = copy_text(reader, text);
        break;
    case MT_KEY_BOOL:
        *(bool *)field = json_is_true(value);
        break;
    case MT_KEY_COUNT:
    case MT_KEY_COUNT_OR_AUTO:
    case MT_KEY_BYTES:
        *(size_t *)field = (size_t)json_integer_value(value); /* 0 for "auto" */
        break;
    case MT_KEY_INTEGER:
        *(int64_t *)field = json_integer_value(value);
        break;
    case MT_KEY_NUMBER:
        *(double *)field = json_number_value(value);
        break;
    case MT_KEY_CHOICE:
        *(int *)field = mt_job_choice_find(key->choices, text)->value;
        break;
    case MT_KEY_PATHS:
    case MT_KEY_TEXTS:
        fill_texts(reader, value, field);
        break;
    case MT_KEY_MIX:
        mt_mix_fill(reader, value, field);
        break;
    default:
        break;
    }
}

/* "Qwen3-0.6B-alpaca_en_demo": what the model and the data are called. */
static void name_job(struct mt_job_reader *reader)
{
    if (mt_reader_get(reader, "/name"))
        return;
    const char *model = json_string_value(mt_reader_get(reader, "/model/path"));
    if (!model)
        model = json_string_value(mt_reader_get(reader, "/model/name"));
    if (!model)
        model = json_string_value(mt_reader_get(reader, "/model/architecture"));
    const char *data = json_string_value(mt_reader_get(reader, "/dataset/name"));
    const json_t *paths = mt_reader_get(reader, "/dataset/path");
    if (!data)
        data = json_string_value(json_is_array(paths) ? json_array_get(paths, 0) : paths);
    if (mt_reader_get(reader, "/dataset/mix"))
        data = "mix";
    const char *given = reader->context->default_name;
    char name[128];
    if (given)
        snprintf(name, sizeof name, "%s", given);
    else
        snprintf(name, sizeof name, "%.56s-%.56s", model ? mt_job_key_name(model) : "model",
                 data ? mt_job_key_name(data) : "data");
    for (char *c = name; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '-';
    }
    if (*name == '.' || *name == '\0')
        *name = '-';
    mt_reader_put(reader, "/name", json_string(*name ? name : "job"));
}

static void fill_config(struct mt_job_reader *reader, struct mt_job *job)
{
    job->config = json_object();
    if (!job->config ||
        json_object_set_new(job->config, "architecture", json_string(job->model.architecture)) < 0)
        reader->out_of_memory = true;
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        json_t *value = mt_reader_get(reader, key->pointer);
        if (!(key->flags & MT_KEY_CONFIG) || !value)
            continue;
        const char *name = mt_job_key_name(key->pointer);
        if (strcmp(name, "num_layers") == 0)
            name = "num_hidden_layers";
        if (json_object_set(job->config, name, value) < 0)
            reader->out_of_memory = true;
    }
    const char *pointer;
    json_t *value;
    json_object_foreach(reader->extra, pointer, value)
    {
        if (json_object_set(job->config, mt_job_key_name(pointer), value) < 0)
            reader->out_of_memory = true;
    }
    job->model.config = job->config;
}

/* The frozen document has the table's order, whatever the order of the document was. */
static json_t *order_values(struct mt_job_reader *reader)
{
    struct mt_job_reader ordered = {.values = json_object()};
    if (!ordered.values)
        return NULL;
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        json_t *value = mt_reader_get(reader, mt_job_keys[i].pointer);
        if (value && mt_job_keys[i].type != MT_KEY_BLOCK)
            mt_reader_put(&ordered, mt_job_keys[i].pointer, json_incref(value));
    }
    const char *pointer;
    json_t *value;
    json_object_foreach(reader->extra, pointer, value)
    {
        mt_reader_put(&ordered, pointer, json_incref(value));
    }
    if (!ordered.out_of_memory)
        return ordered.values;
    json_decref(ordered.values);
    return NULL;
}

int mt_job_freeze(struct mt_job_reader *reader, struct mt_job *job)
{
    name_job(reader);
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        const json_t *value = mt_reader_get(reader, key->pointer);
        if (value && key->offset != MT_KEY_NO_FIELD)
            fill_field(reader, key, value, (char *)job + key->offset);
    }
    if (job->model.architecture)
        fill_config(reader, job);
    job->frozen = order_values(reader);
    job->labels = json_object_get(job->frozen, "labels");
    fill_texts(reader, reader->notes, &job->notes);
    return job->frozen && !reader->out_of_memory ? 0 : -ENOMEM;
}
