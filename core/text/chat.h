/* From a conversation to the text and ids that a model is trained on or asked with: a chat template. One
 * object serves training and generation, so both see the same tokens. */
#ifndef MT_TEXT_CHAT_H
#define MT_TEXT_CHAT_H

#include "core/base/error.h"
#include "core/text/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mt_chat_role {
    MT_CHAT_SYSTEM,
    MT_CHAT_USER,
    MT_CHAT_ASSISTANT,
};

struct mt_message {
    enum mt_chat_role role;
    const char *text; /* not zero-terminated */
    size_t bytes;
    const char *input; /* the Alpaca `input` column of a user's message; NULL or empty when it has none */
    size_t input_bytes;
    bool silent; /* an answer that is not learned */
};

struct mt_chat;

/* `name`: a named template ("alpaca", "chatml", ...; core/text/template.h has them), or NULL for the one in
 * `model_folder` (may be NULL), else the Alpaca prompt as published. Errors: MT_REASON_BAD_JOB for a name
 * that is not known, MT_REASON_BAD_MODEL for a folder's template that does not parse. */
int mt_chat_open(const char *name, const char *model_folder, struct mt_chat **chat, struct mt_error *error);
void mt_chat_free(struct mt_chat *chat); /* NULL is fine */
const char *mt_chat_name(const struct mt_chat *chat);
/* Whether the conversation (as mt_chat_render_json takes it) has tools or calls of them, and the template
 * passes over them in silence: it neither writes nor refuses any. */
bool mt_chat_passes_over_tools(const struct mt_chat *chat, const json_t *conversation);
/* Identifies the rendering: name, version and text of the template. */
const char *mt_chat_fingerprint(const struct mt_chat *chat);

/* A part of a rendered conversation. Those of the Alpaca prompt are tokenised apart from one another, so that
 * the prompt's tokens are the same in training and in generation; what a model's template renders is
 * tokenised whole, as the model has always seen it. */
struct mt_chat_part {
    size_t offset, bytes; /* in `text` */
    bool answer;          /* an assistant's turn: what is learned */
    bool end;             /* the tokenizer's end token follows, learned with the answer */
};

struct mt_chat_rendering {
    struct mt_text text;
    struct mt_chat_part *parts;
    size_t num_parts, capacity;
};
void mt_chat_rendering_free(struct mt_chat_rendering *rendering); /* leaves {0} */

/* Renders messages into `rendering` (cleared first). With `generation_prompt` the text ends where the next
 * answer begins. Errors: -EINVAL, MT_REASON_BAD_DATA with the rule that the messages break. */
int mt_chat_render(const struct mt_chat *chat, const struct mt_message *messages, size_t num_messages,
                   bool generation_prompt, struct mt_chat_rendering *rendering, struct mt_error *error);

/* The same for a conversation as mt_template_render takes it: messages with tools, parts and reasoning. A
 * user's message may have the Alpaca column `input` beside its content. */
int mt_chat_render_json(const struct mt_chat *chat, const json_t *conversation, bool generation_prompt,
                        struct mt_chat_rendering *rendering, struct mt_error *error);

/* Renders and tokenises: appends the ids, and to `learned` (may be NULL) one entry an id, 1 where the token
 * belongs to an answer (its end token included) and 0 elsewhere. Exactly one begin token stands first where
 * the tokenizer has one. */
int mt_chat_encode(const struct mt_chat *chat, const struct mt_tokenizer *tokenizer,
                   const struct mt_message *messages, size_t num_messages, bool generation_prompt,
                   struct mt_ids *ids, struct mt_ids *learned, struct mt_error *error);
int mt_chat_encode_json(const struct mt_chat *chat, const struct mt_tokenizer *tokenizer,
                        const json_t *conversation, bool generation_prompt, struct mt_ids *ids,
                        struct mt_ids *learned, struct mt_error *error);

#endif
