/* `megatrain plan`: what a job takes and how long its steps last, without running it. */
#include "core/plan/plan.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/formats/gguf.h"
#include "core/job/model_folder.h"
#include "core/job/ollama.h"
#include "core/plan/device.h"
#include "core/plan/preset.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/job_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
    "Usage: megatrain plan JOB|MODEL [--set KEY=VALUE]... [--gpu-memory 24G] [--host-memory 128G]\n"
    "       [--bus-gbps 24] [--device-tflops 160] [--dram-gbps 70] [--json]\n"
    "\n"
    "Runs the job dry: the real allocations and the real schedule of a step, with nothing behind them. "
    "Neither\n"
    "weights nor data nor the machine need be there. JOB is a job document; MODEL the name of a preset\n"
    "(`megatrain plan --presets` lists them), a GGUF file or a Hugging Face folder, trained with the "
    "default\n"
    "settings.\n"
    "\n"
    "  --set KEY=VALUE       a value of the document by its dotted key, as often as needed\n"
    "  --gpu-memory SIZE     plan for a GPU with so much memory (24G, 80GiB)\n"
    "  --host-memory SIZE    host memory that the job may use; without: what this machine and its control\n"
    "                        groups allow\n"
    "  --bus-gbps N          copies between host and device, each direction, in 1e9 bytes a second\n"
    "  --bus-latency-us N    added to each copy, in microseconds\n"
    "  --device-tflops N     matrix products that the device reaches, in 1e12 a second\n"
    "  --device-gbps N       the device's own memory\n"
    "  --dram-gbps N         the host's memory\n"
    "  --json                the plan as JSON\n"
    "  --presets             list the models that can be planned by name\n"
    "\n"
    "Rates that are not given are measured on a CPU, and assumed for a GPU.\n"
    "\n"
    "Examples:\n"
    "  megatrain plan job.yaml\n"
    "  megatrain plan llama-3.1-8b --gpu-memory 24G --host-memory 128G --bus-gbps 25 --device-tflops 160\n"
    "  megatrain plan job.yaml --gpu-memory 12G --set training.batch_size=16 --json\n"
    "\n"
    "Exit: 0 it fits, 70 it does not, 64 usage, 65 a model that is not known yet, 78 bad job document.\n";

enum {
    OPTION_JSON = 256,
    OPTION_PRESETS,
    OPTION_MACHINE, /* and those after it: machine_keys */
};

/* As core/plan/machine.h has them. */
static const struct {
    const char *key;
    bool is_size;
} machine_keys[] = {
    {"gpu_memory", true},     {"host_memory", true},  {"bus_gbps", false},  {"bus_latency_us", false},
    {"device_tflops", false}, {"device_gbps", false}, {"dram_gbps", false},
};

