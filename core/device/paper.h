/* Memory on paper: blocks that are counted, have addresses of their own and are never written. The planning
 * device (core/plan/device.h) has such memory; and a device that is like another one but for it tells what
 * fits on that one before any of its memory is taken. */
#ifndef MT_DEVICE_PAPER_H
#define MT_DEVICE_PAPER_H

#include "core/device/device.h"

struct mt_paper_block {
    char *address;
    size_t bytes;
};

struct mt_paper_blocks {
    size_t count, capacity, bytes;
    struct mt_paper_block *items;
};

struct mt_paper_memory {
    size_t limit_bytes; /* of the device's memory */
    bool endless;       /* the limit is only told */
    char *next_address;
    struct mt_paper_blocks device, host;
};

void mt_paper_memory_init(struct mt_paper_memory *memory, size_t limit_bytes, bool endless);
void mt_paper_memory_clear(struct mt_paper_memory *memory);
/* Left of the limit; 0 where more is in use. */
size_t mt_paper_memory_free(const struct mt_paper_memory *memory);

/* What a device with such memory begins with. */
struct mt_paper_base {
    struct mt_device base;
    struct mt_paper_memory memory;
};

/* Functions of struct mt_device_api for devices that begin so. Host memory is address space that is reserved,
 * not taken. */
int mt_paper_allocate(struct mt_device *device, size_t bytes, void **address, struct mt_error *error);
void mt_paper_release(struct mt_device *device, void *address);
int mt_paper_host_allocate(struct mt_device *device, size_t bytes, void **address, bool *pinned,
                           struct mt_error *error);
void mt_paper_host_release(struct mt_device *device, void *address);

/* A device that is like `like`, with the memory that is free there now, and that computes nothing: executors
 * can be made on it, not run. `like` must stay open. Errors: MT_REASON_OUT_OF_MEMORY. */
int mt_paper_device_open(struct mt_device *like, struct mt_device **device, struct mt_error *error);

#endif
