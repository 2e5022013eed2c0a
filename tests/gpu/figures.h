/* What the figures of a GPU share: the device, buffers, and how an operation is timed. */
#ifndef MT_TESTS_GPU_FIGURES_H
#define MT_TESTS_GPU_FIGURES_H

#include "core/base/pool.h"
#include "core/device/open.h"

/* A layer as it stands in a model of the size that the name says. */
struct shape {
    const char *name;
    size_t hidden, intermediate, heads, kv_heads, dim, vocab;
    size_t layers; /* of the whole step: so many, of more */
    size_t tokens, step_vocab;
};

struct figures {
    struct mt_pool *pool;
    struct mt_device *device;
    struct mt_stream *stream;
    const struct mt_device_api *api;
    double seconds; /* each figure is measured for about so long */
    double peak;    /* FLOP/s of the best product seen */
    double copied;  /* bytes/s, read and written, of a copy within the device */
};

/* Device memory; ends the program with the device's sentence where there is none. */
void *figures_memory(struct figures *f, size_t bytes);
/* The same, filled with small numbers of the type. */
void *figures_data(struct figures *f, size_t count, enum mt_dtype dtype);
void figures_release(struct figures *f, void *memory);
/* int32 numbers below `below`, scattered. */
void *figures_ints(struct figures *f, size_t count, int32_t below);
/* Ends the program when the device has failed. */
void figures_check(struct figures *f, int code, const char *what);

/* Seconds of one call, in a row of so many as take f->seconds, after two to warm up. */
double figures_time(struct figures *f, const char *what, int (*call)(struct figures *f, const void *args),
                    const void *args);

/* A call of an operation through the device's table, as figures_time wants it. */
#define FIGURES_CALL(operation)                                                                              \
    static int operation##_call(struct figures *f, const void *args)                                         \
    {                                                                                                        \
        return f->api->operation(f->stream, args);                                                           \
    }
/* Times it and prints a line of the table: beside the best product where it has flops, else, by its bytes,
 * beside a copy. */
void figures_line(struct figures *f, const struct shape *shape, const char *what,
                  int (*call)(struct figures *f, const void *args), const void *args, double flops,
                  double bytes);
#define LINE(f, shape, what, operation, flops, bytes, ...)                                                   \
    figures_line(f, shape, what, operation##_call, &(struct mt_##operation##_args){__VA_ARGS__}, flops, bytes)

/* Each operation on layers of a model's shape, a line each: products, attention and the loss; and, in
 * figures_rows.c, what only moves memory. */
void figures_of_operations(struct figures *f, const struct shape *shape);
void figures_of_rows(struct figures *f, const struct shape *shape);
/* A whole training step of a cut-off model. */
void figures_of_step(struct figures *f, const struct shape *shape);

#endif
