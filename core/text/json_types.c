#include "core/text/json_types.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MAX_PLACE_BYTES 200

enum expected {
    A_TEXT,
    A_SWITCH,
    A_WHOLE_NUMBER,
    A_NUMBER,
    A_LIST,
    OBJECTS,
    AN_OBJECT,
    A_LIST_OR_OBJECT,
    A_TOKEN,
    IDS
};

static const char *const names[] = {
    [A_TEXT] = "a text",
    [A_SWITCH] = "true or false",
    [A_WHOLE_NUMBER] = "a whole number",
    [A_NUMBER] = "a number",
    [A_LIST] = "a list",
    [OBJECTS] = "a list of objects",
    [AN_OBJECT] = "an object",
    [A_LIST_OR_OBJECT] = "a list or an object",
    [A_TOKEN] = "a text, or an object with `content`",
    [IDS] = "a whole number or a list of them",
};

struct key {
    const char *name;
    enum expected expected;
};

/* Wherever they stand in a tokenizer.json. `id` is a number of added tokens and a text of templates, so it is
 * not here. */
static const struct key tokenizer_keys[] = {
    {"type", A_TEXT},
    {"prepend", A_TEXT},
    {"prepend_scheme", A_TEXT},
    {"behavior", A_TEXT},
    {"replacement", A_TEXT},
    {"precompiled_charsmap", A_TEXT},
    {"content", A_TEXT},
    {"String", A_TEXT},
    {"Regex", A_TEXT},
    {"delimiter", A_TEXT},
    {"continuing_subword_prefix", A_TEXT},
    {"end_of_word_suffix", A_TEXT},
    {"unk_token", A_TEXT},
    {"suffix", A_TEXT},
    {"single_word", A_SWITCH},
    {"lstrip", A_SWITCH},
    {"rstrip", A_SWITCH},
    {"normalized", A_SWITCH},
    {"special", A_SWITCH},
    {"strip_left", A_SWITCH},
    {"strip_right", A_SWITCH},
    {"invert", A_SWITCH},
    {"add_prefix_space", A_SWITCH},
    {"use_regex", A_SWITCH},
    {"trim_offsets", A_SWITCH},
    {"individual_digits", A_SWITCH},
    {"split", A_SWITCH},
    {"byte_fallback", A_SWITCH},
    {"fuse_unk", A_SWITCH},
    {"ignore_merges", A_SWITCH},
    {"clean_text", A_SWITCH},
    {"handle_chinese_chars", A_SWITCH},
    {"strip_accents", A_SWITCH},
    {"lowercase", A_SWITCH},
    {"start", A_WHOLE_NUMBER},
    {"stop", A_WHOLE_NUMBER},
    {"unk_id", A_WHOLE_NUMBER},
    {"dropout", A_NUMBER},
    {"added_tokens", OBJECTS},
    {"normalizers", OBJECTS},
    {"pretokenizers", OBJECTS},
    {"processors", OBJECTS},
    {"decoders", OBJECTS},
    {"single", OBJECTS},
    {"ids", A_LIST},
    {"merges", A_LIST},
    {"model", AN_OBJECT},
    {"normalizer", AN_OBJECT},
    {"pre_tokenizer", AN_OBJECT},
    {"post_processor", AN_OBJECT},
    {"decoder", AN_OBJECT},
    {"pattern", AN_OBJECT},
    {"special_tokens", AN_OBJECT},
    {"Sequence", AN_OBJECT},
    {"SpecialToken", AN_OBJECT},
};

/* Of the outermost object of the files beside it. */
static const struct key side_keys[] = {
    {"tokenizer_class", A_TEXT},
    {"add_bos_token", A_SWITCH},
    {"add_eos_token", A_SWITCH},
    {"add_prefix_space", A_SWITCH},
    {"legacy", A_SWITCH},
    {"added_tokens_decoder", AN_OBJECT},
    {"additional_special_tokens", A_LIST_OR_OBJECT},
    {"extra_special_tokens", A_LIST_OR_OBJECT},
    {"bos_token", A_TOKEN},
    {"eos_token", A_TOKEN},
    {"unk_token", A_TOKEN},
    {"sep_token", A_TOKEN},
    {"pad_token", A_TOKEN},
    {"cls_token", A_TOKEN},
    {"mask_token", A_TOKEN},
    {"bos_token_id", IDS},
    {"eos_token_id", IDS},
    {"pad_token_id", IDS},
};

/* Of an object that is a token. */
static const struct key token_keys[] = {
    {"content", A_TEXT},  {"special", A_SWITCH}, {"single_word", A_SWITCH},
    {"lstrip", A_SWITCH}, {"rstrip", A_SWITCH},
};

#define NUM(keys) (sizeof(keys) / sizeof *(keys))

static bool are_ids(const json_t *value)
{
    size_t i;
    const json_t *id;
    json_array_foreach(value, i, id)
    {
        if (!json_is_integer(id))
            return false;
    }
    return json_is_array(value) || json_is_integer(value);
}

static bool are_objects(const json_t *value)
{
    size_t i;
    const json_t *one;
    json_array_foreach(value, i, one)
    {
        if (!json_is_object(one))
            return false;
    }
    return json_is_array(value);
}

