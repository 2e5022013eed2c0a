/* html.c: what the pages share. See html.h. */
#include "api/html.h"

#include "core/base/sha256.h"
#include "core/base/size.h"
#include "core/base/time.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A name may be one long word: it breaks, so that it hides no other column. */
static const char style[] =
    ":root{color-scheme:light dark;--line:#8884;--soft:#8882;--run:#1d63b8;--good:#1c7a43;--bad:#b3261e;"
    "--wait:#855d00}@media(prefers-color-scheme:dark){:root{--run:#6aa9f0;--good:#56c285;--bad:#f0847c;"
    "--wait:#d9ae4a}}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:1.5rem auto;padding:0 1rem}"
    "h1{font-size:1.5rem}h1,td:first-child,.bad{overflow-wrap:anywhere}h2{font-size:1.15rem;margin-top:2rem}"
    "a{color:inherit}.t{overflow-x:auto}"
    "table{border-collapse:collapse;width:100%}caption{text-align:left;padding:.3rem 0}"
    "th,td{text-align:left;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line);"
    "vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    "code,pre{font-size:.85em}pre{overflow-x:auto;background:var(--soft);padding:.6rem;border-radius:.3rem}"
    ".log{white-space:pre-wrap;overflow-wrap:anywhere}"
    ".s{font-weight:600}.s,.p{white-space:nowrap}.running,.starting{color:var(--run)}.completed{color:var(--"
    "good)}"
    ".failed{color:var(--bad)}.paused,.queued{color:var(--wait)}"
    "progress{width:6rem;accent-color:var(--run)}svg{width:100%;height:auto}"
    ".card{border:1px solid var(--line);border-radius:.4rem;padding:.6rem .9rem;margin:.6rem 0}"
    ".card progress{width:100%}dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));"
    "gap:.4rem 1rem;margin:.6rem 0 0}dt{font-size:.8em;opacity:.75}dd{margin:0}"
    "nav a{margin-right:.8rem;white-space:nowrap}.bad{border-left:.3rem solid var(--bad);padding-left:.8rem}"
    "@media(max-width:40rem){.w{display:none}td.p{white-space:normal}td progress{display:block;width:3.5rem}"
    "dl{grid-template-columns:repeat(auto-fit,minmax(7.5rem,1fr))}svg{overflow:visible}svg "
    "text{font-size:20px}}";

void mt_html_time(struct mt_text *text, const json_t *time)
{
    char shown[20]; /* 2026-01-31 12:00:00 */
    snprintf(shown, sizeof shown, "%s", json_is_string(time) ? json_string_value(time) : "");
    if (strlen(shown) > 10)
        shown[10] = ' ';
    mt_text_html(text, shown);
}

/* The policy names the one style sheet by its hash, so that no other style is taken. */
static void policy(char text[256])
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct mt_sha256 hash;
    uint8_t digest[33] = {0}; /* a multiple of three */
    char base64[45];
    mt_sha256_init(&hash);
    mt_sha256_update(&hash, style, sizeof style - 1);
    mt_sha256_final(&hash, digest);
    for (size_t i = 0; i < 11; i++) {
        unsigned group = (unsigned)digest[3 * i] << 16 | (unsigned)digest[3 * i + 1] << 8 | digest[3 * i + 2];
        for (size_t j = 0; j < 4; j++)
            base64[4 * i + j] = alphabet[group >> (18 - 6 * j) & 63];
    }
    base64[43] = '=';
    base64[44] = '\0';
    snprintf(text, 256,
             "default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; "
             "frame-ancestors 'none'",
             base64);
}

void mt_html_begin(struct mt_text *text, const char *title, int refresh_seconds)
{
    mt_text_puts(text, "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<title>");
    mt_text_html(text, title);
    mt_text_printf(text, "</title>\n<meta name=viewport content=\"width=device-width, initial-scale=1\">\n");
    if (refresh_seconds > 0)
        mt_text_printf(text, "<meta http-equiv=refresh content=%d>\n", refresh_seconds);
    mt_text_printf(text, "<style>%s</style>\n</head>\n<body>\n<main>\n", style);
}

void mt_html_reply(struct mt_request *request, struct mt_text *text)
{
    char allowed[256];
    mt_text_puts(text, "</main>\n</body>\n</html>\n");
    mt_reply_text(request, 200, "text/html; charset=utf-8", text);
    policy(allowed);
    mt_reply_header(request, "Content-Security-Policy", allowed);
    mt_reply_header(request, "Referrer-Policy", "no-referrer");
    mt_reply_header(request, "Vary", "Accept");
}

void mt_html_words(struct mt_text *text, const json_t *words)
{
    mt_text_html(text, json_is_string(words) ? json_string_value(words) : "");
}

void mt_html_number(struct mt_text *text, const json_t *value)
{
    if (json_is_integer(value))
        mt_text_printf(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        mt_text_printf(text, fabs(json_real_value(value)) >= 1000 ? "%.0f" : "%.4g", json_real_value(value));
    else
        mt_text_puts(text, "\xe2\x80\x93");
}

void mt_html_seconds(struct mt_text *text, const json_t *seconds)
{
    char shown[MT_TIME_TEXT_BYTES];
    if (json_is_number(seconds) && json_number_value(seconds) >= 0)
        mt_text_puts(text, mt_time_duration(json_number_value(seconds), shown));
    else
        mt_text_puts(text, "\xe2\x80\x93");
}

void mt_html_bytes(struct mt_text *text, const json_t *bytes)
{
    char shown[32];
    if (json_is_integer(bytes) && json_integer_value(bytes) >= 0)
        mt_text_puts(text, mt_size_format((size_t)json_integer_value(bytes), shown, sizeof shown));
    else
        mt_text_puts(text, "\xe2\x80\x93");
}

void mt_html_fact(struct mt_text *text, const char *name,
                  void (*write)(struct mt_text *text, const json_t *value), const json_t *value)
{
    mt_text_printf(text, "<div><dt>%s<dd>", name);
    write(text, value);
    mt_text_puts(text, "</div>\n");
}

void mt_html_state(struct mt_text *text, const json_t *job)
{
    const json_t *state = json_object_get(job, "state"), *requested = json_object_get(job, "requested");
    mt_text_puts(text, "<span class=\"s ");
    mt_html_words(text, state);
    mt_text_puts(text, "\">");
    mt_html_words(text, state);
    mt_text_puts(text, "</span>");
    if (json_is_string(requested)) {
        mt_text_puts(text, " (");
        mt_html_words(text, requested);
        mt_text_puts(text, " asked for)");
    }
}

void mt_html_progress(struct mt_text *text, const json_t *job)
{
    const json_t *progress = json_object_get(job, "progress");
    const double step = json_number_value(json_object_get(progress, "step")),
                 steps = json_number_value(json_object_get(progress, "max_steps"));
    if (steps > 0)
        mt_text_printf(text, "<progress value=%.0f max=%.0f>%.0f%%</progress> %.0f of %.0f", step, steps,
                       step / steps * 100, step, steps);
    else
        mt_text_printf(text, "%.0f", step);
}
