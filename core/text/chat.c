/* Choosing a chat template, and from its rendering to ids. */
#include "core/text/chat.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/text/alpaca.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CONFIG_BYTES ((size_t)64 << 20)

/* A named template. Changing what one renders must change its fingerprint: token caches and checkpoints go by
 * it. */
struct mt_chat {
    const char *name;
    const char *fingerprint;
    int (*render)(const struct mt_message *messages, size_t num_messages, bool generation_prompt,
                  struct mt_chat_rendering *rendering, struct mt_error *error);
};

static const struct mt_chat named[] = {
    {"alpaca", "alpaca 1", mt_alpaca_render},
};

/* Whether the folder's tokenizer comes with a chat template of its own. */
static int has_template(const char *folder, bool *found, struct mt_error *error)
{
    mt_autofree char *jinja = mt_path_join(folder, "chat_template.jinja");
    mt_autofree char *config_path = mt_path_join(folder, "tokenizer_config.json");
    if (!jinja || !config_path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    *found = mt_path_exists(jinja);
    if (*found || !mt_path_exists(config_path))
        return 0;

    mt_autofree char *text = NULL;
    size_t bytes;
    int r = mt_file_read(config_path, MAX_CONFIG_BYTES, &text, &bytes, error);
    if (r < 0)
        return r;
    mt_autojson json_t *config = NULL;
    r = mt_json_parse(text, bytes, config_path, &config, error);
    if (r < 0) {
        if (error && r != -ENOMEM)
            error->reason = MT_REASON_BAD_MODEL;
        return r;
    }
    const json_t *template = json_object_get(config, "chat_template");
    *found = template && !json_is_null(template);
    return 0;
}

int mt_chat_open(const char *name, const char *model_folder, struct mt_chat **chat, struct mt_error *error)
{
    *chat = NULL;
    bool found = false;
    if (!name && model_folder) {
        int r = has_template(model_folder, &found, error);
        if (r < 0)
            return r;
    }
    if (found)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "%s: the model's own chat template is not supported yet", model_folder);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(name ? name : "alpaca", named[i].name) == 0) {
            *chat = malloc(sizeof **chat);
            if (!*chat)
                return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
            **chat = named[i];
            return 0;
        }
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_JOB,
                        "the chat template \"%s\" is not supported yet; there is: alpaca", name);
}

void mt_chat_free(struct mt_chat *chat)
{
    free(chat);
}

const char *mt_chat_name(const struct mt_chat *chat)
{
    return chat->name;
}

const char *mt_chat_fingerprint(const struct mt_chat *chat)
{
    return chat->fingerprint;
}

void mt_chat_rendering_free(struct mt_chat_rendering *rendering)
{
    mt_text_free(&rendering->text);
    free(rendering->parts);
    *rendering = (struct mt_chat_rendering){0};
}

int mt_chat_render(const struct mt_chat *chat, const struct mt_message *messages, size_t num_messages,
                   bool generation_prompt, struct mt_chat_rendering *rendering, struct mt_error *error)
{
    return chat->render(messages, num_messages, generation_prompt, rendering, error);
}

/* Appends `value` until `learned` is as long as `ids`. */
static int mark(struct mt_ids *learned, const struct mt_ids *ids, size_t base, int32_t value)
{
    int r = 0;
    while (r == 0 && learned->count < ids->count - base)
        r = mt_ids_push(learned, value);
    return r;
}

int mt_chat_encode(const struct mt_chat *chat, const struct mt_tokenizer *tokenizer,
                   const struct mt_message *messages, size_t num_messages, bool generation_prompt,
                   struct mt_ids *ids, struct mt_ids *learned, struct mt_error *error)
{
    mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
    int r = mt_chat_render(chat, messages, num_messages, generation_prompt, &rendering, error);
    /* Where the marks of this conversation stand when `learned` goes on from earlier ones. */
    const size_t base = learned ? ids->count - learned->count : 0;
    for (size_t i = 0; r == 0 && i < rendering.num_parts; i++) {
        const struct mt_chat_part *part = &rendering.parts[i];
        const size_t first = ids->count;
        r = mt_tokenizer_encode(tokenizer, rendering.text.data + part->offset, part->bytes, i == 0, ids,
                                error);
        if (i == 0)
            mt_tokenizer_single_begin(tokenizer, ids, first);
        const int32_t end = mt_tokenizer_end(tokenizer);
        if (r == 0 && part->end && end != MT_TOKEN_NONE && mt_ids_push(ids, end) < 0)
            r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a prompt");
        if (r == 0 && learned && mark(learned, ids, base, part->answer) < 0)
            r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a prompt");
    }
    return r;
}
