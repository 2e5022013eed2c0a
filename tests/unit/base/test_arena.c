/* core/base/arena.h */
#include "core/base/arena.h"
#include "tests/unit/support.h"

static void memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct mt_arena *arena = mt_arena_new();
    assert_non_null(arena);
    enum { COUNT = 2000 };
    static unsigned char *blocks[COUNT];
    static size_t sizes[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        sizes[i] = i % 97 == 0 ? 50000 + i : i * 7 % 301;
        blocks[i] = mt_arena_alloc(arena, sizes[i], 1);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(blocks[i][j], 0);
        memset(blocks[i], (int)(i % 255) + 1, sizes[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(blocks[i][j], i % 255 + 1);
    }
    mt_arena_free(arena);
    mt_arena_free(NULL);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    struct mt_arena *arena = mt_arena_new();
    assert_null(mt_arena_alloc(arena, SIZE_MAX / 2, 3));  /* the product overflows */
    assert_null(mt_arena_alloc(arena, SIZE_MAX, 1));      /* the rounding does */
    assert_null(mt_arena_alloc(arena, SIZE_MAX - 40, 1)); /* the block's head does */
    assert_non_null(mt_arena_alloc(arena, 0, 8));
    assert_non_null(mt_arena_alloc(arena, 8, 8));
    mt_arena_free(arena);
}

static void texts_are_copied_whole(void **state)
{
    (void)state;
    struct mt_arena *arena = mt_arena_new();
    char text[] = "weights";
    char *copy = mt_arena_strdup(arena, text), *part = mt_arena_strndup(arena, text, 3);
    char *past = mt_arena_strndup(arena, text, 100);
    text[0] = 'X';
    assert_string_equal(copy, "weights");
    assert_string_equal(part, "wei");
    assert_string_equal(past, "weights");
    assert_string_equal(mt_arena_printf(arena, "layer %d of %s", 3, copy), "layer 3 of weights");
    char *long_text = mt_arena_printf(arena, "%*d", 100000, 7);
    assert_int_equal(strlen(long_text), 100000);
    mt_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(texts_are_copied_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
