/* Byte pair encoding by scores: of all neighbours whose texts together are a piece, those whose piece has the
 * best score are merged first, the leftmost of equals. Where no piece has a blank inside, words are merged
 * apart from one another, and remembered: the result is the same. */
#include "core/base/size.h"
#include "core/base/utf8.h"
#include "core/text/heap.h"
#include "core/text/sentencepiece_internal.h"

#include <stdlib.h>
#include <string.h>

struct symbol {
    uint32_t begin, bytes; /* in the word; no bytes: merged into the one before */
    int32_t previous, next;
};

struct candidate {
    float score;
    int32_t left, right;
    uint32_t bytes; /* of both */
};

static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

MT_HEAP(heap, struct candidate, before)

/* One text on its way. */
struct merging {
    const struct mt_sentencepiece *model;
    struct mt_ids *ids;
    size_t first; /* of this text in `ids` */
    struct symbol *symbols;
    size_t num_symbols, symbol_capacity;
    struct heap heap;
    uint32_t *halves; /* [count]: of unused pieces, the length of the left half when last seen; or NULL */
};

/* --- merging ----------------------------------------------------------------------------------------------
 */

static int push_pair(struct merging *merging, const char *word, int32_t left, int32_t right)
{
    if (left < 0 || right < 0)
        return 0;
    const struct symbol *a = &merging->symbols[left], *b = &merging->symbols[right];
    const uint32_t bytes = a->bytes + b->bytes;
    const int32_t id = mt_vocab_find(merging->model->pieces, word + a->begin, bytes);
    if (id == MT_TOKEN_NONE)
        return 0;
    if (merging->halves && merging->model->types[id] == MT_PIECE_UNUSED)
        merging->halves[id] = a->bytes;
    return heap_push(&merging->heap,
                     (struct candidate){
                         .score = merging->model->scores[id], .left = left, .right = right, .bytes = bytes});
}

static int merge_symbols(struct merging *merging, const char *word)
{
    struct symbol *symbols = merging->symbols;
    int r = 0;
    merging->heap.count = 0;
    for (size_t i = 1; r == 0 && i < merging->num_symbols; i++)
        r = push_pair(merging, word, (int32_t)i - 1, (int32_t)i);
    while (r == 0 && merging->heap.count) {
        const struct candidate best = heap_pop(&merging->heap);
        struct symbol *left = &symbols[best.left], *right = &symbols[best.right];
        if (!left->bytes || !right->bytes || left->bytes + right->bytes != best.bytes)
            continue; /* one of the two was merged since */
        left->bytes = best.bytes;
        left->next = right->next;
        right->bytes = 0;
        if (left->next >= 0)
            symbols[left->next].previous = best.left;
        r = push_pair(merging, word, left->previous, best.left);
        if (r == 0)
            r = push_pair(merging, word, best.left, left->next);
    }
    return r;
}

static int add_symbol(struct merging *merging, size_t begin, size_t bytes)
{
    if (merging->num_symbols == merging->symbol_capacity) {
        const size_t capacity = merging->symbol_capacity * 2 + 64;
        void *symbols = realloc(merging->symbols, capacity * sizeof *merging->symbols);
        if (!symbols)
            return -ENOMEM;
        merging->symbols = symbols;
        merging->symbol_capacity = capacity;
    }
    const int32_t index = (int32_t)merging->num_symbols++;
    merging->symbols[index] = (struct symbol){
        .begin = (uint32_t)begin, .bytes = (uint32_t)bytes, .previous = index - 1, .next = -1};
    if (index)
        merging->symbols[index - 1].next = index;
    return 0;
}

/* --- from symbols to ids ----------------------------------------------------------------------------------
 */

/* Several unknown in a row are one. */
static int push_unknown(struct merging *merging, const char *text, size_t bytes)
{
    const struct mt_sentencepiece *model = merging->model;
    struct mt_ids *ids = merging->ids;
    int r = 0;
    for (size_t i = 0; r == 0 && model->byte_fallback && i < bytes; i++)
        r = mt_ids_push(ids, model->byte_ids[(unsigned char)text[i]]);
    if (model->byte_fallback || (ids->count > merging->first && ids->data[ids->count - 1] == model->unknown))
        return r;
    return mt_ids_push(ids, model->unknown);
}

