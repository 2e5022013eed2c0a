/* A model from its config.json or from a job's keys. */
#include "core/model/model.h"

#include "core/base/arena.h"
#include "core/base/cleanup.h"
#include "core/model/config.h"
#include "core/model/family.h"
#include "core/model/layer.h"
#include "core/model/parameters.h"

#include <math.h>
#include <string.h>

#define MAX_WIDTH ((size_t)1 << 24)
#define MAX_LAYERS ((size_t)4096)
#define MAX_VOCABULARY ((size_t)1 << 28)

/* What all layers of a model of this kind share, as read. */
struct shape {
    size_t num_heads, num_kv_heads, head_dim, intermediate_size;
    enum mt_activation activation;
    struct mt_layer_parts parts;
};

static int read_shape(struct mt_model *model, const json_t *config, struct shape *shape,
                      struct mt_error *error)
{
    const struct mt_family *family = model->family;
    double eps = family->norm_eps;
    model->tied = family->tied;
    model->max_position_embeddings = 2048;
    model->initializer_range = 0.02;

    int r = mt_config_size(config, "vocab_size", MAX_VOCABULARY, true, &model->vocab_size, error);
    r = r ? r : mt_config_size(config, "hidden_size", MAX_WIDTH, true, &model->hidden_size, error);
    r = r ? r : mt_config_size(config, "num_hidden_layers", MAX_LAYERS, true, &model->num_layers, error);
    r = r ? r
          : mt_config_size(config, "intermediate_size", MAX_WIDTH, true, &shape->intermediate_size, error);
    r = r ? r : mt_config_size(config, "num_attention_heads", MAX_WIDTH, true, &shape->num_heads, error);
    r = r ? r
          : mt_config_size(config, "max_position_embeddings", MAX_VOCABULARY, false,
                           &model->max_position_embeddings, error);
    if (r)
        return r;
    shape->num_kv_heads = shape->num_heads;
    r = mt_config_size(config, "num_key_value_heads", MAX_WIDTH, false, &shape->num_kv_heads, error);
    r = r ? r : mt_config_size(config, "head_dim", MAX_WIDTH, false, &shape->head_dim, error);
    r = r ? r : mt_config_number(config, "rms_norm_eps", &eps, error);
    r = r ? r : mt_config_number(config, "initializer_range", &model->initializer_range, error);
    r = r ? r : mt_config_bool(config, "tie_word_embeddings", &model->tied, error);
    r = r ? r : mt_config_bool(config, "attention_bias", &shape->parts.attention_bias, error);
    r = r ? r : mt_config_bool(config, "mlp_bias", &shape->parts.mlp_bias, error);
    r = r ? r : mt_config_activation(config, "hidden_act", family->activation, &shape->activation, error);
    r = r ? r : mt_config_dtype(config, &model->source_dtype, error);
    if (r)
        return r;
    const json_t *padding = json_object_get(config, "pad_token_id");
    model->padding_id = json_is_integer(padding) ? json_integer_value(padding) : -1;
    shape->parts.output_bias = shape->parts.attention_bias;
    model->norm_eps = (float)eps;
    model->norm_weight_offset = family->norm_weight_offset;

    if (!shape->head_dim) {
        if (model->hidden_size % shape->num_heads)
            return mt_error_set(
                error, -EINVAL, MT_REASON_BAD_MODEL,
                "config: hidden_size %zu is not divisible by num_attention_heads %zu, and there is no "
                "head_dim",
                model->hidden_size, shape->num_heads);
        shape->head_dim = model->hidden_size / shape->num_heads;
    }
    if (shape->num_heads % shape->num_kv_heads)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: num_attention_heads %zu is not divisible by num_key_value_heads %zu",
                            shape->num_heads, shape->num_kv_heads);
    if (shape->head_dim % 2)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: the head size %zu must be even for rotary positions", shape->head_dim);
    return 0;
}

