/* The Alpaca prompt as published (Stanford Alpaca, train.py), and its continuation over several turns. */
#ifndef MT_TEXT_ALPACA_H
#define MT_TEXT_ALPACA_H

#include "core/text/chat.h"

int mt_alpaca_render(const struct mt_message *messages, size_t num_messages, bool generation_prompt,
                     struct mt_chat_rendering *rendering, struct mt_error *error);

/* The same as a Jinja template (a user's `input` stands below the instruction), for checkpoints of models
 * that were trained with it and whose own template is another. */
extern const char mt_alpaca_jinja[];

#endif
