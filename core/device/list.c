#include "core/device/list.h"

#include "core/device/cpu/device.h"
#include "core/device/module.h"

#include <stdio.h>

static json_t *cpu(void)
{
    struct mt_device *device;
    struct mt_device_info info;
    if (mt_cpu_device_open(false, NULL, &device, NULL))
        return NULL;
    device->api->info(device, &info);
    mt_device_close(device);
    return json_pack("{s:s, s:s, s:s, s:b, s:n, s:I, s:I}", "id", info.id, "kind", info.kind, "name",
                     info.name, "usable", 1, "reason", "total_bytes", (json_int_t)info.total_bytes,
                     "free_bytes", (json_int_t)info.free_bytes);
}

static json_t *peers_of(uint64_t peers)
{
    json_t *list = json_array();
    for (int i = 0; i < 64; i++)
        if (peers >> i & 1)
            json_array_append_new(list, json_sprintf("cuda:%d", i));
    return list;
}

static json_t *cuda(const struct mt_cuda_module *module, int index)
{
    struct mt_cuda_device_description d;
    struct mt_error error = {0};
    if (module->describe(index, &d, &error))
        return json_pack("{s:o, s:s, s:s, s:b, s:s}", "id", json_sprintf("cuda:%d", index), "kind", "cuda",
                         "name", "?", "usable", 0, "reason", error.message);
    json_t *device = json_pack("{s:s, s:s, s:s, s:b, s:s?, s:I, s:I, s:o, s:i, s:i, s:s, s:o, s:b}", "id",
                               d.id, "kind", "cuda", "name", d.name, "usable", !d.unusable[0], "reason",
                               d.unusable[0] ? d.unusable : NULL, "total_bytes", (json_int_t)d.total_bytes,
                               "free_bytes", (json_int_t)d.free_bytes, "compute_capability",
                               json_sprintf("%d.%d", d.capability / 10, d.capability % 10), "multiprocessors",
                               d.multiprocessors, "memory_bus_bits", d.memory_bus_bits, "bus_id", d.bus_id,
                               "peers", peers_of(d.peers), "simulated", module->simulated);
    json_t *link = d.link_generation
                       ? json_pack("{s:i, s:i}", "generation", d.link_generation, "lanes", d.link_width)
                       : json_null();
    json_object_set_new(device, "pcie", link);
    return device;
}

json_t *mt_device_list(void)
{
    const struct mt_cuda_module *module;
    struct mt_error error = {0};
    char versions[256] = "";
    int count = 0;
    json_t *devices = json_array();
    json_array_append_new(devices, cpu());
    int code = mt_cuda_module_load(&module, &error);
    if (!code) {
        module->versions(versions, sizeof versions);
        code = module->count(&count, &error);
    }
    for (int i = 0; i < count; i++)
        json_array_append_new(devices, cuda(module, i));
    return json_pack("{s:o, s:b, s:n, s:{s:s?, s:s?}}", "data", devices, "has_more", 0, "next", "cuda",
                     "versions", *versions ? versions : NULL, "unavailable", code ? error.message : NULL);
}
