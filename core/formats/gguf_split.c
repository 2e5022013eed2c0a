/* GGUF models in several files, NAME-00001-of-0000N.gguf and so on, as llama-gguf-split makes them: each has
 * a header and tensors of its own, its number (from 0), the number of parts and that of all tensors; the
 * first alone has the model's metadata. Nothing else ties the parts together, so all of that must agree. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/formats/gguf_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PARTS 65535 /* the format counts them in 16 bits */
#define SUFFIX_BYTES 64

#define bad_model(error, ...) mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, __VA_ARGS__)

/* Its three numbers; -1: is not there. */
struct place {
    int64_t number, count, tensors;
};

static int read_number(const struct mt_gguf *file, const char *key, int64_t most, int64_t *number,
                       struct mt_error *error)
{
    const struct mt_gguf_value *value = mt_gguf_find(file, key);
    *number = -1;
    if (!value)
        return 0;
    if (value->is_array || !mt_gguf_integer(value, 0, number) || *number < 0 || *number > most)
        return bad_model(error, "%s: %s is no number from 0 to %" PRId64 ": the file is damaged", file->path,
                         key, most);
    return 0;
}

static int read_place(const struct mt_gguf *file, struct place *place, struct mt_error *error)
{
    int r = read_number(file, "split.no", MAX_PARTS, &place->number, error);
    r = r ? r : read_number(file, "split.count", MAX_PARTS, &place->count, error);
    r = r ? r : read_number(file, "split.tensors.count", INT32_MAX, &place->tensors, error);
    if (r == 0 && place->count > 1 && (place->number < 0 || place->number >= place->count))
        return bad_model(error,
                         "%s is said to be one of %" PRId64 " parts, and split.no %s: the file is damaged",
                         file->path, place->count, place->number < 0 ? "is missing" : "names none of them");
    return r;
}

static void suffix_of(int64_t number, int64_t count, char suffix[SUFFIX_BYTES])
{
    snprintf(suffix, SUFFIX_BYTES, "-%05" PRId64 "-of-%05" PRId64 ".gguf", number + 1, count);
}

/* What the names of all parts begin with; NULL after an error. */
static char *find_stem(const struct mt_gguf *file, const struct place *place, struct mt_error *error)
{
    char suffix[SUFFIX_BYTES];
    suffix_of(place->number, place->count, suffix);
    if (!mt_path_ends_with(file->path, suffix)) {
        bad_model(
            error,
            "%s is part %" PRId64 " of %" PRId64 " of a split GGUF file, but its name does not end with %s, "
            "so the other parts can't be found: give the parts their names back (a hub's cache has them "
            "under snapshots/), or join them (llama-gguf-split --merge)",
            file->path, place->number + 1, place->count, suffix);
        return NULL;
    }
    char *stem = strndup(file->path, strlen(file->path) - strlen(suffix));
    if (!stem)
        mt_gguf_no_memory(error, file->path);
    return stem;
}

static int open_part(const struct mt_gguf *first, const char *stem, const struct place *wanted,
                     struct mt_gguf **part, struct mt_error *error)
{
    mt_autofree char *path = NULL;
    char suffix[SUFFIX_BYTES];
    struct place place;
    suffix_of(wanted->number, wanted->count, suffix);
    if (asprintf(&path, "%s%s", stem, suffix) < 0) {
        path = NULL;
        return mt_gguf_no_memory(error, stem);
    }
    int r = mt_gguf_open_one(path, part, error);
    if (r == -ENOENT)
        return mt_error_set(error, r, MT_REASON_BAD_MODEL,
                            "part %" PRId64 " of %" PRId64
                            " is missing: %s is not there, and the model is not "
                            "whole without it",
                            wanted->number + 1, wanted->count, path);
    r = r ? r : read_place(*part, &place, error);
    if (r != 0)
        return r;
    if (place.number != wanted->number || place.count != wanted->count || place.tensors != wanted->tensors)
        return bad_model(
            error,
            "%s is said to be part %" PRId64 " of %" PRId64 " with %" PRId64 " tensors in all, and "
            "%s one of %" PRId64 " with %" PRId64 ": they are not of the same model, or are damaged",
            path, place.number + 1, place.count, place.tensors, first->path, wanted->count, wanted->tensors);
    return 0;
}