static int build_layers(struct mt_model *model, const struct shape *shape, struct mt_error *error)
{
    model->layers = mt_arena_alloc(model->arena, model->num_layers, sizeof *model->layers);
    if (!model->layers)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the list of layers");
    for (size_t i = 0; i < model->num_layers; i++)
        model->layers[i] = (struct mt_layer){
            .layer_template = &mt_layer_dense_attention,
            .hidden_size = model->hidden_size,
            .num_heads = shape->num_heads,
            .num_kv_heads = shape->num_kv_heads,
            .head_dim = shape->head_dim,
            .rope = 0,
            .attention_scale = (float)(1.0 / sqrt((double)shape->head_dim)),
            .intermediate_size = shape->intermediate_size,
            .activation = shape->activation,
            .norm_eps = model->norm_eps,
            .norm_weight_offset = model->norm_weight_offset,
        };
    model->kv_size = shape->num_kv_heads * shape->head_dim;
    return 0;
}

static int build(struct mt_model *model, const json_t *config, bool strict, struct mt_error *error)
{
    const json_t *type = json_object_get(config, "model_type");
    if (!json_is_string(type))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: `model_type` is missing");
    model->family = mt_family_find(json_string_value(type));
    if (!model->family) {
        char known[512];
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "config: model_type `%s` is not supported yet (known: %s)",
                            json_string_value(type), mt_family_list(known, sizeof known));
    }
    struct shape shape = {0};
    int r = mt_config_check_keys(model->family, config, strict, model->notes, error);
    r = r ? r : read_shape(model, config, &shape, error);
    if (r)
        return r;
    model->num_ropes = 1;
    model->ropes[0].rotary_dim = shape.head_dim;
    r = mt_rope_from_config(config, model->family->rope_theta, &model->ropes[0], error);
    r = r ? r : build_layers(model, &shape, error);
    return r ? r : mt_parameters_build(model, &shape.parts, error);
}

static int make(const json_t *config, bool strict, struct mt_model **model_out, struct mt_error *error)
{
    *model_out = NULL;
    if (!json_is_object(config))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: must be a JSON object");
    struct mt_arena *arena = mt_arena_new();
    struct mt_model *model = arena ? mt_arena_alloc(arena, 1, sizeof *model) : NULL;
    if (!model) {
        mt_arena_free(arena);
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "out of memory for the model's description");
    }
    model->arena = arena;
    model->config = json_deep_copy(config);
    model->notes = json_array();
    int r = model->config && model->notes ? build(model, model->config, strict, error)
                                          : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                                                         "out of memory for the model's description");
    if (r) {
        mt_model_free(model);
        return r;
    }
    *model_out = model;
    return 0;
}

int mt_model_from_config(const json_t *config, struct mt_model **model, struct mt_error *error)
{
    return make(config, false, model, error);
}

void mt_model_free(struct mt_model *model)
{
    if (!model)
        return;
    json_decref(model->config);
    json_decref(model->notes);
    mt_arena_free(model->arena); /* the model itself lies in it */
}

json_t *mt_model_to_config(const struct mt_model *model)
{
    return json_deep_copy(model->config);
}

/* Keys of a job's model block that say nothing of the shape. */
static const char *const job_keys[] = {"path",  "name",   "architecture",        "tokenizer",
                                       "dtype", "device", "attn_implementation", "trust_remote_code"};

static bool is_job_key(const char *key)
{
    for (size_t i = 0; i < sizeof job_keys / sizeof *job_keys; i++)
        if (strcmp(key, job_keys[i]) == 0)
            return true;
    return false;
}

static size_t size_of(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    return json_is_integer(value) && json_integer_value(value) > 0 ? (size_t)json_integer_value(value) : 0;
}

static void set_default(json_t *config, const char *key, json_t *value)
{
    if (json_object_get(config, key))
        json_decref(value);
    else
        json_object_set_new(config, key, value);
}

