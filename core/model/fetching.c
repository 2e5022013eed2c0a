/* Files of a repository on a hub: what there is, and when a file that came is good. */
#include "core/model/fetching.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/model/download_internal.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define DEFAULT_ENDPOINT "https://huggingface.co"
#define MAX_LISTING_BYTES ((size_t)16 << 20)
#define TRIES 6
#define SPARE_BYTES ((size_t)64 << 20)

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a download");
}

/* What an answer's status means for the user. */
static int check_status(const struct mt_fetching *fetching, const struct mt_transfer *transfer,
                        struct mt_error *error)
{
    const char *name = fetching->download.name;
    if (transfer->status == 401 || transfer->status == 403)
        return mt_error_set(error, -EACCES, fetching->reason, "the hub %s does not give %s (%ld): %s",
                            fetching->download.endpoint, name, transfer->status,
                            *fetching->download.token
                                ? "the token in HF_TOKEN has no access to it"
                                : (fetching->data ? "it wants a token, in HF_TOKEN, or has no such data set"
                                                  : "it wants a token, in HF_TOKEN, or has no such model"));
    if (transfer->status == 404)
        return mt_error_set(error, -ENOENT, fetching->reason, "the hub has no %s (404: %s)", name,
                            transfer->url);
    if (transfer->status == 408 || transfer->status == 429 || transfer->status >= 500)
        return mt_error_set(error, -EAGAIN, MT_REASON_IO, "%s: the hub answered %ld", transfer->url,
                            transfer->status);
    if (transfer->status != 200 && transfer->status != 206 && transfer->status != 416)
        return mt_error_set(error, -EIO, MT_REASON_IO, "%s: the hub answered %ld", transfer->url,
                            transfer->status);
    return 0;
}

/* Between two tries: as long as the hub asks for, and longer each time; -EINTR when asked to stop. */
static int wait_a_moment(const struct mt_fetching *fetching, int try, long retry_after,
                         struct mt_error *error)
{
    const struct mt_download *download = &fetching->download;
    const long own = 5 << try, asked = 10 * retry_after;
    for (long tenth = 0; tenth < (own > asked ? own : asked); tenth++) {
        if (download->should_stop && download->should_stop(download->context))
            return mt_error_set(error, -EINTR, MT_REASON_INTERRUPTED,
                                "the download was stopped; it goes on where it is when asked for again");
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return 0;
}

/* --- what there is ------------------------------------------------------------------------------------- */

bool mt_fetching_is_plain(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            return false;
    return *name && *name != '.' && strlen(name) < 200;
}

/* The server's names become files below the folder: of others than plain paths nothing is taken. */
static bool is_inside(const char *name)
{
    if (!mt_path_stays_below(name))
        return false;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '\\' ||
            ((c == name || c[-1] == '/') && strchr("/.", *c))) /* hidden files, and empty parts */
            return false;
    const size_t bytes = strlen(name);
    return bytes < 1000 && name[bytes - 1] != '/';
}

static int keep_listing(struct mt_fetching *fetching, const json_t *listing, struct mt_error *error)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(listing, "siblings"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "rfilename"));
        const json_t *lfs = json_object_get(one, "lfs"), *size = json_object_get(one, "size");
        const char *sha256 = json_string_value(json_object_get(lfs, "sha256"));
        if (!name || !is_inside(name))
            continue;
        json_t *file = json_pack("{s:s, s:I, s:s}", "name", name, "size",
                                 json_is_integer(size) ? json_integer_value(size) : (json_int_t)-1, "sha256",
                                 sha256 && strlen(sha256) == 64 ? sha256 : "");
        if (json_array_append_new(fetching->available, file) < 0)
            return no_memory(error);
    }
    return 0;
}

