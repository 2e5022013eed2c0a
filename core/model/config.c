#include "core/model/config.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

static const json_t *present(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    return value && !json_is_null(value) ? value : NULL;
}

static int bad(struct mt_error *error, const char *key, const char *what)
{
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: `%s` must be %s", key, what);
}

int mt_config_size(const json_t *config, const char *key, size_t most, bool required, size_t *value,
                   struct mt_error *error)
{
    const json_t *item = present(config, key);
    if (!item) {
        if (required)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: `%s` is missing", key);
        return 0;
    }
    if (!json_is_integer(item))
        return bad(error, key, "a whole number");
    if (json_integer_value(item) < 1 || (uint64_t)json_integer_value(item) > most)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: `%s` is %" JSON_INTEGER_FORMAT ", it must lie from 1 to %zu", key,
                            json_integer_value(item), most);
    *value = (size_t)json_integer_value(item);
    return 0;
}

int mt_config_count(const json_t *config, const char *key, size_t most, size_t *value, struct mt_error *error)
{
    const json_t *item = present(config, key);
    if (!json_is_integer(item) || json_integer_value(item) != 0)
        return mt_config_size(config, key, most, false, value, error);
    *value = 0;
    return 0;
}

int mt_config_bool(const json_t *config, const char *key, bool *value, struct mt_error *error)
{
    const json_t *item = present(config, key);
    if (!item)
        return 0;
    if (!json_is_boolean(item))
        return bad(error, key, "true or false");
    *value = json_is_true(item);
    return 0;
}

int mt_config_number(const json_t *config, const char *key, double *value, struct mt_error *error)
{
    const json_t *item = present(config, key);
    if (!item)
        return 0;
    if (!json_is_number(item) || !(json_number_value(item) >= 0) || json_number_value(item) > FLT_MAX)
        return bad(error, key, "a number of 0 or more that fp32 can hold");
    *value = json_number_value(item);
    return 0;
}

json_t *mt_config_at(const json_t *config, const char *path)
{
    const char *dot = strchr(path, '.');
    if (!dot)
        return json_object_get(config, path);
    char outer[64];
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - path), path);
    return json_object_get(json_object_get(config, outer), dot + 1);
}

int mt_config_activation(const json_t *config, const char *key, const char *otherwise, bool *xielu,
                         enum mt_activation *value, struct mt_error *error)
{
    static const struct {
        const char *name;
        enum mt_activation activation;
    } names[] = {
        {"silu", MT_ACTIVATION_SILU},
        {"swish", MT_ACTIVATION_SILU},
        {"gelu", MT_ACTIVATION_GELU},
        {"gelu_new", MT_ACTIVATION_GELU_TANH},
        {"gelu_pytorch_tanh", MT_ACTIVATION_GELU_TANH},
        {"gelu_fast", MT_ACTIVATION_GELU_TANH},
        {"relu", MT_ACTIVATION_RELU},
        {"relu2", MT_ACTIVATION_RELU2},
    };
    const json_t *item = present(config, key);
    const char *name = item ? json_string_value(item) : otherwise;
    if (!name)
        return bad(error, key, "the name of an activation");
    if (xielu && strcmp(name, "xielu") == 0) {
        *xielu = true;
        return 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            *value = names[i].activation;
            return 0;
        }
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL, "config: `%s` `%s` is not supported yet", key,
                        name);
}

int mt_config_dtype(const json_t *config, enum mt_dtype *dtype, struct mt_error *error)
{
    const char *key = present(config, "dtype") ? "dtype" : "torch_dtype";
    const json_t *item = present(config, key);
    *dtype = MT_F32;
    if (!item)
        return 0;
    const char *name = json_string_value(item);
    if (!name)
        return bad(error, key, "the name of a type");
    if (strncmp(name, "torch.", 6) == 0)
        name += 6;
    if (strcmp(name, "float32") == 0)
        *dtype = MT_F32;
    else if (strcmp(name, "bfloat16") == 0)
        *dtype = MT_BF16;
    else if (strcmp(name, "float16") == 0)
        *dtype = MT_F16;
    else
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "config: `%s` `%s` is not supported (float32, bfloat16 or float16)", key, name);
    return 0;
}

/* Book-keeping, generation settings and what other tools leave behind: without effect on the mathematics. */
static const char *const harmless[] = {
    "architectures",
    "model_type",
    "dtype",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "unk_token_id",
    "sep_token_id",
    "cls_token_id",
    "decoder_start_token_id",
    "tie_word_embeddings",
    "initializer_range",
    "output_attentions",
    "output_hidden_states",
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "task_specific_params",
    "tokenizer_class",
    "auto_map",
    "attn_implementation",
    "is_llama_config",
    "chunk_size_feed_forward",
    "return_dict",
    "max_length",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "rope_parameters",
    "rope_theta",
    "rope_scaling",
    "max_position_embeddings",
    "attention_dropout",
};

/* A key that nobody here knows and whose name speaks of the computation may change it. */
static const char *const telling[] = {
    "attn",   "attention", "rope",  "rotary",   "norm",   "scal",  "multiplier", "softcap",
    "window", "expert",    "moe",   "bias",     "act",    "mlp",   "logit",      "residual",
    "embed",  "head",      "layer", "parallel", "quant",  "alibi", "position",   "router",
    "gate",   "clip",      "conv",  "lora",     "hidden", "cap",
};