/* The present form of config.json, every key that transformers needs written out. */
static int fill_defaults(const struct mt_family *family, json_t *config, struct mt_error *error)
{
    const size_t hidden = size_of(config, "hidden_size"), heads = size_of(config, "num_attention_heads");
    set_default(config, "architectures", json_pack("[s]", family->architecture));
    json_object_set_new(config, "dtype", json_string("float32"));
    set_default(config, "attention_bias", json_false());
    set_default(config, "attention_dropout", json_real(0));
    set_default(config, "mlp_bias", json_false());
    set_default(config, "bos_token_id", json_null());
    set_default(config, "eos_token_id", json_null());
    set_default(config, "pad_token_id", json_null());
    set_default(config, "hidden_act", json_string(family->activation));
    set_default(config, "initializer_range", json_real(0.02));
    set_default(config, "max_position_embeddings", json_integer(2048));
    set_default(config, "rms_norm_eps", json_real(1e-5));
    set_default(config, "tie_word_embeddings", json_false());
    set_default(config, "use_cache", json_true());
    set_default(config, "pretraining_tp", json_integer(1));
    if (hidden && hidden <= MAX_WIDTH)
        set_default(config, "intermediate_size", json_integer((json_int_t)((hidden * 8 + 191) / 192 * 64)));
    if (heads)
        set_default(config, "num_key_value_heads", json_integer((json_int_t)heads));
    if (heads && hidden % heads == 0)
        set_default(config, "head_dim", json_integer((json_int_t)(hidden / heads)));

    if (json_object_get(config, "rope_parameters"))
        return 0;
    json_t *old = json_object_get(config, "rope_scaling"), *theta = json_object_get(config, "rope_theta");
    json_t *rope = json_is_object(old) ? json_deep_copy(old) : json_object();
    if (json_object_get(rope, "type") && !json_object_get(rope, "rope_type"))
        json_object_set(rope, "rope_type", json_object_get(rope, "type"));
    json_object_del(rope, "type");
    set_default(rope, "rope_type", json_string("default"));
    if (theta && !json_is_null(theta))
        json_object_set(rope, "rope_theta", theta);
    set_default(rope, "rope_theta", json_real(10000.0));
    json_object_del(config, "rope_scaling");
    json_object_del(config, "rope_theta");
    if (json_object_set_new(config, "rope_parameters", rope))
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "out of memory for the model's description");
    return 0;
}

static int config_from_keys(const char *architecture, const json_t *keys, json_t *config,
                            struct mt_error *error)
{
    const json_t *given = json_object_get(keys, "architecture");
    const char *type = architecture ? architecture : json_string_value(given);
    const struct mt_family *family = type ? mt_family_find(type) : NULL;
    if (!family) {
        char known[512];
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_JOB,
                            "model.architecture `%s` is not supported yet (known: %s)", type ? type : "",
                            mt_family_list(known, sizeof known));
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)keys, key, value)
    {
        if (is_job_key(key))
            continue;
        json_object_set(config, strcmp(key, "num_layers") == 0 ? "num_hidden_layers" : key, value);
    }
    json_object_set_new(config, "model_type", json_string(family->model_type));
    return fill_defaults(family, config, error);
}

int mt_model_from_keys(const char *architecture, const json_t *keys, struct mt_model **model,
                       struct mt_error *error)
{
    *model = NULL;
    mt_autojson json_t *config = json_object();
    if (!config)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "out of memory for the model's description");
    int r = json_is_object(keys)
                ? config_from_keys(architecture, keys, config, error)
                : mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "model: must be an object of keys");
    if (r)
        return r;
    r = make(config, true, model, error);
    if (r && error && error->reason == MT_REASON_BAD_MODEL)
        error->reason = MT_REASON_BAD_JOB;
    return r;
}

double mt_model_forward_flops(const struct mt_model *model)
{
    double weights = (double)model->vocab_size * (double)model->hidden_size;
    for (size_t i = 0; i < model->num_layers; i++) {
        const struct mt_group *group = model->layers[i].group;
        for (size_t k = 0; k < group->num_parameters; k++) {
            const struct mt_parameter *p = &model->parameters[group->first_parameter + k];
            weights += p->rank > 1 ? (double)p->count : 0;
        }
    }
    return 2 * weights;
}
