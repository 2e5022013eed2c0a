/* What the subcommands of `megatrain` share. Each one is a function int mt_cli_<name>(argc, argv), argv[0]
 * the subcommand's name, that returns the exit code; main.c has the table of them. */
#ifndef MT_CLI_CLI_H
#define MT_CLI_CLI_H

#include "core/base/document.h"
#include "core/base/error.h"
#include "core/job/job.h"

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Exit codes beside those of mt_reason_exit_code (64 usage, 65 data or model, 70 failed, 74 I/O, 75 stopped
 * and resumable, 78 bad job document). */
#define MT_EXIT_CONFLICT 1     /* the job's state forbids the action; watch: the job was cancelled */
#define MT_EXIT_NOT_FOUND 66   /* no such job */
#define MT_EXIT_UNAVAILABLE 69 /* the daemon does not answer */
#define MT_EXIT_DENIED 77      /* the daemon wants another token */

/* "megatrain: ..." on standard error. */
void mt_cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Complains with the error's sentence; returns its exit code: MT_EXIT_UNAVAILABLE for -ECONNREFUSED, else
 * that of its reason. */
int mt_cli_fail(const struct mt_error *error);
/* Complains, points to --help; returns 64. */
int mt_cli_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* getopt_long with messages of the same form as all others: the option's letter, -1 at the end, '?' after a
 * complaint. `options` ends with zeros; "help" is recognised by itself: 'h'. */
int mt_cli_option(int argc, char **argv, const char *letters, const struct option *options);
/* A whole number in [minimum, maximum]; false after a complaint. */
bool mt_cli_number(const char *option, const char *text, long minimum, long maximum, long *number);

/* What --model names: as mt_job_find_model has it, and of the folder of a run or job its final checkpoint,
 * else its newest one; or the id of a job, whose newest checkpoint the daemon tells. malloc'd; what is
 * nowhere is an error. Errors: MT_REASON_BAD_MODEL, MT_REASON_BAD_JOB; -ECONNREFUSED, MT_REASON_IO where no
 * daemon answers. */
int mt_cli_find_model(const char *text, char **path, struct mt_error *error);
/* Whether the model of a checkpoint is as it was written, by its manifest; of what has none nothing is known.
 * Errors: MT_REASON_BAD_MODEL, naming the file. */
int mt_cli_check_model(const char *path, struct mt_error *error);

/* How to ask the model in a checkpoint, for the end of a run. */
void mt_cli_tell_how_to_ask(FILE *out, const char *checkpoint);

int mt_cli_train(int argc, char **argv);
int mt_cli_data(int argc, char **argv);
int mt_cli_plan(int argc, char **argv);
int mt_cli_generate(int argc, char **argv);
int mt_cli_tokenize(int argc, char **argv);
int mt_cli_render(int argc, char **argv);
int mt_cli_schema(int argc, char **argv);
int mt_cli_inspect(int argc, char **argv);
int mt_cli_models(int argc, char **argv);
int mt_cli_devices(int argc, char **argv);
int mt_cli_submit(int argc, char **argv);
int mt_cli_jobs(int argc, char **argv);
int mt_cli_show(int argc, char **argv);
int mt_cli_watch(int argc, char **argv);
int mt_cli_logs(int argc, char **argv);
int mt_cli_cancel(int argc, char **argv);
int mt_cli_pause(int argc, char **argv);
int mt_cli_resume(int argc, char **argv);
int mt_cli_checkpoint(int argc, char **argv);
int mt_cli_delete(int argc, char **argv);

#endif
