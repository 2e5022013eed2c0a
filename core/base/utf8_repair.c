/* See utf8_repair.h. */
#include "core/base/utf8_repair.h"

#include "core/base/utf8.h"

#include <string.h>

char *mt_utf8_repair(char *text)
{
    const size_t bytes = strlen(text);
    for (size_t at = 0; (at += mt_utf8_find_ill_formed(text + at, bytes - at)) < bytes; at++)
        text[at] = '?';
    return text;
}
