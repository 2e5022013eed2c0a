/* Two ways to the same result: short words by looking through their pairs for the best one each time, long
 * ones (a line without blanks, a hostile text) with a heap, in O(n log n). Before either, a word that is
 * itself a token is looked up: most are. Whether merging would lead to that token is found out once a token
 * and remembered. */
#include "core/text/bpe.h"

#include "core/base/size.h"
#include "core/base/utf8.h"
#include "core/text/heap.h"
#include "core/text/mark.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_WORD 64
#define NO_RANK UINT32_MAX

struct merge {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX where the slot is free */
    uint32_t rank;
    int32_t result;
};

enum whole { WHOLE_UNKNOWN, WHOLE_YES, WHOLE_NO };

struct mt_bpe {
    const struct mt_vocab *vocab;
    struct merge *merges; /* hash table */
    size_t merge_mask;
    bool byte_level, byte_fallback, fuse_unknown, ignore_merges;
    int32_t unknown;       /* or MT_TOKEN_NONE */
    int32_t byte_ids[256]; /* byte level: of single bytes; byte fallback: of "<0xNN>" */
    bool has_all_byte_ids;
    bool crosses_marks;            /* a merge makes a token with U+2581 behind another character */
    bool crosses_lines;            /* a merge makes a token with a newline in it */
    struct mt_bpe_affixes affixes; /* continuing_subword_prefix, end_of_word_suffix */
    atomic_uchar *whole;           /* [vocab->size]: does the token's own text encode to it? */
};

static int bad_model(struct mt_error *error, const char *what)
{
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "the BPE model %s", what);
}

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
}

/* --- merges -----------------------------------------------------------------------------------------------
 */

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t merge_slot(const struct mt_bpe *bpe, uint64_t pair)
{
    uint64_t hash = pair * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 32;
    size_t slot = (size_t)hash & bpe->merge_mask;
    while (bpe->merges[slot].pair != pair && bpe->merges[slot].pair != UINT64_MAX)
        slot = (slot + 1) & bpe->merge_mask;
    return slot;
}

static const struct merge *find_merge(const struct mt_bpe *bpe, int32_t left, int32_t right)
{
    const uint64_t pair = pair_of(left, right);
    const struct merge *merge = &bpe->merges[merge_slot(bpe, pair)];
    return merge->pair == pair ? merge : NULL;
}

/* --- long words --------------------------------------------------------------------------------------------
 */

struct symbol {
    int32_t id; /* MT_TOKEN_NONE once merged into the one before */
    int32_t previous, next;
};

struct candidate {
    uint32_t rank;
    int32_t position; /* of the left symbol */
    uint64_t pair;    /* as it was when this was found */
};

static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->position < b->position;
}

MT_HEAP(heap, struct candidate, before)

static int push_pair(const struct mt_bpe *bpe, struct heap *heap, const struct symbol *symbols, int32_t left)
{
    if (left < 0 || symbols[left].next < 0)
        return 0;
    const int32_t right = symbols[left].next;
    const struct merge *merge = find_merge(bpe, symbols[left].id, symbols[right].id);
    if (!merge)
        return 0;
    return heap_push(heap, (struct candidate){.rank = merge->rank, .position = left, .pair = merge->pair});
}

static int merge_long(const struct mt_bpe *bpe, const int32_t *word, size_t count, struct mt_ids *ids)
{
    struct symbol *symbols = malloc(count * sizeof *symbols);
    struct heap heap = {0};
    int r = symbols && count <= INT32_MAX ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < count; i++)
        symbols[i] = (struct symbol){
            .id = word[i],
            .previous = (int32_t)i - 1,
            .next = i + 1 < count ? (int32_t)i + 1 : -1,
        };
    for (size_t i = 0; r == 0 && i + 1 < count; i++)
        r = push_pair(bpe, &heap, symbols, (int32_t)i);
    while (r == 0 && heap.count) {
        const struct candidate best = heap_pop(&heap);
        struct symbol *left = &symbols[best.position];
        if (left->id == MT_TOKEN_NONE || left->next < 0)
            continue;
        struct symbol *right = &symbols[left->next];
        const struct merge *merge = find_merge(bpe, left->id, right->id);
        if (!merge || merge->pair != best.pair) /* one of the two was merged since */
            continue;
        left->id = merge->result;
        left->next = right->next;
        right->id = MT_TOKEN_NONE;
        if (left->next >= 0)
            symbols[left->next].previous = best.position;
        r = push_pair(bpe, &heap, symbols, left->previous);
        if (r == 0)
            r = push_pair(bpe, &heap, symbols, best.position);
    }
    for (int32_t i = 0; r == 0 && i >= 0; i = symbols[i].next)
        r = mt_ids_push(ids, symbols[i].id);
    free(symbols);
    free(heap.items);
    return r;
}

