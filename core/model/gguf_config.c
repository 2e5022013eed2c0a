/* From GGUF's metadata to config.json. What is there decides: biases are those whose tensors the file has, a
 * head of its own likewise. */
#include "core/model/gguf_config.h"

#include "core/base/cleanup.h"
#include "core/model/gguf_architecture.h"
#include "core/model/gguf_rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_KEY_BYTES 256

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the model's description");
}

/* --- values -------------------------------------------------------------------------------------------- */

const struct mt_gguf_value *mt_gguf_config_value(const struct mt_gguf_config *reading, const char *suffix)
{
    char key[MAX_KEY_BYTES];
    snprintf(key, sizeof key, "%s.%s", reading->architecture->name, suffix);
    return mt_gguf_find(reading->file, key);
}

/* The shortest decimal number that rounds to `value` as a float. */
static double shortest(double value)
{
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        const double decimal = strtod(text, NULL);
        if ((float)decimal == (float)value)
            return decimal;
    }
    return value;
}

json_t *mt_gguf_config_number(const struct mt_gguf_config *reading, const char *suffix)
{
    const struct mt_gguf_value *value = mt_gguf_config_value(reading, suffix);
    double number;
    int64_t integer;
    if (!value || value->is_array)
        return NULL;
    if (value->kind == MT_GGUF_BOOL && mt_gguf_integer(value, 0, &integer))
        return json_boolean(integer != 0);
    if (value->kind == MT_GGUF_F32 || value->kind == MT_GGUF_F64)
        return mt_gguf_number(value, 0, &number) && isfinite(number)
                   ? json_real(value->kind == MT_GGUF_F32 ? shortest(number) : number)
                   : NULL;
    return mt_gguf_integer(value, 0, &integer) ? json_integer(integer) : NULL;
}

int64_t mt_gguf_config_integer(const struct mt_gguf_config *reading, const char *suffix, int64_t otherwise)
{
    const struct mt_gguf_value *value = mt_gguf_config_value(reading, suffix);
    int64_t integer;
    return value && !value->is_array && mt_gguf_integer(value, 0, &integer) ? integer : otherwise;
}

/* --- metadata that is understood ----------------------------------------------------------------------- */

static const char *const common[] = {
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.layer_norm_epsilon",
    "tensor_data_layout",
    "pooling_type",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
};

/* Whatever they say, nothing is computed otherwise when they say this. */
static bool is_neutral(const char *suffix, const struct mt_gguf_value *value)
{
    int64_t number;
    static const struct {
        const char *suffix;
        int64_t neutral;
    } neutrals[] = {
        {"expert_count", 0}, {"expert_used_count", 0}, {"attention.causal", 1}, {"use_parallel_residual", 0}};
    for (size_t i = 0; i < sizeof neutrals / sizeof *neutrals; i++)
        if (strcmp(suffix, neutrals[i].suffix) == 0 && !value->is_array && mt_gguf_integer(value, 0, &number))
            return number == neutrals[i].neutral;
    return false;
}

static bool is_understood(const struct mt_gguf_architecture *architecture, const char *suffix)
{
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (strcmp(suffix, common[i]) == 0)
            return true;
    for (const struct mt_gguf_copied *copied = architecture->copied; copied && copied->suffix; copied++)
        if (strcmp(suffix, copied->suffix) == 0)
            return true;
    for (const char *const *understood = architecture->understood; understood && *understood; understood++)
        if (strcmp(suffix, *understood) == 0)
            return true;
    return false;
}

/* Of keys that are understood, what is no number that may have a fraction. Where `any`, the reader checks it.
 */
