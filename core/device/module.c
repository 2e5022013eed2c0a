/* Loading the CUDA module. It stays loaded to the end of the process: CUDA does not survive being unloaded.
 */
#include "core/device/module.h"

#include "core/base/size.h"

#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

static struct {
    pthread_mutex_t lock;
    bool tried;
    const struct mt_cuda_module *module; /* NULL: see error */
    struct mt_error error;
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct mt_cuda_module_host host = {
    .version = MT_CUDA_MODULE_VERSION,
    .interface = MT_CUDA_MODULE_INTERFACE,
    .error_set = mt_error_set,
    .size_format = mt_size_format,
};

/* Where the build puts it, and where `make install` does. */
static bool find_module(char *path, size_t bytes)
{
    static const char *const places[] = {"megatrain-cuda.so", "../lib/megatrain/megatrain-cuda.so",
                                         "../megatrain-cuda.so"};
    char program[PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = '\0';
    const char *folder = dirname(program);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int written = snprintf(path, bytes, "%s/%s", folder, places[i]);
        if (written > 0 && (size_t)written < bytes && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static int load(const struct mt_cuda_module **module, struct mt_error *error)
{
    const char *named = getenv("MEGATRAIN_CUDA_MODULE");
    char path[PATH_BYTES + 64];
    if (named && *named)
        snprintf(path, sizeof path, "%s", named);
    else if (!find_module(path, sizeof path))
        return mt_error_set(
            error, -ENOENT, MT_REASON_DEVICE,
            "this installation has no CUDA module (megatrain-cuda.so beside the program or in "
            "../lib/megatrain): build it where the CUDA toolkit is (make finds nvcc by PATH or "
            "in /usr/local/cuda), or name it by MEGATRAIN_CUDA_MODULE");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return mt_error_set(
            error, -ELIBACC, MT_REASON_DEVICE,
            "the CUDA module '%s' cannot be loaded: %s; what it needs beside the driver is cuBLAS "
            "(libcublas.so.13, libcublasLt.so.13) of the CUDA toolkit: install it, or put its "
            "folder into LD_LIBRARY_PATH",
            path, dlerror());
    mt_cuda_module_function *function;
    *(void **)&function = dlsym(library, MT_CUDA_MODULE_SYMBOL);
    if (!function)
        return mt_error_set(error, -ENOEXEC, MT_REASON_DEVICE, "'%s' is no CUDA module of MegaTrain", path);
    const struct mt_cuda_module *offered = function(&host);
    if (!offered || offered->version != MT_CUDA_MODULE_VERSION ||
        offered->interface != MT_CUDA_MODULE_INTERFACE)
        return mt_error_set(error, -ENOEXEC, MT_REASON_DEVICE,
                            "the CUDA module '%s' was built from other sources than this program and would "
                            "misread what it is given: build and install both together (make, make install)",
                            path);
    *module = offered;
    return 0;
}

int mt_cuda_module_load(const struct mt_cuda_module **module, struct mt_error *error)
{
    pthread_mutex_lock(&loaded.lock);
    if (!loaded.tried)
        load(&loaded.module, &loaded.error);
    loaded.tried = true;
    pthread_mutex_unlock(&loaded.lock);
    *module = loaded.module;
    if (loaded.module)
        return 0;
    return mt_error_set(error, loaded.error.code, loaded.error.reason, "%s", loaded.error.message);
}
