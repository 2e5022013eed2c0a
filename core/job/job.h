/* The job document in its typed form.
 *
 * One table (core/job/table.c) says of every key its type, range, default, help and aliases. Validation, the
 * defaults, the JSON Schema and docs/job.md all come from it. A document is checked as a whole: every error
 * is reported at once, each with the JSON pointer of the value that caused it.
 *
 * The *frozen* document is the canonical form: aliases replaced, every default written out, paths absolute.
 * It is what job.json holds, and parsing it again gives the same job. */
#ifndef MT_JOB_JOB_H
#define MT_JOB_JOB_H

#include "core/base/arena.h"
#include "core/base/document.h"
#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mt_job_method {
    MT_JOB_SFT,      /* prompts are read, answers are learnt; plain text is learnt as a whole */
    MT_JOB_PRETRAIN, /* every token is learnt */
    MT_JOB_DPO,      /* not supported yet: never in a parsed job */
};

enum mt_job_dtype {
    MT_JOB_DTYPE_AUTO, /* float32 on the CPU, bfloat16 on a GPU */
    MT_JOB_DTYPE_FLOAT32,
    MT_JOB_DTYPE_BFLOAT16,
};

enum mt_job_overlong { /* what becomes of samples that are longer than max_seq_len */
                       MT_JOB_OVERLONG_TRUNCATE,
                       MT_JOB_OVERLONG_DROP,
                       MT_JOB_OVERLONG_ERROR,
};

enum mt_job_lr_scheduler {
    MT_JOB_LR_CONSTANT,
    MT_JOB_LR_LINEAR,
    MT_JOB_LR_COSINE,
    MT_JOB_LR_WSD,
};

enum mt_job_optimizer_type {
    MT_JOB_ADAMW,
};

enum mt_job_store {
    MT_JOB_STORE_RAM,
    MT_JOB_STORE_NVME,
};

enum mt_job_offload {
    MT_JOB_OFFLOAD_AUTO,
    MT_JOB_OFFLOAD_ON,
    MT_JOB_OFFLOAD_OFF,
};

enum mt_job_recompute {
    MT_JOB_RECOMPUTE_AUTO,
    MT_JOB_RECOMPUTE_ALWAYS,
    MT_JOB_RECOMPUTE_NEVER,
};

struct mt_job_model {
    const char *path;     /* absolute path of a folder or GGUF file, or NULL when training from scratch */
    const char *file;     /* the GGUF file that is meant of the folder `path`, while `download` is still to
                             come: its name, or a word of it; or NULL */
    const char *download; /* Org/Model that is to be fetched to `path` where that is not there; or NULL */
    const char *name;     /* Org/Model; only while planning, where it need not be on this machine */
    const char *architecture; /* "llama": train from scratch; else NULL */
    const char *tokenizer;    /* "bytes", the absolute path of a folder, or NULL: the one in model.path */
    enum mt_job_dtype dtype;  /* what the device computes in */
    /* From scratch: `architecture` and the keys of config.json by their names there (num_hidden_layers, not
     * num_layers), with every default of the family filled in and every relation between them checked, as
     * mt_model_from_keys takes them; vocab_size is absent when it is the tokenizer's. NULL with a path.
     * Borrowed: belongs to the job. */
    const json_t *config;
};

struct mt_job_columns { /* names of columns in the data; NULL: the usual ones */
    const char *prompt, *query, *response, *system, *history, *text;
    const char *messages, *tools, *chosen, *rejected;
};

enum mt_job_formatting {                             /* how a row holds its turns */
                         MT_JOB_FORMATTING_OPEN,     /* not said: what a file's first row looks like */
                         MT_JOB_FORMATTING_ALPACA,   /* columns: prompt, query, response, system, history */
                         MT_JOB_FORMATTING_SHAREGPT, /* a list of turns: {"from": "human", "value": ...} */
                         MT_JOB_FORMATTING_OPENAI,   /* a list of messages: {"role": "user", "content": ...},
                                                        with tool calls */
};

/* Names that a list of turns uses; NULL: the usual ones, and their usual synonyms. */
struct mt_job_tags {
    const char *role, *content;   /* "from" and "value", or "role" and "content" */
    const char *user, *assistant; /* "human" and "gpt", or "user" and "assistant" */
    const char *observation;      /* what a tool answered: "observation", or "tool" */
    const char *function;         /* a call of tools: "function_call", or "function" */
    const char *system;           /* "system" */
};

/* One of several data sets that are trained on together. */
struct mt_job_mix_part {
    const char *name;         /* entry of <dataset_dir>/dataset_info.json, or NULL */
    const char *const *paths; /* absolute; [num_paths], none with a name */
    size_t num_paths;
    double weight;
};

struct mt_job_mix {
    const struct mt_job_mix_part *parts;
    size_t count; /* 0: no mixture */
};

