/* Manifests, the choice of a checkpoint to resume from, and pruning. */
#include "core/base/cleanup.h"
#include "core/train/checkpoint_list.h"
#include "core/train/manifest.h"
#include "tests/unit/support.h"

#include <math.h>
#include <sys/stat.h>

static void write_file(const char *folder, const char *name, const char *text)
{
    mt_autofree char *path = mt_path_join(folder, name);
    struct mt_error error = {0};
    assert_int_equal(mt_file_write_atomic(path, text, strlen(text), 0644, &error), 0);
}

/* A checkpoint with two files, whole. */
static void make_checkpoint(const char *checkpoints, size_t step)
{
    char name[32];
    struct mt_error error = {0};
    mt_checkpoint_folder_name(step, name);
    mt_autofree char *folder = mt_path_join(checkpoints, name);
    mt_autofree char *inner = mt_path_join(folder, "megatrain");
    assert_int_equal(mt_folder_create(inner, 0755, &error), 0);
    write_file(folder, "model.safetensors", "weights");
    write_file(inner, "optimizer.safetensors", "moments");
    uint64_t bytes;
    assert_int_equal(mt_manifest_write(folder, step, 2.5, &bytes, &error), 0);
    assert_int_equal(bytes, strlen("weights") + strlen("moments"));
}

static void damage(const char *checkpoints, size_t step, const char *file, const char *text)
{
    char name[32];
    mt_checkpoint_folder_name(step, name);
    mt_autofree char *folder = mt_path_join(checkpoints, name);
    mt_autofree char *path = mt_path_join(folder, file);
    if (text)
        write_file(folder, file, text);
    else
        assert_int_equal(unlink(path), 0);
}

static size_t newest(const char *checkpoints, struct mt_error *error)
{
    mt_autofree char *path = NULL;
    if (mt_checkpoint_newest_whole(checkpoints, &path, NULL, NULL, error) < 0)
        return SIZE_MAX;
    return path ? (size_t)strtoul(strrchr(path, '-') + 1, NULL, 10) : 0;
}

