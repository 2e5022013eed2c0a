#include "core/text/side_tokens.h"

#include "core/base/size.h"
#include "core/text/token_names.h"
#include "core/text/vocab.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
}

int mt_side_tokens_add(struct mt_side_tokens *tokens, struct mt_side_token token)
{
    const size_t at = mt_text_map_find(&tokens->index, token.text, token.bytes);
    if (at != SIZE_MAX) {
        struct mt_side_token *known = &tokens->list[at];
        known->special = known->special || token.special;
        known->named = known->named || token.named;
        return 0;
    }
    if (tokens->count == tokens->capacity) {
        const size_t capacity = mt_size_max(2 * tokens->capacity, 32);
        void *list = realloc(tokens->list, capacity * sizeof *tokens->list);
        if (!list)
            return -ENOMEM;
        tokens->list = list;
        tokens->capacity = capacity;
    }
    if (mt_text_map_put(&tokens->index, token.text, token.bytes, tokens->count) < 0)
        return -ENOMEM;
    tokens->list[tokens->count++] = token;
    return 0;
}

int32_t mt_side_tokens_find(const struct mt_side_tokens *tokens, const char *text, size_t bytes)
{
    const size_t at = mt_text_map_find(&tokens->index, text, bytes);
    return at == SIZE_MAX ? MT_TOKEN_NONE : (int32_t)tokens->list[at].id;
}

/* A text, or an object with `content` and flags. Empty ones are none. */
static int add_json(struct mt_side_tokens *tokens, const json_t *json, int64_t id, bool named)
{
    const json_t *content = json_is_object(json) ? json_object_get(json, "content") : json;
    if (!json_string_length(content))
        return 0;
    return mt_side_tokens_add(tokens, (struct mt_side_token){
                                          .text = json_string_value(content),
                                          .bytes = json_string_length(content),
                                          .id = id,
                                          .named = named,
                                          .special = named || json_is_true(json_object_get(json, "special")),
                                          .single_word = json_is_true(json_object_get(json, "single_word")),
                                          .lstrip = json_is_true(json_object_get(json, "lstrip")),
                                          .rstrip = json_is_true(json_object_get(json, "rstrip")),
                                      });
}

static int read_decoder(struct mt_side_tokens *tokens, struct mt_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(tokens->config, "added_tokens_decoder"), key, value)
    {
        char *end;
        const long long id = strtoll(key, &end, 10);
        if (!*key || *end || id < 0 || id >= MT_VOCAB_MAX_ID)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "added_tokens_decoder of tokenizer_config.json: \"%.40s\" is no id", key);
        if (add_json(tokens, value, id, false) < 0)
            return no_memory(error);
    }
    return 0;
}

static int read_added(struct mt_side_tokens *tokens, struct mt_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(tokens->added, key, value)
    {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= MT_VOCAB_MAX_ID)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "added_tokens.json: \"%.40s\" has no id",
                                key);
        const struct mt_side_token token = {.text = key, .bytes = strlen(key), .id = id};
        if (token.bytes && mt_side_tokens_add(tokens, token) < 0)
            return no_memory(error);
    }
    return 0;
}

/* Those that have a name; they may be in the vocabulary. */
static int read_named(struct mt_side_tokens *tokens, const json_t *config)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token",  "sep_token",
                                        "pad_token", "cls_token", "mask_token", NULL};
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    int r = 0;
    for (size_t i = 0; r == 0 && names[i]; i++)
        r = add_json(tokens, json_object_get(config, names[i]), -1, true);
    for (size_t i = 0; i < 2; i++) {
        const json_t *list = json_object_get(config, lists[i]);
        json_t *value;
        const char *key;
        size_t k;
        json_array_foreach(list, k, value) if (r == 0) r = add_json(tokens, value, -1, true);
        json_object_foreach((json_t *)list, key, value) if (r == 0) r = add_json(tokens, value, -1, true);
    }
    return r;
}

int mt_side_tokens_read(const char *folder, struct mt_side_tokens *tokens, struct mt_error *error)
{
    *tokens = (struct mt_side_tokens){0};
    int r = mt_token_config_read(folder, "tokenizer_config.json", &tokens->config, error);
    if (r == 0)
        r = mt_token_config_read(folder, "special_tokens_map.json", &tokens->map, error);
    if (r == 0)
        r = mt_token_config_read(folder, "added_tokens.json", &tokens->added, error);
    if (r == 0)
        r = read_decoder(tokens, error);
    if (r == 0)
        r = read_added(tokens, error);
    if (r == 0 && (read_named(tokens, tokens->config) < 0 || read_named(tokens, tokens->map) < 0))
        r = no_memory(error);
    if (r < 0)
        mt_side_tokens_free(tokens);
    return r;
}

void mt_side_tokens_free(struct mt_side_tokens *tokens)
{
    free(tokens->list);
    mt_text_map_free(&tokens->index);
    json_decref(tokens->config);
    json_decref(tokens->map);
    json_decref(tokens->added);
    *tokens = (struct mt_side_tokens){0};
}

static int by_id(const void *a, const void *b)
{
    const struct mt_side_token *const *left = a, *const *right = b;
    return ((*left)->id > (*right)->id) - ((*left)->id < (*right)->id);
}

static int refuse_doubles(struct mt_side_tokens *tokens, struct mt_error *error)
{
    const struct mt_side_token **sorted = calloc(tokens->count + 1, sizeof *sorted);
    int r = sorted ? 0 : no_memory(error);
    for (size_t i = 0; r == 0 && i < tokens->count; i++)
        sorted[i] = &tokens->list[i];
    if (r == 0)
        qsort(sorted, tokens->count, sizeof *sorted, by_id);
    for (size_t i = 1; r == 0 && i < tokens->count; i++)
        if (sorted[i]->id == sorted[i - 1]->id)
            r = mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                             "the added tokens \"%.40s\" and \"%.40s\" both have the id %" PRId64,
                             sorted[i - 1]->text, sorted[i]->text, sorted[i]->id);
    free(sorted);
    return r;
}

int64_t mt_side_tokens_number(struct mt_side_tokens *tokens, size_t next,
                              int32_t (*find)(const void *context, const char *text, size_t bytes),
                              const void *context, struct mt_error *error)
{
    int64_t size = (int64_t)next;
    for (size_t i = 0; i < tokens->count; i++) {
        struct mt_side_token *token = &tokens->list[i];
        if (token->id < 0)
            token->id = find(context, token->text, token->bytes);
        if (token->id >= size)
            size = token->id + 1;
    }
    for (size_t i = 0; i < tokens->count; i++)
        if (tokens->list[i].id < 0)
            tokens->list[i].id = size++;
    if (size > MT_VOCAB_MAX_ID)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "the vocabulary has %" PRId64 " tokens, too many", size);
    const int r = refuse_doubles(tokens, error);
    return r < 0 ? r : size;
}

int mt_side_tokens_describe(const struct mt_side_tokens *tokens, struct mt_text *text)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < tokens->count; i++) {
        const struct mt_side_token *token = &tokens->list[i];
        char line[96];
        snprintf(line, sizeof line, "\n%" PRId64 " %d%d%d%d%d %zu ", token->id, token->named, token->special,
                 token->single_word, token->lstrip, token->rstrip, token->bytes);
        r = mt_text_append(text, line, strlen(line));
        if (r == 0)
            r = mt_text_append(text, token->text, token->bytes);
    }
    return r;
}
