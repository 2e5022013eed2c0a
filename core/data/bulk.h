/* A long array that is written once from front to back, then only read. Up to MT_BULK_MEMORY it is kept in
 * memory; what grows beyond lies in a file, of which the kernel keeps in memory what it has room for. So the
 * size of a data set is bounded by the disk.
 *
 * The file is read by pread and never mapped: the cache lies open to other programs for as long as a run
 * takes, and where one of them cuts a file, or the disk fails, a mapping ends the process by a signal. Here
 * it is an error. */
#ifndef MT_DATA_BULK_H
#define MT_DATA_BULK_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_BULK_MEMORY ((size_t)16 << 20)

/* The folder that files are put into: made when the first array grows beyond its memory. */
struct mt_bulk_folder {
    const char *parent; /* borrowed; NULL: everything stays in memory */
    char path[512];     /* "" until it is made */
    size_t memory;      /* of one array; 0: MT_BULK_MEMORY */
    int lock; /* of the folder while it is written, + 1; the kernel lets go of it when the process ends */
};
/* Whether nobody writes the folder any more, as a killed process leaves it. One that was made this minute may
 * not be locked yet. */
bool mt_bulk_folder_is_left(const char *path);
/* Its files stay, under another name. */
void mt_bulk_folder_keep(struct mt_bulk_folder *folder);
/* Removes the folder with what is in it; arrays stay readable. */
void mt_bulk_folder_remove(struct mt_bulk_folder *folder);

struct mt_bulk {
    struct mt_bulk_folder *folder; /* borrowed while it is written */
    const char *name;              /* of the file in the folder; a string that stays */
    char *memory;                  /* all of it, or what is not in the file yet */
    size_t used, capacity;         /* of memory */
    int fd;                        /* of the file + 1; 0: none */
    uint64_t bytes;                /* of the whole */
};

/* `data` is {.folder, .name}. */
int mt_bulk_append(struct mt_bulk *bulk, const void *data, size_t bytes, struct mt_error *error);
/* Ends the writing. */
int mt_bulk_seal(struct mt_bulk *bulk, struct mt_error *error);
/* Writes a sealed array that lies in memory to its file too, so that the folder is complete. */
int mt_bulk_save(struct mt_bulk *bulk, struct mt_error *error);
/* Opens a file that an earlier mt_bulk_seal or mt_bulk_save left in `folder`. */
int mt_bulk_open(struct mt_bulk *bulk, const char *folder, const char *name, uint64_t bytes,
                 struct mt_error *error);
/* Reads a part of a sealed array; on any thread. -ESTALE, MT_REASON_IO where the file has become shorter. */
int mt_bulk_read(const struct mt_bulk *bulk, uint64_t offset, void *data, size_t bytes,
                 struct mt_error *error);
/* The array was read, and holds what it cannot: -ESTALE with the sentence for that. */
int mt_bulk_spoilt(const struct mt_bulk *bulk, struct mt_error *error);
void mt_bulk_free(struct mt_bulk *bulk); /* {0} is fine; leaves {0} */

/* A sealed array read from front to back through a buffer. Starts as {.bulk}. */
struct mt_bulk_view {
    const struct mt_bulk *bulk;
    unsigned char *buffer; /* the bytes [first, first + held) */
    uint64_t first;
    size_t held;
};
#define MT_BULK_VIEW_BYTES ((size_t)256 << 10)
/* Sets `data` to `bytes` bytes (at most MT_BULK_VIEW_BYTES) from `offset` on, until the next call; with the
 * errors of mt_bulk_read. */
int mt_bulk_view_at(struct mt_bulk_view *view, uint64_t offset, size_t bytes, const void **data,
                    struct mt_error *error);
void mt_bulk_view_end(struct mt_bulk_view *view);

#endif
