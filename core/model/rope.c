#include "core/model/rope.h"

#include "core/base/arena.h"
#include "core/model/config.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const json_t *present(const json_t *object, const char *key)
{
    const json_t *item = json_object_get(object, key);
    return item && !json_is_null(item) ? item : NULL;
}

/* A number under `key`, or `otherwise` where it is absent or null. */
static int number(const json_t *object, const char *key, double otherwise, double *value,
                  struct mt_error *error)
{
    const json_t *item = present(object, key);
    *value = otherwise;
    if (!item)
        return 0;
    if (!json_is_number(item) || !isfinite(json_number_value(item)) || json_number_value(item) <= 0)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: rope setting `%s` must be a positive number", key);
    *value = json_number_value(item);
    return 0;
}

/* Settings that each type reads beside the common ones. */
static const char *const common_settings[] = {"rope_type", "type", "rope_theta", "partial_rotary_factor",
                                              NULL};
static const struct {
    const char *name;
    enum mt_rope_type type;
    const char *settings[9];
} types[] = {
    {"default", MT_ROPE_DEFAULT, {"factor", NULL}}, /* a factor without a type has no effect */
    {"linear", MT_ROPE_LINEAR, {"factor", NULL}},
    {"dynamic", MT_ROPE_DYNAMIC, {"factor", "original_max_position_embeddings", NULL}},
    {"dynamic",
     MT_ROPE_ALPHA,
     {"alpha", "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", NULL}},
    {"llama3",
     MT_ROPE_LLAMA3,
     {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor", NULL}},
    {"yarn",
     MT_ROPE_YARN,
     {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale",
      "mscale_all_dim", "truncate", NULL}},
    {"longrope",
     MT_ROPE_LONGROPE,
     {"factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor", NULL}},
    {"proportional", MT_ROPE_PROPORTIONAL, {"factor", NULL}},
};
/* Queries that are scaled by position: both keys of ministral3. */
static const char *const query_settings[] = {"llama_4_scaling_beta", "max_position_embeddings", NULL};

static bool listed(const char *const *list, const char *key)
{
    for (size_t i = 0; list[i]; i++)
        if (strcmp(list[i], key) == 0)
            return true;
    return false;
}

/* A setting that is not known changes the angles in a way that nobody may guess. */
static int check_settings(const json_t *settings, size_t type, struct mt_error *error)
{
    const bool queries = present(settings, "llama_4_scaling_beta") != NULL;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)settings, key, value)
    {
        if (json_is_null(value) || listed(common_settings, key) || listed(types[type].settings, key) ||
            (queries && listed(query_settings, key)))
            continue;
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "config: rope setting `%s` is not supported for rope type `%s`", key,
                            types[type].name);
    }
    return 0;
}

static bool knows(const struct mt_rope_source *source, enum mt_rope_type type)
{
    if (source->longrope_only)
        return type == MT_ROPE_DEFAULT || type == MT_ROPE_LONGROPE;
    return type != MT_ROPE_PROPORTIONAL || source->proportional;
}

static int find_type(const struct mt_rope_source *source, const json_t *settings, size_t *type,
                     struct mt_error *error)
{
    const json_t *item = present(settings, "rope_type");
    item = item ? item : present(settings, "type");
    const char *name = item ? json_string_value(item) : "default";
    if (!name)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: `rope_type` must be a string");
    /* What longrope was called at first; phi3's old files also call it yarn, which that family has not. */
    if (strcmp(name, "su") == 0 || (source->longrope_only && strcmp(name, "yarn") == 0))
        name = "longrope";
    const bool alpha = present(settings, "alpha") != NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0 && (types[i].type != MT_ROPE_DYNAMIC || !alpha) &&
            knows(source, types[i].type)) {
            *type = i;
            return 0;
        }
    return mt_error_set(
        error, -ENOTSUP, MT_REASON_BAD_MODEL, "config: rope type `%s` is not supported for %s (known: %s)",
        name, source->model_type,
        source->longrope_only ? "default, longrope" : "default, linear, dynamic, llama3, yarn, longrope");
}

static double yarn_scale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

static int read_yarn(const json_t *settings, struct mt_rope *rope, struct mt_error *error)
{
    double mscale = 0, all = 0, attention = 0;
    int r = number(settings, "mscale", 0, &mscale, error);
    r = r ? r : number(settings, "mscale_all_dim", 0, &all, error);
    r = r ? r : number(settings, "attention_factor", 0, &attention, error);
    r = r ? r : number(settings, "beta_fast", 32, &rope->beta_fast, error);
    r = r ? r : number(settings, "beta_slow", 1, &rope->beta_slow, error);
    rope->truncate = true;
    r = r ? r : mt_config_bool(settings, "truncate", &rope->truncate, error);
    if (attention > 0)
        rope->attention_factor = attention;
    else if (mscale > 0 && all > 0)
        rope->attention_factor = yarn_scale(rope->factor, mscale) / yarn_scale(rope->factor, all);
    else
        rope->attention_factor = yarn_scale(rope->factor, 1);
    return r;
}

