/* Inside core/text: what tokenizer.ggml.pre stands for. */
#ifndef MT_TEXT_GGUF_PRETOKENIZER_H
#define MT_TEXT_GGUF_PRETOKENIZER_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mt_gguf_pretokenizer {
    json_t *pre_tokenizer; /* as in a tokenizer.json; owned */
    json_t *normalizer;    /* likewise, or NULL */
    bool ignore_merges;    /* a word that is a token needs no merges */
    bool add_begin;        /* where the file does not say */
};

/* `name`: tokenizer.ggml.pre, or "default". MT_REASON_BAD_MODEL for one that is not supported, by name. */
int mt_gguf_pretokenizer_find(const char *name, size_t bytes, struct mt_gguf_pretokenizer *result,
                              struct mt_error *error);

#endif