int mt_fetching_list(struct mt_fetching *fetching, struct mt_error *error)
{
    mt_autofree char *url = NULL;
    mt_autofree char *text = malloc(MAX_LISTING_BYTES);
    if (!text || asprintf(&url, "%s/api/%s/%s/revision/%s?blobs=true", fetching->download.endpoint,
                          fetching->data ? "datasets" : "models", fetching->download.name,
                          fetching->download.revision) < 0) {
        url = NULL;
        return no_memory(error);
    }
    struct mt_transfer transfer = {
        .download = &fetching->download, .url = url, .fd = -1, .text = text, .max_text = MAX_LISTING_BYTES};
    int r = -EAGAIN;
    for (int try = 0; r == -EAGAIN && try < TRIES; try++) {
        if (try && wait_a_moment(fetching, try - 1, transfer.retry_after, error) < 0)
            return -EINTR;
        r = mt_transfer_run(&transfer, error);
        r = r ? r : check_status(fetching, &transfer, error);
    }
    if (r < 0)
        return r;
    mt_autojson json_t *listing = NULL;
    r = mt_json_parse(text, transfer.text_bytes, url, &listing, error);
    if (r < 0) {
        if (error && r != -ENOMEM)
            error->reason = fetching->reason; /* it is no fault of the job's */
        return mt_error_prefix(error, "the hub's answer is no JSON"), r;
    }
    const char *commit = json_string_value(json_object_get(listing, "sha"));
    if (!commit || !mt_fetching_is_plain(commit))
        return mt_error_set(error, -EINVAL, fetching->reason, "%s: the hub's answer names no commit", url);
    fetching->commit = strdup(commit);
    return fetching->commit ? keep_listing(fetching, listing, error) : no_memory(error);
}

int mt_fetching_check_space(const struct mt_fetching *fetching, struct mt_error *error)
{
    struct statvfs disk;
    size_t i, needed = SPARE_BYTES, available;
    json_t *file;
    char need[32], have[32];
    json_array_foreach(fetching->files, i, file)
    {
        struct stat status;
        mt_autofree char *path =
            mt_path_join(fetching->folder, json_string_value(json_object_get(file, "name")));
        const json_int_t size = json_integer_value(json_object_get(file, "size"));
        if (size > 0 && path && stat(path, &status) < 0 && !mt_size_add(needed, (size_t)size, &needed))
            needed = SIZE_MAX;
    }
    if (statvfs(fetching->folder, &disk) < 0 ||
        !mt_size_mul((size_t)disk.f_bavail, (size_t)disk.f_frsize, &available) || available >= needed)
        return 0;
    return mt_error_set(error, -ENOSPC, MT_REASON_DISK_FULL,
                        "the disk of %s has %s, and %s needs %s: free some space and ask again",
                        fetching->folder, mt_size_format(available, have, sizeof have),
                        fetching->download.name, mt_size_format(needed, need, sizeof need));
}

/* --- one file ------------------------------------------------------------------------------------------ */

