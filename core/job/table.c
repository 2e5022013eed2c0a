/* Every key of the job document, in the order in which the documentation shows them. To add a key: a line
 * here and a field in job.h; validation, defaults, schema and docs/job.md follow. */
#include "core/job/table.h"

#include "core/job/job.h"

static const struct mt_job_choice methods[] = {
    {"sft", MT_JOB_SFT, MT_JOB_CHOICE_NOW},
    {"pretrain", MT_JOB_PRETRAIN, MT_JOB_CHOICE_NOW},
    {"dpo", MT_JOB_DPO, MT_JOB_CHOICE_LATER},
    {NULL, 0, 0},
};

/* The families of core/model's table, by model_type; tests/unit/model/test_families.c compares. */
static const struct mt_job_choice architectures[] = {
    {"llama", 0, MT_JOB_CHOICE_NOW},
    {"LlamaForCausalLM", 0, MT_JOB_CHOICE_ALIAS},
    {"apertus", 1, MT_JOB_CHOICE_NOW},
    {"arcee", 2, MT_JOB_CHOICE_NOW},
    {"baichuan", 3, MT_JOB_CHOICE_NOW},
    {"biogpt", 4, MT_JOB_CHOICE_NOW},
    {"bitnet", 5, MT_JOB_CHOICE_NOW},
    {"bloom", 6, MT_JOB_CHOICE_NOW},
    {"chatglm", 7, MT_JOB_CHOICE_NOW},
    {"codegen", 8, MT_JOB_CHOICE_NOW},
    {"cohere", 9, MT_JOB_CHOICE_NOW},
    {"cohere2", 10, MT_JOB_CHOICE_NOW},
    {"ctrl", 11, MT_JOB_CHOICE_NOW},
    {"cwm", 12, MT_JOB_CHOICE_NOW},
    {"ernie4_5", 13, MT_JOB_CHOICE_NOW},
    {"exaone", 14, MT_JOB_CHOICE_NOW},
    {"exaone4", 15, MT_JOB_CHOICE_NOW},
    {"falcon", 16, MT_JOB_CHOICE_NOW},
    {"gemma", 17, MT_JOB_CHOICE_NOW},
    {"gemma2", 18, MT_JOB_CHOICE_NOW},
    {"gemma3_text", 19, MT_JOB_CHOICE_NOW},
    {"gemma4_text", 20, MT_JOB_CHOICE_NOW},
    {"glm", 21, MT_JOB_CHOICE_NOW},
    {"glm4", 22, MT_JOB_CHOICE_NOW},
    {"gpt2", 23, MT_JOB_CHOICE_NOW},
    {"gpt_bigcode", 24, MT_JOB_CHOICE_NOW},
    {"gpt_neo", 25, MT_JOB_CHOICE_NOW},
    {"gpt_neox", 26, MT_JOB_CHOICE_NOW},
    {"gpt_neox_japanese", 27, MT_JOB_CHOICE_NOW},
    {"gptj", 28, MT_JOB_CHOICE_NOW},
    {"granite", 29, MT_JOB_CHOICE_NOW},
    {"helium", 30, MT_JOB_CHOICE_NOW},
    {"hunyuan_v1_dense", 31, MT_JOB_CHOICE_NOW},
    {"hyperclovax", 32, MT_JOB_CHOICE_NOW},
    {"internlm2", 33, MT_JOB_CHOICE_NOW},
    {"internlm3", 34, MT_JOB_CHOICE_NOW},
    {"iquestcoder", 35, MT_JOB_CHOICE_NOW},
    {"jais2", 36, MT_JOB_CHOICE_NOW},
    {"ministral", 37, MT_JOB_CHOICE_NOW},
    {"ministral3", 38, MT_JOB_CHOICE_NOW},
    {"mistral", 39, MT_JOB_CHOICE_NOW},
    {"mpt", 40, MT_JOB_CHOICE_NOW},
    {"nanochat", 41, MT_JOB_CHOICE_NOW},
    {"nemotron", 42, MT_JOB_CHOICE_NOW},
    {"olmo", 43, MT_JOB_CHOICE_NOW},
    {"olmo2", 44, MT_JOB_CHOICE_NOW},
    {"olmo3", 45, MT_JOB_CHOICE_NOW},
    {"openai-gpt", 46, MT_JOB_CHOICE_NOW},
    {"opt", 47, MT_JOB_CHOICE_NOW},
    {"persimmon", 48, MT_JOB_CHOICE_NOW},
    {"phi", 49, MT_JOB_CHOICE_NOW},
    {"phi3", 50, MT_JOB_CHOICE_NOW},
    {"qwen2", 51, MT_JOB_CHOICE_NOW},
    {"qwen3", 52, MT_JOB_CHOICE_NOW},
    {"seed_oss", 53, MT_JOB_CHOICE_NOW},
    {"smollm3", 54, MT_JOB_CHOICE_NOW},
    {"stablelm", 55, MT_JOB_CHOICE_NOW},
    {"starcoder2", 56, MT_JOB_CHOICE_NOW},
    {"vaultgemma", 57, MT_JOB_CHOICE_NOW},
    {"xglm", 58, MT_JOB_CHOICE_NOW},
    {"gemma3", 59, MT_JOB_CHOICE_LATER},
    {"glm4_moe", 60, MT_JOB_CHOICE_LATER},
    {"gpt_oss", 61, MT_JOB_CHOICE_LATER},
    {"mixtral", 62, MT_JOB_CHOICE_LATER},
    {"qwen2_moe", 63, MT_JOB_CHOICE_LATER},
    {"qwen3_moe", 64, MT_JOB_CHOICE_LATER},
    {"qwen3_next", 65, MT_JOB_CHOICE_LATER},
    {NULL, 0, 0},
};

