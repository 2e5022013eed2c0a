/* What the names of GGUF files say: which are models, and which one a user means. */
#include "core/job/gguf_names.h"
#include "core/job/model_name.h"
#include "tests/unit/support.h"

static void models_are_told_from_what_lies_beside_them(void **state)
{
    (void)state;
    static const char *const models[] = {"a.gguf", "A.GGUF", "BF16/a-00001-of-00003.gguf",
                                         "a-imatrix-Q4_K_M.gguf"};
    static const char *const others[] = {
        "a.txt",         ".a.gguf",           ".gguf",          "a-00002-of-00003.gguf",
        "mmproj-a.gguf", "a-MMPROJ-f16.gguf", "imatrix_a.gguf", "a.imatrix.gguf",
        "BF16/.a.gguf"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        assert_true(mt_gguf_starts_model(models[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(mt_gguf_starts_model(others[i]));
    assert_int_equal(mt_gguf_parts_named("b/a-00002-of-00013.gguf"), 13);
    assert_int_equal(mt_gguf_parts_named("a.gguf"), 1);
    assert_true(mt_gguf_same_model("b/a-00002-of-00013.gguf", "b/a-00001-of-00013.gguf"));
    assert_false(mt_gguf_same_model("b/a-00002-of-00013.gguf", "b/a-00002-of-00014.gguf"));
    assert_false(mt_gguf_same_model("b/a-00002-of-00013.gguf", "c/a-00002-of-00013.gguf"));
    assert_false(mt_gguf_same_model("a.gguf", "b.gguf"));
}

static const char *const names[] = {
    "BF16/tiny-BF16-00001-of-00002.gguf",
    "extra/tiny-Q8_0.gguf",
    "tiny-IQ4_XS.gguf",
    "tiny-Q4_K_M-v2.gguf",
    "tiny-Q4_K_S.gguf",
    "tiny-UD-Q3_K_XL.gguf",
    "tiny-Q8_0.gguf",
    "tiny_f16.gguf",
};

static void a_choice_means_a_name_or_a_word_of_it(void **state)
{
    (void)state;
    static const struct {
        const char *choice;
        int chosen; /* or what the error is */
    } cases[] = {
        {"tiny-Q8_0.gguf", 6}, /* with its folders, before the one that has them */
        {"extra/tiny-Q8_0.gguf", 1},
        {"extra", 1},
        {"BF16/tiny-BF16-00002-of-00002.gguf", 0},
        {"tiny-BF16-00001-of-00002.gguf", 0},
        {"tiny-BF16-00001-of-00003.gguf", -ENOENT},
        {"bf16", 0},
        {"F16", 7},
        {"Q4_K_M", 3},
        {"q4_k_m", 3},
        {"Q4_K", -ENOENT},
        {"Q4_XS", -ENOENT},
        {"4_XS", -ENOENT},
        {"IQ4_XS", 2},
        {"Q3_K_XL", 5},
        {"UD-Q3_K_XL", 5},
        {"Tiny-Q4_K_S", 4},
        {"Q8_0", -EINVAL},
        {"tiny", -EINVAL},
        {"Q6_K", -ENOENT},
        {NULL, -EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_error error = {0};
        size_t chosen = 99;
        const int r = mt_gguf_choose("here", "here/", names, 8, cases[i].choice, &chosen, &error);
        assert_int_equal(r < 0 ? r : (int)chosen, cases[i].chosen);
    }
}

static void an_open_choice_lists_what_there_is(void **state)
{
    (void)state;
    struct mt_error error = {0};
    size_t chosen;
    assert_int_equal(mt_gguf_choose("here", "Org/Tiny:", names, 8, "Q8_0", &chosen, &error), -EINVAL);
    assert_string_equal(
        error.message,
        "here holds 2 GGUF models that \"Q8_0\" may mean; name one of them by model.file, or as "
        "Org/Tiny:extra/tiny-Q8_0.gguf: there are extra/tiny-Q8_0.gguf, tiny-Q8_0.gguf");
    assert_int_equal(mt_gguf_choose("here", "here/", names + 6, 1, "Q6_K", &chosen, &error), -ENOENT);
    assert_string_equal(error.message, "here holds no GGUF model \"Q6_K\"; there is tiny-Q8_0.gguf");
    assert_int_equal(mt_gguf_choose("here", "here/", names + 6, 1, NULL, &chosen, &error), 0);
    assert_int_equal(mt_gguf_choose("here", "here/", names, 0, NULL, &chosen, &error), -ENOENT);
    assert_string_equal(error.message, "here holds no GGUF model");
    /* More than a sentence holds. */
    char text[100][64];
    const char *many[100];
    for (size_t i = 0; i < 100; i++) {
        snprintf(text[i], sizeof text[i], "a-model-with-a-name-of-some-length-%02zu.gguf", i);
        many[i] = text[i];
    }
    assert_int_equal(mt_gguf_choose("here", "here/", many, 100, NULL, &chosen, &error), -EINVAL);
    mt_assert_mentions(error.message, "holds 100 GGUF models");
    mt_assert_mentions(error.message, "length-05.gguf, ");
    mt_assert_mentions(error.message, ", ...");
}

static void names_of_models_are_read_as_other_programs_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name, *file; /* NULL: no name */
    } cases[] = {
        {"Org/Tiny", "Org/Tiny", ""},
        {"gpt2", "gpt2", ""},
        {"Org/Tiny-GGUF:Q4_K_M", "Org/Tiny-GGUF", "Q4_K_M"},
        {"Org/Tiny-GGUF:BF16/a b.gguf", "Org/Tiny-GGUF", "BF16/a b.gguf"},
        {"hf.co/Org/Tiny:Q4", "Org/Tiny", "Q4"},
        {"huggingface.co/Org/Tiny", "Org/Tiny", ""},
        {"hf.co/Tiny", "hf.co/Tiny", ""},
        {"other.co/Org/Tiny", NULL, NULL},
        {"Org/Tiny:", NULL, NULL},
        {"Org/Tiny:../x", NULL, NULL},
        {"Org/Tiny:/x", NULL, NULL},
        {"Org/Tiny:a:b", NULL, NULL},
        {":Q4_K_M", NULL, NULL},
        {"Org/../x", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_model_name name;
        assert_int_equal(mt_model_name_read(cases[i].text, &name), cases[i].name != NULL);
        if (cases[i].name) {
            assert_string_equal(name.name, cases[i].name);
            assert_string_equal(name.file, cases[i].file);
        }
    }
    char text[600];
    struct mt_model_name name;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(mt_model_name_read(text, &name));
    memcpy(text, "Org/Tiny:", 9);
    assert_false(mt_model_name_read(text, &name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_told_from_what_lies_beside_them),
        cmocka_unit_test(a_choice_means_a_name_or_a_word_of_it),
        cmocka_unit_test(an_open_choice_lists_what_there_is),
        cmocka_unit_test(names_of_models_are_read_as_other_programs_write_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
