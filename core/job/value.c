/* One value against one key of the table: type, range, choice. */
#include "core/base/size.h"
#include "core/job/mix.h"
#include "core/job/reader.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_TEXT_BYTES 4096
#define MAX_NAME_BYTES 128
#define MAX_LIST 10000
#define MAX_LABELS 64

/* One value on its way through the checks. */
struct check {
    struct mt_job_reader *reader;
    const struct mt_job_key *key;
    const char *pointer; /* as written */
    const json_t *value;
};

/* Reports; returns NULL, so that a check can end with it. */
static void *fail(const struct check *check, const char *suggestion, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void *fail(const struct check *check, const char *suggestion, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    mt_reader_error(check->reader, MT_REASON_BAD_JOB, check->pointer, suggestion, "%s", text);
    return NULL;
}

static json_t *made(const struct check *check, json_t *value)
{
    if (!value)
        check->reader->out_of_memory = true;
    return value;
}

static const char *name_of(const struct check *check)
{
    return mt_job_key_name(check->pointer);
}

static const char *describe(const struct check *check)
{
    return mt_value_describe(check->reader, check->value);
}

static json_t *not_yet(const struct check *check, const char *what)
{
    return fail(check, NULL, "%s is not supported yet", what);
}

/* " of at least 1 and at most 8", " above 0", or nothing. */
static const char *range_text(const struct mt_job_key *key, char text[96])
{
    char low[40] = "", high[40] = "";
    snprintf(low, sizeof low, " %s %.15g", key->flags & MT_KEY_ABOVE ? "above" : "of at least", key->minimum);
    if (key->maximum < 1e6 && !(key->flags & MT_KEY_ONLY_ONE))
        snprintf(high, sizeof high, " and %s %.15g", key->flags & MT_KEY_BELOW ? "below" : "at most",
                 key->maximum);
    snprintf(text, 96, "%s%s", low, high);
    return text;
}

static bool in_range(const struct mt_job_key *key, double value)
{
    return (key->flags & MT_KEY_ABOVE ? value > key->minimum : value >= key->minimum) &&
           (key->flags & MT_KEY_BELOW ? value < key->maximum : value <= key->maximum);
}

/* YAML's `.nan` and `.inf` arrive as strings, since JSON has no such numbers. */
static bool is_not_finite(const char *text)
{
    static const char *const words[] = {".nan",     "nan",       ".inf", "+.inf", "-.inf",
                                        "infinity", "-infinity", "inf",  "-inf",  NULL};
    for (size_t i = 0; words[i]; i++) {
        if (strcasecmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

static bool looks_like_number(const char *text)
{
    char *end;
    strtod(text, &end);
    return end != text && *end == '\0';
}

/* The number in the value, or false after an error; `kind` is "number" or "whole number". */
static bool read_number(const struct check *check, const char *kind, const char *or_else, double *number)
{
    char range[96];
    const char *text = json_string_value(check->value);
    range_text(check->key, range);
    if (json_is_number(check->value)) {
        *number = json_number_value(check->value);
        if (isfinite(*number))
            return true;
        fail(check, NULL, "%s must be a finite number", name_of(check));
    } else if (text && is_not_finite(text)) {
        fail(check, NULL, "%s is not a finite number (%s); it must be a %s%s", name_of(check), text, kind,
             range);
    } else if (text && looks_like_number(text)) {
        fail(check, NULL, "%s must be a %s%s%s, found the string \"%s\": leave the quotes out",
             name_of(check), kind, range, or_else, strlen(text) < 40 ? text : "...");
    } else {
        fail(check, NULL, "%s must be a %s%s%s, found %s", name_of(check), kind, range, or_else,
             describe(check));
    }
    return false;
}

static json_t *check_number(const struct check *check)
{
    double number;
    char range[96];
    if (!read_number(check, "number", "", &number))
        return NULL;
    if (!in_range(check->key, number))
        return fail(check, NULL, "%s must be a number%s, found %s", name_of(check),
                    number > check->key->maximum && check->key->maximum >= 1e6
                        ? " of a size that makes sense"
                        : range_text(check->key, range),
                    describe(check));
    /* The arithmetic has single precision: there it would be the 0 that the range leaves out. */
    if ((check->key->flags & MT_KEY_ABOVE) && check->key->minimum >= 0 && !((float)number > 0))
        return fail(check, NULL, "%s must be a number of a size that makes sense, found %s", name_of(check),
                    describe(check));
    return made(check, json_real(number + 0.0));
}

/* A whole number; 3.0 is one as in JSON Schema. */
static json_t *check_count(const struct check *check, const char *or_else)
{
    double number;
    char range[96];
    if (!read_number(check, "whole number", or_else, &number))
        return NULL;
    if (number != floor(number))
        return fail(check, NULL, "%s must be a whole number%s%s, found %s", name_of(check),
                    range_text(check->key, range), or_else, describe(check));
    if ((check->key->flags & MT_KEY_ONLY_ONE) && number > check->key->maximum)
        return fail(check, NULL, "%s: %s is not supported yet; leave it at %.0f", name_of(check),
                    check->key->note, check->key->maximum);
    if (!in_range(check->key, number)) {
        if (number > check->key->maximum)
            return fail(check, NULL, "%s must be at most %.0f, found %s", name_of(check), check->key->maximum,
                        describe(check));
        return fail(check, NULL, "%s must be a whole number%s%s, found %s", name_of(check),
                    range_text(check->key, range), or_else, describe(check));
    }
    return made(check, json_integer((json_int_t)number));
}

static json_t *check_bool(const struct check *check)
{
    if (json_is_boolean(check->value))
        return made(check, json_boolean(json_is_true(check->value)));
    const char *text = json_string_value(check->value);
    if (text && (strcasecmp(text, "yes") == 0 || strcasecmp(text, "on") == 0))
        return fail(check, "true", "%s must be true or false, found the word %s", name_of(check), text);
    if (text && (strcasecmp(text, "no") == 0 || strcasecmp(text, "off") == 0))
        return fail(check, "false", "%s must be true or false, found the word %s", name_of(check), text);
    return fail(check, NULL, "%s must be true or false, found %s", name_of(check), describe(check));
}

/* A string that C can hold: not empty, no zero byte. */
static const char *read_text(const struct check *check, const char *what)
{
    const char *text = json_string_value(check->value);
    if (!text)
        fail(check, NULL, "%s must be %s, found %s", name_of(check), what, describe(check));
    else if (strlen(text) != json_string_length(check->value))
        fail(check, NULL, "%s holds a NUL character", name_of(check));
    else if (*text == '\0')
        fail(check, NULL, "%s is empty; leave the key out instead", name_of(check));
    else if (strlen(text) >= MAX_TEXT_BYTES)
        fail(check, NULL, "%s is longer than %d bytes", name_of(check), MAX_TEXT_BYTES - 1);
    else
        return text;
    return NULL;
}

static json_t *check_text(const struct check *check, const char *what)
{
    const char *text = read_text(check, what);
    return text ? made(check, json_string(text)) : NULL;
}

static json_t *check_name(const struct check *check)
{
    const char *text = read_text(check, "a string");
    if (!text)
        return NULL;
    if (strlen(text) > MAX_NAME_BYTES)
        return fail(check, NULL, "%s is longer than %d bytes", name_of(check), MAX_NAME_BYTES);
    if (*text == '.')
        return fail(check, NULL, "%s must not begin with a dot: it becomes the name of a folder",
                    name_of(check));
    for (const char *c = text; *c; c++) {
        if (*c == '/' || (unsigned char)*c < 0x20 || *c == 0x7f)
            return fail(
                check, NULL,
                "%s must hold neither slashes nor control characters: it becomes the name of a folder",
                name_of(check));
    }
    return made(check, json_string(text));
}

static json_t *check_choice(const struct check *check)
{
    char list[256];
    const struct mt_job_choice *choices = check->key->choices;
    const char *text = json_string_value(check->value);
    mt_job_choice_list(choices, list, sizeof list);
    if (!text)
        return fail(check, NULL, "%s must be %s%s, found %s", name_of(check),
                    strchr(list, ' ') ? "one of " : "", list, describe(check));
    const struct mt_job_choice *choice = mt_job_choice_find(choices, text);
    bool plannable = (check->key->flags & MT_KEY_PLANNABLE) && check->reader->context->purpose == MT_JOB_PLAN;
    if (!choice || strlen(text) != json_string_length(check->value)) {
        const char *nearest = mt_job_choice_nearest(choices, text);
        return fail(check, nearest, "%s must be %s%s, found %s", name_of(check),
                    strchr(list, ' ') ? "one of " : "", list, describe(check));
    }
    if (choice->state == MT_JOB_CHOICE_LATER && !plannable)
        return fail(check, NULL, "%s: %s is not supported yet; what is: %s", name_of(check), text, list);
    return made(check, json_string(mt_job_choice_word(choices, choice->value)));
}

/* cuda:N, with N up to four digits. */
static bool is_cuda_number(const char *text)
{
    if (strncmp(text, "cuda:", 5) != 0)
        return false;
    size_t digits = strspn(text + 5, "0123456789");
    return digits >= 1 && digits <= 4 && text[5 + digits] == '\0';
}

static json_t *check_device(const struct check *check)
{
    char list[128], number[32];
    const char *text = json_string_value(check->value);
    const json_t *value = check->value;
    if (json_is_array(value)) {
        if (json_array_size(value) != 1)
            return not_yet(check, json_array_size(value) ? "training on more than one device"
                                                         : "training on no device");
        value = json_array_get(value, 0);
        text = json_string_value(value);
    }
    const double index = json_is_number(value) ? json_number_value(value) : -1;
    if (index >= 0 && index < 10000 && floor(index) == index) { /* 1.0 is whole, as in JSON Schema */
        snprintf(number, sizeof number, "cuda:%d", (int)index);
        text = number;
    }
    mt_job_choice_list(check->key->choices, list, sizeof list);
    const struct mt_job_choice *choice =
        text ? mt_job_choice_find(check->key->choices, is_cuda_number(text) ? "cuda:N" : text) : NULL;
    if (!choice || strcmp(text, "cuda:N") == 0)
        return fail(check, text ? mt_job_choice_nearest(check->key->choices, text) : NULL,
                    "%s must be %s, found %s", name_of(check), list, describe(check));
    if (choice->state == MT_JOB_CHOICE_LATER && check->reader->context->purpose != MT_JOB_PLAN)
        return fail(check, NULL, "%s: %s is not supported yet; what is: %s", name_of(check), text, list);
    return made(check, json_string(text));
}

static json_t *check_list_of_texts(const struct check *check, const char *what)
{
    json_t *list = made(check, json_array());
    size_t count = json_array_size(check->value);
    if (count > MAX_LIST) {
        json_decref(list);
        return fail(check, NULL, "%s holds more than %d entries", name_of(check), MAX_LIST);
    }
    bool good = true;
    for (size_t i = 0; list && i < count; i++) {
        char pointer[MT_JOB_POINTER_BYTES];
        snprintf(pointer, sizeof pointer, "%s/%zu", check->pointer, i);
        const struct check item = {check->reader, check->key, pointer, json_array_get(check->value, i)};
        const char *text = json_string_value(item.value);
        if (!text || !*text || strlen(text) != json_string_length(item.value)) {
            fail(&item, NULL, "entry %zu of %s must be %s, found %s", i, name_of(check), what,
                 describe(&item));
            good = false;
        } else if (json_array_append(list, json_array_get(check->value, i)) < 0) {
            check->reader->out_of_memory = true;
        }
    }
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *check_paths(const struct check *check)
{
    if (!json_is_array(check->value))
        return check_text(check, "a path or a list of paths");
    if (json_array_size(check->value) == 0)
        return fail(check, NULL, "%s is an empty list", name_of(check));
    return check_list_of_texts(check, "a path");
}

static json_t *check_texts(const struct check *check)
{
    if (!json_is_array(check->value))
        return fail(check, NULL, "%s must be a list of strings, found %s", name_of(check), describe(check));
    return check_list_of_texts(check, "a string");
}

static json_t *check_labels(const struct check *check)
{
    const char *key;
    json_t *value;
    bool good = true;
    if (!json_is_object(check->value))
        return fail(check, NULL, "%s must be an object of strings, found %s", name_of(check),
                    describe(check));
    if (json_object_size(check->value) > MAX_LABELS)
        return fail(check, NULL, "%s holds more than %d entries", name_of(check), MAX_LABELS);
    json_t *labels = made(check, json_object());
    json_object_foreach((json_t *)(uintptr_t)check->value, key, value)
    {
        char pointer[MT_JOB_POINTER_BYTES];
        snprintf(pointer, sizeof pointer, "%s", check->pointer);
        const struct check item = {check->reader, check->key,
                                   mt_pointer_append(pointer, sizeof pointer, key) ? pointer : check->pointer,
                                   value};
        if (strlen(key) > 64 || !*key) {
            fail(&item, NULL, "a label's name must have 1 to 64 bytes");
            good = false;
        } else if (!json_is_string(value) || json_string_length(value) > 256 ||
                   strlen(json_string_value(value)) != json_string_length(value)) {
            fail(&item, NULL, "a label must be a string of at most 256 bytes, found %s", describe(&item));
            good = false;
        } else if (labels && json_object_set(labels, key, value) < 0) {
            check->reader->out_of_memory = true;
        }
    }
    if (good)
        return labels;
    json_decref(labels);
    return NULL;
}

static json_t *check_bytes(const struct check *check)
{
    size_t bytes;
    const char *text = json_string_value(check->value);
    if (!text)
        return check_count(check, " or a size such as \"64MiB\"");
    if (strlen(text) != json_string_length(check->value) || mt_size_parse(text, &bytes) < 0)
        return fail(check, NULL, "%s must be a size such as 64MiB, found %s", name_of(check),
                    describe(check));
    if (!in_range(check->key, (double)bytes))
        return fail(check, NULL, "%s must be at least 1MiB, found %s", name_of(check), describe(check));
    return made(check, json_integer((json_int_t)bytes));
}

static json_t *check_token_ids(const struct check *check)
{
    bool is_list = json_is_array(check->value);
    size_t count = is_list ? json_array_size(check->value) : 1;
    bool good = count >= 1 && count <= 64;
    json_t *ids = made(check, json_array());
    for (size_t i = 0; good && ids && i < count; i++) {
        const json_t *item = is_list ? json_array_get(check->value, i) : check->value;
        double id = json_number_value(item);
        good = json_is_number(item) && id == floor(id) && in_range(check->key, id);
        if (good && json_array_append_new(ids, json_integer((json_int_t)id)) < 0)
            check->reader->out_of_memory = true;
    }
    json_t *result = is_list ? json_incref(ids) : json_incref(json_array_get(ids, 0));
    json_decref(ids);
    if (good)
        return result;
    json_decref(result);
    return fail(check, NULL, "%s must be a token id or a list of them, found %s", name_of(check),
                describe(check));
}

static json_t *check_list(const struct check *check)
{
    if (!json_is_array(check->value))
        return fail(check, NULL, "%s must be a list, found %s", name_of(check), describe(check));
    for (size_t i = 0; i < json_array_size(check->value); i++) {
        char pointer[MT_JOB_POINTER_BYTES], what[128];
        const char *format = json_string_value(json_object_get(json_array_get(check->value, i), "format"));
        snprintf(pointer, sizeof pointer, "%s/%zu", check->pointer, i);
        const struct check item = {check->reader, check->key, pointer, NULL};
        snprintf(what, sizeof what, "%s%s%.32s", check->key->note, format ? " to " : "",
                 format ? format : "");
        not_yet(&item, what);
        if (i == 15)
            break;
    }
    return json_array_size(check->value) == 0 ? made(check, json_array()) : NULL;
}

static json_t *check_object(const struct check *check)
{
    if (!json_is_object(check->value))
        return fail(check, NULL, "%s must be an object, found %s", name_of(check), describe(check));
    return made(check, json_deep_copy(check->value));
}

json_t *mt_value_check(struct mt_job_reader *reader, const struct mt_job_key *key, const char *pointer,
                       const json_t *value)
{
    const struct check check = {reader, key, pointer, value};
    if (json_is_null(value))
        return fail(&check, NULL, "%s has no value (null); leave the key out to get the default",
                    name_of(&check));
    switch (key->type) {
    case MT_KEY_TEXT:
        return check_text(&check, "a string");
    case MT_KEY_NAME:
        return check_name(&check);
    case MT_KEY_BOOL:
        return check_bool(&check);
    case MT_KEY_COUNT:
    case MT_KEY_INTEGER:
        return check_count(&check, "");
    case MT_KEY_COUNT_OR_AUTO:
        if (json_is_string(value) && strcmp(json_string_value(value), "auto") == 0)
            return made(&check, json_string("auto"));
        return check_count(&check, " or the word auto");
    case MT_KEY_NUMBER:
        return check_number(&check);
    case MT_KEY_CHOICE:
    case MT_KEY_WORD:
        return check_choice(&check);
    case MT_KEY_DEVICE:
        return check_device(&check);
    case MT_KEY_PATH:
        return check_text(&check, "a path");
    case MT_KEY_PATHS:
        return check_paths(&check);
    case MT_KEY_TEXTS:
        return check_texts(&check);
    case MT_KEY_LABELS:
        return check_labels(&check);
    case MT_KEY_BYTES:
        return check_bytes(&check);
    case MT_KEY_OBJECT:
        return check_object(&check);
    case MT_KEY_TOKEN_IDS:
        return check_token_ids(&check);
    case MT_KEY_MIX:
        return mt_mix_check(reader, pointer, value);
    case MT_KEY_LIST:
        return check_list(&check);
    case MT_KEY_BLOCK:
        break; /* read.c goes into blocks itself */
    }
    return NULL;
}
