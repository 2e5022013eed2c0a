/* The parameter table: names, shapes and places in the slabs, group by group in the order of enum mt_role. */
#include "core/model/parameters.h"

#include "core/base/arena.h"
#include "core/base/random.h"
#include "core/base/size.h"
#include "core/model/family.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

const char *mt_parameter_name(struct mt_arena *arena, const char *pattern, char sign, size_t number)
{
    const char *mark = strchr(pattern, sign);
    if (!mark)
        return mt_arena_strdup(arena, pattern);
    return mt_arena_printf(arena, "%.*s%zu%s", (int)(mark - pattern), pattern, number, mark + 1);
}

static bool is_bias(enum mt_role role)
{
    switch (role) {
    case MT_ROLE_ATTENTION_NORM_BIAS:
    case MT_ROLE_Q_BIAS:
    case MT_ROLE_K_BIAS:
    case MT_ROLE_V_BIAS:
    case MT_ROLE_QKV_BIAS:
    case MT_ROLE_Q_NORM_BIAS:
    case MT_ROLE_K_NORM_BIAS:
    case MT_ROLE_O_BIAS:
    case MT_ROLE_MLP_NORM_BIAS:
    case MT_ROLE_GATE_BIAS:
    case MT_ROLE_UP_BIAS:
    case MT_ROLE_DOWN_BIAS:
    case MT_ROLE_FINAL_NORM_BIAS:
    case MT_ROLE_HEAD_BIAS:
    case MT_ROLE_EMBEDDING_NORM_BIAS:
    case MT_ROLE_POST_ATTENTION_NORM_BIAS:
    case MT_ROLE_POST_MLP_NORM_BIAS:
        return true;
    default:
        return false;
    }
}

static bool is_norm(enum mt_role role)
{
    switch (role) {
    case MT_ROLE_ATTENTION_NORM:
    case MT_ROLE_Q_NORM:
    case MT_ROLE_K_NORM:
    case MT_ROLE_POST_ATTENTION_NORM:
    case MT_ROLE_MLP_NORM:
    case MT_ROLE_POST_MLP_NORM:
    case MT_ROLE_FINAL_NORM:
    case MT_ROLE_LAYER_INPUTS_NORM:
    case MT_ROLE_SIDE_NORM:
    case MT_ROLE_EMBEDDING_NORM:
    case MT_ROLE_ATTENTION_SUB_NORM:
    case MT_ROLE_MLP_SUB_NORM:
        return true;
    default:
        return false;
    }
}

/* Saved with the weights and used, but never trained. */
static bool is_buffer(enum mt_role role)
{
    return role == MT_ROLE_XIELU_BETA || role == MT_ROLE_XIELU_EPS || role == MT_ROLE_LAYER_SCALAR;
}

/* One number without a dimension. */
static bool is_scalar(enum mt_role role)
{
    return role == MT_ROLE_XIELU_BETA || role == MT_ROLE_XIELU_EPS;
}

