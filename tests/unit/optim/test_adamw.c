/* The fused pass against torch.optim.AdamW's bits, the split master against the plain one, and what must not
 * depend on threads. */
#include "core/base/random.h"
#include "core/device/open.h"
#include "core/optim/adamw.h"
#include "core/optim/norm.h"
#include "tests/unit/support.h"

#include <math.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* torch 2.15, fp32, AdamW(lr=1e-3, weight_decay=0.1, foreach=False): three updates with gradients times 1,
 * 2, 3. */
static void moments_and_master_have_torchs_bits(void **state)
{
    (void)state;
    const float gradient[] = {0.5f, -1.25f, 3e-5f, 0.0f};
    float master[] = {1.0f, -0.75f, 0.02f, 1e-3f}, m[4] = {0}, v[4] = {0};
    const int32_t wanted[3][3][4] = {
        {{1065334761, -1086342771, 1016832612, 981667604},
         {1028443341, -1107296256, 910775195, 0},
         {964891247, 986500302, 729633749, 0}},
        {{1065316892, -1086360221, 1016313523, 981666745},
         {1041529569, -1095132774, 923924023, 0},
         {983813799, 1006629606, 748571722, 0}},
        {{1065299145, -1086377549, 1015798311, 981665886},
         {1049599410, -1087142625, 931999270, 0},
         {996493080, 1018371980, 761106699, 0}},
    };
    const struct mt_adamw adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1};
    for (uint64_t s = 0; s < 3; s++) {
        float g[4];
        for (size_t i = 0; i < 4; i++)
            g[i] = gradient[i] * (float)(s + 1);
        const struct mt_adamw_step step = {.learning_rate = 1e-3, .grad_scale = 1, .update = s + 1};
        assert_true(mt_adamw_pass(&adamw, &step, true, master, m, v, g, 4));
        for (size_t i = 0; i < 4; i++) {
            /* torch fuses some products with sums: the last bit may differ. */
            assert_true(labs((long)(int32_t)bits_of(master[i]) - wanted[s][0][i]) <= 1);
            assert_true(labs((long)(int32_t)bits_of(m[i]) - wanted[s][1][i]) <= 1);
            assert_true(labs((long)(int32_t)bits_of(v[i]) - wanted[s][2][i]) <= 1);
        }
    }
}

static void a_thousand_updates_of_a_hundred_thousandth_arrive(void **state)
{
    (void)state;
    const struct mt_adamw adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    float master = 1, m = 0, v = 0;
    const float gradient = 1;
    for (uint64_t u = 1; u <= 1000; u++)
        mt_adamw_pass(&adamw, &(struct mt_adamw_step){.learning_rate = 1e-5, .grad_scale = 1, .update = u},
                      false, &master, &m, &v, &gradient, 1);
    assert_true(fabsf(master - 0.99f) < 1e-4f);
}

static void clip_factor_is_torchs(void **state)
{
    (void)state;
    assert_true(mt_clip_factor(1, 0.5) == 1);
    assert_true(mt_clip_factor(0, 1e9) == 1);
    assert_true(mt_clip_factor(1, 4) == (double)(1.0f / (4.0f + 1e-6f)));
    assert_true(mt_clip_factor(1, 1) < 1); /* the 1e-6 */
}

/* One layer's group of a small model, with made-up state. */
struct fixture {
    struct mt_pool *pool;
    struct mt_device *device;
    struct mt_model *model;
    struct mt_store *store;
    float *gradient;
};

static void open_fixture(struct fixture *f, size_t threads, enum mt_dtype dtype)
{
    struct mt_error error = {0};
    json_t *keys = json_pack("{s:i, s:i, s:i, s:i}", "vocab_size", 700, "hidden_size", 72, "num_layers", 1,
                             "num_attention_heads", 4);
    f->pool = mt_pool_new(threads);
    mt_assert_ok(mt_device_open("cpu", &(struct mt_device_options){.pool = f->pool}, &f->device, &error),
                 &error);
    mt_assert_ok(mt_model_from_keys("llama", keys, &f->model, &error), &error);
    mt_assert_ok(mt_store_new(f->model, f->device, &(struct mt_store_options){.compute_dtype = dtype},
                              &f->store, &error),
                 &error);
    mt_assert_ok(mt_store_init(f->store, 5, f->pool, &error), &error);
    json_decref(keys);
    const size_t count = f->model->groups[1].train_count;
    f->gradient = malloc(count * sizeof *f->gradient);
    mt_random_normal_fill(11, 0, 0, 0.1f, f->gradient, count);
}

static void close_fixture(struct fixture *f)
{
    free(f->gradient);
    mt_store_free(f->store);
    mt_model_free(f->model);
    mt_device_close(f->device);
    mt_pool_free(f->pool);
}