/* --- short words -------------------------------------------------------------------------------------------
 */

static int merge_short(const struct mt_bpe *bpe, int32_t *word, size_t count, struct mt_ids *ids)
{
    const struct merge *merges[SHORT_WORD]; /* of symbol i and the one after it */
    for (size_t i = 0; i + 1 < count; i++)
        merges[i] = find_merge(bpe, word[i], word[i + 1]);
    while (count > 1) {
        size_t best = 0;
        uint32_t rank = NO_RANK;
        for (size_t i = 0; i + 1 < count; i++)
            if (merges[i] && merges[i]->rank < rank) {
                rank = merges[i]->rank;
                best = i;
            }
        if (rank == NO_RANK)
            break;
        word[best] = merges[best]->result;
        count--;
        memmove(word + best + 1, word + best + 2, (count - best - 1) * sizeof *word);
        if (best + 1 < count) /* the pairs after the merged one move along */
            memmove(merges + best + 1, merges + best + 2, (count - best - 2) * sizeof(struct merge *));
        if (best)
            merges[best - 1] = find_merge(bpe, word[best - 1], word[best]);
        if (best + 1 < count)
            merges[best] = find_merge(bpe, word[best], word[best + 1]);
    }
    return mt_ids_append(ids, word, count);
}

/* --- from words to symbols
 * ---------------------------------------------------------------------------------- */

/* Byte fallback or the unknown token for a character that the vocabulary lacks. `*pending`: an unknown that
 * waits for what follows, since several may become one. */
static int add_missing(const struct mt_bpe *bpe, const char *text, size_t bytes, bool *pending,
                       struct mt_ids *symbols)
{
    if (bpe->byte_fallback) {
        bool all = true;
        for (size_t i = 0; i < bytes; i++)
            all = all && bpe->byte_ids[(unsigned char)text[i]] != MT_TOKEN_NONE;
        int r = 0;
        for (size_t i = 0; all && r == 0 && i < bytes; i++)
            r = mt_ids_push(symbols, bpe->byte_ids[(unsigned char)text[i]]);
        if (all)
            return r;
    }
    if (bpe->unknown == MT_TOKEN_NONE)
        return 0; /* dropped, as the reference implementation does */
    int r = *pending && !bpe->fuse_unknown ? mt_ids_push(symbols, bpe->unknown) : 0;
    *pending = true;
    return r;
}

/* The symbol of one character with the prefix and suffix that the model wants there. */
static int32_t find_character(const struct mt_bpe *bpe, const char *text, size_t bytes, bool first, bool last)
{
    const char *prefix = !first && bpe->affixes.prefix ? bpe->affixes.prefix : "";
    const char *suffix = last && bpe->affixes.suffix ? bpe->affixes.suffix : "";
    if (!*prefix && !*suffix)
        return mt_vocab_find(bpe->vocab, text, bytes);
    char whole[256];
    const int length = snprintf(whole, sizeof whole, "%s%.*s%s", prefix, (int)bytes, text, suffix);
    return length < 0 || (size_t)length >= sizeof whole ? MT_TOKEN_NONE
                                                        : mt_vocab_find(bpe->vocab, whole, (size_t)length);
}

static int split_characters(const struct mt_bpe *bpe, const char *word, size_t bytes, struct mt_ids *symbols)
{
    bool pending = false;
    int r = 0;
    for (size_t i = 0; r == 0 && i < bytes;) {
        uint32_t character;
        const int length = mt_utf8_next(word + i, bytes - i, &character);
        const size_t step = length > 0 ? (size_t)length : 1;
        const int32_t id = find_character(bpe, word + i, step, i == 0, i + step == bytes);
        if (id == MT_TOKEN_NONE) {
            r = add_missing(bpe, word + i, step, &pending, symbols);
        } else {
            if (pending)
                r = mt_ids_push(symbols, bpe->unknown);
            pending = false;
            if (r == 0)
                r = mt_ids_push(symbols, id);
        }
        i += step;
    }
    return r == 0 && pending ? mt_ids_push(symbols, bpe->unknown) : r;
}

