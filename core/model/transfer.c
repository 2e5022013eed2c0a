/* One HTTP request by libcurl: redirects followed, ranges asked for, what the hub says of a file taken from
 * the headers. Its large files lie on another host: the answer that redirects there has the checksum
 * (X-Linked-Etag), and the token does not follow. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/model/download_internal.h"

#include <ctype.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define CONNECT_SECONDS 30L
#define SILENCE_SECONDS 60L
#define TEXT_SECONDS 300L /* for a whole answer that is no file */
#define MAX_REDIRECTS 8L
#define MAX_RETRY_AFTER 60L /* seconds: a daemon takes who sleeps for long as stalled */

struct state {
    struct mt_transfer *transfer;
    CURL *curl;
    bool begun; /* the first bytes of a body that counts came */
    char etag[MT_TRANSFER_ETAG_BYTES];
    int write_error; /* negative errno */
    bool stopped;
    int64_t body; /* bytes of this body; -1: not said */
};

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* "Name: value" -> the value without blanks and quotes, when the name is this one. */
static bool header_value(const char *line, size_t bytes, const char *name, char *value, size_t value_bytes)
{
    const size_t length = strlen(name);
    if (bytes <= length || strncasecmp(line, name, length) != 0 || line[length] != ':')
        return false;
    const char *begin = line + length + 1, *end = line + bytes;
    while (begin < end && (isspace((unsigned char)*begin) || *begin == '"'))
        begin++;
    if (end - begin > 2 && strncmp(begin, "W/\"", 3) == 0)
        begin += 3;
    while (end > begin && (isspace((unsigned char)end[-1]) || end[-1] == '"'))
        end--;
    snprintf(value, value_bytes, "%.*s", (int)(end - begin), begin);
    return true;
}

static bool is_sha256(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdefABCDEF") == 64;
}

static size_t on_header(char *line, size_t size, size_t count, void *context)
{
    struct state *state = context;
    struct mt_transfer *transfer = state->transfer;
    const size_t bytes = size * count;
    char value[256];
    if (strncmp(line, "HTTP/", 5) == 0) { /* another answer: lengths are its own, the checksum stays */
        state->body = transfer->length = -1;
        transfer->resumed = false;
        state->etag[0] = '\0';
    }
    header_value(line, bytes, "ETag", state->etag, sizeof state->etag);
    if ((header_value(line, bytes, "X-Linked-Etag", value, sizeof value) ||
         (!*transfer->sha256 && header_value(line, bytes, "ETag", value, sizeof value))) &&
        is_sha256(value))
        for (size_t i = 0; i <= 64; i++)
            transfer->sha256[i] = (char)tolower((unsigned char)value[i]);
    if (header_value(line, bytes, "Content-Length", value, sizeof value))
        state->body = strtoll(value, NULL, 10);
    if (header_value(line, bytes, "Content-Range", value, sizeof value)) {
        const char *slash = strchr(value, '/');
        long long first = -1;
        sscanf(value, "bytes %lld-", &first);
        transfer->resumed = first == (long long)transfer->have;
        if (slash && isdigit((unsigned char)slash[1]))
            transfer->length = strtoll(slash + 1, NULL, 10);
    }
    return bytes;
}

/* Where the body goes, as its first bytes come. */
static int begin_body(struct state *state, long status)
{
    struct mt_transfer *transfer = state->transfer;
    if (status == 200)
        transfer->resumed = false;
    else if (!transfer->resumed)
        return -ESPIPE;
    const bool same = *transfer->etag && strcmp(transfer->etag, state->etag) == 0;
    if (transfer->resumed && transfer->have > 0 && !same && !transfer->checked && !*transfer->sha256)
        return -ESPIPE;
    if (!transfer->resumed) {
        if (ftruncate(transfer->fd, 0) < 0)
            return -errno;
        transfer->have = 0;
    }
    memcpy(transfer->etag, state->etag, sizeof transfer->etag);
    state->begun = true;
    return 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *context)
{
    struct state *state = context;
    struct mt_transfer *transfer = state->transfer;
    const size_t bytes = size * count;
    long status = 0;
    curl_easy_getinfo(state->curl, CURLINFO_RESPONSE_CODE, &status);
    if (transfer->fd < 0) {
        if (bytes > transfer->max_text - transfer->text_bytes) {
            state->write_error = -EMSGSIZE;
            return 0;
        }
        memcpy(transfer->text + transfer->text_bytes, data, bytes);
        transfer->text_bytes += bytes;
        return bytes;
    }
    if (status != 200 && status != 206)
        return bytes; /* an error's text is no part of the file */
    int r = state->begun ? 0 : begin_body(state, status);
    if (r < 0) {
        state->write_error = r;
        return 0;
    }
    if (transfer->most >= 0 && (int64_t)bytes > transfer->most - transfer->have) {
        state->write_error = -EILSEQ; /* a disk would be full before a body without end is checked */
        return 0;
    }
    if (transfer->room >= 0 && (int64_t)bytes > transfer->room - transfer->have) {
        state->write_error = -ENOSPC;
        return 0;
    }
    r = mt_fd_pwrite_all(transfer->fd, data, bytes, transfer->have);
    if (r < 0) {
        state->write_error = r;
        return 0;
    }
    transfer->have += (off_t)bytes;
    return bytes;
}

