/* What a tokenizer does to a text before it is cut: Unicode normal forms and replacements. */
#ifndef MT_TEXT_NORMALIZER_H
#define MT_TEXT_NORMALIZER_H

#include "core/text/mapped.h"
#include "core/text/regex.h"

#include <jansson.h>

struct mt_normalizer;

/* `normalizer` of a tokenizer.json; null gives one that does nothing. MT_REASON_BAD_MODEL with the kind that
 * is not supported yet. */
int mt_normalizer_load(const json_t *json, struct mt_normalizer **normalizer, struct mt_error *error);
/* NFC by the newest Unicode that is known; those of a tokenizer.json go by an older one. NULL when out of
 * memory. */
struct mt_normalizer *mt_normalizer_new_nfc(void);
void mt_normalizer_free(struct mt_normalizer *normalizer); /* NULL is fine */

/* Replaces `text` (UTF-8) by its normal form. `spare` is scratch, tracked as `text` is. 0, -ENOMEM, -EINVAL,
 * or -E2BIG when it becomes more than 64 times as long (and 64 KiB). */
int mt_normalizer_apply(const struct mt_normalizer *normalizer, struct mt_regex_scratch *scratch,
                        struct mt_mapped *text, struct mt_mapped *spare);
/* Does it do nothing? */
bool mt_normalizer_is_empty(const struct mt_normalizer *normalizer);

#endif