static uint64_t updated_hash(size_t threads, enum mt_dtype dtype)
{
    struct fixture f;
    const struct mt_adamw adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};
    uint64_t hash = 1;
    open_fixture(&f, threads, dtype);
    for (uint64_t u = 1; u <= 4; u++)
        assert_true(mt_adamw_update(
            &adamw, &(struct mt_adamw_step){.learning_rate = 1e-3, .grad_scale = 0.3, .update = u}, f.store,
            1, f.gradient, f.pool));
    for (size_t i = 0; i < f.model->groups[1].num_parameters; i++) {
        const struct mt_parameter *p = &f.model->parameters[f.model->groups[1].first_parameter + i];
        float *values = malloc(p->count * sizeof *values);
        for (enum mt_store_part part = MT_STORE_MASTER; part <= MT_STORE_MOMENT2; part++) {
            assert_int_equal(mt_store_read(f.store, p, part, 0, p->count, values, NULL), 0);
            for (size_t k = 0; k < p->count; k++)
                hash = (hash ^ bits_of(values[k])) * 1099511628211u;
        }
        free(values);
    }
    close_fixture(&f);
    return hash;
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    assert_true(updated_hash(1, MT_F32) == updated_hash(3, MT_F32));
}

static void the_split_master_is_updated_in_full_precision(void **state)
{
    (void)state;
    assert_true(updated_hash(2, MT_F32) == updated_hash(2, MT_BF16));
}

static void one_dimensional_parameters_do_not_decay(void **state)
{
    (void)state;
    struct fixture f;
    const struct mt_adamw adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.5};
    open_fixture(&f, 1, MT_F32);
    memset(f.gradient, 0, f.model->groups[1].train_count * sizeof(float));
    const struct mt_parameter *norm = mt_model_find(f.model, "model.layers.0.input_layernorm.weight");
    const struct mt_parameter *q = mt_model_find(f.model, "model.layers.0.self_attn.q_proj.weight");
    float before[2], after[2];
    mt_store_read(f.store, norm, MT_STORE_MASTER, 3, 1, &before[0], NULL);
    mt_store_read(f.store, q, MT_STORE_MASTER, 3, 1, &before[1], NULL);
    mt_adamw_update(&adamw, &(struct mt_adamw_step){.learning_rate = 0.1, .grad_scale = 1, .update = 1},
                    f.store, 1, f.gradient, f.pool);
    mt_store_read(f.store, norm, MT_STORE_MASTER, 3, 1, &after[0], NULL);
    mt_store_read(f.store, q, MT_STORE_MASTER, 3, 1, &after[1], NULL);
    assert_true(after[0] == before[0]);
    assert_true(after[1] == before[1] * 0.95f);
    close_fixture(&f);
}

static void a_spoilt_master_is_told(void **state)
{
    (void)state;
    const struct mt_adamw adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    float master[3] = {1, 1, 1}, m[3] = {0}, v[3] = {0};
    const float gradient[3] = {1, NAN, 1};
    const struct mt_adamw_step step = {.learning_rate = 1e-3, .grad_scale = 1, .update = 1};
    assert_false(mt_adamw_pass(&adamw, &step, false, master, m, v, gradient, 3));
}

static void the_norm_on_the_host_is_exact_enough_and_the_same_for_every_thread_count(void **state)
{
    (void)state;
    const size_t count = 100003;
    float *values = malloc(count * sizeof *values);
    struct mt_pool *one = mt_pool_new(1), *three = mt_pool_new(3);
    double a, b, plain = 0;
    mt_random_normal_fill(1, 0, 0, 1, values, count);
    for (size_t i = 0; i < count; i++)
        plain += (double)values[i] * (double)values[i];
    assert_int_equal(mt_norm_sum_squares(values, count, one, &a), 0);
    assert_int_equal(mt_norm_sum_squares(values, count, three, &b), 0);
    assert_true(a == b && fabs(a - plain) < 1e-12 * plain);
    values[77777] = INFINITY;
    assert_int_equal(mt_norm_sum_squares(values, count, one, &a), 0);
    assert_true(isfinite(a) == 0);
    mt_pool_free(one);
    mt_pool_free(three);
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_and_master_have_torchs_bits),
        cmocka_unit_test(a_thousand_updates_of_a_hundred_thousandth_arrive),
        cmocka_unit_test(clip_factor_is_torchs),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(the_split_master_is_updated_in_full_precision),
        cmocka_unit_test(one_dimensional_parameters_do_not_decay),
        cmocka_unit_test(a_spoilt_master_is_told),
        cmocka_unit_test(the_norm_on_the_host_is_exact_enough_and_the_same_for_every_thread_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
