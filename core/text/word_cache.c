/* A slot is written between two steps of its number, odd in between; what was read while the number stayed
 * the same and even is whole. Its words are atomic, with the orders that make that so without fences: whoever
 * reads a new word sees, after it, the number that was set before it. */
#include "core/text/word_cache.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS ((size_t)1 << 15)
#define KEY_WORDS (MT_WORD_CACHE_BYTES / 8)
#define ID_WORDS (MT_WORD_CACHE_IDS / 2)

struct slot {
    _Atomic uint64_t number;
    _Atomic uint64_t head; /* hash, count of ids, length of the word; 0: empty */
    _Atomic uint64_t key[KEY_WORDS];
    _Atomic uint64_t ids[ID_WORDS];
};

struct mt_word_cache {
    struct slot slots[SLOTS];
};

struct mt_word_cache *mt_word_cache_new(void)
{
    return calloc(1, sizeof(struct mt_word_cache)); /* pages that nothing touches cost nothing */
}

void mt_word_cache_free(struct mt_word_cache *cache)
{
    free(cache);
}

/* The word in whole numbers, padded with zeros. */
static void pack(const char *word, size_t bytes, uint64_t key[KEY_WORDS])
{
    const size_t whole = bytes / 8;
    memcpy(key, word, whole * 8);
    if (bytes % 8) {
        key[whole] = 0;
        memcpy(&key[whole], word + whole * 8, bytes % 8);
    }
}

static size_t key_words(size_t bytes)
{
    return (bytes + 7) / 8;
}

static uint64_t hash_key(const uint64_t *key, size_t bytes)
{
    uint64_t hash = bytes * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < key_words(bytes); i++) {
        hash = (hash ^ key[i]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash;
}

/* Without the count. */
static uint64_t head_of(uint64_t hash, size_t bytes)
{
    return (hash & ~UINT64_C(0xffff)) | bytes;
}

int mt_word_cache_find(struct mt_word_cache *cache, const char *word, size_t bytes, struct mt_ids *ids)
{
    if (bytes > MT_WORD_CACHE_BYTES)
        return 0;
    uint64_t key[KEY_WORDS], packed[ID_WORDS];
    pack(word, bytes, key);
    const uint64_t hash = hash_key(key, bytes);
    struct slot *slot = &cache->slots[hash >> 48 & (SLOTS - 1)];
    const uint64_t number = atomic_load_explicit(&slot->number, memory_order_acquire);
    const uint64_t head = atomic_load_explicit(&slot->head, memory_order_acquire);
    if (number & 1 || (head & ~UINT64_C(0xff00)) != head_of(hash, bytes))
        return 0;
    for (size_t i = 0; i < key_words(bytes); i++)
        if (atomic_load_explicit(&slot->key[i], memory_order_acquire) != key[i])
            return 0;
    const size_t count = head >> 8 & 0xff;
    for (size_t i = 0; i < (count + 1) / 2; i++)
        packed[i] = atomic_load_explicit(&slot->ids[i], memory_order_acquire);
    if (atomic_load_explicit(&slot->number, memory_order_relaxed) != number)
        return 0;
    int32_t unpacked[MT_WORD_CACHE_IDS];
    memcpy(unpacked, packed, (count + 1) / 2 * sizeof *packed);
    return mt_ids_append(ids, unpacked, count) < 0 ? -ENOMEM : 1;
}

void mt_word_cache_store(struct mt_word_cache *cache, const char *word, size_t bytes, const int32_t *ids,
                         size_t count)
{
    if (!bytes || bytes > MT_WORD_CACHE_BYTES || count > MT_WORD_CACHE_IDS)
        return;
    uint64_t key[KEY_WORDS], packed[ID_WORDS] = {0};
    pack(word, bytes, key);
    if (count) /* a word may have none, and `ids` be NULL */
        memcpy(packed, ids, count * sizeof *ids);
    const uint64_t hash = hash_key(key, bytes);
    struct slot *slot = &cache->slots[hash >> 48 & (SLOTS - 1)];
    uint64_t number = atomic_load_explicit(&slot->number, memory_order_relaxed);
    if (number & 1 || !atomic_compare_exchange_strong(&slot->number, &number, number + 1))
        return; /* another thread is at it */
    atomic_store_explicit(&slot->head, head_of(hash, bytes) | (uint64_t)count << 8, memory_order_release);
    for (size_t i = 0; i < key_words(bytes); i++)
        atomic_store_explicit(&slot->key[i], key[i], memory_order_release);
    for (size_t i = 0; i < (count + 1) / 2; i++)
        atomic_store_explicit(&slot->ids[i], packed[i], memory_order_release);
    atomic_store_explicit(&slot->number, number + 2, memory_order_release);
}
