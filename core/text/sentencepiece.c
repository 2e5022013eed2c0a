/* Normalising as the library `sentencepiece` does, and from there to one of the two models. */
#include "core/text/sentencepiece.h"

#include "core/base/size.h"
#include "core/base/utf8.h"
#include "core/text/align.h"
#include "core/text/byte_alphabet.h"
#include "core/text/sentencepiece_internal.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0f

/* --- normalising ------------------------------------------------------------------------------------------
 */

/* What stands for the next part of a text: itself, or a replacement. */
struct step {
    const char *text;
    size_t bytes;
    size_t consumed;
    bool itself;
};

static struct step next_step(const struct mt_sentencepiece *model, struct mt_view text, size_t at,
                             bool plain_marks)
{
    const char *rest = text.text + at;
    const size_t left = text.bytes - at;
    int32_t id;
    size_t length = model->users ? mt_added_longest(model->users, rest, left, &id) : 0;
    if (length)
        return (struct step){rest, length, length, true};
    if (plain_marks && mt_mark_at(rest, left, 0))
        return (struct step){" ", 1, MT_MARK_BYTES, false};
    const char *found = model->charsmap ? mt_charsmap_longest(model->charsmap, rest, left, &length) : NULL;
    if (found)
        return (struct step){found, strlen(found), length, false};
    uint32_t character;
    const int next = mt_utf8_next(rest, left, &character);
    if (next <= 0) /* a byte that is no UTF-8, whatever the rules make of U+FFFD */
        return (struct step){"\xef\xbf\xbd", 3, 1, false};
    return (struct step){rest, (size_t)next, (size_t)next, true};
}

/* Appends a step's text from `skip` on, blanks as the model has them. */
static int put_step(const struct mt_sentencepiece *model, struct mt_view text, size_t at,
                    const struct step *step, size_t skip, struct mt_mapped *out)
{
    int r = 0;
    for (size_t i = skip; r == 0 && i < step->bytes;) {
        const char *blank = model->escape ? memchr(step->text + i, ' ', step->bytes - i) : NULL;
        const size_t plain = blank ? (size_t)(blank - step->text) - i : step->bytes - i;
        if (plain && step->itself)
            r = mt_mapped_keep(out, text, at + i, plain);
        else if (plain)
            r = mt_mapped_put(out, text, at, step->consumed, step->text + i, plain);
        i += plain;
        if (r == 0 && blank) {
            r = step->itself ? mt_mapped_put(out, text, at + i, 1, MT_MARK, MT_MARK_BYTES)
                             : mt_mapped_put(out, text, at, step->consumed, MT_MARK, MT_MARK_BYTES);
            i++;
        }
    }
    return r;
}

/* Where a text begins without blanks. */
static size_t behind_blanks(const struct mt_sentencepiece *model, struct mt_view text, bool plain_marks)
{
    size_t at = 0;
    while (at < text.bytes) {
        const struct step step = next_step(model, text, at, plain_marks);
        if (step.bytes != 1 || step.text[0] != ' ')
            break;
        at += step.consumed;
    }
    return at;
}

static void drop_blanks_at_end(const struct mt_sentencepiece *model, struct mt_mapped *out)
{
    const char *blank = model->escape ? MT_MARK : " ";
    const size_t length = strlen(blank);
    while (out->text.bytes >= length &&
           memcmp(out->text.data + out->text.bytes - length, blank, length) == 0) {
        out->text.bytes -= length;
        if (out->tracked)
            out->spans.count -= length;
    }
}

/* The blank before a text. Where the text is a part (keep_blanks) it is as if written there, and goes by the
 * rules. */
static int put_prefix(const struct mt_sentencepiece *model, struct mt_view text, size_t at, bool as_written,
                      struct mt_mapped *out, bool *behind_blank)
{
    const char *blank = model->escape ? MT_MARK : " ";
    size_t length;
    const char *found = as_written && model->charsmap
                            ? mt_charsmap_longest(model->charsmap, MT_MARK, MT_MARK_BYTES, &length)
                            : NULL;
    if (!as_written)
        return mt_mapped_put(out, text, at, 0, blank, strlen(blank));
    *behind_blank = found && strcmp(found, " ") == 0;
    if (*behind_blank)
        return mt_mapped_put(out, text, at, 0, blank, strlen(blank));
    return mt_mapped_put(out, text, at, 0, found ? found : MT_MARK, strlen(found ? found : MT_MARK));
}

