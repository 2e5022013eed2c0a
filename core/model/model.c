/* A model from its config.json or from a job's keys. */
#include "core/model/model.h"

#include "core/base/arena.h"
#include "core/base/cleanup.h"
#include "core/model/config.h"
#include "core/model/family.h"
#include "core/model/layer.h"
#include "core/model/layer_rules.h"
#include "core/model/parameters.h"
#include "core/model/positions.h"

#include <math.h>
#include <string.h>

#define MAX_WIDTH MT_CONFIG_MAX_WIDTH
#define MAX_LAYERS ((size_t)8192) /* as in a job's model.num_layers */
#define MAX_VOCABULARY ((size_t)1 << 28)

/* What all layers of a model of this kind share, as read. */
struct shape {
    size_t num_heads, num_kv_heads, head_dim, intermediate_size;
    enum mt_activation activation;
    struct mt_biases biases;
    bool parallel, qk_norm, residual_normed, xielu, alibi;
    bool scale_by_layer; /* scores are divided by the layer's number, from 1 */
    double attention_scale, attention_softcap, residual_scale, qkv_clip;
};

static int read_switch(const json_t *config, const struct mt_family_switch *family, bool *value,
                       struct mt_error *error)
{
    *value = family->otherwise;
    return family->key ? mt_config_bool(config, family->key, value, error) : 0;
}

/* Whether rope settings ask for more than plain rotary positions. */
static bool is_scaling(const json_t *settings)
{
    const json_t *type = json_object_get(settings, "rope_type");
    type = type ? type : json_object_get(settings, "type");
    return type ? !json_is_string(type) || strcmp(json_string_value(type), "default") != 0
                : json_object_get(settings, "factor") != NULL;
}

/* Where a switch says how many key-value heads there are, no number says otherwise. transformers writes
 * falcon's `num_kv_heads` out as the number of heads even where the switch is on and it is not read. */
static int check_multi_query(const struct mt_model *model, const json_t *config, const struct shape *shape,
                             struct mt_error *error)
{
    static const char *const keys[] = {"num_key_value_heads", "num_kv_heads"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t given = shape->num_kv_heads;
        int r = mt_config_size(config, keys[i], MAX_WIDTH, false, &given, error);
        if (r)
            return r;
        if (given == shape->num_kv_heads || (i == 1 && given == shape->num_heads))
            continue;
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: %s has %zu key-value heads where `%s` is %s, not the %zu of `%s`",
                            model->family->model_type, shape->num_kv_heads, model->family->multi_query.key,
                            shape->num_kv_heads == 1 ? "true" : "false", given, keys[i]);
    }
    return 0;
}

/* What transformers does not read for the family has its one value. */
static int check_lacks(const struct mt_model *model, const json_t *config, const struct shape *shape,
                       struct mt_error *error)
{
    const unsigned lacks = model->family->lacks;
    const char *type = model->family->model_type;
    if ((lacks & MT_LACKS_HEAD_DIM) &&
        (model->hidden_size % shape->num_heads || shape->head_dim != model->hidden_size / shape->num_heads))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: heads of %s are hidden_size / num_attention_heads wide, here %zu / %zu; "
                            "it has no other `head_dim`, found %zu",
                            type, model->hidden_size, shape->num_heads, shape->head_dim);
    if ((lacks & MT_LACKS_KV_HEADS) && !model->family->multi_query.key &&
        shape->num_kv_heads != shape->num_heads)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: %s has as many key and value heads as query heads, %zu; it has no other "
                            "`num_key_value_heads`, found %zu",
                            type, shape->num_heads, shape->num_kv_heads);
    if ((lacks & MT_LACKS_ROPE_SCALING) && (is_scaling(json_object_get(config, "rope_scaling")) ||
                                            is_scaling(json_object_get(config, "rope_parameters"))))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: %s has no scaling of rotary positions (`rope_scaling`)", type);
    return 0;
}

