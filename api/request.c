/* request.c: what a request brought, and the answers. See request.h. */
#include "api/request.h"

#include "api/problem.h"
#include "api/server.h"
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/id.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct mt_request *mt_request_new(struct mt_listener *listener, const char *target)
{
    struct mt_request *request = calloc(1, sizeof *request);
    char *copy = strdup(target);
    if (!request || !copy) {
        free(request);
        free(copy);
        return NULL;
    }
    request->listener = listener;
    request->target = copy;
    request->path = copy;
    request->query = strchr(copy, '?');
    if (request->query)
        *request->query++ = '\0';
    return request;
}

void mt_request_free(struct mt_request *request)
{
    if (!request)
        return;
    for (size_t i = 0; i < request->num_parameters; i++) {
        free(request->parameters[i].name);
        free(request->parameters[i].value);
    }
    mt_api_release(request->listener->api, request->reserved_bytes);
    if (request->response)
        MHD_destroy_response(request->response);
    free(request->body);
    free(request->path_value);
    free(request->target);
    free(request);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* jansson accepts exactly well-formed UTF-8. */
static bool is_utf8(const char *text)
{
    json_t *words = json_string(text);
    json_decref(words);
    return words != NULL;
}

char *mt_percent_decode(const char *text, size_t bytes, bool plus_is_space)
{
    char *decoded = malloc(bytes + 1);
    size_t length = 0;
    if (!decoded)
        return NULL;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (c == '+' && plus_is_space) {
            c = ' ';
        } else if (c == '%') {
            int high = i + 2 < bytes ? hex_digit(text[i + 1]) : -1;
            int low = i + 2 < bytes ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                goto malformed;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0')
            goto malformed;
        decoded[length++] = c;
    }
    decoded[length] = '\0';
    if (is_utf8(decoded))
        return decoded;
malformed:
    free(decoded);
    return NULL;
}

const char *mt_request_show(const char *text, char shown[88])
{
    size_t length = 0;
    for (; length < 80 && text[length]; length++)
        shown[length] = text[length] >= 0x20 && text[length] < 0x7f ? text[length] : '?';
    strcpy(shown + length, text[length] ? "..." : "");
    return shown;
}

const char *mt_request_header(const struct mt_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

json_t *mt_request_document(struct mt_request *request)
{
    json_t *document = NULL;
    struct mt_error error = {0};
    if (mt_json_parse(request->body, request->body_bytes, "request body", &document, &error) < 0) {
        mt_problem(request, 400, "%s", error.message);
    } else if (!json_is_object(document)) {
        mt_autojson json_t *errors =
            json_pack("[{s:s, s:s}]", "pointer", "", "detail", "A job document is an object.");
        mt_problem_invalid(request, errors, "The job document has 1 error.");
        json_decref(document);
        return NULL;
    }
    return document;
}

struct header_count {
    const char *name;
    size_t count;
};

static enum MHD_Result count_header(void *context, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    (void)kind;
    (void)value;
    struct header_count *wanted = context;
    wanted->count += strcasecmp(name, wanted->name) == 0;
    return MHD_YES;
}

size_t mt_request_header_count(const struct mt_request *request, const char *name)
{
    struct header_count wanted = {.name = name};
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, count_header, &wanted);
    return wanted.count;
}

const char *mt_request_parameter(const struct mt_request *request, const char *name)
{
    for (size_t i = 0; i < request->num_parameters; i++) {
        if (strcmp(request->parameters[i].name, name) == 0)
            return request->parameters[i].value;
    }
    return NULL;
}

/* ---- content negotiation ---- */

/* The weight that one member of an Accept header, [from, to), gives to `type`, and how exactly it names it
 * (0: not at all, 1: any type, 2: any subtype, 3: itself). */
static unsigned accept_match(const char *from, const char *to, const char *type, double *weight)
{
    const char *end = memchr(from, ';', (size_t)(to - from));
    const char *range_end = end ? end : to;
    while (from < range_end && isspace((unsigned char)*from))
        from++;
    while (range_end > from && isspace((unsigned char)range_end[-1]))
        range_end--;
    size_t length = (size_t)(range_end - from), major = strcspn(type, "/") + 1;
    unsigned exactness = 0;
    if (length == strlen(type) && strncasecmp(from, type, length) == 0)
        exactness = 3;
    else if (length == major + 1 && from[major] == '*' && strncasecmp(from, type, major) == 0)
        exactness = 2;
    else if (length == 3 && memcmp(from, "*/*", 3) == 0)
        exactness = 1;
    *weight = 1;
    for (const char *at = end; at && at < to; at = memchr(at, ';', (size_t)(to - at))) {
        at++;
        while (at < to && isspace((unsigned char)*at))
            at++;
        if (to - at > 2 && (at[0] | 0x20) == 'q' && at[1] == '=') {
            /* "0.5": never as long as a locale could matter, and never past the member */
            char digits[8] = {0};
            strncpy(digits, at + 2, (size_t)(to - at - 2) < 6 ? (size_t)(to - at - 2) : 6);
            *weight = strtod(digits, NULL);
        }
    }
    return exactness;
}

size_t mt_request_accepts(const struct mt_request *request, const char *const *types)
{
    const char *accept = mt_request_header(request, "Accept");
    size_t best = 0;
    double best_weight = 0;
    if (!accept)
        return 0;
    for (size_t i = 0; types[i]; i++) {
        unsigned exactness = 0;
        double weight = 0;
        for (const char *from = accept; *from;) {
            const char *to = from + strcspn(from, ",");
            double member_weight;
            unsigned member = accept_match(from, to, types[i], &member_weight);
            if (member > exactness) {
                exactness = member;
                weight = member_weight;
            }
            from = *to ? to + 1 : to;
        }
        if (exactness > 0 && weight > best_weight) {
            best = i;
            best_weight = weight;
        }
    }
    return best;
}

/* ---- answers ---- */

/* Takes `response`, which may be NULL (out of memory). */
static void answer(struct mt_request *request, unsigned status, const char *content_type,
                   struct MHD_Response *response)
{
    if (!response)
        return; /* the server ends the connection of a request without an answer */
    if (request->response) {
        MHD_destroy_response(response);
        return;
    }
    request->status = status;
    request->response = response;
    if (content_type)
        mt_reply_header(request, "Content-Type", content_type);
    mt_reply_header(request, "Cache-Control", "no-store");
    mt_reply_header(request, "X-Content-Type-Options", "nosniff");
    mt_reply_header(request, "X-Request-Id", request->id);
}

void mt_reply_text(struct mt_request *request, unsigned status, const char *content_type,
                   struct mt_text *text)
{
    struct mt_text taken = *text;
    *text = (struct mt_text){0};
    if (taken.failed || request->response) {
        mt_text_free(&taken);
        return;
    }
    /* What slow readers keep in memory is bounded for all of them together; small answers always go. */
    if (taken.bytes > 65536) {
        if (!mt_api_reserve(request->listener->api, taken.bytes)) {
            mt_text_free(&taken);
            mt_problem(request, 503, "Too many large answers are under way; ask again, or for fewer rows.");
            mt_reply_header(request, "Retry-After", "1");
            return;
        }
        request->reserved_bytes += taken.bytes;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(taken.bytes, taken.data ? taken.data : (void *)"",
                                        taken.data ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (!response)
        mt_text_free(&taken);
    answer(request, status, content_type, response);
}

void mt_reply_json(struct mt_request *request, unsigned status, const json_t *value)
{
    struct mt_text text = {0};
    if (!value)
        return;
    mt_text_json(&text, value);
    mt_text_puts(&text, "\n");
    mt_reply_text(request, status, status >= 400 ? "application/problem+json" : "application/json", &text);
}

void mt_reply_empty(struct mt_request *request, unsigned status)
{
    answer(request, status, NULL, MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT));
}

void mt_reply_stream(struct mt_request *request, const char *content_type, const struct mt_stream *stream)
{
    if (request->response) {
        stream->free(stream->context);
        return;
    }
    struct MHD_Response *response;
    if (mt_watch_stream(request->watched, request->connection, stream, &response) == -EBUSY) {
        mt_problem(request, 503, "%d clients follow something already; ask for the rows instead, or later.",
                   MT_STREAM_LIMIT);
        mt_reply_header(request, "Retry-After", "10");
        return;
    }
    answer(request, 200, content_type, response);
    mt_reply_header(request, "X-Accel-Buffering", "no");
}

void mt_reply_header(struct mt_request *request, const char *name, const char *value)
{
    if (request->response)
        MHD_add_response_header(request->response, name, value);
}