/* A part other than the first may repeat the architecture; then it must be the same. */
static int check_architecture(const struct mt_gguf *first, const struct mt_gguf *part, struct mt_error *error)
{
    const char *key = "general.architecture";
    const struct mt_gguf_value *a = mt_gguf_find(first, key), *b = mt_gguf_find(part, key);
    struct mt_gguf_text left, right;
    if (!b || (a && mt_gguf_string(a, &left) && mt_gguf_string(b, &right) && left.bytes == right.bytes &&
               memcmp(left.data, right.data, left.bytes) == 0))
        return 0;
    return bad_model(error, "%s and %s are not parts of the same model: their %s differs", first->path,
                     part->path, key);
}

/* Everybody's tensors into the first part. */
static int gather(struct mt_gguf *first, struct mt_gguf *const *parts, size_t count, int64_t expected,
                  struct mt_error *error)
{
    size_t total = 0, used = 0;
    for (size_t i = 0; i < count; i++)
        total += parts[i]->num_tensors; /* each within a bound, as their number: no overflow */
    if (expected >= 0 && total != (size_t)expected)
        return bad_model(error,
                         "%s: the %zu parts hold %zu tensors, split.tensors.count says %" PRId64
                         ": a part is not of this model, or damaged",
                         first->path, count, total, expected);
    struct mt_gguf_tensor *tensors = mt_arena_alloc(first->arena, total + 1, sizeof *tensors);
    first->tensors_by_name = mt_arena_alloc(first->arena, total + 1, sizeof *first->tensors_by_name);
    if (!tensors || !first->tensors_by_name)
        return mt_gguf_no_memory(error, first->path);
    for (size_t i = 0; i < count; i++) {
        if (parts[i]->num_tensors)
            memcpy(tensors + used, parts[i]->tensors, parts[i]->num_tensors * sizeof *tensors);
        used += parts[i]->num_tensors;
    }
    first->tensors = tensors;
    first->num_tensors = total;
    return mt_gguf_sort_tensors(first, error);
}

int mt_gguf_join_parts(struct mt_gguf **file, struct mt_error *error)
{
    struct place place;
    int r = read_place(*file, &place, error);
    if (r < 0 || place.count < 2)
        return r;
    mt_autofree char *stem = find_stem(*file, &place, error);
    if (!stem)
        return error ? error->code : -EINVAL;
    const size_t count = (size_t)place.count;
    mt_autofree struct mt_gguf **parts = calloc(count, sizeof *parts);
    if (!parts)
        return mt_gguf_no_memory(error, (*file)->path);
    struct mt_gguf *opened = *file;
    parts[place.number] = opened;
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct place wanted = {(int64_t)i, place.count, place.tensors};
        if (i != (size_t)place.number)
            r = open_part(opened, stem, &wanted, &parts[i], error);
        if (r == 0 && i > 0)
            r = check_architecture(parts[0], parts[i], error);
    }
    struct mt_gguf *first = parts[0];
    if (r == 0)
        r = gather(first, parts, count, place.tensors, error);
    if (r == 0) {
        first->others = mt_arena_alloc(first->arena, count, sizeof *first->others);
        r = first->others ? 0 : mt_gguf_no_memory(error, first->path);
    }
    if (r != 0 || !first->others) {
        for (size_t i = 0; i < count; i++)
            if (parts[i] != opened)
                mt_gguf_close(parts[i]);
        return r;
    }
    memcpy(first->others, parts + 1, (count - 1) * sizeof *parts);
    first->num_others = count - 1;
    *file = first;
    return 0;
}

size_t mt_gguf_num_parts(const struct mt_gguf *file)
{
    return file->num_others + 1;
}

const char *mt_gguf_part_path(const struct mt_gguf *file, size_t i)
{
    return i ? file->others[i - 1]->path : file->path;
}