static int merge_symbols(const struct mt_bpe *bpe, int32_t *symbols, size_t count, struct mt_ids *ids)
{
    return count <= SHORT_WORD ? merge_short(bpe, symbols, count, ids) : merge_long(bpe, symbols, count, ids);
}

static int encode_by_merging(const struct mt_bpe *bpe, const char *word, size_t bytes, struct mt_ids *ids)
{
    if (bpe->byte_level && bpe->has_all_byte_ids && bytes <= SHORT_WORD) {
        int32_t symbols[SHORT_WORD];
        for (size_t i = 0; i < bytes; i++)
            symbols[i] = bpe->byte_ids[(unsigned char)word[i]];
        return merge_short(bpe, symbols, bytes, ids);
    }
    struct mt_ids symbols = {0};
    int r = 0;
    if (bpe->byte_level) {
        bool pending = false;
        for (size_t i = 0; r == 0 && i < bytes; i++) {
            const int32_t id = bpe->byte_ids[(unsigned char)word[i]];
            if (id == MT_TOKEN_NONE) {
                r = add_missing(bpe, word + i, 1, &pending, &symbols);
                continue;
            }
            if (pending)
                r = mt_ids_push(&symbols, bpe->unknown);
            pending = false;
            if (r == 0)
                r = mt_ids_push(&symbols, id);
        }
        if (r == 0 && pending)
            r = mt_ids_push(&symbols, bpe->unknown);
    } else {
        r = split_characters(bpe, word, bytes, &symbols);
    }
    if (r == 0)
        r = merge_symbols(bpe, symbols.data, symbols.count, ids);
    mt_ids_free(&symbols);
    return r;
}

/* Does the text of this token encode to it alone? The answer never changes, so threads may find it at once.
 */
static bool encodes_to_itself(const struct mt_bpe *bpe, int32_t id, const char *word, size_t bytes)
{
    const unsigned char known = atomic_load_explicit(&bpe->whole[id], memory_order_relaxed);
    if (known != WHOLE_UNKNOWN)
        return known == WHOLE_YES;
    struct mt_ids ids = {0};
    const int r = encode_by_merging(bpe, word, bytes, &ids);
    const bool whole = r == 0 && ids.count == 1 && ids.data[0] == id;
    mt_ids_free(&ids);
    if (r == 0)
        atomic_store_explicit(&bpe->whole[id], whole ? WHOLE_YES : WHOLE_NO, memory_order_relaxed);
    return whole;
}

int mt_bpe_encode(const struct mt_bpe *bpe, const char *word, size_t bytes, struct mt_ids *ids)
{
    if (!bytes)
        return 0;
    const int32_t id = mt_vocab_find(bpe->vocab, word, bytes);
    if (id != MT_TOKEN_NONE && (bpe->ignore_merges || encodes_to_itself(bpe, id, word, bytes)))
        return mt_ids_push(ids, id);
    return encode_by_merging(bpe, word, bytes, ids);
}

/* --- loading
 * ------------------------------------------------------------------------------------------------ */

/* Finds a token that the file names in its own writing. */
static int32_t find_written(const json_t *vocab, const char *text, size_t bytes)
{
    const json_t *id = json_object_getn(vocab, text, bytes);
    return json_is_integer(id) ? (int32_t)json_integer_value(id) : MT_TOKEN_NONE;
}

/* A merge as "left right" or ["left", "right"]. */
static int split_merge(const json_t *merge, const char **left, size_t *left_bytes, const char **right,
                       size_t *right_bytes)
{
    if (json_is_array(merge)) {
        const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
        if (json_array_size(merge) != 2 || !json_is_string(a) || !json_is_string(b))
            return -EINVAL;
        *left = json_string_value(a);
        *left_bytes = json_string_length(a);
        *right = json_string_value(b);
        *right_bytes = json_string_length(b);
        return 0;
    }
    const char *text = json_string_value(merge), *blank = text ? strchr(text, ' ') : NULL;
    if (!blank || strchr(blank + 1, ' '))
        return -EINVAL;
    *left = text;
    *left_bytes = (size_t)(blank - text);
    *right = blank + 1;
    *right_bytes = strlen(blank + 1);
    return 0;
}

