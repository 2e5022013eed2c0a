/* Slabs and their fp32 view; the split master over every pattern of 32 bits. */
#include "core/device/open.h"
#include "core/store/split.h"
#include "core/store/store.h"
#include "tests/unit/support.h"

#include <math.h>

/* Nearest bf16, ties away from zero, by the definition: the neighbour at the smaller distance. */
static void every_pattern_survives_and_each_high_half_is_the_nearest(void **state)
{
    (void)state;
    uint32_t lost = 0, far = 0;
    for (uint64_t n = 0; n < (uint64_t)1 << 32; n++) {
        const uint32_t bits = (uint32_t)n;
        const uint16_t high = mt_split_high(bits);
        lost += mt_split_join(high, mt_split_remainder(bits)) != bits;
        /* Below a finite value's lower 16 bits lie the two neighbours; patterns of one sign are ordered as
         * values. */
        const uint32_t low = bits & 0xffffu, up = low >= 0x8000u;
        const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
        far += finite && high != (uint16_t)((bits >> 16) + up);
    }
    assert_int_equal(lost, 0);
    assert_int_equal(far, 0);
}

static void beyond_bf16_the_high_half_is_infinite(void **state)
{
    (void)state;
    uint32_t bits;
    const float largest = 3.4028234e38f;
    memcpy(&bits, &largest, sizeof bits);
    assert_int_equal(mt_split_high(bits), 0x7f80);
}

struct fixture {
    struct mt_pool *pool;
    struct mt_device *device;
    struct mt_model *model;
    struct mt_store *store;
};

static void open_fixture(struct fixture *f, const struct mt_store_options *options, size_t threads,
                         uint64_t seed, const char *freeze)
{
    struct mt_error error = {0};
    json_t *keys = json_pack("{s:i, s:i, s:i, s:i}", "vocab_size", 301, "hidden_size", 40, "num_layers", 2,
                             "num_attention_heads", 4);
    f->pool = mt_pool_new(threads);
    mt_assert_ok(mt_device_open("cpu", &(struct mt_device_options){.pool = f->pool}, &f->device, &error),
                 &error);
    mt_assert_ok(mt_model_from_keys("llama", keys, &f->model, &error), &error);
    if (freeze)
        mt_assert_ok(mt_model_freeze(f->model, &freeze, 1, &error), &error);
    mt_assert_ok(mt_store_new(f->model, f->device, options, &f->store, &error), &error);
    mt_assert_ok(mt_store_init(f->store, seed, f->pool, &error), &error);
    json_decref(keys);
}

static void close_fixture(struct fixture *f)
{
    mt_store_free(f->store);
    mt_model_free(f->model);
    mt_device_close(f->device);
    mt_pool_free(f->pool);
}

static void initial_values_depend_on_seed_and_name_alone(void **state)
{
    (void)state;
    struct fixture a, b, c;
    open_fixture(&a, &(struct mt_store_options){.compute_dtype = MT_F32}, 1, 42, NULL);
    open_fixture(&b, &(struct mt_store_options){.compute_dtype = MT_BF16}, 3, 42, NULL);
    open_fixture(&c, &(struct mt_store_options){.compute_dtype = MT_F32}, 2, 43, NULL);
    double sum = 0, squares = 0;
    size_t total = 0, differ = 0;
    for (size_t i = 0; i < a.model->num_parameters; i++) {
        const struct mt_parameter *p = &a.model->parameters[i];
        float *x = malloc(p->count * sizeof *x), *y = malloc(p->count * sizeof *y),
              *z = malloc(p->count * sizeof *z);
        mt_store_read(a.store, p, MT_STORE_MASTER, 0, p->count, x, NULL);
        mt_store_read(b.store, &b.model->parameters[i], MT_STORE_MASTER, 0, p->count, y, NULL);
        mt_store_read(c.store, &c.model->parameters[i], MT_STORE_MASTER, 0, p->count, z, NULL);
        assert_memory_equal(x, y, p->count * sizeof *x);
        for (size_t k = 0; k < p->count; k++) {
            if (p->rank == 1)
                assert_true(x[k] == 1);
            sum += p->rank == 2 ? (double)x[k] : 0;
            squares += p->rank == 2 ? (double)x[k] * (double)x[k] : 0;
            differ += x[k] != z[k];
        }
        total += p->rank == 2 ? p->count : 0;
        free(x);
        free(y);
        free(z);
    }
    assert_true(fabs(sum / (double)total) < 5e-4);
    assert_true(fabs(sqrt(squares / (double)total) - 0.02) < 3e-4);
    assert_true(differ > total * 9 / 10);
    close_fixture(&a);
    close_fixture(&b);
    close_fixture(&c);
}

