/* manifest.c: hashes of a checkpoint's files.
 *
 * XXH3 with 128 bits (libxxhash): it finds damage at the speed of the disk; it is no defence against somebody
 * who wants to forge a checkpoint, who could forge the manifest as well. */
#include "core/train/manifest.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/time.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define READ_BYTES ((size_t)1 << 20)
#define HASH_TEXT_BYTES 33
#define STATE_FOLDER "megatrain/"

static int hash_file(const char *path, uint64_t *bytes, char text[HASH_TEXT_BYTES], struct mt_error *error)
{
    mt_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot open '%s'", path);
    mt_autofree char *block = malloc(READ_BYTES);
    XXH3_state_t *state = XXH3_createState();
    if (!block || !state) {
        XXH3_freeState(state);
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to hash '%s'", path);
    }
    XXH3_128bits_reset(state);
    *bytes = 0;
    for (;;) {
        ssize_t got = read(fd, block, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int code = mt_error_set_errno(error, MT_REASON_IO, "cannot read '%s'", path);
            XXH3_freeState(state);
            return code;
        }
        if (got == 0)
            break;
        XXH3_128bits_update(state, block, (size_t)got);
        *bytes += (uint64_t)got;
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(text, HASH_TEXT_BYTES, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    return 0;
}

/* Appends {name, bytes, hash} of each file below folder/relative, in the order of names. */
static int collect(const char *folder, const char *relative, json_t *files, struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(folder, relative);
    struct dirent **entries = NULL;
    int count = path ? scandir(path, &entries, NULL, alphasort) : -1;
    if (count < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot list '%s'", path ? path : folder);
    int result = 0;
    for (int i = 0; i < count && result == 0; i++) {
        const char *name = entries[i]->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        mt_autofree char *inner = relative[0] ? mt_path_join(relative, name) : strdup(name);
        mt_autofree char *full = inner ? mt_path_join(folder, inner) : NULL;
        struct stat status;
        if (!full) {
            result = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to list '%s'", path);
        } else if (strcmp(inner, MT_MANIFEST_NAME) == 0) {
            continue;
        } else if (lstat(full, &status) != 0) {
            result = mt_error_set_errno(error, MT_REASON_IO, "cannot look at '%s'", full);
        } else if (S_ISDIR(status.st_mode)) {
            result = collect(folder, inner, files, error);
        } else {
            uint64_t bytes;
            char hash[HASH_TEXT_BYTES];
            result = hash_file(full, &bytes, hash, error);
            if (result == 0 &&
                json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "name", inner, "bytes",
                                                       (json_int_t)bytes, "hash", hash)) != 0)
                result = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the manifest");
        }
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return result;
}

int mt_manifest_write(const char *folder, size_t step, double loss, uint64_t *bytes, struct mt_error *error)
{
    mt_autojson json_t *files = json_array();
    int result = collect(folder, "", files, error);
    if (result < 0)
        return result;
    uint64_t total = 0;
    size_t i;
    json_t *file;
    json_array_foreach(files, i, file) total += (uint64_t)json_integer_value(json_object_get(file, "bytes"));
    char created_at[MT_TIME_TEXT_BYTES];
    mt_time_format(mt_time_unix_microseconds(), created_at);
    mt_autojson json_t *manifest =
        json_pack("{s:i, s:I, s:o, s:s, s:I, s:s, s:O}", "format", 1, "step", (json_int_t)step, "loss",
                  isfinite(loss) ? json_real(loss) : json_null(), "created_at", created_at, "bytes",
                  (json_int_t)total, "algorithm", "xxh3-128", "files", files);
    mt_autofree char *text = manifest ? json_dumps(manifest, JSON_INDENT(2)) : NULL;
    mt_autofree char *path = mt_path_join(folder, MT_MANIFEST_NAME);
    if (!text || !path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the manifest of '%s'",
                            folder);
    *bytes = total;
    return mt_file_write_atomic(path, text, strlen(text), 0644, error);
}

int mt_manifest_read(const char *folder, json_t **manifest, struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(folder, MT_MANIFEST_NAME);
    if (!path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to read the manifest of '%s'",
                            folder);
    mt_autojson json_t *value = NULL;
    int result = mt_json_read(path, MT_REASON_BAD_MODEL, &value, error);
    if (result < 0)
        return result;
    const char *algorithm = json_string_value(json_object_get(value, "algorithm"));
    json_t *files = json_object_get(value, "files");
    if (json_integer_value(json_object_get(value, "format")) != 1 || !algorithm ||
        strcmp(algorithm, "xxh3-128") != 0)
        return mt_error_set(
            error, -EINVAL, MT_REASON_BAD_MODEL,
            "'%s' has a format that this version does not know: it was made by a newer MegaTrain", path);
    json_int_t total = 0;
    bool whole = json_is_array(files) && json_is_integer(json_object_get(value, "step")) &&
                 json_integer_value(json_object_get(value, "step")) >= 0;
    size_t i;
    json_t *file;
    json_array_foreach(files, i, file)
    {
        const char *name = json_string_value(json_object_get(file, "name"));
        whole = whole && name && mt_path_stays_below(name) &&
                json_is_integer(json_object_get(file, "bytes")) &&
                json_is_string(json_object_get(file, "hash"));
        whole = whole &&
                !__builtin_add_overflow(total, json_integer_value(json_object_get(file, "bytes")), &total);
    }
    /* Else a manifest that has lost entries would vouch for files that nobody looks at. */
    if (!whole || total != json_integer_value(json_object_get(value, "bytes")))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "'%s' is damaged: a member is missing or wrong", path);
    *manifest = json_incref(value);
    return 0;
}

int mt_manifest_verify(const char *folder, enum mt_manifest_look look, struct mt_error *error)
{
    mt_autojson json_t *manifest = NULL;
    int result = mt_manifest_read(folder, &manifest, error);
    if (result < 0)
        return result;
    size_t i;
    json_t *file;
    json_array_foreach(json_object_get(manifest, "files"), i, file)
    {
        const char *name = json_string_value(json_object_get(file, "name"));
        uint64_t wanted = (uint64_t)json_integer_value(json_object_get(file, "bytes"));
        if (look == MT_MANIFEST_MODEL && strncmp(name, STATE_FOLDER, strlen(STATE_FOLDER)) == 0)
            continue;
        mt_autofree char *path = mt_path_join(folder, name);
        struct stat status;
        if (!path || lstat(path, &status) != 0 || !S_ISREG(status.st_mode))
            return mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL,
                                "the checkpoint '%s' is not whole: '%s' is missing", folder, name);
        if ((uint64_t)status.st_size != wanted)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                                "the checkpoint '%s' is damaged: '%s' has %lld bytes where %llu were written",
                                folder, name, (long long)status.st_size, (unsigned long long)wanted);
        if (look == MT_MANIFEST_SIZES)
            continue;
        uint64_t bytes;
        char hash[HASH_TEXT_BYTES];
        result = hash_file(path, &bytes, hash, error);
        if (result < 0)
            return result;
        if (strcmp(hash, json_string_value(json_object_get(file, "hash"))) != 0)
            return mt_error_set(
                error, -EINVAL, MT_REASON_BAD_MODEL,
                "the checkpoint '%s' is damaged: the contents of '%s' are not those that were written",
                folder, name);
    }
    return 0;
}
