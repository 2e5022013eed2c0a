/* Inside core/model: the list of tensors, and the GGUF half of it. */
#ifndef MT_MODEL_TENSORS_INTERNAL_H
#define MT_MODEL_TENSORS_INTERNAL_H

#include "core/model/tensors.h"

struct mt_tensors {
    struct mt_arena *arena; /* owns all that follows, and itself */
    size_t count;
    struct mt_tensor *items;
    const struct mt_tensor **by_name;   /* sorted */
    struct mt_safetensors *safetensors; /* what is to be closed */
    struct mt_gguf *gguf;
};

/* Room for `count` tensors. */
int mt_tensors_new(size_t count, struct mt_tensors **tensors, struct mt_error *error);
/* Once all are in. */
void mt_tensors_sort(struct mt_tensors *tensors);

int mt_tensors_open_gguf(const char *path, const struct mt_model *model, struct mt_tensors **tensors,
                         struct mt_error *error);

#endif
