/* A worker that only counts: it speaks the protocol of docs/worker-protocol.md and trains nothing, so that
 * the daemon can be tested without an engine. Chosen by $MEGATRAIN_WORKER. Its "parameters" are a hash that
 * each step hashes again: two runs end with the same value only if every step was made once and in order.
 *
 * How it misbehaves stands in the label "fake" of the job: words and word=number, separated by blanks.
 *   step_ms=N load_ms=N save_ms=N   how long things take (default 5, 0, 0)
 *   mute_ms=N                       how long it takes to say its first word (default 0)
 *   crash_at=N signal=S             raises S (default 11) before step N is made, in every attempt
 *   crash_once_at=N                 the same in the first attempt only
 *   crash_every=N                   the same N steps after each start
 *   exit_at=N code=C                exits with C (default 1), without a word
 *   hang_at=N                       says nothing more; obeys nothing
 *   hang_after_done ignore_term ignore_requests
 *   fail_at=N                       says "failed" with the reason in the label "reason"
 *   flood=N                         N log lines before the first step, and log lines beside each step
 *   garbage                         what is not in the protocol, on the socket
 *   child                           has a child that ignores SIGTERM; its pid goes to child.pid
 *   print=N                         N bytes to standard output before the first step
 *   resident=N                      touches N MiB */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/time.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LINK 3

static struct {
    const char *folder;
    const char *fake;
    const char *reason;
    long attempt, max_steps, every_steps, keep;
    long step;
    char value[65];
    bool saved;
} run;

static volatile sig_atomic_t terminated;

static void on_term(int number)
{
    (void)number;
    terminated = 1;
}

static long option(const char *name, long otherwise)
{
    size_t length = strlen(name);
    for (const char *word = run.fake; word && *word;
         word = strchr(word, ' ') ? strchr(word, ' ') + 1 : NULL) {
        if (strncmp(word, name, length) != 0)
            continue;
        if (word[length] == '=')
            return strtol(word + length + 1, NULL, 10);
        if (word[length] == '\0' || word[length] == ' ')
            return 1;
    }
    return otherwise;
}

static void pause_ms(long ms)
{
    if (ms > 0)
        poll(NULL, 0, (int)ms);
}

/* Consumes `message`. A line that does not fit is dropped unless it must arrive. */
static void say(json_t *message, bool must)
{
    mt_autofree char *text = json_dumps(message, JSON_COMPACT);
    json_decref(message);
    size_t length = strlen(text);
    text[length] = '\n';
    for (size_t sent = 0; sent < length + 1;) {
        ssize_t n =
            send(LINK, text + sent, length + 1 - sent, MSG_NOSIGNAL | (must || sent ? 0 : MSG_DONTWAIT));
        if (n < 0)
            return;
        sent += (size_t)n;
    }
}

static void say_progress(const char *phase, double loss)
{
    json_t *message = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "type", "progress", "phase", phase,
                                "device", "counter", "step", (json_int_t)run.step, "max_steps",
                                (json_int_t)run.max_steps, "trained_tokens", (json_int_t)run.step * 100);
    if (loss >= 0) {
        json_object_set_new(message, "loss", json_real(loss));
        json_object_set_new(message, "epoch", json_real((double)run.step / 10));
        json_object_set_new(message, "learning_rate", json_real(1e-3));
        json_object_set_new(message, "grad_norm", json_real(1));
        json_object_set_new(message, "step_seconds", json_real(0.005));
        json_object_set_new(message, "tokens_per_second", json_real(20000));
        json_object_set_new(message, "eta_seconds", json_real((double)(run.max_steps - run.step) * 0.005));
        json_object_set_new(message, "skipped_steps", json_integer(0));
    }
    say(message, false);
}

static char *path_of(const char *name)
{
    return mt_path_join(run.folder, name);
}

static void hash_step(void)
{
    struct mt_sha256 hash;
    uint8_t digest[32];
    char text[128];
    int length = snprintf(text, sizeof text, "%s %ld", run.value, run.step);
    mt_sha256_init(&hash);
    mt_sha256_update(&hash, text, (size_t)length);
    mt_sha256_final(&hash, digest);
    mt_sha256_hex(digest, run.value);
}

static double loss_at(long step)
{
    return 5.0 / (double)(step + 1);
}

