#include "core/train/preview.h"

#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/train/run.h"

#include <stdint.h>

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a look at the data");
}

/* The tokens' texts, and all of them together. */
static int add_text(json_t *shown, const struct mt_tokenizer *tokenizer, const struct mt_sample *sample,
                    struct mt_error *error)
{
    mt_cleanup(mt_text_free) struct mt_text text = {0};
    struct mt_detokenizer *detokenizer = NULL;
    json_t *pieces = json_array();
    int r = mt_detokenizer_new(tokenizer, false, &detokenizer, error);
    for (size_t t = 0; r == 0 && t < sample->tokens; t++) {
        mt_cleanup(mt_text_free) struct mt_text whole = {0};
        const char *piece, *rest = "";
        size_t bytes, rest_bytes = 0;
        r = mt_detokenizer_push(detokenizer, sample->ids[t], &piece, &bytes, error);
        if (r == 0 && mt_text_append(&whole, piece, bytes) < 0)
            r = no_memory(error);
        if (r == 0 && t + 1 == sample->tokens) /* what a cut left of a character */
            r = mt_detokenizer_finish(detokenizer, &rest, &rest_bytes, error);
        if (r == 0 && rest_bytes && mt_text_append(&whole, rest, rest_bytes) < 0)
            r = no_memory(error);
        if (r == 0 &&
            (json_array_append_new(pieces, json_stringn(whole.bytes ? whole.data : "", whole.bytes)) < 0 ||
             mt_text_append(&text, whole.data, whole.bytes) < 0))
            r = no_memory(error);
    }
    mt_detokenizer_free(detokenizer);
    if (json_object_set_new(shown, "pieces", pieces) < 0 ||
        json_object_set_new(shown, "text", json_stringn(text.bytes ? text.data : "", text.bytes)) < 0)
        return r < 0 ? r : no_memory(error);
    return r;
}

static int add_sample(json_t *list, const struct mt_run *run, size_t i, size_t *left, struct mt_error *error)
{
    mt_cleanup(mt_sample_free) struct mt_sample sample = {0};
    int r = mt_dataset_sample(run->dataset, i, &sample, error);
    if (r < 0)
        return r;
    sample.tokens = mt_size_min(sample.tokens, *left);
    *left -= sample.tokens;
    json_t *ids = json_array(), *learned = json_array();
    for (size_t t = 0; t < sample.tokens; t++) {
        json_array_append_new(ids, json_integer(sample.ids[t]));
        json_array_append_new(learned, json_integer(sample.learned[t]));
    }
    json_t *shown = json_pack("{s:I, s:b, s:o, s:o}", "row", (json_int_t)sample.row, "validation",
                              sample.validation, "ids", ids, "learned", learned);
    if (!shown || json_array_append_new(list, shown) < 0 || json_array_size(ids) != sample.tokens ||
        json_array_size(learned) != sample.tokens)
        return no_memory(error);
    return add_text(shown, run->tokenizer, &sample, error);
}

static int describe(const struct mt_run *run, const struct mt_preview_options *options, json_t **document,
                    struct mt_error *error)
{
    size_t left = options->max_tokens ? options->max_tokens : SIZE_MAX;
    mt_autojson json_t *whole = mt_dataset_stats_json(run->dataset);
    json_t *list = json_array();
    const size_t samples = mt_dataset_num_samples(run->dataset);
    if (!whole || json_object_set_new(whole, "show", list) < 0 ||
        json_object_set_new(whole, "template", json_string(mt_chat_name(run->chat))) < 0)
        return no_memory(error);
    for (size_t i = 0; i < options->show && i < samples && left; i++) {
        int r = add_sample(list, run, i, &left, error);
        if (r < 0)
            return r;
    }
    *document = json_incref(whole);
    return 0;
}

int mt_preview_make(struct mt_job *job, const struct mt_preview_options *options, struct mt_pool *pool,
                    json_t **document, struct mt_error *error)
{
    struct mt_run run = {.job = job, .pool = pool, .max_rows = options->max_rows};
    *document = NULL;
    int r = mt_run_open_model(&run, error);
    if (r == 0)
        r = mt_run_open_data(&run, NULL, NULL, error);
    if (r == 0)
        r = describe(&run, options, document, error);
    mt_run_close(&run);
    return r;
}
