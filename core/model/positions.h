/* Inside core/model and core/stream: positions that are not rotary: slopes of linear biases, tables of sines.
 */
#ifndef MT_MODEL_POSITIONS_H
#define MT_MODEL_POSITIONS_H

#include "core/model/model.h"

/* Slopes of ALiBi (Press, Smith and Lewis, 2021): 2^(-most * h / heads) for head h from 1 on when the number
 * of heads is a power of two; else those of the power below, and for the heads that are left every second one
 * of the power above. `most` is 8 in the paper. */
void mt_alibi_slopes(size_t heads, double most, float *slopes);

/* Rows of positions 0 .. num_positions - 1 of a model with MT_POSITIONS_SINES*: [num_positions, hidden_size].
 */
void mt_sines_table(const struct mt_model *model, size_t num_positions, float *table);

#endif
