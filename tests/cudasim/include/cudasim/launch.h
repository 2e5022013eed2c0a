/* Launching on the simulated device, and its shared memory: what gpu/launch.h stands on where there is no
 * nvcc. */
#ifndef CUDASIM_LAUNCH_H
#define CUDASIM_LAUNCH_H

#include <cuda_runtime_api.h>
#include <tuple>
#include <type_traits>

#define CUDASIM_ARGUMENT_BYTES 4096

/* A launch as the queue holds it: `run` calls the kernel once, as one thread, with the arguments at
 * `closure`. */
struct cudasim_kernel {
    const void *function;
    const char *name, *file; /* of the launch */
    dim3 grid, block;
    size_t shared_bytes;
    void (*run)(const void *closure);
    const void *closure; /* copied */
    size_t closure_bytes;
};

extern "C" cudaError_t cudasim_enqueue_kernel(const struct cudasim_kernel *kernel, cudaStream_t stream);

template <class... P> struct cudasim_closure {
    void (*kernel)(P...);
    std::tuple<std::remove_cv_t<P>...> arguments;
    static void run(const void *closure)
    {
        const cudasim_closure *self = static_cast<const cudasim_closure *>(closure);
        std::apply(self->kernel, self->arguments);
    }
};

template <class... P, class... A>
static inline cudaError_t cudasim_launch(void (*kernel)(P...), const char *name, const char *file, dim3 grid,
                                         dim3 block, size_t shared_bytes, cudaStream_t stream,
                                         A &&...arguments)
{
    static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
    static_assert((std::is_trivially_copyable_v<P> && ...), "kernel arguments are copied byte by byte");
    static_assert(sizeof(cudasim_closure<P...>) <= CUDASIM_ARGUMENT_BYTES, "too many bytes of arguments");
    const cudasim_closure<P...> closure = {kernel,
                                           std::tuple<std::remove_cv_t<P>...>(static_cast<P>(arguments)...)};
    const struct cudasim_kernel launch = {reinterpret_cast<const void *>(kernel),
                                          name,
                                          file,
                                          grid,
                                          block,
                                          shared_bytes,
                                          cudasim_closure<P...>::run,
                                          &closure,
                                          sizeof closure};
    return cudasim_enqueue_kernel(&launch, stream);
}

/* Memory of the running block for one declaration of shared memory, which the address of `site` tells apart:
 * the same for all its threads, NaN at first. */
extern "C" void *cudasim_static_shared(const char *site, size_t bytes, const char *name);
extern "C" void *cudasim_dynamic_shared(void);

#define MT_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                            \
    ((void)cudasim_launch(kernel, #kernel, __FILE__, grid, block, shared_bytes, stream, ##__VA_ARGS__))

#define MT_SHARED(type, name, extent)                                                                        \
    static char name##_site;                                                                                 \
    typedef type name##_extent extent;                                                                       \
    name##_extent &name =                                                                                    \
        *static_cast<name##_extent *>(cudasim_static_shared(&name##_site, sizeof(name##_extent), #name))

#define MT_DYNAMIC_SHARED(type, name) type *const name = static_cast<type *>(cudasim_dynamic_shared())

#endif
