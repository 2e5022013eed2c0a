/* Devices by name. */
#include "core/device/open.h"

#include "core/device/cpu/device.h"
#include "core/device/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_index(const struct mt_cuda_module *module, int index, const struct mt_device_options *options,
                      struct mt_device **device, struct mt_error *error)
{
    struct mt_cuda_open_options cuda = {0};
    if (options) {
        cuda.memory_limit_bytes = options->memory_limit_bytes;
        cuda.note = options->note;
        cuda.note_context = options->note_context;
    }
    return module->open(index, &cuda, device, error);
}

/* The first that can be used; where there is none, the first: it says what is wrong. */
static int choose_first(const struct mt_cuda_module *module, int *index, struct mt_error *error)
{
    int count;
    const int code = module->count(&count, error);
    *index = 0;
    if (code)
        return code;
    for (int i = 0; i < count; i++) {
        struct mt_cuda_device_description description;
        if (module->describe(i, &description, NULL) || description.unusable[0])
            continue;
        *index = i;
        break;
    }
    return 0;
}

static int open_first(const struct mt_cuda_module *module, const struct mt_device_options *options,
                      struct mt_device **device, struct mt_error *error)
{
    int index;
    const int code = choose_first(module, &index, error);
    return code ? code : open_index(module, index, options, device, error);
}

static int open_cuda(const char *number, const struct mt_device_options *options, struct mt_device **device,
                     struct mt_error *error)
{
    const struct mt_cuda_module *module;
    const int code = mt_cuda_module_load(&module, error);
    if (code)
        return code;
    return number ? open_index(module, atoi(number), options, device, error)
                  : open_first(module, options, device, error);
}

/* Says why no GPU is used, also where the build has no module: whoever has a GPU and no nvcc would wait long.
 */
static int open_auto(const struct mt_device_options *options, struct mt_device **device,
                     struct mt_error *error)
{
    const struct mt_cuda_module *module;
    struct mt_error why;
    int code = mt_cuda_module_load(&module, &why);
    code = code ? code : open_first(module, options, device, &why);
    if (code == 0)
        return 0;
    if (options && options->note) {
        char sentence[MT_ERROR_MESSAGE_BYTES + 64];
        snprintf(sentence, sizeof sentence, "device auto takes the CPU: %s", why.message);
        options->note(options->note_context, sentence);
    }
    return mt_cpu_device_open(false, options, device, error);
}

static bool is_number(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    return digits >= 1 && digits <= 4 && !text[digits];
}

static bool names_gpu(const char *name)
{
    return !strcmp(name, "cuda") || (!strncmp(name, "cuda:", 5) && is_number(name + 5));
}

/* The GPU of a name that is one's, or "auto". */
static int describe(const char *name, struct mt_cuda_device_description *description, struct mt_error *error)
{
    const struct mt_cuda_module *module;
    int index = strchr(name, ':') ? atoi(name + 5) : -1;
    int code = mt_cuda_module_load(&module, error);
    if (!code && index < 0)
        code = choose_first(module, &index, error);
    return code ? code : module->describe(index, description, error);
}

int mt_device_check(const char *name, struct mt_error *error)
{
    struct mt_cuda_device_description description;
    if (!names_gpu(name))
        return 0;
    const int code = describe(name, &description, error);
    if (code || !description.unusable[0])
        return code;
    return mt_error_set(error, description.unusable_for == MT_REASON_OUT_OF_MEMORY ? -ENOMEM : -ENODEV,
                        description.unusable_for, "%s (%s) cannot be used: %s", description.id,
                        description.name, description.unusable);
}

/* Also of one whose memory is full now: by another job, perhaps, after which this one comes. */
size_t mt_device_gpu_bytes(const char *name)
{
    struct mt_cuda_device_description description;
    if ((!names_gpu(name) && strcmp(name, "auto") != 0) || describe(name, &description, NULL))
        return 0;
    return !description.unusable[0] || description.unusable_for == MT_REASON_OUT_OF_MEMORY
               ? description.total_bytes
               : 0;
}

int mt_device_open(const char *name, const struct mt_device_options *options, struct mt_device **device,
                   struct mt_error *error)
{
    *device = NULL;
    if (!strcmp(name, "auto"))
        return open_auto(options, device, error);
    if (!strcmp(name, "cpu"))
        return mt_cpu_device_open(false, options, device, error);
    if (!strcmp(name, "cpu-discrete"))
        return mt_cpu_device_open(true, options, device, error);
    if (!strcmp(name, "cuda"))
        return open_cuda(NULL, options, device, error);
    if (!strncmp(name, "cuda:", 5) && is_number(name + 5))
        return open_cuda(name + 5, options, device, error);
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                        "there is no device \"%s\": use auto, cpu, cpu-discrete, cuda or cuda:N", name);
}
