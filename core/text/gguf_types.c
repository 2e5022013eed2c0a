#include "core/text/gguf_types.h"

int mt_gguf_types_of_tokenizer(const struct mt_gguf *file, struct mt_error *error)
{
    static const char *const texts[] = {"tokenizer.ggml.model", "tokenizer.ggml.pre",
                                        "tokenizer.chat_template", "tokenizer.chat_template.tool_use"};
    static const char *const switches[] = {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token",
                                           "tokenizer.ggml.add_space_prefix",
                                           "tokenizer.ggml.remove_extra_whitespaces"};
    static const char *const ids[] = {"tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
                                      "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.unknown_token_id",
                                      "tokenizer.ggml.padding_token_id", "tokenizer.ggml.seperator_token_id",
                                      "tokenizer.ggml.cls_token_id",     "tokenizer.ggml.mask_token_id"};
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof texts / sizeof *texts; i++)
        r = mt_gguf_expect(file, texts[i], MT_GGUF_A_TEXT, error);
    for (size_t i = 0; r == 0 && i < sizeof switches / sizeof *switches; i++)
        r = mt_gguf_expect(file, switches[i], MT_GGUF_A_SWITCH, error);
    for (size_t i = 0; r == 0 && i < sizeof ids / sizeof *ids; i++)
        r = mt_gguf_expect(file, ids[i], MT_GGUF_A_WHOLE_NUMBER, error);
    return r;
}