static int normalise(const struct mt_sentencepiece *model, struct mt_view text,
                     struct mt_sentencepiece_part part, struct mt_mapped *out)
{
    const char *blank = model->escape ? MT_MARK : " ";
    const bool strip = model->remove_blanks && !part.keep_blanks;
    size_t at = strip ? behind_blanks(model, text, part.plain_marks) : 0;
    mt_mapped_clear(out);
    if (at == text.bytes && !(part.prefix && part.keep_blanks))
        return 0;
    bool behind_blank = strip;
    int r =
        part.prefix && !model->suffix ? put_prefix(model, text, at, part.keep_blanks, out, &behind_blank) : 0;
    behind_blank = behind_blank && model->remove_blanks;
    while (r == 0 && at < text.bytes) {
        const struct step step = next_step(model, text, at, part.plain_marks);
        size_t skip = 0;
        while (behind_blank && skip < step.bytes && step.text[skip] == ' ')
            skip++;
        if (skip < step.bytes) {
            r = put_step(model, text, at, &step, skip, out);
            behind_blank = step.text[step.bytes - 1] == ' ';
        }
        behind_blank = behind_blank && model->remove_blanks;
        at += step.consumed;
    }
    if (r == 0 && model->remove_blanks)
        drop_blanks_at_end(model, out);
    if (r == 0 && part.prefix && model->suffix)
        r = mt_mapped_put(out, text, text.bytes, 0, blank, strlen(blank));
    return r;
}

/* --- encoding ---------------------------------------------------------------------------------------------
 */

void mt_sentencepiece_scratch_free(struct mt_sentencepiece_scratch *scratch)
{
    mt_mapped_free(&scratch->normal);
    mt_text_free(&scratch->word);
}

struct mt_sentencepiece_part mt_sentencepiece_whole(const struct mt_sentencepiece *sentencepiece)
{
    return (struct mt_sentencepiece_part){.prefix = sentencepiece->prefix};
}

int mt_sentencepiece_encode(const struct mt_sentencepiece *model, struct mt_view text,
                            struct mt_sentencepiece_part part, struct mt_sentencepiece_scratch *scratch,
                            struct mt_ids *ids, struct mt_spans *spans)
{
    struct mt_mapped *normal = &scratch->normal;
    const size_t first = ids->count;
    normal->tracked = spans && text.spans;
    int r = text.bytes <= INT32_MAX / 4 ? normalise(model, text, part, normal) : -EINVAL;
    if (r < 0 || !normal->text.bytes)
        return r;
    const struct mt_view view = mt_mapped_view(normal);
    r = model->unigram ? mt_unigram_encode(model->unigram, view.text, view.bytes, ids)
                       : mt_sentencepiece_merge(model, view, ids);
    if (r == 0 && normal->tracked)
        r = mt_align_word(model->pieces, NULL, view, ids->data + first, ids->count - first, spans);
    return r;
}

/* --- making one -------------------------------------------------------------------------------------------
 */

#define bad_model(error, ...) mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, __VA_ARGS__)

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
}

static int read_byte_piece(struct mt_sentencepiece *model, int32_t id, const char *text, size_t bytes,
                           struct mt_error *error)
{
    const int byte = mt_byte_token_byte(text, bytes);
    if (byte < 0)
        return bad_model(error, "the byte piece \"%.*s\" is none", (int)mt_size_min(bytes, 40), text);
    model->byte_ids[byte] = id;
    return 0;
}

static int read_piece(struct mt_sentencepiece *model, const struct mt_sentencepiece_model *from, int32_t id,
                      struct mt_error *error)
{
    size_t bytes;
    const char *text = mt_vocab_text(from->pieces, id, &bytes);
    if (!isfinite(from->scores[id]))
        return bad_model(error, "the score of piece %d is not a number", id);
    switch (from->types[id]) {
    case MT_PIECE_UNKNOWN:
        if (model->unknown != MT_TOKEN_NONE)
            return bad_model(error, "two pieces stand for what is unknown");
        model->unknown = id;
        return 0;
    case MT_PIECE_BYTE:
        return from->byte_fallback ? read_byte_piece(model, id, text, bytes, error) : 0;
    case MT_PIECE_USER_DEFINED:
        if (!model->users && !(model->users = mt_added_new()))
            return no_memory(error);
        return mt_added_insert(model->users, text, bytes, (struct mt_added_token){.id = id}, error);
    case MT_PIECE_UNUSED:
        model->has_unused = true;
        break;
    case MT_PIECE_NORMAL:
    case MT_PIECE_CONTROL:
        break;
    default:
        return bad_model(error, "piece %d has the type %d, which is none", id, from->types[id]);
    }
    if (from->types[id] != MT_PIECE_CONTROL && mt_mark_is_crossed(text, bytes))
        model->whole = true;
    if (memchr(text, '\n', bytes))
        model->lines = false;
    return 0;
}