static void save(void)
{
    char name[64], now[MT_TIME_TEXT_BYTES];
    if (run.saved)
        return;
    say_progress("saving", -1);
    pause_ms(option("save_ms", 0));
    snprintf(name, sizeof name, "checkpoints/.tmp-step-%08ld/megatrain", run.step);
    mt_autofree char *inner = path_of(name);
    snprintf(name, sizeof name, "checkpoints/.tmp-step-%08ld", run.step);
    mt_autofree char *temporary = path_of(name);
    snprintf(name, sizeof name, "checkpoints/step-%08ld", run.step);
    mt_autofree char *final = path_of(name);
    mt_autofree char *value = mt_path_join(temporary, "value");
    mt_autofree char *manifest = mt_path_join(inner, "manifest.json");
    mt_folder_remove(final, NULL);
    mt_folder_create(inner, 0755, NULL);
    mt_file_write_atomic(value, run.value, 64, 0644, NULL);
    mt_time_format(mt_time_unix_microseconds(), now);
    json_t *content = json_pack("{s:i, s:I, s:f, s:s, s:i, s:[{s:s, s:i, s:s}]}", "format", 1, "step",
                                (json_int_t)run.step, "loss", loss_at(run.step), "created_at", now, "bytes",
                                64, "files", "name", "value", "bytes", 64, "hash", "");
    mt_autofree char *text = json_dumps(content, 0);
    json_decref(content);
    mt_file_write_atomic(manifest, text, strlen(text), 0644, NULL);
    rename(temporary, final);
    say(json_pack("{s:s, s:I, s:s, s:i, s:f, s:s, s:b}", "type", "checkpoint", "step", (json_int_t)run.step,
                  "path", final, "bytes", 64, "loss", loss_at(run.step), "created_at", now, "verified", 1),
        true);
    run.saved = true;
}

/* The newest checkpoint, and metrics.jsonl cut back to it. */
static void resume(void)
{
    mt_autofree char *folder = path_of("checkpoints");
    mt_folder_create(folder, 0755, NULL);
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (strncmp(entry->d_name, "step-", 5) == 0 && strtol(entry->d_name + 5, NULL, 10) > run.step)
            run.step = strtol(entry->d_name + 5, NULL, 10);
    if (directory)
        closedir(directory);
    strcpy(run.value, "start");
    if (run.step > 0) {
        char name[64];
        size_t bytes;
        snprintf(name, sizeof name, "checkpoints/step-%08ld/value", run.step);
        mt_autofree char *path = path_of(name);
        mt_autofree char *value = NULL;
        if (mt_file_read(path, 64, &value, &bytes, NULL) < 0)
            _exit(66);
        strcpy(run.value, value);
        run.saved = true;
    }
    mt_autofree char *metrics = path_of("metrics.jsonl");
    mt_autofree char *text = NULL;
    size_t bytes, kept = 0;
    if (mt_file_read(metrics, 64 << 20, &text, &bytes, NULL) < 0)
        return;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_t *row = NULL;
        if (mt_json_parse(line, (size_t)(end - line), "row", &row, NULL) < 0)
            break;
        bool keep = json_integer_value(json_object_get(row, "step")) <= run.step;
        json_decref(row);
        if (!keep)
            break;
        kept = (size_t)(end + 1 - text);
    }
    if (truncate(metrics, (off_t)kept) < 0)
        _exit(66);
}

static void write_row(void)
{
    char row[512], now[MT_TIME_TEXT_BYTES];
    int length =
        snprintf(row, sizeof row,
                 "{\"step\": %ld, \"epoch\": 0.5, \"loss\": %.6f, \"grad_norm\": 1.0, \"learning_rate\": "
                 "0.001, \"tokens\": 100, \"target_tokens\": 90, \"tokens_per_second\": 20000.0, "
                 "\"step_seconds\": 0.005, \"time\": \"%s\", \"skipped_steps\": 0, \"attempt\": %ld}\n",
                 run.step, loss_at(run.step), mt_time_format(mt_time_unix_microseconds(), now), run.attempt);
    mt_autofree char *path = path_of("metrics.jsonl");
    mt_autofd int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || mt_fd_write_all(fd, row, (size_t)length) < 0)
        _exit(74);
}

static _Noreturn void hang(void)
{
    signal(SIGTERM, option("ignore_term", 0) ? SIG_IGN : SIG_DFL);
    for (;;)
        pause();
}

static _Noreturn void end(const char *state)
{
    save();
    say(json_pack("{s:s, s:s, s:I, s:f}", "type", "done", "state", state, "step", (json_int_t)run.step,
                  "loss", loss_at(run.step)),
        true);
    if (option("hang_after_done", 0))
        hang();
    exit(0);
}

/* What the daemon has said since the last look; "" when nothing, NULL when it is gone. */
static const char *listen_to_daemon(void)
{
    static char line[4096];
    ssize_t got = recv(LINK, line, sizeof line - 1, MSG_DONTWAIT);
    if (got == 0)
        return NULL;
    line[got > 0 ? got : 0] = '\0';
    return line;
}

static void obey(void)
{
    const char *words = listen_to_daemon();
    if ((!words || terminated) && !option("ignore_term", 0)) {
        save();
        exit(75);
    }
    if (!words || option("ignore_requests", 0))
        return;
    if (strstr(words, "\"cancel\""))
        end("cancelled");
    if (strstr(words, "\"pause\""))
        end("paused");
    if (strstr(words, "\"checkpoint\""))
        save();
}

