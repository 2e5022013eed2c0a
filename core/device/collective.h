/* Collective operations between devices, one rank a device.
 *
 * A communicator belongs to one rank; its operations are put into a stream and return when they stand there,
 * like those of device.h. All ranks of a communicator must put the same operations of the same sizes in the
 * same order. Sums are in the order that the library fixes for the number of ranks: same ranks, same bits.
 *
 * A rank that does not come leaves the others waiting: `wait` gives up after a time and aborts, so that a job
 * ends with a sentence instead of hanging. After an abort the communicator is of no more use but to be freed.
 */
#ifndef MT_DEVICE_COLLECTIVE_H
#define MT_DEVICE_COLLECTIVE_H

#include "core/base/dtype.h"
#include "core/base/error.h"

#include <stddef.h>
#include <stdint.h>

struct mt_device;
struct mt_stream;
struct mt_collective;

#define MT_COLLECTIVE_ID_BYTES 128u

/* How the ranks find each other: made by one, carried to the others by whoever starts them. */
struct mt_collective_id {
    unsigned char bytes[MT_COLLECTIVE_ID_BYTES];
};

struct mt_collective_api {
    /* -ENOTSUP with a sentence where the library (libnccl.so.2) is not there. */
    int (*id_new)(struct mt_collective_id *id, struct mt_error *error);

    /* Joins as `rank` of `ranks` on `device`; returns when all have come, or gives up after
     * `timeout_seconds` (0: 300) with -ETIMEDOUT. */
    int (*join)(struct mt_device *device, const struct mt_collective_id *id, int rank, int ranks,
                double timeout_seconds, struct mt_collective **collective, struct mt_error *error);
    void (*leave)(struct mt_collective *collective); /* all its operations must be over; NULL is allowed */

    /* `count` elements of MT_F32 or MT_BF16 in all of them; `to` may be `from` where the sizes allow it.
     * bf16 is summed in fp32 inside the library where it can. Errors: -EINVAL, -EIO (aborted or failed),
     * -ETIMEDOUT (the library did not get it into the stream; aborted); `wait` has the sentence. */

    /* to[count] = sum over ranks of from[count]. */
    int (*all_reduce)(struct mt_collective *, struct mt_stream *, void *to, const void *from, size_t count,
                      enum mt_dtype dtype);
    /* to[count] = this rank's part of the sum over ranks of from[ranks * count]; in place when
     * to = from + rank * count. */
    int (*reduce_scatter)(struct mt_collective *, struct mt_stream *, void *to, const void *from,
                          size_t count, enum mt_dtype dtype);
    /* to[ranks * count] = all ranks' from[count], by rank; in place when from = to + rank * count. */
    int (*all_gather)(struct mt_collective *, struct mt_stream *, void *to, const void *from, size_t count,
                      enum mt_dtype dtype);
    /* to[count] = rank `root`'s from[count]. */
    int (*broadcast)(struct mt_collective *, struct mt_stream *, void *to, const void *from, size_t count,
                     int root, enum mt_dtype dtype);

    /* Several operations as one: the library may overlap them. Calls nest in pairs; the outermost end puts
     * them into their streams, with the errors of operations. */
    int (*group_begin)(void);
    int (*group_end)(void);

    /* Waits for all that stands in the stream. After `timeout_seconds` without its end, or when another rank
     * failed, aborts: -ETIMEDOUT or -EIO with which rank saw it and what to look at. */
    int (*wait)(struct mt_collective *, struct mt_stream *, double timeout_seconds, struct mt_error *error);
    /* Ends what is under way, from any thread; `wait` then returns -EIO. */
    void (*abort)(struct mt_collective *);
};

#endif
