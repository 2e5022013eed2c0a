/* The devices and what they say of themselves. */
#include "tests/cudasim/sim.h"

#include <stdio.h>
#include <string.h>

static __thread int current_device;
static uint32_t peers[SIM_MAX_DEVICES];     /* bit p of peers[d]: d reaches p */
static uint32_t schedules[SIM_MAX_DEVICES]; /* how threads wait for it: cudaDeviceSchedule... */

#define SHARED_PER_BLOCK ((size_t)48 << 10)
#define SHARED_PER_BLOCK_OPTIN ((size_t)99 << 10) /* what all of sm_80 to sm_120 have */
#define SHARED_PER_MULTIPROCESSOR ((size_t)100 << 10)
#define MULTIPROCESSORS 16

int sim_current_device(void)
{
    return current_device;
}

cudaError_t sim_ready(void)
{
    if (sim_env()->driver_version < CUDART_VERSION)
        return cudaErrorInsufficientDriver;
    if (!sim_env()->devices)
        return cudaErrorNoDevice;
    return sim_host_function_calls("a call of CUDA") ? cudaErrorNotPermitted : sim_sticky();
}

static bool is_device(int device)
{
    return device >= 0 && device < sim_env()->devices;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = sim_env()->driver_version;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    int injected;
    *count = 0;
    if (sim_injected("cudaGetDeviceCount", cudaErrorUnknown, &injected))
        return sim_error((cudaError_t)injected);
    if (sim_env()->driver_version < CUDART_VERSION)
        return sim_error(cudaErrorInsufficientDriver);
    *count = sim_env()->devices;
    return *count ? cudaSuccess : sim_error(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    const cudaError_t error = sim_ready();
    if (error)
        return sim_error(error);
    int injected;
    if (sim_injected("cudaSetDevice", cudaErrorDevicesUnavailable, &injected))
        return sim_error((cudaError_t)injected);
    if (!is_device(device))
        return sim_error(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}

bool sim_waits_sleep(int device)
{
    return __atomic_load_n(&schedules[device], __ATOMIC_RELAXED) == cudaDeviceScheduleBlockingSync;
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    const cudaError_t error = sim_ready();
    if (error || !is_device(device))
        return sim_error(error ? error : cudaErrorInvalidDevice);
    int injected;
    if (sim_injected("cudaInitDevice", cudaErrorMemoryAllocation, &injected))
        return sim_error((cudaError_t)injected);
    if (flags == cudaInitDeviceFlagsAreValid)
        __atomic_store_n(&schedules[device], device_flags, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    const cudaError_t error = sim_ready();
    if (!error)
        __atomic_store_n(&schedules[current_device], flags, __ATOMIC_RELAXED);
    return sim_error(error);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return sim_error(sim_ready());
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    const struct sim_settings *settings = sim_env();
    if (settings->driver_version < CUDART_VERSION)
        return sim_error(cudaErrorInsufficientDriver);
    if (!is_device(device))
        return sim_error(cudaErrorInvalidDevice);
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "Simulated CUDA device");
    memcpy(properties->uuid.bytes, "cudasim", 7);
    properties->uuid.bytes[15] = (char)device;
    properties->totalGlobalMem = settings->memory_bytes;
    properties->sharedMemPerBlock = SHARED_PER_BLOCK;
    properties->sharedMemPerBlockOptin = SHARED_PER_BLOCK_OPTIN;
    properties->sharedMemPerMultiprocessor = SHARED_PER_MULTIPROCESSOR;
    properties->reservedSharedMemPerBlock = 1024;
    properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
    properties->maxThreadsDim[2] = 64;
    properties->maxGridSize[0] = INT32_MAX;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->totalConstMem = 65536;
    properties->major = settings->compute_major;
    properties->minor = settings->compute_minor;
    properties->multiProcessorCount = MULTIPROCESSORS;
    properties->canMapHostMemory = properties->unifiedAddressing = properties->concurrentKernels = 1;
    properties->asyncEngineCount = 2;
    properties->pciBusID = device + 1;
    properties->memoryBusWidth = 256;
    properties->l2CacheSize = 4 << 20;
    properties->maxThreadsPerMultiProcessor = 1536;
    properties->maxBlocksPerMultiProcessor = 16;
    properties->streamPrioritiesSupported = properties->hostRegisterSupported = 1;
    properties->memoryPoolsSupported = 1;
    properties->hostNumaId = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error)
        return error;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = properties.maxThreadsPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)properties.sharedMemPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)properties.sharedMemPerBlockOptin;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)properties.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrWarpSize:
        *value = properties.warpSize;
        break;
    case cudaDevAttrClockRate:
        *value = 1000000;
        break;
    case cudaDevAttrMemoryClockRate:
        *value = 1000000;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = properties.memoryBusWidth;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = properties.multiProcessorCount;
        break;
    case cudaDevAttrL2CacheSize:
        *value = properties.l2CacheSize;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = properties.maxThreadsPerMultiProcessor;
        break;
    case cudaDevAttrAsyncEngineCount:
        *value = properties.asyncEngineCount;
        break;
    case cudaDevAttrPciBusId:
        *value = properties.pciBusID;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = properties.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = properties.minor;
        break;
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
        *value = 1;
        break;
    case cudaDevAttrHostNumaId:
    case cudaDevAttrIntegrated:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrPageableMemoryAccess:
        *value = 0;
        break;
    default:
        sim_report("cudaDeviceGetAttribute: attribute %d is not simulated", (int)attribute);
        return sim_error(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    if (!text || length < 13 || !is_device(device))
        return sim_error(cudaErrorInvalidValue);
    snprintf(text, (size_t)length, "0000:%02X:00.0", (unsigned)device + 1);
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    return sim_error(cudaDeviceSynchronize());
}

/* ---- peers: copies reach every device, kernels need the leave, which is only kept account of ---- */

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (!can || !is_device(device) || !is_device(peer))
        return sim_error(cudaErrorInvalidDevice);
    *can = device != peer;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    if (!is_device(peer) || peer == current_device || flags)
        return sim_error(cudaErrorInvalidDevice);
    const uint32_t bit = 1u << peer;
    const uint32_t before = __atomic_fetch_or(&peers[current_device], bit, __ATOMIC_RELAXED);
    return before & bit ? sim_error(cudaErrorPeerAccessAlreadyEnabled) : cudaSuccess;
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    if (!is_device(peer))
        return sim_error(cudaErrorInvalidDevice);
    const uint32_t bit = 1u << peer;
    const uint32_t before = __atomic_fetch_and(&peers[current_device], ~bit, __ATOMIC_RELAXED);
    return before & bit ? cudaSuccess : sim_error(cudaErrorPeerAccessNotEnabled);
}
