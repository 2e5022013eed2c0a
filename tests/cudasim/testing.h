/* testing.h: what the simulator's own tests share. */
#ifndef CUDASIM_TESTING_H
#define CUDASIM_TESTING_H

#include "gpu/launch.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
extern char **environ;
}

#define GOOD(call) assert_int_equal((int)(call), 0)
#define REFUSED(call, error)                                                                                 \
    do {                                                                                                     \
        assert_int_equal((int)(call), (int)(error));                                                         \
        cudaGetLastError();                                                                                  \
    } while (0)

/* A stream, and device and pinned memory for `count` elements of T. */
template <class T> struct fixture {
    cudaStream_t stream;
    T *device, *host;
    size_t count;

    explicit fixture(size_t elements) : count(elements)
    {
        GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        GOOD(cudaMalloc(&device, count * sizeof(T)));
        GOOD(cudaHostAlloc(&host, count * sizeof(T), cudaHostAllocDefault));
    }
    ~fixture()
    {
        cudaStreamDestroy(stream);
        cudaFree(device);
        cudaFreeHost(host);
    }
    fixture(const fixture &) = delete;
    fixture &operator=(const fixture &) = delete;
    void push()
    {
        GOOD(cudaMemcpyAsync(device, host, count * sizeof(T), cudaMemcpyHostToDevice, stream));
    }
    void pull()
    {
        GOOD(cudaMemcpyAsync(host, device, count * sizeof(T), cudaMemcpyDeviceToHost, stream));
        GOOD(cudaStreamSynchronize(stream));
    }
};

/* Starts a program with `argument` and, when given, a setting ("NAME=value"); returns its wait status and
 * what it wrote to stderr (into `text`). */
static inline int run_program(const char *path, const char *argument, const char *setting, char *text,
                              size_t bytes)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    char program[] = "test", given[128];
    snprintf(given, sizeof given, "%s", argument);
    char *const arguments[] = {program, given, NULL};
    size_t count = 0;
    while (environ[count])
        count++;
    char **environment = (char **)calloc(count + 3, sizeof *environment), set[256];
    char no_leaks[] = "ASAN_OPTIONS=detect_leaks=0"; /* children end in the middle of their work */
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "CUDASIM_", 8) != 0 && strncmp(environ[i], "ASAN_OPTIONS=", 13) != 0)
            environment[kept++] = environ[i];
    environment[kept++] = no_leaks;
    if (setting) {
        snprintf(set, sizeof set, "%s", setting);
        environment[kept++] = set;
    }
    pid_t child;
    assert_int_equal(posix_spawn(&child, path, &actions, NULL, arguments, environment), 0);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], text + length, bytes - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    char rest[4096];
    while (read(ends[0], rest, sizeof rest) > 0)
        ;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* This program. */
static inline int run_again(const char *argument, const char *setting, char *text, size_t bytes)
{
    return run_program("/proc/self/exe", argument, setting, text, bytes);
}

#endif
