#include "core/job/path.h"

#include "core/base/cleanup.h"
#include "core/job/gguf_names.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *mt_path_absolute(struct mt_arena *arena, const char *base, const char *text, bool resolve_dots)
{
    char current[PATH_MAX];
    const char *start = "";
    if (*text != '/') {
        if (!base)
            base = ".";
        if (*base != '/') {
            start = getcwd(current, sizeof current) ? current : "";
            base = mt_arena_printf(arena, "%s/%s", start, base);
        }
        text = base ? mt_arena_printf(arena, "%s/%s", base, text) : NULL;
    }
    char *clean = text ? mt_arena_alloc(arena, strlen(text) + 2, 1) : NULL;
    if (!clean)
        return NULL;
    size_t used = 0;
    for (const char *part = text; *part;) {
        size_t bytes = strcspn(part, "/");
        if (resolve_dots && bytes == 2 && part[0] == '.' && part[1] == '.') {
            while (used > 0 && clean[--used] != '/')
                ;
        } else if (bytes > 0 && !(bytes == 1 && *part == '.')) {
            clean[used++] = '/';
            memcpy(clean + used, part, bytes);
            used += bytes;
        }
        part += bytes;
        part += *part == '/';
    }
    if (used == 0)
        clean[used++] = '/';
    clean[used] = '\0';
    return clean;
}

bool mt_path_inside(const char *path, const char *folder)
{
    size_t bytes = strlen(folder);
    if (strcmp(folder, "/") == 0)
        return *path == '/';
    return strncmp(path, folder, bytes) == 0 && (path[bytes] == '/' || path[bytes] == '\0');
}

static bool inside_folder(struct mt_arena *arena, const char *path, const char *folder)
{
    const char *as_given = mt_path_absolute(arena, NULL, folder, true);
    if (as_given && mt_path_inside(path, as_given))
        return true;
    mt_autofree char *real = realpath(folder, NULL);
    return real && mt_path_inside(path, real);
}

static bool inside_any(const struct mt_job_context *context, struct mt_arena *arena, const char *path)
{
    if ((context->model_base && inside_folder(arena, path, context->model_base)) ||
        (context->dataset_base && inside_folder(arena, path, context->dataset_base)))
        return true;
    for (size_t i = 0; i < context->num_roots; i++) {
        if (inside_folder(arena, path, context->roots[i]))
            return true;
    }
    return false;
}

/* Of a path without links, only the real places of the roots count. */
static bool really_inside_any(const struct mt_job_context *context, const char *real)
{
    const char *const bases[] = {context->model_base, context->dataset_base};
    for (size_t i = 0; i < 2 + context->num_roots; i++) {
        const char *root = i < 2 ? bases[i] : context->roots[i - 2];
        mt_autofree char *real_root = root ? realpath(root, NULL) : NULL;
        if (real_root && mt_path_inside(real, real_root))
            return true;
    }
    return false;
}

/* The real folder, and the name in it; NULL: out of memory. */
static const char *with_own_name(struct mt_arena *arena, const char *path)
{
    const char *name = strrchr(path, '/') + 1; /* it is absolute */
    const char *folder = mt_arena_strndup(arena, path, (size_t)(name - path));
    mt_autofree char *real = folder ? realpath(folder, NULL) : NULL;
    return real ? mt_arena_printf(arena, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) : NULL;
}

enum mt_path_state mt_path_resolve(const struct mt_job_context *context, struct mt_arena *arena,
                                   const char *base, const char *text, const char **path,
                                   const char **reason_text)
{
    *reason_text = "";
    *path = mt_path_absolute(arena, base, text, context->confined);
    if (!*path || context->purpose == MT_JOB_LOAD)
        return MT_PATH_GOOD;
    /* Whether something outside is there is nobody's business: first where it points, then whether it is. */
    if (context->confined && !inside_any(context, arena, *path))
        return MT_PATH_OUTSIDE;
    mt_autofree char *real = realpath(*path, NULL);
    if (!real) {
        *reason_text = strerror(errno);
        return context->purpose == MT_JOB_PLAN ? MT_PATH_GOOD : MT_PATH_MISSING;
    }
    if (context->confined) {
        if (!really_inside_any(context, real))
            return MT_PATH_OUTSIDE;
        const char *kept = mt_gguf_names_part(*path) ? with_own_name(arena, *path) : NULL;
        *path = kept && really_inside_any(context, kept) ? kept : mt_arena_strdup(arena, real);
    }
    return MT_PATH_GOOD;
}
