#include "core/job/gguf_names.h"

#include "core/base/file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SAID 32         /* models that an error names */
#define MAX_NAME_BYTES 240   /* of what a user says */
#define PART_BYTES 20        /* "-00002-of-00003.gguf" */
#define PART_NUMBER_BYTES 19 /* from the first digit on: "00002-of-00003.gguf" */
#define SUFFIX_BYTES 5       /* ".gguf" */

static const char *base_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

bool mt_gguf_names_part(const char *name)
{
    static const char part[] = "-#####-of-#####.gguf";
    const size_t bytes = strlen(base_of(name));
    if (bytes <= PART_BYTES)
        return false;
    const char *end = name + strlen(name) - PART_BYTES;
    for (size_t i = 0; i < PART_BYTES; i++)
        if (part[i] == '#' ? !isdigit((unsigned char)end[i]) : tolower((unsigned char)end[i]) != part[i])
            return false;
    return true;
}

size_t mt_gguf_parts_named(const char *name)
{
    return mt_gguf_names_part(name) ? (size_t)strtoul(name + strlen(name) - 10, NULL, 10) : 1;
}

/* The file's own name without its ending and the number of a part; *bytes of it. */
static const char *stem_of(const char *name, size_t *bytes)
{
    const char *base = base_of(name);
    *bytes = strlen(base) - (mt_gguf_names_part(name) ? PART_BYTES : SUFFIX_BYTES);
    return base;
}

/* What a file beside a model is called that is none. */
static bool is_beside(const char *name)
{
    static const char matrix[] = "imatrix";
    size_t bytes;
    const char *stem = stem_of(name, &bytes);
    const size_t length = sizeof matrix - 1;
    return strcasestr(stem, "mmproj") || /* the part of a vision model that sees */
           (bytes >= length && (strncasecmp(stem, matrix, length) == 0 ||
                                strncasecmp(stem + bytes - length, matrix, length) == 0));
}

bool mt_gguf_starts_model(const char *name)
{
    if (!mt_path_ends_with(base_of(name), ".gguf") || *base_of(name) == '.' || is_beside(name))
        return false;
    return !mt_gguf_names_part(name) || strncmp(name + strlen(name) - PART_NUMBER_BYTES, "00001", 5) == 0;
}

bool mt_gguf_same_model(const char *a, const char *b)
{
    const size_t bytes = strlen(a);
    if (!mt_gguf_names_part(a) || !mt_gguf_names_part(b) || strlen(b) != bytes)
        return strcmp(a, b) == 0;
    const size_t stem = bytes - PART_NUMBER_BYTES;
    return memcmp(a, b, stem) == 0 && strcmp(a + stem + 5, b + stem + 5) == 0;
}

bool mt_gguf_is_choice(const char *text)
{
    if (!mt_path_stays_below(text) || strlen(text) > MAX_NAME_BYTES)
        return false;
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == ':' || *c == '\\')
            return false;
    return true;
}

/* "Q4_K" is no word of "tiny-Q4_K_M", nor "F16" one of "tiny-BF16". */
static bool is_word(const char *stem, size_t bytes, const char *word)
{
    const size_t length = strlen(word);
    for (size_t i = 0; i + length <= bytes; i++)
        if (strncasecmp(stem + i, word, length) == 0 && (i == 0 || strchr("-._", stem[i - 1])) &&
            (i + length == bytes || strchr("-.", stem[i + length])))
            return true;
    return false;
}

static bool is_in_folder(const char *name, const char *folder)
{
    const size_t bytes = strlen(folder);
    return strncasecmp(name, folder, bytes) == 0 && name[bytes] == '/';
}

/* How well `choice` fits; 0: not at all. */
static unsigned fit(const char *name, const char *choice)
{
    size_t bytes;
    const char *stem = stem_of(name, &bytes);
    if (!choice)
        return 1;
    if (mt_gguf_same_model(name, choice))
        return 3;
    if (mt_gguf_same_model(stem, choice) ||
        (strlen(choice) == bytes && strncasecmp(stem, choice, bytes) == 0))
        return 2;
    return is_word(stem, bytes, choice) || is_in_folder(name, choice);
}

/* "a.gguf, b.gguf, ..." of those that fit so well. */
static void list_names(const char *const *names, size_t count, const char *choice, unsigned best, char *text,
                       size_t bytes)
{
    size_t said = 0, used = 0;
    *text = '\0';
    for (size_t i = 0; i < count; i++) {
        if (fit(names[i], choice) != best)
            continue;
        const bool room = said < MOST_SAID && used + strlen(names[i]) + sizeof ", , ..." < bytes;
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s", said++ ? ", " : "", room ? names[i] : "...");
        if (!room)
            return;
    }
}

int mt_gguf_choose(const char *where, const char *before, const char *const *names, size_t count,
                   const char *choice, size_t *chosen, struct mt_error *error)
{
    char list[600];
    unsigned best = 0;
    size_t fitting = 0;
    for (size_t i = 0; i < count; i++) {
        const unsigned now = fit(names[i], choice);
        if (now > best) {
            best = now;
            fitting = 0;
        }
        if (now && now == best && !fitting++)
            *chosen = i;
    }
    if (fitting == 1)
        return 0;
    if (fitting == 0 && count == 0)
        return mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL, "%s holds no GGUF model", where);
    if (fitting == 0) {
        list_names(names, count, NULL, 1, list, sizeof list);
        return mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL, "%s holds no GGUF model \"%s\"; there %s %s",
                            where, choice, count > 1 ? "are" : "is", list);
    }
    list_names(names, count, choice, best, list, sizeof list);
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                        "%s holds %zu GGUF models%s%s%s; name one of them by model.file, or as %s%s: there "
                        "are %s",
                        where, fitting, choice ? " that \"" : "", choice ? choice : "",
                        choice ? "\" may mean" : "", before, names[*chosen], list);
}
