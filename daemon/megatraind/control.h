/* The daemon's side of api/control.h. Its functions run in the API's threads. */
#ifndef MT_MEGATRAIND_CONTROL_H
#define MT_MEGATRAIND_CONTROL_H

#include "api/control.h"
#include "core/job/job.h"
#include "daemon/megatraind/daemon.h"

/* Fills the table; it borrows the daemon. */
void mt_control_fill(struct mt_control *control, struct mt_daemon *daemon);

/* The parts of it that have files of their own. */
enum mt_control_result mt_submit(void *context, const struct mt_control_submission *submission,
                                 const struct mt_control_client *client, json_t **job, json_t **errors,
                                 struct mt_error *error);
json_t *mt_snapshot(void *context);
enum mt_control_result mt_plan(void *context, const json_t *document, const json_t *machine,
                               const struct mt_control_client *client, json_t **plan, json_t **errors,
                               struct mt_error *error);

enum mt_control_result mt_preview(void *context, const json_t *document,
                                  const struct mt_control_preview *wish,
                                  const struct mt_control_client *client, json_t **preview, json_t **errors,
                                  struct mt_error *error);

enum mt_control_result mt_devices(void *context, const struct mt_control_client *client, json_t **devices,
                                  struct mt_error *error);
enum mt_control_result mt_models(void *context, const struct mt_control_client *client, json_t **models,
                                 struct mt_error *error);

/* A posted document, with paths relative to the state folder and kept below it and the configured roots. As
 * mt_job_parse. */
int mt_control_parse(const struct mt_daemon *daemon, const json_t *document, enum mt_job_purpose purpose,
                     struct mt_job **job, struct mt_job_errors *errors);
/* INVALID with what was found, which is freed. */
enum mt_control_result mt_control_refuse(struct mt_job_errors *found, json_t **errors,
                                         struct mt_error *error);

/* What a negative errno of the queue means to a client. */
enum mt_control_result mt_control_result_of(int code);

#endif
