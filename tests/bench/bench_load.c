/* Loading a model beside reading its file once: a float32 and a bfloat16 file of 100 million parameters from
 * the system's cache, in interleaved pairs, and what that takes of memory beside the store. And how fast each
 * block type of GGUF files becomes float32, on one core.
 *
 * load_time_ratio: opening, checking and loading the file into a store that has its memory, beside what `cat
 * FILE >/dev/null` does: reading it through one buffer of 128 KiB that stays in a core's cache.
 * load_cpu_ratio: the same by processor time of all threads, which other programs on the machine change less.
 * load_fresh_ratio: with the memory for the store taken and zeroed as well, beside reading the file once into
 * memory that is as fresh. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/time.h"
#include "core/device/open.h"
#include "core/formats/dequantise.h"
#include "core/store/files.h"
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAIRS 7
#define MEMORY_LIMIT_MIB 64.0

static const char keys[] =
    "{\"architecture\": \"llama\", \"hidden_size\": 1024, \"num_layers\": 6, \"num_attention_heads\": "
    "16, \"vocab_size\": 16384, \"intermediate_size\": 2816}";

static struct mt_error error;

static void need(int result)
{
    if (result < 0) {
        fprintf(stderr, "bench_load: %s\n", error.message);
        exit(1);
    }
}

/* As cat does it. */
static double read_once(const char *path)
{
    static char buffer[131072];
    const double start = mt_time_monotonic();
    mt_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;
    while ((got = read(fd, buffer, sizeof buffer)) > 0)
        ;
    need((int)got);
    return mt_time_monotonic() - start;
}

static double cpu_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Into memory that was never touched. */
static double read_fresh(const char *path)
{
    struct stat status;
    const double start = mt_time_monotonic();
    mt_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    need(fd < 0 || fstat(fd, &status) < 0 ? -1 : 0);
    void *memory =
        mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(memory == MAP_FAILED ? -1 : mt_fd_pread_all(fd, memory, (size_t)status.st_size, 0));
    const double time = mt_time_monotonic() - start;
    munmap(memory, (size_t)status.st_size);
    return time;
}

/* "VmHWM" or "VmRSS" of this process, in MiB. */
static double memory(const char *key)
{
    char line[256];
    double value = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, key, strlen(key)) == 0)
            value = atof(line + strlen(key) + 1) / 1024;
    if (status)
        fclose(status);
    return value;
}

static void reset_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file) {
        fputs("5", file);
        fclose(file);
    }
}

static void load(struct mt_store *store, const char *path, struct mt_pool *pool)
{
    struct mt_tensors *file;
    need(mt_store_open_files(mt_store_model(store), path, &file, &error));
    need(mt_store_load_opened(store, file, pool, &error));
    mt_tensors_close(file);
}

static bool measure(struct mt_store *store, struct mt_pool *pool, const char *folder, const char *stem,
                    enum mt_dtype dtype)
{
    double ratios[PAIRS], cpu_ratios[PAIRS], most = 0;
    char name[64];
    mt_autofree char *path = NULL;
    need(mt_store_save_weights(store, folder, stem, dtype, &error));
    if (asprintf(&path, "%s/%s.safetensors", folder, stem) < 0)
        exit(1);
    read_once(path);
    /* At most 1.5 readings and, where float32 is made of another type, a second a gigabyte and core: written
     * so that the limit stays 1.5 and no load that is faster than that second falls below 0. */
    const double made = (double)mt_store_model(store)->total_count * sizeof(float);
    const double allowed = dtype == MT_F32 ? 0 : made * 1e-9 / (double)mt_pool_threads(pool);
    for (size_t i = 0; i < PAIRS; i++) {
        const double cpu_start = cpu_time(), once = read_once(path), cpu_once = cpu_time() - cpu_start;
        reset_peak();
        const double before = memory("VmRSS:"), start = mt_time_monotonic(), cpu_load = cpu_time();
        load(store, path, pool);
        ratios[i] = (mt_time_monotonic() - start) / (once + allowed / 1.5);
        cpu_ratios[i] = (cpu_time() - cpu_load) / (cpu_once + allowed * (double)mt_pool_threads(pool) / 1.5);
        if (memory("VmHWM:") - before > most)
            most = memory("VmHWM:") - before;
    }
    unlink(path);
    const char *dash = dtype == MT_F32 ? "" : "_", *of = dtype == MT_F32 ? "" : stem;
    snprintf(name, sizeof name, "load_cpu_ratio%s%s", dash, of);
    const bool cpu_good = bench_at_most(name, bench_median(cpu_ratios, PAIRS), "ratio", 1.5);
    snprintf(name, sizeof name, "load_time_ratio%s%s", dash, of);
    bool good = bench_at_most(name, bench_median(ratios, PAIRS), "ratio", 1.5) && cpu_good;
    snprintf(name, sizeof name, "load_memory_%s", stem);
    return bench_at_most(name, most, "MiB", MEMORY_LIMIT_MIB) && good;
}

