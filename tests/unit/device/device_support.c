#include "tests/unit/device/device_support.h"

#include "core/base/random.h"

struct rig rig_open(const char *device, size_t threads)
{
    struct rig rig = {.pool = mt_pool_new(threads)};
    assert_non_null(rig.pool);
    struct mt_error error;
    const struct mt_device_options options = {.pool = rig.pool, .memory_limit_bytes = (size_t)256 << 20};
    assert_int_equal(mt_device_open(device, &options, &rig.device, &error), 0);
    rig.api = rig.device->api;
    assert_int_equal(rig.api->stream_create(rig.device, "test", &rig.stream, &error), 0);
    return rig;
}

struct rig rig_of_test(size_t threads)
{
    return rig_open(getenv("MEGATRAIN_CUDA_MODULE") ? "cuda" : "cpu", threads);
}

void rig_close(struct rig *rig)
{
    rig->api->stream_destroy(rig->stream);
    mt_device_close(rig->device);
    mt_pool_free(rig->pool);
}

void rig_wait(struct rig *rig)
{
    struct mt_error error;
    if (rig->api->stream_synchronize(rig->stream, &error))
        fail_msg("the device failed: %s", error.message);
}

static double rounded(double value, enum mt_dtype dtype)
{
    const float narrow = (float)value;
    return dtype == MT_BF16 ? (double)mt_bf16_to_float(mt_bf16_from_float(narrow)) : (double)narrow;
}

static struct tensor tensor_new(struct rig *rig, enum mt_dtype dtype, size_t count)
{
    struct tensor tensor = {.rig = rig, .dtype = dtype, .count = count};
    struct mt_error error;
    tensor.v = calloc(count ? count : 1, sizeof(double));
    assert_non_null(tensor.v);
    assert_int_equal(rig->api->allocate(rig->device, count * mt_dtype_bytes(dtype), &tensor.at, &error), 0);
    return tensor;
}

struct tensor tensor_random(struct rig *rig, enum mt_dtype dtype, size_t count, double scale, uint64_t seed)
{
    struct tensor tensor = tensor_new(rig, dtype, count);
    for (size_t i = 0; i < count; i++)
        tensor.v[i] = rounded(scale * (double)mt_random_normal_at(seed, i), dtype);
    tensor_push(&tensor);
    return tensor;
}

struct tensor tensor_empty(struct rig *rig, enum mt_dtype dtype, size_t count)
{
    struct tensor tensor = tensor_new(rig, dtype, count);
    for (size_t i = 0; i < count; i++)
        tensor.v[i] = dtype == MT_I32 ? 0 : NAN;
    tensor_push(&tensor);
    return tensor;
}

struct tensor tensor_of(struct rig *rig, enum mt_dtype dtype, const double *values, size_t count)
{
    struct tensor tensor = tensor_new(rig, dtype, count);
    memcpy(tensor.v, values, count * sizeof *values);
    tensor_push(&tensor);
    return tensor;
}

struct tensor tensor_ints(struct rig *rig, const int32_t *values, size_t count)
{
    struct tensor tensor = tensor_new(rig, MT_I32, count);
    for (size_t i = 0; i < count; i++)
        tensor.v[i] = values[i];
    tensor_push(&tensor);
    return tensor;
}

void tensor_push(struct tensor *tensor)
{
    const size_t element = mt_dtype_bytes(tensor->dtype);
    const struct mt_device_api *api = tensor->rig->api;
    char *raw; /* of the device's kind: pinned where that is one */
    assert_int_equal(
        api->host_allocate(tensor->rig->device, tensor->count * element + 1, (void **)&raw, NULL, NULL), 0);
    for (size_t i = 0; i < tensor->count; i++) {
        const float wide = (float)tensor->v[i];
        const uint16_t narrow = mt_bf16_from_float(wide);
        const int32_t whole = tensor->dtype == MT_I32 ? (int32_t)tensor->v[i] : 0;
        const void *from = tensor->dtype == MT_F32    ? (const void *)&wide
                           : tensor->dtype == MT_BF16 ? (const void *)&narrow
                           : tensor->dtype == MT_F64  ? (const void *)&tensor->v[i]
                                                      : (const void *)&whole;
        memcpy(raw + i * element, from, element);
    }
    assert_int_equal(api->copy_to_device(tensor->rig->stream, tensor->at, raw, tensor->count * element), 0);
    rig_wait(tensor->rig);
    api->host_release(tensor->rig->device, raw);
}