/* Whether a layer whose family has a name for the role has the parameter. */
static bool layer_has(const struct mt_model *model, const struct mt_layer *layer,
                      const struct mt_biases *biases, enum mt_role role)
{
    const bool weight = biases->norm_weight, bias = weight && biases->norm;
    switch (role) {
    case MT_ROLE_PROJECT_IN:
        return layer->entry && model->embedding_size != model->hidden_size;
    case MT_ROLE_POSITIONS:
        return layer->entry;
    case MT_ROLE_EMBEDDING_NORM:
        return layer->entry && weight;
    case MT_ROLE_EMBEDDING_NORM_BIAS:
        return layer->entry && bias;
    case MT_ROLE_ATTENTION_NORM:
        return layer->attention_norm && weight;
    case MT_ROLE_ATTENTION_NORM_BIAS:
        return layer->attention_norm && bias;
    case MT_ROLE_MLP_NORM:
        return layer->mlp_norm && weight;
    case MT_ROLE_MLP_NORM_BIAS:
        return layer->mlp_norm && bias;
    case MT_ROLE_POST_ATTENTION_NORM:
        return layer->post_attention_norm && weight;
    case MT_ROLE_POST_ATTENTION_NORM_BIAS:
        return layer->post_attention_norm && bias;
    case MT_ROLE_POST_MLP_NORM:
        return layer->post_mlp_norm && weight;
    case MT_ROLE_POST_MLP_NORM_BIAS:
        return layer->post_mlp_norm && bias;
    case MT_ROLE_K:
        return !layer->shares_kv;
    case MT_ROLE_K_BIAS:
        return biases->qkv && !layer->shares_kv;
    case MT_ROLE_LAYER_INPUTS:
    case MT_ROLE_LAYER_INPUTS_NORM:
        return layer->side_size && layer == model->layers;
    case MT_ROLE_SIDE_GATE:
    case MT_ROLE_SIDE_UP:
    case MT_ROLE_SIDE_NORM:
        return layer->side_size > 0;
    case MT_ROLE_Q_NORM:
        return layer->qk_norm != MT_QK_NORM_NONE;
    case MT_ROLE_K_NORM:
        return layer->qk_norm != MT_QK_NORM_NONE && !layer->shares_kv;
    case MT_ROLE_Q_NORM_BIAS:
    case MT_ROLE_K_NORM_BIAS:
        return layer->qk_norm != MT_QK_NORM_NONE && bias;
    case MT_ROLE_V:
        return !layer->value_is_key && !layer->shares_kv;
    case MT_ROLE_XIELU_ALPHA_P:
    case MT_ROLE_XIELU_ALPHA_N:
    case MT_ROLE_XIELU_BETA:
    case MT_ROLE_XIELU_EPS:
        return layer->xielu;
    case MT_ROLE_Q_BIAS:
    case MT_ROLE_QKV_BIAS:
        return biases->qkv;
    case MT_ROLE_V_BIAS:
        return biases->qkv && !layer->value_is_key && !layer->shares_kv;
    case MT_ROLE_O_BIAS:
        return biases->output &&
               (!model->family->output_bias_last || layer == &model->layers[model->num_layers - 1]);
    case MT_ROLE_GATE_BIAS:
    case MT_ROLE_UP_BIAS:
    case MT_ROLE_DOWN_BIAS:
        return biases->mlp;
    default:
        return true;
    }
}

static bool head_has(const struct mt_model *model, const struct mt_biases *biases, enum mt_role role)
{
    switch (role) {
    case MT_ROLE_FINAL_NORM:
        return model->final_norm && biases->norm_weight;
    case MT_ROLE_FINAL_NORM_BIAS:
        return model->final_norm && biases->norm_weight && biases->norm;
    case MT_ROLE_PROJECT_OUT:
        return model->embedding_size != model->hidden_size;
    case MT_ROLE_HEAD_BIAS:
        return biases->head;
    case MT_ROLE_HEAD:
        return !model->tied;
    default:
        return true;
    }
}

static bool in_layer(enum mt_role role)
{
    return role > MT_ROLE_LAYER_EMBEDDING && role < MT_ROLE_FINAL_NORM;
}

static bool is_input_first(const struct mt_family *family, enum mt_role role)
{
    return family->input_first &&
           (role == MT_ROLE_QKV || role == MT_ROLE_O || role == MT_ROLE_UP || role == MT_ROLE_DOWN);
}