static int read_sizes(struct mt_model *model, const json_t *config, struct shape *shape,
                      struct mt_error *error)
{
    int r = mt_config_size(config, "vocab_size", MAX_VOCABULARY, true, &model->vocab_size, error);
    r = r ? r : mt_config_size(config, "hidden_size", MAX_WIDTH, true, &model->hidden_size, error);
    r = r ? r : mt_config_size(config, "num_hidden_layers", MAX_LAYERS, true, &model->num_layers, error);
    size_t factor = model->family->mlp_factor;
    if (model->family->mlp_factor_key)
        r = r ? r : mt_config_size(config, model->family->mlp_factor_key, 1024, false, &factor, error);
    r = r ? r
          : mt_config_size(config, "intermediate_size", MAX_WIDTH, !factor, &shape->intermediate_size, error);
    if (!shape->intermediate_size)
        shape->intermediate_size = factor * model->hidden_size;
    model->embedding_size = model->hidden_size;
    r = r ? r
          : mt_config_size(config, "word_embed_proj_dim", MAX_WIDTH, false, &model->embedding_size, error);
    r = r ? r : mt_config_size(config, "num_attention_heads", MAX_WIDTH, true, &shape->num_heads, error);
    model->max_position_embeddings = model->family->max_positions ? model->family->max_positions : 2048;
    r = r ? r
          : mt_config_size(config, "max_position_embeddings", MAX_VOCABULARY, false,
                           &model->max_position_embeddings, error);
    if (r)
        return r;
    shape->num_kv_heads = shape->num_heads;
    shape->head_dim = model->family->head_dim;
    r = mt_config_size(config, "num_key_value_heads", MAX_WIDTH, false, &shape->num_kv_heads, error);
    r = r ? r : mt_config_size(config, "head_dim", MAX_WIDTH, false, &shape->head_dim, error);
    bool multi_query;
    r = r ? r : read_switch(config, &model->family->multi_query, &multi_query, error);
    if (r)
        return r;
    if (model->family->multi_query.key) {
        shape->num_kv_heads = multi_query ? 1 : shape->num_heads;
        r = check_multi_query(model, config, shape, error);
        if (r)
            return r;
    }
    const bool projected = model->family->names[MT_ROLE_PROJECT_IN] != NULL;
    if (model->embedding_size > model->hidden_size ||
        (model->embedding_size < model->hidden_size && !projected))
        return mt_error_set(
            error, -ENOTSUP, MT_REASON_BAD_MODEL,
            "config: `word_embed_proj_dim` %zu beside hidden_size %zu is not supported for this "
            "architecture",
            model->embedding_size, model->hidden_size);
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
    if (model->family->qkv_parts && shape->num_heads % model->family->qkv_parts)
        return mt_error_set(
            error, -EINVAL, MT_REASON_BAD_MODEL,
            "config: num_attention_heads %zu is not divisible by the %zu parts of the query, key "
            "and value matrix",
            shape->num_heads, model->family->qkv_parts);
    return check_lacks(model, config, shape, error);
}

/* A number that a key may turn off: absent is the family's default, null is 0. */
static int read_optional(const json_t *config, const char *key, double otherwise, double *value,
                         struct mt_error *error)
{
    *value = json_is_null(json_object_get(config, key)) ? 0 : otherwise;
    return mt_config_number(config, key, value, error);
}

/* Multipliers and caps. A key is read whatever the family: where it is not the family's, it was refused. */
static int read_scales(struct mt_model *model, const json_t *config, struct shape *shape,
                       struct mt_error *error)
{
    const struct mt_family *family = model->family;
    double scalar = family->query_scalar ? family->query_scalar : (double)shape->head_dim;
    double embedding = 1, logit = family->logit_scale ? family->logit_scale : 1, divisor = 1, softcap;
    bool scaled = false, divided = !family->unscaled_scores;
    int r = mt_config_number(config, "query_pre_attn_scalar", &scalar, error);
    r = r ? r : read_switch(config, &family->scales_embeddings, &scaled, error);
    if (scaled)
        embedding = sqrt((double)model->hidden_size);
    if (mt_family_has_key(family, "scale_attn_weights"))
        r = r ? r : mt_config_bool(config, "scale_attn_weights", &divided, error);
    r = r ? r : mt_config_bool(config, "scale_attn_by_inverse_layer_idx", &shape->scale_by_layer, error);
    shape->attention_scale = divided ? 1 / sqrt(scalar) : 1;
    shape->residual_scale = 1;
    r = r ? r : mt_config_number(config, "softmax_scale", &shape->attention_scale, error);
    r = r ? r : mt_config_number(config, "clip_qkv", &shape->qkv_clip, error);
    r = r ? r : mt_config_number(config, "attention_multiplier", &shape->attention_scale, error);
    r = r ? r : mt_config_number(config, "residual_multiplier", &shape->residual_scale, error);
    r = r ? r : mt_config_number(config, "embedding_multiplier", &embedding, error);
    r = r ? r : mt_config_number(config, "logit_scale", &logit, error);
    r = r ? r : mt_config_number(config, "logits_scaling", &divisor, error);
    r = r ? r
          : read_optional(config, "attn_logit_softcapping", family->attention_softcap,
                          &shape->attention_softcap, error);
    r = r ? r : read_optional(config, "final_logit_softcapping", family->logit_softcap, &softcap, error);
    if (r)
        return r;
    if (!(scalar > 0) || !(divisor > 0))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: `%s` must be above 0",
                            scalar > 0 ? "logits_scaling" : "query_pre_attn_scalar");
    model->embedding_scale = (float)embedding;
    if (family->logits_multiplied)
        divisor = 1 / divisor;
    if (model->norm_head)
        logit /= sqrt((double)model->hidden_size);
    model->logit_scale = (float)(logit / divisor);
    model->logit_softcap = (float)softcap;
    return 0;
}

