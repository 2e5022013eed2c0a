#include "core/model/positions.h"

#include <math.h>

void mt_alibi_slopes(size_t heads, double most, float *slopes)
{
    size_t power = 1;
    while (power * 2 <= heads)
        power *= 2;
    for (size_t h = 0; h < power; h++)
        slopes[h] = (float)exp2(-most * (double)(h + 1) / (double)power);
    for (size_t h = power; h < heads; h++)
        slopes[h] = (float)exp2(-most * (double)(2 * (h - power) + 1) / (double)(2 * power));
}

void mt_sines_table(const struct mt_model *model, size_t num_positions, float *table)
{
    const size_t hidden = model->hidden_size, half = hidden / 2;
    const double span = model->positions == MT_POSITIONS_SINES_TO_END ? (double)half - 1 : (double)hidden / 2;
    for (size_t i = 0; i < half; i++) {
        const double frequency = pow(10000, span > 0 ? -(double)i / span : 0);
        for (size_t p = 0; p < num_positions; p++) {
            const double angle = (double)(p + model->position_offset) * frequency;
            table[p * hidden + i] = (float)sin(angle);
            table[p * hidden + half + i] = (float)cos(angle);
        }
    }
    for (size_t p = 0; p < num_positions && hidden % 2; p++)
        table[p * hidden + hidden - 1] = 0;
}
