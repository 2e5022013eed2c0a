/* First fit in O(n log n): a tree over the bins holds in each node the largest room below it, so the leftmost
 * bin with enough room is found by descending. */
#include "core/data/pack.h"

#include "core/base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* `room` is a complete binary tree: node n has the children 2n and 2n + 1, leaves begin at `leaves`. */
static size_t first_with_room(const uint32_t *room, size_t leaves, uint32_t length)
{
    size_t node = 1;
    while (node < leaves)
        node = room[2 * node] >= length ? 2 * node : 2 * node + 1;
    return node - leaves;
}

static void take_room(uint32_t *room, size_t leaves, size_t bin, uint32_t length)
{
    size_t node = leaves + bin;
    room[node] -= length;
    for (node /= 2; node; node /= 2) {
        const uint32_t left = room[2 * node], right = room[2 * node + 1];
        room[node] = left > right ? left : right;
    }
}

/* bins[i]: the sequence of sample i of the order. */
static int first_fit(const uint32_t *lengths, size_t count, uint32_t capacity, uint32_t *bins,
                     size_t *num_bins)
{
    size_t leaves = 1;
    while (leaves < count)
        leaves *= 2;
    mt_autofree uint32_t *room = malloc(2 * leaves * sizeof *room);
    if (!room)
        return -ENOMEM;
    for (size_t i = 0; i < 2 * leaves; i++)
        room[i] = capacity;
    *num_bins = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t bin = first_with_room(room, leaves, lengths[i]);
        take_room(room, leaves, bin, lengths[i]);
        bins[i] = (uint32_t)bin;
        if (bin >= *num_bins)
            *num_bins = bin + 1;
    }
    return 0;
}

int mt_packs_make(const uint32_t *order, const uint32_t *lengths, size_t count, uint32_t capacity,
                  struct mt_packs *packs)
{
    *packs = (struct mt_packs){0};
    mt_autofree uint32_t *bins = malloc((count + 1) * sizeof *bins);
    if (!bins)
        return -ENOMEM;
    size_t num_packs = count;
    if (capacity) {
        if (first_fit(lengths, count, capacity, bins, &num_packs) < 0)
            return -ENOMEM;
    } else {
        for (size_t i = 0; i < count; i++)
            bins[i] = (uint32_t)i;
    }

    packs->num_packs = num_packs;
    packs->starts = calloc(num_packs + 2, sizeof *packs->starts);
    packs->members = malloc((count + 1) * sizeof *packs->members);
    if (!packs->starts || !packs->members) {
        mt_packs_free(packs);
        return -ENOMEM;
    }
    /* Sorting by counting: while it runs, starts[b + 1] is where the next sample of bin b goes. */
    for (size_t i = 0; i < count; i++)
        packs->starts[bins[i] + 2]++;
    for (size_t b = 2; b < num_packs + 2; b++)
        packs->starts[b] += packs->starts[b - 1];
    for (size_t i = 0; i < count; i++)
        packs->members[packs->starts[bins[i] + 1]++] = order[i];
    return 0;
}

void mt_packs_free(struct mt_packs *packs)
{
    free(packs->starts);
    free(packs->members);
    *packs = (struct mt_packs){0};
}