static int read_shape(struct mt_model *model, const json_t *config, struct shape *shape,
                      struct mt_error *error)
{
    const struct mt_family *family = model->family;
    double eps = family->norm_eps > 0 ? family->norm_eps : 1e-6;
    model->tied = family->tied;
    model->initializer_range = 0.02;
    shape->qk_norm =
        family->qk_norm != MT_QK_NORM_NONE && (!family->qk_norm_key || family->qk_norm_otherwise);
    shape->biases.norm_weight = true;
    int r = read_sizes(model, config, shape, error);
    r = r ? r : read_switch(config, &family->norm_head, &model->norm_head, error);
    r = r ? r : read_switch(config, &family->alibi, &shape->alibi, error);
    r = r ? r : read_switch(config, &family->residual_normed, &shape->residual_normed, error);
    if (family->norm_weight_key)
        r = r ? r : mt_config_bool(config, family->norm_weight_key, &shape->biases.norm_weight, error);
    r = r ? r : read_scales(model, config, shape, error);
    r = r ? r : mt_config_number(config, family->eps_key ? family->eps_key : "rms_norm_eps", &eps, error);
    r = r ? r : mt_config_number(config, "initializer_range", &model->initializer_range, error);
    r = r ? r : mt_config_bool(config, "tie_word_embeddings", &model->tied, error);
    r = r ? r : read_switch(config, &family->qkv_bias, &shape->biases.qkv, error);
    r = r ? r : read_switch(config, &family->output_bias, &shape->biases.output, error);
    r = r ? r : read_switch(config, &family->mlp_bias, &shape->biases.mlp, error);
    r = r ? r : read_switch(config, &family->norm_bias, &shape->biases.norm, error);
    r = r ? r : read_switch(config, &family->head_bias, &shape->biases.head, error);
    r = r ? r : read_switch(config, &family->parallel, &shape->parallel, error);
    if (!r && family->qk_norm_key)
        r = mt_config_bool(config, family->qk_norm_key, &shape->qk_norm, error);
    r = r ? r
          : mt_config_activation(config, family->activation_key ? family->activation_key : "hidden_act",
                                 family->activation ? family->activation : "silu",
                                 family->names[MT_ROLE_XIELU_ALPHA_P] ? &shape->xielu : NULL,
                                 &shape->activation, error);
    if (family->gelu_is_tanh && shape->activation == MT_ACTIVATION_GELU)
        shape->activation = MT_ACTIVATION_GELU_TANH;
    r = r ? r : mt_config_dtype(config, &model->source_dtype, error);
    const json_t *padding = json_object_get(config, "pad_token_id");
    if (!r && padding && !json_is_null(padding) && !json_is_integer(padding))
        r = mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                         "config: `pad_token_id` must be a whole number");
    model->padding_id =
        json_is_integer(padding) && !family->keeps_padding_row ? json_integer_value(padding) : -1;
    model->norm_eps = (float)eps;
    model->norm_weight_offset = family->norm_weight_offset;
    model->norm_centered = family->layer_norm;
    model->positions = family->positions;
    model->position_offset = family->position_offset;
    model->entry_norm = family->plain_entry_norm || family->names[MT_ROLE_EMBEDDING_NORM];
    model->final_norm = family->plain_norms || family->names[MT_ROLE_FINAL_NORM];
    return r;
}

/* Slopes of linear biases, as they are added to scaled scores. */
static int make_alibi(struct mt_model *model, const json_t *config, const struct shape *shape,
                      struct mt_error *error)
{
    double most = 8;
    if (!shape->alibi)
        return 0;
    int r = mt_config_number(config, "alibi_bias_max", &most, error);
    if (r)
        return r;
    float *slopes = mt_arena_alloc(model->arena, shape->num_heads, sizeof *slopes);
    if (!slopes)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the list of slopes");
    mt_alibi_slopes(shape->num_heads, most, slopes);
    for (size_t h = 0; h < shape->num_heads && model->family->alibi_bf16; h++)
        slopes[h] = mt_bf16_to_float(mt_bf16_from_float(slopes[h]));
    model->alibi = slopes;
    return 0;
}

