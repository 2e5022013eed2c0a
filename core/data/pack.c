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

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                        "out of memory for the order of the data set");
}

void mt_packs_begin(struct mt_packs *packs, struct mt_bulk_folder *folder, const char *const names[2])
{
    *packs = (struct mt_packs){
        .arrays = {{.folder = folder, .name = names[0]}, {.folder = folder, .name = names[1]}}};
}

int mt_packs_add(struct mt_packs *packs, const uint32_t *order, const uint32_t *lengths, size_t count,
                 uint32_t capacity, struct mt_error *error)
{
    mt_autofree uint32_t *bins = malloc((count + 1) * sizeof *bins);
    mt_autofree uint32_t *members = malloc((count + 1) * sizeof *members);
    size_t num_packs = count;
    if (!bins || !members)
        return no_memory(error);
    if (capacity) {
        if (first_fit(lengths, count, capacity, bins, &num_packs) < 0)
            return no_memory(error);
    } else {
        for (size_t i = 0; i < count; i++)
            bins[i] = (uint32_t)i;
    }
    mt_autofree uint32_t *starts = calloc(num_packs + 2, sizeof *starts);
    if (!starts)
        return no_memory(error);
    /* Sorting by counting: while it runs, starts[b + 1] is where the next sample of bin b goes. */
    for (size_t i = 0; i < count; i++)
        starts[bins[i] + 2]++;
    for (size_t b = 2; b < num_packs + 2; b++)
        starts[b] += starts[b - 1];
    for (size_t i = 0; i < count; i++)
        members[starts[bins[i] + 1]++] = order[i];
    for (size_t b = 0; b < num_packs; b++)
        starts[b] += (uint32_t)packs->num_members;
    packs->num_packs += num_packs;
    packs->num_members += count;
    int r = mt_bulk_append(&packs->arrays[0], starts, num_packs * sizeof *starts, error);
    return r < 0 ? r : mt_bulk_append(&packs->arrays[1], members, count * sizeof *members, error);
}

int mt_packs_seal(struct mt_packs *packs, struct mt_error *error)
{
    const uint32_t end = (uint32_t)packs->num_members;
    int r = mt_bulk_append(&packs->arrays[0], &end, sizeof end, error);
    for (size_t i = 0; r == 0 && i < 2; i++)
        r = mt_bulk_seal(&packs->arrays[i], error);
    return r;
}

int mt_packs_read(const struct mt_packs *packs, size_t i, uint32_t **members, size_t *count,
                  struct mt_error *error)
{
    uint32_t starts[2];
    *members = NULL;
    *count = 0;
    int r = mt_bulk_read(&packs->arrays[0], i * sizeof *starts, starts, sizeof starts, error);
    if (r < 0)
        return r;
    if (starts[0] >= starts[1] || starts[1] > packs->num_members)
        return mt_bulk_spoilt(&packs->arrays[0], error);
    *count = starts[1] - starts[0];
    *members = malloc(*count * sizeof **members);
    if (!*members)
        return no_memory(error);
    return mt_bulk_read(&packs->arrays[1], starts[0] * sizeof **members, *members, *count * sizeof **members,
                        error);
}

void mt_packs_free(struct mt_packs *packs)
{
    mt_bulk_free(&packs->arrays[0]);
    mt_bulk_free(&packs->arrays[1]);
    *packs = (struct mt_packs){0};
}
