/* Text for people out of whatever bytes a file's name or contents gave: JSON takes nothing but UTF-8. */
#ifndef MT_BASE_UTF8_REPAIR_H
#define MT_BASE_UTF8_REPAIR_H

/* Puts a question mark in place of each byte that belongs to no UTF-8 character (RFC 3629: none of them
 * longer than needed, no surrogates, nothing above U+10FFFF). Returns `text`. */
char *mt_utf8_repair(char *text);

#endif
