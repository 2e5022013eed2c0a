/* What the data side hands to the engine: the sequences of one optimizer step, already tokenised, cut and
 * masked. There is no padding anywhere in MegaTrain: a micro-batch is its sequences laid one after another,
 * kept apart by document boundaries in attention and by positions. */
#ifndef MT_DATA_BATCH_H
#define MT_DATA_BATCH_H

#include <stddef.h>
#include <stdint.h>

/* A row of a step: one sample, or one pack of several documents. */
struct mt_sequence {
    size_t tokens;
    int32_t *ids;    /* [tokens] */
    int32_t *labels; /* [tokens]: the id that this position must predict (already shifted), or -100. The last
                        position of each document is always -100. */
    size_t num_documents;     /* 1 unless packed */
    int32_t *document_starts; /* [num_documents + 1], first 0, last tokens; positions count from 0 in each
                                 document */
    uint64_t row;             /* number of the first sample in it, for messages and tests */
};

/* One optimizer step. Cut into micro-batches of `micro_batch_size` sequences in this order. */
struct mt_batch {
    size_t num_sequences;
    struct mt_sequence *sequences;
    size_t tokens;        /* sum over sequences: real tokens through the model */
    size_t target_tokens; /* labels that are not ignored */
    double epoch;         /* after this batch, 1.0 = once through the data */
};

#endif