enum mt_job_mix_strategy {
    MT_JOB_MIX_OVER,   /* an epoch ends when every part was seen whole; the others are repeated meanwhile */
    MT_JOB_MIX_UNDER,  /* ... when one of the parts was seen whole; the others go on in the next epoch */
    MT_JOB_MIX_CONCAT, /* every sequence once an epoch; weights do not matter */
};

struct mt_job_dataset {
    const char *name;         /* entry of <dataset_dir>/dataset_info.json, or NULL */
    const char *dataset_dir;  /* absolute */
    const char *const *paths; /* absolute files or folders; [num_paths], none with a name */
    size_t num_paths;
    struct mt_job_mix mix; /* instead of name and paths */
    enum mt_job_mix_strategy mix_strategy;
    enum mt_job_formatting formatting;
    struct mt_job_columns columns;
    struct mt_job_tags tags;
    const char *template; /* a named chat template; NULL: the model's own */
    size_t max_seq_len;   /* tokens */
    bool packing;
    bool group_by_length;
    enum mt_job_overlong overlong;
    bool train_on_prompt;
    double val_size; /* below 1: a share of the samples; else a whole number of them */
};

struct mt_job_training {
    size_t batch_size;                  /* sequences */
    size_t gradient_accumulation_steps; /* at least 1 */
    size_t micro_batch_size;            /* 0: auto */
    size_t max_steps;                   /* 0: num_epochs decides; exactly one of the two is set */
    double num_epochs;                  /* 0: max_steps decides */
    double learning_rate;
    enum mt_job_lr_scheduler lr_scheduler;
    double warmup_ratio;
    double weight_decay;
    double max_grad_norm; /* 0: no clipping */
    uint64_t seed;
    size_t max_skipped_steps;  /* 0: the first non-finite step fails the job */
    const char *const *freeze; /* parameter-name globs; [num_freeze] */
    size_t num_freeze;
};

struct mt_job_optimizer {
    enum mt_job_optimizer_type type;
    double beta1, beta2, eps;
};

struct mt_job_memory {
    enum mt_job_store store;
    size_t num_grad_slabs;
    size_t checkpoint_interval;
    enum mt_job_offload activation_offload;
    enum mt_job_recompute recompute;
    size_t device_limit_bytes; /* cpu-discrete: the device's memory; 0: the device's own default */
    double bus_gbps;           /* cpu-discrete: copies a second, 1e9 bytes; 0: as fast as memory */
    double bus_latency_us;     /* cpu-discrete: added to each copy */
};

struct mt_job_checkpoint {
    size_t every_steps; /* 0: only at the end */
    size_t keep;        /* the final one counts */
};

struct mt_job_distributed {
    const char *backend;
    size_t data_parallel_size, tensor_parallel_size, pipeline_parallel_size;
};

struct mt_job_logging {
    size_t log_interval; /* steps between two lines of plain progress; metrics.jsonl has every step */
    bool trace;          /* a Chrome trace of the run, trace.json in its folder */
};

struct mt_job {
    const char *name;
    enum mt_job_method method;
    struct mt_job_model model;
    struct mt_job_dataset dataset;
    struct mt_job_training training;
    struct mt_job_optimizer optimizer;
    struct mt_job_memory memory;
    struct mt_job_checkpoint checkpoint;
    struct mt_job_distributed distributed;
    struct mt_job_logging logging;
    const char *device; /* "auto", "cpu", "cpu-discrete", "cuda", "cuda:N" */
    int64_t priority;
    const json_t *labels; /* object of strings; borrowed */

    const char *const *notes; /* sentences to show or log: keys without effect and the like; [num_notes] */
    size_t num_notes;

    struct mt_arena *arena; /* owns all of the above */
    json_t *frozen;         /* see mt_job_frozen */
    json_t *config;         /* model.config */
};

/* One thing that is wrong with a document. */
struct mt_job_error {
    const char *pointer;    /* RFC 6901, into the document as the user wrote it: "/training/learning_rate" */
    const char *detail;     /* one sentence */
    const char *suggestion; /* the nearest known key or value, or NULL */
    int line;               /* of the file, or 0 */
    enum mt_reason reason;  /* MT_REASON_BAD_JOB; BAD_DATA or BAD_MODEL where a file is at fault */
};

struct mt_job_errors {
    struct mt_job_error *items;
    size_t count;
    size_t capacity;
    struct mt_arena *arena;
};

void mt_job_errors_free(struct mt_job_errors *errors); /* leaves it empty and usable again */
/* [{"pointer", "detail", "suggestion"?}], as the API answers; new reference, NULL when out of memory. */
json_t *mt_job_errors_json(const struct mt_job_errors *errors);
/* All of them as one message, a line each ("line 3: /training/learning_rat: ..."); returns -EINVAL. The
 * reason is MT_REASON_BAD_JOB unless only files are at fault. */
int mt_job_errors_report(const struct mt_job_errors *errors, struct mt_error *error);