/* Rows and columns; columns 0 for one dimension. */
static bool shape_of(const struct mt_model *model, const struct mt_layer *layer, enum mt_role role,
                     size_t shape[2])
{
    size_t q = 0, kv = 0, wide = 0;
    if (layer) {
        if (!mt_size_mul(layer->num_heads, layer->head_dim, &q) ||
            !mt_size_mul(layer->num_kv_heads, layer->head_dim, &kv))
            return false;
        wide = layer->intermediate_size;
    }
    const size_t hidden = model->hidden_size, narrow = model->embedding_size;
    const enum mt_qk_norm qk = layer ? layer->qk_norm : MT_QK_NORM_NONE;
    const size_t dim = layer ? layer->head_dim : 0;
    const size_t rows[2] = {qk == MT_QK_NORM_PER_HEAD ? layer->num_heads
                            : qk == MT_QK_NORM_WHOLE  ? q
                                                      : dim,
                            qk == MT_QK_NORM_PER_HEAD ? layer->num_kv_heads
                            : qk == MT_QK_NORM_WHOLE  ? kv
                                                      : dim};
    const size_t columns = qk == MT_QK_NORM_PER_HEAD ? dim : 0;
    const size_t shapes[MT_NUM_ROLES][2] = {
        [MT_ROLE_EMBEDDING] = {model->vocab_size, narrow},
        [MT_ROLE_LAYER_EMBEDDING] = {model->vocab_size, model->num_layers * model->layer_input_size},
        [MT_ROLE_LAYER_INPUTS] = {model->num_layers * model->layer_input_size, hidden},
        [MT_ROLE_LAYER_INPUTS_NORM] = {model->layer_input_size, 0},
        [MT_ROLE_SIDE_GATE] = {model->layer_input_size, hidden},
        [MT_ROLE_SIDE_UP] = {hidden, model->layer_input_size},
        [MT_ROLE_SIDE_NORM] = {hidden, 0},
        [MT_ROLE_PROJECT_IN] = {hidden, narrow},
        [MT_ROLE_POSITIONS] = {model->max_position_embeddings + model->position_offset, hidden},
        [MT_ROLE_EMBEDDING_NORM] = {hidden, 0},
        [MT_ROLE_EMBEDDING_NORM_BIAS] = {hidden, 0},
        [MT_ROLE_ATTENTION_SUB_NORM] = {q, 0},
        [MT_ROLE_MLP_SUB_NORM] = {wide, 0},
        [MT_ROLE_POST_ATTENTION_NORM_BIAS] = {hidden, 0},
        [MT_ROLE_POST_MLP_NORM_BIAS] = {hidden, 0},
        [MT_ROLE_XIELU_ALPHA_P] = {1, 0},
        [MT_ROLE_XIELU_ALPHA_N] = {1, 0},
        [MT_ROLE_XIELU_BETA] = {1, 0},
        [MT_ROLE_XIELU_EPS] = {1, 0},
        [MT_ROLE_LAYER_SCALAR] = {1, 0},
        [MT_ROLE_PROJECT_OUT] = {narrow, hidden},
        [MT_ROLE_ATTENTION_NORM] = {hidden, 0},
        [MT_ROLE_ATTENTION_NORM_BIAS] = {hidden, 0},
        [MT_ROLE_QKV] = {q + 2 * kv, hidden},
        [MT_ROLE_QKV_BIAS] = {q + 2 * kv, 0},
        [MT_ROLE_Q_NORM] = {rows[0], columns},
        [MT_ROLE_K_NORM] = {rows[1], columns},
        [MT_ROLE_Q_NORM_BIAS] = {rows[0], columns},
        [MT_ROLE_K_NORM_BIAS] = {rows[1], columns},
        [MT_ROLE_POST_ATTENTION_NORM] = {hidden, 0},
        [MT_ROLE_MLP_NORM_BIAS] = {hidden, 0},
        [MT_ROLE_GATE_UP] = {2 * wide, hidden},
        [MT_ROLE_POST_MLP_NORM] = {hidden, 0},
        [MT_ROLE_FINAL_NORM_BIAS] = {hidden, 0},
        [MT_ROLE_HEAD_BIAS] = {model->vocab_size, 0},
        [MT_ROLE_Q] = {q, hidden},
        [MT_ROLE_K] = {kv, hidden},
        [MT_ROLE_V] = {kv, hidden},
        [MT_ROLE_Q_BIAS] = {q, 0},
        [MT_ROLE_K_BIAS] = {kv, 0},
        [MT_ROLE_V_BIAS] = {kv, 0},
        [MT_ROLE_O] = {hidden, q},
        [MT_ROLE_O_BIAS] = {hidden, 0},
        [MT_ROLE_MLP_NORM] = {hidden, 0},
        [MT_ROLE_GATE] = {wide, hidden},
        [MT_ROLE_UP] = {wide, hidden},
        [MT_ROLE_GATE_BIAS] = {wide, 0},
        [MT_ROLE_UP_BIAS] = {wide, 0},
        [MT_ROLE_DOWN] = {hidden, wide},
        [MT_ROLE_DOWN_BIAS] = {hidden, 0},
        [MT_ROLE_FINAL_NORM] = {hidden, 0},
        [MT_ROLE_HEAD] = {model->vocab_size, narrow},
    };
    const bool turned = is_input_first(model->family, role);
    shape[0] = shapes[role][turned];
    shape[1] = shapes[role][!turned];
    return true;
}

/* How many tensors a role's weight is in the checkpoint: one, or one a head. */
static size_t parts_of(const struct mt_model *model, enum mt_role role, const size_t shape[2])
{
    return strchr(model->family->names[role], '@') ? shape[0] : 1;
}

