/* Arenas: see arena.h. A list of zeroed blocks; what does not fit into the newest one gets a new one, which
 * is as large as all before it together (so there are few), or as large as the one allocation needs. */
#include "core/base/arena.h"

#include "core/base/size.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BLOCK_BYTES 4096
#define LARGEST_BLOCK_BYTES ((size_t)1 << 20)

struct block {
    struct block *next;
    size_t bytes; /* usable */
    size_t used;
    _Alignas(16) unsigned char data[];
};

struct mt_arena {
    struct block *newest;
    size_t next_block_bytes;
};

struct mt_arena *mt_arena_new(void)
{
    struct mt_arena *arena = calloc(1, sizeof *arena);
    if (arena)
        arena->next_block_bytes = FIRST_BLOCK_BYTES;
    return arena;
}

void mt_arena_free(struct mt_arena *arena)
{
    if (!arena)
        return;
    for (struct block *block = arena->newest, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arena);
}

void *mt_arena_alloc(struct mt_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (!mt_size_mul(count, size, &bytes) || !mt_size_align(bytes > 0 ? bytes : 1, 16, &bytes))
        return NULL;
    struct block *block = arena->newest;
    if (!block || block->bytes - block->used < bytes) {
        size_t block_bytes = mt_size_max(bytes, arena->next_block_bytes), total;
        if (!mt_size_add(sizeof *block, block_bytes, &total) || !(block = calloc(1, total)))
            return NULL;
        block->bytes = block_bytes;
        if (arena->newest && bytes > arena->next_block_bytes / 2) {
            /* A large one goes behind the newest block, whose rest stays in use. */
            block->next = arena->newest->next;
            arena->newest->next = block;
        } else {
            block->next = arena->newest;
            arena->newest = block;
            arena->next_block_bytes = mt_size_min(2 * arena->next_block_bytes, LARGEST_BLOCK_BYTES);
        }
    }
    void *memory = block->data + block->used;
    block->used += bytes;
    return memory;
}

static char *copy_text(struct mt_arena *arena, const char *text, size_t length)
{
    size_t with_zero;
    char *copy = mt_size_add(length, 1, &with_zero) ? mt_arena_alloc(arena, with_zero, 1) : NULL;
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

char *mt_arena_strdup(struct mt_arena *arena, const char *text)
{
    return copy_text(arena, text, strlen(text));
}

char *mt_arena_strndup(struct mt_arena *arena, const char *text, size_t bytes)
{
    return copy_text(arena, text, strnlen(text, bytes));
}

char *mt_arena_printf(struct mt_arena *arena, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length >= 0 ? mt_arena_alloc(arena, (size_t)length + 1, 1) : NULL;
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}
