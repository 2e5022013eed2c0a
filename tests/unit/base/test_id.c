/* core/base/id.h */
#include "core/base/id.h"
#include "core/base/time.h"
#include "tests/unit/support.h"

#include <pthread.h>

#define PER_THREAD 5000
#define THREADS 4

static void *make_ids(void *argument)
{
    char(*ids)[MT_ID_BYTES] = argument;
    for (size_t i = 0; i < PER_THREAD; i++)
        mt_id_new(ids[i]);
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void ids_are_unique_across_threads_and_rise_within_one(void **state)
{
    (void)state;
    static char ids[THREADS][PER_THREAD][MT_ID_BYTES];
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_ids, ids[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++) {
        for (size_t j = 0; j < PER_THREAD; j++) {
            assert_true(mt_id_valid(ids[i][j]));
            assert_true(j == 0 || strcmp(ids[i][j - 1], ids[i][j]) < 0);
        }
    }
    qsort(ids, (size_t)THREADS * PER_THREAD, MT_ID_BYTES, compare_ids);
    const char(*all)[MT_ID_BYTES] = ids[0];
    for (size_t i = 1; i < (size_t)THREADS * PER_THREAD; i++)
        assert_true(strcmp(all[i - 1], all[i]) != 0);
}

static void the_first_ten_characters_are_the_milliseconds(void **state)
{
    (void)state;
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    char id[MT_ID_BYTES];
    int64_t before = mt_time_unix_microseconds() / 1000;
    mt_id_new(id);
    int64_t after = mt_time_unix_microseconds() / 1000, told = 0;
    for (size_t i = 0; i < 10; i++)
        told = told * 32 + (strchr(digits, id[i]) - digits);
    assert_true(told >= before);
    assert_true(told <= after + 1); /* counts on after an id of the same millisecond */
}

static void only_ids_are_valid(void **state)
{
    (void)state;
    assert_true(mt_id_valid("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    assert_true(mt_id_valid("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"));
    assert_false(mt_id_valid("8ZZZZZZZZZZZZZZZZZZZZZZZZZ")); /* more than 128 bits */
    assert_false(mt_id_valid("01ARZ3NDEKTSV4RRFFQ69G5FA"));
    assert_false(mt_id_valid("01ARZ3NDEKTSV4RRFFQ69G5FAVX"));
    assert_false(mt_id_valid("01ARZ3NDEKTSV4RRFFQ69G5FAU")); /* U, I, L, O are not digits */
    assert_false(mt_id_valid("01arz3ndektsv4rrffq69g5fav"));
    assert_false(mt_id_valid("../../../../../../etc/pass"));
    assert_false(mt_id_valid(""));
    assert_false(mt_id_valid(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_unique_across_threads_and_rise_within_one),
        cmocka_unit_test(the_first_ten_characters_are_the_milliseconds),
        cmocka_unit_test(only_ids_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