static int add_part(struct mt_model *model, struct mt_group *group, const char *pattern, size_t part,
                    const struct mt_parameter *like, struct mt_error *error)
{
    struct mt_parameter *p = &model->parameters[model->num_parameters];
    *p = *like;
    p->continues = part > 0;
    size_t after;
    bool fits = mt_size_mul(p->shape[0], p->shape[1] ? p->shape[1] : 1, &p->count);
    if (!p->continues)
        fits = fits && mt_size_align(group->count, MT_MODEL_ALIGNMENT, &group->count);
    p->offset = group->count;
    fits = fits && mt_size_add(p->offset, p->count, &group->count) &&
           mt_size_align(group->count, MT_MODEL_ALIGNMENT, &after) &&
           mt_size_add(model->total_count, p->count, &model->total_count);
    /* Twenty bytes of each element must be countable. */
    if (!fits || model->total_count > SIZE_MAX / 32)
        return mt_error_set(error, -EOVERFLOW, MT_REASON_BAD_MODEL,
                            "config: the model is too large to be addressed");
    p->name = mt_parameter_name(model->arena, pattern, '@', part);
    if (!p->name)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "out of memory for the list of parameters");
    p->index = model->num_parameters++;
    model->buffer_count += p->buffer ? p->count : 0;
    group->num_parameters++;
    if (part == 0)
        group->by_role[p->role] = p;
    return 0;
}

static int add(struct mt_model *model, struct mt_group *group, size_t layer_number, enum mt_role role,
               struct mt_error *error)
{
    const struct mt_layer *layer = in_layer(role) ? &model->layers[layer_number] : NULL;
    size_t shape[2];
    if (!shape_of(model, layer, role, shape))
        return mt_error_set(error, -EOVERFLOW, MT_REASON_BAD_MODEL,
                            "config: the model is too large to be addressed");
    const size_t parts = parts_of(model, role, shape);
    struct mt_parameter like = {
        .rank = shape[1]          ? 2
                : is_scalar(role) ? 0
                                  : 1,
        .shape = {shape[0], shape[1]},
        .group = group->index,
        .role = role,
        .buffer = is_buffer(role),
        .frozen = is_buffer(role),
        .input_first = is_input_first(model->family, role),
    };
    if (parts > 1 || strchr(model->family->names[role], '@')) {
        like.rank = 1;
        like.shape[0] = shape[1];
        like.shape[1] = 0;
    }
    like.decay = like.rank > 1;
    const char *pattern = mt_parameter_name(model->arena, model->family->names[role], '#', layer_number);
    if (!pattern)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "out of memory for the list of parameters");
    for (size_t part = 0; part < parts; part++) {
        int r = add_part(model, group, pattern, part, &like, error);
        if (r)
            return r;
    }
    return 0;
}

/* Tensors at most: one a role, but for roles that are one a head. */
static size_t most_parameters(const struct mt_model *model)
{
    size_t most = 2 * MT_NUM_ROLES;
    for (size_t i = 0; i < model->num_layers; i++)
        for (enum mt_role role = 0; role < MT_NUM_ROLES; role++) {
            const char *name = model->family->names[role];
            most += name && strchr(name, '@') ? model->layers[i].num_heads : 1;
        }
    return most;
}

/* Places in the slabs of what is trained; again after freezing. */
static void place_trained(struct mt_model *model)
{
    model->trainable_count = 0;
    for (size_t g = 0; g < model->num_groups; g++) {
        struct mt_group *group = &model->groups[g];
        group->train_count = 0;
        for (size_t i = 0; i < group->num_parameters; i++) {
            struct mt_parameter *p = &model->parameters[group->first_parameter + i];
            const size_t mask = MT_MODEL_ALIGNMENT - 1;
            if (!p->continues)
                group->train_count = (group->train_count + mask) & ~mask;
            p->train_offset = p->frozen ? 0 : group->train_count;
            if (p->frozen)
                continue;
            group->train_count += p->count;
            model->trainable_count += p->count;
        }
        group->train_count =
            (group->train_count + MT_MODEL_ALIGNMENT - 1) & ~(size_t)(MT_MODEL_ALIGNMENT - 1);
    }
}

