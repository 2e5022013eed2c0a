#include "daemon/cli/client.h"

#include "core/base/cleanup.h"
#include "core/base/id.h"
#include "core/base/version.h"
#include "daemon/cli/cli.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_URL "http://127.0.0.1:8642"
#define MAX_RESPONSE_BYTES ((size_t)256 << 20)
#define CONNECT_SECONDS 10L
#define ANSWER_SECONDS 60L

struct mt_client {
    CURL *curl;
    char url[1024];         /* as people wrote it */
    char base[1024];        /* what paths are put behind */
    char socket_path[1024]; /* or empty */
    char authorization[1100];
};

static bool is_loopback(const char *base)
{
    const char *host = strstr(base, "://");
    host = host ? host + 3 : base;
    return strncmp(host, "127.", 4) == 0 || strncmp(host, "localhost", 9) == 0 ||
           strncmp(host, "[::1]", 5) == 0;
}

static int read_environment(struct mt_client *client, struct mt_error *error)
{
    const char *url = getenv("MEGATRAIN_URL"), *token = getenv("MEGATRAIN_TOKEN");
    if (!url || !*url)
        url = DEFAULT_URL;
    if (strlen(url) >= sizeof client->url)
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "MEGATRAIN_URL is too long");
    strcpy(client->url, url);
    if (strncmp(url, "unix:/", 6) == 0) {
        strcpy(client->socket_path, url + 5);
        strcpy(client->base, "http://localhost");
    } else if (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0) {
        strcpy(client->base, url);
        for (size_t end = strlen(client->base); end > 0 && client->base[end - 1] == '/'; end--)
            client->base[end - 1] = '\0';
    } else {
        return mt_error_set(
            error, -EINVAL, MT_REASON_USAGE,
            "MEGATRAIN_URL must be http://ADDRESS:PORT, https://... or unix:/PATH, found \"%s\"", url);
    }
    if (token && *token) {
        if (strpbrk(token, "\r\n") || strlen(token) > 1000)
            return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "MEGATRAIN_TOKEN is not a token");
        snprintf(client->authorization, sizeof client->authorization, "Authorization: Bearer %s", token);
    }
    return 0;
}

int mt_client_open(struct mt_client **client, struct mt_error *error)
{
    struct mt_client *made = calloc(1, sizeof *made);
    *client = NULL;
    if (!made || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(made->curl = curl_easy_init())) {
        free(made);
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    }
    int result = read_environment(made, error);
    if (result < 0)
        mt_client_close(made);
    else
        *client = made;
    return result;
}

void mt_client_close(struct mt_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->curl);
    free(client);
}

const char *mt_client_url(const struct mt_client *client)
{
    return client->url;
}

void mt_response_free(struct mt_response *response)
{
    free(response->text);
    json_decref(response->json);
    memset(response, 0, sizeof *response);
}

/* An answer on its way in. */
struct transfer {
    struct mt_client *client;
    const struct mt_request *request;
    struct mt_response *response;
    bool stopped; /* by the sink */
};

static size_t take(char *data, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    struct mt_response *response = transfer->response;
    size_t bytes = size * count;
    long status = 0;
    curl_easy_getinfo(transfer->client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (transfer->request->sink && status < 300) {
        transfer->stopped = !transfer->request->sink(transfer->request->context, data, bytes);
        return transfer->stopped ? 0 : bytes;
    }
    if (response->bytes + bytes > MAX_RESPONSE_BYTES)
        return 0;
    char *text = realloc(response->text, response->bytes + bytes + 1);
    if (!text)
        return 0;
    memcpy(text + response->bytes, data, bytes);
    response->text = text;
    response->bytes += bytes;
    text[response->bytes] = '\0';
    return bytes;
}

static void set_transfer(struct mt_client *client, const struct mt_request *request,
                         struct transfer *transfer, const char *url, const char *body)
{
    CURL *curl = client->curl;
    curl_easy_reset(curl); /* keeps the connection */
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, request->sink ? 0L : ANSWER_SECONDS);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "megatrain/" MT_VERSION);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    if (body || strcmp(request->method, "POST") == 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)(body ? strlen(body) : 0));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body ? body : "");
    }
    if (*client->socket_path)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, client->socket_path);
    if (*client->socket_path || is_loopback(client->base))
        curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* no proxy of the environment reaches this machine */
}

