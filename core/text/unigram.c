/* All tokens that begin at a place are found by walking a trie whose edges lie in one hash table. Characters
 * that no token covers cost ten more than the worst token; neighbours of that kind become one unknown token,
 * or bytes. */
#include "core/text/unigram.h"

#include "core/base/size.h"
#include "core/text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0
#define NO_NODE UINT32_MAX

struct edge {
    uint64_t key; /* node << 8 | byte; UINT64_MAX where the slot is free */
    uint32_t child;
};

struct mt_unigram {
    const struct mt_vocab *texts;
    double *scores; /* [texts->size] */
    double unknown_score;
    int32_t unknown; /* or MT_TOKEN_NONE */
    bool byte_fallback, fuse_unknown;
    int32_t byte_ids[256];
    struct edge *edges;
    size_t edge_mask, num_edges;
    int32_t *node_tokens; /* [num_nodes] */
    size_t num_nodes, node_capacity;
};

/* The best way to reach a place. */
struct place {
    double score;
    int32_t start; /* of the last token, or -1 when not reached yet */
    int32_t id;
};

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
}

/* --- trie
 * --------------------------------------------------------------------------------------------------- */

static size_t edge_slot(const struct mt_unigram *unigram, uint32_t node, unsigned char byte)
{
    const uint64_t key = (uint64_t)node << 8 | byte;
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 32;
    size_t slot = (size_t)hash & unigram->edge_mask;
    while (unigram->edges[slot].key != key && unigram->edges[slot].key != UINT64_MAX)
        slot = (slot + 1) & unigram->edge_mask;
    return slot;
}

static uint32_t follow(const struct mt_unigram *unigram, uint32_t node, unsigned char byte)
{
    const struct edge *edge = &unigram->edges[edge_slot(unigram, node, byte)];
    return edge->key == UINT64_MAX ? NO_NODE : edge->child;
}

static int new_node(struct mt_unigram *unigram, uint32_t *node)
{
    if (unigram->num_nodes == unigram->node_capacity) {
        const size_t capacity = mt_size_max(2 * unigram->node_capacity, 1024);
        void *tokens = capacity < NO_NODE ? realloc(unigram->node_tokens, capacity * sizeof(int32_t)) : NULL;
        if (!tokens)
            return -ENOMEM;
        unigram->node_tokens = tokens;
        unigram->node_capacity = capacity;
    }
    *node = (uint32_t)unigram->num_nodes++;
    unigram->node_tokens[*node] = MT_TOKEN_NONE;
    return 0;
}

static int insert(struct mt_unigram *unigram, int32_t id)
{
    size_t bytes;
    const char *text = mt_vocab_text(unigram->texts, id, &bytes);
    uint32_t node = 0;
    for (size_t i = 0; i < bytes; i++) {
        struct edge *edge = &unigram->edges[edge_slot(unigram, node, (unsigned char)text[i])];
        if (edge->key == UINT64_MAX) {
            if (new_node(unigram, &edge->child) < 0)
                return -ENOMEM;
            edge->key = (uint64_t)node << 8 | (unsigned char)text[i];
        }
        node = edge->child;
    }
    unigram->node_tokens[node] = id;
    return 0;
}

/* There are at most as many edges as bytes of text. */
static int build_trie(struct mt_unigram *unigram, size_t num_tokens, struct mt_error *error)
{
    size_t slots = 16;
    while (slots < 2 * (unigram->texts->text_bytes + 1))
        slots *= 2;
    unigram->edges = malloc(slots * sizeof *unigram->edges);
    unigram->edge_mask = slots - 1;
    uint32_t root;
    if (!unigram->edges || new_node(unigram, &root) < 0)
        return no_memory(error);
    for (size_t i = 0; i < slots; i++)
        unigram->edges[i].key = UINT64_MAX;
    for (size_t id = 0; id < num_tokens; id++)
        if (insert(unigram, (int32_t)id) < 0)
            return no_memory(error);
    unigram->node_tokens[0] = MT_TOKEN_NONE; /* an empty token is never found */
    return 0;
}

/* --- encoding
 * ----------------------------------------------------------------------------------------------- */

static void reach(struct place *place, double score, size_t start, int32_t id)
{
    if (place->start >= 0 && score <= place->score)
        return;
    *place = (struct place){.score = score, .start = (int32_t)start, .id = id};
}

/* Fills places[0 .. bytes]. -EINVAL when an unknown token is needed and there is none. */
static int search(const struct mt_unigram *unigram, const char *word, size_t bytes, struct place *places)
{
    for (size_t start = 0; start < bytes;) {
        uint32_t character;
        const size_t length = (size_t)mt_utf8_next(word + start, bytes - start, &character);
        const double score = places[start].score;
        bool single = false;
        uint32_t node = 0;
        for (size_t end = start; end < bytes;) {
            node = follow(unigram, node, (unsigned char)word[end++]);
            if (node == NO_NODE)
                break;
            const int32_t id = unigram->node_tokens[node];
            if (id == MT_TOKEN_NONE)
                continue;
            reach(&places[end], unigram->scores[id] + score, start, id);
            single = single || end - start == length;
        }
        if (!single && unigram->unknown == MT_TOKEN_NONE)
            return -EINVAL;
        if (!single)
            reach(&places[start + length], unigram->unknown_score + score, start, unigram->unknown);
        start += length;
    }
    return 0;
}

