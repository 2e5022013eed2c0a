/* Dicts: entries in order, and from nine entries on an index by hash. */
#include "core/base/size.h"
#include "core/text/jinja/run.h"

#include <string.h>

#define WITHOUT_INDEX 8

struct mt_jdict *mt_jdict_new(struct mt_jrun *run, size_t capacity)
{
    struct mt_jdict *dict = mt_jalloc(run, 1, sizeof *dict);
    if (!dict || (capacity && !(dict->entries = mt_jalloc(run, capacity, sizeof *dict->entries))))
        return NULL;
    dict->capacity = capacity;
    return dict;
}

static bool same_key(struct mt_jrun *run, const struct mt_jentry *entry, const struct mt_jvalue *key,
                     uint64_t hash)
{
    if (entry->hash != hash)
        return false;
    if (mt_jis_text(key) && mt_jis_text(entry->key))
        return key->text.bytes == entry->key->text.bytes &&
               memcmp(key->text.data, entry->key->text.data, key->text.bytes) == 0;
    return mt_jequal(run, entry->key, key);
}

static struct mt_jentry *find(struct mt_jrun *run, const struct mt_jdict *dict, const struct mt_jvalue *key,
                              uint64_t hash)
{
    if (!dict->index) {
        for (size_t i = 0; i < dict->count; i++)
            if (same_key(run, &dict->entries[i], key, hash))
                return &dict->entries[i];
        return NULL;
    }
    for (size_t at = hash & (dict->index_size - 1); dict->index[at]; at = (at + 1) & (dict->index_size - 1))
        if (same_key(run, &dict->entries[dict->index[at] - 1], key, hash))
            return &dict->entries[dict->index[at] - 1];
    return NULL;
}

static void add_to_index(struct mt_jdict *dict, size_t entry)
{
    size_t at = dict->entries[entry].hash & (dict->index_size - 1);
    while (dict->index[at])
        at = (at + 1) & (dict->index_size - 1);
    dict->index[at] = (uint32_t)entry + 1;
}

static bool grow(struct mt_jrun *run, struct mt_jdict *dict)
{
    const size_t capacity = mt_size_max(WITHOUT_INDEX, 2 * dict->capacity);
    struct mt_jentry *entries = mt_jalloc(run, capacity, sizeof *entries);
    if (!entries)
        return false;
    if (dict->count)
        memcpy(entries, dict->entries, dict->count * sizeof *entries);
    dict->entries = entries;
    dict->capacity = capacity;
    return true;
}

/* The index has at least twice as many places as there are entries. */
static bool grow_index(struct mt_jrun *run, struct mt_jdict *dict)
{
    size_t size = 32;
    while (size < 2 * dict->capacity)
        size *= 2;
    if (size == dict->index_size)
        return true;
    if (!(dict->index = mt_jalloc(run, size, sizeof *dict->index)))
        return false;
    dict->index_size = size;
    for (size_t i = 0; i < dict->count; i++)
        add_to_index(dict, i);
    return true;
}

bool mt_jdict_put(struct mt_jrun *run, struct mt_jdict *dict, struct mt_jvalue *key, struct mt_jvalue *value)
{
    uint64_t hash;
    if (!mt_jhash(run, key, &hash))
        return mt_jfail(run, "a value of type %s can't be the key of a dict", mt_jtype(key));
    struct mt_jentry *entry = find(run, dict, key, hash);
    if (entry) {
        entry->value = value;
        return true;
    }
    if (dict->count == dict->capacity && !grow(run, dict))
        return false;
    dict->entries[dict->count] = (struct mt_jentry){key, value, hash};
    dict->count++;
    if (dict->count > WITHOUT_INDEX) {
        const size_t size = dict->index_size;
        if (!grow_index(run, dict))
            return false;
        if (size == dict->index_size)
            add_to_index(dict, dict->count - 1);
    }
    return true;
}

bool mt_jdict_put_text(struct mt_jrun *run, struct mt_jdict *dict, struct mt_jslice key,
                       struct mt_jvalue *value)
{
    struct mt_jvalue *key_value = value ? mt_jtext_of(run, key, false) : NULL;
    return key_value && mt_jdict_put(run, dict, key_value, value);
}

struct mt_jvalue *mt_jdict_get(struct mt_jrun *run, const struct mt_jdict *dict, const struct mt_jvalue *key)
{
    uint64_t hash;
    const struct mt_jentry *entry =
        dict->count && mt_jhash(run, key, &hash) ? find(run, dict, key, hash) : NULL;
    return entry ? entry->value : NULL;
}

struct mt_jvalue *mt_jdict_get_text(struct mt_jrun *run, const struct mt_jdict *dict, struct mt_jslice key)
{
    const struct mt_jvalue value = {.kind = MT_J_TEXT, .text = key};
    return mt_jdict_get(run, dict, &value);
}