static int on_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
    (void)total, (void)now, (void)up_total, (void)up;
    struct state *state = context;
    const struct mt_download *download = state->transfer->download;
    state->stopped = state->stopped || (download->should_stop && download->should_stop(download->context));
    return state->stopped;
}

static bool is_hopeless(CURLcode code)
{
    return code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
           code == CURLE_TOO_MANY_REDIRECTS || code == CURLE_PEER_FAILED_VERIFICATION;
}

static int outcome(const struct state *state, CURLcode code, const char *why, struct mt_error *error)
{
    const struct mt_transfer *transfer = state->transfer;
    if (state->stopped)
        return mt_error_set(error, -EINTR, MT_REASON_INTERRUPTED,
                            "the download was stopped; it goes on where it is when asked for again");
    if (state->write_error == -EILSEQ)
        return mt_error_set(error, -EILSEQ, MT_REASON_IO,
                            "%s: more bytes come than the %jd that the hub told", transfer->url,
                            (intmax_t)transfer->most);
    if (state->write_error == -EMSGSIZE)
        return mt_error_set(error, -EMSGSIZE, MT_REASON_IO,
                            "%s: the hub's answer is longer than the bound of %zu bytes", transfer->url,
                            transfer->max_text);
    if (state->write_error) {
        errno = -state->write_error;
        return mt_error_set_errno(error, MT_REASON_IO, "%s", transfer->url);
    }
    if (code == CURLE_OK)
        return 0;
    return mt_error_set(error, is_hopeless(code) ? -EIO : -EAGAIN, MT_REASON_IO, "%s: %s", transfer->url,
                        *why ? why : curl_easy_strerror(code));
}

static void set_options(struct state *state, struct curl_slist *headers, char *why)
{
    struct mt_transfer *transfer = state->transfer;
    CURL *curl = state->curl;
    const bool plain = strncasecmp(transfer->url, "http://", 7) == 0;
    char range[32];
    curl_easy_setopt(curl, CURLOPT_URL, transfer->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, plain ? "http,https" : "https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, plain ? "http,https" : "https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, MAX_REDIRECTS);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "megatrain");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SILENCE_SECONDS);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, state);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, state);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, state);
    if (transfer->fd < 0) {
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, TEXT_SECONDS);
        curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, ""); /* a file's bytes are wanted as they are kept */
    }
    if (transfer->fd >= 0 && transfer->have > 0) {
        snprintf(range, sizeof range, "%jd-", (intmax_t)transfer->have);
        curl_easy_setopt(curl, CURLOPT_RANGE, range);
    }
}

int mt_transfer_run(struct mt_transfer *transfer, struct mt_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_curl);
    const char *token = transfer->download->token;
    char why[CURL_ERROR_SIZE] = "";
    struct state state = {.transfer = transfer, .curl = curl_easy_init(), .body = -1};
    struct curl_slist *headers = NULL;
    mt_autofree char *authorization = NULL;
    if (token && *token && asprintf(&authorization, "Authorization: Bearer %s", token) >= 0)
        headers = curl_slist_append(NULL, authorization);
    if (!state.curl || (token && *token && !headers)) {
        curl_easy_cleanup(state.curl);
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a download");
    }
    transfer->status = transfer->retry_after = 0;
    transfer->length = -1;
    transfer->resumed = false;
    transfer->text_bytes = 0;
    transfer->sha256[0] = '\0';
    set_options(&state, headers, why);
    const CURLcode code = curl_easy_perform(state.curl);
    curl_easy_getinfo(state.curl, CURLINFO_RESPONSE_CODE, &transfer->status);
    curl_off_t retry_after = 0;
    if (curl_easy_getinfo(state.curl, CURLINFO_RETRY_AFTER, &retry_after) == CURLE_OK)
        transfer->retry_after = retry_after > MAX_RETRY_AFTER ? MAX_RETRY_AFTER : (long)retry_after;
    if (transfer->length < 0 && transfer->status == 200)
        transfer->length = state.body;
    curl_slist_free_all(headers);
    curl_easy_cleanup(state.curl);
    return outcome(&state, code, why, error);
}
