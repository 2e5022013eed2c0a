/* The devices of this machine, for people and clients. */
#ifndef MT_DEVICE_LIST_H
#define MT_DEVICE_LIST_H

#include <jansson.h>

/* {"data": [device, ...], "has_more": false, "next": null, "cuda": {"versions", "unavailable"}}: the CPU
 * first, then each CUDA device, usable or not (`reason` says why not). `unavailable` says why there is none
 * at all; null where CUDA works. docs/cuda.md has the members of a device. New reference; NULL without
 * memory. */
json_t *mt_device_list(void);

#endif
