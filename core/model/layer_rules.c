#include "core/model/layer_rules.h"

#include "core/model/config.h"

#include <string.h>

/* In mt_model.ropes. */
enum { ROPE_FULL, ROPE_SLIDING, ROPE_QUERIES = ROPE_SLIDING };

static int read_list(const json_t *config, const char *key, size_t count, const json_t **list,
                     struct mt_error *error)
{
    const json_t *item = json_object_get(config, key);
    *list = NULL;
    if (!item || json_is_null(item))
        return 0;
    if (!json_is_array(item) || json_array_size(item) != count)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: `%s` must be a list with an entry for each of the %zu layers", key,
                            count);
    *list = item;
    return 0;
}

/* Ropes of full and of sliding layers apart. In the older form `rope_scaling` is of full layers only, and
 * sliding ones have `rope_local_base_freq`, or the family's own theta. */
static int read_ropes(struct mt_model *model, struct mt_rope_source *source, size_t full_head_dim,
                      struct mt_error *error)
{
    const struct mt_family *family = model->family;
    const json_t *parameters = json_object_get(source->config, "rope_parameters");
    const bool apart = family->ropes == MT_ROPE_BY_LAYER_TYPE;
    const bool nested = apart && json_is_object(parameters);
    const json_t *scaling = json_object_get(source->config, "rope_scaling");
    if (apart && json_is_object(scaling) && !json_object_get(scaling, "rope_type") &&
        json_object_get(scaling, "type"))
        return mt_error_set(
            error, -ENOTSUP, MT_REASON_BAD_MODEL,
            "config: `rope_scaling` of %s is understood with `rope_type` only, not with `type`",
            family->model_type);
    source->layer_type = nested ? "full_attention" : NULL;
    model->num_ropes = 1;
    const size_t head_dim = source->head_dim;
    source->head_dim = full_head_dim ? full_head_dim : head_dim;
    int r = mt_rope_read(source, &model->ropes[ROPE_FULL], error);
    source->head_dim = head_dim;
    if (r)
        return r;
    if (apart) {
        source->layer_type = nested ? "sliding_attention" : NULL;
        source->theta = family->local_rope_theta;
        source->unscaled = !nested;
        r = mt_config_number(source->config, "rope_local_base_freq", &source->theta, error);
        r = r ? r : mt_rope_read(source, &model->ropes[ROPE_SLIDING], error);
        model->num_ropes = 2;
    }
    if (!r && model->ropes[ROPE_FULL].query_beta > 0) {
        if (!family->scales_queries || model->ropes[ROPE_FULL].rotary_dim != source->head_dim)
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "config: rope setting `llama_4_scaling_beta` is not supported for %s",
                                family->model_type);
        model->ropes[ROPE_QUERIES] = model->ropes[ROPE_FULL];
        model->ropes[ROPE_FULL].query_beta = 0;
        model->num_ropes = 2;
    }
    return r;
}

static int read_window(const json_t *config, struct mt_layer_rules *rules, struct mt_error *error)
{
    const struct mt_family *family = rules->family;
    const json_t *given = json_object_get(config, "sliding_window");
    bool used = family->windows != MT_WINDOW_FROM && family->windows != MT_WINDOW_NO_ROPE;
    rules->window = json_is_null(given) ? 0 : family->window;
    rules->window_pattern = family->window_pattern ? family->window_pattern : 1;
    rules->window_from = 28;
    int r = mt_config_size(config, "sliding_window", SIZE_MAX / 2, false, &rules->window, error);
    r = r ? r : mt_config_bool(config, "use_sliding_window", &used, error);
    r = r ? r : mt_config_count(config, "max_window_layers", SIZE_MAX / 2, &rules->window_from, error);
    if (!rules->types && family->windows == MT_WINDOW_PATTERN) {
        r = r ? r
              : mt_config_size(config, "_sliding_window_pattern", SIZE_MAX / 2, false, &rules->window_pattern,
                               error);
        r = r ? r
              : mt_config_size(config, "sliding_window_pattern", SIZE_MAX / 2, false, &rules->window_pattern,
                               error);
    }
    if (!used || family->windows == MT_WINDOW_NONE)
        rules->window = 0;
    if (!r && rules->window && family->windows == MT_WINDOW_LAYER_TYPES && !rules->types)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "config: `sliding_window` without `layer_types` is not supported for %s",
                            family->model_type);
    return r;
}

