/* Rotary positions of a GGUF file. Llama 3's scaling is not in the metadata but in a tensor of divisors, one
 * a frequency; its settings are found again by trying those in use and comparing the divisors. Divisors that
 * none gives are kept as they are, as a `longrope` with the same divisors at every length. */
#include "core/model/gguf_rope.h"

#include "core/base/cleanup.h"
#include "core/model/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PAIRS ((size_t)1 << 15)

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the model's description");
}

static int set(json_t *object, const char *key, json_t *value, struct mt_error *error)
{
    return value && json_object_set_new(object, key, value) == 0 ? 0 : out_of_memory(error);
}

static double number_or(const struct mt_gguf_config *reading, const char *suffix, double otherwise)
{
    mt_autojson json_t *number = mt_gguf_config_number(reading, suffix);
    return number && !json_is_boolean(number) ? json_number_value(number) : otherwise;
}

bool mt_gguf_rope_is_tensor(const char *name)
{
    return strcmp(name, "rope_freqs.weight") == 0 || strcmp(name, "rope_factors_long.weight") == 0 ||
           strcmp(name, "rope_factors_short.weight") == 0;
}

/* --- how much of a head rotates ------------------------------------------------------------------------ */

static int read_partial(const struct mt_gguf_config *reading, size_t *rotary_dim, struct mt_error *error)
{
    const struct mt_family *family = reading->family;
    const double otherwise = family->partial_rotary_factor > 0 ? family->partial_rotary_factor : 1;
    *rotary_dim = (size_t)(otherwise * (double)reading->head_dim);
    const int64_t dimensions = mt_gguf_config_integer(reading, "rope.dimension_count", 0);
    if (dimensions < 0 || (size_t)dimensions > reading->head_dim)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "%s: rope.dimension_count exceeds the width of a head, %zu",
                            mt_gguf_path(reading->file), reading->head_dim);
    if (dimensions)
        *rotary_dim = (size_t)dimensions;
    const char *key = mt_family_has_key(family, "partial_rotary_factor") ? "partial_rotary_factor" : NULL;
    for (const struct mt_family_renamed *renamed = family->renamed; renamed && renamed->own; renamed++)
        if (strcmp(renamed->usual, "partial_rotary_factor") == 0)
            key = renamed->own;
    if (key)
        return set(reading->config, key, json_real((double)*rotary_dim / (double)reading->head_dim), error);
    if (*rotary_dim != reading->head_dim)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "%s: rope.dimension_count %zu of a head's %zu is not supported for %s",
                            mt_gguf_path(reading->file), *rotary_dim, reading->head_dim, family->model_type);
    return 0;
}

/* --- divisors ------------------------------------------------------------------------------------------ */

/* The divisors that a tensor has for each of `pairs` frequencies; NULL when there is no such tensor. */
static int read_divisors(const struct mt_gguf_config *reading, const char *name, size_t pairs,
                         float **divisors, struct mt_error *error)
{
    *divisors = NULL;
    const struct mt_gguf_tensor *tensor = mt_gguf_find_tensor(reading->file, name);
    if (!tensor)
        return 0;
    if (tensor->elements != pairs || pairs > MAX_PAIRS)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "%s: %s has %zu elements, and %zu pairs of a head rotate",
                            mt_gguf_path(reading->file), name, tensor->elements, pairs);
    *divisors = malloc(pairs * sizeof **divisors);
    if (!*divisors)
        return out_of_memory(error);
    int r = mt_gguf_read_f32(tensor, 0, pairs, *divisors);
    for (size_t i = 0; r == 0 && i < pairs; i++)
        if (!(isfinite((*divisors)[i]) && (*divisors)[i] > 0))
            r = -EINVAL;
    return r < 0 ? mt_error_set(error, r, MT_REASON_BAD_MODEL, "%s: %s holds what are no divisors",
                                mt_gguf_path(reading->file), name)
                 : 0;
}

static json_t *divisor_list(const float *divisors, size_t pairs)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < pairs; i++)
        json_array_append_new(list, json_real((double)divisors[i]));
    return list;
}

struct llama3 {
    double factor, low, high, original;
};

/* The divisor of frequency i (transformers' modeling_rope_utils, llama3). */
static double llama3_divisor(const struct llama3 *settings, double theta, size_t i, size_t pairs)
{
    const double wavelength = 2 * M_PI * pow(theta, (double)i / (double)pairs);
    if (wavelength < settings->original / settings->high)
        return 1;
    if (wavelength > settings->original / settings->low)
        return settings->factor;
    const double smooth =
        (settings->original / wavelength - settings->low) / (settings->high - settings->low);
    return 1 / ((1 - smooth) / settings->factor + smooth);
}

static bool find_llama3(const float *divisors, size_t pairs, double theta, struct llama3 *settings)
{
    double factor = 1;
    for (size_t i = 0; i < pairs; i++)
        factor = fmax(factor, (double)divisors[i]);
    for (unsigned original = 65536; original >= 16; original /= 2) {
        *settings = (struct llama3){factor, 1, 4, original};
        bool same = true;
        for (size_t i = 0; same && i < pairs; i++)
            same = fabs(llama3_divisor(settings, theta, i, pairs) / (double)divisors[i] - 1) < 1e-5;
        if (same)
            return true;
    }
    return false;
}

