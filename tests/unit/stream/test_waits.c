/* Every event wait of the schedule is necessary: under ThreadSanitizer (make tsan) the test leaves out each
 * in turn, by the place in the code that asks for it, and a race must be reported. Elsewhere it only checks
 * that all of them are reached. What each child does is to train a few steps on a device apart with random
 * delays. */
#include "tests/unit/stream/stream_support.h"

#include <pthread.h>
#include <sys/wait.h>

#define MAX_SITES 64

static const char small[] =
    "{\"vocab_size\": 61, \"hidden_size\": 24, \"num_layers\": 5, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"intermediate_size\": 40}";

/* Runs in children only; exits with this on a report. */
#define RACE 66
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "history_size=7:halt_on_error=1:exitcode=66";
}

static struct {
    const struct mt_device_api *real;
    const void *sites[MAX_SITES]; /* return addresses */
    size_t count;
    const void *left_out;
    pthread_mutex_t lock;
} waits = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether the wait that is asked for from this place is left out. */
static bool left_out(const void *site)
{
    size_t i = 0;
    if (waits.left_out) /* a lock here would order what it must not */
        return site == waits.left_out;
    pthread_mutex_lock(&waits.lock);
    while (i < waits.count && waits.sites[i] != site)
        i++;
    if (i == waits.count && waits.count < MAX_SITES)
        waits.sites[waits.count++] = site;
    pthread_mutex_unlock(&waits.lock);
    return false;
}

static int wait_or_not(struct mt_stream *stream, struct mt_event *event)
{
    return left_out(__builtin_return_address(0)) ? 0 : waits.real->event_wait(stream, event);
}

/* The updates' thread: for a gradient that is on its way. */
static int synchronize_or_not(struct mt_event *event, struct mt_error *error)
{
    return left_out(__builtin_return_address(0)) ? 0 : waits.real->event_synchronize(event, error);
}

/* With the first layer frozen only the embedding waits for the pass's end; updates in the backward pass wait
 * for their gradients. */
enum { FIRST_FROZEN = 4, IN_BACKWARD, KINDS };

static struct setting busy_setting(size_t kind)
{
    struct setting setting = usual_setting(4, 16);
    setting.device = getenv("MEGATRAIN_CUDA_MODULE") ? "cuda" : "cpu-discrete";
    setting.threads = 1;
    setting.executor.activation_offload = kind == 1 ? MT_CHOICE_OFF : MT_CHOICE_ON;
    setting.executor.checkpoint_interval = kind == 2 ? 2 : 1;
    setting.executor.head_tile_rows = 25;
    setting.executor.stream_head = kind == 3 ? MT_CHOICE_OFF : MT_CHOICE_ON;
    setting.executor.num_grad_slabs = 1;
    setting.device_options.test_delay_seed = 5 + kind;
    setting.device_options.test_delay_microseconds = 200;
    if (kind == IN_BACKWARD)
        setting.executor.max_grad_norm = 0, setting.executor.max_skipped_steps = 0;
    return setting;
}

static void train(size_t kind)
{
    static struct mt_device_api api; /* the device's, with one function replaced */
    const size_t lengths[4] = {16, 9, 12, 16};
    const struct setting setting = busy_setting(kind);
    struct mt_batch *batch = batch_new(4, lengths, 61, 1);
    struct mt_error error = {0};
    struct bed bed;
    const char *frozen = "model.layers.0.*";
    struct mt_model *model;
    json_t *keys = json_loads(small, 0, NULL);
    bed = (struct bed){0};
    mt_assert_ok(mt_model_from_keys("llama", keys, &model, &error), &error);
    json_decref(keys);
    if (kind == FIRST_FROZEN)
        mt_assert_ok(mt_model_freeze(model, &frozen, 1, &error), &error);
    mt_assert_ok(bed_try(&bed, model, &setting, &error), &error);
    mt_executor_free(bed.executor);
    waits.real = bed.device->api;
    api = *bed.device->api;
    api.event_wait = wait_or_not;
    api.event_synchronize = synchronize_or_not;
    bed.device->api = &api;
    mt_assert_ok(mt_executor_new(bed.store, bed.device, bed.pool, &setting.executor, &bed.executor, &error),
                 &error);
    struct mt_step_result result;
    for (size_t i = 0; i < 2; i++)
        mt_executor_step(bed.executor, batch, 1e-3, &result, &error);
    mt_executor_finish(bed.executor, &error);
    mt_executor_free(bed.executor);
    bed.executor = NULL;
    bed.device->api = waits.real;
    bed_close(&bed);
    batch_free(batch);
}

#if defined(__SANITIZE_THREAD__)
/* Whether leaving out the wait at `site` is reported, in a process of its own. */
static bool reported(const void *site, size_t kind)
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        waits.left_out = site;
        train(kind);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == RACE;
}
#endif

static void every_wait_is_necessary(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++)
        train(kind);
    print_message("# %zu places of the code wait for events\n", waits.count);
    assert_true(waits.count >= 12);
#if defined(__SANITIZE_THREAD__)
    for (size_t kind = 0; kind < KINDS; kind++)
        assert_false(reported(&waits, kind)); /* no place of the code: nothing is left out */
    size_t needless = 0;
    for (size_t i = 0; i < waits.count; i++) {
        bool found = false;
        for (size_t kind = 0; kind < KINDS && !found; kind++)
            found = reported(waits.sites[i], kind);
        if (!found)
            print_error("no race without the wait at %p (addr2line -e this program)\n", waits.sites[i]);
        needless += !found;
    }
    assert_int_equal(needless, 0);
#endif
}

int main(void)
{
    setenv("CUDASIM_DELAY_US", "200", 0); /* the simulated CUDA device's delays */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wait_is_necessary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