/* -EILSEQ when length or checksum are not those that the hub told. */
static int check_file(const struct mt_fetching *fetching, const char *path, const char *part, int64_t size,
                      const char *sha256, struct mt_error *error)
{
    struct stat status;
    char hex[65];
    if (stat(part, &status) < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot read %s", part);
    if (size >= 0 && status.st_size != size)
        return mt_error_set(error, status.st_size < size ? -EAGAIN : -EILSEQ, fetching->reason,
                            "%s has %jd bytes, and must have %jd", path, (intmax_t)status.st_size,
                            (intmax_t)size);
    if (!*sha256)
        return 0;
    int r = mt_file_sha256(part, hex, error);
    if (r == 0 && strcasecmp(hex, sha256) != 0)
        return mt_error_set(error, -EILSEQ, fetching->reason,
                            "%s was not received as the hub has it: its SHA-256 is %s, not %s", path, hex,
                            sha256);
    return r;
}

/* How large the file in `fd` may become; -1: not known. */
static int64_t room_for(int fd, off_t have)
{
    struct statvfs disk;
    size_t available;
    if (fstatvfs(fd, &disk) < 0 || !mt_size_mul((size_t)disk.f_bavail, (size_t)disk.f_frsize, &available))
        return -1;
    const size_t room = available > SPARE_BYTES ? available - SPARE_BYTES : 0;
    return room < INT64_MAX / 2 ? (int64_t)room + have : -1;
}

/* What one try at a file leaves to the next. */
struct tries {
    long retry_after; /* seconds */
    char etag[MT_TRANSFER_ETAG_BYTES];
};

/* One try. -EAGAIN: what came stays, the next try goes on behind it. */
static int try_file(const struct mt_fetching *fetching, const char *url, const char *path, const char *part,
                    const json_t *file, struct tries *tries, struct mt_error *error)
{
    mt_autofd int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot write %s", part);
    const json_int_t told = json_integer_value(json_object_get(file, "size"));
    struct mt_transfer transfer = {
        .download = &fetching->download, .url = url, .fd = fd, .have = status.st_size, .most = told};
    transfer.room = told < 0 ? room_for(fd, transfer.have) : -1; /* else it was checked for all files */
    const char *sha256 = json_string_value(json_object_get(file, "sha256"));
    transfer.checked = *sha256;
    memcpy(transfer.etag, tries->etag, sizeof transfer.etag);
    /* Of a whole file the hub is asked for its checksum alone, where the listing has none. */
    int r = told > 0 && status.st_size == told && *sha256 ? 0 : mt_transfer_run(&transfer, error);
    tries->retry_after = transfer.retry_after;
    memcpy(tries->etag, transfer.etag, sizeof tries->etag);
    if (r == 0 && transfer.status)
        r = check_status(fetching, &transfer, error);
    if (r == -ESPIPE || (r == 0 && transfer.status == 416 && told != status.st_size)) { /* begin again */
        if (ftruncate(fd, 0) < 0)
            return mt_error_set_errno(error, MT_REASON_IO, "cannot write %s", part);
        return mt_error_set(error, -EAGAIN, MT_REASON_IO, "%s: %s", url,
                            r ? "what the hub sent does not go on where the file ended"
                              : "the part kept was too long");
    }
    if (r == 0 && fsync(fd) < 0)
        r = mt_error_set_errno(error, MT_REASON_IO, "cannot write %s", part);
    return r ? r
             : check_file(fetching, path, part, told >= 0 ? (int64_t)told : transfer.length,
                          sha256 && *sha256 ? sha256 : transfer.sha256, error);
}

/* The folders of a file's name. */
static int make_way(const char *path, size_t folder_bytes, struct mt_error *error)
{
    const char *slash = strrchr(path, '/');
    if (slash <= path + folder_bytes)
        return 0;
    mt_autofree char *folder = strndup(path, (size_t)(slash - path));
    return folder ? mt_folder_create(folder, 0755, error) : no_memory(error);
}

static char *file_url(const struct mt_fetching *fetching, const char *name)
{
    static const char digits[] = "0123456789ABCDEF";
    char escaped[3 * 1000 + 1], *to = escaped, *url;
    for (const char *c = name; *c; c++) {
        if (isalnum((unsigned char)*c) || strchr("/._-~", *c)) {
            *to++ = *c;
        } else {
            *to++ = '%';
            *to++ = digits[(unsigned char)*c >> 4];
            *to++ = digits[*c & 15];
        }
    }
    *to = '\0';
    return asprintf(&url, "%s/%s%s/resolve/%s/%s", fetching->download.endpoint,
                    fetching->data ? "datasets/" : "", fetching->download.name, fetching->commit, escaped) < 0
               ? NULL
               : url;
}

int mt_fetching_file(const struct mt_fetching *fetching, const json_t *file, struct mt_error *error)
{
    const char *name = json_string_value(json_object_get(file, "name"));
    const struct mt_download *download = &fetching->download;
    mt_autofree char *url = file_url(fetching, name);
    mt_autofree char *path = mt_path_join(fetching->folder, name);
    mt_autofree char *part = NULL;
    if (!path || !url || asprintf(&part, "%s.part", path) < 0)
        return no_memory(error);
    if (mt_path_exists(path)) /* of an earlier try, and checked then */
        return 0;
    if (download->log) {
        char size[32], sentence[512];
        const json_int_t bytes = json_integer_value(json_object_get(file, "size"));
        snprintf(sentence, sizeof sentence, "downloading %s of %s%s%s%s", name, download->name,
                 bytes >= 0 ? " (" : "", bytes >= 0 ? mt_size_format((size_t)bytes, size, sizeof size) : "",
                 bytes >= 0 ? ")" : "");
        download->log(download->context, sentence);
    }
    int r = make_way(path, strlen(fetching->folder), error), failures = 0, wrong = 0;
    if (r < 0)
        return r;
    r = -EAGAIN;
    off_t most = 0;
    struct tries tries = {0};
    while (r == -EAGAIN) {
        struct stat status;
        r = try_file(fetching, url, path, part, file, &tries, error);
        if (r == -EILSEQ && wrong++ == 0) {
            unlink(part); /* once more, from the beginning */
            r = -EAGAIN;
        }
        const off_t now = stat(part, &status) == 0 ? status.st_size : 0;
        failures = now > most ? 1 : failures + 1; /* a try that got further than all before costs none */
        most = now > most ? now : most;
        if (r == -EAGAIN && failures >= TRIES)
            break;
        if (r == -EAGAIN && wait_a_moment(fetching, failures - 1, tries.retry_after, error) < 0)
            return -EINTR;
    }
    if (r == -EILSEQ)
        unlink(part);
    if (r == 0 && rename(part, path) < 0)
        r = mt_error_set_errno(error, MT_REASON_IO, "cannot name %s", path);
    return r;
}

/* --- beginning and end ---------------------------------------------------------------------------------- */

int mt_fetching_lock(const char *path, const char *what, struct mt_error *error)
{
    const int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
        return lock;
    const int r = mt_error_set_errno(error, MT_REASON_IO, "another process is downloading to %s", what);
    if (lock >= 0)
        close(lock);
    return r;
}

static bool is_name(const char *name)
{
    const char *slash = strchr(name, '/');
    if (!slash)
        return mt_fetching_is_plain(name);
    mt_autofree char *first = strndup(name, (size_t)(slash - name));
    return first && mt_fetching_is_plain(first) && mt_fetching_is_plain(slash + 1);
}

int mt_fetching_begin(struct mt_fetching *fetching, const struct mt_download *download, bool data,
                      struct mt_error *error)
{
    const char *endpoint = download->endpoint ? download->endpoint : getenv("HF_ENDPOINT");
    const char *token = download->token ? download->token : getenv("HF_TOKEN");
    *fetching = (struct mt_fetching){.download = *download,
                                     .data = data,
                                     .reason = data ? MT_REASON_BAD_DATA : MT_REASON_BAD_MODEL,
                                     .available = json_array(),
                                     .files = json_array()};
    fetching->download.endpoint = endpoint && *endpoint ? endpoint : DEFAULT_ENDPOINT;
    fetching->download.token = token ? token : "";
    fetching->download.revision = download->revision ? download->revision : "main";
    if (!fetching->available || !fetching->files)
        return no_memory(error);
    for (const char *c = fetching->download.token; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return mt_error_set(
                error, -EINVAL, fetching->reason,
                "HF_TOKEN holds a blank, a line break or another character that no token has");
    if (!is_name(download->name) || !mt_fetching_is_plain(fetching->download.revision))
        return mt_error_set(error, -EINVAL, fetching->reason, "'%s' is not the name of a %s on a hub",
                            download->name, data ? "data set" : "model");
    return 0;
}

void mt_fetching_end(struct mt_fetching *fetching)
{
    json_decref(fetching->available);
    json_decref(fetching->files);
    free(fetching->commit);
    free(fetching->folder);
    *fetching = (struct mt_fetching){0};
}
