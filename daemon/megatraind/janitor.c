#include "daemon/megatraind/janitor.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "daemon/megatraind/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct mt_janitor {
    struct mt_daemon *daemon;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool work, stop;
};

static char *removed_path(const struct mt_daemon *daemon, const char *id)
{
    char *path = NULL;
    return asprintf(&path, "%s/.removed-%s", daemon->jobs_folder, id) < 0 ? NULL : path;
}

static void take_name_away(const struct mt_daemon *daemon, const char *id)
{
    mt_autofree char *folder = mt_daemon_job_folder(daemon, id);
    mt_autofree char *removed = removed_path(daemon, id);
    if (folder && removed && rename(folder, removed) < 0 && errno != ENOENT)
        mt_log(LOG_WARNING, "cannot move %s away: %s", folder, strerror(errno));
}

static void remove_one(const struct mt_daemon *daemon, const char *id)
{
    struct mt_error error = {0};
    take_name_away(daemon, id);
    mt_autofree char *removed = removed_path(daemon, id);
    mt_autofree char *folder = mt_daemon_job_folder(daemon, id);
    if (!removed || !folder || mt_folder_remove(removed, &error) < 0 ||
        mt_folder_remove(folder, &error) < 0 || mt_queue_removal_done(daemon->queue, id, &error) < 0)
        mt_log(LOG_WARNING, "the files of the removed job %s stay for now: %s", id, error.message);
}

static void remove_all(const struct mt_daemon *daemon)
{
    struct mt_error error = {0};
    char **ids = NULL;
    size_t count = 0;
    if (mt_queue_removals(daemon->queue, &ids, &count, &error) < 0) {
        mt_log(LOG_WARNING, "%s", error.message);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        remove_one(daemon, ids[i]);
        free(ids[i]);
    }
    free(ids);
}

static void *work(void *argument)
{
    struct mt_janitor *janitor = argument;
    pthread_mutex_lock(&janitor->mutex);
    while (!janitor->stop) {
        if (!janitor->work) {
            pthread_cond_wait(&janitor->wake, &janitor->mutex);
            continue;
        }
        janitor->work = false;
        pthread_mutex_unlock(&janitor->mutex);
        remove_all(janitor->daemon);
        pthread_mutex_lock(&janitor->mutex);
    }
    pthread_mutex_unlock(&janitor->mutex);
    return NULL;
}

int mt_janitor_start(struct mt_daemon *daemon, struct mt_janitor **result, struct mt_error *error)
{
    struct mt_janitor *janitor = calloc(1, sizeof *janitor);
    if (!janitor)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    janitor->daemon = daemon;
    janitor->work = true;
    pthread_mutex_init(&janitor->mutex, NULL);
    pthread_cond_init(&janitor->wake, NULL);
    int code = pthread_create(&janitor->thread, NULL, work, janitor);
    if (code) {
        free(janitor);
        return mt_error_set(error, -code, MT_REASON_INTERNAL, "cannot start a thread: %s", strerror(code));
    }
    *result = janitor;
    return 0;
}

void mt_janitor_stop(struct mt_janitor *janitor)
{
    if (!janitor)
        return;
    pthread_mutex_lock(&janitor->mutex);
    janitor->stop = true;
    pthread_cond_signal(&janitor->wake);
    pthread_mutex_unlock(&janitor->mutex);
    pthread_join(janitor->thread, NULL);
    pthread_mutex_destroy(&janitor->mutex);
    pthread_cond_destroy(&janitor->wake);
    free(janitor);
}

void mt_janitor_take(struct mt_janitor *janitor, const char *id)
{
    take_name_away(janitor->daemon, id);
    pthread_mutex_lock(&janitor->mutex);
    janitor->work = true;
    pthread_cond_signal(&janitor->wake);
    pthread_mutex_unlock(&janitor->mutex);
}

/* Nothing but job.json, whole or on its way: no worker was ever here. */
static bool is_unborn(const char *folder)
{
    DIR *directory = opendir(folder);
    bool unborn = directory != NULL;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strncmp(entry->d_name, "job.json", strlen("job.json")) != 0)
            unborn = false;
    if (directory)
        closedir(directory);
    return unborn;
}

void mt_janitor_remove_unborn(const struct mt_daemon *daemon)
{
    DIR *directory = opendir(daemon->jobs_folder);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        struct mt_queue_job *job = NULL;
        if (!mt_id_valid(entry->d_name))
            continue;
        int r = mt_queue_get(daemon->queue, entry->d_name, &job, NULL);
        mt_queue_job_free(job);
        if (r != -ENOENT)
            continue;
        mt_autofree char *folder = mt_daemon_job_folder(daemon, entry->d_name);
        if (folder && is_unborn(folder))
            mt_folder_remove(folder, NULL);
        else if (folder) /* perhaps the database was replaced: nothing that was trained is thrown away */
            mt_log(LOG_WARNING, "%s belongs to no job in the database; it is left alone", folder);
    }
    closedir(directory);
}
