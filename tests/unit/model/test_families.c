/* The family table: its order, its page, and what each entry must say. */
#include "core/base/file.h"
#include "core/model/family.h"
#include "tests/unit/support.h"

#include <stdlib.h>

static void the_page_is_printed_from_the_table(void **state)
{
    (void)state;
    char *seen = mt_family_markdown(), *page = NULL;
    size_t bytes;
    FILE *file = fopen("docs/models.md", "r");
    assert_non_null(seen);
    assert_non_null(file);
    page = calloc(1, 1 << 20);
    bytes = fread(page, 1, (1 << 20) - 1, file);
    fclose(file);
    if (bytes != strlen(seen) || memcmp(page, seen, bytes) != 0)
        fail_msg("docs/models.md is old: build/megatrain models --families --markdown > docs/models.md");
    free(seen);
    free(page);
}

static void entries_are_in_order_and_complete(void **state)
{
    (void)state;
    size_t count;
    const struct mt_family *const *families = mt_family_table(&count);
    for (size_t i = 0; i < count; i++) {
        const struct mt_family *f = families[i];
        const bool another = i && strcmp(families[i - 1]->model_type, f->model_type) == 0;
        if (i)
            assert_true(strcmp(families[i - 1]->model_type, f->model_type) <= 0);
        if (another)
            assert_non_null(families[i - 1]->when); /* else it would hide this one */
        else
            assert_ptr_equal(mt_family_find(f->model_type, NULL), f);
        assert_non_null(f->architecture);
        assert_true(f->rope_theta > 0 || f->ropes == MT_ROPE_NOWHERE);
        assert_non_null(f->names[MT_ROLE_EMBEDDING]);
        assert_non_null(f->names[MT_ROLE_O]);
        assert_non_null(f->names[MT_ROLE_DOWN]);
        assert_non_null(f->names[MT_ROLE_HEAD]);
        assert_true(!f->names[MT_ROLE_QKV] != !f->names[MT_ROLE_Q]);
        assert_true(!f->names[MT_ROLE_UP] != !f->names[MT_ROLE_GATE_UP]);
    }
    assert_null(mt_family_find("mamba", NULL));
}

/* No family, whatever its keys, reads over a setting that nobody knows. */
static void every_family_refuses_what_it_does_not_know(void **state)
{
    (void)state;
    size_t count;
    const struct mt_family *const *families = mt_family_table(&count);
    for (size_t i = 0; i < count; i++) {
        struct mt_error error = {0};
        struct mt_model *model;
        json_t *config =
            json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:n}", "model_type", families[i]->model_type,
                      "vocab_size", 50, "hidden_size", 32, "intermediate_size", 40, "num_hidden_layers", 2,
                      "num_attention_heads", 4, "head_dim", 8, "sliding_window");
        assert_non_null(config);
        mt_assert_ok(mt_model_from_config(config, &model, &error), &error);
        json_t *back = mt_model_to_config(model);
        assert_true(json_equal(back, config));
        json_decref(back);
        mt_model_free(model);
        json_object_set_new(config, "attention_by_moonlight", json_real(0.5));
        assert_int_equal(mt_model_from_config(config, &model, &error), -ENOTSUP);
        mt_assert_mentions(error.message, "attention_by_moonlight");
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_printed_from_the_table),
        cmocka_unit_test(entries_are_in_order_and_complete),
        cmocka_unit_test(every_family_refuses_what_it_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
