/* From a row to its ids and to which of them are learned. */
#ifndef MT_DATA_ENCODE_H
#define MT_DATA_ENCODE_H

#include "core/base/error.h"
#include "core/data/conversation.h"
#include "core/data/dataset.h"
#include "core/text/tokenizer.h"

/* Starts as {0}. */
struct mt_encoded {
    enum mt_row_kind kind;
    struct mt_ids ids;
    struct mt_ids learned;  /* an entry an id, 1 learned; empty where all is learned */
    bool tools_unwritten;   /* it has tools or calls of them, and the template has no place for any */
    enum mt_drop drop;      /* with 1 as the result */
    struct mt_error *error; /* borrowed; filled in with a drop and an error */
};
void mt_encoded_free(struct mt_encoded *encoded); /* leaves ids and learned {0} */

/* Reads, renders and tokenises a row, whatever its length: 0 with ids, 1 for a row that is to be dropped and
 * counted (encoded->error has a sentence, or is empty where the reason says all), or an error. Thread-safe.
 * A document is begin token, text, end token. */
int mt_row_encode(const struct mt_dataset_options *options, const struct mt_columns *columns,
                  const struct mt_layout *layout, const struct mt_row *row, struct mt_encoded *encoded);

#endif