static int load_merge(struct mt_bpe *bpe, const json_t *vocab, const json_t *merge, size_t rank,
                      struct mt_text *joined, struct mt_error *error)
{
    const char *left, *right;
    size_t left_bytes, right_bytes;
    if (split_merge(merge, &left, &left_bytes, &right, &right_bytes) < 0)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "merge %zu is not a pair of tokens", rank);
    const size_t prefix = bpe->affixes.prefix ? strlen(bpe->affixes.prefix) : 0;
    joined->bytes = 0;
    if (mt_text_append(joined, left, left_bytes) < 0 ||
        mt_text_append(joined, right + mt_size_min(prefix, right_bytes),
                       right_bytes - mt_size_min(prefix, right_bytes)) < 0)
        return no_memory(error);
    const int32_t a = find_written(vocab, left, left_bytes);
    const int32_t b = find_written(vocab, right, right_bytes);
    const int32_t result = find_written(vocab, joined->data, joined->bytes);
    if (a == MT_TOKEN_NONE || b == MT_TOKEN_NONE || result == MT_TOKEN_NONE)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "merge %zu (\"%.40s\" and \"%.40s\") names a token that is not in the vocabulary",
                            rank, left, right);
    bpe->crosses_marks = bpe->crosses_marks || mt_mark_is_crossed(joined->data, joined->bytes);
    bpe->crosses_lines = bpe->crosses_lines || memchr(joined->data, '\n', joined->bytes) ||
                         memmem(joined->data, joined->bytes, "<0x0A>", 6);
    struct merge *slot = &bpe->merges[merge_slot(bpe, pair_of(a, b))];
    *slot = (struct merge){.pair = pair_of(a, b), .rank = (uint32_t)rank, .result = result};
    return 0;
}

/* An empty table for so many. */
static int allocate_merges(struct mt_bpe *bpe, size_t count, struct mt_error *error)
{
    size_t slots = 16;
    while (slots < 2 * count)
        slots *= 2;
    bpe->merges = malloc(slots * sizeof *bpe->merges);
    if (!bpe->merges)
        return no_memory(error);
    bpe->merge_mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        bpe->merges[i].pair = UINT64_MAX;
    return 0;
}

static int load_merges(struct mt_bpe *bpe, const json_t *model, struct mt_error *error)
{
    const json_t *merges = json_object_get(model, "merges"), *vocab = json_object_get(model, "vocab");
    if (!json_is_array(merges))
        return bad_model(error, "has no list of merges");
    const size_t count = json_array_size(merges);
    int r = allocate_merges(bpe, count, error);
    struct mt_text joined = {0};
    for (size_t i = 0; r == 0 && i < count; i++)
        r = load_merge(bpe, vocab, json_array_get(merges, i), i, &joined, error);
    mt_text_free(&joined);
    return r;
}

static void load_byte_ids(struct mt_bpe *bpe)
{
    bpe->has_all_byte_ids = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        if (bpe->byte_level) {
            name[0] = (char)byte;
            bpe->byte_ids[byte] = mt_vocab_find(bpe->vocab, name, 1);
        } else {
            snprintf(name, sizeof name, "<0x%02X>", byte);
            bpe->byte_ids[byte] = mt_vocab_find(bpe->vocab, name, 6);
        }
        bpe->has_all_byte_ids = bpe->has_all_byte_ids && bpe->byte_ids[byte] != MT_TOKEN_NONE;
    }
}

/* A text, or NULL where it is null, absent or empty. */
static int load_text(const json_t *model, const char *key, char **text, struct mt_error *error)
{
    const char *value = json_string_value(json_object_get(model, key));
    *text = NULL;
    if (!value || !*value)
        return 0;
    *text = strdup(value);
    return *text ? 0 : no_memory(error);
}