static const struct {
    const char *suffix;
    bool any;
    enum mt_gguf_expected expected;
} kinds[] = {
    {"embedding_length", .any = true},
    {"block_count", .any = true},
    {"context_length", .any = true},
    {"feed_forward_length", .any = true},
    {"attention.head_count", .any = true},
    {"attention.head_count_kv", .any = true},
    {"attention.sliding_window_pattern", .any = true},
    {"vocab_size", .expected = MT_GGUF_A_WHOLE_NUMBER},
    {"attention.key_length", .expected = MT_GGUF_A_WHOLE_NUMBER},
    {"attention.value_length", .expected = MT_GGUF_A_WHOLE_NUMBER},
    {"attention.sliding_window", .expected = MT_GGUF_A_WHOLE_NUMBER},
    {"rope.dimension_count", .expected = MT_GGUF_A_WHOLE_NUMBER},
    {"rope.scaling.original_context_length", .expected = MT_GGUF_A_WHOLE_NUMBER},
    {"rope.scaling.type", .expected = MT_GGUF_A_TEXT},
    {"tensor_data_layout", .expected = MT_GGUF_A_TEXT},
    {"rope.scaling.finetuned", .expected = MT_GGUF_A_SWITCH},
    {"use_parallel_residual", .expected = MT_GGUF_A_SWITCH},
};

static int check_kind(const struct mt_gguf_config *reading, const char *key, const char *suffix,
                      struct mt_error *error)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(suffix, kinds[i].suffix) == 0)
            return kinds[i].any ? 0 : mt_gguf_expect(reading->file, key, kinds[i].expected, error);
    return mt_gguf_expect(reading->file, key, MT_GGUF_A_NUMBER, error);
}

static int check_keys(const struct mt_gguf_config *reading, struct mt_error *error)
{
    const size_t prefix = strlen(reading->architecture->name);
    for (size_t i = 0; i < mt_gguf_num_values(reading->file); i++) {
        const struct mt_gguf_value *value = mt_gguf_value_at(reading->file, i);
        if (strncmp(value->key, reading->architecture->name, prefix) != 0 || value->key[prefix] != '.')
            continue;
        const char *suffix = value->key + prefix + 1;
        if (is_neutral(suffix, value))
            continue;
        if (!is_understood(reading->architecture, suffix))
            return mt_error_set(
                error, -ENOTSUP, MT_REASON_BAD_MODEL,
                "%s: \"%s\" is not known for %s and may change the mathematics; it is refused "
                "rather than guessed",
                mt_gguf_path(reading->file), value->key, reading->architecture->name);
        int r = check_kind(reading, value->key, suffix, error);
        if (r < 0)
            return r;
    }
    return 0;
}

/* --- sizes --------------------------------------------------------------------------------------------- */

/* A whole number, or an array of one repeated: other families than these have layers that differ. */
static int read_size(const struct mt_gguf_config *reading, const char *suffix, int64_t *size,
                     struct mt_error *error)
{
    const struct mt_gguf_value *value = mt_gguf_config_value(reading, suffix);
    if (!value || value->count == 0 || value->kind == MT_GGUF_BOOL || !mt_gguf_integer(value, 0, size) ||
        *size < 1 || *size > INT32_MAX)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s: %s.%s is missing, or no size",
                            mt_gguf_path(reading->file), reading->architecture->name, suffix);
    for (size_t i = 1; i < value->count; i++) {
        int64_t other;
        if (!mt_gguf_integer(value, i, &other) || other != *size)
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "%s: %s.%s is not the same for all layers, which is not supported",
                                mt_gguf_path(reading->file), reading->architecture->name, suffix);
    }
    return 0;
}

