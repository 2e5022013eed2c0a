/* docs/job.md: the table for people. */
#include "core/job/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char introduction[] =
    "# The job document\n"
    "\n"
    "A job says what is trained, on what and how: YAML or JSON for `megatrain train` and `megatrain submit`, "
    "JSON\n"
    "for `POST /jobs`. YAML is read by the 1.2 core schema: `3e-4` is a number, `on` a word, `true` and "
    "`false` are\n"
    "the truth values. Every error is reported at once, with the place of the value; an unknown key is an "
    "error\n"
    "that names the nearest known one.\n"
    "\n"
    "This page is the output of `megatrain schema --markdown`. `megatrain schema` prints the same as JSON "
    "Schema\n"
    "(2020-12), for editors and other programs.\n"
    "\n"
    "```yaml\n"
    "name: contracts\n"
    "model:\n"
    "  architecture: llama        # from scratch; or path: a model folder, or name: Org/Model\n"
    "  hidden_size: 256\n"
    "  num_layers: 6\n"
    "  num_attention_heads: 8\n"
    "dataset:\n"
    "  path: texts/               # .txt, .jsonl, .csv, .parquet, ...\n"
    "  max_seq_len: 512\n"
    "training:\n"
    "  batch_size: 8\n"
    "  max_steps: 1000\n"
    "  learning_rate: 3e-4\n"
    "```\n"
    "\n"
    "The *frozen* document is what a job becomes when it is accepted: every default written out, aliases "
    "replaced,\n"
    "paths absolute. It stands in `job.json`, and is itself a document that can be submitted again.\n"
    "\n"
    "Relative paths are relative to the current directory on the command line, and to the state folder's "
    "`models/`\n"
    "and `datasets/` over the API, where an absolute path must lie in a folder that the daemon was told to "
    "allow.\n"
    "On the command line any key can be set with `--set`: `--set training.learning_rate=3e-4`.\n";

static void write_choices(FILE *out, const struct mt_job_choice *choices)
{
    const char *comma = "";
    for (; choices->word; choices++) {
        if (choices->state == MT_JOB_CHOICE_NOW) {
            fprintf(out, "%s`%s`", comma, choices->word);
            comma = ", ";
        }
    }
}

static void write_range(FILE *out, const struct mt_job_key *key)
{
    bool has_maximum = key->maximum < 1e6;
    if (key->flags & MT_KEY_ONLY_ONE)
        fprintf(out, ", %.15g", key->minimum);
    else
        fprintf(out, ", %s %.15g", key->flags & MT_KEY_ABOVE ? ">" : "≥", key->minimum);
    if (has_maximum && !(key->flags & MT_KEY_ONLY_ONE))
        fprintf(out, ", %s %.15g", key->flags & MT_KEY_BELOW ? "<" : "≤", key->maximum);
}

static void write_type(FILE *out, const struct mt_job_key *key)
{
    static const char *const names[] = {
        [MT_KEY_TEXT] = "string",
        [MT_KEY_NAME] = "string",
        [MT_KEY_BOOL] = "`true`, `false`",
        [MT_KEY_COUNT] = "whole number",
        [MT_KEY_COUNT_OR_AUTO] = "`auto` or whole number",
        [MT_KEY_INTEGER] = "whole number",
        [MT_KEY_NUMBER] = "number",
        [MT_KEY_PATH] = "path",
        [MT_KEY_PATHS] = "path or list of paths",
        [MT_KEY_TEXTS] = "list of strings",
        [MT_KEY_LABELS] = "object of strings",
        [MT_KEY_BYTES] = "size",
        [MT_KEY_OBJECT] = "object",
        [MT_KEY_TOKEN_IDS] = "id or list of ids",
        [MT_KEY_MIX] = "list of `{name or path, weight}`",
        [MT_KEY_LIST] = "empty list",
    };
    switch (key->type) {
    case MT_KEY_CHOICE:
    case MT_KEY_WORD:
    case MT_KEY_DEVICE:
        write_choices(out, key->choices);
        break;
    default:
        fputs(names[key->type], out);
        if (key->type == MT_KEY_COUNT || key->type == MT_KEY_COUNT_OR_AUTO || key->type == MT_KEY_INTEGER ||
            key->type == MT_KEY_NUMBER)
            write_range(out, key);
    }
    if (key->unit)
        fprintf(out, " (%s)", key->unit);
}