static int load(struct mt_bpe *bpe, const json_t *model, struct mt_error *error)
{
    const json_t *dropout = json_object_get(model, "dropout"), *unknown = json_object_get(model, "unk_token");
    if (json_is_number(dropout) && json_number_value(dropout) > 0)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL, "BPE dropout is not supported yet");
    bpe->byte_fallback = !bpe->byte_level && json_is_true(json_object_get(model, "byte_fallback"));
    bpe->fuse_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    bpe->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    bpe->unknown = MT_TOKEN_NONE;
    if (json_is_string(unknown)) {
        bpe->unknown = find_written(json_object_get(model, "vocab"), json_string_value(unknown),
                                    json_string_length(unknown));
        if (bpe->unknown == MT_TOKEN_NONE && *json_string_value(unknown))
            return bad_model(error, "names an unknown token that is not in its vocabulary");
    }
    int r = load_text(model, "continuing_subword_prefix", &bpe->affixes.prefix, error);
    if (r == 0)
        r = load_text(model, "end_of_word_suffix", &bpe->affixes.suffix, error);
    if (r == 0 && bpe->byte_level && (bpe->affixes.prefix || bpe->affixes.suffix))
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "a byte-level BPE with a subword prefix or suffix is not supported yet");
    if (r == 0)
        r = load_merges(bpe, model, error);
    if (r < 0)
        return r;
    load_byte_ids(bpe);
    bpe->whole = calloc(bpe->vocab->size + 1, sizeof *bpe->whole);
    return bpe->whole ? 0 : no_memory(error);
}

int mt_bpe_load(const json_t *model, bool byte_level, const struct mt_vocab *vocab, struct mt_bpe **result,
                struct mt_error *error)
{
    *result = NULL;
    struct mt_bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe)
        return no_memory(error);
    bpe->vocab = vocab;
    bpe->byte_level = byte_level;
    int r = load(bpe, model, error);
    if (r < 0) {
        mt_bpe_free(bpe);
        return r;
    }
    *result = bpe;
    return 0;
}

bool mt_bpe_cuts_at_marks(const struct mt_bpe *bpe)
{
    return !bpe->byte_level && !bpe->ignore_merges && !bpe->crosses_marks && !bpe->affixes.prefix &&
           !bpe->affixes.suffix && mt_vocab_find(bpe->vocab, MT_MARK, MT_MARK_BYTES) != MT_TOKEN_NONE;
}

bool mt_bpe_cuts_at_lines(const struct mt_bpe *bpe)
{
    return mt_bpe_cuts_at_marks(bpe) && !bpe->crosses_lines && bpe->byte_fallback && bpe->has_all_byte_ids;
}

/* The ways in which a token's bytes are two other tokens: how many, and into the table once it is there. */
static size_t pairs_of_ranks(struct mt_bpe *bpe, int32_t id)
{
    size_t bytes, count = 0;
    if (!mt_vocab_has(bpe->vocab, id))
        return 0;
    const char *text = mt_vocab_text(bpe->vocab, id, &bytes);
    for (size_t half = 1; half < bytes; half++) {
        const int32_t left = mt_vocab_find(bpe->vocab, text, half);
        const int32_t right =
            left == MT_TOKEN_NONE ? left : mt_vocab_find(bpe->vocab, text + half, bytes - half);
        if (right == MT_TOKEN_NONE)
            continue;
        count++;
        if (bpe->merges)
            bpe->merges[merge_slot(bpe, pair_of(left, right))] =
                (struct merge){.pair = pair_of(left, right), .rank = (uint32_t)id, .result = id};
    }
    return count;
}

int mt_bpe_new_from_ranks(const struct mt_vocab *vocab, size_t count, struct mt_bpe **result,
                          struct mt_error *error)
{
    *result = NULL;
    struct mt_bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe)
        return no_memory(error);
    bpe->vocab = vocab;
    bpe->byte_level = true;
    bpe->ignore_merges = true;
    bpe->unknown = MT_TOKEN_NONE;
    bpe->whole = calloc(vocab->size + 1, sizeof *bpe->whole);
    size_t pairs = 0;
    for (size_t id = 0; id < count; id++)
        pairs += pairs_of_ranks(bpe, (int32_t)id);
    int r = bpe->whole ? allocate_merges(bpe, pairs, error) : no_memory(error);
    for (size_t id = 0; r == 0 && id < count; id++)
        pairs_of_ranks(bpe, (int32_t)id);
    load_byte_ids(bpe);
    if (r < 0) {
        mt_bpe_free(bpe);
        return r;
    }
    *result = bpe;
    return 0;
}

const struct mt_bpe_affixes *mt_bpe_affixes(const struct mt_bpe *bpe)
{
    return &bpe->affixes;
}

void mt_bpe_free(struct mt_bpe *bpe)
{
    if (!bpe)
        return;
    free(bpe->merges);
    free(bpe->affixes.prefix);
    free(bpe->affixes.suffix);
    free(bpe->whole);
    free(bpe);
}
