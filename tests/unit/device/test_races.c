/* Streams order what events promise and nothing else: under ThreadSanitizer a program that leaves out one
 * wait is a reported race, and the complete program is clean. Without ThreadSanitizer there is nothing to
 * see.
 *
 * The program is this test itself, started again with the name of a wait to leave out: ThreadSanitizer ends
 * it with a status of its own.
 */
#include "tests/unit/device/device_support.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#define RACE_STATUS 66 /* ThreadSanitizer's own */

extern char **environ;

__attribute__((unused)) /* by a build without ThreadSanitizer */
static const char *const waits[] = {"copy before compute", "compute before copy back",
                                    "compute before next copy", "copy back before next compute",
                                    "host before its buffer"};
enum { WAITS = sizeof waits / sizeof *waits, ROUNDS = 6, DIM = 24, COUNT = DIM * DIM };

/* Weights come in on one stream, are multiplied on the second, results leave on the third; one buffer each,
 * so that every direction needs an event. `without`: index of the wait to leave out, or WAITS. */
static int run_program(size_t without, bool discrete)
{
    struct mt_pool *pool = mt_pool_new(2);
    struct mt_device *device;
    struct mt_device_options options = {
        .pool = pool, .memory_limit_bytes = 1 << 20, .test_delay_seed = 7, .test_delay_microseconds = 200};
    if (mt_device_open(discrete ? "cpu-discrete" : "cpu", &options, &device, NULL))
        return 1;
    const struct mt_device_api *api = device->api;
    struct mt_stream *in, *compute, *out;
    struct mt_event *arrived, *computed, *left;
    float *weights, *x, *y, *host_in, *host_out;
    api->stream_create(device, "in", &in, NULL);
    api->stream_create(device, "compute", &compute, NULL);
    api->stream_create(device, "out", &out, NULL);
    api->event_create(device, &arrived, NULL);
    api->event_create(device, &computed, NULL);
    api->event_create(device, &left, NULL);
    api->allocate(device, COUNT * sizeof(float), (void **)&weights, NULL);
    api->allocate(device, COUNT * sizeof(float), (void **)&x, NULL);
    api->allocate(device, COUNT * sizeof(float), (void **)&y, NULL);
    api->host_allocate(device, ROUNDS * COUNT * sizeof(float), (void **)&host_in, NULL, NULL);
    api->host_allocate(device, ROUNDS * COUNT * sizeof(float), (void **)&host_out, NULL, NULL);
    api->fill_zero(compute, x, COUNT * sizeof(float));
    for (size_t i = 0; i < ROUNDS * COUNT; i++)
        host_in[i] = (float)(i % COUNT);
    for (size_t round = 0; round < ROUNDS; round++) {
        if (without != 2)
            api->event_wait(in, computed);
        api->copy_to_device(in, weights, host_in + round * COUNT, COUNT * sizeof(float));
        api->event_record(arrived, in);
        if (without != 0)
            api->event_wait(compute, arrived);
        if (without != 3)
            api->event_wait(compute, left);
        /* Every other round through the library, which the sanitizer cannot see into. */
        if (round % 2)
            api->linear(compute, &(struct mt_linear_args){.x = x,
                                                          .weight = weights,
                                                          .y = y,
                                                          .tokens = DIM,
                                                          .in_features = DIM,
                                                          .out_features = DIM});
        else
            api->add(compute, &(struct mt_add_args){x, weights, y, COUNT, 1, NULL, MT_F32});
        api->event_record(computed, compute);
        if (without != 1)
            api->event_wait(out, computed);
        api->copy_to_host(out, host_out + round * COUNT, y, COUNT * sizeof(float));
        api->event_record(left, out);
    }
    if (without != 4)
        api->event_synchronize(left, NULL);
    double sum = 0;
    for (size_t i = 0; i < ROUNDS * COUNT; i++)
        sum += (double)host_out[i];
    api->stream_destroy(in);
    api->stream_destroy(compute);
    api->stream_destroy(out);
    api->event_destroy(arrived);
    api->event_destroy(computed);
    api->event_destroy(left);
    api->release(device, weights);
    api->release(device, x);
    api->release(device, y);
    api->host_release(device, host_in);
    api->host_release(device, host_out);
    mt_device_close(device);
    mt_pool_free(pool);
    return sum < 0;
}

static int status_of(size_t without, bool discrete)
{
    char wait_text[8], discrete_text[] = {discrete ? '1' : '0', 0};
    snprintf(wait_text, sizeof wait_text, "%zu", without);
    char *const arguments[] = {"test_races", wait_text, discrete_text, NULL};
    posix_spawn_file_actions_t quiet; /* the reports that are wanted would look like failures */
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child;
    int status = -1;
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", &quiet, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&quiet);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_complete_program_is_clean(void **state)
{
    (void)state;
    for (int discrete = 0; discrete < 2; discrete++)
        assert_int_equal(status_of(WAITS, discrete), 0);
}

#if defined(__SANITIZE_THREAD__)
static void each_wait_that_is_left_out_is_a_reported_race(void **state)
{
    (void)state;
    for (int discrete = 0; discrete < 2; discrete++)
        for (size_t without = 0; without < WAITS; without++)
            if (status_of(without, discrete) != RACE_STATUS)
                fail_msg("\"%s\" was left out on %s and nothing was reported", waits[without],
                         discrete ? "cpu-discrete" : "cpu");
}
#endif

int main(int argc, char **argv)
{
    if (argc == 3)
        return run_program(strtoul(argv[1], NULL, 10), argv[2][0] == '1');
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_complete_program_is_clean),
#if defined(__SANITIZE_THREAD__)
        cmocka_unit_test(each_wait_that_is_left_out_is_a_reported_race),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