static struct curl_slist *make_headers(const struct mt_client *client, const struct mt_request *request)
{
    struct curl_slist *headers = NULL;
    char text[1200];
    snprintf(text, sizeof text, "Accept: %s", request->accept ? request->accept : "application/json");
    headers = curl_slist_append(headers, text);
    if (strcmp(request->method, "POST") == 0)
        headers = curl_slist_append(headers, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:");
    if (*client->authorization)
        headers = curl_slist_append(headers, client->authorization);
    if (request->idempotency_key) {
        snprintf(text, sizeof text, "Idempotency-Key: %s", request->idempotency_key);
        headers = curl_slist_append(headers, text);
    }
    return headers;
}

int mt_client_send(struct mt_client *client, const struct mt_request *request, struct mt_response *response,
                   struct mt_error *error)
{
    struct transfer transfer = {client, request, response, false};
    mt_autofree char *body = NULL, *url = NULL;
    char detail[CURL_ERROR_SIZE] = "";
    memset(response, 0, sizeof *response);
    if (request->body && !(body = json_dumps(request->body, JSON_COMPACT | JSON_ENCODE_ANY)))
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    if (asprintf(&url, "%s%s", client->base, request->path) < 0) {
        url = NULL;
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    }
    struct curl_slist *headers = make_headers(client, request);
    set_transfer(client, request, &transfer, url, body);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(client->curl, CURLOPT_ERRORBUFFER, detail);
    CURLcode code = curl_easy_perform(client->curl);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &response->status);
    curl_easy_setopt(client->curl, CURLOPT_ERRORBUFFER, NULL);
    curl_slist_free_all(headers);
    if (code != CURLE_OK && !transfer.stopped) {
        mt_response_free(response);
        return mt_error_set(error, -ECONNREFUSED, MT_REASON_IO,
                            "no answer from the daemon at %s: %s (is megatraind running? MEGATRAIN_URL says "
                            "where it is; megatraind --help, how to start it)",
                            client->url,
                            *detail && !*client->socket_path ? detail : curl_easy_strerror(code));
    }
    if (response->text)
        response->json = json_loadb(response->text, response->bytes, JSON_DECODE_ANY, NULL);
    return 0;
}

int mt_client_complain(const struct mt_response *response)
{
    const char *title = json_string_value(json_object_get(response->json, "title"));
    const char *detail = json_string_value(json_object_get(response->json, "detail"));
    if (!title && !detail) { /* megatraind always explains itself */
        mt_cli_complain("what answered with status %ld is not megatraind, but another program or a proxy; "
                        "MEGATRAIN_URL says where megatraind is",
                        response->status);
        return MT_EXIT_UNAVAILABLE;
    }
    mt_cli_complain("%s%s%s", title ? title : "", title && detail ? ": " : "", detail ? detail : "");
    switch (response->status) {
    case 400:
    case 422:
        return 78;
    case 401:
    case 403:
        return MT_EXIT_DENIED;
    case 404:
        return MT_EXIT_NOT_FOUND;
    case 409:
        return MT_EXIT_CONFLICT;
    case 503:
        return MT_EXIT_UNAVAILABLE;
    case 507:
        return 74;
    default:
        return 70;
    }
}

int mt_client_call(struct mt_client *client, const struct mt_request *request, struct mt_response *response)
{
    struct mt_error error = {0};
    int result = mt_client_send(client, request, response, &error);
    if (result < 0)
        return mt_cli_fail(&error);
    if (response->status >= 300) {
        int code = mt_client_complain(response);
        mt_response_free(response);
        return code;
    }
    if (!response->json && !request->sink && response->status != 204) {
        mt_cli_complain("the answer from %s is not JSON; is that megatraind?", client->url);
        mt_response_free(response);
        return 70;
    }
    return 0;
}

char *mt_client_job_path(struct mt_client *client, const char *id, const char *rest, int *code)
{
    struct mt_response response = {0};
    const struct mt_request newest = {.method = "GET", .path = "/jobs?limit=1"};
    char *path = NULL;
    if (strcmp(id, "last") == 0) {
        *code = mt_client_call(client, &newest, &response);
        if (*code)
            return NULL;
        const json_t *job = json_array_get(json_object_get(response.json, "data"), 0);
        id = json_string_value(json_object_get(job, "id"));
        if (!id) {
            mt_cli_complain("there is no job yet");
            *code = MT_EXIT_NOT_FOUND;
        }
    }
    if (id && !mt_id_valid(id)) {
        mt_cli_complain("there is no job '%s': an id has 26 letters and digits; megatrain jobs lists them",
                        id);
        *code = MT_EXIT_NOT_FOUND;
        id = NULL;
    }
    char *encoded = id ? curl_easy_escape(client->curl, id, 0) : NULL;
    if (encoded && asprintf(&path, "/jobs/%s%s", encoded, rest) < 0)
        path = NULL;
    if (id && !path)
        *code = 70;
    curl_free(encoded);
    mt_response_free(&response);
    return path;
}
