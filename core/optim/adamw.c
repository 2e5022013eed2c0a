/* The fused pass. One loop for the plain and one for the split master, each compiled for the instruction sets
 * at hand; no product is fused with a sum (ISO rounding), so that every processor gives the same bits, and
 * division and square root are IEEE's, as in PyTorch. The pass is bound by memory, not by these. */
#include "core/optim/adamw.h"

#include "core/base/size.h"
#include "core/store/split.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A task of the pool; a multiple of every vector's length. */
#define BLOCK ((size_t)1 << 15)

/* The numbers of one update in the type that PyTorch has them in. */
struct factors {
    float clip, decay, beta1_rest, beta2, beta2_rest, bias2_sqrt, eps, step_size;
};

static struct factors factors_of(const struct mt_adamw *adamw, const struct mt_adamw_step *step, bool decay)
{
    const double bias1 = 1 - pow(adamw->beta1, (double)step->update);
    const double bias2 = 1 - pow(adamw->beta2, (double)step->update);
    return (struct factors){
        .clip = (float)step->grad_scale,
        .decay = decay ? (float)(1 - step->learning_rate * adamw->weight_decay) : 1.0f,
        .beta1_rest = (float)(1 - adamw->beta1),
        .beta2 = (float)adamw->beta2,
        .beta2_rest = (float)(1 - adamw->beta2),
        .bias2_sqrt = (float)sqrt(bias2),
        .eps = (float)adamw->eps,
        .step_size = (float)-(step->learning_rate / bias1),
    };
}

#define INLINE static inline __attribute__((always_inline))

/* One element; master is decayed and moved. torch: mul_, lerp_, mul_ + addcmul_, sqrt / bias + eps, addcdiv_.
 */
INLINE float update_element(struct factors f, float master, float *moment1, float *moment2, float gradient)
{
    const float g = gradient * f.clip;
    const float m = *moment1 + f.beta1_rest * (g - *moment1);
    const float v = *moment2 * f.beta2 + f.beta2_rest * g * g;
    *moment1 = m;
    *moment2 = v;
    const float denominator = __builtin_sqrtf(v) / f.bias2_sqrt + f.eps;
    return master * f.decay + f.step_size * m / denominator;
}

INLINE uint32_t bits_of(float value)
{
    union {
        float value;
        uint32_t bits;
    } u = {.value = value};
    return u.bits;
}

INLINE float value_of(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } u = {.bits = bits};
    return u.value;
}

/* The results are not zero when some new master is not finite. */
INLINE uint32_t plain_body(struct factors f, float *restrict master, float *restrict moment1,
                           float *restrict moment2, const float *restrict gradient, size_t count)
{
    uint32_t spoilt = 0;
    for (size_t i = 0; i < count; i++) {
        const float w = update_element(f, master[i], &moment1[i], &moment2[i], gradient[i]);
        master[i] = w;
        spoilt |= (bits_of(w) & 0x7f800000u) == 0x7f800000u;
    }
    return spoilt;
}

INLINE uint32_t split_body(struct factors f, uint16_t *restrict high, int16_t *restrict remainder,
                           float *restrict moment1, float *restrict moment2, const float *restrict gradient,
                           size_t count)
{
    uint32_t spoilt = 0;
    for (size_t i = 0; i < count; i++) {
        const float old = value_of(mt_split_join(high[i], remainder[i]));
        const uint32_t bits = bits_of(update_element(f, old, &moment1[i], &moment2[i], gradient[i]));
        const uint32_t rounded = bits + 0x8000u;
        high[i] = (uint16_t)(rounded >> 16);
        remainder[i] = (int16_t)(uint16_t)(bits - (rounded & 0xffff0000u));
        spoilt |= (rounded & 0x7f800000u) == 0x7f800000u;
    }
    return spoilt;
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2")))
#else
#define AVX2
#define AVX512
#endif

/* One function an instruction set from each body. */
#define VERSIONS(attribute, suffix)                                                                          \
    attribute static uint32_t plain_##suffix(struct factors f, float *master, float *moment1,                \
                                             float *moment2, const float *gradient, size_t count)            \
    {                                                                                                        \
        return plain_body(f, master, moment1, moment2, gradient, count);                                     \
    }                                                                                                        \
    attribute static uint32_t split_##suffix(struct factors f, uint16_t *high, int16_t *remainder,           \
                                             float *moment1, float *moment2, const float *gradient,          \
                                             size_t count)                                                   \
    {                                                                                                        \
        return split_body(f, high, remainder, moment1, moment2, gradient, count);                            \
    }