int mt_parameters_build(struct mt_model *model, const struct mt_biases *biases, struct mt_error *error)
{
    model->num_groups = model->num_layers + 2;
    model->groups = mt_arena_alloc(model->arena, model->num_groups, sizeof *model->groups);
    model->parameters = mt_arena_alloc(model->arena, most_parameters(model), sizeof *model->parameters);
    if (!model->groups || !model->parameters)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "out of memory for the list of parameters");

    for (size_t g = 0; g < model->num_groups; g++) {
        struct mt_group *group = &model->groups[g];
        const bool embedding = g == MT_GROUP_EMBEDDING, head = g == mt_model_head_group(model);
        group->index = g;
        group->first_parameter = model->num_parameters;
        for (enum mt_role role = 0; role < MT_NUM_ROLES; role++) {
            const bool has = model->family->names[role] &&
                             (embedding ? role == MT_ROLE_EMBEDDING ||
                                              (role == MT_ROLE_LAYER_EMBEDDING && model->layer_input_size)
                              : head           ? role >= MT_ROLE_FINAL_NORM && head_has(model, biases, role)
                              : in_layer(role) ? layer_has(model, &model->layers[g - 1], biases, role)
                                               : false);
            if (!has)
                continue;
            int r = add(model, group, embedding || head ? 0 : g - 1, role, error);
            if (r)
                return r;
        }
        if (!mt_size_align(group->count, MT_MODEL_ALIGNMENT, &group->count))
            return mt_error_set(error, -EOVERFLOW, MT_REASON_BAD_MODEL,
                                "config: the model is too large to be addressed");
        if (!embedding && !head)
            model->layers[g - 1].group = group;
    }
    place_trained(model);
    return 0;
}

int mt_model_freeze(struct mt_model *model, const char *const *globs, size_t num_globs,
                    struct mt_error *error)
{
    for (size_t g = 0; g < num_globs; g++) {
        size_t matches = 0;
        for (size_t i = 0; i < model->num_parameters; i++)
            if (fnmatch(globs[g], model->parameters[i].name, 0) == 0) {
                model->parameters[i].frozen = true;
                matches++;
            }
        if (!matches)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                                "training.freeze: `%s` matches no parameter (they are named like `%s`)",
                                globs[g], model->parameters[model->num_parameters > 1].name);
    }
    for (size_t i = 1; i < model->num_parameters; i++) {
        const struct mt_parameter *p = &model->parameters[i];
        if (p->continues && p->frozen != p[-1].frozen)
            return mt_error_set(
                error, -ENOTSUP, MT_REASON_BAD_JOB,
                "training.freeze: `%s` and `%s` are one norm of all heads; one cannot be frozen "
                "without the other",
                p[-1].name, p->name);
    }
    place_trained(model);
    if (model->trainable_count == 0)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "training.freeze: every parameter is frozen, nothing is left to train");
    return 0;
}

const struct mt_parameter *mt_model_find(const struct mt_model *model, const char *name)
{
    for (size_t i = 0; i < model->num_parameters; i++)
        if (strcmp(model->parameters[i].name, name) == 0)
            return &model->parameters[i];
    return NULL;
}

void mt_model_init_values(const struct mt_model *model, const struct mt_parameter *parameter, uint64_t seed,
                          size_t first, size_t count, float *values)
{
    static const double constants[MT_NUM_ROLES] = {
        /* log(expm1(0.8)), log(expm1(0.8 - beta)), and what stays as it is. */
        [MT_ROLE_XIELU_ALPHA_P] = 0.2033823208,
        [MT_ROLE_XIELU_ALPHA_N] = -1.0502256128,
        [MT_ROLE_XIELU_BETA] = 0.5,
        [MT_ROLE_XIELU_EPS] = -1e-6,
        [MT_ROLE_LAYER_SCALAR] = 1,
    };
    const double constant = constants[parameter->role];
    if (is_norm(parameter->role) || is_bias(parameter->role) || constant != 0) {
        const float value = constant != 0              ? (float)constant
                            : is_norm(parameter->role) ? 1.0f - model->norm_weight_offset
                                                       : 0.0f;
        for (size_t i = 0; i < count; i++)
            values[i] = value;
        return;
    }
    mt_random_normal_fill(mt_random_key(seed, parameter->name), first, 0.0f, (float)model->initializer_range,
                          values, count);
}
