/* What only NVML tells: the driver's version and the PCIe link that card and slot allow. It comes with the
 * driver and is looked for at run time; the few declarations that are needed stand here, so that its header
 * need not be there.
 */
#include "gpu/cuda.h"

#include <dlfcn.h>
#include <stdio.h>

typedef void *nvml_device;

static struct {
    int (*init)(void);
    int (*system_driver)(char *version, unsigned length);
    int (*by_bus)(const char *bus_id, nvml_device *device);
    int (*link_generation)(nvml_device device, unsigned *generation);
    int (*link_width)(nvml_device device, unsigned *width);
    bool works;
} nvml;

template <typename function> static bool find(void *library, const char *name, function *place)
{
    *place = reinterpret_cast<function>(dlsym(library, name));
    return *place != NULL;
}

static void load_nvml(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml.works = library && find(library, "nvmlInit_v2", &nvml.init) &&
                 find(library, "nvmlSystemGetDriverVersion", &nvml.system_driver) &&
                 find(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.by_bus) &&
                 find(library, "nvmlDeviceGetMaxPcieLinkGeneration", &nvml.link_generation) &&
                 find(library, "nvmlDeviceGetMaxPcieLinkWidth", &nvml.link_width) && nvml.init() == 0;
}

static bool nvml_works(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_nvml);
    return nvml.works;
}

/* The largest that card and slot allow: an idle card trains its link down to save power. */
void mt_cuda_nvml_link(const char *bus_id, int *generation, int *width)
{
    nvml_device device;
    unsigned g = 0, w = 0;
    *generation = *width = 0;
    if (!nvml_works() || nvml.by_bus(bus_id, &device) || nvml.link_generation(device, &g) ||
        nvml.link_width(device, &w))
        return;
    *generation = static_cast<int>(g);
    *width = static_cast<int>(w);
}

void mt_cuda_nvml_driver(char *text, size_t bytes)
{
    if (!nvml_works() || nvml.system_driver(text, static_cast<unsigned>(bytes)))
        *text = '\0';
}
