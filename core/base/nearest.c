/* Distances of words: see nearest.h. */
#include "core/base/nearest.h"

#include "core/base/size.h"

#include <string.h>

#define MAX_WORD_BYTES 128

size_t mt_text_distance(const char *a, const char *b, size_t limit)
{
    size_t a_bytes = strlen(a), b_bytes = strlen(b);
    size_t longer = mt_size_max(a_bytes, b_bytes), shorter = mt_size_min(a_bytes, b_bytes);
    if (longer - shorter > limit || longer > MAX_WORD_BYTES)
        return limit + 1;
    /* Rows i-2, i-1 and i of the table: row[j] is the distance of a's first i bytes to b's first j. */
    size_t rows[3][MAX_WORD_BYTES + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_bytes; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_bytes; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = mt_size_min(best, mt_size_min(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = mt_size_min(best, before[j - 2] + 1);
            row[j] = best;
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return mt_size_min(last[b_bytes], limit + 1);
}

bool mt_nearest_is(struct mt_nearest *nearest, const char *candidate)
{
    const size_t distance = mt_text_distance(nearest->word, candidate, nearest->below);
    const bool nearer = distance < nearest->below;
    if (nearer)
        nearest->below = distance;
    return nearer;
}
