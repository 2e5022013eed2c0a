/* From the document as written to canonical keys with checked values: unknown keys, aliases, types. */
#include "core/job/reader.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void read_block(struct mt_job_reader *reader, const json_t *block, const char *pointer);

static void report_unknown(struct mt_job_reader *reader, const char *block, const char *pointer,
                           const char *name)
{
    char nearest[128];
    if (mt_job_errors_full(reader->errors))
        return; /* the search below, 80,000 times over, is seconds */
    const char *quoted = mt_text_quote(reader->arena, name, strlen(name));
    const char *suggestion = mt_job_key_nearest(block, name, nearest, sizeof nearest);
    if (suggestion)
        mt_reader_error(reader, MT_REASON_BAD_JOB, pointer, suggestion,
                        "unknown key %s; did you mean \"%s\"?", quoted, suggestion);
    else
        mt_reader_error(reader, MT_REASON_BAD_JOB, pointer, NULL, "unknown key %s", quoted);
}

/* The key by one of its names, once: an alias beside its canonical key is a contradiction. */
static bool claim(struct mt_job_reader *reader, const struct mt_job_key *key, const char *pointer)
{
    const char *before = json_string_value(json_object_get(reader->origins, key->pointer));
    if (before) {
        char one[128], other[128];
        mt_reader_error(
            reader, MT_REASON_BAD_JOB, pointer, NULL, "%s and %s say the same thing; give only one of them",
            mt_job_key_dotted(before, one, sizeof one), mt_job_key_dotted(pointer, other, sizeof other));
        return false;
    }
    if (json_object_set_new(reader->origins, key->pointer, json_string(pointer)) < 0)
        reader->out_of_memory = true;
    return true;
}

/* As all keys of config.json are. */
static bool is_plain(const char *name)
{
    const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return length > 0 && length <= 64 && !name[length];
}

/* A model from scratch of another family than llama, all of whose keys the table has. */
static bool has_keys_of_its_own(const json_t *document)
{
    const char *family =
        json_string_value(json_object_get(json_object_get(document, "model"), "architecture"));
    return family && strcmp(family, "llama") != 0 && strcmp(family, "LlamaForCausalLM") != 0;
}

static void read_key(struct mt_job_reader *reader, const char *block, const char *pointer, const char *name,
                     const json_t *value)
{
    char dotted[128];
    const struct mt_job_key *key = mt_job_key_of_alias(pointer);
    if (!key)
        key = mt_job_key_find(pointer);
    if (!key && reader->scratch && strcmp(block, "/model") == 0 && is_plain(name)) {
        /* Checked against the family's keys where the model is made of them. */
        if (json_object_set(reader->extra, pointer, (json_t *)(uintptr_t)value) < 0)
            reader->out_of_memory = true;
    } else if (!key) {
        report_unknown(reader, block, pointer, name);
    } else if (key->flags & MT_KEY_LATER) {
        mt_reader_error(reader, MT_REASON_BAD_JOB, pointer, NULL, "%s: %s is not supported yet", name,
                        key->note);
    } else if (key->flags & MT_KEY_NO_EFFECT) {
        mt_reader_note(reader, "%s has no effect: %s.", mt_job_key_dotted(pointer, dotted, sizeof dotted),
                       key->note);
    } else if (key->type == MT_KEY_BLOCK) {
        if (json_is_object(value)) {
            read_block(reader, value, pointer);
        } else {
            mt_reader_error(reader, MT_REASON_BAD_JOB, pointer, NULL,
                            "%s must be an object with keys of its own, found %s", name,
                            mt_value_describe(reader, value));
            mt_reader_fail(reader, pointer);
        }
    } else if (claim(reader, key, pointer)) {
        json_t *checked = mt_value_check(reader, key, pointer, value);
        if (checked)
            mt_reader_put(reader, key->pointer, checked);
        else
            mt_reader_fail(reader, key->pointer);
    }
}

static void read_block(struct mt_job_reader *reader, const json_t *block, const char *pointer)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)block, name, value)
    {
        char child[MT_JOB_POINTER_BYTES];
        snprintf(child, sizeof child, "%s", pointer);
        if (mt_pointer_append(child, sizeof child, name))
            read_key(reader, pointer, child, name, value);
        else
            report_unknown(reader, pointer, pointer, name); /* no key of ours is as long */
    }
}

void mt_job_read(struct mt_job_reader *reader, const json_t *document)
{
    reader->scratch = has_keys_of_its_own(document);
    if (json_is_object(document))
        read_block(reader, document, "");
    else
        mt_reader_error(reader, MT_REASON_BAD_JOB, "", NULL, "a job is an object of keys, found %s",
                        mt_value_describe(reader, document));
}