static int read_factors(const json_t *settings, const char *key, const struct mt_rope *rope,
                        struct mt_arena *arena, const double **factors, struct mt_error *error)
{
    const json_t *list = present(settings, key);
    const size_t count = rope->rotary_dim / 2;
    if (!json_is_array(list) || json_array_size(list) != count)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: rope setting `%s` must be a list of %zu numbers", key, count);
    double *values = mt_arena_alloc(arena, count, sizeof *values);
    if (!values)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for rope's factors");
    for (size_t i = 0; i < count; i++) {
        values[i] = json_number_value(json_array_get(list, i));
        if (!(values[i] > 0))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "config: rope setting `%s` must hold positive numbers", key);
    }
    *factors = values;
    return 0;
}

static int read_longrope(const struct mt_rope_source *source, const json_t *settings, struct mt_rope *rope,
                         struct mt_error *error)
{
    double attention;
    int r = number(settings, "attention_factor", 0, &attention, error);
    r = r ? r : read_factors(settings, "short_factor", rope, source->arena, &rope->short_factors, error);
    r = r ? r : read_factors(settings, "long_factor", rope, source->arena, &rope->long_factors, error);
    if (attention > 0)
        rope->attention_factor = attention;
    else if (rope->factor > 1)
        rope->attention_factor = sqrt(1 + log(rope->factor) / log(rope->original_max_position_embeddings));
    return r;
}

/* The numbers of a scaling. */
static int scaling(const struct mt_rope_source *source, const json_t *settings, struct mt_rope *rope,
                   struct mt_error *error)
{
    double longest, inner;
    int r = number(source->config, "max_position_embeddings", 2048, &longest, error);
    r = r ? r : number(settings, "original_max_position_embeddings", longest, &inner, error);
    r = r ? r
          : number(source->config, "original_max_position_embeddings", inner,
                   &rope->original_max_position_embeddings, error);
    if (rope->type == MT_ROPE_DYNAMIC)
        rope->original_max_position_embeddings = longest;
    const bool ratio = rope->type == MT_ROPE_YARN || rope->type == MT_ROPE_LONGROPE;
    r = r ? r
          : number(settings, "factor", ratio ? longest / rope->original_max_position_embeddings : 1,
                   &rope->factor, error);
    if (r)
        return r;
    switch (rope->type) {
    case MT_ROPE_DEFAULT:
    case MT_ROPE_LINEAR:
    case MT_ROPE_DYNAMIC:
    case MT_ROPE_PROPORTIONAL:
        return 0;
    case MT_ROPE_ALPHA:
        return number(settings, "alpha", 1, &rope->alpha, error);
    case MT_ROPE_LLAMA3:
        r = number(settings, "low_freq_factor", 1, &rope->low_freq_factor, error);
        r = r ? r : number(settings, "high_freq_factor", 4, &rope->high_freq_factor, error);
        if (!r && rope->high_freq_factor <= rope->low_freq_factor)
            r = mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                             "config: rope's high_freq_factor must be above low_freq_factor");
        return r;
    case MT_ROPE_YARN:
        return read_yarn(settings, rope, error);
    case MT_ROPE_LONGROPE:
        return read_longrope(source, settings, rope, error);
    }
    return 0;
}

/* The object that holds the settings, or NULL where there is none. */
static int find_settings(const struct mt_rope_source *source, const json_t **settings, struct mt_error *error)
{
    const json_t *old = present(source->config, "rope_scaling");
    const json_t *parameters = present(source->config, "rope_parameters");
    *settings = NULL;
    if (source->layer_type && parameters && !old) {
        parameters = present(parameters, source->layer_type);
        if (!parameters)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "config: `rope_parameters` says nothing of `%s`", source->layer_type);
    }
    const json_t *found = old ? old : parameters;
    if (found && !json_is_object(found))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: `%s` must be an object",
                            old ? "rope_scaling" : "rope_parameters");
    if (!old || !source->unscaled)
        *settings = found;
    return 0;
}

