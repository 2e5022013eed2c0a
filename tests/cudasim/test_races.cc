/* ThreadSanitizer over the simulated device: a program with all its waits is clean, and each wait left out is
 * a reported race; the same for barriers within a block, when each CUDA thread is a thread to
 * ThreadSanitizer. The programs are those of races/races.cc, which is always built under ThreadSanitizer.
 */
#include "tests/cudasim/testing.h"

#include <libgen.h>
#include <limits.h>

#define RACE_STATUS 66 /* ThreadSanitizer's own */
#define TRIES 20

static char races[PATH_MAX];

static void expect(const char *argument, const char *setting, bool race)
{
    static char text[1 << 20];
    int status = -1;
    /* Where the kernel spreads addresses wider than ThreadSanitizer was built for, it starts only now and
     * then. */
    for (int i = 0; i < TRIES; i++) {
        status = run_program(races, argument, setting, text, sizeof text);
        if (!strstr(text, "unexpected memory mapping"))
            break;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != (race ? RACE_STATUS : 0) ||
        (strstr(text, "data race") != NULL) != race)
        fail_msg("%s: status %#x, and not %s: %s", argument, (unsigned)status, race ? "a race" : "clean",
                 text);
}

static void a_program_with_all_its_waits_is_clean(void **)
{
    for (int i = 0; i < 3; i++)
        expect("all waits", i ? "CUDASIM_DELAY_US=200" : "CUDASIM_SEED=1", false);
}

static void each_wait_left_out_is_a_reported_race(void **)
{
    static const char *const waits[] = {"copy before kernel", "kernel before copy back",
                                        "kernel before next copy", "copy back before next kernel",
                                        "host before its buffer"};
    for (const char *wait : waits)
        for (int i = 0; i < 3; i++)
            expect(wait, i ? "CUDASIM_DELAY_US=200" : "CUDASIM_SEED=1", true);
}

static void barriers_left_out_are_reported_races(void **)
{
    static const struct {
        const char *name;
        bool races;
    } blocks[] = {
        {"both barriers", false},     {"no first barrier", true},           {"no second barrier", true},
        {"a warp that meets", false}, {"a warp that only exchanges", true},
    };
    for (const auto &block : blocks) {
        expect(block.name, "CUDASIM_RACECHECK=1", block.races);
        expect(block.name, NULL, false); /* one thread for all: nothing to see */
    }
}

int main(int, char **argv)
{
    snprintf(races, sizeof races, "%s/races", dirname(argv[0]));
    unsetenv("TSAN_OPTIONS"); /* the programs have their own */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_with_all_its_waits_is_clean),
        cmocka_unit_test(each_wait_left_out_is_a_reported_race),
        cmocka_unit_test(barriers_left_out_are_reported_races),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
