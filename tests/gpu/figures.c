/* Figures of a CUDA device, as Markdown tables: the best matrix product, copies over the bus and how they
 * overlap with products, each operation on layers of 1B, 8B and 14B models, and whole training steps.
 *
 *   figures [--tiny] [--device cuda:0] [--part bus|operations|steps]
 *
 * --tiny: sizes for a simulated device, which show that it works and nothing else. */
#include "tests/gpu/figures.h"

#include "core/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct shape real_shapes[] = {
    {"1B", 2048, 8192, 32, 8, 64, 128256, 6, 8192, 32768},
    {"8B", 4096, 14336, 32, 8, 128, 128256, 4, 8192, 32768},
    {"14B", 5120, 17408, 40, 8, 128, 151936, 3, 8192, 32768},
};
static const struct shape tiny_shapes[] = {{"tiny", 64, 96, 4, 2, 16, 300, 2, 64, 128}};

void figures_check(struct figures *f, int code, const char *what)
{
    struct mt_error error = {0};
    if (!code && !f->api->stream_synchronize(f->stream, &error))
        return;
    fprintf(stderr, "figures: %s failed (%d): %s\n", what, code, f->api->last_error(f->device));
    exit(1);
}

void *figures_memory(struct figures *f, size_t bytes)
{
    void *memory;
    struct mt_error error = {0};
    if (f->api->allocate(f->device, bytes, &memory, &error)) {
        fprintf(stderr, "figures: %s\n", error.message);
        exit(1);
    }
    return memory;
}

void *figures_data(struct figures *f, size_t count, enum mt_dtype dtype)
{
    const size_t element = mt_dtype_bytes(dtype), piece = count < (1u << 20) ? count : 1u << 20;
    char *memory = figures_memory(f, count * element);
    void *host;
    struct mt_error error = {0};
    if (f->api->host_allocate(f->device, piece * element, &host, NULL, &error)) {
        fprintf(stderr, "figures: %s\n", error.message);
        exit(1);
    }
    for (size_t i = 0; i < piece; i++) {
        const float value = 0.1f * ((float)((i * 2654435761u >> 8) % 2048) / 1024.0f - 1.0f);
        if (dtype == MT_BF16)
            ((uint16_t *)host)[i] = mt_bf16_from_float(value);
        else
            ((float *)host)[i] = value;
    }
    for (size_t done = 0; done < count; done += piece)
        figures_check(f,
                      f->api->copy_to_device(f->stream, memory + done * element, host,
                                             (count - done < piece ? count - done : piece) * element),
                      "a copy");
    f->api->host_release(f->device, host);
    return memory;
}

void figures_release(struct figures *f, void *memory)
{
    f->api->release(f->device, memory);
}

void *figures_ints(struct figures *f, size_t count, int32_t below)
{
    void *memory = figures_memory(f, count * sizeof(int32_t)), *host;
    if (f->api->host_allocate(f->device, count * sizeof(int32_t), &host, NULL, NULL)) {
        fprintf(stderr, "figures: no host memory\n");
        exit(1);
    }
    for (size_t i = 0; i < count; i++)
        ((int32_t *)host)[i] = (int32_t)((i * 2654435761u >> 7) % (uint32_t)below);
    figures_check(f, f->api->copy_to_device(f->stream, memory, host, count * sizeof(int32_t)), "a copy");
    f->api->host_release(f->device, host);
    return memory;
}

static double run(struct figures *f, const char *what, int (*call)(struct figures *f, const void *args),
                  const void *args, size_t times)
{
    const double start = mt_time_monotonic();
    int code = 0;
    for (size_t i = 0; i < times && !code; i++)
        code = call(f, args);
    figures_check(f, code, what);
    return mt_time_monotonic() - start;
}

double figures_time(struct figures *f, const char *what, int (*call)(struct figures *f, const void *args),
                    const void *args)
{
    run(f, what, call, args, 1);
    const double once = run(f, what, call, args, 1);
    const double wanted = once > 0 ? f->seconds / once : 1;
    const size_t times = wanted < 1 ? 1 : wanted > 10000 ? 10000 : (size_t)wanted;
    return run(f, what, call, args, times) / (double)times;
}