static int read_sizes(struct mt_gguf_config *reading, struct mt_error *error)
{
    static const struct {
        const char *suffix, *key;
    } sizes[] = {
        {"embedding_length", "hidden_size"},
        {"block_count", "num_hidden_layers"},
        {"attention.head_count", "num_attention_heads"},
        {"feed_forward_length", "intermediate_size"},
        {"attention.head_count_kv", "num_key_value_heads"},
        {"context_length", "max_position_embeddings"},
    };
    int64_t values[sizeof sizes / sizeof *sizes];
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(sizes[i].suffix, "attention.head_count_kv") == 0 &&
            !mt_gguf_config_value(reading, sizes[i].suffix))
            values[i] = values[2]; /* as many as heads */
        else
            r = read_size(reading, sizes[i].suffix, &values[i], error);
        if (r == 0 && json_object_set_new(reading->config, sizes[i].key, json_integer(values[i])) < 0)
            r = out_of_memory(error);
    }
    if (r < 0)
        return r;
    reading->hidden_size = (size_t)values[0];
    reading->num_layers = (size_t)values[1];
    reading->num_heads = (size_t)values[2];

    const int64_t key_length = mt_gguf_config_integer(reading, "attention.key_length", 0);
    if (key_length != mt_gguf_config_integer(reading, "attention.value_length", key_length))
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "%s: keys and values of different widths are not supported for %s",
                            mt_gguf_path(reading->file), reading->architecture->name);
    if (key_length < 0 || key_length > INT32_MAX ||
        (!key_length && reading->hidden_size % reading->num_heads))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s: the width of a head is not known",
                            mt_gguf_path(reading->file));
    reading->head_dim = key_length ? (size_t)key_length : reading->hidden_size / reading->num_heads;
    if ((key_length || reading->family->head_dim) &&
        json_object_set_new(reading->config, "head_dim", json_integer((json_int_t)reading->head_dim)) < 0)
        return out_of_memory(error);
    const struct mt_gguf_tensor *table = mt_gguf_find_tensor(reading->file, "token_embd.weight");
    if (!table || table->rank != 2)
        return mt_error_set(
            error, -EINVAL, MT_REASON_BAD_MODEL,
            "%s has no tensor token_embd.weight: it holds no whole model (a vocabulary alone, "
            "or a part of one)",
            mt_gguf_path(reading->file));
    if (json_object_set_new(reading->config, "vocab_size", json_integer((json_int_t)table->shape[0])) < 0)
        return out_of_memory(error);
    return 0;
}

/* --- what tensors tell --------------------------------------------------------------------------------- */

static bool has(const struct mt_gguf_config *reading, const char *name)
{
    return mt_gguf_find_tensor(reading->file, name) != NULL;
}

static int set_bias(struct mt_gguf_config *reading, const struct mt_family_switch *family, const char *tensor,
                    struct mt_error *error)
{
    if (!family->key)
        return 0;
    const bool there = has(reading, tensor);
    const json_t *before = json_object_get(reading->config, family->key);
    if (before && json_is_true(before) != there)
        return mt_error_set(
            error, -ENOTSUP, MT_REASON_BAD_MODEL,
            "%s has some of the biases that `%s` of %s stands for, and not %s: that can't be said "
            "in a config.json",
            mt_gguf_path(reading->file), family->key, reading->family->model_type, there ? "others" : tensor);
    return json_object_set_new(reading->config, family->key, json_boolean(there)) < 0 ? out_of_memory(error)
                                                                                      : 0;
}

static int set_biases(struct mt_gguf_config *reading, struct mt_error *error)
{
    const struct mt_family *family = reading->family;
    const char *qkv = has(reading, "blk.0.attn_qkv.weight") ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias";
    int r = set_bias(reading, &family->qkv_bias, qkv, error);
    r = r ? r : set_bias(reading, &family->output_bias, "blk.0.attn_output.bias", error);
    r = r ? r : set_bias(reading, &family->mlp_bias, "blk.0.ffn_down.bias", error);
    return r;
}

/* The type that all matrices have, where checkpoints can be written in it; else float32, which loses nothing.
 */
static const char *find_dtype(const struct mt_gguf *file)
{
    bool half = false, brain = false;
    for (size_t i = 0; i < mt_gguf_num_tensors(file); i++) {
        const struct mt_gguf_tensor *tensor = mt_gguf_tensor_at(file, i);
        if (tensor->rank < 2)
            continue;
        half |= tensor->type == MT_GGUF_TYPE_F16;
        brain |= tensor->type == MT_GGUF_TYPE_BF16;
        if (tensor->type != MT_GGUF_TYPE_F16 && tensor->type != MT_GGUF_TYPE_BF16)
            return "float32";
    }
    return half == brain ? "float32" : half ? "float16" : "bfloat16";
}

/* --- special tokens ------------------------------------------------------------------------------------ */

static json_t *read_id(const struct mt_gguf *file, const char *key)
{
    const struct mt_gguf_value *value = mt_gguf_find(file, key);
    int64_t id;
    return value && !value->is_array && mt_gguf_integer(value, 0, &id) && id >= 0 && id <= INT32_MAX
               ? json_integer(id)
               : json_null();
}

