/* YAML 1.2, core schema, into jansson values; see document.h. libyaml gives events; they become a tree of
 * nodes in an arena, in which an alias is the very node of its anchor; the tree is then copied out, counting,
 * so that a few lines of nested aliases cannot fill the memory. An anchor counts from the end of its node, so
 * no node can contain itself. */
#include "core/base/arena.h"
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/size.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define MAX_DEPTH 256
#define POINTER_BYTES 4096

enum node_kind { NODE_SCALAR, NODE_SEQUENCE, NODE_MAPPING };

struct node {
    enum node_kind kind;
    size_t line;
    const char *key; /* in a mapping */
    size_t key_line;
    json_t *scalar; /* its value, borrowed from reader.values */
    json_t *keys;   /* of a mapping: key -> line, borrowed from reader.values */
    struct node *first, *last;
    struct node *next;         /* the next child of the same parent */
    const struct node *target; /* an alias: what it stands for */
};

struct anchor {
    const char *name;
    const struct node *node;
    struct anchor *next;
};

struct reader {
    yaml_parser_t parser;
    const char *source;
    struct mt_arena *arena;
    json_t *values; /* an array that owns what nodes borrow */
    struct anchor *anchors;
    size_t nodes_out;
    json_t *lines; /* pointer -> line; NULL when nobody asked */
    struct mt_error *error;
};

struct mt_lines {
    json_t *map;
};