/* One layer's object of `per_layer_config`. */
static int read_layer_config(const json_t *object, struct mt_layer_rules *rules, struct mt_error *error)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: what `per_layer_config` says of a layer must be an object");
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t *known = strcmp(key, "head_dim") == 0              ? &rules->full_head_dim
                        : strcmp(key, "num_key_value_heads") == 0 ? &rules->full_kv_heads
                                                                  : NULL;
        if (!known)
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "config: `per_layer_config` with `%s` is not supported for %s", key,
                                rules->family->model_type);
        int r = mt_config_size(object, key, (size_t)1 << 24, true, known, error);
        if (r)
            return r;
    }
    return 0;
}

/* Heads of full layers among sliding ones, where the family has other ones there. */
static int read_full_heads(const json_t *config, struct mt_layer_rules *rules, struct mt_error *error)
{
    const struct mt_family *family = rules->family;
    const json_t *layers = json_object_get(config, "per_layer_config");
    if (!family->global_head_dim)
        return 0;
    int r = mt_config_bool(config, "attention_k_eq_v", &rules->full_value_is_key, error);
    if (layers && !json_is_null(layers) && !json_is_object(layers))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: `per_layer_config` must be an object");
    if (!json_is_object(layers)) {
        rules->full_head_dim = family->global_head_dim;
        r = r ? r
              : mt_config_size(config, "global_head_dim", (size_t)1 << 24, false, &rules->full_head_dim,
                               error);
        if (rules->full_value_is_key)
            r = r ? r
                  : mt_config_size(config, "num_global_key_value_heads", (size_t)1 << 24, false,
                                   &rules->full_kv_heads, error);
        return r;
    }
    const json_t *first = NULL;
    const char *key;
    json_t *object;
    json_object_foreach((json_t *)(uintptr_t)layers, key, object)
    {
        if (first && !json_equal(first, object))
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "config: `per_layer_config` must say the same of all full layers of %s",
                                family->model_type);
        first = object;
    }
    return r || !first ? r : read_layer_config(first, rules, error);
}

/* 1 or true where a layer has rope. */
static int check_rope_list(const struct mt_layer_rules *rules, struct mt_error *error)
{
    size_t i;
    const json_t *item;
    json_array_foreach(rules->no_rope, i, item)
    {
        if (!json_is_integer(item) && !json_is_boolean(item))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "config: entry %zu of `no_rope_layers` must be 0 or 1", i);
    }
    return 0;
}

int mt_layer_rules_read(struct mt_model *model, const json_t *config, size_t head_dim,
                        struct mt_layer_rules *rules, struct mt_error *error)
{
    const struct mt_family *family = model->family;
    struct mt_rope_source source = {
        .config = config,
        .theta = family->rope_theta,
        .partial_rotary_factor = family->partial_rotary_factor > 0 ? family->partial_rotary_factor : 1,
        .rotary_dim = mt_family_has_key(family, "rotary_dim") ? 64 : 0,
        .head_dim = head_dim,
        .interleaved = family->interleaved,
        .reversed = family->reversed,
        .proportional = family->proportional_ropes,
        .longrope_only = family->lacks & MT_LACKS_OTHER_SCALINGS,
        .model_type = family->model_type,
        .arena = model->arena,
    };
    *rules =
        (struct mt_layer_rules){.family = family, .no_rope_interval = 4, .num_layers = model->num_layers};
    int r = read_full_heads(config, rules, error);
    if (family->windows != MT_WINDOW_ALL)
        r = r ? r : read_list(config, "layer_types", model->num_layers, &rules->types, error);
    if (family->ropes == MT_ROPE_LISTED) {
        r = r ? r : read_list(config, "no_rope_layers", model->num_layers, &rules->no_rope, error);
        r = r ? r : check_rope_list(rules, error);
        r = r ? r
              : mt_config_size(config, "no_rope_layer_interval", SIZE_MAX / 2, false,
                               &rules->no_rope_interval, error);
    }
    r = r ? r : read_window(config, rules, error);
    rules->rotary = family->ropes != MT_ROPE_NOWHERE && !model->alibi;
    if (rules->rotary && head_dim % 2)
        return r ? r
                 : mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "config: the head size %zu must be even for rotary positions", head_dim);
    if (rules->rotary)
        r = r ? r : read_ropes(model, &source, rules->full_head_dim, error);
    rules->scaled_queries = rules->rotary && model->ropes[ROPE_QUERIES].query_beta > 0;
    return r;
}

