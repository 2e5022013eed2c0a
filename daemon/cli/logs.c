/* `megatrain logs`: a job's log, to its end or on and on. */
#include "core/base/cleanup.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/client.h"
#include "daemon/cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] = "Usage: megatrain logs ID [--follow] [--json]\n"
                           "\n"
                           "Prints the log of a job. `last` stands for the newest one.\n"
                           "\n"
                           "  -f, --follow   go on until the job has ended\n"
                           "  --json         one JSON object a line\n";

/* Standard output, with control characters taken out where it is a terminal. */
static bool print_piece(void *context, const char *data, size_t bytes)
{
    const bool *terminal = context;
    char *copy = *terminal ? malloc(bytes) : NULL;
    if (copy) {
        memcpy(copy, data, bytes);
        mt_text_make_safe(copy, bytes, "\n\t");
    }
    bool written = fwrite(copy ? copy : data, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
    free(copy);
    return written;
}

int mt_cli_logs(int argc, char **argv)
{
    static const struct option options[] = {{"follow", no_argument, NULL, 'f'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bool follow = false, as_json = false, terminal = isatty(STDOUT_FILENO);
    for (int letter; (letter = mt_cli_option(argc, argv, "hf", options)) != -1;) {
        if (letter == 'h')
            return fputs(help, stdout), 0;
        if (letter == '?')
            return 64;
        follow |= letter == 'f';
        as_json |= letter == 'j';
    }
    if (optind + 1 != argc)
        return mt_cli_usage(argv[0], "give the id of one job");
    struct mt_error error = {0};
    struct mt_client *client;
    struct mt_response response = {0};
    int code = 0;
    if (mt_client_open(&client, &error) < 0)
        return mt_cli_fail(&error);
    mt_autofree char *path =
        mt_client_job_path(client, argv[optind], follow ? "/logs?follow=1" : "/logs", &code);
    const struct mt_request request = {.method = "GET",
                                       .path = path,
                                       .accept = as_json ? "application/x-ndjson" : "text/plain",
                                       .sink = print_piece,
                                       .context = &terminal};
    if (path)
        code = mt_client_call(client, &request, &response);
    mt_response_free(&response);
    mt_client_close(client);
    return code;
}
