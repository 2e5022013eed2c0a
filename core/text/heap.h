/* A binary heap of small things, the best one on top: what merges of long words are taken from in order. */
#ifndef MT_TEXT_HEAP_H
#define MT_TEXT_HEAP_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* `struct NAME`, starts as {0}, with NAME_push (0 or -ENOMEM) and NAME_pop (of one that is not empty). Free
 * `items`. bool before(const item *, const item *). */
#define MT_HEAP(name, item, before)                                                                          \
    struct name {                                                                                            \
        item *items;                                                                                         \
        size_t count, capacity;                                                                              \
    };                                                                                                       \
                                                                                                             \
    static int name##_push(struct name *heap, item new)                                                      \
    {                                                                                                        \
        if (heap->count == heap->capacity) {                                                                 \
            const size_t capacity = heap->capacity * 2 + 128;                                                \
            void *items = realloc(heap->items, capacity * sizeof *heap->items);                              \
            if (!items)                                                                                      \
                return -ENOMEM;                                                                              \
            heap->items = items;                                                                             \
            heap->capacity = capacity;                                                                       \
        }                                                                                                    \
        size_t at = heap->count++;                                                                           \
        for (; at && before(&new, &heap->items[(at - 1) / 2]); at = (at - 1) / 2)                            \
            heap->items[at] = heap->items[(at - 1) / 2];                                                     \
        heap->items[at] = new;                                                                               \
        return 0;                                                                                            \
    }                                                                                                        \
                                                                                                             \
    static item name##_pop(struct name *heap)                                                                \
    {                                                                                                        \
        const item top = heap->items[0], last = heap->items[--heap->count];                                  \
        size_t at = 0;                                                                                       \
        for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {                                 \
            if (child + 1 < heap->count && before(&heap->items[child + 1], &heap->items[child]))             \
                child++;                                                                                     \
            if (!before(&heap->items[child], &last))                                                         \
                break;                                                                                       \
            heap->items[at] = heap->items[child];                                                            \
        }                                                                                                    \
        heap->items[at] = last;                                                                              \
        return top;                                                                                          \
    }

#endif
