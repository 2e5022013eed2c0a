/* ULIDs: 26 characters of Crockford base 32, sortable by time; monotonic within a process. */
#ifndef MT_BASE_ID_H
#define MT_BASE_ID_H

#include <stdbool.h>

#define MT_ID_BYTES 27 /* with the zero byte */

void mt_id_new(char id[MT_ID_BYTES]); /* thread-safe; random part from getrandom */
bool mt_id_valid(const char *text);

#endif