VERSIONS(, baseline)
VERSIONS(AVX2, avx2)
VERSIONS(AVX512, avx512)

static int level(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return 2;
    if (__builtin_cpu_supports("avx2"))
        return 1;
#endif
    return 0;
}

static uint32_t plain(struct factors f, float *master, float *moment1, float *moment2, const float *gradient,
                      size_t count)
{
    static uint32_t (*const versions[])(struct factors, float *, float *, float *, const float *,
                                        size_t) = {plain_baseline, plain_avx2, plain_avx512};
    return versions[level()](f, master, moment1, moment2, gradient, count);
}

static uint32_t split(struct factors f, uint16_t *high, int16_t *remainder, float *moment1, float *moment2,
                      const float *gradient, size_t count)
{
    static uint32_t (*const versions[])(struct factors, uint16_t *, int16_t *, float *, float *,
                                        const float *, size_t) = {split_baseline, split_avx2, split_avx512};
    return versions[level()](f, high, remainder, moment1, moment2, gradient, count);
}

/* A piece of one parameter. */
struct piece {
    const struct mt_parameter *parameter;
    size_t first, count;
};

struct work {
    struct factors factors[2]; /* without and with decay */
    const struct mt_slab *slab;
    const float *gradient;
    const struct piece *pieces;
    atomic_bool spoilt;
};

static void update_piece(void *context, size_t task)
{
    struct work *work = context;
    const struct piece *piece = &work->pieces[task];
    const struct mt_parameter *p = piece->parameter;
    const struct mt_slab *slab = work->slab;
    const size_t at = p->offset + piece->first, trained = p->train_offset + piece->first;
    const struct factors f = work->factors[p->decay];
    const uint32_t spoilt = slab->high
                                ? split(f, slab->high + at, slab->remainder + at, slab->moment1 + trained,
                                        slab->moment2 + trained, work->gradient + trained, piece->count)
                                : plain(f, slab->master + at, slab->moment1 + trained,
                                        slab->moment2 + trained, work->gradient + trained, piece->count);
    if (spoilt)
        atomic_store_explicit(&work->spoilt, true, memory_order_relaxed);
}

/* Pieces a call of the pool; the list lies on the stack. */
#define MAX_PIECES 512

bool mt_adamw_update(const struct mt_adamw *adamw, const struct mt_adamw_step *step, struct mt_store *store,
                     size_t group_index, const float *gradient, struct mt_pool *pool)
{
    const struct mt_model *model = mt_store_model(store);
    const struct mt_group *group = &model->groups[group_index];
    struct piece pieces[MAX_PIECES];
    struct work work = {
        .factors = {factors_of(adamw, step, false), factors_of(adamw, step, true)},
        .slab = mt_store_slab(store, group_index),
        .gradient = gradient,
        .pieces = pieces,
    };
    size_t num_pieces = 0;
    for (size_t i = 0; i < group->num_parameters; i++) {
        const struct mt_parameter *p = &model->parameters[group->first_parameter + i];
        for (size_t first = 0; first < p->count && !p->frozen; first += BLOCK) {
            pieces[num_pieces++] = (struct piece){p, first, mt_size_min(BLOCK, p->count - first)};
            if (num_pieces == MAX_PIECES) {
                mt_pool_run(pool, num_pieces, update_piece, &work);
                num_pieces = 0;
            }
        }
    }
    if (num_pieces)
        mt_pool_run(pool, num_pieces, update_piece, &work);
    return !atomic_load(&work.spoilt);
}

bool mt_adamw_pass(const struct mt_adamw *adamw, const struct mt_adamw_step *step, bool decay, float *master,
                   float *moment1, float *moment2, const float *gradient, size_t count)
{
    return plain(factors_of(adamw, step, decay), master, moment1, moment2, gradient, count) == 0;
}

double mt_clip_factor(double max_norm, double norm)
{
    if (max_norm <= 0)
        return 1;
    const float factor = (float)max_norm / ((float)norm + 1e-6f);
    return factor < 1 ? (double)factor : 1;
}
