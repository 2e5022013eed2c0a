/* Opening a CUDA device, and the table of its functions. */
#include "gpu/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static thread_local int current = -1;

/* By itself the runtime lets waiting threads spin where there are enough cores. Here the updates run on these
 * cores while the step's thread waits, for milliseconds at a time, beside which a wake-up of some
 * microseconds is nothing. The context must be made so; later calls find it. */
static cudaError_t make_context(int index)
{
    static int made[64]; /* atomic */
    const bool known = index >= 0 && index < 64;
    if (known && __atomic_load_n(&made[index], __ATOMIC_RELAXED))
        return cudaSuccess;
    const cudaError_t result =
        cudaInitDevice(index, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid);
    if (known && result == cudaSuccess)
        __atomic_store_n(&made[index], 1, __ATOMIC_RELAXED);
    return result;
}

cudaError_t mt_cuda_choose(int index)
{
    if (current == index)
        return cudaSuccess;
    cudaError_t result = make_context(index);
    if (result == cudaSuccess)
        result = cudaSetDevice(index);
    current = result == cudaSuccess ? index : -1;
    return result;
}

int mt_cuda_enter(struct mt_cuda_device *device)
{
    return mt_cuda_check(device, mt_cuda_choose(device->index), "choosing the device");
}

static void device_info(struct mt_device *base, struct mt_device_info *info)
{
    struct mt_cuda_device *device = mt_cuda_of(base);
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "%s", device->name);
    snprintf(info->kind, sizeof info->kind, "cuda");
    snprintf(info->id, sizeof info->id, "cuda:%d", device->index);
    snprintf(info->kernel_set, sizeof info->kernel_set, "%s", device->kernel_set);
    info->total_bytes =
        device->limit_bytes ? mt_size_min(device->limit_bytes, device->total_bytes) : device->total_bytes;
    info->free_bytes = mt_cuda_free_bytes(device);
    pthread_mutex_lock(&device->lock);
    info->own_bytes = device->own_bytes;
    pthread_mutex_unlock(&device->lock);
    info->supports_bf16 = true;
}

static void device_close(struct mt_device *base)
{
    struct mt_cuda_device *device = mt_cuda_of(base);
    mt_cuda_enter(device);
    mt_cuda_memory_free(device);
    if (device->fault_word)
        cudaFreeHost(const_cast<unsigned long long *>(device->fault_word));
    pthread_mutex_destroy(&device->lock);
    free(device);
}

/* Other kernels, other bits: what stands in checkpoints. */
static void name_kernels(struct mt_cuda_device *device)
{
    const int version = static_cast<int>(cublasLtGetVersion());
    snprintf(device->kernel_set, sizeof device->kernel_set, "cuda-sm%d cuBLAS-%d.%d.%d", device->capability,
             version / 10000, version % 10000 / 100, version % 100);
}

static int set_up(struct mt_cuda_device *device, struct mt_error *error)
{
    void *word = NULL;
    size_t available = 0;
    int code = mt_cuda_enter(device);
    if (!code)
        code = mt_cuda_check(device, cudaMemGetInfo(&available, &device->total_bytes), "opening the device");
    if (code)
        return mt_cuda_report(device, error);
    const cudaError_t result =
        cudaHostAlloc(&word, sizeof *device->fault_word, cudaHostAllocMapped | cudaHostAllocPortable);
    if (result != cudaSuccess) { /* not the GPU's memory */
        cudaGetLastError();
        return mt_cuda_error(
            error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
            "cuda:%d: no pinned host memory can be had (%s): see that the host's memory is not all "
            "in use, nor a limit on it (a container's, or LimitMEMLOCK) met",
            device->index, cudaGetErrorName(result));
    }
    device->fault_word = static_cast<volatile unsigned long long *>(word);
    *device->fault_word = 0;
    device->code_bytes = mt_cuda_code_bytes(device->total_bytes);
    device->blas_bytes = mt_cuda_blas_bytes(device->total_bytes, device->limit_bytes);
    struct mt_cuda_scratch *scratch = mt_cuda_scratch_take(device, error);
    if (!scratch)
        return error ? error->code : -ENOMEM;
    mt_cuda_scratch_give(device, scratch);
    return 0;
}

