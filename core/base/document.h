/* JSON and YAML into one document tree: jansson values. YAML is read by the 1.2 core schema (`3e-4` is a
 * number, `on` a word), with anchors refused beyond a bound on expansion, duplicate keys refused, several
 * documents refused. Where a value came from (line of the file) is kept beside the tree for error messages.
 */
#ifndef MT_BASE_DOCUMENT_H
#define MT_BASE_DOCUMENT_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mt_lines; /* JSON pointer (RFC 6901) -> line, from 1 */

/* JSON text (strict: UTF-8, no duplicate keys, nothing after the value, depth at most 256). A syntax error
 * names line and column. NaN and Infinity are not JSON. `source` is for messages ("job.json", "request
 * body"). A whole number beyond 64 bits, which jansson does not hold (Python writes them of any size: a
 * tokenizer's model_max_length is 1000000000000000019884624838656), is read as one with a fraction. */
int mt_json_parse(const char *text, size_t bytes, const char *source, json_t **value, struct mt_error *error);

/* What people said, which must come out as it was: the same, but such numbers keep their digits
 * (mt_json_digits). */
int mt_json_parse_exact(const char *text, size_t bytes, const char *source, json_t **value,
                        struct mt_error *error);
/* jansson's json_loadb, but such numbers keep their digits. `why` may be NULL. */
json_t *mt_json_load(const char *text, size_t bytes, size_t flags, json_error_t *why);
/* The digits, with a sign where it is negative, of a whole number beyond 64 bits; NULL for any other value.
 * It is an object for jansson. */
const char *mt_json_digits(const json_t *value);

/* YAML text. `lines` (may be NULL) gets the lines of all keys; free with mt_lines_free. `.nan`, `.inf` and
 * `-.inf` become strings of that spelling, so that the validator can refuse them by name. Refused, with the
 * line: duplicate keys, merge keys (`<<`), keys that are not plain words, tags outside the core schema,
 * integers outside 64 bits, aliases that expand to more than MT_YAML_MAX_NODES values. */
#define MT_YAML_MAX_NODES 100000
int mt_yaml_parse(const char *text, size_t bytes, const char *source, json_t **value, struct mt_lines **lines,
                  struct mt_error *error);

/* A JSON file of at most 64 MiB; `reason` is what any error but out of memory, unreadable files too, counts
 * as. A byte order mark is passed over. */
int mt_json_read(const char *path, enum mt_reason reason, json_t **value, struct mt_error *error);

/* Reads a file of at most 16 MiB; .json is JSON, all else YAML (of which JSON is nearly a subset). Errors:
 * MT_REASON_BAD_JOB. The lines of a JSON file are known where YAML would read it too. */
int mt_document_read(const char *path, json_t **value, struct mt_lines **lines, struct mt_error *error);

/* 0 when unknown. */
int mt_lines_find(const struct mt_lines *lines, const char *pointer);
/* The line of what is at the pointer, or of the nearest thing around it that the file has; `lines` may be
 * NULL. */
int mt_lines_find_around(const struct mt_lines *lines, const char *pointer);
void mt_lines_free(struct mt_lines *lines);

/* Appends "/key" to a pointer with ~ and / escaped; returns false when it does not fit. */
bool mt_pointer_append(char *pointer, size_t pointer_bytes, const char *key);
/* The value that a pointer names, borrowed; NULL when absent. */
json_t *mt_pointer_get(const json_t *root, const char *pointer);

#endif
