/* What this backend sees of core/: base's headers, the interfaces that it implements, and the functions of
 * the table that it got when it was loaded. Nothing of core/ is linked into the module.
 */
#ifndef MT_GPU_HOST_H
#define MT_GPU_HOST_H

extern "C" {
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/device/cuda_memory.h"
#include "core/device/device.h"
#include "core/device/module.h"
}

extern struct mt_cuda_module_host mt_cuda_host;

#define mt_cuda_error(error, code, reason, ...) mt_cuda_host.error_set((error), (code), (reason), __VA_ARGS__)

#endif
