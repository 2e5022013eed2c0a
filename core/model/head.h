/* The head: final norm, a projection where the tables are narrower than the stream, output matrix and loss,
 * for a chunk of tokens and a tile of the vocabulary at a time, so that full logits never exist. Order for a
 * chunk: norm; for each tile logits and statistics; finish; for each tile (logits again unless there is one
 * tile) backward; norm_backward. Only puts operations into the stream. */
#ifndef MT_MODEL_HEAD_H
#define MT_MODEL_HEAD_H

#include "core/model/layer.h"

/* Rows first .. first + rows - 1 of the vocabulary. */
struct mt_head_tile {
    const void *table; /* [rows, hidden], device: where the tile's rows lie */
    float *gradient;   /* [rows, hidden] or NULL: frozen */
    size_t first, rows;
    const void *bias;     /* [rows] or NULL: mt_head_bias */
    float *bias_gradient; /* [rows] or NULL */
    /* Of a matrix whose rows are normed (mt_model.norm_head): its own rows, `table` being the normed ones,
     * and their lengths' inverses. */
    const void *raw;
    float *rstd; /* [rows] */
};

/* One chunk of tokens; everything in device memory. */
struct mt_head_chunk {
    size_t tokens;
    const void *x;         /* [tokens, hidden]: the last layer's output */
    const int32_t *labels; /* [tokens]; may be NULL where only logits are wanted */
    void *normed;          /* [tokens, hidden] */
    void *projected;       /* [tokens, hidden]: room where there is a projection, else NULL */
    float *rstd, *mean;    /* [tokens] each; mean: where the norm is centered */
    float *max, *sum, *target, *lse, *losses; /* [tokens] each */
    void *logits;                             /* [tokens, tile rows] */
    void *dx;    /* [tokens, hidden]: gradient of what the matrix read, then of x */
    float *wide; /* [tokens, width of the matrix]: where dx is summed until norm_backward, so that a sum over
                  * several tiles is rounded once; NULL: in dx itself */
};

/* Where a tile's part of the output's bias lies in the head group's slab, and its gradient; NULL: none. */
void mt_head_bind_bias(const struct mt_layer_context *context, const void *weights, float *gradients,
                       struct mt_head_tile *tile);

/* Before a tile's logits, where the model norms the matrix's rows: tile->table becomes `room` [rows, hidden]
 * with them. `rstd`: [rows], device. */
int mt_head_norm_rows(const struct mt_layer_context *context, struct mt_head_tile *tile, void *room,
                      float *rstd);
/* After the tile's last gradient: that of the normed rows becomes that of the rows, in place. `wide`:
 * [rows, hidden] fp32, only when the compute type is not. */
int mt_head_norm_rows_backward(const struct mt_layer_context *context, const struct mt_head_tile *tile,
                               float *wide);

/* normed = logit_scale * norm(x), and what it is projected to. `weights`: the head group's slab. */
int mt_head_norm(const struct mt_layer_context *context, const void *weights,
                 const struct mt_head_chunk *chunk);
/* logits = softcap(normed * table^T + bias); normed is scaled already. */
int mt_head_logits(const struct mt_layer_context *context, const struct mt_head_chunk *chunk,
                   const struct mt_head_tile *tile);
int mt_head_statistics(const struct mt_layer_context *context, const struct mt_head_chunk *chunk,
                       const struct mt_head_tile *tile);
/* lse and losses; *loss_sum (device) is set, or added to when `accumulate`. */
int mt_head_finish(const struct mt_layer_context *context, const struct mt_head_chunk *chunk,
                   double *loss_sum, bool accumulate);
/* From logits: dx (=, or += from the second tile on), the tile's gradient (=, or += when `accumulate`). */
int mt_head_backward(const struct mt_layer_context *context, const struct mt_head_chunk *chunk,
                     const struct mt_head_tile *tile, float grad_scale, bool accumulate);
/* dx (out of `wide`, where there is one) through the final norm, in place, and the norm's gradient.
 * `gradients`: the head group's slab or NULL.
 */
int mt_head_norm_backward(const struct mt_layer_context *context, const void *weights, float *gradients,
                          const struct mt_head_chunk *chunk, bool accumulate);

#endif