static bool fits(const json_t *value, enum expected expected)
{
    switch (expected) {
    case A_TEXT:
        return json_is_string(value);
    case A_SWITCH:
        return json_is_boolean(value);
    case A_WHOLE_NUMBER:
        return json_is_integer(value);
    case A_NUMBER:
        return json_is_number(value);
    case A_LIST:
        return json_is_array(value);
    case OBJECTS:
        return are_objects(value);
    case AN_OBJECT:
        return json_is_object(value);
    case A_LIST_OR_OBJECT:
        return json_is_array(value) || json_is_object(value);
    case A_TOKEN:
        return json_is_string(value) || json_is_string(json_object_get(value, "content"));
    case IDS:
        return are_ids(value);
    }
    return false;
}

static int check(const char *place, const char *key, const json_t *value, const struct key *keys,
                 size_t count, struct mt_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(key, keys[i].name) == 0 && !json_is_null(value) && !fits(value, keys[i].expected))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "`%s%s%.60s` must be %s", place,
                                *place ? "." : "", key, names[keys[i].expected]);
    return 0;
}

/* --- tokenizer.json ------------------------------------------------------------------------------------ */

static bool has_own_reader(const char *key)
{
    return strcmp(key, "vocab") == 0 || strcmp(key, "merges") == 0;
}

/* A sequence of steps without its list would be one of none. */
static int check_sequence(const json_t *value, const char *place, struct mt_error *error)
{
    static const char *const lists[] = {"normalizers", "pretokenizers", "processors", "decoders"};
    const char *type = json_string_value(json_object_get(value, "type"));
    bool there = !type || strcmp(type, "Sequence") != 0;
    for (size_t i = 0; i < NUM(lists); i++)
        there = there || json_is_array(json_object_get(value, lists[i]));
    return there ? 0
                 : mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "`%s` is a Sequence without the list of its steps", place);
}

static int check_inside(const json_t *value, const char *place, struct mt_error *error)
{
    const char *key;
    json_t *inner;
    size_t i;
    int r = check_sequence(value, place, error);
    char inner_place[MAX_PLACE_BYTES];
    json_array_foreach(value, i, inner)
    {
        snprintf(inner_place, sizeof inner_place, "%s.%zu", place, i);
        if (r == 0 && !json_is_integer(inner) && !json_is_string(inner))
            r = check_inside(inner, inner_place, error);
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, inner)
    {
        r = r ? r : check(place, key, inner, tokenizer_keys, NUM(tokenizer_keys), error);
        snprintf(inner_place, sizeof inner_place, "%s%s%.60s", place, *place ? "." : "", key);
        if (r == 0 && !has_own_reader(key))
            r = check_inside(inner, inner_place, error);
    }
    return r;
}

int mt_json_types_of_tokenizer(const json_t *document, struct mt_error *error)
{
    return json_is_object(document)
               ? check_inside(document, "", error)
               : mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "there is no JSON object in it");
}

/* --- the files beside it ------------------------------------------------------------------------------- */

static int check_token(const json_t *token, const char *place, struct mt_error *error)
{
    const char *key;
    json_t *value;
    int r = 0;
    json_object_foreach((json_t *)(uintptr_t)token, key, value)
    {
        r = r ? r : check(place, key, value, token_keys, NUM(token_keys), error);
    }
    return r;
}

static int check_decoder(const json_t *tokens, struct mt_error *error)
{
    const char *id;
    json_t *token;
    int r = 0;
    char place[MAX_PLACE_BYTES];
    json_object_foreach((json_t *)(uintptr_t)tokens, id, token)
    {
        snprintf(place, sizeof place, "added_tokens_decoder.%.60s", id);
        if (r == 0 && !fits(token, A_TOKEN))
            r = mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "`%s` must be %s", place, names[A_TOKEN]);
        r = r ? r : check_token(token, place, error);
    }
    return r;
}

/* Lists or objects of tokens without ids. */
static int check_tokens(const json_t *document, const char *key, struct mt_error *error)
{
    const json_t *tokens = json_object_get(document, key);
    const char *name;
    json_t *token;
    size_t i;
    bool good = true;
    json_array_foreach(tokens, i, token)
    {
        good = good && fits(token, A_TOKEN);
    }
    json_object_foreach((json_t *)(uintptr_t)tokens, name, token)
    {
        good = good && fits(token, A_TOKEN);
    }
    return good ? 0
                : mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "each of `%s` must be %s", key,
                               names[A_TOKEN]);
}

int mt_json_types_of_tokens(const json_t *document, const char *path, struct mt_error *error)
{
    const char *key;
    json_t *value;
    int r = json_is_object(document)
                ? check_decoder(json_object_get(document, "added_tokens_decoder"), error)
                : mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "there is no JSON object in it");
    r = r ? r : check_tokens(document, "additional_special_tokens", error);
    r = r ? r : check_tokens(document, "extra_special_tokens", error);
    json_object_foreach((json_t *)(uintptr_t)document, key, value)
    {
        r = r ? r : check("", key, value, side_keys, NUM(side_keys), error);
        const size_t bytes = strlen(key);
        if (r == 0 && json_is_object(value) && bytes > 6 && strcmp(key + bytes - 6, "_token") == 0)
            r = check_token(value, key, error);
    }
    return r < 0 ? mt_error_prefix(error, "%s", path), r : 0;
}
