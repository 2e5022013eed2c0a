#include "core/data/encode.h"

#include "core/base/cleanup.h"

#include <string.h>

void mt_encoded_free(struct mt_encoded *encoded)
{
    mt_ids_free(&encoded->ids);
    mt_ids_free(&encoded->learned);
}

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a row's tokens");
}

static int drop(struct mt_encoded *encoded, enum mt_drop reason)
{
    encoded->drop = reason;
    return 1;
}

static int encode_document(const struct mt_tokenizer *tokenizer, const struct mt_conversation *document,
                           struct mt_encoded *encoded)
{
    struct mt_ids *ids = &encoded->ids;
    if (!document->bytes)
        return drop(encoded, MT_DROP_EMPTY);
    int r = mt_tokenizer_encode(tokenizer, document->text, document->bytes, true, ids, encoded->error);
    if (r < 0)
        return r;
    mt_tokenizer_single_begin(tokenizer, ids, 0);
    const int32_t end = mt_tokenizer_end(tokenizer);
    const bool ended = ids->count && ids->data[ids->count - 1] == end;
    if (end != MT_TOKEN_NONE && !ended && mt_ids_push(ids, end) < 0)
        return no_memory(encoded->error);
    return ids->count < 2 ? drop(encoded, MT_DROP_EMPTY) : 0; /* nothing to predict */
}

static bool is_zero(const struct mt_ids *learned)
{
    for (size_t i = 0; i < learned->count; i++)
        if (learned->data[i])
            return false;
    return true;
}

/* Whether one of the answers is to be learned. */
static bool wants_learning(const struct mt_conversation *conversation)
{
    const json_t *messages = json_object_get(conversation->chat, "messages");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        if (strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0 &&
            !json_object_get(message, "loss_weight"))
            return true;
    }
    return false;
}

static int encode_chat(const struct mt_dataset_options *options, const struct mt_conversation *conversation,
                       struct mt_encoded *encoded)
{
    if (!options->chat)
        return mt_error_set(encoded->error, -EINVAL, MT_REASON_INTERNAL,
                            "the rows are conversations, and no chat template was given");
    encoded->tools_unwritten = mt_chat_passes_over_tools(options->chat, conversation->chat);
    int r = mt_chat_encode_json(options->chat, options->tokenizer, conversation->chat, false, &encoded->ids,
                                &encoded->learned, encoded->error);
    if (r < 0 && encoded->error->reason == MT_REASON_BAD_DATA)
        return drop(encoded, MT_DROP_TEMPLATE);
    if (options->train_on_prompt)
        mt_ids_free(&encoded->learned);
    else if (r == 0 && is_zero(&encoded->learned) && wants_learning(conversation)) {
        mt_error_set(encoded->error, -EINVAL, MT_REASON_BAD_DATA,
                     "what the chat template renders has nothing of the answers");
        return drop(encoded, MT_DROP_TEMPLATE);
    }
    return r;
}

int mt_row_encode(const struct mt_dataset_options *options, const struct mt_columns *columns,
                  const struct mt_layout *layout, const struct mt_row *row, struct mt_encoded *encoded)
{
    mt_cleanup(mt_conversation_free) struct mt_conversation conversation = {0};
    encoded->kind = layout->kind;
    int r = mt_conversation_read(columns, layout, row, &conversation, encoded->error);
    if (r == -ENODATA && options->train_on_prompt) {
        *encoded->error = (struct mt_error){0};
        r = 0;
    }
    if (r == -ENODATA)
        return drop(encoded, MT_DROP_NO_TARGET);
    if (r == -EPROTO)
        return drop(encoded, MT_DROP_ORDER);
    if (r < 0)
        return r;
    return conversation.kind == MT_ROW_DOCUMENT ? encode_document(options->tokenizer, &conversation, encoded)
                                                : encode_chat(options, &conversation, encoded);
}
