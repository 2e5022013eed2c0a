#include "core/model/rope.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A number under `key`, or `otherwise` where it is absent or null. */
static int number(const json_t *object, const char *key, double otherwise, double *value,
                  struct mt_error *error)
{
    const json_t *item = json_object_get(object, key);
    if (!item || json_is_null(item)) {
        *value = otherwise;
        return 0;
    }
    if (!json_is_number(item) || !isfinite(json_number_value(item)) || json_number_value(item) <= 0)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "config: rope setting `%s` must be a positive number", key);
    *value = json_number_value(item);
    return 0;
}

static int scaling(const json_t *config, const json_t *settings, struct mt_rope *rope, struct mt_error *error)
{
    const json_t *name = json_object_get(settings, "rope_type");
    if (!name || json_is_null(name))
        name = json_object_get(settings, "type");
    const char *type = name && !json_is_null(name) ? json_string_value(name) : "default";
    if (!type)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: `rope_type` must be a string");
    int r = 0;
    if (strcmp(type, "default") == 0) {
        rope->type = MT_ROPE_DEFAULT;
        return 0;
    }
    if (strcmp(type, "linear") == 0) {
        rope->type = MT_ROPE_LINEAR;
    } else if (strcmp(type, "llama3") == 0) {
        rope->type = MT_ROPE_LLAMA3;
        double longest;
        r = number(config, "max_position_embeddings", 2048, &longest, error);
        r = r ? r
              : number(settings, "original_max_position_embeddings", longest,
                       &rope->original_max_position_embeddings, error);
        r = r ? r : number(settings, "low_freq_factor", 1, &rope->low_freq_factor, error);
        r = r ? r : number(settings, "high_freq_factor", 4, &rope->high_freq_factor, error);
        if (!r && rope->high_freq_factor <= rope->low_freq_factor)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "config: rope's high_freq_factor must be above low_freq_factor");
    } else {
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "config: rope type `%s` is not supported yet (known: default, linear, llama3)",
                            type);
    }
    return r ? r : number(settings, "factor", 1, &rope->factor, error);
}

static const char *const known_settings[] = {
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "partial_rotary_factor",
    "original_max_position_embeddings",
};

/* A setting that is not known changes the angles in a way that nobody may guess. */
static int check_settings(const json_t *settings, struct mt_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)settings, key, value)
    {
        bool known = json_is_null(value);
        for (size_t i = 0; i < sizeof known_settings / sizeof *known_settings; i++)
            known = known || strcmp(key, known_settings[i]) == 0;
        if (!known)
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "config: rope setting `%s` is not supported yet", key);
    }
    return 0;
}

int mt_rope_from_config(const json_t *config, double default_theta, struct mt_rope *rope,
                        struct mt_error *error)
{
    const json_t *parameters = json_object_get(config, "rope_parameters");
    const json_t *old = json_object_get(config, "rope_scaling");
    rope->type = MT_ROPE_DEFAULT;
    rope->factor = 1;

    double theta;
    int r = number(config, "rope_theta", default_theta, &theta, error);
    if (r)
        return r;
    const json_t *settings = old && !json_is_null(old) ? old : parameters;
    if (settings && !json_is_null(settings)) {
        if (!json_is_object(settings))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "config: `%s` must be an object",
                                settings == old ? "rope_scaling" : "rope_parameters");
        r = check_settings(settings, error);
        r = r ? r : number(settings, "rope_theta", theta, &theta, error);
        r = r ? r : scaling(config, settings, rope, error);
        double partial = 1;
        r = r ? r : number(settings, "partial_rotary_factor", 1, &partial, error);
        if (!r && partial != 1)
            r = mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                             "config: `partial_rotary_factor` %g is not supported for this family", partial);
    }
    rope->theta = theta;
    return r;
}

/* Frequency of pair `i`, scaled. */
static double frequency(const struct mt_rope *rope, size_t i)
{
    double f = pow(rope->theta, -2.0 * (double)i / (double)rope->rotary_dim);
    if (rope->type == MT_ROPE_LINEAR)
        return f / rope->factor;
    if (rope->type == MT_ROPE_LLAMA3) {
        const double wavelength = 2 * M_PI / f, original = rope->original_max_position_embeddings;
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

void mt_rope_tables(const struct mt_rope *rope, size_t num_positions, float *cos_table, float *sin_table)
{
    const size_t half = rope->rotary_dim / 2;
    for (size_t i = 0; i < half; i++) {
        const double f = frequency(rope, i);
        for (size_t p = 0; p < num_positions; p++) {
            cos_table[p * half + i] = (float)cos((double)p * f);
            sin_table[p * half + i] = (float)sin((double)p * f);
        }
    }
}