static int scale_by_divisors(struct mt_gguf_config *reading, const float *divisors, size_t pairs,
                             struct mt_error *error)
{
    const double theta = json_number_value(json_object_get(reading->config, "rope_theta"));
    struct llama3 found;
    json_t *scaling;
    if (find_llama3(divisors, pairs, theta, &found))
        scaling = json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", found.factor,
                            "low_freq_factor", found.low, "high_freq_factor", found.high,
                            "original_max_position_embeddings", (json_int_t)found.original);
    else
        scaling = json_pack("{s:s, s:f, s:f, s:o, s:o, s:O}", "rope_type", "longrope", "factor", 1.0,
                            "attention_factor", 1.0, "short_factor", divisor_list(divisors, pairs),
                            "long_factor", divisor_list(divisors, pairs), "original_max_position_embeddings",
                            json_object_get(reading->config, "max_position_embeddings"));
    return set(reading->config, "rope_scaling", scaling, error);
}

/* Phi-3: two sets of divisors. Its config.json has the original length beside, and the factor of attention
 * follows from the lengths; what a file says otherwise is kept. */
static int scale_by_length(struct mt_gguf_config *reading, const float *short_divisors,
                           const float *long_divisors, size_t pairs, struct mt_error *error)
{
    const double length = json_number_value(json_object_get(reading->config, "max_position_embeddings"));
    const double original = number_or(reading, "rope.scaling.original_context_length", length);
    const double usual = length > original ? sqrt(1 + log(length / original) / log(original)) : 1;
    const double given = number_or(reading, "rope.scaling.attn_factor", usual);
    json_t *scaling =
        json_pack("{s:s, s:o, s:o}", "type", "longrope", "short_factor", divisor_list(short_divisors, pairs),
                  "long_factor", divisor_list(long_divisors, pairs));
    if (scaling && fabs(given / usual - 1) > 1e-6)
        json_object_set_new(scaling, "attention_factor", json_real(given));
    return set(reading->config, "rope_scaling", scaling, error);
}

/* --- scalings of the metadata -------------------------------------------------------------------------- */

static bool text_is(const struct mt_gguf_text *text, const char *word)
{
    return text->bytes == strlen(word) && memcmp(text->data, word, text->bytes) == 0;
}

static int read_yarn(const struct mt_gguf_config *reading, double factor, json_t **scaling,
                     struct mt_error *error)
{
    static const struct {
        const char *suffix, *key;
    } numbers[] = {{"rope.scaling.original_context_length", "original_max_position_embeddings"},
                   {"rope.scaling.yarn_attn_factor", "attention_factor"},
                   {"rope.scaling.yarn_beta_fast", "beta_fast"},
                   {"rope.scaling.yarn_beta_slow", "beta_slow"}};
    if (number_or(reading, "rope.scaling.attn_factor", 1) != 1)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "%s: rope.scaling.attn_factor is not supported with yarn",
                            mt_gguf_path(reading->file));
    *scaling = json_pack("{s:s, s:f}", "rope_type", "yarn", "factor", factor);
    for (size_t i = 0; *scaling && i < sizeof numbers / sizeof *numbers; i++) {
        json_t *number = mt_gguf_config_number(reading, numbers[i].suffix);
        if (number)
            json_object_set_new(*scaling, numbers[i].key, number);
    }
    return *scaling ? 0 : out_of_memory(error);
}

static int read_scaling(struct mt_gguf_config *reading, struct mt_error *error)
{
    struct mt_gguf_text type = {"", 0};
    const struct mt_gguf_value *value = mt_gguf_config_value(reading, "rope.scaling.type");
    double factor = number_or(reading, "rope.scale_linear", 1); /* of old files, which name no type */
    if (value && !mt_gguf_string(value, &type))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s: rope.scaling.type is no text",
                            mt_gguf_path(reading->file));
    factor = number_or(reading, "rope.scaling.factor", factor);
    if (text_is(&type, "none") || (factor == 1 && !text_is(&type, "longrope")))
        return 0;
    if (!value || text_is(&type, "linear"))
        return set(reading->config, "rope_scaling",
                   json_pack("{s:s, s:f}", "rope_type", "linear", "factor", factor), error);
    if (text_is(&type, "yarn")) {
        json_t *scaling = NULL;
        int r = read_yarn(reading, factor, &scaling, error);
        return r == 0 ? set(reading->config, "rope_scaling", scaling, error) : r;
    }
    return mt_error_set(
        error, -ENOTSUP, MT_REASON_BAD_MODEL, "%s: rope.scaling.type `%.*s`%s is not supported for %s",
        mt_gguf_path(reading->file), (int)(type.bytes < 64 ? type.bytes : 64), type.data,
        text_is(&type, "longrope") ? " without its factors" : "", reading->architecture->name);
}

int mt_gguf_rope_read(struct mt_gguf_config *reading, struct mt_error *error)
{
    size_t rotary_dim = 0;
    json_t *theta = mt_gguf_config_number(reading, "rope.freq_base");
    int r = set(reading->config, "rope_theta", theta ? theta : json_real(10000), error);
    r = r ? r : read_partial(reading, &rotary_dim, error);
    if (r < 0)
        return r;
    const size_t pairs = rotary_dim / 2;
    mt_autofree float *all = NULL;
    mt_autofree float *short_divisors = NULL;
    mt_autofree float *long_divisors = NULL;
    r = read_divisors(reading, "rope_freqs.weight", pairs, &all, error);
    r = r ? r : read_divisors(reading, "rope_factors_short.weight", pairs, &short_divisors, error);
    r = r ? r : read_divisors(reading, "rope_factors_long.weight", pairs, &long_divisors, error);
    if (r < 0)
        return r;
    if (short_divisors && long_divisors)
        return scale_by_length(reading, short_divisors, long_divisors, pairs, error);
    if (all)
        return scale_by_divisors(reading, all, pairs, error);
    return read_scaling(reading, error);
}
