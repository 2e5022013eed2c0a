/* The family table, put together from the files of its groups (family_*.c). */
#include "core/model/family.h"

#include "core/model/family_entries.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mt_family_group *const groups[] = {
    &mt_families_llama,      &mt_families_gemma, &mt_families_post_norm, &mt_families_fused,
    &mt_families_layer_norm, &mt_families_gpt,   &mt_families_opt,
};

#define MAX_FAMILIES 128u

/* By name, and entries of one name in the order of their file; filled once. */
static const struct mt_family *table[MAX_FAMILIES];
static size_t num_families;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (size_t i = 0; i < groups[g]->count && num_families < MAX_FAMILIES; i++) {
            const struct mt_family *family = &groups[g]->families[i];
            size_t place = num_families++;
            for (; place > 0 && strcmp(table[place - 1]->model_type, family->model_type) > 0; place--)
                table[place] = table[place - 1];
            table[place] = family;
        }
}

const struct mt_family *const *mt_family_table(size_t *count)
{
    pthread_once(&once, fill);
    *count = num_families;
    return table;
}

static bool holds(const struct mt_family *family, const json_t *config)
{
    for (const struct mt_family_fixed *when = family->when; when && when->key; when++) {
        json_t *wanted = json_loads(when->value, JSON_DECODE_ANY, NULL);
        const json_t *value = json_object_get(config, when->key);
        const bool same = value ? json_equal(wanted, value) : json_is_null(wanted);
        json_decref(wanted);
        if (!same)
            return false;
    }
    return true;
}

const struct mt_family *mt_family_find(const char *model_type, const json_t *config)
{
    size_t count;
    const struct mt_family *const *all = mt_family_table(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i]->model_type, model_type) == 0 && (!config || holds(all[i], config)))
            return all[i];
    return NULL;
}

const char *mt_family_list(char *buffer, size_t bytes)
{
    size_t count, used = 0;
    const struct mt_family *const *all = mt_family_table(&count);
    if (bytes)
        buffer[0] = 0;
    for (size_t i = 0; i < count && used < bytes; i++) {
        if (i && strcmp(all[i]->model_type, all[i - 1]->model_type) == 0)
            continue;
        int written = snprintf(buffer + used, bytes - used, "%s%s", used ? ", " : "", all[i]->model_type);
        used += written > 0 ? (size_t)written : 0;
    }
    return buffer;
}