__attribute__((format(printf, 3, 4))) static int refuse(struct reader *reader, size_t line,
                                                        const char *format, ...)
{
    char what[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return mt_error_set(reader->error, -EINVAL, MT_REASON_BAD_JOB, "%s: line %zu: %s", reader->source, line,
                        what);
}

static int out_of_memory(struct reader *reader)
{
    return mt_error_set(reader->error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s",
                        reader->source);
}

/* --- scalars -------------------------------------------------------------------------------------------- */

static bool one_of(const char *text, const char *const *words)
{
    for (; *words; words++) {
        if (strcmp(text, *words) == 0)
            return true;
    }
    return false;
}

static const char *const null_words[] = {"", "~", "null", "Null", "NULL", NULL};
static const char *const true_words[] = {"true", "True", "TRUE", NULL};
static const char *const false_words[] = {"false", "False", "FALSE", NULL};
static const char *const nan_words[] = {".nan", ".NaN", ".NAN", NULL};
static const char *const inf_words[] = {".inf", ".Inf", ".INF", NULL};

static bool all_of(const char *text, const char *characters)
{
    return *text && text[strspn(text, characters)] == '\0';
}

static const char *after_sign(const char *text)
{
    return text + (*text == '-' || *text == '+');
}

#define DECIMAL "0123456789"

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_float(const char *text)
{
    text = after_sign(text);
    size_t whole = strspn(text, DECIMAL), fraction = 0;
    text += whole;
    if (*text == '.') {
        text++;
        fraction = strspn(text, DECIMAL);
        text += fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*text == 'e' || *text == 'E')
        return all_of(after_sign(text + 1), DECIMAL);
    return *text == '\0';
}

/* The magnitude in `base`; false when it does not fit. */
static bool parse_magnitude(const char *digits, unsigned base, uint64_t *magnitude)
{
    *magnitude = 0;
    for (; *digits; digits++) {
        unsigned digit = (unsigned)(*digits <= '9' ? *digits - '0' : (*digits | 0x20) - 'a' + 10);
        if (__builtin_mul_overflow(*magnitude, base, magnitude) ||
            __builtin_add_overflow(*magnitude, digit, magnitude))
            return false;
    }
    return true;
}

static int parse_integer(struct reader *reader, const char *text, size_t line, json_t **value)
{
    bool negative = *text == '-';
    const char *digits = after_sign(text);
    unsigned base = 10;
    if (*digits == '0' && (digits[1] == 'o' || digits[1] == 'x')) {
        base = digits[1] == 'o' ? 8 : 16;
        digits += 2;
    }
    uint64_t magnitude;
    if (!parse_magnitude(digits, base, &magnitude) || magnitude > (uint64_t)INT64_MAX + negative)
        return refuse(reader, line, "the number %s does not fit into 64 bits", text);
    /* The most negative number has no positive counterpart. */
    json_int_t number = negative && magnitude > 0 ? -(json_int_t)(magnitude - 1) - 1 : (json_int_t)magnitude;
    *value = json_integer(number);
    return *value ? 0 : out_of_memory(reader);
}

static int parse_float(struct reader *reader, const char *text, size_t line, json_t **value)
{
    /* json_loads reads a number without regard to the locale, which strtod would obey; it wants JSON's form.
     */
    char canonical[512];
    const char *digits = after_sign(text);
    size_t whole = strspn(digits, DECIMAL), zeros = strspn(digits, "0");
    size_t skip = zeros < whole ? zeros : whole > 0 ? whole - 1 : 0;
    const char *rest = digits + whole;
    size_t fraction = *rest == '.' ? strspn(rest + 1, DECIMAL) : 0;
    const char *exponent = *rest == '.' ? rest + 1 + fraction : rest;
    int length = snprintf(canonical, sizeof canonical, "%s%.*s.%.*s%s", *text == '-' ? "-" : "",
                          whole > 0 ? (int)(whole - skip) : 1, whole > 0 ? digits + skip : "0",
                          fraction > 0 ? (int)fraction : 1, fraction > 0 ? rest + 1 : "0", exponent);
    if (length < 0 || (size_t)length >= sizeof canonical)
        return refuse(reader, line, "a number of more than %zu digits", sizeof canonical - 1);
    *value = json_loads(canonical, JSON_DECODE_ANY, NULL);
    return *value ? 0 : refuse(reader, line, "the number %s is too large", text);
}

static int string_value(struct reader *reader, const char *text, json_t **value)
{
    *value = json_string(text); /* libyaml has checked that it is UTF-8 */
    return *value ? 0 : out_of_memory(reader);
}

/* What a plain scalar means by the core schema. */
static int resolve_plain(struct reader *reader, const char *text, size_t line, json_t **value)
{
    if (one_of(text, null_words)) {
        *value = json_null();
        return 0;
    }
    if (one_of(text, true_words) || one_of(text, false_words)) {
        *value = json_boolean(one_of(text, true_words));
        return 0;
    }
    if (all_of(after_sign(text), DECIMAL) || (strncmp(text, "0o", 2) == 0 && all_of(text + 2, "01234567")) ||
        (strncmp(text, "0x", 2) == 0 && all_of(text + 2, DECIMAL "abcdefABCDEF")))
        return parse_integer(reader, text, line, value);
    if (is_float(text))
        return parse_float(reader, text, line, value);
    if (one_of(text, nan_words))
        return string_value(reader, ".nan", value);
    if (one_of(after_sign(text), inf_words))
        return string_value(reader, *text == '-' ? "-.inf" : ".inf", value);
    return string_value(reader, text, value);
}

/* `!!float 3` and the like: the plain meaning, which must be of the type that the tag names. */
static int resolve_tagged(struct reader *reader, const char *tag, const char *text, size_t line,
                          json_t **value)
{
    if (strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0)
        return string_value(reader, text, value);
    const char *type = strncmp(tag, "tag:yaml.org,2002:", 18) == 0 ? tag + 18 : "";
    if (strcmp(type, "null") != 0 && strcmp(type, "bool") != 0 && strcmp(type, "int") != 0 &&
        strcmp(type, "float") != 0)
        return refuse(reader, line, "the tag %s is not supported", tag);
    int result = resolve_plain(reader, text, line, value);
    if (result < 0)
        return result;
    if (strcmp(type, "float") == 0 && json_is_integer(*value)) {
        double number = (double)json_integer_value(*value);
        json_decref(*value);
        *value = json_real(number);
        return *value ? 0 : out_of_memory(reader);
    }
    if ((strcmp(type, "null") == 0 && json_is_null(*value)) ||
        (strcmp(type, "bool") == 0 && json_is_boolean(*value)) ||
        (strcmp(type, "int") == 0 && json_is_integer(*value)) ||
        (strcmp(type, "float") == 0 && json_is_real(*value)))
        return 0;
    json_decref(*value);
    *value = NULL;
    return refuse(reader, line, "\"%s\" is not of the type %s that its tag names", text, type);
}

/* --- events to nodes ------------------------------------------------------------------------------------ */

static int next_event(struct reader *reader, yaml_event_t *event)
{
    if (yaml_parser_parse(&reader->parser, event))
        return 0;
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return out_of_memory(reader);
    const char *problem = parser->problem ? parser->problem : "not YAML";
    if (parser->error == YAML_READER_ERROR) {
        size_t line = 1;
        const unsigned char *text = parser->input.string.start;
        size_t bytes = (size_t)(parser->input.string.end - text);
        for (size_t i = 0; i < mt_size_min(parser->problem_offset, bytes); i++)
            line += text[i] == '\n';
        return refuse(reader, line, "%s", problem);
    }
    size_t line = parser->problem_mark.line + 1, column = parser->problem_mark.column + 1;
    const char *hint =
        strstr(problem, "cannot start any token") ? " (a tab as indentation? write spaces)" : "";
    return mt_error_set(reader->error, -EINVAL, MT_REASON_BAD_JOB, "%s: line %zu, column %zu: %s%s%s%s",
                        reader->source, line, column, problem, parser->context ? ", " : "",
                        parser->context ? parser->context : "", hint);
}

static const char *scalar_text(struct reader *reader, const yaml_event_t *event, int *result)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t bytes = event->data.scalar.length, line = event->start_mark.line + 1;
    *result = 0;
    if (memchr(text, '\0', bytes)) {
        *result = refuse(reader, line, "a zero byte in a string");
        return NULL;
    }
    return text;
}

