/* Inside core/model: files of a repository on a hub, whatever they are for. */
#ifndef MT_MODEL_FETCHING_H
#define MT_MODEL_FETCHING_H

#include "core/model/download_internal.h"

#include <jansson.h>

struct mt_fetching {
    struct mt_download download; /* with endpoint, token and revision filled in */
    bool data;                   /* a data set, not a model */
    enum mt_reason reason;       /* of what the hub does not have or refuses */
    char *commit;
    char *folder;      /* that grows; owned */
    json_t *available; /* [{"name", "size": bytes or -1, "sha256": text or ""}]; names are relative paths that
                          stay inside */
    json_t *files;     /* those of them that are wanted */
};

/* Fills in what the caller of a download left open. To be ended in any case. */
int mt_fetching_begin(struct mt_fetching *fetching, const struct mt_download *download, bool data,
                      struct mt_error *error);
void mt_fetching_end(struct mt_fetching *fetching);

/* The commit and the files of the revision. */
int mt_fetching_list(struct mt_fetching *fetching, struct mt_error *error);

/* Whether the disk of `folder` has room for those of `files` that are not there yet. */
int mt_fetching_check_space(const struct mt_fetching *fetching, struct mt_error *error);

/* One file into `folder`, under its name once it is whole and right. Nothing to do where it is there. */
int mt_fetching_file(const struct mt_fetching *fetching, const json_t *file, struct mt_error *error);

/* An open file that no other process has locked; negative when one has, which is downloading `what`. */
int mt_fetching_lock(const char *path, const char *what, struct mt_error *error);

/* Nothing but letters, digits and ._-, and no dot in front. */
bool mt_fetching_is_plain(const char *name);

#endif
