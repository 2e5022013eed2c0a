/* An arena: memory for what lives and dies together. Not thread-safe. */
#ifndef MT_BASE_ARENA_H
#define MT_BASE_ARENA_H

#include <stddef.h>

struct mt_arena;

/* NULL when out of memory. */
struct mt_arena *mt_arena_new(void);
void mt_arena_free(struct mt_arena *arena); /* NULL is fine */

/* Zeroed memory, aligned to 16; NULL when out of memory or when count * size overflows. */
void *mt_arena_alloc(struct mt_arena *arena, size_t count, size_t size);
char *mt_arena_strdup(struct mt_arena *arena, const char *text);
char *mt_arena_strndup(struct mt_arena *arena, const char *text, size_t bytes);
char *mt_arena_printf(struct mt_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
