/* problem.c: every answer that is an error is made here. */
#include "api/problem.h"

#include "core/base/cleanup.h"
#include "core/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct status {
    unsigned status;
    const char *title;
    const char *name; /* last part of the problem's type */
} statuses[] = {
    {400, "Bad Request", "bad-request"},
    {401, "Unauthorized", "unauthorized"},
    {403, "Forbidden", "forbidden"},
    {404, "Not Found", "not-found"},
    {405, "Method Not Allowed", "method-not-allowed"},
    {409, "Conflict", "conflict"},
    {413, "Content Too Large", "content-too-large"},
    {415, "Unsupported Media Type", "unsupported-media-type"},
    {421, "Misdirected Request", "misdirected-request"},
    {422, "Unprocessable Content", "invalid"},
    {500, "Internal Server Error", "internal"},
    {501, "Not Implemented", "not-implemented"},
    {503, "Service Unavailable", "unavailable"},
    {507, "Insufficient Storage", "disk-full"},
};

static const struct status *status_find(unsigned status)
{
    static const struct status unknown = {0, "Error", "error"};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i].status == status)
            return &statuses[i];
    }
    return &unknown;
}

/* A sentence that came from elsewhere (a path in it, say) need not be UTF-8; then only its ASCII is shown. */
static json_t *sentence(const char *detail)
{
    json_t *words = json_string(detail);
    mt_autofree char *copy = words ? NULL : strdup(detail);
    for (char *c = copy; c && *c; c++) {
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    }
    return words ? words : json_string(copy ? copy : "");
}

static void openai_problem(struct mt_request *request, unsigned status, const char *detail)
{
    mt_autojson json_t *body = json_pack("{s:{s:s, s:s, s:n, s:s}}", "error", "message", detail, "type",
                                         status >= 500 ? "server_error" : "invalid_request_error", "param",
                                         "code", status_find(status)->name);
    struct mt_text text = {0};
    if (!body)
        return;
    mt_text_json(&text, body);
    mt_reply_text(request, status, "application/json", &text);
    /* The client would otherwise repeat what can only fail again. */
    mt_reply_header(request, "x-should-retry", "false");
}

static void problem(struct mt_request *request, unsigned status, json_t *errors, const char *detail)
{
    const struct status *known = status_find(status);
    if (strncmp(request->path, "/v1/", 4) == 0) {
        openai_problem(request, status, detail);
        return;
    }
    char type[64];
    snprintf(type, sizeof type, "urn:megatrain:problem:%s", known->name);
    mt_autojson json_t *words = sentence(detail);
    mt_autojson json_t *body = json_pack("{s:s, s:s, s:i, s:O}", "type", type, "title", known->title,
                                         "status", (int)status, "detail", words);
    if (body && errors)
        json_object_set(body, "errors", errors);
    mt_reply_json(request, status, body);
}

void mt_problem(struct mt_request *request, unsigned status, const char *format, ...)
{
    char detail[MT_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    problem(request, status, NULL, detail);
}

void mt_problem_invalid(struct mt_request *request, json_t *errors, const char *detail)
{
    problem(request, 422, errors, detail);
}

void mt_problem_control(struct mt_request *request, enum mt_control_result result, json_t *errors,
                        const struct mt_error *error)
{
    const char *sentence = error->message[0] ? error->message : NULL;
    char counted[64];
    switch (result) {
    case MT_CONTROL_OK:
        break;
    case MT_CONTROL_NOT_FOUND:
        mt_problem(request, 404, "%s", sentence ? sentence : "There is no such job.");
        return;
    case MT_CONTROL_CONFLICT:
        mt_problem(request, 409, "%s", sentence ? sentence : "The job's state does not allow this.");
        return;
    case MT_CONTROL_INVALID:
        snprintf(counted, sizeof counted, "The job document has %zu error%s.", json_array_size(errors),
                 json_array_size(errors) == 1 ? "" : "s");
        problem(request, 422, errors, sentence ? sentence : counted);
        return;
    case MT_CONTROL_BAD_CURSOR:
        mt_problem(request, 400, "%s",
                   sentence ? sentence : "'after' is not a cursor that this server gave out.");
        return;
    case MT_CONTROL_DISK_FULL:
        mt_problem(request, 507, "%s", sentence ? sentence : "The disk is full; nothing was accepted.");
        return;
    case MT_CONTROL_UNAVAILABLE:
        mt_problem(request, 503, "%s", sentence ? sentence : "The daemon is stopping.");
        mt_reply_header(request, "Retry-After", "5");
        return;
    case MT_CONTROL_FAILED:
        break;
    }
    mt_log(LOG_ERR, "request %s: %s %s: %s", request->id, request->method, request->path,
           sentence ? sentence : "the daemon gave no reason");
    mt_problem(request, 500, "%s", sentence ? sentence : "The daemon could not do this.");
}
