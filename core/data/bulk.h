/* A long array that is written once from front to back, then only read. Up to MT_BULK_MEMORY it is kept in
 * memory; what grows beyond lies in a file, of which the kernel keeps in memory what it has room for. So the
 * size of a data set is bounded by the disk. */
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
};
/* Removes the folder with what is in it; mapped arrays stay readable. */
void mt_bulk_folder_remove(struct mt_bulk_folder *folder);

struct mt_bulk {
    struct mt_bulk_folder *folder; /* borrowed while it is written */
    const char *name;              /* of the file in the folder; a string that stays */
    char *memory;                  /* all of it, or what is not in the file yet */
    size_t used, capacity;         /* of memory */
    int fd;                        /* of the file + 1; 0: none */
    uint64_t bytes;                /* of the whole */
    const void *data;              /* once sealed: the whole */
    bool mapped;
};

/* `data` is {.folder, .name}. */
int mt_bulk_append(struct mt_bulk *bulk, const void *data, size_t bytes, struct mt_error *error);
/* Ends the writing: bulk->data is the whole from now on. */
int mt_bulk_seal(struct mt_bulk *bulk, struct mt_error *error);
/* Writes a sealed array that lies in memory to its file too, so that the folder is complete. */
int mt_bulk_save(struct mt_bulk *bulk, struct mt_error *error);
/* Maps a file that an earlier mt_bulk_seal or mt_bulk_save left in `folder`. */
int mt_bulk_map(struct mt_bulk *bulk, const char *folder, const char *name, uint64_t bytes,
                struct mt_error *error);
void mt_bulk_free(struct mt_bulk *bulk); /* {0} is fine; leaves {0} */

#endif
