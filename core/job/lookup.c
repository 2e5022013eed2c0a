/* Finding keys and choices in the table, and the nearest one for a misspelt word. */
#include "core/base/nearest.h"
#include "core/job/table.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const struct mt_job_key *mt_job_key_find(const char *pointer)
{
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        if (strcmp(mt_job_keys[i].pointer, pointer) == 0)
            return &mt_job_keys[i];
    }
    return NULL;
}

const struct mt_job_key *mt_job_key_of_alias(const char *pointer)
{
    for (size_t i = 0; i < mt_job_num_aliases; i++) {
        if (strcmp(mt_job_aliases[i].pointer, pointer) == 0)
            return mt_job_key_find(mt_job_aliases[i].canonical);
    }
    return NULL;
}

const char *mt_job_key_name(const char *pointer)
{
    const char *slash = strrchr(pointer, '/');
    return slash ? slash + 1 : pointer;
}

bool mt_job_key_in_block(const char *pointer, const char *block)
{
    size_t bytes = strlen(block);
    return strncmp(pointer, block, bytes) == 0 && pointer[bytes] == '/' && !strchr(pointer + bytes + 1, '/');
}

const char *mt_job_key_dotted(const char *pointer, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", *pointer == '/' ? pointer + 1 : pointer);
    for (char *c = text; *c; c++) {
        if (*c == '/')
            *c = '.';
    }
    return text;
}

/* Other trainers' words for a key of ours; for suggestions only. */
static const struct {
    const char *word, *pointer;
} words_elsewhere[] = {
    {"lr", "/training/learning_rate"},
    {"epochs", "/training/num_epochs"},
    {"num_train_epochs", "/training/num_epochs"},
    {"steps", "/training/max_steps"},
    {"num_training_steps", "/training/max_steps"},
    {"lr_scheduler_type", "/training/lr_scheduler"},
    {"scheduler", "/training/lr_scheduler"},
    {"per_device_train_batch_size", "/training/batch_size"},
    {"train_batch_size", "/training/batch_size"},
    {"gradient_accumulation", "/training/gradient_accumulation_steps"},
    {"gradient_clipping", "/training/max_grad_norm"},
    {"grad_clip", "/training/max_grad_norm"},
    {"cutoff_len", "/dataset/max_seq_len"},
    {"max_length", "/dataset/max_seq_len"},
    {"max_seq_length", "/dataset/max_seq_len"},
    {"seq_len", "/dataset/max_seq_len"},
    {"save_steps", "/checkpoint/every_steps"},
    {"save_total_limit", "/checkpoint/keep"},
    {"model_name_or_path", "/model/path"},
    {"model_type", "/model/architecture"},
    {"n_layers", "/model/num_layers"},
    {"n_layer", "/model/num_layers"},
    {"n_heads", "/model/num_attention_heads"},
    {"n_head", "/model/num_attention_heads"},
    {"n_embd", "/model/hidden_size"},
    {"data_path", "/dataset/path"},
    {"stage", "/method"},
};

static bool key_is_suggested(const struct mt_job_key *key)
{
    return !(key->flags & (MT_KEY_LATER | MT_KEY_NO_EFFECT | MT_KEY_OWN));
}

const char *mt_job_key_nearest(const char *block, const char *name, char *text, size_t text_bytes)
{
    const struct mt_job_key *best = NULL;
    /* The same name in another block, or another trainer's word for a key. */
    for (size_t i = 0; i < mt_job_num_keys && !best; i++) {
        if (key_is_suggested(&mt_job_keys[i]) && strcmp(mt_job_key_name(mt_job_keys[i].pointer), name) == 0)
            best = &mt_job_keys[i];
    }
    for (size_t i = 0; i < sizeof words_elsewhere / sizeof *words_elsewhere && !best; i++) {
        if (strcasecmp(words_elsewhere[i].word, name) == 0)
            best = mt_job_key_find(words_elsewhere[i].pointer);
    }
    if (!best) {
        size_t limit = strlen(name) / 3 + 1, nearest = limit + 1;
        for (size_t i = 0; i < mt_job_num_keys; i++) {
            const struct mt_job_key *key = &mt_job_keys[i];
            if (!key_is_suggested(key))
                continue;
            size_t distance = mt_text_distance(name, mt_job_key_name(key->pointer), limit);
            /* A key of the same block wins over an equally near one elsewhere. */
            if (distance < nearest ||
                (distance == nearest && distance <= limit && best &&
                 mt_job_key_in_block(key->pointer, block) && !mt_job_key_in_block(best->pointer, block))) {
                nearest = distance;
                best = key;
            }
        }
    }
    if (!best)
        return NULL;
    if (mt_job_key_in_block(best->pointer, block)) {
        snprintf(text, text_bytes, "%s", mt_job_key_name(best->pointer));
        return text;
    }
    return mt_job_key_dotted(best->pointer, text, text_bytes);
}

const struct mt_job_choice *mt_job_choice_find(const struct mt_job_choice *choices, const char *word)
{
    for (; choices->word; choices++) {
        if (strcmp(choices->word, word) == 0)
            return choices;
    }
    return NULL;
}

const char *mt_job_choice_nearest(const struct mt_job_choice *choices, const char *word)
{
    struct mt_nearest nearest = {word, strlen(word) / 3 + 2};
    const char *best = NULL;
    for (; choices->word; choices++) {
        if (choices->state != MT_JOB_CHOICE_LATER && mt_nearest_is(&nearest, choices->word))
            best = choices->word;
    }
    return best;
}

const char *mt_job_choice_word(const struct mt_job_choice *choices, int value)
{
    for (; choices->word; choices++) {
        if (choices->value == value)
            return choices->word;
    }
    return NULL;
}

const char *mt_job_choice_list(const struct mt_job_choice *choices, char *text, size_t text_bytes)
{
    const char *words[32];
    size_t count = 0, used = 0;
    for (; choices->word && count < 32; choices++) {
        if (choices->state == MT_JOB_CHOICE_NOW)
            words[count++] = choices->word;
    }
    *text = '\0';
    for (size_t i = 0; i < count && used < text_bytes; i++) {
        const char *before = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        int written = snprintf(text + used, text_bytes - used, "%s%s", before, words[i]);
        used += (size_t)written;
    }
    return text;
}