static const struct option long_options[] = {
    {"set", required_argument, NULL, MT_JOB_OPTION_SET},
    {"json", no_argument, NULL, OPTION_JSON},
    {"presets", no_argument, NULL, OPTION_PRESETS},
    {"gpu-memory", required_argument, NULL, OPTION_MACHINE},
    {"host-memory", required_argument, NULL, OPTION_MACHINE + 1},
    {"bus-gbps", required_argument, NULL, OPTION_MACHINE + 2},
    {"bus-latency-us", required_argument, NULL, OPTION_MACHINE + 3},
    {"device-tflops", required_argument, NULL, OPTION_MACHINE + 4},
    {"device-gbps", required_argument, NULL, OPTION_MACHINE + 5},
    {"dram-gbps", required_argument, NULL, OPTION_MACHINE + 6},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct command {
    struct mt_job_file job; /* its file may be the name of a model */
    json_t *machine;        /* as mt_plan_wish_from_json reads it */
    bool json, presets, help;
};

/* "24G" or "160": a size stays text. 0, or the exit code after a complaint. */
static int take_machine(struct command *command, size_t number)
{
    char *end;
    const double rate = strtod(optarg, &end);
    json_t *value = machine_keys[number].is_size    ? json_string(optarg)
                    : end != optarg && *end == '\0' ? json_real(rate)
                                                    : json_null();
    return json_object_set_new(command->machine, machine_keys[number].key, value) == 0
               ? 0
               : mt_cli_usage("plan", "the value \"%.50s\" cannot be read", optarg);
}

static int parse(int argc, char **argv, struct command *command)
{
    command->machine = json_object();
    int code;
    for (int option; (option = mt_cli_option(argc, argv, "h", long_options)) != -1;) {
        if (option >= OPTION_MACHINE) {
            code = take_machine(command, (size_t)(option - OPTION_MACHINE));
            if (code)
                return code;
            continue;
        }
        switch (option) {
        case OPTION_JSON:
            command->json = true;
            break;
        case OPTION_PRESETS:
            command->presets = true;
            break;
        case 'h':
            command->help = true;
            return 0;
        default:
            code = mt_job_file_option(&command->job, "plan", option, optarg);
            if (code)
                return code;
        }
    }
    if (command->presets)
        return 0;
    if (optind == argc)
        return mt_cli_usage("plan", "give a job document or the name of a model");
    command->job.file = argv[optind++];
    return optind == argc ? 0 : mt_cli_usage("plan", "one job at a time; what is \"%.100s\"?", argv[optind]);
}

/* ---- the job ---- */

/* A job that only names a model: the default settings, on data that nobody looks at. */
static json_t *document_of_model(const char *key, const char *model)
{
    return json_pack("{s:{s:s}, s:{s:s}}", "model", key, model, "dataset", "path", "data");
}

static bool is_model_folder(const char *path)
{
    mt_autofree char *config = mt_path_join(path, "config.json");
    mt_autofree char *gguf = NULL;
    return (config && access(config, R_OK) == 0) || mt_gguf_in_folder(path, NULL, &gguf, NULL) < 0 || gguf;
}

static int read_job(const struct command *command, struct mt_job **job)
{
    struct mt_job_file from = command->job;
    mt_autojson json_t *document = NULL;
    struct stat status;
    if (mt_is_ollama(from.file) || mt_gguf_is(from.file) || is_model_folder(from.file)) {
        document = document_of_model("path", from.file);
    } else if (stat(from.file, &status) != 0 || S_ISDIR(status.st_mode)) {
        const size_t bytes = strlen(from.file);
        if (strchr(from.file, '/') == NULL && bytes > 5 &&
            (strcmp(from.file + bytes - 5, ".yaml") == 0 || strcmp(from.file + bytes - 5, ".json") == 0)) {
            mt_cli_complain("there is no file %s", from.file);
            return mt_reason_exit_code(MT_REASON_BAD_JOB);
        }
        document = document_of_model("name", from.file);
    }
    from.document = document;
    return mt_job_file_parse(&from, MT_JOB_PLAN, "plan", job);
}

/* ---- printing ---- */

static const char *size(size_t bytes, char text[32])
{
    return mt_size_format(bytes, text, 32);
}

static void print_part(const char *name, size_t bytes)
{
    char text[32];
    if (bytes)
        printf("    %-28s %12s\n", name, size(bytes, text));
}

static void print_memory(const struct mt_plan *plan)
{
    const struct mt_executor_memory *memory = &plan->memory;
    char all[32], limit[32];
    printf("\n  device memory (%s)%*s %12s of %s%s\n", plan->machine.kind,
           (int)(13 - strlen(plan->machine.kind)), "", size(plan->device_bytes, all),
           size(plan->machine.device_bytes - plan->machine.reserved_bytes, limit),
           plan->device_fits ? "" : "   does not fit");
    print_part("layers on their way in", memory->device.weights);
    print_part("gradients on their way out", memory->device.gradients);
    print_part("a layer's activations", memory->device.activations);
    print_part("between the layers", memory->device.boundaries);
    print_part("head and loss", memory->device.head);
    print_part("tables and tokens", memory->device.tables);
    print_part("operations' scratch", plan->device_bytes - memory->device.total);
    printf("  host memory%*s %12s of %s%s\n", 19, "", size(plan->host_bytes, all),
           size(plan->machine.host_bytes, limit), plan->host_fits ? "" : "   does not fit");
    print_part("parameters", plan->store.master);
    print_part("Adam's moments", plan->store.moments);
    print_part("gradients", plan->store.gradients + memory->host.gradients);
    print_part("layers' inputs", memory->host.boundaries);
    print_part("staging", memory->host.staging);
    print_part("the device's memory", plan->machine.borrows_memory ? plan->device_bytes : 0);
    printf("  disk%*s %12s (%zu checkpoints of %s, and one being written)\n", 26, "",
           size(plan->checkpoint_bytes * (plan->num_checkpoints + 1), all), plan->num_checkpoints,
           size(plan->checkpoint_bytes, limit));
}

static void print_time(const struct mt_plan *plan)
{
    const struct mt_plan_rates *rates = &plan->machine.rates;
    char in[32], out[32];
    printf("\n  a step%*s %10.3g s   (rates %s: device %.3g TFLOP/s, %.4g GB/s; bus %.3g GB/s; host memory "
           "%.3g GB/s)\n",
           24, "", plan->step_seconds, plan->machine.rates_source, rates->device_flops / 1e12,
           rates->device_bytes_per_second / 1e9, rates->bus_bytes_per_second / 1e9,
           rates->memory_bytes_per_second / 1e9);
    for (size_t i = 0; i < MT_NUM_STAGES; i++)
        if (plan->stages[i] > 0)
            printf("    %-28s %10.3g s%s\n", mt_plan_stage_name((enum mt_stage)i), plan->stages[i],
                   i == (size_t)plan->bound_by ? "   bounds the step" : "");
    printf("  tokens a second%*s %12.4g\n", 15, "", plan->tokens_per_second);
    printf("  over the bus a step%*s %12s in, %s out\n", 11, "", size(plan->bus_in, in),
           size(plan->bus_out, out));
    printf("  FLOPs a step%*s %12.3g\n", 18, "", plan->flops);
}

static void print_plan(const struct command *command, const struct mt_plan *plan)
{
    printf("%s: %s\n\n", command->job.file, plan->fits ? "fits" : "does not fit");
    printf("  parameters%*s %12zu%s\n", 20, "", plan->parameters,
           plan->compute_dtype == MT_BF16 ? " (computed in bfloat16, kept in full precision)" : "");
    if (plan->trainable_parameters != plan->parameters)
        printf("  trained%*s %12zu\n", 23, "", plan->trainable_parameters);
    printf("  tokens a step%*s %12zu (%zu sequences)\n", 17, "", plan->tokens_per_step,
           plan->sequences_per_step);
    printf("  sequences at a time%*s %12zu (at most %zu fit)\n", 11, "", plan->micro_batch_size,
           plan->largest_micro_batch_size);
    printf("  layers visited together%*s %12zu", 7, "", plan->checkpoint_interval);
    if (plan->fits && plan->checkpoint_interval < plan->asked_interval)
        printf(" (lowered: memory.checkpoint_interval: %zu does not fit)", plan->asked_interval);
    printf("\n");
    if (plan->head_pieces > 1)
        printf("  output matrix in pieces%*s %12zu (it does not fit as a whole)\n", 7, "", plan->head_pieces);
    print_memory(plan);
    print_time(plan);
    if (!plan->fits)
        printf("\n%s.\n", plan->problem);
}

/* Settings that change no size and that nobody has compared with a published file. */
static void print_unconfirmed(const json_t *preset)
{
    const json_t *keys = json_object_get(preset, "unconfirmed");
    size_t i;
    json_t *key;
    json_array_foreach(keys, i, key) printf("%s%s", i ? ", " : "  (not confirmed: ", json_string_value(key));
    puts(i ? ")" : "");
}

static int print_presets(const char *folder)
{
    mt_autojson json_t *list = mt_preset_list(folder);
    size_t i;
    json_t *name;
    int code = 0;
    if (!list) {
        mt_cli_complain("no folder of presets was found; MEGATRAIN_PRESETS names one");
        return 66;
    }
    json_array_foreach(list, i, name)
    {
        mt_autojson json_t *preset = NULL;
        struct mt_error error = {0};
        fputs(json_string_value(name), stdout);
        if (mt_preset_read(folder, json_string_value(name), &preset, &error) < 0) {
            mt_cli_complain("%s", error.message);
            code = 65;
        }
        print_unconfirmed(preset);
    }
    return code;
}

static int run(const struct command *command, const char *presets)
{
    struct mt_error error = {0};
    struct mt_plan_wish wish;
    struct mt_plan_machine machine;
    struct mt_plan plan;
    struct mt_job *job = NULL;
    if (mt_plan_wish_from_json(command->machine, &wish, &error) < 0)
        return mt_cli_usage("plan", "%.400s", error.message);
    int code = read_job(command, &job);
    if (code)
        return code;
    int r = mt_plan_machine_choose(job, &wish, true, &machine, &error);
    r = r ? r : mt_plan_make(job, &machine, presets, &plan, &error);
    mt_job_free(job);
    if (r)
        return mt_cli_fail(&error);
    if (command->json) {
        mt_autojson json_t *json = mt_plan_json(&plan);
        mt_autofree char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
        puts(text ? text : "{}");
    } else {
        print_plan(command, &plan);
    }
    return plan.fits ? 0 : mt_reason_exit_code(MT_REASON_OUT_OF_MEMORY);
}

int mt_cli_plan(int argc, char **argv)
{
    struct command command = {0};
    mt_autofree char *presets = mt_preset_folder();
    int code = parse(argc, argv, &command);
    if (code == 0 && command.help)
        fputs(usage, stdout);
    else if (code == 0 && command.presets)
        code = print_presets(presets);
    else if (code == 0 && command.job.file)
        code = run(&command, presets);
    json_decref(command.machine);
    return code;
}