static void a_manifest_finds_each_kind_of_damage(void **state)
{
    const char *folder = mt_test_path(state, "checkpoints");
    const struct {
        const char *file, *text, *sentence;
    } kinds[] = {
        {"model.safetensors", NULL, "'model.safetensors' is missing"},
        {"model.safetensors", "weight", "has 6 bytes where 7 were written"},
        {"megatrain/optimizer.safetensors", "m0ments", "the contents of 'megatrain/optimizer.safetensors'"},
        {"megatrain/manifest.json", "{\"format\": 1", "manifest.json"},
        {"megatrain/manifest.json", "{\"format\": 2}", "newer MegaTrain"},
        {"megatrain/manifest.json", NULL, "manifest.json"},
        {"megatrain/manifest.json", /* it would vouch for files that it does not know */
         "{\"format\": 1, \"algorithm\": \"xxh3-128\", \"step\": 8, \"bytes\": 14, \"files\": []}",
         "damaged"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        make_checkpoint(folder, i + 1);
        struct mt_error error = {0};
        char name[32];
        mt_checkpoint_folder_name(i + 1, name);
        mt_autofree char *path = mt_path_join(folder, name);
        assert_int_equal(mt_manifest_verify(path, MT_MANIFEST_HASHES, &error), 0);
        damage(folder, i + 1, kinds[i].file, kinds[i].text);
        assert_true(mt_manifest_verify(path, MT_MANIFEST_HASHES, &error) < 0);
        assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
        assert_non_null(strstr(error.message, kinds[i].sentence));
    }
}

static void a_manifest_cannot_name_files_outside(void **state)
{
    const char *folder = mt_test_path(state, "checkpoints");
    make_checkpoint(folder, 1);
    damage(folder, 1, "megatrain/manifest.json",
           "{\"format\": 1, \"algorithm\": \"xxh3-128\", \"step\": 1, \"files\": [{\"name\": "
           "\"../../etc/passwd\", \"bytes\": 1, "
           "\"hash\": \"00\"}]}");
    struct mt_error error = {0};
    assert_int_equal(newest(folder, &error), SIZE_MAX);
    assert_non_null(strstr(error.message, "damaged"));
}

static void the_newest_whole_checkpoint_is_chosen(void **state)
{
    const char *folder = mt_test_path(state, "checkpoints");
    struct mt_error error = {0};
    assert_int_equal(newest(folder, &error), 0); /* none at all is no error */
    for (size_t step = 10; step <= 40; step += 10)
        make_checkpoint(folder, step);
    assert_int_equal(newest(folder, &error), 40);
    damage(folder, 40, "model.safetensors", "wrong!!");
    assert_int_equal(newest(folder, &error), 30);
    damage(folder, 30, "megatrain/manifest.json", NULL);
    damage(folder, 20, "model.safetensors", NULL);
    assert_int_equal(newest(folder, &error), 10);
    damage(folder, 10, "model.safetensors", "");
    assert_int_equal(newest(folder, &error), SIZE_MAX); /* all are damaged: said, of the newest */
    assert_non_null(strstr(error.message, "step-00000040"));
}

static void a_renamed_checkpoint_is_passed_over(void **state)
{
    const char *folder = mt_test_path(state, "checkpoints");
    struct mt_error error = {0};
    make_checkpoint(folder, 6);
    make_checkpoint(folder, 7);
    mt_autofree char *from = mt_path_join(folder, "step-00000006");
    mt_autofree char *to = mt_path_join(folder, "step-00000009");
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(newest(folder, &error), 7);
}

static void unfinished_saves_are_removed_and_never_listed(void **state)
{
    const char *folder = mt_test_path(state, "checkpoints");
    make_checkpoint(folder, 5);
    mt_autofree char *unfinished = mt_path_join(folder, ".tmp-step-00000006");
    struct mt_error error = {0};
    assert_int_equal(mt_folder_create(unfinished, 0755, &error), 0);
    assert_int_equal(newest(folder, &error), 5);
    assert_int_equal(mt_checkpoint_remove_unfinished(folder, &error), 0);
    assert_false(mt_path_exists(unfinished));
    assert_int_equal(newest(folder, &error), 5);
}

static size_t count_steps(const char *folder, size_t *steps)
{
    struct mt_checkpoint_list list;
    struct mt_error error = {0};
    assert_int_equal(mt_checkpoint_list_read(folder, &list, &error), 0);
    size_t count = list.count;
    for (size_t i = 0; i < count; i++)
        steps[i] = list.entries[i].step;
    mt_checkpoint_list_free(&list);
    return count;
}

static void pruning_keeps_the_newest_the_best_and_the_resumed_one(void **state)
{
    const char *folder = mt_test_path(state, "checkpoints");
    struct mt_error error = {0};
    for (size_t step = 10; step <= 50; step += 10)
        make_checkpoint(folder, step);
    const size_t kept[] = {10, 30}; /* the best at 10, resumed from 30, keep 1, now at 50 */
    assert_int_equal(mt_checkpoint_prune(folder, 1, kept, 2, &error), 0);
    size_t steps[8];
    assert_int_equal(count_steps(folder, steps), 3);
    assert_int_equal(steps[0], 10);
    assert_int_equal(steps[1], 30);
    assert_int_equal(steps[2], 50);
    assert_int_equal(mt_checkpoint_prune(folder, 2, NULL, 0, &error), 0);
    assert_int_equal(count_steps(folder, steps), 2);
    assert_int_equal(steps[0], 30);
}

static void names_that_are_no_steps_are_passed_over(void **state)
{
    const char *folder = mt_test_path(state, "checkpoints");
    make_checkpoint(folder, 7);
    const char *names[] = {"step-", "step--3", "step-12x", "step-99999999999999999999999", "final", "other"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        mt_autofree char *path = mt_path_join(folder, names[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    size_t steps[8];
    assert_int_equal(count_steps(folder, steps), 1);
    assert_int_equal(steps[0], 7);
}

static void a_run_is_resolved_to_its_final_or_newest_checkpoint(void **state)
{
    const char *run = mt_test_path(state, "run");
    mt_autofree char *checkpoints = mt_path_join(run, "checkpoints");
    struct mt_error error = {0};
    mt_autofree char *none = NULL;
    assert_true(mt_checkpoint_resolve(run, &none, &error) < 0);
    make_checkpoint(checkpoints, 3);
    make_checkpoint(checkpoints, 12);
    mt_autofree char *first = NULL, *second = NULL, *third = NULL;
    assert_int_equal(mt_checkpoint_resolve(run, &first, &error), 0);
    assert_non_null(strstr(first, "step-00000012"));
    mt_autofree char *link = mt_path_join(checkpoints, "final");
    assert_int_equal(symlink("step-00000003", link), 0);
    assert_int_equal(mt_checkpoint_resolve(run, &second, &error), 0);
    assert_non_null(strstr(second, "final"));
    write_file(run, "config.json", "{}");
    assert_int_equal(mt_checkpoint_resolve(run, &third, &error), 0);
    assert_string_equal(third, run);
}

/* A file that has a checkpoint's name is passed over, kept, and moved out of a save's way. */
static void files_in_the_place_of_checkpoints_are_not_lost(void **state)
{
    const char *folder = mt_test_path(state, "checkpoints");
    struct mt_error error = {0};
    make_checkpoint(folder, 3);
    make_checkpoint(folder, 4);
    write_file(folder, "step-00000005", "mine");
    assert_int_equal(newest(folder, &error), 4);
    assert_int_equal(mt_checkpoint_prune(folder, 1, NULL, 0, &error), 0);
    size_t steps[8];
    assert_int_equal(count_steps(folder, steps), 2);
    assert_int_equal(steps[0], 4);
    assert_int_equal(steps[1], 5);
    mt_autofree char *moved = NULL, *again = NULL, *none = NULL;
    assert_int_equal(mt_checkpoint_make_way(folder, 5, &moved, &error), 0);
    assert_non_null(strstr(moved, "step-00000005.aside-1"));
    assert_int_equal(mt_checkpoint_make_way(folder, 4, &none, &error), 0);
    assert_null(none);
    write_file(folder, "step-00000005", "mine too");
    assert_int_equal(mt_checkpoint_make_way(folder, 5, &again, &error), 0);
    assert_non_null(strstr(again, "step-00000005.aside-2"));
    mt_autofree char *text = NULL;
    size_t bytes;
    assert_int_equal(mt_file_read(moved, 100, &text, &bytes, &error), 0);
    assert_string_equal(text, "mine");
    write_file(folder, ".tmp-step-00000009", "");
    assert_int_equal(mt_checkpoint_remove_unfinished(folder, &error), 0);
    assert_int_equal(count_steps(folder, steps), 1);
}

static void the_loss_before_the_first_step_is_null(void **state)
{
    const char *folder = mt_test_path(state, "step-00000000");
    mt_autofree char *inner = mt_path_join(folder, "megatrain");
    struct mt_error error = {0};
    uint64_t bytes;
    assert_int_equal(mt_folder_create(inner, 0755, &error), 0);
    assert_int_equal(mt_manifest_write(folder, 0, NAN, &bytes, &error), 0);
    mt_autojson json_t *manifest = NULL;
    assert_int_equal(mt_manifest_read(folder, &manifest, &error), 0);
    assert_true(json_is_null(json_object_get(manifest, "loss")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(a_manifest_finds_each_kind_of_damage),
        mt_test_in_folder(a_manifest_cannot_name_files_outside),
        mt_test_in_folder(the_newest_whole_checkpoint_is_chosen),
        mt_test_in_folder(a_renamed_checkpoint_is_passed_over),
        mt_test_in_folder(unfinished_saves_are_removed_and_never_listed),
        mt_test_in_folder(pruning_keeps_the_newest_the_best_and_the_resumed_one),
        mt_test_in_folder(names_that_are_no_steps_are_passed_over),
        mt_test_in_folder(a_run_is_resolved_to_its_final_or_newest_checkpoint),
        mt_test_in_folder(files_in_the_place_of_checkpoints_are_not_lost),
        mt_test_in_folder(the_loss_before_the_first_step_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