void figures_line(struct figures *f, const struct shape *shape, const char *what,
                  int (*call)(struct figures *f, const void *args), const void *args, double flops,
                  double bytes)
{
    const double seconds = figures_time(f, what, call, args);
    printf("| %s | %s | %.3f |", shape->name, what, seconds * 1e3);
    if (flops > 0)
        printf(" %.1f TFLOP/s | %.0f%% of the best product |\n", flops / seconds * 1e-12,
               100 * flops / seconds / f->peak);
    else
        printf(" %.0f GB/s | %.0f%% of a copy |\n", bytes / seconds * 1e-9,
               100 * bytes / seconds / f->copied);
    fflush(stdout);
}

/* ---- the best product, a copy within the device, and the bus ---- */

static int product_call(struct figures *f, const void *args)
{
    return f->api->linear(f->stream, args);
}

struct bus {
    struct mt_stream *in, *out;
    void *device_in, *device_out, *host_in, *host_out;
    size_t bytes;
    const struct mt_linear_args *product; /* beside the copies; NULL: none */
    bool into, from;
};

static int bus_call(struct figures *f, const void *args)
{
    const struct bus *bus = args;
    int code = bus->into ? f->api->copy_to_device(bus->in, bus->device_in, bus->host_in, bus->bytes) : 0;
    if (!code && bus->from)
        code = f->api->copy_to_host(bus->out, bus->host_out, bus->device_out, bus->bytes);
    if (!code && bus->product)
        code = f->api->linear(f->stream, bus->product);
    struct mt_error error;
    code = code ? code : f->api->stream_synchronize(bus->in, &error);
    code = code ? code : f->api->stream_synchronize(bus->out, &error);
    return code ? code : f->api->stream_synchronize(f->stream, &error);
}

static void bus_line(const char *what, double seconds, double bytes)
{
    printf("| %s | %.2f ms | %.1f GB/s |\n", what, seconds * 1e3, bytes / seconds * 1e-9);
    fflush(stdout);
}

static void figures_of_bus(struct figures *f, const struct mt_linear_args *product, size_t bytes)
{
    struct bus bus = {.bytes = bytes, .into = true};
    struct mt_error error = {0};
    bool pinned = false;
    bus.device_in = figures_memory(f, bytes);
    bus.device_out = figures_memory(f, bytes);
    if (f->api->host_allocate(f->device, bytes, &bus.host_in, &pinned, &error) ||
        f->api->host_allocate(f->device, bytes, &bus.host_out, NULL, &error) ||
        f->api->stream_create(f->device, "in", &bus.in, &error) ||
        f->api->stream_create(f->device, "out", &bus.out, &error)) {
        fprintf(stderr, "figures: %s\n", error.message);
        exit(1);
    }
    memset(bus.host_in, 1, bytes);
    printf("\nCopies of %zu MiB, host memory %s:\n\n| | time | speed |\n|---|---|---|\n", bytes >> 20,
           pinned ? "pinned" : "NOT pinned");
    const double into = figures_time(f, "copy in", bus_call, &bus);
    bus_line("to the device", into, (double)bytes);
    bus.into = false;
    bus.from = true;
    bus_line("to the host", figures_time(f, "copy out", bus_call, &bus), (double)bytes);
    bus.into = true;
    bus_line("both at once", figures_time(f, "copies", bus_call, &bus), 2 * (double)bytes);
    bus.from = bus.into = false;
    bus.product = product;
    const double alone = figures_time(f, "product", bus_call, &bus);
    bus.into = true;
    const double together = figures_time(f, "copy and product", bus_call, &bus);
    const double shorter = into < alone ? into : alone;
    printf("\nA product of %.2f ms beside a copy of %.2f ms takes %.2f ms: %.0f%% of the shorter one is "
           "hidden.\n",
           alone * 1e3, into * 1e3, together * 1e3, 100 * (into + alone - together) / shorter);
    f->api->stream_destroy(bus.in);
    f->api->stream_destroy(bus.out);
    f->api->host_release(f->device, bus.host_in);
    f->api->host_release(f->device, bus.host_out);
    figures_release(f, bus.device_in);
    figures_release(f, bus.device_out);
}

struct block {
    void *to;
    const void *from;
    size_t bytes;
};

static int copy_call(struct figures *f, const void *args)
{
    const struct block *block = args;
    return f->api->copy(f->stream, block->to, block->from, block->bytes);
}

