/* A trie over bytes, and a bitmap of the bytes that a token begins with, which is all that most of a text is
 * compared with. */
#include "core/text/added.h"

#include "core/base/size.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer.h"
#include "core/text/unicode.h"
#include "core/text/vocab.h"

#include <stdlib.h>
#include <string.h>

struct node {
    uint32_t child, sibling; /* indexes; 0: none */
    int32_t token;           /* index into tokens, or -1 */
    unsigned char byte;
};

struct mt_added {
    struct node *nodes; /* [0] is the root */
    size_t num_nodes, node_capacity;
    struct mt_added_token *tokens;
    size_t num_tokens, token_capacity;
    bool begins[256];
};

struct mt_added *mt_added_new(void)
{
    struct mt_added *added = calloc(1, sizeof *added);
    if (!added)
        return NULL;
    added->node_capacity = 64;
    added->nodes = calloc(added->node_capacity, sizeof *added->nodes);
    if (!added->nodes) {
        free(added);
        return NULL;
    }
    added->num_nodes = 1;
    added->nodes[0].token = -1;
    return added;
}

void mt_added_free(struct mt_added *added)
{
    if (!added)
        return;
    free(added->nodes);
    free(added->tokens);
    free(added);
}

static uint32_t find_child(const struct mt_added *added, uint32_t node, unsigned char byte)
{
    uint32_t child = added->nodes[node].child;
    while (child && added->nodes[child].byte != byte)
        child = added->nodes[child].sibling;
    return child;
}

/* 0 when out of memory. */
static uint32_t new_child(struct mt_added *added, uint32_t parent, unsigned char byte)
{
    if (added->num_nodes == added->node_capacity) {
        const size_t capacity = added->node_capacity * 2;
        void *nodes = capacity < UINT32_MAX ? realloc(added->nodes, capacity * sizeof *added->nodes) : NULL;
        if (!nodes)
            return 0;
        added->nodes = nodes;
        added->node_capacity = capacity;
    }
    const uint32_t child = (uint32_t)added->num_nodes++;
    added->nodes[child] = (struct node){.sibling = added->nodes[parent].child, .token = -1, .byte = byte};
    added->nodes[parent].child = child;
    return child;
}

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
}

int mt_added_insert(struct mt_added *added, const char *text, size_t bytes, struct mt_added_token token,
                    struct mt_error *error)
{
    if (!bytes)
        return 0;
    if (bytes > MT_VOCAB_MAX_BYTES)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "the added token \"%.40s...\" is of %zu bytes; the bound is %zu", text, bytes,
                            MT_VOCAB_MAX_BYTES);
    uint32_t node = 0;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)text[i];
        uint32_t child = find_child(added, node, byte);
        if (!child && !(child = new_child(added, node, byte)))
            return no_memory(error);
        node = child;
    }
    if (added->nodes[node].token >= 0)
        return 0;
    if (added->num_tokens == added->token_capacity) {
        const size_t capacity = mt_size_max(2 * added->token_capacity, 16);
        void *tokens = realloc(added->tokens, capacity * sizeof *added->tokens);
        if (!tokens)
            return no_memory(error);
        added->tokens = tokens;
        added->token_capacity = capacity;
    }
    added->nodes[node].token = (int32_t)added->num_tokens;
    added->tokens[added->num_tokens++] = token;
    added->begins[(unsigned char)text[0]] = true;
    return 0;
}

/* The longest token that begins at `text`; its length, 0 when there is none. */
static size_t match_at(const struct mt_added *added, const char *text, size_t bytes, int32_t *token)
{
    size_t length = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < bytes && (node = find_child(added, node, (unsigned char)text[i])); i++)
        if (added->nodes[node].token >= 0) {
            length = i + 1;
            *token = added->nodes[node].token;
        }
    return length;
}

size_t mt_added_longest(const struct mt_added *added, const char *text, size_t bytes, int32_t *id)
{
    int32_t index = 0;
    const size_t length =
        bytes && added->begins[(unsigned char)text[0]] ? match_at(added, text, bytes, &index) : 0;
    if (length)
        *id = added->tokens[index].id;
    return length;
}

static bool word_before(const char *text, size_t bytes)
{
    uint32_t character;
    return bytes && (mt_utf8_before(text, bytes, &character), mt_is_word(character));
}

static bool word_at(const char *text, size_t bytes)
{
    uint32_t character;
    return bytes && mt_utf8_next(text, bytes, &character) > 0 && mt_is_word(character);
}

static size_t blanks_before(const char *text, size_t bytes)
{
    size_t left = bytes;
    uint32_t character;
    while (left) {
        const size_t length = mt_utf8_before(text, left, &character);
        if (!mt_is_white_space(character))
            break;
        left -= length;
    }
    return bytes - left;
}

static size_t blanks_at(const char *text, size_t bytes)
{
    size_t at = 0;
    uint32_t character;
    while (at < bytes) {
        const int length = mt_utf8_next(text + at, bytes - at, &character);
        if (length <= 0 || !mt_is_white_space(character))
            break;
        at += (size_t)length;
    }
    return at;
}

int mt_added_split(const struct mt_added *added, const char *text, size_t bytes,
                   int (*part)(void *context, const char *text, size_t offset, size_t bytes, int32_t token),
                   void *context)
{
    size_t done = 0;
    int r = 0;
    for (size_t at = 0; r == 0 && at < bytes;) {
        int32_t index;
        const size_t length =
            added->begins[(unsigned char)text[at]] ? match_at(added, text + at, bytes - at, &index) : 0;
        if (!length) {
            at++;
            continue;
        }
        const struct mt_added_token *token = &added->tokens[index];
        size_t start = at, end = at + length;
        at = end;
        if (token->single_word && (word_before(text, start) || word_at(text + end, bytes - end)))
            continue;
        if (token->lstrip)
            start = mt_size_max(start - blanks_before(text, start), done);
        if (token->rstrip)
            end += blanks_at(text + end, bytes - end);
        if (start > done)
            r = part(context, text, done, start - done, MT_TOKEN_NONE);
        if (r == 0)
            r = part(context, text, start, end - start, token->id);
        done = end;
        at = mt_size_max(at, end);
    }
    if (r == 0 && done < bytes)
        r = part(context, text, done, bytes - done, MT_TOKEN_NONE);
    return r;
}
