/* Metadata of another type than a key has would pass for absent, and a default take its place: whoever reads
 * a key says first what it must be. */
#include "core/formats/gguf.h"

#include <math.h>

static bool fits(const struct mt_gguf_value *value, enum mt_gguf_expected expected)
{
    struct mt_gguf_text text;
    double number;
    int64_t whole;
    if (value->is_array)
        return false;
    if (value->kind != MT_GGUF_F32 && value->kind != MT_GGUF_F64 && !mt_gguf_integer(value, 0, &whole))
        return expected == MT_GGUF_A_TEXT && mt_gguf_string(value, &text); /* or beyond int64 */
    const bool is_number =
        value->kind != MT_GGUF_BOOL && mt_gguf_number(value, 0, &number) && isfinite(number);
    switch (expected) {
    case MT_GGUF_A_TEXT:
        return mt_gguf_string(value, &text);
    case MT_GGUF_A_NUMBER:
        return is_number;
    case MT_GGUF_A_WHOLE_NUMBER:
        return is_number && mt_gguf_integer(value, 0, &whole);
    case MT_GGUF_A_SWITCH:
        return mt_gguf_integer(value, 0, &whole) && (whole == 0 || whole == 1);
    }
    return false;
}

int mt_gguf_expect(const struct mt_gguf *file, const char *key, enum mt_gguf_expected expected,
                   struct mt_error *error)
{
    static const char *const names[] = {[MT_GGUF_A_TEXT] = "a text",
                                        [MT_GGUF_A_NUMBER] = "a finite number",
                                        [MT_GGUF_A_WHOLE_NUMBER] = "a whole number",
                                        [MT_GGUF_A_SWITCH] = "true or false"};
    const struct mt_gguf_value *value = mt_gguf_find(file, key);
    if (!value || fits(value, expected))
        return 0;
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s: %s must be %s, and the file has %s%s there",
                        mt_gguf_path(file), key, names[expected], value->is_array ? "an array of " : "",
                        mt_gguf_kind_name(value->kind));
}
