/* Logging to standard error, one line a message, with a syslog priority prefix ("<6>") that journald reads
 * where standard error is the journal ($JOURNAL_STREAM set), and without it elsewhere. Only programs log;
 * core/ reports through struct mt_error or callbacks. Thread-safe. */
#ifndef MT_BASE_LOG_H
#define MT_BASE_LOG_H

#include <syslog.h> /* LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG */

void mt_log(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_log_set_level(int max_priority); /* LOG_INFO at the start */

/* "error", "warning", "info", "debug", as log.jsonl has it in `level`. */
const char *mt_log_level_name(int priority);
int mt_log_level_parse(const char *name); /* -1 when unknown */

#endif
