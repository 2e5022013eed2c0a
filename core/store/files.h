/* The store's arrays to and from safetensors files: weights under the family's names, and the optimizer's
 * state. Holds one buffer of a few MiB, whatever the model's size. */
#ifndef MT_STORE_FILES_H
#define MT_STORE_FILES_H

#include "core/base/error.h"
#include "core/model/tensors.h"
#include "core/store/store.h"

/* Files that are larger are split into shards with an index. */
#define MT_STORE_SHARD_BYTES ((size_t)5000000000)

/* Opens what mt_tensors_open takes, a model's folder or a GGUF file, and finds out whether it holds what the
 * model needs, and nothing else, before any memory is taken for it: config.json may make the model larger
 * than its files, and than the machine. The errors of mt_store_load_weights but for those of single values.
 */
int mt_store_open_files(const struct mt_model *model, const char *path, struct mt_tensors **file,
                        struct mt_error *error);
/* The same of tensors that are open already. */
int mt_store_check_weights(const struct mt_model *model, const struct mt_tensors *file,
                           struct mt_error *error);
/* Loads what mt_store_open_files has opened for the store's model. */
int mt_store_load_opened(struct mt_store *store, const struct mt_tensors *file, struct mt_pool *pool,
                         struct mt_error *error);

/* Opened, checked and closed again. */
int mt_store_check_files(const struct mt_model *model, const char *path, struct mt_error *error);

/* Sets every master from the tensor of its name. A missing tensor, another shape or a type that is not a
 * number's is an error naming it (MT_REASON_BAD_MODEL); so is a value that is not finite. Tensors that the
 * model does not have are refused, too, except a tied output matrix that says the same as the embedding and
 * tables and masks of old files (`rotary_emb.inv_freq`, `attn.bias`). */
int mt_store_load_weights(struct mt_store *store, const struct mt_tensors *file, struct mt_pool *pool,
                          struct mt_error *error);

/* Writes `<folder>/<stem>.safetensors` (or shards): all masters, rounded to `dtype` to nearest even. */
int mt_store_save_weights(const struct mt_store *store, const char *folder, const char *stem,
                          enum mt_dtype dtype, struct mt_error *error);

/* exp_avg.<name> and exp_avg_sq.<name> of every parameter that is not frozen, fp32. Loading: all of them must
 * be there. */
int mt_store_save_moments(const struct mt_store *store, const char *folder, const char *stem,
                          struct mt_error *error);
int mt_store_load_moments(struct mt_store *store, const struct mt_tensors *file, struct mt_pool *pool,
                          struct mt_error *error);

/* What a checkpoint's arrays take on disk: weights in the source's type, the master where that is narrower,
 * two moments. */
size_t mt_store_saved_bytes(const struct mt_model *model);

#endif