static void write_default(FILE *out, const struct mt_job_key *key)
{
    if (key->default_text)
        fputs(key->default_text, out);
    else if (!key->default_json)
        fputs("none", out);
    else if (*key->default_json == '"')
        fprintf(out, "`%.*s`", (int)strlen(key->default_json) - 2, key->default_json + 1);
    else
        fprintf(out, "`%s`", key->default_json);
}

static void write_key(FILE *out, const struct mt_job_key *key)
{
    char dotted[128];
    fprintf(out, "| `%s` | ", mt_job_key_dotted(key->pointer, dotted, sizeof dotted));
    write_type(out, key);
    fputs(" | ", out);
    write_default(out, key);
    fprintf(out, " | %s", key->help);
    fputs(" |\n", out);
}

static const char table_head[] = "\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n";

static void write_block(FILE *out, const char *block)
{
    bool open = false;
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        size_t bytes = strlen(block);
        bool inside = *block ? strncmp(key->pointer, block, bytes) == 0 && key->pointer[bytes] == '/'
                             : mt_job_key_in_block(key->pointer, "");
        if (!inside || key->type == MT_KEY_BLOCK ||
            (key->flags & (MT_KEY_LATER | MT_KEY_NO_EFFECT | MT_KEY_OWN)))
            continue;
        if (!open)
            fputs(table_head, out);
        open = true;
        write_key(out, key);
    }
}

static void write_aliases(FILE *out)
{
    char dotted[128];
    fputs("\n## Other names\n\nKeys and values of MegaTrain's own YAML files, and of config.json, are read "
          "as they "
          "are. Another name beside\nthe key itself is an error.\n\n| written | read as |\n| --- | --- |\n",
          out);
    for (size_t i = 0; i < mt_job_num_aliases; i++) {
        fprintf(out, "| `%s` |", mt_job_key_dotted(mt_job_aliases[i].pointer, dotted, sizeof dotted));
        fprintf(out, " `%s` |\n", mt_job_key_dotted(mt_job_aliases[i].canonical, dotted, sizeof dotted));
    }
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_choice *choice = mt_job_keys[i].choices;
        for (; choice && choice->word; choice++) {
            if (choice->state != MT_JOB_CHOICE_ALIAS)
                continue;
            mt_job_key_dotted(mt_job_keys[i].pointer, dotted, sizeof dotted);
            fprintf(out, "| `%s: %s` | `%s: %s` |\n", dotted, choice->word, dotted,
                    mt_job_choice_word(mt_job_keys[i].choices, choice->value));
        }
    }
}

static void write_special(FILE *out)
{
    char dotted[128];
    fputs("\n## Without effect\n\nAccepted, and reported when the job is read.\n\n| key | why |\n| --- | --- "
          "|\n",
          out);
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        if (mt_job_keys[i].flags & MT_KEY_NO_EFFECT)
            fprintf(out, "| `%s` | %s |\n", mt_job_key_dotted(mt_job_keys[i].pointer, dotted, sizeof dotted),
                    mt_job_keys[i].note);
    }
    fputs("\n## Not supported yet\n\nRefused by name.\n\n| key | what |\n| --- | --- |\n", out);
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        mt_job_key_dotted(key->pointer, dotted, sizeof dotted);
        if (key->flags & MT_KEY_LATER)
            fprintf(out, "| `%s` | %s |\n", dotted, key->note);
        if (key->flags & MT_KEY_ONLY_ONE)
            fprintf(out, "| `%s`, any other value | %s |\n", dotted, key->note);
        for (const struct mt_job_choice *choice = key->choices; choice && choice->word; choice++) {
            if (choice->state == MT_JOB_CHOICE_LATER)
                fprintf(out, "| `%s: %s` | |\n", dotted, choice->word);
        }
    }
}

char *mt_job_markdown(void)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fputs(introduction, out);
    fputs("\n## The job\n", out);
    write_block(out, "");
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        if (key->type != MT_KEY_BLOCK || (key->flags & (MT_KEY_LATER | MT_KEY_NO_EFFECT)) ||
            !mt_job_key_in_block(key->pointer, ""))
            continue;
        fprintf(out, "\n## `%s`\n\n%s\n", mt_job_key_name(key->pointer), key->help);
        write_block(out, key->pointer);
    }
    write_aliases(out);
    write_special(out);
    bool failed = ferror(out);
    if (fclose(out) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}
