/* Chat templates as models bring them: Jinja text and special tokens, from a folder or by name, rendered as
 * `transformers` (apply_chat_template) renders them, and the assistant's turns found in the result. */
#ifndef MT_TEXT_TEMPLATE_H
#define MT_TEXT_TEMPLATE_H

#include "core/base/error.h"
#include "core/text/chat.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mt_template;

/* The template of a GGUF file, or of a model's folder: chat_template.jinja, else `chat_template` of
 * tokenizer_config.json (a text, or a list of {name, template}, of which "default" is taken and "tool_use"
 * where a conversation has tools), else that of chat_template.json. *template is NULL where the folder has
 * none. Special tokens are what tokenizer_config.json calls `..._token` (a text, or an object with
 * `content`), and special_tokens_map.json where that has none. Errors: MT_REASON_BAD_MODEL; for a template
 * that does not parse with its line and column. */
int mt_template_load(const char *folder, struct mt_template **template, struct mt_error *error);
/* The same of a GGUF file that is open already. */
struct mt_gguf;
int mt_template_of_gguf(const struct mt_gguf *file, struct mt_template **template, struct mt_error *error);

/* One of our own, for models without: "chatml", "llama3", ... (mt_template_names); special tokens from
 * `folder`, which may be NULL: those of the `bytes` tokenizer. *template is NULL where there is none of that
 * name. */
int mt_template_named(const char *name, const char *folder, struct mt_template **template,
                      struct mt_error *error);
const char *const *mt_template_names(void); /* ends with NULL */
/* Its Jinja text; NULL where there is none of that name. */
const char *mt_template_source(const char *name);

/* From a text, as a GGUF file brings it. `special_tokens` (may be NULL) is an object of names to texts. */
int mt_template_new(const char *source, size_t bytes, const char *name, const json_t *special_tokens,
                    struct mt_template **template, struct mt_error *error);
void mt_template_free(struct mt_template *template); /* NULL is fine */

/* SHA-256 (hexadecimal) of all that determines what it renders, but the date. */
const char *mt_template_fingerprint(const struct mt_template *template);

/* Whether it names tools or calls of tools anywhere; one that does not passes over those of a conversation in
 * silence. */
bool mt_template_knows_tools(const struct mt_template *template);

/* `conversation` is a list of messages as OpenAI's API has them, or an object with `messages` and, if wanted,
 * `tools`, `documents` and any other variable of the template. As in transformers, null members of a message
 * are as if absent, and reasoning is found by templates under each of its names. Tool-call arguments may be a
 * JSON text or an object: the template gets what it was written for, whichever was given. An answer with a
 * `loss_weight` of 0 is rendered as ever, and is no answer to learn.
 *
 * `rendering` (cleared first) gets the text and its parts: an answer is what the assistant has to say, from
 * behind the generation prompt to the end-of-turn token, and nothing the template writes behind that. Answers
 * are found by the template's `{% generation %}` marks; without them turn by turn: an answer begins where the
 * rendering of the messages before it with a generation prompt ends, and ends where the rendering up to it
 * ends. Where a template writes earlier answers otherwise than new ones (without their reasoning), what both
 * have in common is compared.
 *
 * Errors: -EINVAL, MT_REASON_BAD_DATA: not a conversation, the template's own refusal (in its words), or an
 * answer that can't be told from the rest (without generation prompt only); else as mt_jinja_render. */
int mt_template_render(const struct mt_template *template, const json_t *conversation, bool generation_prompt,
                       struct mt_chat_rendering *rendering, struct mt_error *error);

#endif
