/* The JSON Schema (2020-12) of the job document, made of the table. It accepts what mt_job_parse accepts, but
 * for what no schema can say: files that must be there, sizes that must divide. */
#include "core/job/mix.h"
#include "core/job/reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Any failure to allocate makes the whole schema NULL in the end. */
struct build {
    bool out_of_memory;
};

static void set(struct build *build, json_t *object, const char *key, json_t *value)
{
    if (!value || json_object_set_new(object, key, value) < 0)
        build->out_of_memory = true;
}

static void append(struct build *build, json_t *list, json_t *value)
{
    if (!value || json_array_append_new(list, value) < 0)
        build->out_of_memory = true;
}

static json_t *number(double value)
{
    return value == floor(value) && fabs(value) < 9e15 ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *words_of(struct build *build, const struct mt_job_choice *choices)
{
    json_t *words = json_array();
    for (; choices->word; choices++) {
        if (choices->state != MT_JOB_CHOICE_LATER)
            append(build, words, json_string(choices->word));
    }
    return words;
}

static void set_range(struct build *build, json_t *schema, const struct mt_job_key *key)
{
    set(build, schema, key->flags & MT_KEY_ABOVE ? "exclusiveMinimum" : "minimum", number(key->minimum));
    set(build, schema, key->flags & MT_KEY_BELOW ? "exclusiveMaximum" : "maximum", number(key->maximum));
}

static json_t *whole_number(struct build *build, const struct mt_job_key *key)
{
    json_t *schema = json_pack("{s:s}", "type", "integer");
    set_range(build, schema, key);
    return schema;
}

static json_t *list_of(const char *type)
{
    return json_pack("{s:s, s:{s:s, s:i}}", "type", "array", "items", "type", type, "minLength", 1);
}

/* A device is a word, N for cuda:N, or a list of one of these. */
static json_t *device(struct build *build, const struct mt_job_key *key)
{
    json_t *words = json_array();
    for (const struct mt_job_choice *choice = key->choices; choice->word; choice++)
        if (strcmp(choice->word, "cuda:N") != 0)
            append(build, words, json_string(choice->word));
    json_t *one = json_pack("[{s:o}, {s:s, s:s}, {s:s, s:i, s:i}]", "enum", words, "type", "string",
                            "pattern", "^cuda:[0-9]{1,4}$", "type", "integer", "minimum", 0, "maximum", 9999);
    json_t *list = json_pack("{s:s, s:i, s:i, s:{s:o}}", "type", "array", "minItems", 1, "maxItems", 1,
                             "items", "anyOf", json_deep_copy(one));
    append(build, one, list);
    return json_pack("{s:o}", "anyOf", one);
}

static json_t *type_of(struct build *build, const struct mt_job_key *key)
{
    json_t *schema;
    switch (key->type) {
    case MT_KEY_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case MT_KEY_COUNT:
    case MT_KEY_INTEGER:
        return whole_number(build, key);
    case MT_KEY_COUNT_OR_AUTO:
        return json_pack("{s:[o, {s:s}]}", "anyOf", whole_number(build, key), "const", "auto");
    case MT_KEY_NUMBER:
        schema = json_pack("{s:s}", "type", "number");
        set_range(build, schema, key);
        return schema;
    case MT_KEY_CHOICE:
    case MT_KEY_WORD:
        return json_pack("{s:o}", "enum", words_of(build, key->choices));
    case MT_KEY_DEVICE:
        return device(build, key);
    case MT_KEY_PATHS:
        schema = list_of("string");
        set(build, schema, "minItems", json_integer(1));
        return json_pack("{s:[{s:s, s:i}, o]}", "anyOf", "type", "string", "minLength", 1, schema);
    case MT_KEY_TEXTS:
        return list_of("string");
    case MT_KEY_LABELS:
        return json_pack("{s:s, s:{s:s, s:i}, s:i}", "type", "object", "additionalProperties", "type",
                         "string", "maxLength", 256, "maxProperties", 64);
    case MT_KEY_BYTES:
        return json_pack("{s:[o, {s:s, s:s}]}", "anyOf", whole_number(build, key), "type", "string",
                         "pattern", "^[0-9]+(\\.[0-9]+)? ?([kKMGT]i?B?)?$");
    case MT_KEY_OBJECT:
        return json_pack("{s:s}", "type", "object");
    case MT_KEY_TOKEN_IDS:
        schema = whole_number(build, key);
        return json_pack("{s:[O, {s:s, s:i, s:i, s:o}]}", "anyOf", schema, "type", "array", "minItems", 1,
                         "maxItems", 64, "items", schema);
    case MT_KEY_MIX:
        return mt_mix_schema();
    case MT_KEY_LIST:
        return json_pack("{s:s, s:i}", "type", "array", "maxItems", 0);
    case MT_KEY_NAME:
        return json_pack("{s:s, s:i, s:i, s:s}", "type", "string", "minLength", 1, "maxLength", 128,
                         "pattern", "^[^./\\u0000-\\u001f][^/\\u0000-\\u001f]*$");
    default:
        return json_pack("{s:s, s:i}", "type", "string", "minLength", 1);
    }
}

static json_t *property(struct build *build, const struct mt_job_key *key)
{
    json_t *schema = type_of(build, key);
    if (key->unit) {
        char text[512];
        snprintf(text, sizeof text, "%s Unit: %s.", key->help, key->unit);
        set(build, schema, "description", json_string(text));
    } else {
        set(build, schema, "description", json_string(key->help));
    }
    if (key->default_json)
        set(build, schema, "default", json_loads(key->default_json, JSON_DECODE_ANY, NULL));
    return schema;
}

/* {"not": {"required": [a, b]}}: at most one of the two. */
static void forbid_both(struct build *build, json_t *rules, const char *a, const char *b)
{
    append(build, rules, json_pack("{s:{s:[s, s]}}", "not", "required", a, b));
}

/* An alias in the same block is a property of its own, never beside another name of the key. One of another
 * block (model.device) excludes across blocks. */
static void add_aliases(struct build *build, const char *block, json_t *properties, json_t *rules)
{
    for (size_t i = 0; i < mt_job_num_aliases; i++) {
        const struct mt_job_alias *alias = &mt_job_aliases[i];
        if (!mt_job_key_in_block(alias->pointer, block))
            continue;
        char dotted[128], text[256];
        json_t *schema = type_of(build, mt_job_key_find(alias->canonical));
        snprintf(text, sizeof text, "The same as %s.",
                 mt_job_key_dotted(alias->canonical, dotted, sizeof dotted));
        set(build, schema, "description", json_string(text));
        set(build, schema, "deprecated", json_true());
        set(build, properties, mt_job_key_name(alias->pointer), schema);
        if (mt_job_key_in_block(alias->canonical, block))
            forbid_both(build, rules, mt_job_key_name(alias->pointer), mt_job_key_name(alias->canonical));
        for (size_t j = 0; j < i; j++) {
            if (strcmp(mt_job_aliases[j].canonical, alias->canonical) == 0 &&
                mt_job_key_in_block(mt_job_aliases[j].pointer, block))
                forbid_both(build, rules, mt_job_key_name(mt_job_aliases[j].pointer),
                            mt_job_key_name(alias->pointer));
        }
    }
}

/* `path` inside a block as a requirement of the whole document: {"required": ["model"], "properties":
 * {"model":
 * {"required": ["device"]}}} */
static json_t *requires(const char *pointer)
{
    json_t *inner = NULL;
    char text[128], *slash;
    snprintf(text, sizeof text, "%s", pointer);
    while ((slash = strrchr(text, '/')) != NULL) {
        inner = inner ? json_pack("{s:[s], s:{s:o}}", "required", slash + 1, "properties", slash + 1, inner)
                      : json_pack("{s:[s]}", "required", slash + 1);
        *slash = '\0';
    }
    return inner;
}

/* Aliases that stand in another block than their key. */
static void forbid_across_blocks(struct build *build, json_t *rules)
{
    for (size_t i = 0; i < mt_job_num_aliases; i++) {
        const struct mt_job_alias *alias = &mt_job_aliases[i];
        size_t bytes = (size_t)(mt_job_key_name(alias->pointer) - alias->pointer) - 1;
        char block[64];
        snprintf(block, sizeof block, "%.*s", (int)bytes, alias->pointer);
        if (!mt_job_key_in_block(alias->canonical, block))
            append(build, rules,
                   json_pack("{s:{s:[o, o]}}", "not", "allOf", requires(alias->pointer),
                             requires(alias->canonical)));
    }
}

static void add_block_rules(struct build *build, const char *block, json_t *schema, json_t *rules)
{
    if (strcmp(block, "") == 0) {
        set(build, schema, "required", json_pack("[s, s]", "model", "dataset"));
        forbid_across_blocks(build, rules);
    } else if (strcmp(block, "/training") == 0) {
        forbid_both(build, rules, "max_steps", "num_epochs");
        forbid_both(build, rules, "num_steps", "num_epochs");
    } else if (strcmp(block, "/dataset") == 0) {
        append(build, rules,
               json_pack("{s:[{s:[s]}, {s:[s]}, {s:[s]}]}", "oneOf", "required", "name", "required", "path",
                         "required", "mix"));
        set(build, schema, "dependentRequired", json_pack("{s:[s]}", "mix_strategy", "mix"));
        /* Grouping by length is for data that is not packed. */
        append(build, rules,
               json_pack("{s:[{s:{s:{s:b}}}, {s:{s:{s:b}}, s:[s]}]}", "anyOf", "properties",
                         "group_by_length", "const", 0, "properties", "packing", "const", 0, "required",
                         "packing"));
    } else if (strcmp(block, "/model") == 0) {
        /* A family's config.json may have any other key, but only where there is a family. */
        json_t *names = json_array();
        const char *name;
        json_t *value;
        json_object_foreach(json_object_get(schema, "properties"), name, value)
        {
            append(build, names, json_string(name));
        }
        json_object_del(schema, "additionalProperties");
        json_t *layers = json_pack("{s:[{s:[s]}, {s:[s]}]}", "anyOf", "required", "num_layers", "required",
                                   "num_hidden_layers");
        append(build, rules,
               json_pack("{s:[{s:[s]}, {s:[s]}, {s:[s]}]}", "oneOf", "required", "path", "required", "name",
                         "required", "architecture"));
        forbid_both(build, rules, "file", "architecture");
        /* Other families may have names of their own for these. */
        append(build, rules,
               json_pack("{s:{s:[s], s:{s:{s:[s, s]}}}, s:{s:[s, s], s:[o]}}", "if", "required",
                         "architecture", "properties", "architecture", "enum", "llama", "LlamaForCausalLM",
                         "then", "required", "hidden_size", "num_attention_heads", "allOf", layers));
        append(build, rules,
               json_pack("{s:{s:{s:[s], s:{s:{s:{s:[s, s]}}}}}, s:{s:{s:O}}}", "if", "not", "required",
                         "architecture", "properties", "architecture", "not", "enum", "llama",
                         "LlamaForCausalLM", "then", "propertyNames", "enum", names));
        json_decref(names);
        /* What shapes a new model needs an architecture. */
        json_t *dependent = json_object();
        for (size_t i = 0; i < mt_job_num_keys; i++) {
            if (mt_job_keys[i].flags & MT_KEY_CONFIG)
                set(build, dependent, mt_job_key_name(mt_job_keys[i].pointer),
                    json_pack("[s]", "architecture"));
        }
        set(build, schema, "dependentRequired", dependent);
    }
}

static json_t *block_schema(struct build *build, const char *block, const char *help)
{
    json_t *schema = json_pack("{s:s, s:s}", "type", "object", "description", help);
    json_t *properties = json_object(), *rules = json_array();
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        if (!mt_job_key_in_block(key->pointer, block) || (key->flags & (MT_KEY_LATER | MT_KEY_OWN)))
            continue;
        const char *name = mt_job_key_name(key->pointer);
        if (key->flags & MT_KEY_NO_EFFECT)
            set(build, properties, name,
                json_pack("{s:s+, s:b}", "description", "Without effect: ", key->note, "deprecated", 1));
        else if (key->type == MT_KEY_BLOCK)
            set(build, properties, name, block_schema(build, key->pointer, key->help));
        else
            set(build, properties, name, property(build, key));
    }
    add_aliases(build, block, properties, rules);
    set(build, schema, "properties", properties);
    set(build, schema, "additionalProperties", json_false());
    add_block_rules(build, block, schema, rules);
    if (json_array_size(rules) > 0)
        set(build, schema, "allOf", json_incref(rules));
    json_decref(rules);
    return schema;
}

json_t *mt_job_schema(void)
{
    struct build build = {false};
    json_t *schema = json_object();
    json_t *root = block_schema(&build, "", "What MegaTrain trains, with what and how.");
    set(&build, schema, "$schema", json_string("https://json-schema.org/draft/2020-12/schema"));
    set(&build, schema, "$id", json_string("urn:megatrain:job"));
    set(&build, schema, "title", json_string("MegaTrain job"));
    if (!schema || !root || json_object_update(schema, root) < 0)
        build.out_of_memory = true;
    json_decref(root);
    if (!build.out_of_memory)
        return schema;
    json_decref(schema);
    return NULL;
}