/* A turn may end with another token than a text: then both end what is generated. */
static json_t *read_ends(const struct mt_gguf *file)
{
    json_t *end = read_id(file, "tokenizer.ggml.eos_token_id");
    json_t *turn = read_id(file, "tokenizer.ggml.eot_token_id");
    if (json_is_null(turn) || json_is_null(end) || json_equal(turn, end)) {
        json_decref(turn);
        return end;
    }
    return json_pack("[o, o]", end, turn);
}

static int set_special_tokens(struct mt_gguf_config *reading, struct mt_error *error)
{
    json_t *config = reading->config;
    const bool set = json_object_set_new(config, "bos_token_id",
                                         read_id(reading->file, "tokenizer.ggml.bos_token_id")) == 0 &&
                     json_object_set_new(config, "eos_token_id", read_ends(reading->file)) == 0;
    return set ? 0 : out_of_memory(error);
}

/* --- all of it ----------------------------------------------------------------------------------------- */

static int read_norms_and_scales(struct mt_gguf_config *reading, struct mt_error *error)
{
    const struct mt_family *family = reading->family;
    json_t *config = reading->config;
    json_t *eps = mt_gguf_config_number(reading, family->layer_norm ? "attention.layer_norm_epsilon"
                                                                    : "attention.layer_norm_rms_epsilon");
    if (!eps && !family->plain_norms)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s: the norms' epsilon is missing",
                            mt_gguf_path(reading->file));
    if (eps && !family->plain_norms)
        json_object_set_new(config, family->eps_key ? family->eps_key : "rms_norm_eps", eps);
    else
        json_decref(eps);
    const char *activation = family->activation ? family->activation : "silu";
    json_object_set_new(config, family->activation_key ? family->activation_key : "hidden_act",
                        json_string(activation));
    json_object_set_new(config, "tie_word_embeddings", json_boolean(!has(reading, "output.weight")));
    for (const struct mt_gguf_copied *copied = reading->architecture->copied; copied && copied->suffix;
         copied++) {
        json_t *number = mt_gguf_config_number(reading, copied->suffix);
        if (number && json_object_set_new(config, copied->key, number) < 0)
            return out_of_memory(error);
    }
    return 0;
}

static int fill(struct mt_gguf_config *reading, struct mt_error *error)
{
    int r = check_keys(reading, error);
    r = r ? r : read_sizes(reading, error);
    r = r ? r : read_norms_and_scales(reading, error);
    r = r ? r : set_biases(reading, error);
    r = r ? r : mt_gguf_rope_read(reading, error);
    r = r ? r : set_special_tokens(reading, error);
    if (r == 0 && reading->architecture->adjust)
        r = reading->architecture->adjust(reading, error);
    if (r < 0)
        return r;
    json_object_set_new(reading->config, "model_type", json_string(reading->family->model_type));
    json_object_set_new(reading->config, "architectures", json_pack("[s]", reading->family->architecture));
    return json_object_set_new(reading->config, "torch_dtype", json_string(find_dtype(reading->file))) < 0
               ? out_of_memory(error)
               : 0;
}

static int refuse_architecture(const struct mt_gguf *file, struct mt_error *error)
{
    char known[2048];
    struct mt_gguf_text name = {"", 0};
    const struct mt_gguf_value *value = mt_gguf_find(file, "general.architecture");
    if (!value || !mt_gguf_string(value, &name))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s does not say its general.architecture",
                            mt_gguf_path(file));
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                        "%s: GGUF files of the architecture `%.*s` are not supported yet (known: %s)",
                        mt_gguf_path(file), (int)(name.bytes < 64 ? name.bytes : 64), name.data,
                        mt_gguf_architecture_list(known, sizeof known));
}

int mt_gguf_to_config(const struct mt_gguf *file, json_t **config, struct mt_error *error)
{
    *config = NULL;
    struct mt_gguf_config reading = {.file = file, .architecture = mt_gguf_architecture_find(file)};
    if (!reading.architecture)
        return refuse_architecture(file, error);
    reading.family = mt_family_find(reading.architecture->model_type, NULL);
    mt_autojson json_t *object = reading.config = json_object();
    if (!object)
        return out_of_memory(error);
    int r = fill(&reading, error);
    if (r == 0)
        *config = json_incref(object);
    return r;
}