/* A symbol, or where its piece is unused the two that it was made of, and so on. */
static int push_symbol(struct merging *merging, const char *text, size_t bytes)
{
    const struct mt_sentencepiece *model = merging->model;
    struct mt_ids rest = {0}; /* ends of what is still to come, the next one last */
    int r = mt_ids_push(&rest, (int32_t)bytes);
    size_t done = 0;
    while (r == 0 && rest.count) {
        const size_t end = (size_t)rest.data[rest.count - 1];
        const int32_t id = mt_vocab_find(model->pieces, text + done, end - done);
        const uint32_t half =
            id != MT_TOKEN_NONE && model->types[id] == MT_PIECE_UNUSED ? merging->halves[id] : 0;
        if (half) {
            r = mt_ids_push(&rest, (int32_t)(done + half));
            continue;
        }
        r = id == MT_TOKEN_NONE ? push_unknown(merging, text + done, end - done)
                                : mt_ids_push(merging->ids, id);
        done = end;
        rest.count--;
    }
    mt_ids_free(&rest);
    return r;
}

static int push_symbols(struct merging *merging, const char *word)
{
    const struct mt_sentencepiece *model = merging->model;
    int r = 0;
    for (int32_t i = 0; r == 0 && i >= 0; i = merging->symbols[i].next) {
        const char *text = word + merging->symbols[i].begin;
        const size_t bytes = merging->symbols[i].bytes;
        if (merging->halves) {
            r = push_symbol(merging, text, bytes);
            continue;
        }
        const int32_t id = mt_vocab_find(model->pieces, text, bytes);
        r = id == MT_TOKEN_NONE ? push_unknown(merging, text, bytes) : mt_ids_push(merging->ids, id);
    }
    return r;
}

/* --- words ------------------------------------------------------------------------------------------------
 */

static int merge_word(struct merging *merging, const char *word, size_t bytes)
{
    merging->num_symbols = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < bytes;) {
        uint32_t character;
        const int length = mt_utf8_next(word + i, bytes - i, &character);
        const size_t step = length > 0 ? (size_t)length : 1;
        r = add_symbol(merging, i, step);
        i += step;
    }
    if (r == 0)
        r = merge_symbols(merging, word);
    return r < 0 ? r : push_symbols(merging, word);
}

static int encode_word(struct merging *merging, const char *word, size_t bytes)
{
    const struct mt_sentencepiece *model = merging->model;
    struct mt_ids *ids = merging->ids;
    const bool remember = bytes <= MT_WORD_CACHE_BYTES && !merging->halves;
    const size_t first = ids->count;
    if (!bytes)
        return 0;
    if (remember &&
        (model->byte_fallback || first == merging->first || ids->data[first - 1] != model->unknown)) {
        int r = mt_word_cache_find(model->cache, word, bytes, ids);
        if (r != 0)
            return r < 0 ? r : 0;
        r = merge_word(merging, word, bytes);
        if (r == 0)
            mt_word_cache_store(model->cache, word, bytes, ids->data + first, ids->count - first);
        return r;
    }
    return merge_word(merging, word, bytes);
}

static int encode_words(struct merging *merging, struct mt_view text)
{
    const struct mt_sentencepiece *model = merging->model;
    size_t start = 0;
    bool behind_mark = true; /* a word does not begin there */
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.bytes;) {
        int32_t id;
        const size_t length =
            model->users ? mt_added_longest(model->users, text.text + i, text.bytes - i, &id) : 0;
        if (length) {
            r = encode_word(merging, text.text + start, i - start);
            if (r == 0)
                r = mt_ids_push(merging->ids, id);
            start = i += length;
            behind_mark = true;
            continue;
        }
        const bool mark = text.text[i] == MT_MARK[0] && mt_mark_at(text.text, text.bytes, i);
        const bool newline = text.text[i] == '\n' || (i && text.text[i - 1] == '\n');
        if ((mark && !behind_mark && !model->whole) || (newline && model->lines)) {
            r = encode_word(merging, text.text + start, i - start);
            start = i;
        }
        behind_mark = mark;
        if (mark)
            i += MT_MARK_BYTES;
        else
            for (i++; i < text.bytes && ((unsigned char)text.text[i] & 0xc0) == 0x80;)
                i++;
    }
    return r < 0 ? r : encode_word(merging, text.text + start, text.bytes - start);
}

int mt_sentencepiece_merge(const struct mt_sentencepiece *model, struct mt_view text, struct mt_ids *ids)
{
    struct merging merging = {.model = model, .ids = ids, .first = ids->count};
    int r = 0;
    if (model->has_unused && !(merging.halves = calloc(model->count + 1, sizeof *merging.halves)))
        r = -ENOMEM;
    if (r == 0)
        r = encode_words(&merging, text);
    free(merging.halves);
    free(merging.symbols);
    free(merging.heap.items);
    return r;
}
