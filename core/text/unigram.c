/* All tokens that begin at a place are found by walking a trie whose edges lie in one hash table. Characters
 * that no token covers cost ten more than the worst token; neighbours of that kind become one unknown token,
 * or bytes. */
#include "core/text/unigram.h"

#include "core/base/size.h"
#include "core/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0
#define RESET_SCORE 100000.0
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
    bool byte_fallback, sentencepiece;
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

static int insert(struct mt_unigram *unigram, int32_t id, struct mt_error *error)
{
    size_t bytes;
    const char *text = mt_vocab_text(unigram->texts, id, &bytes);
    uint32_t node = 0;
    if (bytes > MT_VOCAB_MAX_BYTES)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "token %d is of %zu bytes; the bound is %zu",
                            id, bytes, MT_VOCAB_MAX_BYTES);
    for (size_t i = 0; i < bytes; i++) {
        struct edge *edge = &unigram->edges[edge_slot(unigram, node, (unsigned char)text[i])];
        if (edge->key == UINT64_MAX) {
            if (new_node(unigram, &edge->child) < 0)
                return no_memory(error);
            edge->key = (uint64_t)node << 8 | (unsigned char)text[i];
        }
        node = edge->child;
    }
    unigram->node_tokens[node] = id;
    return 0;
}

/* There are at most as many edges as bytes of text. */
static int build_trie(struct mt_unigram *unigram, const struct mt_unigram_model *model,
                      struct mt_error *error)
{
    size_t slots = 16;
    while (slots < 2 * (unigram->texts->text_bytes + 1))
        slots *= 2;
    unigram->edges = malloc(slots * sizeof *unigram->edges);
    unigram->edge_mask = slots - 1;
    uint32_t root;
    int r;
    if (!unigram->edges || new_node(unigram, &root) < 0)
        return no_memory(error);
    for (size_t i = 0; i < slots; i++)
        unigram->edges[i].key = UINT64_MAX;
    for (size_t id = 0; id < model->count; id++)
        if (!(model->left_out && model->left_out[id]) && mt_vocab_has(unigram->texts, (int32_t)id) &&
            (r = insert(unigram, (int32_t)id, error)) < 0)
            return r;
    unigram->node_tokens[0] = MT_TOKEN_NONE; /* an empty token is never found */
    return 0;
}

/* --- encoding
 * ----------------------------------------------------------------------------------------------- */

static void reach(const struct mt_unigram *unigram, struct place *place, double before, double score,
                  size_t start, int32_t id)
{
    const double sum = unigram->sentencepiece ? (double)((float)before + (float)score) : before + score;
    if (place->start >= 0 && sum <= place->score)
        return;
    *place = (struct place){.score = sum, .start = (int32_t)start, .id = id};
}

/* Sums in single precision must not grow for ever: what counts is the difference between ways that are still
 * open. */
static double reset(struct place *places, size_t start, size_t frontier)
{
    const double offset = places[start].score;
    if (fabs(offset) <= RESET_SCORE)
        return offset;
    for (size_t i = start; i <= frontier; i++)
        if (i == start || places[i].start >= 0)
            places[i].score = (double)((float)places[i].score - (float)offset);
    return 0;
}

/* Fills places[0 .. bytes]. -EINVAL when an unknown token is needed and there is none. */
static int search(const struct mt_unigram *unigram, const char *word, size_t bytes, struct place *places)
{
    size_t frontier = 0;
    for (size_t start = 0; start < bytes;) {
        uint32_t character;
        const int next = mt_utf8_next(word + start, bytes - start, &character);
        const size_t length = next > 0 ? (size_t)next : 1; /* replacements come from the file */
        const double score = unigram->sentencepiece ? reset(places, start, frontier) : places[start].score;
        bool single = false;
        uint32_t node = 0;
        for (size_t end = start; end < bytes;) {
            node = follow(unigram, node, (unsigned char)word[end++]);
            if (node == NO_NODE)
                break;
            const int32_t id = unigram->node_tokens[node];
            if (id == MT_TOKEN_NONE)
                continue;
            reach(unigram, &places[end], score, unigram->scores[id], start, id);
            frontier = mt_size_max(frontier, end);
            single = single || end - start == length;
        }
        if (!single && unigram->unknown == MT_TOKEN_NONE)
            return -EINVAL;
        if (!single)
            reach(unigram, &places[start + length], score, unigram->unknown_score, start, unigram->unknown);
        frontier = mt_size_max(frontier, start + length);
        start += length;
    }
    return 0;
}

/* A part that is no token of its own: bytes, or the unknown token. */
static int push_unknown(const struct mt_unigram *unigram, const char *text, size_t bytes, struct mt_ids *ids)
{
    const int32_t known = unigram->sentencepiece ? MT_TOKEN_NONE : mt_vocab_find(unigram->texts, text, bytes);
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
        while (id == unigram->unknown && following > 0 && places[following].id == unigram->unknown) {
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

int mt_unigram_new(const struct mt_unigram_model *model, const struct mt_vocab *texts,
                   struct mt_unigram **result, struct mt_error *error)
{
    *result = NULL;
    struct mt_unigram *unigram = calloc(1, sizeof *unigram);
    if (!unigram) {
        free(model->scores);
        return no_memory(error);
    }
    unigram->texts = texts;
    unigram->scores = model->scores;
    unigram->unknown_score = model->unknown_score;
    unigram->unknown = model->unknown;
    unigram->byte_fallback = model->byte_ids;
    if (model->byte_ids)
        memcpy(unigram->byte_ids, model->byte_ids, sizeof unigram->byte_ids);
    unigram->sentencepiece = model->sentencepiece;
    int r = build_trie(unigram, model, error);
    if (r < 0) {
        mt_unigram_free(unigram);
        return r;
    }
    *result = unigram;
    return 0;
}

static int load_scores(struct mt_unigram_model *model, const json_t *vocab, const struct mt_vocab *texts,
                       struct mt_error *error)
{
    double lowest = INFINITY;
    json_t *entry;
    size_t id;
    model->scores = calloc(texts->size + 1, sizeof *model->scores);
    if (!model->scores)
        return no_memory(error);
    json_array_foreach(vocab, id, entry)
    {
        const json_t *score = json_array_get(entry, 1);
        if (!json_is_number(score))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "token %zu has no score", id);
        model->scores[id] = json_number_value(score);
        lowest = fmin(lowest, model->scores[id]);
    }
    model->unknown_score = lowest - UNKNOWN_PENALTY;
    return 0;
}

int mt_unigram_load(const json_t *json, const struct mt_vocab *texts, struct mt_unigram **unigram,
                    struct mt_error *error)
{
    *unigram = NULL;
    const json_t *vocab = json_object_get(json, "vocab"), *unknown = json_object_get(json, "unk_id");
    struct mt_unigram_model model = {
        .count = json_array_size(vocab),
        .unknown = MT_TOKEN_NONE,
    };
    int32_t byte_ids[256];
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", byte);
        byte_ids[byte] = mt_vocab_find(texts, name, 6);
    }
    if (json_is_true(json_object_get(json, "byte_fallback")))
        model.byte_ids = byte_ids;
    if (json_is_integer(unknown)) {
        if (json_integer_value(unknown) < 0 || (size_t)json_integer_value(unknown) >= model.count)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "unk_id is not in the vocabulary");
        model.unknown = (int32_t)json_integer_value(unknown);
    }
    int r = load_scores(&model, vocab, texts, error);
    if (r < 0) {
        free(model.scores);
        return r;
    }
    return mt_unigram_new(&model, texts, unigram, error);
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