static bool has_entry(const struct mt_model *model)
{
    return model->positions != MT_POSITIONS_NONE || model->entry_norm ||
           model->embedding_size != model->hidden_size;
}

static int build_layers(struct mt_model *model, const struct shape *shape, const struct mt_layer_rules *rules,
                        struct mt_error *error)
{
    const struct mt_family *family = model->family;
    const char *const *names = family->names;
    model->layers = mt_arena_alloc(model->arena, model->num_layers, sizeof *model->layers);
    if (!model->layers)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the list of layers");
    for (size_t i = 0; i < model->num_layers; i++) {
        struct mt_layer *layer = &model->layers[i];
        *layer = (struct mt_layer){
            .layer_template = &mt_layer_dense_attention,
            .hidden_size = model->hidden_size,
            .num_heads = shape->num_heads,
            .num_kv_heads = shape->num_kv_heads,
            .head_dim = shape->head_dim,
            .attention_scale =
                (float)(shape->attention_scale / (shape->scale_by_layer ? (double)(i + 1) : 1)),
            .attention_softcap = (float)shape->attention_softcap,
            .qk_norm = shape->qk_norm ? family->qk_norm : MT_QK_NORM_NONE,
            .alibi = shape->alibi,
            .qkv_by_head = family->qkv_by_head,
            .qkv_parts = family->qkv_parts,
            .qkv_clip = (float)shape->qkv_clip,
            .value_norm = family->value_norm,
            .xielu = shape->xielu,
            .entry = i == 0 && has_entry(model),
            .attention_sub_norm = names[MT_ROLE_ATTENTION_SUB_NORM] != NULL,
            .mlp_sub_norm = names[MT_ROLE_MLP_SUB_NORM] != NULL,
            .norm_after_sum = family->norm_after_sum,
            .residual_normed = shape->residual_normed,
            .qk_norm_after_rope = family->qk_norm_after_rope,
            .intermediate_size = shape->intermediate_size,
            .gated = names[MT_ROLE_GATE] || names[MT_ROLE_GATE_UP],
            .activation = shape->activation,
            .attention_norm = names[MT_ROLE_ATTENTION_NORM] || family->plain_norms,
            .mlp_norm = (names[MT_ROLE_MLP_NORM] && !(shape->parallel && family->parallel_shares_norm)) ||
                        family->plain_norms,
            .post_attention_norm = names[MT_ROLE_POST_ATTENTION_NORM] != NULL,
            .post_mlp_norm = names[MT_ROLE_POST_MLP_NORM] != NULL,
            .parallel = shape->parallel,
            .residual_scale = (float)shape->residual_scale,
            .norm_centered = model->norm_centered,
            .norm_eps = family->layer_norm_eps > 0 ? (float)family->layer_norm_eps : model->norm_eps,
            .norm_weight_offset = model->norm_weight_offset,
        };
        int r = mt_layer_rules_apply(rules, i, layer, error);
        if (r)
            return r;
        const size_t kv_size = layer->num_kv_heads * layer->head_dim;
        model->kv_size = kv_size > model->kv_size ? kv_size : model->kv_size;
    }
    return 0;
}

/* The last layer below `end` with a window where `layer` has one; SIZE_MAX: none. */
static size_t last_of_kind(const struct mt_model *model, size_t end, const struct mt_layer *layer)
{
    for (size_t i = end; i-- > 0;)
        if (!model->layers[i].window == !layer->window)
            return i;
    return SIZE_MAX;
}

/* The last layers may read the keys and values of earlier ones. */
static int share_keys(struct mt_model *model, const json_t *config, struct mt_error *error)
{
    size_t shared = 0;
    bool wide = false;
    int r = mt_config_count(config, "num_kv_shared_layers", MAX_WIDTH, &shared, error);
    r = r ? r : mt_config_bool(config, "use_double_wide_mlp", &wide, error);
    if (r || !shared)
        return r;
    const size_t first = model->num_layers - (shared < model->num_layers ? shared : model->num_layers);
    for (size_t i = first; i < model->num_layers; i++) {
        struct mt_layer *layer = &model->layers[i];
        const size_t source = last_of_kind(model, first, layer);
        if (source == SIZE_MAX)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "config: `num_kv_shared_layers` leaves layer %zu without keys to read", i);
        struct mt_layer *maker = &model->layers[source];
        if (!maker->stores_kv) {
            maker->stores_kv = true;
            maker->kv_place = model->beside_size;
            model->beside_size += 2 * maker->num_kv_heads * maker->head_dim;
        }
        layer->shares_kv = true;
        layer->kv_source = source;
        layer->kv_place = maker->kv_place;
        layer->intermediate_size *= wide ? 2 : 1;
    }
    return 0;
}