static int add_scalar(struct reader *reader, const yaml_event_t *event, struct node *node)
{
    int result;
    const char *text = scalar_text(reader, event, &result);
    if (!text)
        return result;
    const char *tag = (const char *)event->data.scalar.tag;
    json_t *value = NULL;
    if (tag)
        result = resolve_tagged(reader, tag, text, node->line, &value);
    else if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        result = resolve_plain(reader, text, node->line, &value);
    else
        result = string_value(reader, text, &value);
    if (result < 0)
        return result;
    node->scalar = value;
    return json_array_append_new(reader->values, value) < 0 ? out_of_memory(reader) : 0;
}

/* A mapping's key: its text, whatever type the schema would give it. */
static int read_key(struct reader *reader, const yaml_event_t *event, const struct node *mapping,
                    struct node *child)
{
    size_t line = event->start_mark.line + 1;
    if (event->type != YAML_SCALAR_EVENT)
        return refuse(reader, line, "a key must be a word, not a list, a mapping or an alias");
    int result;
    const char *text = scalar_text(reader, event, &result);
    if (!text)
        return result;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, "<<") == 0)
        return refuse(reader, line, "merge keys (<<) are not part of YAML 1.2; write the keys out");
    if (event->data.scalar.anchor)
        return refuse(reader, line, "an anchor on a key is not supported");
    json_t *before = json_object_get(mapping->keys, text);
    if (before)
        return refuse(reader, line, "duplicate key \"%s\" (first on line %d)", text,
                      (int)json_integer_value(before));
    if (json_object_set_new(mapping->keys, text, json_integer((json_int_t)line)) < 0)
        return out_of_memory(reader);
    child->key = mt_arena_strdup(reader->arena, text);
    child->key_line = line;
    return child->key ? 0 : out_of_memory(reader);
}

static int read_node(struct reader *reader, const yaml_event_t *event, struct node *node, size_t depth);