int mt_cuda_open(int index, const struct mt_cuda_open_options *options, struct mt_device **device_out,
                 struct mt_error *error)
{
    struct mt_cuda_device_description description;
    struct mt_error own;
    error = error ? error : &own;
    *device_out = NULL;
    int code = mt_cuda_describe(index, &description, error);
    if (code)
        return code;
    if (description.unusable[0])
        return mt_cuda_error(error, description.unusable_for == MT_REASON_OUT_OF_MEMORY ? -ENOMEM : -ENODEV,
                             description.unusable_for, "cuda:%d (%s) cannot be used: %s", index,
                             description.name, description.unusable);
    struct mt_cuda_device *device = static_cast<struct mt_cuda_device *>(calloc(1, sizeof *device));
    if (!device)
        return mt_cuda_error(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the device");
    device->base.api = &mt_cuda_device_api;
    device->index = index;
    device->capability = description.capability;
    if (options) {
        device->limit_bytes = options->memory_limit_bytes;
        device->note = options->note;
        device->note_context = options->note_context;
    }
    memcpy(device->name, description.name, sizeof device->name);
    pthread_mutex_init(&device->lock, NULL);
    name_kernels(device);
    code = set_up(device, error);
    if (code) {
        device_close(&device->base);
        return code;
    }
    *device_out = &device->base;
    return 0;
}

static struct mt_device_api make_api(void)
{
    struct mt_device_api api = {};
    api.version = MT_DEVICE_API_VERSION;
    api.info = device_info;
    api.close = device_close;
    api.last_error = mt_cuda_last_error;
    api.allocate = mt_cuda_allocate;
    api.release = mt_cuda_release;
    api.host_allocate = mt_cuda_host_allocate;
    api.host_release = mt_cuda_host_release;
    api.stream_create = mt_cuda_stream_create;
    api.stream_destroy = mt_cuda_stream_destroy;
    api.stream_synchronize = mt_cuda_stream_synchronize;
    api.stream_host_function = mt_cuda_stream_host_function;
    api.event_create = mt_cuda_event_create;
    api.event_destroy = mt_cuda_event_destroy;
    api.event_record = mt_cuda_event_record;
    api.event_wait = mt_cuda_event_wait;
    api.event_synchronize = mt_cuda_event_synchronize;
    api.copy_to_device = mt_cuda_copy_to_device;
    api.copy_to_host = mt_cuda_copy_to_host;
    api.copy = mt_cuda_copy;
    api.fill_zero = mt_cuda_fill_zero;
    api.embedding = mt_cuda_embedding;
    api.embedding_backward = mt_cuda_embedding_backward;
    api.rms_norm = mt_cuda_rms_norm;
    api.rms_norm_backward = mt_cuda_rms_norm_backward;
    api.linear = mt_cuda_linear;
    api.linear_backward_input = mt_cuda_linear_backward_input;
    api.linear_backward_weight = mt_cuda_linear_backward_weight;
    api.rope = mt_cuda_rope;
    api.attention_workspace_bytes = mt_cuda_attention_workspace_bytes;
    api.attention = mt_cuda_attention;
    api.attention_backward = mt_cuda_attention_backward;
    api.gated_activation = mt_cuda_gated_activation;
    api.gated_activation_backward = mt_cuda_gated_activation_backward;
    api.add = mt_cuda_add;
    api.xielu = mt_cuda_xielu;
    api.xielu_backward = mt_cuda_xielu_backward;
    api.clip = mt_cuda_clip;
    api.cross_entropy_statistics = mt_cuda_cross_entropy_statistics;
    api.cross_entropy_finish = mt_cuda_cross_entropy_finish;
    api.cross_entropy_backward = mt_cuda_cross_entropy_backward;
    api.sum_squares = mt_cuda_sum_squares;
    api.cast = mt_cuda_cast;
    return api;
}

const struct mt_device_api mt_cuda_device_api = make_api();
