/* A growing text: what answers are written into. A text that could not grow says so once, at the end. */
#ifndef MT_API_TEXT_H
#define MT_API_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mt_text {
    char *data; /* not terminated; NULL while empty */
    size_t bytes;
    size_t capacity;
    bool failed; /* out of memory: what follows was dropped */
};

void mt_text_append(struct mt_text *text, const void *data, size_t bytes);
void mt_text_puts(struct mt_text *text, const char *words);
void mt_text_printf(struct mt_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_text_free(struct mt_text *text);

/* The shortest decimal form that reads back as the same double; "NaN", "+Inf" and "-Inf" as Prometheus has
 * them. */
void mt_text_number(struct mt_text *text, double value);

/* JSON, compact. Numbers are written by mt_text_number, so 3e-4 stays 0.0003. */
void mt_text_json(struct mt_text *text, const json_t *value);

/* Escaped for HTML text and attribute values. */
void mt_text_html(struct mt_text *text, const char *words);

#endif