unsigned char *tensor_bytes(struct tensor *tensor)
{
    const size_t bytes = tensor->count * mt_dtype_bytes(tensor->dtype);
    const struct mt_device_api *api = tensor->rig->api;
    unsigned char *raw = malloc(bytes + 1), *pinned;
    assert_non_null(raw);
    assert_int_equal(api->host_allocate(tensor->rig->device, bytes + 1, (void **)&pinned, NULL, NULL), 0);
    assert_int_equal(api->copy_to_host(tensor->rig->stream, pinned, tensor->at, bytes), 0);
    rig_wait(tensor->rig);
    memcpy(raw, pinned, bytes);
    api->host_release(tensor->rig->device, pinned);
    return raw;
}

void tensor_pull(struct tensor *tensor)
{
    unsigned char *raw = tensor_bytes(tensor);
    for (size_t i = 0; i < tensor->count; i++) {
        float wide;
        uint16_t narrow;
        int32_t whole;
        const unsigned char *from = raw + i * mt_dtype_bytes(tensor->dtype);
        switch (tensor->dtype) {
        case MT_F32:
            memcpy(&wide, from, sizeof wide);
            tensor->v[i] = (double)wide;
            break;
        case MT_BF16:
            memcpy(&narrow, from, sizeof narrow);
            tensor->v[i] = (double)mt_bf16_to_float(narrow);
            break;
        case MT_F64:
            memcpy(&tensor->v[i], from, sizeof(double));
            break;
        default:
            memcpy(&whole, from, sizeof whole);
            tensor->v[i] = whole;
        }
    }
    free(raw);
}

void tensor_free(struct tensor *tensor)
{
    tensor->rig->api->release(tensor->rig->device, tensor->at);
    free(tensor->v);
}

void expect_close_at(struct tensor *got, const double *want, double tolerance, const char *what,
                     const char *file, int line)
{
    tensor_pull(got);
    double largest = 0.05, worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < got->count; i++) {
        largest = fmax(largest, fabs(want[i]));
        const double off = fabs(got->v[i] - want[i]);
        if (!(off <= worst)) {
            worst = off;
            where = i;
        }
    }
    if (!(worst <= tolerance * largest)) {
        print_error(
            "%s: element %zu of %zu is %.9g, should be %.9g (off by %.3g of the largest, %.3g allowed)\n",
            what, where, got->count, got->v[where], want[where], worst / largest, tolerance);
        _fail(file, line);
    }
}

double *finite_differences(double (*loss)(void *context), void *context, double *x, size_t count)
{
    double *gradient = calloc(count ? count : 1, sizeof *gradient);
    assert_non_null(gradient);
    for (size_t i = 0; i < count; i++) {
        const double keep = x[i], step = 1e-5 * fmax(1, fabs(keep));
        x[i] = keep + step;
        const double above = loss(context);
        x[i] = keep - step;
        const double below = loss(context);
        x[i] = keep;
        gradient[i] = (above - below) / (2 * step);
    }
    return gradient;
}

void on_every_device(void (*body)(struct rig *rig, enum mt_dtype dtype))
{
    static const char *const devices[] = {"cpu", "cpu-discrete", "cuda"};
    static const enum mt_dtype dtypes[] = {MT_F32, MT_BF16};
    /* Where a CUDA module is named, its turn; where none is, the others'. */
    const bool cuda = getenv("MEGATRAIN_CUDA_MODULE") != NULL;
    for (size_t i = cuda ? 4 : 0; i < (cuda ? 6 : 4); i++) {
        struct rig rig = rig_open(devices[i / 2], 2);
        body(&rig, dtypes[i % 2]);
        rig_close(&rig);
    }
}

void same_bits_for_any_threads(unsigned char *(*body)(struct rig *rig, size_t *bytes))
{
    unsigned char *first = NULL;
    size_t first_bytes = 0;
    for (size_t threads = 1; threads <= 3; threads++) {
        struct rig rig = rig_open("cpu", threads);
        size_t bytes;
        unsigned char *result = body(&rig, &bytes);
        rig_close(&rig);
        if (threads == 1) {
            first = result;
            first_bytes = bytes;
            continue;
        }
        assert_int_equal(bytes, first_bytes);
        assert_memory_equal(result, first, bytes);
        free(result);
    }
    free(first);
}
