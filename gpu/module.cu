/* The module's one exported symbol, and the list of devices. */
#include "gpu/cuda.h"

#include <stdio.h>
#include <string.h>

/* Before this there are no bf16 matrix products. */
#define LOWEST_CAPABILITY 80

struct mt_cuda_module_host mt_cuda_host;

int mt_cuda_count(int *devices, struct mt_error *error)
{
    *devices = 0;
    const cudaError_t result = cudaGetDeviceCount(devices);
    if (result == cudaSuccess)
        return 0;
    cudaGetLastError();
    *devices = 0;
    const char *advice = mt_cuda_advice(result);
    const bool memory = result == cudaErrorMemoryAllocation;
    return mt_cuda_error(error, memory ? -ENOMEM : -ENODEV,
                         memory ? MT_REASON_OUT_OF_MEMORY : MT_REASON_DEVICE,
                         "no CUDA device can be used: %s (%s)%s%s", cudaGetErrorString(result),
                         cudaGetErrorName(result), *advice ? "; " : "", advice);
}

static int attribute(int index, cudaDeviceAttr what)
{
    int value = 0;
    if (cudaDeviceGetAttribute(&value, what, index) != cudaSuccess)
        cudaGetLastError();
    return value;
}

static void find_peers(int index, int devices, struct mt_cuda_device_description *description)
{
    for (int other = 0; other < devices && other < 64; other++) {
        int reaches = 0;
        if (other == index)
            continue;
        if (cudaDeviceCanAccessPeer(&reaches, index, other) != cudaSuccess)
            cudaGetLastError();
        else if (reaches)
            description->peers |= (uint64_t)1 << other;
    }
}

/* Never launched: the driver is asked whether the module has code for a device, or PTX that it compiles. */
static __global__ void code_probe(void)
{
}

/* Makes the device's context, and looks whether kernels can run there. */
static cudaError_t try_device(int index, size_t *free_bytes)
{
    size_t total;
    cudaFuncAttributes attributes;
    cudaError_t result = mt_cuda_choose(index);
    if (result == cudaSuccess)
        result = cudaMemGetInfo(free_bytes, &total);
    if (result == cudaSuccess)
        result = cudaFuncGetAttributes(&attributes, code_probe);
    if (result != cudaSuccess)
        cudaGetLastError();
    return result;
}

int mt_cuda_describe(int index, struct mt_cuda_device_description *description, struct mt_error *error)
{
    int devices;
    memset(description, 0, sizeof *description);
    const int code = mt_cuda_count(&devices, error);
    if (code)
        return code;
    if (index < 0 || index >= devices)
        return mt_cuda_error(error, -ENODEV, MT_REASON_DEVICE,
                             "there is no device cuda:%d: this machine has %d (cuda:0 is the first)", index,
                             devices);
    cudaDeviceProp properties;
    cudaError_t result = cudaGetDeviceProperties(&properties, index);
    if (result != cudaSuccess) {
        cudaGetLastError();
        const char *advice = mt_cuda_advice(result);
        return mt_cuda_error(error, -ENODEV, MT_REASON_DEVICE, "cuda:%d does not answer: %s%s%s", index,
                             cudaGetErrorString(result), *advice ? "; " : "", advice);
    }
    snprintf(description->id, sizeof description->id, "cuda:%d", index);
    snprintf(description->name, sizeof description->name, "%.*s", (int)sizeof description->name - 1,
             properties.name);
    description->capability = properties.major * 10 + properties.minor;
    description->multiprocessors = properties.multiProcessorCount;
    description->total_bytes = properties.totalGlobalMem;
    description->memory_bus_bits = attribute(index, cudaDevAttrGlobalMemoryBusWidth);
    if (cudaDeviceGetPCIBusId(description->bus_id, sizeof description->bus_id, index) != cudaSuccess)
        cudaGetLastError();
    mt_cuda_nvml_link(description->bus_id, &description->link_generation, &description->link_width);
    find_peers(index, devices, description);
    description->unusable_for = MT_REASON_DEVICE;
    if (description->capability < LOWEST_CAPABILITY) {
        snprintf(description->unusable, sizeof description->unusable,
                 "its compute capability is %d.%d, and bf16 matrix products need 8.0 (Ampere) or later: use "
                 "another GPU, or device: cpu",
                 properties.major, properties.minor);
        return 0;
    }
    result = try_device(index, &description->free_bytes);
    if (result == cudaErrorMemoryAllocation)
        description->unusable_for = MT_REASON_OUT_OF_MEMORY;
    if (result != cudaSuccess) {
        const char *advice = mt_cuda_advice(result);
        snprintf(description->unusable, sizeof description->unusable, "%s%s%s", cudaGetErrorString(result),
                 *advice ? "; " : "", advice);
    }
    return 0;
}

void mt_cuda_versions(char *text, size_t bytes)
{
    int driver = 0, runtime = 0;
    char release[96];
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    mt_cuda_nvml_driver(release, sizeof release);
    const int blas = static_cast<int>(cublasLtGetVersion());
    snprintf(text, bytes, "CUDA driver %d.%d%s%s%s, runtime %d.%d, cuBLAS %d.%d.%d", driver / 1000,
             driver % 1000 / 10, *release ? " (" : "", release, *release ? ")" : "", runtime / 1000,
             runtime % 1000 / 10, blas / 10000, blas % 10000 / 100, blas % 100);
}

extern "C" __attribute__((visibility("default"))) const struct mt_cuda_module *
mt_cuda_module_entry(const struct mt_cuda_module_host *host)
{
    static struct mt_cuda_module module;
    if (host->version != MT_CUDA_MODULE_VERSION || host->interface != MT_CUDA_MODULE_INTERFACE)
        return NULL;
    mt_cuda_host = *host;
    module.version = MT_CUDA_MODULE_VERSION;
    module.interface = MT_CUDA_MODULE_INTERFACE;
#if !defined(__CUDACC__)
    module.simulated = true;
#endif
    module.count = mt_cuda_count;
    module.describe = mt_cuda_describe;
    module.open = mt_cuda_open;
    module.versions = mt_cuda_versions;
    module.collective = &mt_cuda_collective_api;
    return &module;
}
