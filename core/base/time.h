/* Clocks and their text forms. */
#ifndef MT_BASE_TIME_H
#define MT_BASE_TIME_H

#include <stddef.h>
#include <stdint.h>

double mt_time_monotonic(void);          /* seconds */
int64_t mt_time_unix_microseconds(void); /* wall clock, UTC */

#define MT_TIME_TEXT_BYTES 32
/* RFC 3339 in UTC with milliseconds: "2026-01-31T12:00:00.123Z". Returns `text`. */
const char *mt_time_format(int64_t unix_microseconds, char text[MT_TIME_TEXT_BYTES]);
/* "45 s", "3 min 20 s", "2 h 05 min", "3 d 4 h"; "?" where it is not known (not a number, below 0, or beyond
 * 1e10). Returns `text`. */
const char *mt_time_duration(double seconds, char text[MT_TIME_TEXT_BYTES]);

#endif
