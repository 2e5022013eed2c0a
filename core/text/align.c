/* A token that is written at the place where the one before it ended stands for that. Else it is a byte's
 * ("<0x0A>"), or the unknown token: for what no token is written at, up to where the next token is. */
#include "core/text/align.h"

#include "core/base/utf8.h"
#include "core/text/byte_alphabet.h"

#include <string.h>

static size_t written_at(const char *text, size_t bytes, const char *token, size_t token_bytes)
{
    return token_bytes && token_bytes <= bytes && memcmp(text, token, token_bytes) == 0 ? token_bytes : 0;
}

/* The length of the token at the beginning of a text; 0 when it is not written there. */
static size_t length_at(const struct mt_vocab *vocab, const struct mt_bpe_affixes *affixes, int32_t id,
                        const char *text, size_t bytes)
{
    if (!mt_vocab_has(vocab, id))
        return 0;
    size_t token_bytes;
    const char *token = mt_vocab_text(vocab, id, &token_bytes);
    size_t length = written_at(text, bytes, token, token_bytes);
    if (length || !affixes)
        return length;
    const size_t prefix = affixes->prefix ? strlen(affixes->prefix) : 0;
    const size_t suffix = affixes->suffix ? strlen(affixes->suffix) : 0;
    if (prefix && written_at(token, token_bytes, affixes->prefix, prefix)) {
        token += prefix;
        token_bytes -= prefix;
        length = written_at(text, bytes, token, token_bytes);
    }
    if (!length && suffix && token_bytes > suffix &&
        memcmp(token + token_bytes - suffix, affixes->suffix, suffix) == 0)
        length = written_at(text, bytes, token, token_bytes - suffix);
    return length;
}

static bool is_byte(const struct mt_vocab *vocab, int32_t id)
{
    if (!mt_vocab_has(vocab, id))
        return false;
    size_t bytes;
    const char *text = mt_vocab_text(vocab, id, &bytes);
    return mt_byte_token_byte(text, bytes) >= 0;
}

static size_t character_at(struct mt_view word, size_t at)
{
    uint32_t character;
    const int length = mt_utf8_next(word.text + at, word.bytes - at, &character);
    return length > 0 ? (size_t)length : 1;
}

int mt_align_word(const struct mt_vocab *vocab, const struct mt_bpe_affixes *affixes, struct mt_view word,
                  const int32_t *ids, size_t count, struct mt_spans *spans)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = length_at(vocab, affixes, ids[i], word.text + at, word.bytes - at);
        if (!length && at < word.bytes && is_byte(vocab, ids[i])) {
            length = 1;
        } else if (!length && at < word.bytes) {
            length = character_at(word, at);
            while (at + length < word.bytes &&
                   (i + 1 == count || !(length_at(vocab, affixes, ids[i + 1], word.text + at + length,
                                                  word.bytes - at - length) ||
                                        is_byte(vocab, ids[i + 1]) || ids[i + 1] == ids[i])))
                length += character_at(word, at + length);
        }
        const struct mt_span nowhere = {word.spans[word.bytes - 1].end, word.spans[word.bytes - 1].end};
        const struct mt_span span =
            length ? (struct mt_span){word.spans[at].begin, word.spans[at + length - 1].end} : nowhere;
        if (mt_spans_append(spans, span, 1) < 0)
            return -ENOMEM;
        at += length;
    }
    return 0;
}
