/* `megatrain devices`: what this machine, or the daemon's, computes on. */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/device/list.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/client.h"
#include "daemon/cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: megatrain devices [--json]\n"
    "\n"
    "Lists the devices that a job's `device` may name: those of this machine, or of the daemon's where\n"
    "MEGATRAIN_URL is set. What cannot be used says why.\n"
    "\n"
    "  --json   the list as the API gives it\n"
    "\n"
    "  megatrain devices\n"
    "  MEGATRAIN_URL=http://127.0.0.1:8642 megatrain devices --json | jq -r '.data[].name'\n";

static int from_daemon(json_t **list)
{
    struct mt_client *client;
    struct mt_error error = {0};
    struct mt_response response = {0};
    if (mt_client_open(&client, &error) < 0)
        return mt_cli_fail(&error);
    const int code =
        mt_client_call(client, &(struct mt_request){.method = "GET", .path = "/devices"}, &response);
    if (code == 0)
        *list = json_incref(response.json);
    mt_response_free(&response);
    mt_client_close(client);
    return code;
}

static void add_device(struct mt_table *table, const json_t *device)
{
    char total[32] = "-", available[32] = "-", link[32] = "-";
    const json_t *pcie = json_object_get(device, "pcie");
    const json_int_t total_bytes = json_integer_value(json_object_get(device, "total_bytes"));
    if (total_bytes > 0) {
        mt_size_format((size_t)total_bytes, total, sizeof total);
        mt_size_format((size_t)json_integer_value(json_object_get(device, "free_bytes")), available,
                       sizeof available);
    }
    if (json_is_object(pcie))
        snprintf(link, sizeof link, "PCIe %lld x%lld",
                 (long long)json_integer_value(json_object_get(pcie, "generation")),
                 (long long)json_integer_value(json_object_get(pcie, "lanes")));
    const char *const cells[] = {json_string_value(json_object_get(device, "id")),
                                 json_string_value(json_object_get(device, "name")),
                                 json_is_true(json_object_get(device, "usable")) ? "yes" : "no",
                                 total,
                                 available,
                                 json_string_value(json_object_get(device, "compute_capability")),
                                 link};
    mt_table_add(table, cells);
}

static void print_list(const json_t *list)
{
    struct mt_table table = {.num_columns = 7,
                             .titles = {"DEVICE", "NAME", "USABLE", "MEMORY", "FREE", "CAPABILITY", "LINK"}};
    const json_t *cuda = json_object_get(list, "cuda"), *device;
    const char *versions = json_string_value(json_object_get(cuda, "versions"));
    const char *unavailable = json_string_value(json_object_get(cuda, "unavailable"));
    size_t i;
    json_array_foreach(json_object_get(list, "data"), i, device) add_device(&table, device);
    mt_table_print(&table, stdout);
    mt_table_free(&table);
    json_array_foreach(json_object_get(list, "data"), i, device)
    {
        const char *reason = json_string_value(json_object_get(device, "reason"));
        if (reason)
            printf("%s: %s\n", json_string_value(json_object_get(device, "id")), reason);
    }
    if (unavailable)
        printf("CUDA: %s\n", unavailable);
    else if (versions)
        printf("CUDA: %s\n", versions);
}

int mt_cli_devices(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool json = false;
    for (int letter; (letter = mt_cli_option(argc, argv, "h", options)) != -1;) {
        if (letter == 'h')
            return fputs(help, stdout), 0;
        if (letter == '?')
            return 64;
        json = json || letter == 'j';
    }
    if (optind < argc)
        return mt_cli_usage(argv[0], "unexpected argument \"%s\"", argv[optind]);
    const char *url = getenv("MEGATRAIN_URL");
    mt_autojson json_t *list = NULL;
    const int code = url && *url ? from_daemon(&list) : ((list = mt_device_list()), 0);
    if (code)
        return code;
    mt_autofree char *text = json && list ? json_dumps(list, JSON_INDENT(2)) : NULL;
    if (!list || (json && !text)) {
        mt_cli_complain("out of memory");
        return 70;
    }
    if (json)
        puts(text);
    else
        print_list(list);
    return ferror(stdout) || fflush(stdout) == EOF ? 74 : 0;
}
