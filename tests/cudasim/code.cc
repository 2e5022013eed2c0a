/* The code of kernels. A module has some for the devices that it was built for, and the driver brings a
 * kernel's to the device when it is launched first (lazy loading, which is CUDA's usual way): that takes
 * memory of the device in the middle of the work, and fails where none is left.
 */
#include "tests/cudasim/sim.h"

#include <set>
#include <utility>

static struct sim_lock lock;
static std::set<std::pair<int, const void *>> *loaded; /* never destroyed: streams may outlive main */

/* All devices are of one kind. */
static cudaError_t code_is_there(void)
{
    const struct sim_settings *settings = sim_env();
    return settings->compute_major * 10 + settings->compute_minor < settings->code_capability
               ? cudaErrorNoKernelImageForDevice
               : cudaSuccess;
}

cudaError_t sim_code_load(int device, const void *function, const char *name)
{
    cudaError_t error = code_is_there();
    if (error)
        return error;
    const struct sim_unseen unseen;
    sim_take(&lock);
    if (!loaded)
        loaded = new std::set<std::pair<int, const void *>>();
    const std::pair<int, const void *> code(device, function);
    if (!loaded->count(code)) {
        if (sim_memory_take(device, sim_env()->code_bytes))
            loaded->insert(code);
        else
            error = cudaErrorMemoryAllocation;
    }
    sim_give(&lock);
    if (error)
        sim_report("%s: no memory of the device is left for its code (%zu bytes)", name,
                   sim_env()->code_bytes);
    return error;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    int injected;
    if (sim_ready())
        return sim_error(sim_ready());
    if (sim_injected("cudaFuncGetAttributes", cudaErrorInvalidDeviceFunction, &injected))
        return sim_error((cudaError_t)injected);
    if (!attributes || !function)
        return sim_error(cudaErrorInvalidValue);
    const cudaError_t error = code_is_there();
    if (error)
        return sim_error(error);
    const struct sim_settings *settings = sim_env();
    *attributes = {1024, settings->compute_major * 10 + settings->compute_minor};
    return cudaSuccess;
}
