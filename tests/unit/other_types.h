/* JSON files in which one value after another is of a type that its key cannot have. */
#ifndef MT_TEST_OTHER_TYPES_H
#define MT_TEST_OTHER_TYPES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct mt_other_types {
    json_t *root;
    /* Called with `root` changed at `place` ("a.b.0"), whose last key is `key`; `value` is what stands there
     * now. */
    void (*try)(void *context, const char *place, const char *key, const char *value);
    /* Keys that are not looked into, nor changed. */
    bool (*passed_over)(const char *place, const char *key);
    void *context;
};

/* Whole numbers may become fractions, but numbers with a fraction may be whole; of null nobody knows what it
 * would be, but an object with a strange key. */
static bool mt_other_type(const json_t *was, const json_t *value)
{
    if (json_is_null(was))
        return json_is_object(value);
    if (json_is_boolean(was))
        return !json_is_boolean(value);
    if (json_is_real(was))
        return !json_is_number(value);
    return json_typeof(was) != json_typeof(value);
}

static void mt_other_types_below(const struct mt_other_types *test, json_t *value, const char *place)
{
    static const char *const values[] = {"\"x\"", "7", "0.5", "true", "[1]", "{\"a\": 1}"};
    char inner[512];
    if (json_array_size(value)) {
        snprintf(inner, sizeof inner, "%s.0", place);
        mt_other_types_below(test, json_array_get(value, 0), inner);
    }
    const char *key;
    json_t *was;
    void *next;
    json_object_foreach_safe(value, next, key, was)
    {
        snprintf(inner, sizeof inner, "%s%s%s", place, *place ? "." : "", key);
        if (test->passed_over(inner, key))
            continue;
        json_incref(was);
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            json_t *other = json_loads(values[i], JSON_DECODE_ANY, NULL);
            if (mt_other_type(was, other)) {
                json_object_set(value, key, other);
                test->try(test->context, inner, key, values[i]);
            }
            json_decref(other);
        }
        json_object_set(value, key, was);
        mt_other_types_below(test, was, inner);
        json_decref(was);
    }
}

static inline void mt_other_types_run(const struct mt_other_types *test)
{
    mt_other_types_below(test, test->root, "");
}

#endif