/* Scores as the library `sentencepiece` (0.2.3) counts them: logarithms of probabilities are below zero, a
 * user's symbol is not, so it wins. */
static int make_unigram(struct mt_sentencepiece *model, const struct mt_sentencepiece_model *from,
                        struct mt_error *error)
{
    float lowest = FLT_MAX;
    bool *left_out = calloc(from->count + 1, sizeof *left_out);
    struct mt_unigram_model unigram = {
        .scores = calloc(from->pieces->size + 1, sizeof *unigram.scores),
        .count = from->count,
        .left_out = left_out,
        .unknown = model->unknown,
        .byte_ids = from->byte_fallback ? model->byte_ids : NULL,
        .sentencepiece = true,
    };
    if (!unigram.scores || !left_out) {
        free(unigram.scores);
        free(left_out);
        return no_memory(error);
    }
    for (size_t id = 0; id < from->count; id++)
        if (from->types[id] == MT_PIECE_NORMAL)
            lowest = fminf(lowest, from->scores[id]);
    for (size_t id = 0; id < from->count; id++) {
        const bool user = from->types[id] == MT_PIECE_USER_DEFINED;
        left_out[id] = from->types[id] != MT_PIECE_NORMAL && !user;
        unigram.scores[id] = (double)from->scores[id];
        if (user)
            unigram.scores[id] = (double)(float)(0.1 * ((double)from->pieces->lengths[id] - 1.0));
    }
    unigram.unknown_score = (double)(lowest - UNKNOWN_PENALTY);
    int r = mt_unigram_new(&unigram, from->pieces, &model->unigram, error);
    free(left_out);
    return r;
}

static int make(struct mt_sentencepiece *model, const struct mt_sentencepiece_model *from,
                struct mt_error *error)
{
    for (unsigned byte = 0; byte < 256; byte++)
        model->byte_ids[byte] = MT_TOKEN_NONE;
    model->scores = malloc((from->count + 1) * sizeof *model->scores);
    model->types = malloc(from->count + 1);
    if (!model->scores || !model->types || !(model->cache = mt_word_cache_new()))
        return no_memory(error);
    memcpy(model->scores, from->scores, from->count * sizeof *model->scores);
    memcpy(model->types, from->types, from->count);
    for (size_t id = 0; id < from->count; id++) {
        int r = read_piece(model, from, (int32_t)id, error);
        if (r < 0)
            return r;
    }
    model->whole =
        model->whole || model->has_unused; /* what they are taken apart into is found out on the way */
    if (model->unknown == MT_TOKEN_NONE)
        return bad_model(error, "no piece stands for what is unknown");
    for (unsigned byte = 0; model->byte_fallback && byte < 256; byte++)
        if (model->byte_ids[byte] == MT_TOKEN_NONE)
            return bad_model(error, "bytes are pieces, but there is none for 0x%02X", byte);
    int r = from->charsmap_bytes
                ? mt_charsmap_new(from->charsmap, from->charsmap_bytes, &model->charsmap, error)
                : 0;
    return r == 0 && from->unigram ? make_unigram(model, from, error) : r;
}

int mt_sentencepiece_new(const struct mt_sentencepiece_model *from, struct mt_sentencepiece **result,
                         struct mt_error *error)
{
    *result = NULL;
    struct mt_sentencepiece *model = calloc(1, sizeof *model);
    if (!model)
        return no_memory(error);
    model->pieces = from->pieces;
    model->count = from->count;
    model->unknown = MT_TOKEN_NONE;
    model->byte_fallback = from->byte_fallback;
    model->prefix = from->add_dummy_prefix;
    model->remove_blanks = from->remove_extra_whitespaces;
    model->escape = from->escape_whitespaces;
    model->suffix = from->treat_whitespace_as_suffix;
    model->whole = !from->escape_whitespaces;
    model->lines = from->byte_fallback; /* else several unknown are one */
    int r = make(model, from, error);
    if (r < 0) {
        mt_sentencepiece_free(model);
        return r;
    }
    *result = model;
    return 0;
}

void mt_sentencepiece_free(struct mt_sentencepiece *model)
{
    if (!model)
        return;
    mt_charsmap_free(model->charsmap);
    mt_added_free(model->users);
    mt_unigram_free(model->unigram);
    mt_word_cache_free(model->cache);
    free(model->scores);
    free(model->types);
    free(model);
}
