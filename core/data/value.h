/* A row as a tree: what the readers of all formats hand to the columns. Lives in an arena and in the text it
 * was read from. */
#ifndef MT_DATA_VALUE_H
#define MT_DATA_VALUE_H

#include "core/base/arena.h"
#include "core/base/error.h"

#include <stddef.h>

/* Of one row: each takes 72 bytes of memory, and as little as two in a file. */
#define MT_VALUE_MAX ((size_t)1 << 20)

enum mt_value_kind {
    MT_VALUE_NULL,
    MT_VALUE_FALSE,
    MT_VALUE_TRUE,
    MT_VALUE_NUMBER, /* `text` as it was written */
    MT_VALUE_TEXT,
    MT_VALUE_LIST,
    MT_VALUE_OBJECT,
};

struct mt_value {
    enum mt_value_kind kind;
    const char *text; /* not zero-terminated; may hold zero bytes */
    size_t bytes;
    const char *key; /* in an object; not zero-terminated */
    size_t key_bytes;
    struct mt_value *first, *next; /* children, and the next one of the parent */
};

/* The member of an object (of several with the same key the last, as Python reads them); NULL when absent. */
const struct mt_value *mt_value_get(const struct mt_value *object, const char *key);

const char *mt_value_kind_name(enum mt_value_kind kind); /* "an object", "null", ... */

/* A cell as text: null (or no value) is empty, a number is as it was written, a list of parts ({"type":
 * "text", "text": ...}, or "value" for the text, or plain strings) is its texts together. -EINVAL with what
 * it is instead, -ENOMEM. */
int mt_value_text(const struct mt_value *value, struct mt_arena *arena, const char **text, size_t *bytes,
                  struct mt_error *error);

/* Reads one JSON value from `text`, after blanks; `*used` counts what was read. Strings without escapes stay
 * in `text`, which must outlive the value and be UTF-8. More than JSON is read where Python writes it: NaN,
 * Infinity, -Infinity. Lone surrogates become U+FFFD. On failure `*used` is where it went wrong and the
 * message what was expected there. */
int mt_value_parse(const char *text, size_t bytes, struct mt_arena *arena, struct mt_value **value,
                   size_t *used, struct mt_error *error);

#endif
