/* A tokenizer.json, changed as JSON: what is not JSON is refused before anything of it is looked at. Texts go
 * in and out, and what a stream of ids decodes to is what all of them do. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/text/json_tokenizer.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed);

/* --- mutations ---------------------------------------------------------------------------------------------
 */

static unsigned next_random(unsigned *state, unsigned bound)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % bound;
}

/* Something that may stand anywhere. */
static json_t *any_value(unsigned *state)
{
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-1",
        "1",
        "16777216",
        "2147483648",
        "1e308",
        "\"\"",
        "\" \"",
        "\"a\"",
        "\"▁\"",
        "\"<0x0A>\"",
        "[]",
        "{}",
        "[[]]",
        "\"(a*)*b\"",
        "\"\\\\s\"",
        "\"[\"",
        "\"Sequence\"",
        "\"ByteLevel\"",
        "\"Metaspace\"",
        "\"Split\"",
        "\"Isolated\"",
        "\"Unigram\"",
        "\"BPE\"",
        "[\"a\",0]",
    };
    return json_loads(texts[next_random(state, sizeof texts / sizeof *texts)], JSON_DECODE_ANY, NULL);
}

/* A value within: down from the root, at each level one of the children, or no further. */
static json_t *descend(json_t *root, unsigned *state, json_t **parent, const char **key, size_t *index)
{
    json_t *value = root;
    *parent = NULL;
    while (next_random(state, 8)) {
        const size_t count = json_is_array(value) ? json_array_size(value) : json_object_size(value);
        if (!count)
            break;
        *parent = value;
        *index = next_random(state, (unsigned)count);
        if (json_is_array(value)) {
            value = json_array_get(value, *index);
            continue;
        }
        void *at = json_object_iter(value);
        for (size_t i = 0; i < *index; i++)
            at = json_object_iter_next(value, at);
        *key = json_object_iter_key(at);
        value = json_object_iter_value(at);
    }
    return value;
}

static void change(json_t *root, unsigned *state)
{
    json_t *parent, *other_parent;
    const char *key = NULL, *other_key = NULL;
    size_t index = 0, other_index = 0;
    json_t *value = descend(root, state, &parent, &key, &index);
    if (!parent)
        return;
    json_t *new = NULL;
    switch (next_random(state, 4)) {
    case 0:
        if (json_is_array(parent))
            json_array_remove(parent, index);
        else
            json_object_del(parent, key);
        return;
    case 1:
        new = any_value(state);
        break;
    case 2: /* another place's */
        new = json_deep_copy(descend(root, state, &other_parent, &other_key, &other_index));
        break;
    default:
        new = json_is_integer(value)
                  ? json_integer(json_integer_value(value) + (json_int_t)next_random(state, 5) - 2)
                  : any_value(state);
    }
    if (json_is_array(parent))
        json_array_set_new(parent, index, new);
    else
        json_object_set_new(parent, key, new);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed)
{
    unsigned state = seed;
    mt_autojson json_t *root = json_loadb((const char *)data, bytes, JSON_REJECT_DUPLICATES, NULL);
    if (!root || !next_random(&state, 20))
        return LLVMFuzzerMutate(data, bytes, most);
    for (unsigned i = 0; i <= next_random(&state, 3); i++)
        change(root, &state);
    const size_t written = json_dumpb(root, (char *)data, most, JSON_COMPACT);
    return written && written <= most ? written : bytes;
}

/* --- what is made of it ------------------------------------------------------------------------------------
 */

/* Ids one by one give what all of them together do. */
static void check_stream(const struct mt_tokenizer *tokenizer, const struct mt_ids *ids,
                         const struct mt_text *back)
{
    struct mt_error error = {0};
    struct mt_text whole = {0}, streamed = {0};
    struct mt_detokenizer *detokenizer;
    const char *piece;
    size_t bytes;
    if (mt_detokenizer_new(tokenizer, false, &detokenizer, &error) < 0)
        return;
    for (size_t i = 0; i <= ids->count; i++)
        if ((i < ids->count ? mt_detokenizer_push(detokenizer, ids->data[i], &piece, &bytes, &error)
                            : mt_detokenizer_finish(detokenizer, &piece, &bytes, &error)) < 0 ||
            mt_text_append(&streamed, piece, bytes) < 0)
            abort();
    if (mt_text_append_utf8(&whole, back->data, back->bytes) < 0 || whole.bytes != streamed.bytes ||
        (whole.bytes > 0 && memcmp(whole.data, streamed.data, whole.bytes) != 0))
        abort();
    mt_detokenizer_free(detokenizer);
    mt_text_free(&whole);
    mt_text_free(&streamed);
}

static void use(const struct mt_tokenizer *tokenizer, const char *text)
{
    struct mt_error error = {0};
    struct mt_ids ids = {0};
    struct mt_text back = {0};
    if (mt_tokenizer_encode(tokenizer, text, strlen(text), true, &ids, &error) == 0 &&
        mt_tokenizer_decode(tokenizer, ids.data, ids.count, false, &back, &error) == 0)
        check_stream(tokenizer, &ids, &back);
    for (size_t i = 0; i < ids.count; i++)
        if (ids.data[i] < 0 || (size_t)ids.data[i] >= mt_tokenizer_vocab_size(tokenizer))
            abort();
    mt_ids_free(&ids);
    mt_text_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const texts[] = {"Hello,  wörld 1234\n it's <s>x</s>",
                                        "\xef\xbd\xb1\xe3\x82\x9b  x <added> ", "\xff<0x0A>\xe2\x96\x81 a",
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    mt_autojson json_t *document = NULL;
    if (mt_json_parse((const char *)data, bytes, "tokenizer.json", &document, &error) < 0 ||
        mt_json_tokenizer_load(mt_fuzz_folder("tokenizer.json"), document, &tokenizer, &error) < 0)
        return 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        use(tokenizer, texts[i]);
    mt_tokenizer_free(tokenizer);
    return 0;
}