static const struct mt_job_choice dtypes[] = {
    {"auto", MT_JOB_DTYPE_AUTO, MT_JOB_CHOICE_NOW},
    {"float32", MT_JOB_DTYPE_FLOAT32, MT_JOB_CHOICE_NOW},
    {"fp32", MT_JOB_DTYPE_FLOAT32, MT_JOB_CHOICE_ALIAS},
    {"bfloat16", MT_JOB_DTYPE_BFLOAT16, MT_JOB_CHOICE_NOW},
    {"bf16", MT_JOB_DTYPE_BFLOAT16, MT_JOB_CHOICE_ALIAS},
    {NULL, 0, 0},
};

static const struct mt_job_choice overlongs[] = {
    {"truncate", MT_JOB_OVERLONG_TRUNCATE, MT_JOB_CHOICE_NOW},
    {"drop", MT_JOB_OVERLONG_DROP, MT_JOB_CHOICE_NOW},
    {"error", MT_JOB_OVERLONG_ERROR, MT_JOB_CHOICE_NOW},
    {NULL, 0, 0},
};

static const struct mt_job_choice mix_strategies[] = {
    {"interleave_over", MT_JOB_MIX_OVER, MT_JOB_CHOICE_NOW},
    {"interleave_under", MT_JOB_MIX_UNDER, MT_JOB_CHOICE_NOW},
    {"concat", MT_JOB_MIX_CONCAT, MT_JOB_CHOICE_NOW},
    {NULL, 0, 0},
};

static const struct mt_job_choice formattings[] = {
    {"alpaca", MT_JOB_FORMATTING_ALPACA, MT_JOB_CHOICE_NOW},
    {"sharegpt", MT_JOB_FORMATTING_SHAREGPT, MT_JOB_CHOICE_NOW},
    {"openai", MT_JOB_FORMATTING_OPENAI, MT_JOB_CHOICE_NOW},
    {NULL, 0, 0},
};

static const struct mt_job_choice lr_schedulers[] = {
    {"constant", MT_JOB_LR_CONSTANT, MT_JOB_CHOICE_NOW},
    {"linear", MT_JOB_LR_LINEAR, MT_JOB_CHOICE_NOW},
    {"cosine", MT_JOB_LR_COSINE, MT_JOB_CHOICE_NOW},
    {"wsd", MT_JOB_LR_WSD, MT_JOB_CHOICE_NOW},
    {NULL, 0, 0},
};

static const struct mt_job_choice optimizers[] = {
    {"adamw", MT_JOB_ADAMW, MT_JOB_CHOICE_NOW},
    {"deepspeed_adam", MT_JOB_ADAMW, MT_JOB_CHOICE_ALIAS},
    {"adamw_8bit", 1, MT_JOB_CHOICE_LATER},
    {"adafactor", 2, MT_JOB_CHOICE_LATER},
    {"lion", 3, MT_JOB_CHOICE_LATER},
    {"muon", 4, MT_JOB_CHOICE_LATER},
    {"sgd", 5, MT_JOB_CHOICE_LATER},
    {NULL, 0, 0},
};

static const struct mt_job_choice stores[] = {
    {"ram", MT_JOB_STORE_RAM, MT_JOB_CHOICE_NOW},
    {"nvme", MT_JOB_STORE_NVME, MT_JOB_CHOICE_LATER},
    {NULL, 0, 0},
};

static const struct mt_job_choice offloads[] = {
    {"auto", MT_JOB_OFFLOAD_AUTO, MT_JOB_CHOICE_NOW},
    {"on", MT_JOB_OFFLOAD_ON, MT_JOB_CHOICE_NOW},
    {"off", MT_JOB_OFFLOAD_OFF, MT_JOB_CHOICE_NOW},
    {NULL, 0, 0},
};

static const struct mt_job_choice recomputes[] = {
    {"auto", MT_JOB_RECOMPUTE_AUTO, MT_JOB_CHOICE_NOW},
    {"always", MT_JOB_RECOMPUTE_ALWAYS, MT_JOB_CHOICE_NOW},
    {"never", MT_JOB_RECOMPUTE_NEVER, MT_JOB_CHOICE_NOW},
    {NULL, 0, 0},
};