/* A store made and loaded, beside its file read into as much new memory. */
static bool measure_fresh(const struct mt_model *model, struct mt_device *device, struct mt_pool *pool,
                          const char *folder)
{
    const struct mt_store_options options = {.compute_dtype = MT_F32, .weights_only = true, .pool = pool};
    double ratios[PAIRS] = {0};
    mt_autofree char *path = mt_path_join(folder, "fresh.safetensors");
    struct mt_store *store;
    need(mt_store_new(model, device, &options, &store, &error));
    need(mt_store_init(store, 7, pool, &error));
    need(mt_store_save_weights(store, folder, "fresh", MT_F32, &error));
    mt_store_free(store);
    /* The first, in which the machine finds its large pages, is not told. */
    for (size_t i = 0; i <= PAIRS; i++) {
        const double once = read_fresh(path), start = mt_time_monotonic();
        need(mt_store_new(model, device, &options, &store, &error));
        load(store, path, pool);
        if (i)
            ratios[i - 1] = (mt_time_monotonic() - start) / once;
        mt_store_free(store);
    }
    unlink(path);
    return bench_at_most("load_fresh_ratio", bench_median(ratios, PAIRS), "ratio", 2.5);
}

static bool measure_loading(void)
{
    char folder[] = "/tmp/megatrain-bench-XXXXXX";
    struct mt_pool *pool = mt_pool_new(0);
    struct mt_model *model;
    struct mt_device *device;
    struct mt_store *store;
    const struct mt_device_options device_options = {.pool = pool};
    const struct mt_store_options store_options = {.compute_dtype = MT_F32, .weights_only = true};
    mt_autojson json_t *object = json_loads(keys, 0, NULL);
    if (!mkdtemp(folder) || !pool)
        exit(1);
    need(mt_model_from_keys("llama", object, &model, &error));
    need(mt_device_open("cpu", &device_options, &device, &error));
    need(mt_store_new(model, device, &store_options, &store, &error));
    need(mt_store_init(store, 7, pool, &error));
    bool good = measure(store, pool, folder, "f32", MT_F32);
    good = measure(store, pool, folder, "bf16", MT_BF16) && good;
    mt_store_free(store);
    good = measure_fresh(model, device, pool, folder) && good;
    mt_device_close(device);
    mt_model_free(model);
    mt_pool_free(pool);
    mt_folder_remove(folder, NULL);
    return good;
}

static bool measure_types(void)
{
    static const struct {
        const char *name;
        mt_dequantise_function *function;
        size_t elements, bytes; /* of a block */
    } types[] = {
        {"f16", mt_dequantise_f16, 1, 2},       {"bf16", mt_dequantise_bf16, 1, 2},
        {"q4_0", mt_dequantise_q4_0, 32, 18},   {"q4_1", mt_dequantise_q4_1, 32, 20},
        {"q5_0", mt_dequantise_q5_0, 32, 22},   {"q5_1", mt_dequantise_q5_1, 32, 24},
        {"q8_0", mt_dequantise_q8_0, 32, 34},   {"q2_k", mt_dequantise_q2_k, 256, 84},
        {"q3_k", mt_dequantise_q3_k, 256, 110}, {"q4_k", mt_dequantise_q4_k, 256, 144},
        {"q5_k", mt_dequantise_q5_k, 256, 176}, {"q6_k", mt_dequantise_q6_k, 256, 210},
    };
    const size_t elements = (size_t)1 << 22; /* 16 MiB of float32: more than a cache */
    mt_autofree float *out = malloc(elements * sizeof *out);
    mt_autofree unsigned char *blocks = malloc(2 * elements);
    bool good = true;
    if (!out || !blocks)
        exit(1);
    for (size_t i = 0; i < 2 * elements; i++)
        blocks[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        double rates[PAIRS];
        char name[64];
        for (size_t k = 0; k < PAIRS; k++) {
            const double start = mt_time_monotonic();
            types[i].function(blocks, elements / types[i].elements, out);
            rates[k] = (double)(elements * sizeof *out) / (mt_time_monotonic() - start) * 1e-9;
        }
        snprintf(name, sizeof name, "dequantise_%s", types[i].name);
        good = bench_at_least(name, bench_median(rates, PAIRS), "GB/s", 1) && good;
    }
    return good;
}

int main(void)
{
    const bool types = measure_types(), loading = measure_loading();
    return types && loading ? 0 : 1;
}