static void ranges_are_written_and_read_back(void **state)
{
    (void)state;
    const enum mt_dtype dtypes[] = {MT_F32, MT_BF16};
    for (size_t d = 0; d < 2; d++) {
        struct fixture f;
        struct mt_error error = {0};
        open_fixture(&f, &(struct mt_store_options){.compute_dtype = dtypes[d]}, 1, 1, NULL);
        const struct mt_parameter *p = mt_model_find(f.model, "model.layers.1.mlp.down_proj.weight");
        float in[5] = {1.2345678f, -3e-30f, 0, 7.5e20f, -1}, out[5], edge[2];
        for (enum mt_store_part part = MT_STORE_MASTER; part <= MT_STORE_GRADIENT; part++) {
            mt_assert_ok(mt_store_write(f.store, p, part, 17, 5, in, &error), &error);
            mt_assert_ok(mt_store_read(f.store, p, part, 17, 5, out, &error), &error);
            assert_memory_equal(in, out, sizeof in);
        }
        assert_int_equal(mt_store_read(f.store, p, MT_STORE_MASTER, p->count - 1, 2, edge, &error), -ERANGE);
        const float bad[] = {INFINITY, NAN};
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(mt_store_write(f.store, p, MT_STORE_MASTER, 0, 1, &bad[i], &error), -ERANGE);
            mt_assert_mentions(error.message, p->name);
        }
        const float beyond = 3.4028234e38f; /* fits fp32, not bf16 */
        assert_int_equal(mt_store_write(f.store, p, MT_STORE_MASTER, 0, 1, &beyond, &error),
                         dtypes[d] == MT_BF16 ? -ERANGE : 0);
        close_fixture(&f);
    }
}

static void what_travels_is_the_master_or_its_high_halves(void **state)
{
    (void)state;
    struct fixture f;
    size_t bytes;
    open_fixture(&f, &(struct mt_store_options){.compute_dtype = MT_BF16}, 1, 1, NULL);
    const uint16_t *source = mt_store_transfer_source(f.store, 1, &bytes);
    assert_int_equal(bytes, f.model->groups[1].count * 2);
    const struct mt_parameter *p = &f.model->parameters[f.model->groups[1].first_parameter + 2];
    float value;
    mt_store_read(f.store, p, MT_STORE_MASTER, 9, 1, &value, NULL);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    assert_int_equal(source[p->offset + 9], mt_split_high(bits));
    close_fixture(&f);
}

static void frozen_parameters_have_no_optimizer_state(void **state)
{
    (void)state;
    struct fixture f;
    struct mt_error error = {0};
    struct mt_store_bytes bytes;
    const struct mt_store_options options = {.compute_dtype = MT_F32};
    open_fixture(&f, &options, 1, 1, "model.layers.0.*");
    const struct mt_parameter *p = mt_model_find(f.model, "model.layers.0.mlp.up_proj.weight");
    float value;
    assert_true(p->frozen);
    assert_int_equal(mt_store_read(f.store, p, MT_STORE_MOMENT1, 0, 1, &value, &error), -ENODATA);
    mt_assert_ok(mt_store_read(f.store, p, MT_STORE_MASTER, 0, 1, &value, &error), &error);
    assert_int_equal(f.model->groups[1].train_count, 0);
    mt_store_count_bytes(f.model, &options, &bytes);
    size_t trained = 0, all = 0;
    for (size_t g = 0; g < f.model->num_groups; g++) {
        trained += f.model->groups[g].train_count;
        all += f.model->groups[g].count;
    }
    assert_int_equal(bytes.total, all * 4 + trained * 12);
    close_fixture(&f);
}

static void weights_alone_cost_four_bytes(void **state)
{
    (void)state;
    struct fixture f;
    struct mt_store_bytes bytes;
    const struct mt_store_options options = {.compute_dtype = MT_BF16, .weights_only = true};
    open_fixture(&f, &options, 1, 1, NULL);
    mt_store_count_bytes(f.model, &options, &bytes);
    assert_true(bytes.total < f.model->total_count * 5);
    assert_null(mt_store_slab(f.store, 1)->moment1);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_survives_and_each_high_half_is_the_nearest),
        cmocka_unit_test(beyond_bf16_the_high_half_is_infinite),
        cmocka_unit_test(initial_values_depend_on_seed_and_name_alone),
        cmocka_unit_test(ranges_are_written_and_read_back),
        cmocka_unit_test(what_travels_is_the_master_or_its_high_halves),
        cmocka_unit_test(frozen_parameters_have_no_optimizer_state),
        cmocka_unit_test(weights_alone_cost_four_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
