/* The data side: rows through template, tokenizer and packing beside Python's `datasets` and `tokenizers` on
 * the same file (data_peer.py), one thread and two; and a file far larger than its memory, which trains under
 * a limit.
 *
 *     bench_data [GIB]     the size of the large file; 4 unless told otherwise, 0 leaves it out */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/data/dataset.h"
#include "core/data/sampler.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAIRS 5
#define ROWS "20000"
#define LIMIT_BYTES ((rlim_t)512 << 20)

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_data: %s\n", what);
    exit(1);
}

/* --- beside Python -------------------------------------------------------------------------------------- */

struct peer {
    pid_t pid;
    FILE *to, *from;
};

static int prepare(const char *folder)
{
    const pid_t pid = fork();
    if (pid == 0) {
        execlp("python3", "python3", "tests/bench/data_peer.py", "prepare", folder, ROWS, (char *)NULL);
        _exit(127);
    }
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static struct peer start_peer(const char *folder)
{
    int to[2], from[2];
    struct peer peer = {0};
    if (pipe(to) < 0 || pipe(from) < 0)
        fail("no pipe");
    peer.pid = fork();
    if (peer.pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        execlp("python3", "python3", "tests/bench/data_peer.py", "serve", folder, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    peer.to = fdopen(to[1], "w");
    peer.from = fdopen(from[0], "r");
    return peer;
}

/* CPU seconds of one pass, and the rows and tokens that it saw. */
static double ask_peer(struct peer *peer, long *rows, long *tokens)
{
    double seconds;
    fputs("\n", peer->to);
    fflush(peer->to);
    if (fscanf(peer->from, "%lf %ld %ld", &seconds, rows, tokens) != 3)
        fail("the peer failed");
    return seconds;
}

static void stop_peer(struct peer *peer)
{
    fclose(peer->to);
    fclose(peer->from);
    waitpid(peer->pid, NULL, 0);
}

struct tools {
    struct mt_tokenizer *tokenizer;
    struct mt_chat *chat;
};

static struct mt_dataset *open_file(const struct tools *tools, const char *path, struct mt_pool *pool,
                                    const char *cache)
{
    struct mt_error error = {0};
    struct mt_dataset *dataset;
    const struct mt_dataset_options options = {
        .paths = &path,
        .num_paths = 1,
        .max_seq_len = 1024,
        .packing = true,
        .seed = 42,
        .tokenizer = tools->tokenizer,
        .chat = tools->chat,
        .pool = pool,
        .cache_dir = cache,
    };
    if (mt_dataset_open(&options, &dataset, &error) < 0)
        fail(error.message);
    return dataset;
}

/* From the file to the packs of one epoch; the wall and the CPU seconds. */
static void pass(const struct tools *tools, const char *path, struct mt_pool *pool, double *wall, double *cpu)
{
    struct mt_error error = {0};
    struct mt_sampler *sampler;
    const struct mt_sampler_options order = {.sequences_per_step = 8};
    *wall = seconds_of(CLOCK_MONOTONIC);
    *cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    struct mt_dataset *dataset = open_file(tools, path, pool, NULL);
    if (mt_sampler_new(dataset, &order, &sampler, &error) < 0)
        fail(error.message);
    for (size_t s = mt_sampler_steps_per_epoch(sampler); s > 0; s--) {
        struct mt_batch *batch;
        if (mt_sampler_next(sampler, &batch, &error) < 0)
            fail(error.message);
        mt_batch_free(batch);
    }
    mt_sampler_free(sampler);
    mt_dataset_free(dataset);
    *wall = seconds_of(CLOCK_MONOTONIC) - *wall;
    *cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - *cpu;
}

static bool bench_speed(const char *folder)
{
    struct mt_error error = {0};
    struct tools tools = {0};
    double ratios[PAIRS], scaling[PAIRS], rates[PAIRS], wall, cpu, two_wall, two_cpu;
    long rows, tokens;
    const int prepared = prepare(folder);
    if (prepared == 77) {
        printf("bench data_speed_ratio 0 ratio - pass (left out: the libraries cannot be fetched)\n");
        return true;
    }
    if (prepared)
        fail("the data could not be made");
    mt_autofree char *path = mt_path_join(folder, "rows.jsonl");
    mt_autofree char *tokenizer = mt_path_join(folder, "tokenizer.json");
    if (!path || !tokenizer || mt_tokenizer_load(folder, &tools.tokenizer, &error) < 0 ||
        mt_chat_open(NULL, NULL, &tools.chat, &error) < 0)
        fail(error.message);
    struct mt_pool *pool = mt_pool_new(2);
    struct peer peer = start_peer(folder);
    for (int i = 0; i < PAIRS; i++) {
        const double python = ask_peer(&peer, &rows, &tokens);
        pass(&tools, path, NULL, &wall, &cpu);
        pass(&tools, path, pool, &two_wall, &two_cpu);
        ratios[i] = python / cpu;
        scaling[i] = wall / two_wall;
        rates[i] = (double)rows / cpu;
    }
    stop_peer(&peer);
    mt_pool_free(pool);
    bool fine = bench_at_least("data_speed_ratio", bench_median(ratios, PAIRS), "ratio", 3);
    fine &= bench_at_least("data_two_threads_ratio", bench_median(scaling, PAIRS), "ratio", 1.5);
    bench_note("data_rows_per_cpu_second", bench_median(rates, PAIRS), "rows/s");
    mt_chat_free(tools.chat);
    mt_tokenizer_free(tools.tokenizer);
    return fine;
}

/* --- a large file --------------------------------------------------------------------------------------- */

static void write_large(const char *path, double gib)
{
    FILE *file = fopen(path, "w");
    struct mt_random random = {.key = 1};
    const double bytes = gib * 1073741824;
    double written = 0;
    for (long i = 0; file && written < bytes; i++) {
        char text[2048];
        const size_t length = 200 + (size_t)mt_random_below(&random, 1700);
        for (size_t c = 0; c < length; c += 8) {
            const uint64_t letters = mt_random_u64(&random);
            for (size_t k = 0; k < 8; k++)
                text[c + k] = "etaoin shrdlu cmfw"[(letters >> 8 * k & 255) % 18];
        }
        written += fprintf(file, "{\"id\": %ld, \"text\": \"%.*s\"}\n", i, (int)length, text);
    }
    if (!file || fclose(file) != 0)
        fail("the large file could not be written");
}

/* The most anonymous memory that the process ever had, in bytes: what is mapped from files does not count,
 * since the kernel takes it back at will. */
static double anonymous_bytes(pid_t pid)
{
    char name[64], line[256];
    double bytes = 0;
    snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
    FILE *file = fopen(name, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "RssAnon:", 8) == 0)
            bytes = 1024 * strtod(line + 8, NULL);
    if (file)
        fclose(file);
    return bytes;
}

static _Noreturn void read_under_limit(const char *path, const char *cache)
{
    const struct rlimit limit = {.rlim_cur = LIMIT_BYTES, .rlim_max = LIMIT_BYTES};
    struct mt_error error = {0};
    struct tools tools = {0};
    struct mt_sampler *sampler;
    const struct mt_sampler_options order = {.sequences_per_step = 64};
    if (setrlimit(RLIMIT_DATA, &limit) < 0 || mt_tokenizer_load("bytes", &tools.tokenizer, &error) < 0)
        fail("no limit");
    struct mt_pool *pool = mt_pool_new(2);
    struct mt_dataset *dataset = open_file(&tools, path, pool, cache);
    if (mt_sampler_new(dataset, &order, &sampler, &error) < 0)
        fail(error.message);
    for (int i = 0; i < 500; i++) {
        struct mt_batch *batch;
        if (mt_sampler_next(sampler, &batch, &error) < 0)
            fail(error.message);
        mt_batch_free(batch);
    }
    _exit(0);
}

static bool bench_large(const char *folder, double gib)
{
    mt_autofree char *path = mt_path_join(folder, "large.jsonl");
    mt_autofree char *cache = mt_path_join(folder, "cache");
    int status;
    double most = 0;
    write_large(path, gib);
    const double start = seconds_of(CLOCK_MONOTONIC);
    const pid_t pid = fork();
    if (pid == 0)
        read_under_limit(path, cache);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        const double now = anonymous_bytes(pid);
        most = now > most ? now : most;
        usleep(20000);
    }
    const double first = seconds_of(CLOCK_MONOTONIC) - start;
    if (status != 0)
        fail("the large file did not fit");
    bench_note("data_large_first_mib_per_second", gib * 1024 / first, "MiB/s");
    return bench_at_most("data_large_memory_mib", most / 1048576, "MiB", (double)LIMIT_BYTES / 1048576);
}

int main(int argc, char **argv)
{
    const char *parent = getenv("TMPDIR");
    const double gib = argc > 1 ? strtod(argv[1], NULL) : 4;
    char folder[256];
    snprintf(folder, sizeof folder, "%s/megatrain-bench-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(folder))
        fail("no folder for temporary files");
    bool fine = bench_speed(folder);
    if (gib > 0)
        fine &= bench_large(folder, gib);
    mt_folder_remove(folder, NULL);
    return !fine;
}
