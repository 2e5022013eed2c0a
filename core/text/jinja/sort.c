/* A stable merge sort of items by their keys. Comparing may fail. */
#include "core/text/jinja/methods.h"

#include <string.h>

struct pair {
    struct mt_jvalue *key, *item;
};

static bool merge(struct mt_jrun *run, struct pair *pairs, struct pair *room, size_t half, size_t count,
                  bool reverse)
{
    size_t left = 0, right = half;
    for (size_t i = 0; i < count; i++) {
        bool take_right = left == half;
        if (left < half && right < count) {
            int order;
            bool unordered;
            /* Equal ones keep their order, reversed or not. */
            if (!mt_jcompare(run, pairs[right].key, pairs[left].key, &order, &unordered) || !mt_jstep(run))
                return false;
            take_right = !unordered && (reverse ? order > 0 : order < 0);
        }
        room[i] = take_right ? pairs[right++] : pairs[left++];
    }
    memcpy(pairs, room, count * sizeof *pairs);
    return true;
}

static bool sort(struct mt_jrun *run, struct pair *pairs, struct pair *room, size_t count, bool reverse)
{
    const size_t half = count / 2;
    return count < 2 ||
           (sort(run, pairs, room, half, reverse) && sort(run, pairs + half, room, count - half, reverse) &&
            merge(run, pairs, room, half, count, reverse));
}

bool mt_jsort(struct mt_jrun *run, struct mt_jvalue **keys, struct mt_jvalue **items, size_t count,
              bool reverse)
{
    struct pair *pairs = mt_jalloc(run, count + 1, sizeof *pairs),
                *room = mt_jalloc(run, count + 1, sizeof *room);
    if (!pairs || !room)
        return false;
    for (size_t i = 0; i < count; i++)
        pairs[i] = (struct pair){keys[i], items[i]};
    if (!sort(run, pairs, room, count, reverse))
        return false;
    for (size_t i = 0; i < count; i++) {
        keys[i] = pairs[i].key;
        items[i] = pairs[i].item;
    }
    return true;
}