static const struct mt_job_choice devices[] = {
    {"auto", 0, MT_JOB_CHOICE_NOW}, {"cpu", 1, MT_JOB_CHOICE_NOW},    {"cpu-discrete", 2, MT_JOB_CHOICE_NOW},
    {"cuda", 3, MT_JOB_CHOICE_NOW}, {"cuda:N", 4, MT_JOB_CHOICE_NOW}, {NULL, 0, 0},
};

static const struct mt_job_choice backends[] = {
    {"nccl", 0, MT_JOB_CHOICE_NOW},
    {NULL, 0, 0},
};

static const struct mt_job_choice activations[] = {
    {"silu", 0, MT_JOB_CHOICE_NOW},
    {"swish", 0, MT_JOB_CHOICE_ALIAS},
    {"gelu", 1, MT_JOB_CHOICE_LATER},
    {"relu", 2, MT_JOB_CHOICE_LATER},
    {NULL, 0, 0},
};

#define FIELD(member) offsetof(struct mt_job, member)
#define NOWHERE MT_KEY_NO_FIELD
#define FLAGS(value) .flags = (value)
#define RANGE(low, high) .minimum = (low), .maximum = (high)
#define CHOICES(list) .choices = (list)
#define DEFAULT(json) .default_json = (json)
#define DEFAULT_TEXT(text) .default_text = (text)
#define UNIT(text) .unit = (text)
#define NOTE(text) .note = (text)
#define KEY(pointer_, type_, offset_, help_, ...)                                                            \
    {                                                                                                        \
        .pointer = (pointer_), .type = (type_), .offset = (offset_), .help = (help_), __VA_ARGS__            \
    }
#define BLOCK(pointer_, help_, ...) KEY(pointer_, MT_KEY_BLOCK, NOWHERE, help_, __VA_ARGS__)
#define CONFIG(name_, type_, help_, ...)                                                                     \
    {                                                                                                        \
        .pointer = "/model/" name_, .type = (type_), .offset = NOWHERE, .help = (help_), __VA_ARGS__         \
    }
#define NO_EFFECT(pointer_, note_)                                                                           \
    {                                                                                                        \
        .pointer = (pointer_), .flags = MT_KEY_NO_EFFECT, .offset = NOWHERE, .note = (note_)                 \
    }
#define LATER(pointer_, note_)                                                                               \
    {                                                                                                        \
        .pointer = (pointer_), .flags = MT_KEY_LATER, .offset = NOWHERE, .note = (note_)                     \
    }

/* Bounds that keep the arithmetic above from overflowing, far past any model that exists. */
#define MAX_COUNT 1048576.0       /* sequences, slabs */
#define MAX_TOKENS 16777216.0     /* tokens of a sequence */
#define MAX_STEPS 1e12            /* optimizer updates */
#define MAX_WIDTH 1048576.0       /* of a layer */
#define MAX_VOCABULARY 16777216.0 /* ids */