/* A part that is no token of its own: bytes, or the unknown token. */
static int push_unknown(const struct mt_unigram *unigram, const char *text, size_t bytes, struct mt_ids *ids)
{
    const int32_t known = mt_vocab_find(unigram->texts, text, bytes);
    if (known != MT_TOKEN_NONE)
        return mt_ids_push(ids, known);
    bool all = unigram->byte_fallback;
    for (size_t i = 0; all && i < bytes; i++)
        all = unigram->byte_ids[(unsigned char)text[i]] != MT_TOKEN_NONE;
    if (!all)
        return mt_ids_push(ids, unigram->unknown);
    int r = 0;
    for (size_t i = 0; r == 0 && i < bytes; i++)
        r = mt_ids_push(ids, unigram->byte_ids[(unsigned char)text[i]]);
    return r;
}

/* Walks back from the end, turning the links around, then forward. */
static int collect(const struct mt_unigram *unigram, const char *word, size_t bytes, struct place *places,
                   struct mt_ids *ids)
{
    int32_t end = (int32_t)bytes, following = -1;
    while (end > 0) { /* places[start].start becomes the end of the token that begins there */
        const int32_t start = places[end].start;
        places[end].start = following;
        following = end;
        end = start;
    }
    int r = 0;
    for (int32_t start = 0; r == 0 && following > 0;) {
        int32_t stop = following, id = places[stop].id;
        following = places[stop].start;
        while (id == unigram->unknown && unigram->fuse_unknown && following > 0 &&
               places[following].id == unigram->unknown) {
            stop = following;
            following = places[stop].start;
        }
        r = id == unigram->unknown ? push_unknown(unigram, word + start, (size_t)(stop - start), ids)
                                   : mt_ids_push(ids, id);
        start = stop;
    }
    return r;
}

int mt_unigram_encode(const struct mt_unigram *unigram, const char *word, size_t bytes, struct mt_ids *ids)
{
    if (!bytes)
        return 0;
    struct place *places = bytes < INT32_MAX ? malloc((bytes + 1) * sizeof *places) : NULL;
    if (!places)
        return -ENOMEM;
    for (size_t i = 0; i <= bytes; i++)
        places[i] = (struct place){.start = -1};
    int r = search(unigram, word, bytes, places);
    if (r == 0)
        r = collect(unigram, word, bytes, places, ids);
    free(places);
    return r;
}

/* --- loading
 * ------------------------------------------------------------------------------------------------ */

static int load_scores(struct mt_unigram *unigram, const json_t *vocab, struct mt_error *error)
{
    double lowest = INFINITY;
    json_t *entry;
    size_t id;
    unigram->scores = calloc(unigram->texts->size + 1, sizeof *unigram->scores);
    if (!unigram->scores)
        return no_memory(error);
    json_array_foreach(vocab, id, entry)
    {
        const json_t *score = json_array_get(entry, 1);
        if (!json_is_number(score))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "token %zu has no score", id);
        unigram->scores[id] = json_number_value(score);
        lowest = fmin(lowest, unigram->scores[id]);
    }
    unigram->unknown_score = lowest - UNKNOWN_PENALTY;
    return 0;
}

static int load(struct mt_unigram *unigram, const json_t *model, struct mt_error *error)
{
    const json_t *vocab = json_object_get(model, "vocab"), *unknown = json_object_get(model, "unk_id");
    const size_t count = json_array_size(vocab);
    unigram->unknown = MT_TOKEN_NONE;
    unigram->fuse_unknown = true;
    unigram->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    if (json_is_integer(unknown)) {
        if (json_integer_value(unknown) < 0 || (size_t)json_integer_value(unknown) >= count)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "unk_id is not in the vocabulary");
        unigram->unknown = (int32_t)json_integer_value(unknown);
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", byte);
        unigram->byte_ids[byte] = mt_vocab_find(unigram->texts, name, 6);
    }
    int r = load_scores(unigram, vocab, error);
    return r < 0 ? r : build_trie(unigram, count, error);
}

int mt_unigram_load(const json_t *model, const struct mt_vocab *texts, struct mt_unigram **result,
                    struct mt_error *error)
{
    *result = NULL;
    struct mt_unigram *unigram = calloc(1, sizeof *unigram);
    if (!unigram)
        return no_memory(error);
    unigram->texts = texts;
    int r = load(unigram, model, error);
    if (r < 0) {
        mt_unigram_free(unigram);
        return r;
    }
    *result = unigram;
    return 0;
}

void mt_unigram_free(struct mt_unigram *unigram)
{
    if (!unigram)
        return;
    free(unigram->scores);
    free(unigram->edges);
    free(unigram->node_tokens);
    free(unigram);
}