/* What travels beside the stream. */
static int read_side(struct mt_model *model, const json_t *config, struct mt_error *error)
{
    size_t size = 256, vocab_size = 262144;
    if (!model->family->names[MT_ROLE_LAYER_EMBEDDING])
        return 0;
    int r = mt_config_count(config, "hidden_size_per_layer_input", MAX_WIDTH, &size, error);
    r = r ? r
          : mt_config_size(config, "vocab_size_per_layer_input", MAX_VOCABULARY, false, &vocab_size, error);
    if (!r && size && vocab_size != model->vocab_size)
        return mt_error_set(
            error, -ENOTSUP, MT_REASON_BAD_MODEL,
            "config: `vocab_size_per_layer_input` %zu beside vocab_size %zu is not supported for %s",
            vocab_size, model->vocab_size, model->family->model_type);
    model->layer_input_size = size;
    for (size_t i = 0; i < model->num_layers; i++) {
        model->layers[i].side_size = size;
        model->layers[i].side_place = i * size;
    }
    model->beside_size = model->num_layers * size;
    return r ? r : share_keys(model, config, error);
}

/* A copy in which what a family calls by names of its own has the usual ones too. */
static json_t *with_usual_keys(const struct mt_family *family, const json_t *config)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)config);
    for (const struct mt_family_renamed *renamed = family->renamed; copy && renamed && renamed->own;
         renamed++) {
        json_t *value = mt_config_at(config, renamed->own);
        if (value && !json_is_null(value))
            json_object_set(copy, renamed->usual, value);
    }
    const json_t *old = json_object_get(config, "rope_scaling"),
                 *rope = json_object_get(config, "rope_parameters");
    const bool told = (old && !json_is_null(old)) || (rope && !json_is_null(rope));
    if (copy && family->rope_default && !told)
        json_object_set_new(copy, "rope_parameters", json_loads(family->rope_default, 0, NULL));
    return copy;
}

/* A sentence about a usual key says what the file calls it. */
static void name_own_key(const struct mt_family *family, const json_t *config, struct mt_error *error)
{
    for (const struct mt_family_renamed *renamed = family->renamed; error && renamed && renamed->own;
         renamed++) {
        char usual[80];
        snprintf(usual, sizeof usual, "`%s`", renamed->usual);
        if (!mt_config_at(config, renamed->own) || !strstr(error->message, usual))
            continue;
        mt_error_set(error, error->code, error->reason, "%s (here it is called `%s`)", error->message,
                     renamed->own);
        return;
    }
}

static int build(struct mt_model *model, const json_t *config, bool strict, struct mt_error *error)
{
    const json_t *type = json_object_get(config, "model_type");
    if (!json_is_string(type))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: `model_type` is missing");
    model->family = mt_family_find(json_string_value(type), config);
    if (!model->family) {
        char known[2048];
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "config: model_type `%s` is not supported yet (known: %s)",
                            json_string_value(type), mt_family_list(known, sizeof known));
    }
    struct shape shape = {0};
    struct mt_layer_rules rules;
    int r = mt_config_check_keys(model->family, config, strict, model->notes, error);
    mt_autojson json_t *usual = r ? NULL : with_usual_keys(model->family, config);
    if (!r && !usual)
        r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                         "out of memory for the model's description");
    r = r ? r : read_shape(model, usual, &shape, error);
    r = r ? r : make_alibi(model, usual, &shape, error);
    r = r ? r : mt_layer_rules_read(model, usual, shape.head_dim, &rules, error);
    r = r ? r : build_layers(model, &shape, &rules, error);
    r = r ? r : read_side(model, usual, error);
    r = r ? r : mt_parameters_build(model, &shape.biases, error);
    if (r < 0)
        name_own_key(model->family, config, error);
    return r;
}

int mt_model_make(const json_t *config, bool strict, struct mt_model **model_out, struct mt_error *error)
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
    return mt_model_make(config, false, model, error);
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
