/* Cutting a text into words before the model sees them: `pre_tokenizer` of a tokenizer.json. */
#ifndef MT_TEXT_PRETOKENIZER_H
#define MT_TEXT_PRETOKENIZER_H

#include "core/text/mapped.h"
#include "core/text/regex.h"

#include <jansson.h>
#include <stdbool.h>

#define MT_PRETOKENIZER_STAGES 16

struct mt_pretokenizer;

/* null gives one that leaves the text whole. MT_REASON_BAD_MODEL with what is wrong or not supported yet. */
int mt_pretokenizer_load(const json_t *json, struct mt_pretokenizer **pretokenizer, struct mt_error *error);
void mt_pretokenizer_free(struct mt_pretokenizer *pretokenizer); /* NULL is fine */
/* Does the model see bytes (there is a ByteLevel stage) rather than characters? */
bool mt_pretokenizer_is_byte_level(const struct mt_pretokenizer *pretokenizer);

/* Of one thread. Starts as {0}. */
struct mt_pretokenizer_scratch {
    struct mt_regex_scratch *regex;
    struct mt_mapped texts[MT_PRETOKENIZER_STAGES];
    struct mt_ids ranges[MT_PRETOKENIZER_STAGES];
};
void mt_pretokenizer_scratch_free(struct mt_pretokenizer_scratch *scratch);

/* Calls `word` with every word of the text, in order. `at_start`: the text is the beginning of the whole one.
 * 0, or the first result of `word` that is not 0, -ENOMEM, -EINVAL. */
int mt_pretokenizer_run(const struct mt_pretokenizer *pretokenizer, struct mt_pretokenizer_scratch *scratch,
                        struct mt_view text, bool at_start, int (*word)(void *context, struct mt_view word),
                        void *context);

#endif
