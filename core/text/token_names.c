#include "core/text/token_names.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/text/json_types.h"

#include <string.h>

int mt_token_config_read(const char *folder, const char *name, json_t **config, struct mt_error *error)
{
    *config = NULL;
    mt_autofree char *path = mt_path_join(folder, name);
    if (!path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
    if (!mt_path_exists(path))
        return 0;
    int r = mt_json_read(path, MT_REASON_BAD_MODEL, config, error);
    if (r == 0 && strcmp(name, "added_tokens.json") != 0) /* whose keys are texts of tokens */
        r = mt_json_types_of_tokens(*config, path, error);
    else if (r == 0 && !json_is_object(*config))
        r = mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s: there is no JSON object in it", path);
    return r;
}

bool mt_token_class_is(const char *name, const char *class_name)
{
    const size_t bytes = strlen(class_name);
    return strncmp(name, class_name, bytes) == 0 && (!name[bytes] || strcmp(name + bytes, "Fast") == 0);
}

const char *mt_token_config_text(const json_t *config, const char *name)
{
    const json_t *value = json_object_get(config, name);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

struct named_id {
    const char *name, *id_name;
    int32_t *id;
};

/* "bos_token_id": 1, or a list whose first counts. */
static void take_id(const struct mt_tokenizer *tokenizer, const json_t *config, const struct named_id *wanted)
{
    const json_t *value = json_object_get(config, wanted->id_name);
    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (json_is_integer(value) && json_integer_value(value) < (json_int_t)tokenizer->vocab_size &&
        json_integer_value(value) >= 0 && *wanted->id == MT_TOKEN_NONE)
        *wanted->id = (int32_t)json_integer_value(value);
}

int mt_token_names_read(const char *folder, struct mt_tokenizer *tokenizer,
                        int32_t (*find)(void *context, const char *text), void *context,
                        struct mt_error *error)
{
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json", "config.json",
                                        "generation_config.json"};
    const struct named_id wanted[] = {
        {"bos_token", "bos_token_id", &tokenizer->begin},
        {"eos_token", "eos_token_id", &tokenizer->end},
        {"pad_token", "pad_token_id", &tokenizer->pad},
    };
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        mt_autojson json_t *config = NULL;
        int r = mt_token_config_read(folder, files[f], &config, error);
        if (r < 0)
            return r;
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
            const char *text = mt_token_config_text(config, wanted[i].name);
            if (text && *wanted[i].id == MT_TOKEN_NONE)
                *wanted[i].id = find(context, text);
            take_id(tokenizer, config, &wanted[i]);
        }
    }
    return 0;
}