static bool has_rope_listed(const struct mt_layer_rules *rules, size_t index)
{
    if (!rules->no_rope)
        return (index + 1) % rules->no_rope_interval != 0;
    const json_t *item = json_array_get(rules->no_rope, index);
    return json_is_integer(item) ? json_integer_value(item) != 0 : json_is_true(item);
}

static int slides(const struct mt_layer_rules *rules, size_t index, bool *sliding, struct mt_error *error)
{
    if (rules->types) {
        const char *type = json_string_value(json_array_get(rules->types, index));
        *sliding = type && (strcmp(type, "sliding_attention") == 0 || strcmp(type, "local") == 0);
        if (!*sliding && (!type || (strcmp(type, "full_attention") != 0 && strcmp(type, "global") != 0)))
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "config: layer type `%s` is not supported for %s", type ? type : "",
                                rules->family->model_type);
        return 0;
    }
    switch (rules->family->windows) {
    case MT_WINDOW_NONE:
    case MT_WINDOW_LAYER_TYPES:
        *sliding = false;
        break;
    case MT_WINDOW_ALL:
        *sliding = true;
        break;
    case MT_WINDOW_FROM:
        *sliding = index >= rules->window_from;
        break;
    case MT_WINDOW_EVEN:
        *sliding = index % 2 == 0;
        break;
    case MT_WINDOW_PATTERN:
        *sliding = (index + 1) % rules->window_pattern != 0;
        break;
    case MT_WINDOW_NO_ROPE:
        *sliding = !has_rope_listed(rules, index);
        break;
    }
    return 0;
}

int mt_layer_rules_apply(const struct mt_layer_rules *rules, size_t index, struct mt_layer *layer,
                         struct mt_error *error)
{
    bool sliding = false, turns = true;
    int r = slides(rules, index, &sliding, error);
    if (rules->full_head_dim && index + 1 == rules->num_layers)
        sliding = false; /* as transformers has it, whatever the list says */
    layer->window = sliding ? rules->window : 0;
    if (!sliding && rules->full_head_dim) {
        layer->head_dim = rules->full_head_dim;
        layer->num_kv_heads = rules->full_kv_heads ? rules->full_kv_heads : layer->num_kv_heads;
        layer->value_is_key = rules->full_value_is_key;
        if (!r && layer->num_heads % layer->num_kv_heads)
            r = mt_error_set(
                error, -EINVAL, MT_REASON_BAD_MODEL,
                "config: num_attention_heads %zu is not divisible by the %zu key-value heads of full "
                "layers",
                layer->num_heads, layer->num_kv_heads);
    }
    layer->rope = ROPE_FULL;
    switch (rules->family->ropes) {
    case MT_ROPE_EVERYWHERE:
    case MT_ROPE_NOWHERE:
        break;
    case MT_ROPE_LISTED:
        turns = has_rope_listed(rules, index);
        break;
    case MT_ROPE_WINDOWED:
        turns = sliding;
        break;
    case MT_ROPE_WINDOWED_IF_ANY:
        turns = sliding || !rules->window;
        break;
    case MT_ROPE_BY_LAYER_TYPE:
        layer->rope = sliding ? ROPE_SLIDING : ROPE_FULL;
        break;
    }
    layer->rope = turns && rules->rotary ? layer->rope : MT_ROPE_NONE;
    layer->query_rope = layer->rope == ROPE_FULL && rules->scaled_queries ? ROPE_QUERIES : layer->rope;
    return r;
}