int mt_rope_read(const struct mt_rope_source *source, struct mt_rope *rope, struct mt_error *error)
{
    const json_t *settings;
    size_t type = 0;
    double theta = source->theta, partial = source->partial_rotary_factor;
    *rope = (struct mt_rope){
        .factor = 1, .attention_factor = 1, .interleaved = source->interleaved, .reversed = source->reversed};
    int r = find_settings(source, &settings, error);
    if (!source->unscaled)
        r = r ? r : number(source->config, "rope_theta", theta, &theta, error);
    double ratio = 1; /* chatglm's */
    r = r ? r : number(source->config, "rope_ratio", 1, &ratio, error);
    theta *= ratio;
    r = r ? r : number(source->config, "partial_rotary_factor", partial, &partial, error);
    r = r ? r : number(settings, "rope_theta", theta, &rope->theta, error);
    r = r ? r : number(settings, "partial_rotary_factor", partial, &partial, error);
    r = r ? r : find_type(source, settings, &type, error);
    r = r ? r : check_settings(settings, type, error);
    if (r)
        return r;
    rope->type = types[type].type;
    rope->rotary_dim = (size_t)((double)source->head_dim * partial);
    if (rope->type == MT_ROPE_PROPORTIONAL && partial <= 1) {
        rope->turning = (size_t)((double)source->head_dim * partial / 2);
        rope->rotary_dim = source->head_dim;
    }
    const json_t *given = json_object_get(source->config, "rotary_dim"); /* gptj, codegen */
    if (source->rotary_dim && (!given || !json_is_null(given))) {
        const json_int_t dim = given ? json_integer_value(given) : (json_int_t)source->rotary_dim;
        if (dim < 2 || (size_t)dim > source->head_dim)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "config: `rotary_dim` must lie from 2 to the head size %zu",
                                source->head_dim);
        rope->rotary_dim = (size_t)dim;
    }
    if (partial > 1 || rope->rotary_dim % 2 || !rope->rotary_dim)
        return mt_error_set(
            error, -EINVAL, MT_REASON_BAD_MODEL,
            "config: %zu of the %zu dimensions of a head would rotate; the number must be even",
            rope->rotary_dim, source->head_dim);
    r = scaling(source, settings, rope, error);
    return r ? r : number(settings, "llama_4_scaling_beta", 0, &rope->query_beta, error);
}

/* Theta as a batch sees it. */
static double theta_of(const struct mt_rope *rope, size_t longest)
{
    const double d = (double)rope->rotary_dim, power = d > 2 ? d / (d - 2) : 1;
    if (rope->type == MT_ROPE_ALPHA)
        return rope->theta * pow(rope->alpha, power);
    if (rope->type != MT_ROPE_DYNAMIC)
        return rope->theta;
    const double original = rope->original_max_position_embeddings, length = fmax((double)longest, original);
    return rope->theta * pow(rope->factor * length / original - (rope->factor - 1), power);
}

/* How much of frequency `i` is divided by the factor, 0 to 1. */
static double yarn_ramp(const struct mt_rope *rope, size_t i)
{
    const double d = (double)rope->rotary_dim, original = rope->original_max_position_embeddings;
    double low = d * log(original / (rope->beta_fast * 2 * M_PI)) / (2 * log(rope->theta));
    double high = d * log(original / (rope->beta_slow * 2 * M_PI)) / (2 * log(rope->theta));
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, d - 1);
    if (low == high)
        high += 0.001;
    return fmin(fmax(((double)i - low) / (high - low), 0), 1);
}

/* Frequency of pair `i`, scaled. */
static double frequency(const struct mt_rope *rope, size_t i, size_t longest)
{
    const double f = pow(theta_of(rope, longest), -2.0 * (double)i / (double)rope->rotary_dim);
    const double original = rope->original_max_position_embeddings;
    if (rope->type == MT_ROPE_LINEAR)
        return f / rope->factor;
    if (rope->type == MT_ROPE_PROPORTIONAL)
        return i < rope->turning ? f / rope->factor : 0;
    if (rope->type == MT_ROPE_LONGROPE)
        return f / ((double)longest > original ? rope->long_factors[i] : rope->short_factors[i]);
    if (rope->type == MT_ROPE_YARN) {
        const double ramp = yarn_ramp(rope, i);
        return ramp * f / rope->factor + (1 - ramp) * f;
    }
    if (rope->type == MT_ROPE_LLAMA3) {
        const double wavelength = 2 * M_PI / f;
        if (wavelength > original / rope->low_freq_factor)
            return f / rope->factor;
        if (wavelength >= original / rope->high_freq_factor) {
            const double ramp = (original / wavelength - rope->low_freq_factor) /
                                (rope->high_freq_factor - rope->low_freq_factor);
            return (1 - ramp) * f / rope->factor + ramp * f;
        }
    }
    return f;
}

size_t mt_rope_length_class(const struct mt_rope *rope, size_t longest)
{
    const bool beyond = (double)longest > rope->original_max_position_embeddings;
    if (rope->type == MT_ROPE_DYNAMIC)
        return beyond ? longest : 0;
    return rope->type == MT_ROPE_LONGROPE && beyond;
}

size_t mt_rope_num_classes(const struct mt_rope *rope, size_t longest)
{
    if ((double)longest <= rope->original_max_position_embeddings)
        return 1;
    return rope->type == MT_ROPE_DYNAMIC ? SIZE_MAX : rope->type == MT_ROPE_LONGROPE ? 2 : 1;
}

void mt_rope_tables(const struct mt_rope *rope, size_t first, size_t count, size_t longest, float *cos_table,
                    float *sin_table)
{
    const size_t half = rope->rotary_dim / 2;
    for (size_t i = 0; i < half; i++) {
        const double f = frequency(rope, i, longest);
        for (size_t row = 0; row < count; row++) {
            const double p = (double)(first + row);
            double scale = rope->attention_factor;
            if (rope->query_beta > 0)
                scale *= 1 + rope->query_beta * log(1 + floor(p / rope->original_max_position_embeddings));
            cos_table[row * half + i] = (float)(scale * cos(p * f));
            sin_table[row * half + i] = (float)((rope->reversed ? -scale : scale) * sin(p * f));
        }
    }
}
