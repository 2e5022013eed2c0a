/* Pages for people: no script, nothing from elsewhere, and a policy that says so to the browser. */
#ifndef MT_API_HTML_H
#define MT_API_HTML_H

#include "api/request.h"
#include "api/text.h"

#include <jansson.h>

/* Down to the opened <main>. `title` is escaped. `refresh_seconds` > 0: the browser asks again by itself. */
void mt_html_begin(struct mt_text *text, const char *title, int refresh_seconds);
/* Ends the page and answers with it; takes `text` over. */
void mt_html_reply(struct mt_request *request, struct mt_text *text);

/* The words of a text value, escaped; "" for any other. */
void mt_html_words(struct mt_text *text, const json_t *words);
/* Four significant digits or whole, from 1000 on; an integer whole; "–" where there is none. */
void mt_html_number(struct mt_text *text, const json_t *value);
/* "3 h 12 min"; "–" where there is none. */
void mt_html_seconds(struct mt_text *text, const json_t *seconds);
/* "2026-01-31 12:00:00" of an RFC 3339 date */
void mt_html_time(struct mt_text *text, const json_t *time);
/* "1.5 GiB" */
void mt_html_bytes(struct mt_text *text, const json_t *bytes);
/* A row of a <dl>: the name, and the value as `write`, one of those above, puts it. */
void mt_html_fact(struct mt_text *text, const char *name,
                  void (*write)(struct mt_text *text, const json_t *value), const json_t *value);
/* A state, with its colour. */
void mt_html_state(struct mt_text *text, const json_t *job);
/* A bar and "step of steps". */
void mt_html_progress(struct mt_text *text, const json_t *job);

#endif
