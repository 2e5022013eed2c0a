/* A job's log as a stream: to its end, or, followed, until the job has ended. */
#ifndef MT_API_LOG_STREAM_H
#define MT_API_LOG_STREAM_H

#include "api/control.h"
#include "api/rows.h"
#include "api/watch.h"

#include <stdbool.h>

/* Takes `rows` over (and leaves it empty), where it stands. `plain`: one line a message for people, else one
 * JSON row a line. 0 or -ENOMEM. */
int mt_log_stream_new(const struct mt_control *control, const char *id, struct mt_rows *rows, bool plain,
                      bool follow, struct mt_stream *stream);

#endif
