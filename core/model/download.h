/* Fetching models and data sets from a hub that speaks Hugging Face's protocol. Nothing here runs unless
 * whoever administers the machine has allowed downloads; callers see to that. */
#ifndef MT_MODEL_DOWNLOAD_H
#define MT_MODEL_DOWNLOAD_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_download {
    const char *name;     /* Org/Model, or a data set's Org/Name */
    const char *revision; /* NULL: main */
    const char *endpoint; /* NULL: HF_ENDPOINT, else https://huggingface.co */
    const char *token;    /* NULL: HF_TOKEN, else none. Sent to the endpoint's host alone */
    /* Called now and then, on the calling thread; true ends the download, which a later one takes up again.
     * May be NULL, as may log, which gets a sentence a file. */
    bool (*should_stop)(void *context);
    void (*log)(void *context, const char *sentence);
    void *context;
};

/* Fetches a model into `folder`: its config, tokenizer and safetensors files; or of a repository that has
 * only GGUF files, or where `file` (model.file, gguf_names.h) is given, that one GGUF model, with all of its
 * parts. What is fetched has its name there only once all of it is there and checked: until then it grows in
 * a folder beside, `<folder>.partial` or `<folder>.<file>.partial`, where an interrupted file goes on at the
 * byte where it stopped. Of a GGUF model's parts the first gets its name last. A file's length is compared
 * with what the hub says, and where the hub names a SHA-256 (as it does for large ones) its bytes with that:
 * a file that does not match is fetched anew once, then refused. A revision is settled to a commit first, so
 * that all files are of one.
 *
 * Errors: MT_REASON_BAD_MODEL for what the hub does not have or refuses (401, 403, 404), for pickle files
 * alone, for several GGUF models without a choice, which it lists, for a checksum that does not match;
 * MT_REASON_IO after some tries; MT_REASON_DISK_FULL before the first byte, when the files would not fit;
 * MT_REASON_INTERRUPTED. */
int mt_model_download(const struct mt_download *download, const char *folder, const char *file,
                      struct mt_error *error);

/* Which of `count` files of a data set are wanted: sets wanted[i]. `snapshot` is the folder where README.md
 * lies already if there is one. */
typedef int mt_download_choose(void *context, const char *snapshot, const char *const *names, size_t count,
                               bool *wanted, struct mt_error *error);

/* Fetches those files of a data set that `choose` wants into a folder of the local hub cache
 * (<cache>/datasets--Org--Name): snapshots/<commit>/<file>, as huggingface_hub lays them out where it makes
 * no links, then refs/main. A commit that refs/main names already stays the one (unless `revision` is
 * given), so that what is fetched later belongs to what is there. Each file is checked as a model's are and
 * has its name only then; until then it is <file>.part, and goes on there. Errors as above, with
 * MT_REASON_BAD_DATA, and those of `choose`. */
int mt_dataset_download(const struct mt_download *download, const char *folder, mt_download_choose *choose,
                        void *choose_context, struct mt_error *error);

#endif