static int read_children(struct reader *reader, struct node *node, size_t depth)
{
    if (node->kind == NODE_MAPPING) {
        node->keys = json_object();
        if (json_array_append_new(reader->values, node->keys) < 0)
            return out_of_memory(reader);
    }
    yaml_event_type_t end = node->kind == NODE_MAPPING ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    for (;;) {
        mt_cleanup(yaml_event_delete) yaml_event_t event = {0};
        int result = next_event(reader, &event);
        if (result < 0)
            return result;
        if (event.type == end)
            return 0;
        struct node *child = mt_arena_alloc(reader->arena, 1, sizeof *child);
        if (!child)
            return out_of_memory(reader);
        if (node->kind == NODE_MAPPING) {
            mt_cleanup(yaml_event_delete) yaml_event_t value = {0};
            result = read_key(reader, &event, node, child);
            if (result == 0)
                result = next_event(reader, &value);
            if (result == 0)
                result = read_node(reader, &value, child, depth + 1);
        } else {
            result = read_node(reader, &event, child, depth + 1);
        }
        if (result < 0)
            return result;
        *(node->last ? &node->last->next : &node->first) = child;
        node->last = child;
    }
}

static int check_collection_tag(struct reader *reader, const unsigned char *tag, const char *expected,
                                size_t line)
{
    if (!tag || strcmp((const char *)tag, "!") == 0 || strcmp((const char *)tag, expected) == 0)
        return 0;
    return refuse(reader, line, "the tag %s is not supported", (const char *)tag);
}

static int read_node(struct reader *reader, const yaml_event_t *event, struct node *node, size_t depth)
{
    const unsigned char *anchor = NULL;
    int result;
    node->line = event->start_mark.line + 1;
    if (depth > MAX_DEPTH)
        return refuse(reader, node->line, "nested more than %d deep", MAX_DEPTH);
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        for (const struct anchor *known = reader->anchors; known; known = known->next) {
            if (strcmp(known->name, (const char *)event->data.alias.anchor) == 0) {
                node->target = known->node;
                return 0;
            }
        }
        return refuse(reader, node->line, "the alias *%s stands for nothing above it",
                      (const char *)event->data.alias.anchor);
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        node->kind = NODE_SCALAR;
        result = add_scalar(reader, event, node);
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        node->kind = NODE_SEQUENCE;
        result = check_collection_tag(reader, event->data.sequence_start.tag, YAML_SEQ_TAG, node->line);
        if (result == 0)
            result = read_children(reader, node, depth);
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        node->kind = NODE_MAPPING;
        result = check_collection_tag(reader, event->data.mapping_start.tag, YAML_MAP_TAG, node->line);
        if (result == 0)
            result = read_children(reader, node, depth);
        break;
    default:
        return refuse(reader, node->line, "a value is missing");
    }
    if (result < 0 || !anchor)
        return result;
    struct anchor *named = mt_arena_alloc(reader->arena, 1, sizeof *named);
    if (!named || !(named->name = mt_arena_strdup(reader->arena, (const char *)anchor)))
        return out_of_memory(reader);
    named->node = node;
    named->next = reader->anchors; /* a name used again stands for the newer node from here on */
    reader->anchors = named;
    return 0;
}

/* --- nodes to values ------------------------------------------------------------------------------------ */

static int copy_out(struct reader *reader, const struct node *node, char *pointer, size_t depth,
                    json_t **value);

static int copy_children(struct reader *reader, const struct node *node, char *pointer, size_t depth,
                         json_t *value)
{
    size_t pointer_length = strlen(pointer), index = 0;
    for (const struct node *child = node->first; child; child = child->next, index++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", index);
        if (!mt_pointer_append(pointer, POINTER_BYTES, child->key ? child->key : number))
            return refuse(reader, child->line, "keys nested to more than %d bytes", POINTER_BYTES);
        size_t line = child->key ? child->key_line : child->line;
        if (reader->lines && json_object_set_new(reader->lines, pointer, json_integer((json_int_t)line)) < 0)
            return out_of_memory(reader);
        json_t *copy = NULL;
        int result = copy_out(reader, child, pointer, depth + 1, &copy);
        if (result < 0)
            return result;
        int added =
            child->key ? json_object_set_new(value, child->key, copy) : json_array_append_new(value, copy);
        if (added < 0)
            return out_of_memory(reader);
        pointer[pointer_length] = '\0';
    }
    return 0;
}

