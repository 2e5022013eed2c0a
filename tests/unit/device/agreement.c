#include "tests/unit/device/agreement.h"

struct rig rigs[2];

int open_both(void **state)
{
    (void)state;
    rigs[0] = rig_open("cpu", 2);
    rigs[1] = rig_open(getenv("MEGATRAIN_CUDA_MODULE") ? "cuda" : "cpu-discrete", 2);
    return 0;
}

int close_both(void **state)
{
    (void)state;
    rig_close(&rigs[0]);
    rig_close(&rigs[1]);
    return 0;
}

struct pair pair_random(enum mt_dtype dtype, size_t count, double scale, uint64_t seed)
{
    return (struct pair){{tensor_random(&rigs[0], dtype, count, scale, seed),
                          tensor_random(&rigs[1], dtype, count, scale, seed)}};
}

struct pair pair_ints(size_t count, int32_t below, uint64_t seed)
{
    int32_t *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (int32_t)((i * 2654435761u + seed * 40503u) % (uint64_t)below);
    const struct pair pair = {{tensor_ints(&rigs[0], values, count), tensor_ints(&rigs[1], values, count)}};
    free(values);
    return pair;
}

void pairs_free(struct pair *pairs, size_t count)
{
    rig_wait(&rigs[0]);
    rig_wait(&rigs[1]);
    for (size_t i = 0; i < 2 * count; i++)
        tensor_free(&pairs[i / 2].t[i % 2]);
}

void agree_at(struct pair *pair, double tolerance, const char *what, const char *shape_of_it,
              const char *file, int line)
{
    char text[320];
    tensor_pull(&pair->t[0]);
    snprintf(text, sizeof text, "%s of %s", what, shape_of_it);
    expect_close_at(&pair->t[1], pair->t[0].v, tolerance, text, file, line);
}

static char shape_text[256];
const char *shape(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(shape_text, sizeof shape_text, format, arguments);
    va_end(arguments);
    return shape_text;
}