static void misbehave_at_start(void)
{
    if (option("garbage", 0)) {
        static const char junk[] =
            "hello\n[1, 2]\n{\"type\": 7}\n{\"type\": \"progress\", \"step\": -5}\n{\"type\": "
            "\"progress\", \"step\": \"many\", \"phase\": [], \"loss\": \"low\"}\n\xff\xfe\n{"
            "\"type\": \"checkpoint\", \"step\": 1e99, \"path\": \"/etc/passwd\"}\n{\"type\": "
            "\"done\"}\n{\"type\": \"unheard of\"}\n\n\n";
        send(LINK, junk, sizeof junk - 1, MSG_NOSIGNAL);
        char block[4096];
        memset(block, 'x', sizeof block);
        for (int i = 0; i < 64; i++)
            send(LINK, block, sizeof block, MSG_NOSIGNAL);
        send(LINK, "\n", 1, MSG_NOSIGNAL);
    }
    for (long i = option("flood", 0); i > 0; i--)
        say(json_pack("{s:s, s:s, s:s}", "type", "log", "level", i % 2 ? "warning" : "info", "message",
                      "a line among many"),
            true);
    for (long i = option("print", 0); i > 0; i -= 64)
        fputs("something that a library prints, whether anyone wants it or no\n", stdout);
    fflush(stdout);
    long resident = option("resident", 0);
    if (resident > 0) {
        volatile char *memory = malloc((size_t)resident << 20);
        for (size_t i = 0; memory && i < (size_t)resident << 20; i += 4096)
            memory[i] = 1;
    }
    if (option("child", 0)) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGTERM, SIG_IGN);
            for (;;)
                pause();
        }
        char text[32];
        snprintf(text, sizeof text, "%ld", (long)child);
        mt_autofree char *path = path_of("child.pid");
        mt_file_write_atomic(path, text, strlen(text), 0644, NULL);
    }
}

static void misbehave_before(long step, long made)
{
    bool once = run.attempt == 1 && step == option("crash_once_at", -1);
    if (step == option("crash_at", -1) || once || made == option("crash_every", -1)) {
        int number = (int)option("signal", SIGSEGV);
        signal(number, SIG_DFL);
        raise(number);
    }
    if (step == option("exit_at", -1))
        _exit((int)option("code", 1));
    if (step == option("hang_at", -1))
        hang();
    if (step == option("fail_at", -1)) {
        say(json_pack("{s:s, s:s, s:s, s:s, s:I}", "type", "failed", "reason",
                      run.reason ? run.reason : "internal", "message", "the counting worker was told to fail",
                      "detail", "as told", "step", (json_int_t)run.step),
            true);
        exit(70);
    }
}

static void count(void)
{
    long made = 0;
    while (run.step < run.max_steps) {
        obey();
        misbehave_before(run.step + 1, made++);
        pause_ms(option("step_ms", 5));
        run.step++;
        run.saved = false;
        hash_step();
        write_row();
        say_progress("training", loss_at(run.step));
        if (option("flood", 0))
            for (int i = 0; i < 20; i++)
                say(json_pack("{s:s, s:s, s:s}", "type", "log", "level", "warning", "message", "still here"),
                    false);
        if (run.every_steps && run.step % run.every_steps == 0)
            save();
    }
    end("completed");
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--job-dir") == 0)
            run.folder = argv[i + 1];
        else if (strcmp(argv[i], "--task") == 0 && strcmp(argv[i + 1], "probe") == 0)
            return puts("[]") < 0; /* it counts, whatever the data are */
        else if (strcmp(argv[i], "--attempt") == 0)
            run.attempt = strtol(argv[i + 1], NULL, 10);
    }
    if (!run.folder)
        return 64;
    mt_autofree char *path = path_of("job.json");
    mt_autofree char *text = NULL;
    json_t *job = NULL;
    size_t bytes;
    if (mt_file_read(path, 1 << 20, &text, &bytes, NULL) < 0 ||
        mt_json_parse(text, bytes, path, &job, NULL) < 0)
        return 78;
    json_t *labels = json_object_get(job, "labels");
    run.fake = json_string_value(json_object_get(labels, "fake"));
    run.reason = json_string_value(json_object_get(labels, "reason"));
    run.max_steps = (long)json_integer_value(json_object_get(json_object_get(job, "training"), "max_steps"));
    run.every_steps =
        (long)json_integer_value(json_object_get(json_object_get(job, "checkpoint"), "every_steps"));
    struct sigaction action = {.sa_handler = on_term};
    if (option("ignore_term", 0))
        action.sa_handler = SIG_IGN;
    sigaction(SIGTERM, &action, NULL);
    resume();
    pause_ms(option("mute_ms", 0));
    say_progress("loading", -1);
    pause_ms(option("load_ms", 0));
    misbehave_at_start();
    count();
}