enum mt_job_purpose {
    MT_JOB_RUN,  /* a job that someone wants to run: files are looked for, what is not built yet is refused */
    MT_JOB_PLAN, /* a dry run: neither model nor data nor device need be on this machine */
    MT_JOB_LOAD, /* a frozen document: files are not looked for again (who opens them reports them) */
};

/* Where a document comes from. Zeroed: a document on the command line in the current directory. */
struct mt_job_context {
    enum mt_job_purpose purpose;
    const char *model_base;   /* model.path and model.tokenizer are relative to it; NULL: current directory */
    const char *dataset_base; /* dataset.path and dataset.dataset_dir are; NULL: current directory */
    const char *dataset_dir;  /* default of dataset.dataset_dir; NULL: "data" below dataset_base */
    const char *models_folder; /* model.name is looked for in it; NULL: "models" below model_base */
    const char *hub_cache;     /* and then in this folder of the Hugging Face layout; NULL: not looked for */
    const char *lm_studio;     /* and then in LM Studio's models folder; NULL: not looked for */
    const char *ollama_store;  /* `ollama:NAME:TAG` is looked for in it; NULL: not looked for */
    bool allow_download;       /* model.name may name a model that is fetched to models_folder first */
    bool confined;             /* the API: paths must lie below model_base, dataset_base or one of `roots` */
    const char *const *roots;
    size_t num_roots;
    const char *default_name;     /* of the job; NULL: made of model and data set */
    const struct mt_lines *lines; /* of the file, or NULL */
};

/* Checks `document` and makes a job of it. On failure returns -EINVAL and fills `errors` (which must be
 * zeroed or freed before) with everything that is wrong; -ENOMEM when out of memory, with `errors` empty. */
int mt_job_parse(const json_t *document, const struct mt_job_context *context, struct mt_job **job,
                 struct mt_job_errors *errors);
void mt_job_free(struct mt_job *job); /* NULL is fine */

/* Reads a frozen job.json. Errors: MT_REASON_BAD_JOB, MT_REASON_IO. */
int mt_job_load(const char *path, struct mt_job **job, struct mt_error *error);
/* The frozen document; borrowed. */
const json_t *mt_job_frozen(const struct mt_job *job);
/* The frozen document as indented text, numbers as short as they were written; malloc'd, NULL when out of
 * memory. */
char *mt_job_text(const struct mt_job *job);
/* Writes that to `path`, durably. */
int mt_job_save(const struct mt_job *job, const char *path, struct mt_error *error);
/* Puts the number that "auto" became into the job and its frozen document. -ENOMEM on failure. */
int mt_job_set_micro_batch_size(struct mt_job *job, size_t micro_batch_size);
/* The same with the GGUF file that a download became: model.path, and no model.file any more. */
int mt_job_set_model_file(struct mt_job *job, const char *path);

/* `--set KEY=VALUE`: puts VALUE, read as YAML (`3e-4` a number, `[a, b]` a list), at the dotted KEY of
 * `document`, making the blocks on the way; an empty VALUE takes the key away. What contradicts it goes: the
 * key's other names, num_epochs for max_steps, dataset.name for dataset.path. Errors: MT_REASON_USAGE. */
int mt_job_set(json_t *document, const char *assignment, struct mt_error *error);
/* `--data-path PATH`: dataset.path instead of whatever data the document names. */
int mt_job_set_data_path(json_t *document, const char *path, struct mt_error *error);

/* Makes the paths of a document absolute against the current directory, before it is sent to a daemon that
 * would take them relative to folders of its own. What is no path is left for the daemon to refuse. */
int mt_job_make_absolute(json_t *document, struct mt_error *error);

/* Folder of this user's Ollama store, from OLLAMA_MODELS or HOME; malloc'd, NULL when none is set. */
char *mt_job_ollama_store(void);

/* What a command's --model names: a path that is there, here or below ./models, `ollama:NAME:TAG`, or
 * Org/Model, or Org/Model:FILE (model.file), in ./models, this user's hub cache or LM Studio's folder; else
 * the text as it is. Of a folder that holds one GGUF model and no safetensors, that file. malloc'd. Errors:
 * MT_REASON_BAD_MODEL, MT_REASON_BAD_JOB. */
int mt_job_find_model(const char *text, char **path, struct mt_error *error);

/* The models folder of this user's LM Studio, below HOME; malloc'd, NULL when there is none. */
char *mt_job_lm_studio(void);

/* Folder of the Hugging Face hub cache of this user, from HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or HOME;
 * malloc'd, NULL when none is set. */
char *mt_job_hub_cache(void);

/* JSON Schema (2020-12) of the document; new reference, NULL when out of memory. */
json_t *mt_job_schema(void);
/* The same for people, in Markdown: docs/job.md. malloc'd, NULL when out of memory. */
char *mt_job_markdown(void);

#endif