static bool listed(const char *const *list, size_t count, const char *key)
{
    for (size_t i = 0; i < count && list[i]; i++)
        if (strcmp(list[i], key) == 0)
            return true;
    return false;
}

bool mt_family_has_key(const struct mt_family *family, const char *key)
{
    return family->keys && listed(family->keys, SIZE_MAX, key);
}

/* Whether keys of the object `key` are known one by one, as "key.inner". */
static bool is_nested(const struct mt_family *family, const char *key)
{
    const size_t length = strlen(key);
    for (const char *const *own = family->keys; own && *own; own++)
        if (strncmp(*own, key, length) == 0 && (*own)[length] == '.')
            return true;
    return false;
}

static int check_key(const struct mt_family *family, const char *key, const json_t *value, bool strict,
                     json_t *notes, struct mt_error *error);

static int check_nested(const struct mt_family *family, const char *outer, const json_t *object, bool strict,
                        json_t *notes, struct mt_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        char path[256];
        snprintf(path, sizeof path, "%s.%s", outer, key);
        const bool known = listed(harmless, sizeof harmless / sizeof *harmless, key) || key[0] == '_';
        int r = json_is_null(value) || known ? 0 : check_key(family, path, value, strict, notes, error);
        if (r)
            return r;
    }
    return 0;
}

static int check_key(const struct mt_family *family, const char *key, const json_t *value, bool strict,
                     json_t *notes, struct mt_error *error)
{
    if (is_nested(family, key) && !json_is_object(value))
        return bad(error, key, "an object");
    if (is_nested(family, key))
        return check_nested(family, key, value, strict, notes, error);
    for (const struct mt_family_fixed *fixed = family->fixed; fixed && fixed->key; fixed++) {
        if (strcmp(fixed->key, key) != 0)
            continue;
        json_t *wanted = json_loads(fixed->value, JSON_DECODE_ANY, NULL);
        const bool same = json_equal(wanted, value);
        json_decref(wanted);
        if (!same)
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "config: `%s` is supported for %s as %s only", key, family->model_type,
                                fixed->value);
        return 0;
    }
    if (listed(harmless, sizeof harmless / sizeof *harmless, key) || mt_family_has_key(family, key) ||
        (family->eps_key && strcmp(family->eps_key, key) == 0) ||
        (family->activation_key && strcmp(family->activation_key, key) == 0))
        return 0;
    for (const struct mt_family_renamed *renamed = family->renamed; renamed && renamed->own; renamed++)
        if (strcmp(renamed->own, key) == 0)
            return 0;
    const bool nothing = json_is_false(value) || (json_is_object(value) && json_object_size(value) == 0);
    if (!strict && (key[0] == '_' || nothing)) /* old files have "pruned_heads": {} */
        return 0;
    if (strstr(key, "dropout") || strstr(key, "pdrop")) {
        if (json_is_number(value) && json_number_value(value) != 0)
            json_array_append_new(notes, json_sprintf("config: dropout is not applied (`%s` is %g)", key,
                                                      json_number_value(value)));
        return 0;
    }
    if (strict)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: `%s` is not a key of %s", key,
                            family->model_type);
    const bool unread = family->unread && listed(family->unread, SIZE_MAX, key);
    for (size_t i = 0; !unread && i < sizeof telling / sizeof *telling; i++)
        if (strstr(key, telling[i]))
            return mt_error_set(
                error, -ENOTSUP, MT_REASON_BAD_MODEL,
                "config: `%s` is not known for %s and may change the mathematics; it is refused "
                "rather than guessed",
                key, family->model_type);
    json_array_append_new(notes, json_sprintf("config: `%s` is not %s and has no effect", key,
                                              unread ? "read by anything" : "known"));
    return 0;
}

/* Keys that tell entries of one name apart: of another type than the entries have, one of them would be taken
 * silently. */
static int check_telling_apart(const struct mt_family *family, const json_t *config, struct mt_error *error)
{
    size_t count;
    const struct mt_family *const *all = mt_family_table(&count);
    for (size_t i = 0; i < count; i++)
        for (const struct mt_family_fixed *when = all[i]->when; when && when->key; when++) {
            const json_t *value = present(config, when->key);
            const bool is_switch = strcmp(when->value, "true") == 0 || strcmp(when->value, "false") == 0;
            if (value && is_switch && !json_is_boolean(value) &&
                strcmp(all[i]->model_type, family->model_type) == 0)
                return bad(error, when->key, "true or false");
        }
    return 0;
}

int mt_config_check_keys(const struct mt_family *family, const json_t *config, bool strict, json_t *notes,
                         struct mt_error *error)
{
    const char *key;
    json_t *value;
    int r = check_telling_apart(family, config, error);
    if (r)
        return r;
    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        if (json_is_null(value))
            continue;
        r = check_key(family, key, value, strict, notes, error);
        if (r)
            return r;
    }
    /* Without effect, but no word stands there. */
    static const char *const counts[] = {"num_experts", "top_k_experts", "moe_intermediate_size",
                                         "pretraining_tp"};
    double dropout = 0;
    size_t count;
    r = mt_config_number(config, "attention_dropout", &dropout, error);
    for (size_t i = 0; r == 0 && i < sizeof counts / sizeof *counts; i++)
        r = mt_config_count(config, counts[i], SIZE_MAX / 2, &count, error);
    if (!r && dropout != 0)
        json_array_append_new(
            notes, json_sprintf("config: dropout is not applied (`attention_dropout` is %g)", dropout));
    return r;
}