static int copy_out(struct reader *reader, const struct node *node, char *pointer, size_t depth,
                    json_t **value)
{
    size_t line = node->line;
    while (node->target)
        node = node->target;
    if (++reader->nodes_out > MT_YAML_MAX_NODES)
        return refuse(reader, line, "more than %d values, aliases expanded", MT_YAML_MAX_NODES);
    if (depth > MAX_DEPTH)
        return refuse(reader, line, "nested more than %d deep, aliases expanded", MAX_DEPTH);
    if (node->kind == NODE_SCALAR) {
        *value =
            json_copy(node->scalar); /* null, true and false are shared; others get a value of their own */
        return *value ? 0 : out_of_memory(reader);
    }
    mt_autojson json_t *collection = node->kind == NODE_MAPPING ? json_object() : json_array();
    if (!collection)
        return out_of_memory(reader);
    int result = copy_children(reader, node, pointer, depth, collection);
    if (result == 0)
        *value = json_incref(collection);
    return result;
}

static int read_document(struct reader *reader, struct node *root, json_t **value)
{
    for (bool seen = false;;) {
        mt_cleanup(yaml_event_delete) yaml_event_t event = {0};
        int result = next_event(reader, &event);
        if (result < 0)
            return result;
        switch (event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_DOCUMENT_START_EVENT:
            if (seen)
                return refuse(reader, event.start_mark.line + 1, "a second document (---); one is expected");
            break;
        case YAML_STREAM_END_EVENT: {
            if (!seen)
                return mt_error_set(reader->error, -EINVAL, MT_REASON_BAD_JOB, "%s is empty", reader->source);
            char pointer[POINTER_BYTES] = "";
            return copy_out(reader, root, pointer, 0, value);
        }
        default:
            seen = true;
            result = read_node(reader, &event, root, 0);
            if (result < 0)
                return result;
        }
    }
}

int mt_yaml_parse(const char *text, size_t bytes, const char *source, json_t **value, struct mt_lines **lines,
                  struct mt_error *error)
{
    struct reader reader = {.source = source, .error = error};
    struct node root = {0};
    if (lines)
        *lines = NULL;
    if (!yaml_parser_initialize(&reader.parser))
        return out_of_memory(&reader);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, bytes);
    reader.arena = mt_arena_new();
    reader.values = json_array();
    reader.lines = lines ? json_object() : NULL;
    struct mt_lines *map = lines ? calloc(1, sizeof *map) : NULL;
    int result;
    if (!reader.arena || !reader.values || (lines && (!reader.lines || !map)))
        result = out_of_memory(&reader);
    else
        result = read_document(&reader, &root, value);
    if (result == 0 && lines) {
        map->map = json_incref(reader.lines);
        *lines = map;
    } else {
        free(map);
    }
    json_decref(reader.lines);
    json_decref(reader.values);
    mt_arena_free(reader.arena);
    yaml_parser_delete(&reader.parser);
    return result;
}

int mt_lines_find(const struct mt_lines *lines, const char *pointer)
{
    return lines ? (int)json_integer_value(json_object_get(lines->map, pointer)) : 0;
}

int mt_lines_find_around(const struct mt_lines *lines, const char *pointer)
{
    char around[512];
    if (!lines)
        return 0;
    snprintf(around, sizeof around, "%s", pointer);
    for (;;) {
        int line = mt_lines_find(lines, around);
        char *slash = strrchr(around, '/');
        if (line > 0 || !slash)
            return line;
        *slash = '\0';
    }
}

void mt_lines_free(struct mt_lines *lines)
{
    if (!lines)
        return;
    json_decref(lines->map);
    free(lines);
}