/* The roof of what only moves memory. */
static void best_copy(struct figures *f, bool tiny, bool show)
{
    const size_t bytes = tiny ? (size_t)1 << 20 : (size_t)512 << 20;
    void *from = figures_data(f, bytes / 2, MT_BF16);
    const struct block block = {.to = figures_memory(f, bytes), .from = from, .bytes = bytes};
    for (int i = 0; i < 3; i++) {
        const double rate = 2 * (double)bytes / figures_time(f, "copy", copy_call, &block);
        f->copied = rate > f->copied ? rate : f->copied;
    }
    if (show)
        printf("Copy within the device, %zu MiB: %.0f GB/s read and written\n\n", bytes >> 20,
               f->copied * 1e-9);
    figures_release(f, block.to);
    figures_release(f, from);
}

/* The roof of all products; then the bus beside it. */
static void best_product(struct figures *f, bool tiny, bool bus)
{
    const size_t n = tiny ? 64 : 8192;
    void *x = figures_data(f, n * n, MT_BF16), *weight = figures_data(f, n * n, MT_BF16);
    void *y = figures_memory(f, n * n * 2);
    const struct mt_linear_args product = {
        .x = x, .weight = weight, .y = y, .tokens = n, .in_features = n, .out_features = n, .dtype = MT_BF16};
    const double flops = 2.0 * (double)n * (double)n * (double)n;
    for (int i = 0; i < 3; i++) {
        const double rate = flops / figures_time(f, "product", product_call, &product);
        f->peak = rate > f->peak ? rate : f->peak;
    }
    if (bus)
        printf("Best product, bf16, %zu x %zu x %zu: %.1f TFLOP/s\n", n, n, n, f->peak * 1e-12);
    if (bus)
        figures_of_bus(f, &product, tiny ? (size_t)1 << 20 : (size_t)256 << 20);
    figures_release(f, x);
    figures_release(f, weight);
    figures_release(f, y);
}

int main(int argc, char **argv)
{
    const char *name = "cuda", *part = "";
    bool tiny = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--tiny"))
            tiny = true;
        else if (!strcmp(argv[i], "--device") && i + 1 < argc)
            name = argv[++i];
        else if (!strcmp(argv[i], "--part") && i + 1 < argc)
            part = argv[++i];
        else {
            fprintf(stderr, "usage: figures [--tiny] [--device NAME] [--part bus|operations|steps]\n");
            return 64;
        }
    }
    struct figures f = {.pool = mt_pool_new(0), .seconds = tiny ? 0.001 : 0.1};
    struct mt_error error = {0};
    const struct mt_device_options options = {.pool = f.pool};
    if (mt_device_open(name, &options, &f.device, &error)) {
        fprintf(stderr, "figures: %s\n", error.message);
        return 70;
    }
    f.api = f.device->api;
    if (f.api->stream_create(f.device, "compute", &f.stream, &error)) {
        fprintf(stderr, "figures: %s\n", error.message);
        return 70;
    }
    const struct shape *shapes = tiny ? tiny_shapes : real_shapes;
    const size_t count = tiny ? 1 : sizeof real_shapes / sizeof *real_shapes;
    best_copy(&f, tiny, !*part || !strcmp(part, "bus"));
    best_product(&f, tiny, !*part || !strcmp(part, "bus"));
    if (!*part || !strcmp(part, "operations")) {
        printf("\nSingle operations, %zu tokens:\n\n| layer of | operation | ms | speed | "
               "|\n|---|---|---|---|---|\n",
               shapes->tokens);
        for (size_t i = 0; i < count; i++) {
            figures_of_operations(&f, &shapes[i]);
            figures_of_rows(&f, &shapes[i]);
        }
    }
    if (!*part || !strcmp(part, "steps")) {
        printf("\nWhole training steps (cut-off models, vocabulary of %zu, recomputation, clipping; TFLOP/s "
               "count 6 for "
               "each parameter and token):\n\n| layers of | size | s a step | tokens/s | TFLOP/s | of the "
               "best product "
               "| device GiB | pinned |\n|---|---|---|---|---|---|---|---|\n",
               shapes->step_vocab);
        for (size_t i = 0; i < count; i++)
            figures_of_step(&f, &shapes[i]);
    }
    f.api->stream_destroy(f.stream);
    mt_device_close(f.device);
    mt_pool_free(f.pool);
    return 0;
}
