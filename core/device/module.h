/* The door between the programs and a CUDA module (build/megatrain-cuda.so, or the simulated one of the
 * tests). The module is loaded at run time and links no copy of core/: what it calls comes in a table, and
 * what it offers goes out in one. Both begin with two numbers, which must be equal: a version, of the
 * beginning of the tables itself, and the interface, which stands for all that both sides know of each
 * other's structures.
 */
#ifndef MT_DEVICE_MODULE_H
#define MT_DEVICE_MODULE_H

#include "core/device/collective.h"
#include "core/device/device.h"

#define MT_CUDA_MODULE_VERSION 3u
/* A checksum of the headers that both sides are compiled from (module_headers in the Makefile, which sets
 * it): a module that was not built again after one of them changed would read arguments where they no longer
 * are. */
#ifndef MT_CUDA_MODULE_INTERFACE
#define MT_CUDA_MODULE_INTERFACE 0u /* for analysers, which look and do not run */
#endif
/* The one symbol that a module exports: mt_cuda_module_function. */
#define MT_CUDA_MODULE_SYMBOL "mt_cuda_module_entry"

/* What a module may call. */
struct mt_cuda_module_host {
    uint32_t version;   /* MT_CUDA_MODULE_VERSION */
    uint32_t interface; /* MT_CUDA_MODULE_INTERFACE */
    int (*error_set)(struct mt_error *error, int code, enum mt_reason reason, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
    const char *(*size_format)(size_t bytes, char *buffer, size_t buffer_bytes);
};

/* A device as it is listed, before it is opened. */
struct mt_cuda_device_description {
    char name[128];
    char id[64];                 /* "cuda:0" */
    char bus_id[32];             /* "0000:01:00.0" */
    char unusable[512];          /* why it cannot be used, with what to do; "": it can */
    enum mt_reason unusable_for; /* MT_REASON_DEVICE, or MT_REASON_OUT_OF_MEMORY: too little is free */
    int capability;              /* 89 for 8.9 */
    int multiprocessors;
    int memory_bus_bits; /* of its own memory */
    int link_generation; /* PCIe, the largest that card and slot allow; 0: not known (no NVML) */
    int link_width;      /* lanes */
    size_t total_bytes, free_bytes;
    uint64_t peers; /* bit n: the memory of device n can be reached directly */
};

struct mt_cuda_open_options {
    size_t memory_limit_bytes; /* 0: all that is free */
    /* Told of what is slow but does not stop the work; may be NULL. */
    void (*note)(void *context, const char *sentence);
    void *note_context;
};

struct mt_cuda_module {
    uint32_t version;   /* MT_CUDA_MODULE_VERSION */
    uint32_t interface; /* MT_CUDA_MODULE_INTERFACE */
    bool simulated;     /* no real GPU behind it: for tests */

    /* The number of devices, usable or not. 0 with no devices; -ENODEV with a sentence where there is no
     * driver, or one that is too old; -ENOMEM where it found no memory to start. */
    int (*count)(int *devices, struct mt_error *error);
    int (*describe)(int index, struct mt_cuda_device_description *description, struct mt_error *error);
    int (*open)(int index, const struct mt_cuda_open_options *options, struct mt_device **device,
                struct mt_error *error);
    /* "CUDA driver 13.0, runtime 13.0, cuBLAS 13.0.2"; parts that are not there are left out. */
    void (*versions)(char *text, size_t bytes);

    /* Collective operations between devices; see core/device/collective.h. */
    const struct mt_collective_api *collective;
};

/* NULL when version or interface differ. */
typedef const struct mt_cuda_module *mt_cuda_module_function(const struct mt_cuda_module_host *host);

/* Loads the module that MEGATRAIN_CUDA_MODULE names, else the one beside the program or in
 * ../lib/megatrain; once a process. MT_REASON_DEVICE with what is missing and what to do; -ENOENT where no
 * module was built. */
int mt_cuda_module_load(const struct mt_cuda_module **module, struct mt_error *error);

#endif
