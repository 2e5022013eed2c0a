/* Cleanup attributes, so that every early `return` is clean. */
#ifndef MT_BASE_CLEANUP_H
#define MT_BASE_CLEANUP_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define mt_cleanup(function) __attribute__((cleanup(function)))

static inline void mt_cleanup_free(void *pointer)
{
    free(*(void **)pointer);
}

static inline void mt_cleanup_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void mt_cleanup_file(FILE **file)
{
    if (*file)
        fclose(*file);
}

static inline void mt_cleanup_json(json_t **value)
{
    json_decref(*value);
}

#define mt_autofree mt_cleanup(mt_cleanup_free)
#define mt_autofd mt_cleanup(mt_cleanup_fd)
#define mt_autofile mt_cleanup(mt_cleanup_file)
#define mt_autojson mt_cleanup(mt_cleanup_json)

#endif