const struct mt_job_key mt_job_keys[] = {
    KEY("/name", MT_KEY_NAME, FIELD(name),
        "What the job is called in lists; `megatrain train` writes to `runs/<name>`.",
        DEFAULT_TEXT("the job file's name, or made of model and data set")),
    KEY("/method", MT_KEY_CHOICE, FIELD(method),
        "`sft` learns the answers to prompts, `pretrain` learns every token. Plain text has no prompts and "
        "is "
        "learnt as a whole under both.",
        CHOICES(methods), DEFAULT("\"sft\"")),

    BLOCK("/model", "The model: exactly one of `path`, `name` and `architecture`.", FLAGS(0)),
    KEY("/model/path", MT_KEY_PATH, FIELD(model.path),
        "A Hugging Face model folder (config.json and safetensors), a GGUF file, or `ollama:NAME:TAG` to "
        "start from.",
        FLAGS(0)),
    KEY("/model/name", MT_KEY_TEXT, FIELD(model.name),
        "`Org/Model`, found in the models folder, the local Hugging Face cache or LM Studio's folder, or "
        "downloaded where downloads are allowed. `Org/Model:FILE` says `file`, too.",
        FLAGS(0)),
    KEY("/model/file", MT_KEY_TEXT, FIELD(model.file),
        "Which GGUF file is meant where the folder `path` or the repository `name` holds several: its name, "
        "or the "
        "quantisation in it, such as `Q4_K_M`.",
        DEFAULT_TEXT("the only one")),
    KEY("/model/download", MT_KEY_TEXT, FIELD(model.download),
        "Written by MegaTrain: the name of the model that is downloaded to `path` before the first step.",
        FLAGS(MT_KEY_OWN)),
    KEY("/model/architecture", MT_KEY_WORD, FIELD(model.architecture),
        "Train from scratch a model of this family, shaped by the keys below and any other key of the "
        "family's "
        "config.json under its own name.",
        CHOICES(architectures)),
    KEY("/model/tokenizer", MT_KEY_PATH, FIELD(model.tokenizer),
        "`bytes` (ids 0 to 255 the bytes, 256 begin, 257 end, 258 pad) or the path of a tokenizer.json or of "
        "the "
        "folder that holds one.",
        DEFAULT_TEXT("`bytes` from scratch, else the model's own")),
    KEY("/model/dtype", MT_KEY_CHOICE, FIELD(model.dtype),
        "What the device computes in; parameters and optimizer state are float32 whatever it is.",
        CHOICES(dtypes), DEFAULT("\"auto\""), FLAGS(MT_KEY_PLANNABLE)),
    CONFIG("hidden_size", MT_KEY_COUNT, "Width of the residual stream.", FLAGS(MT_KEY_CONFIG),
           RANGE(1, MAX_WIDTH), DEFAULT_TEXT("required from scratch")),
    CONFIG("num_layers", MT_KEY_COUNT, "Number of layers (`num_hidden_layers` in config.json).",
           FLAGS(MT_KEY_CONFIG), RANGE(1, 8192), DEFAULT_TEXT("required from scratch")),
    CONFIG("num_attention_heads", MT_KEY_COUNT, "Query heads of a layer.", FLAGS(MT_KEY_CONFIG),
           RANGE(1, 65536), DEFAULT_TEXT("required from scratch")),
    CONFIG("num_key_value_heads", MT_KEY_COUNT,
           "Key and value heads of a layer; fewer than query heads is grouped-query attention.",
           FLAGS(MT_KEY_CONFIG), RANGE(1, 65536), DEFAULT_TEXT("num_attention_heads")),
    CONFIG("head_dim", MT_KEY_COUNT, "Width of a head; even.", FLAGS(MT_KEY_CONFIG), RANGE(2, 65536),
           DEFAULT_TEXT("hidden_size / num_attention_heads")),
    CONFIG("intermediate_size", MT_KEY_COUNT, "Width of the feed-forward part.", FLAGS(MT_KEY_CONFIG),
           RANGE(1, 4 * MAX_WIDTH), DEFAULT_TEXT("8/3 of hidden_size, rounded up to a multiple of 64")),
    CONFIG("vocab_size", MT_KEY_COUNT, "Rows of the embedding table; at least the tokenizer's ids.",
           FLAGS(MT_KEY_CONFIG), RANGE(2, MAX_VOCABULARY), DEFAULT_TEXT("the tokenizer's"), UNIT("ids")),
    CONFIG("max_position_embeddings", MT_KEY_COUNT, "Longest sequence the model is made for.",
           FLAGS(MT_KEY_CONFIG), RANGE(2, 1e9), DEFAULT_TEXT("2048, or dataset.max_seq_len if larger"),
           UNIT("tokens")),
    CONFIG("rms_norm_eps", MT_KEY_NUMBER, "Added to the mean square in RMSNorm.",
           FLAGS(MT_KEY_CONFIG | MT_KEY_ABOVE), RANGE(0, 1), DEFAULT_TEXT("1e-5")),
    CONFIG("rope_theta", MT_KEY_NUMBER, "Base of the rotary embedding's wavelengths.",
           FLAGS(MT_KEY_CONFIG | MT_KEY_ABOVE), RANGE(0, 1e12), DEFAULT_TEXT("10000")),
    CONFIG("rope_scaling", MT_KEY_OBJECT, "Scaling of the rotary embedding, as in config.json.",
           FLAGS(MT_KEY_CONFIG), DEFAULT_TEXT("none")),
    CONFIG("rope_parameters", MT_KEY_OBJECT,
           "The newer form of rope_theta and rope_scaling, as in config.json.", FLAGS(MT_KEY_CONFIG),
           DEFAULT_TEXT("none")),
    CONFIG("tie_word_embeddings", MT_KEY_BOOL, "Whether the head is the embedding table.",
           FLAGS(MT_KEY_CONFIG), DEFAULT_TEXT("false")),
    CONFIG("attention_bias", MT_KEY_BOOL, "Whether the attention's projections have biases.",
           FLAGS(MT_KEY_CONFIG), DEFAULT_TEXT("false")),
    CONFIG("mlp_bias", MT_KEY_BOOL, "Whether the feed-forward projections have biases.", FLAGS(MT_KEY_CONFIG),
           DEFAULT_TEXT("false")),
    CONFIG("hidden_act", MT_KEY_WORD, "Activation of the feed-forward part.", FLAGS(MT_KEY_CONFIG),
           CHOICES(activations), DEFAULT_TEXT("silu")),
    CONFIG("initializer_range", MT_KEY_NUMBER, "Standard deviation of the first random weights.",
           FLAGS(MT_KEY_CONFIG | MT_KEY_ABOVE), RANGE(0, 10), DEFAULT_TEXT("0.02")),
    CONFIG("bos_token_id", MT_KEY_TOKEN_IDS, "Id that begins a text.", FLAGS(MT_KEY_CONFIG),
           RANGE(0, MAX_VOCABULARY), DEFAULT_TEXT("the tokenizer's")),
    CONFIG("eos_token_id", MT_KEY_TOKEN_IDS, "Id or ids that end a text.", FLAGS(MT_KEY_CONFIG),
           RANGE(0, MAX_VOCABULARY), DEFAULT_TEXT("the tokenizer's")),
    CONFIG("pad_token_id", MT_KEY_TOKEN_IDS, "Id that fills batches in other programs; MegaTrain never pads.",
           FLAGS(MT_KEY_CONFIG), RANGE(0, MAX_VOCABULARY), DEFAULT_TEXT("the tokenizer's")),
    CONFIG("attention_dropout", MT_KEY_NUMBER,
           "Kept in config.json for other programs; dropout is not applied.",
           FLAGS(MT_KEY_CONFIG | MT_KEY_BELOW), RANGE(0, 1), DEFAULT_TEXT("0")),
    CONFIG("use_cache", MT_KEY_BOOL, "Kept in config.json for other programs.", FLAGS(MT_KEY_CONFIG),
           DEFAULT_TEXT("true")),

    BLOCK("/dataset", "The data: exactly one of `name`, `path` and `mix`.", FLAGS(0)),
    KEY("/dataset/name", MT_KEY_TEXT, FIELD(dataset.name), "An entry of `<dataset_dir>/dataset_info.json`.",
        FLAGS(0)),
    KEY("/dataset/dataset_dir", MT_KEY_PATH, FIELD(dataset.dataset_dir),
        "The folder with dataset_info.json and the files that it names.",
        DEFAULT_TEXT("`data`; over the API the state folder's `datasets`")),
    KEY("/dataset/path", MT_KEY_PATHS, FIELD(dataset.paths),
        "A file, a folder or a list of them: .txt is plain text; .json, .jsonl, .csv, .tsv (also as .gz or "
        ".zst) and "
        ".parquet and .arrow hold samples.",
        FLAGS(0)),
    KEY("/dataset/mix", MT_KEY_MIX, FIELD(dataset.mix),
        "Several data sets, each by `name` or `path`, with the share of an epoch's sequences as `weight` "
        "(1).",
        FLAGS(0)),
    KEY("/dataset/mix_strategy", MT_KEY_CHOICE, FIELD(dataset.mix_strategy),
        "When an epoch of a mix ends: when the data set that lasts longest was seen whole, the others "
        "repeated "
        "meanwhile; when the one that lasts shortest was; or `concat`: everything once, whatever the "
        "weights.",
        CHOICES(mix_strategies), DEFAULT_TEXT("`interleave_over`")),
    BLOCK("/dataset/columns", "Names of the columns, where they are not the usual ones.", FLAGS(0)),
    KEY("/dataset/columns/prompt", MT_KEY_TEXT, FIELD(dataset.columns.prompt), "Column with the instruction.",
        DEFAULT_TEXT("`instruction`")),
    KEY("/dataset/columns/query", MT_KEY_TEXT, FIELD(dataset.columns.query),
        "Column with what stands below the instruction.",
        DEFAULT_TEXT("`input`; none where `prompt` is given")),
    KEY("/dataset/columns/response", MT_KEY_TEXT, FIELD(dataset.columns.response), "Column with the answer.",
        DEFAULT_TEXT("`output`")),
    KEY("/dataset/columns/system", MT_KEY_TEXT, FIELD(dataset.columns.system),
        "Column with the system prompt.", DEFAULT_TEXT("`system`")),
    KEY("/dataset/columns/history", MT_KEY_TEXT, FIELD(dataset.columns.history),
        "Column with earlier turns, a list of [question, answer].", DEFAULT_TEXT("`history`")),
    KEY("/dataset/columns/text", MT_KEY_TEXT, FIELD(dataset.columns.text),
        "Column with a whole text, for data that is no conversation.", DEFAULT_TEXT("`text`")),
    KEY("/dataset/columns/messages", MT_KEY_TEXT, FIELD(dataset.columns.messages),
        "Column with a list of turns.", DEFAULT_TEXT("`messages` or `conversations`")),
    KEY("/dataset/columns/tools", MT_KEY_TEXT, FIELD(dataset.columns.tools),
        "Column with the tools that a conversation may call, a list or its JSON text.",
        DEFAULT_TEXT("`tools` beside a list of turns")),
    LATER("/dataset/columns/images", "images"),
    KEY("/dataset/columns/chosen", MT_KEY_TEXT, FIELD(dataset.columns.chosen),
        "Preference data: column with the better answer.", DEFAULT_TEXT("`chosen`")),
    KEY("/dataset/columns/rejected", MT_KEY_TEXT, FIELD(dataset.columns.rejected),
        "Preference data: column with the worse answer.", DEFAULT_TEXT("`rejected`")),
    KEY("/dataset/formatting", MT_KEY_CHOICE, FIELD(dataset.formatting),
        "How a row holds its turns: columns (`alpaca`) or a list of turns (`sharegpt`, `openai`).",
        CHOICES(formattings), DEFAULT_TEXT("what the first row of a file looks like")),
    BLOCK("/dataset/tags", "Names that a list of turns uses, where they are not the usual ones.", FLAGS(0)),
    KEY("/dataset/tags/role_tag", MT_KEY_TEXT, FIELD(dataset.tags.role), "Member with the role of a turn.",
        DEFAULT_TEXT("`role` or `from`")),
    KEY("/dataset/tags/content_tag", MT_KEY_TEXT, FIELD(dataset.tags.content), "Member with its text.",
        DEFAULT_TEXT("`content` or `value`")),
    KEY("/dataset/tags/user_tag", MT_KEY_TEXT, FIELD(dataset.tags.user), "Role of the user.",
        DEFAULT_TEXT("`user` or `human`")),
    KEY("/dataset/tags/assistant_tag", MT_KEY_TEXT, FIELD(dataset.tags.assistant), "Role of the assistant.",
        DEFAULT_TEXT("`assistant` or `gpt`")),
    KEY("/dataset/tags/observation_tag", MT_KEY_TEXT, FIELD(dataset.tags.observation),
        "Role of what a tool answers.", DEFAULT_TEXT("`tool` or `observation`")),
    KEY("/dataset/tags/function_tag", MT_KEY_TEXT, FIELD(dataset.tags.function),
        "Role of a call of tools, written as JSON.", DEFAULT_TEXT("`function_call`")),
    KEY("/dataset/tags/system_tag", MT_KEY_TEXT, FIELD(dataset.tags.system), "Role of the system prompt.",
        DEFAULT_TEXT("`system`")),
    KEY("/dataset/template", MT_KEY_TEXT, FIELD(dataset.template),
        "A chat template by its name (`chatml`, `llama3`, `alpaca`, ...) instead of the model's own.",
        DEFAULT_TEXT("the model's own, else the Alpaca prompt")),
    KEY("/dataset/max_seq_len", MT_KEY_COUNT, FIELD(dataset.max_seq_len),
        "Longest sequence that is trained on.", RANGE(2, MAX_TOKENS), DEFAULT("1024"), UNIT("tokens")),
    KEY("/dataset/packing", MT_KEY_BOOL, FIELD(dataset.packing),
        "Lay several samples into one sequence; they do not see each other.", DEFAULT("true")),
    KEY("/dataset/group_by_length", MT_KEY_BOOL, FIELD(dataset.group_by_length),
        "Sequences of nearly the same length in a step; for packing: false.", DEFAULT_TEXT("`false`")),
    KEY("/dataset/overlong", MT_KEY_CHOICE, FIELD(dataset.overlong),
        "What happens to a sample longer than max_seq_len; truncated and dropped ones are counted.",
        CHOICES(overlongs), DEFAULT("\"truncate\"")),
    KEY("/dataset/train_on_prompt", MT_KEY_BOOL, FIELD(dataset.train_on_prompt),
        "Learn the prompts too, not only the answers.", DEFAULT("false")),
    KEY("/dataset/val_size", MT_KEY_NUMBER, FIELD(dataset.val_size),
        "Share of the samples that is held out to measure val_loss, or their number from 1 on; 0 holds none "
        "out.",
        RANGE(0, 1e9), DEFAULT("0.05")),
    NO_EFFECT("/dataset/num_workers", "data is read by the engine's own threads"),

    BLOCK("/training", "The training itself.", FLAGS(0)),
    KEY("/training/batch_size", MT_KEY_COUNT, FIELD(training.batch_size),
        "Sequences (packs when packing) of one accumulation step; an update sees batch_size x "
        "gradient_accumulation_steps of them.",
        RANGE(1, MAX_COUNT), DEFAULT("8"), UNIT("sequences")),
    KEY("/training/gradient_accumulation_steps", MT_KEY_COUNT, FIELD(training.gradient_accumulation_steps),
        "Batches whose gradients make one update; the loss is the mean over all of its target tokens.",
        RANGE(1, MAX_COUNT), DEFAULT("1")),
    KEY("/training/micro_batch_size", MT_KEY_COUNT_OR_AUTO, FIELD(training.micro_batch_size),
        "Sequences that run through a layer at a time; `auto`: the largest that fits, at most batch_size.",
        RANGE(1, MAX_COUNT), DEFAULT("\"auto\""), UNIT("sequences")),
    KEY("/training/max_steps", MT_KEY_COUNT, FIELD(training.max_steps),
        "Number of optimizer updates; not together with num_epochs.", RANGE(1, MAX_STEPS), DEFAULT("100"),
        DEFAULT_TEXT("100, unless num_epochs is given"), UNIT("updates")),
    KEY("/training/num_epochs", MT_KEY_NUMBER, FIELD(training.num_epochs),
        "Times through the data, a fraction too; not together with max_steps.", FLAGS(MT_KEY_ABOVE),
        RANGE(0, 1e9)),
    KEY("/training/learning_rate", MT_KEY_NUMBER, FIELD(training.learning_rate), "The highest learning rate.",
        FLAGS(MT_KEY_ABOVE), RANGE(0, 1e3), DEFAULT("1.0e-5")),
    KEY("/training/lr_scheduler", MT_KEY_CHOICE, FIELD(training.lr_scheduler),
        "Course of the learning rate after the warm-up; `cosine` and `linear` end at 0, `wsd` decays over "
        "the "
        "last tenth.",
        CHOICES(lr_schedulers), DEFAULT("\"cosine\"")),
    KEY("/training/warmup_ratio", MT_KEY_NUMBER, FIELD(training.warmup_ratio),
        "Share of the updates over which the learning rate rises linearly, rounded up.", RANGE(0, 1),
        DEFAULT("0.03")),
    KEY("/training/weight_decay", MT_KEY_NUMBER, FIELD(training.weight_decay),
        "Decoupled weight decay; one-dimensional parameters have none.", RANGE(0, 1e3), DEFAULT("0.01")),
    KEY("/training/max_grad_norm", MT_KEY_NUMBER, FIELD(training.max_grad_norm),
        "Gradients whose global norm is larger are scaled down to it; 0 is no clipping.", RANGE(0, 1e30),
        DEFAULT("1.0")),
    KEY("/training/seed", MT_KEY_COUNT, FIELD(training.seed),
        "The same job with the same seed on the same machine gives the same bits.",
        RANGE(0, 9007199254740991.0), DEFAULT("42")),
    KEY("/training/max_skipped_steps", MT_KEY_COUNT, FIELD(training.max_skipped_steps),
        "Steps in a row with a loss or gradient that is not finite before the job fails.", RANGE(0, 1e9),
        DEFAULT("3"), UNIT("steps")),
    KEY("/training/freeze", MT_KEY_TEXTS, FIELD(training.freeze),
        "Parameters whose names match one of these globs stay as they are.", DEFAULT("[]")),

    BLOCK("/optimizer", "The optimizer.", FLAGS(0)),
    KEY("/optimizer/type", MT_KEY_CHOICE, FIELD(optimizer.type), "AdamW as PyTorch computes it.",
        CHOICES(optimizers), DEFAULT("\"adamw\"")),
    KEY("/optimizer/beta1", MT_KEY_NUMBER, FIELD(optimizer.beta1), "Decay of the first moment.",
        FLAGS(MT_KEY_BELOW), RANGE(0, 1), DEFAULT("0.9")),
    KEY("/optimizer/beta2", MT_KEY_NUMBER, FIELD(optimizer.beta2), "Decay of the second moment.",
        FLAGS(MT_KEY_BELOW), RANGE(0, 1), DEFAULT("0.999")),
    KEY("/optimizer/eps", MT_KEY_NUMBER, FIELD(optimizer.eps), "Added to the root of the second moment.",
        FLAGS(MT_KEY_ABOVE), RANGE(0, 1), DEFAULT("1.0e-8")),

    BLOCK("/memory", "Where things lie. No key here changes a bit of the result.", FLAGS(0)),
    KEY("/memory/store", MT_KEY_CHOICE, FIELD(memory.store), "Where parameters and optimizer state live.",
        CHOICES(stores), DEFAULT("\"ram\"")),
    KEY("/memory/num_grad_slabs", MT_KEY_COUNT, FIELD(memory.num_grad_slabs),
        "Gradient slabs on the device that wait to be copied to the host.", RANGE(1, MAX_COUNT), DEFAULT("4"),
        UNIT("slabs")),
    KEY("/memory/checkpoint_interval", MT_KEY_COUNT, FIELD(memory.checkpoint_interval),
        "Keep the input of every k-th layer for the backward pass; k layers are then resident and recomputed "
        "together. Where the device has no room for them, fewer are, and the run says so.",
        RANGE(1, 64), DEFAULT("1"), UNIT("layers")),
    KEY("/memory/activation_offload", MT_KEY_CHOICE, FIELD(memory.activation_offload),
        "Whether kept inputs wait in host memory.", CHOICES(offloads), DEFAULT("\"auto\"")),
    KEY("/memory/recompute", MT_KEY_CHOICE, FIELD(memory.recompute),
        "Whether a layer is computed again in the backward pass or its activations are kept; `auto` keeps "
        "what "
        "fits, last layers first.",
        CHOICES(recomputes), DEFAULT("\"auto\"")),
    KEY("/memory/device_limit", MT_KEY_BYTES, FIELD(memory.device_limit_bytes),
        "Memory of the device `cpu-discrete`, as `64MiB`.", RANGE(1048576, 1e15), UNIT("bytes"),
        DEFAULT_TEXT("1 GiB")),
    KEY("/memory/bus_gbps", MT_KEY_NUMBER, FIELD(memory.bus_gbps),
        "Speed of the copies to and from the device `cpu-discrete`, in each direction.", FLAGS(MT_KEY_ABOVE),
        RANGE(0, 1e6), UNIT("1e9 bytes a second"), DEFAULT_TEXT("as fast as memory")),
    KEY("/memory/bus_latency_us", MT_KEY_NUMBER, FIELD(memory.bus_latency_us),
        "Added to each copy to and from the device `cpu-discrete`.", RANGE(0, 1e6), UNIT("microseconds"),
        DEFAULT_TEXT("0")),
    LATER("/memory/nvme_path", "parameters on NVMe"),

    BLOCK("/checkpoint", "Checkpoints.", FLAGS(0)),
    KEY("/checkpoint/every_steps", MT_KEY_COUNT, FIELD(checkpoint.every_steps),
        "Updates between two checkpoints; one is always written at the end, and with 0 only there.",
        RANGE(0, MAX_STEPS), DEFAULT("50"), UNIT("updates")),
    KEY("/checkpoint/keep", MT_KEY_COUNT, FIELD(checkpoint.keep),
        "Checkpoints that stay on disk, the final one counted.", RANGE(1, MAX_COUNT), DEFAULT("3")),

    KEY("/export", MT_KEY_LIST, NOWHERE, "What the finished model is exported to.", FLAGS(MT_KEY_ONLY_ONE),
        DEFAULT("[]"), NOTE("export")),
    KEY("/device", MT_KEY_DEVICE, FIELD(device),
        "What computes; `auto` takes a GPU that works, else the CPU. A number N stands for cuda:N.",
        CHOICES(devices), DEFAULT("\"auto\""), FLAGS(MT_KEY_PLANNABLE)),

    BLOCK("/distributed", "Several devices or machines.", FLAGS(0)),
    KEY("/distributed/backend", MT_KEY_WORD, FIELD(distributed.backend), "What devices talk through.",
        CHOICES(backends), DEFAULT("\"nccl\"")),
    KEY("/distributed/data_parallel_size", MT_KEY_COUNT, FIELD(distributed.data_parallel_size),
        "Devices that share the sequences of a step.", FLAGS(MT_KEY_ONLY_ONE), RANGE(1, 1), DEFAULT("1"),
        NOTE("training on more than one device")),
    KEY("/distributed/tensor_parallel_size", MT_KEY_COUNT, FIELD(distributed.tensor_parallel_size),
        "Devices that share each layer.", FLAGS(MT_KEY_ONLY_ONE), RANGE(1, 1), DEFAULT("1"),
        NOTE("training on more than one device")),
    KEY("/distributed/pipeline_parallel_size", MT_KEY_COUNT, FIELD(distributed.pipeline_parallel_size),
        "Devices that share the depth of the model.", FLAGS(MT_KEY_ONLY_ONE), RANGE(1, 1), DEFAULT("1"),
        NOTE("training on more than one device")),

    BLOCK("/logging", "Progress for people.", FLAGS(0)),
    KEY("/logging/log_interval", MT_KEY_COUNT, FIELD(logging.log_interval),
        "Updates between two lines of plain progress; metrics.jsonl has every step.", RANGE(1, MAX_STEPS),
        DEFAULT("1"), UNIT("updates")),
    KEY("/logging/trace", MT_KEY_BOOL, FIELD(logging.trace),
        "Write trace.json into the run's folder: what the device, the copies and the updates did and when, "
        "for "
        "Perfetto or chrome://tracing.",
        DEFAULT("false")),
    NO_EFFECT("/logging/enable_timing", "every step is timed"),
    NO_EFFECT("/model/attn_implementation", "MegaTrain has its own attention"),
    NO_EFFECT("/model/trust_remote_code", "MegaTrain never runs a model's code"),
    LATER("/vlm", "training vision-language models"),

    KEY("/priority", MT_KEY_INTEGER, FIELD(priority),
        "Jobs of a higher priority start first; equal ones in the order of their submission.",
        RANGE(-1000, 1000), DEFAULT("0")),
    KEY("/labels", MT_KEY_LABELS, NOWHERE, "Words of your own that are kept with the job.", DEFAULT("{}")),
};

const size_t mt_job_num_keys = sizeof mt_job_keys / sizeof *mt_job_keys;

/* Keys of MegaTrain's own YAML files, and of config.json, that stand for a canonical one. */
const struct mt_job_alias mt_job_aliases[] = {
    {"/training/num_steps", "/training/max_steps"},
    {"/model/device", "/device"},
    {"/model/devices", "/device"},
    {"/model/num_hidden_layers", "/model/num_layers"},
    {"/dataset/query_field", "/dataset/columns/prompt"},
    {"/dataset/response_field", "/dataset/columns/response"},
};

const size_t mt_job_num_aliases = sizeof mt_job_aliases / sizeof *mt_job_aliases;
