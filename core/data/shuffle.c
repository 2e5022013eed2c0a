/* Permutations without a table: a balanced Feistel network of six rounds over the next even number of bits,
 * walked until the result is within the count ("cycle walking": Black and Rogaway, 2002): at most four walks
 * are needed on average, and what a bijection gives within a part of its range is a bijection of that part.
 */
#include "core/data/shuffle.h"

#include <errno.h>
#include <stdlib.h>

#define ROUNDS 6

struct mt_order mt_order_computed(uint64_t key, size_t count)
{
    struct mt_order order = {.key = key, .count = count, .half = 1};
    while (order.half < 32 && (UINT64_C(1) << 2 * order.half) < count)
        order.half++;
    return order;
}

struct mt_order mt_order_identity(size_t count)
{
    return (struct mt_order){.count = count};
}

int mt_order_make(struct mt_order *order, uint64_t key, size_t count)
{
    if (count > MT_SHUFFLE_TABLE) {
        *order = mt_order_computed(key, count);
        return 0;
    }
    *order = (struct mt_order){.key = key, .count = count};
    order->table = malloc((count + 1) * sizeof *order->table);
    if (!order->table)
        return -ENOMEM;
    mt_shuffle(key, order->table, count);
    return 0;
}

void mt_order_free(struct mt_order *order)
{
    free(order->table);
    *order = (struct mt_order){0};
}

static uint64_t network(const struct mt_order *order, uint64_t value)
{
    const uint64_t mask = (UINT64_C(1) << order->half) - 1;
    const uint32_t key[2] = {(uint32_t)order->key, (uint32_t)(order->key >> 32)};
    uint64_t left = value >> order->half, right = value & mask;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t counter[4] = {(uint32_t)right, round, 0, 2}; /* 2: apart from the other streams */
        uint32_t mixed[4];
        mt_random_philox(counter, key, mixed);
        const uint64_t next = left ^ (mixed[0] & mask);
        left = right;
        right = next;
    }
    return left << order->half | right;
}

size_t mt_order_at(const struct mt_order *order, size_t i)
{
    if (order->table)
        return order->table[i];
    if (!order->half)
        return i;
    uint64_t value = i;
    do
        value = network(order, value);
    while (value >= order->count);
    return (size_t)value;
}
