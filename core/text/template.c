/* Finding a model's chat template and its special tokens. */
#include "core/text/template.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/formats/gguf.h"
#include "core/text/gguf_tokenizer.h"
#include "core/text/gguf_vocabulary.h"
#include "core/text/template_internal.h"
#include "core/text/token_names.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)64 << 20)

/* Changes with what templates render that their text does not tell. */
#define VERSION "chat template 1"

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a chat template");
}

/* --- special tokens
 * ----------------------------------------------------------------------------------------------------- */

static bool ends_with_token(const char *name)
{
    const size_t length = strlen(name);
    return length > 6 && strcmp(name + length - 6, "_token") == 0;
}

static int add_special_tokens(json_t *tokens, const json_t *config)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)config, name, value)
    {
        json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;
        if (!ends_with_token(name) || !json_is_string(content) || json_object_get(tokens, name))
            continue;
        if (json_object_set(tokens, name, content) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int load_special_tokens(const char *folder, const json_t *config, json_t *tokens,
                               struct mt_error *error)
{
    mt_autojson json_t *map = NULL;
    int r = mt_token_config_read(folder, "special_tokens_map.json", &map, error);
    if (r < 0)
        return r;
    if (add_special_tokens(tokens, config) < 0 || add_special_tokens(tokens, map) < 0)
        return out_of_memory(error);
    return 0;
}

/* --- making one
 * -------------------------------------------------------------------------------------------------------------
 */

void mt_template_free(struct mt_template *template)
{
    if (!template)
        return;
    mt_jinja_free(template->usual);
    mt_jinja_free(template->with_tools);
    json_decref(template->special_tokens);
    free(template);
}

static void hash_text(struct mt_sha256 *hash, const char *text, size_t bytes)
{
    const uint64_t length = bytes; /* so that no two lists of texts look alike */
    mt_sha256_update(hash, &length, sizeof length);
    mt_sha256_update(hash, text, bytes);
}

static int fingerprint(struct mt_template *template, const json_t *usual, const json_t *with_tools)
{
    struct mt_sha256 hash;
    mt_autofree char *tokens = json_dumps(template->special_tokens, JSON_COMPACT | JSON_SORT_KEYS);
    if (!tokens)
        return -ENOMEM;
    mt_sha256_init(&hash);
    hash_text(&hash, VERSION, strlen(VERSION));
    hash_text(&hash, tokens, strlen(tokens));
    hash_text(&hash, json_string_value(usual), json_string_length(usual));
    if (with_tools)
        hash_text(&hash, json_string_value(with_tools), json_string_length(with_tools));
    uint8_t digest[32];
    mt_sha256_final(&hash, digest);
    mt_sha256_hex(digest, template->fingerprint);
    return 0;
}

/* What writes tools or calls has to name them. */
static bool names_tools(const json_t *source)
{
    const char *text = source ? json_string_value(source) : "";
    return strstr(text, "tools") || strstr(text, "tool_calls");
}

/* Parses the sources (`with_tools` may be NULL). */
static int make(const json_t *usual, const json_t *with_tools, const char *name, const json_t *special_tokens,
                struct mt_template **result, struct mt_error *error)
{
    struct mt_template *template = calloc(1, sizeof *template);
    if (!template)
        return out_of_memory(error);
    template->special_tokens = special_tokens ? json_deep_copy(special_tokens) : json_object();
    int r =
        template->special_tokens && fingerprint(template, usual, with_tools) == 0 ? 0 : out_of_memory(error);
    if (r == 0)
        r = mt_jinja_parse(json_string_value(usual), json_string_length(usual), name, &template->usual,
                           error);
    if (r == 0 && with_tools)
        r = mt_jinja_parse(json_string_value(with_tools), json_string_length(with_tools), name,
                           &template->with_tools, error);
    if (r < 0) {
        mt_template_free(template);
        return r;
    }
    template->text_arguments = mt_template_wants_text(template->usual, template->special_tokens);
    template->text_arguments_with_tools =
        template->with_tools &&mt_template_wants_text(template->with_tools, template->special_tokens);
    template->knows_tools = names_tools(usual) || names_tools(with_tools);
    *result = template;
    return 0;
}

int mt_template_new(const char *source, size_t bytes, const char *name, const json_t *special_tokens,
                    struct mt_template **template, struct mt_error *error)
{
    *template = NULL;
    mt_autojson json_t *text = json_stringn_nocheck(source, bytes);
    return text ? make(text, NULL, name, special_tokens, template, error) : out_of_memory(error);
}

/* --- in a folder
 * ------------------------------------------------------------------------------------------------------------
 */

/* The texts of a `chat_template`, borrowed. *usual stays NULL where there is none. */
static int choose(const json_t *chat_template, const char *path, const json_t **usual,
                  const json_t **with_tools, struct mt_error *error)
{
    if (!chat_template || json_is_null(chat_template))
        return 0;
    if (json_is_string(chat_template)) {
        *usual = chat_template;
        return 0;
    }
    size_t i;
    json_t *one;
    json_array_foreach(chat_template, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        const json_t *text = json_object_get(one, "template");
        if (!name || !json_is_string(text))
            break;
        if (strcmp(name, "default") == 0)
            *usual = text;
        else if (strcmp(name, "tool_use") == 0)
            *with_tools = text;
    }
    if (json_array_size(chat_template) == 0 || i < json_array_size(chat_template))
        return mt_error_set(
            error, -EINVAL, MT_REASON_BAD_MODEL,
            "%s: chat_template is neither a text nor a list of objects with a name and a template", path);
    if (!*usual)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "%s: none of its chat templates is called \"default\"", path);
    return 0;
}

static int read_jinja(const char *folder, json_t **text, struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(folder, "chat_template.jinja");
    mt_autofree char *source = NULL;
    size_t bytes;
    if (!path)
        return out_of_memory(error);
    if (!mt_path_exists(path))
        return 0;
    int r = mt_file_read(path, MAX_FILE_BYTES, &source, &bytes, error);
    if (r < 0)
        return r;
    *text = json_stringn_nocheck(source, bytes);
    return *text ? 0 : out_of_memory(error);
}

/* From a JSON file of the folder; *document keeps the texts alive. */
static int choose_from(const char *folder, const char *name, json_t **document, const json_t **usual,
                       const json_t **with_tools, char **path, struct mt_error *error)
{
    free(*path);
    *path = mt_path_join(folder, name);
    if (!*path)
        return out_of_memory(error);
    int r = *document ? 0 : mt_token_config_read(folder, name, document, error);
    return r == 0 ? choose(json_object_get(*document, "chat_template"), *path, usual, with_tools, error) : r;
}

/* What chat_template.jinja and tokenizer_config.json hold; NULL where there is none. */
static int read_files(const char *folder, json_t **jinja, json_t **config, struct mt_error *error)
{
    if (mt_gguf_is(folder))
        return mt_gguf_template_read(folder, jinja, config, error);
    int r = read_jinja(folder, jinja, error);
    return r == 0 ? mt_token_config_read(folder, "tokenizer_config.json", config, error) : r;
}

/* `file`: a GGUF file that is open already, and `folder` its path; or NULL. */
static int load(const char *folder, const struct mt_gguf *file, struct mt_template **template,
                struct mt_error *error)
{
    mt_autojson json_t *jinja = NULL;
    mt_autojson json_t *config = NULL;
    mt_autojson json_t *other = NULL;
    mt_autojson json_t *tokens = json_object();
    mt_autofree char *path = mt_path_join(folder, "chat_template.jinja");
    const json_t *usual = NULL, *with_tools = NULL;
    *template = NULL;
    int r = !tokens || !path ? out_of_memory(error)
            : file           ? mt_gguf_vocabulary_config(file, &config, &jinja, error)
                             : read_files(folder, &jinja, &config, error);
    usual = jinja;
    if (r == 0 && !usual && config)
        r = choose_from(folder, "tokenizer_config.json", &config, &usual, &with_tools, &path, error);
    if (r == 0 && !usual)
        r = choose_from(folder, "chat_template.json", &other, &usual, &with_tools, &path, error);
    if (r == 0 && usual)
        r = load_special_tokens(folder, config, tokens, error);
    return r == 0 && usual ? make(usual, with_tools, path, tokens, template, error) : r;
}

int mt_template_load(const char *folder, struct mt_template **template, struct mt_error *error)
{
    return load(folder, NULL, template, error);
}

int mt_template_of_gguf(const struct mt_gguf *file, struct mt_template **template, struct mt_error *error)
{
    return load(mt_gguf_path(file), file, template, error);
}

int mt_template_named(const char *name, const char *folder, struct mt_template **template,
                      struct mt_error *error)
{
    const char *source = mt_template_source(name);
    mt_autojson json_t *config = NULL;
    mt_autojson json_t *tokens = NULL;
    *template = NULL;
    if (!source)
        return 0;
    mt_autojson json_t *text = json_string(source);
    tokens = folder ? json_object()
                    : json_pack("{s:s, s:s, s:s}", "bos_token", "<|begin|>", "eos_token", "<|end|>",
                                "pad_token", "<|pad|>");
    if (!text || !tokens)
        return out_of_memory(error);
    mt_autojson json_t *own = NULL;
    int r = folder ? read_files(folder, &own, &config, error) : 0;
    if (r == 0 && folder)
        r = load_special_tokens(folder, config, tokens, error);
    return r == 0 ? make(text, NULL, name, tokens, template, error) : r;
}

bool mt_template_knows_tools(const struct mt_template *template)
{
    return template->knows_tools;
}

const char *mt_template_fingerprint(const struct mt_template *template)
{
    return template->fingerprint;
}
