/* The names that templates find without being given them: Jinja's range, dict, cycler, joiner, and what
 * transformers adds: namespace, raise_exception, strftime_now. */
#include "core/text/jinja/methods.h"

#include <string.h>
#include <time.h>

#define MAX_RANGE 100000 /* jinja2's sandbox has the same bound */

static struct mt_jvalue *call_range(struct mt_jrun *run, const struct mt_jargs *args)
{
    struct mt_jvalue *given[3];
    int64_t start = 0, stop, step = 1;
    if (!mt_jpositional(run, "range", args, 1, 3, given))
        return NULL;
    for (size_t i = 0; i < args->count; i++)
        if (mt_jis(given[i], MT_J_UNDEFINED) || !mt_jis_integer(given[i]))
            return mt_jfail(run, "range needs whole numbers, not a value of type %s", mt_jtype(given[i]));
    stop = mt_jinteger(given[args->count > 1]);
    if (args->count > 1)
        start = mt_jinteger(given[0]);
    if (args->count > 2)
        step = mt_jinteger(given[2]);
    if (step == 0)
        return mt_jfail(run, "the step of a range can't be zero");
    /* As unsigned numbers: the distance may take 64 bits. */
    const uint64_t distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    const uint64_t width = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    const bool any = step > 0 ? stop > start : stop < start;
    const uint64_t count = any ? (distance - 1) / width + 1 : 0;
    if (count > MAX_RANGE)
        return mt_jfail(run, "a range of more than %d numbers", MAX_RANGE);
    return mt_jrange_new(run, (struct mt_jrange){start, stop, step, (size_t)count});
}

/* dict(mapping or pairs, name=value...) into a new dict. */
static struct mt_jdict *make_dict(struct mt_jrun *run, const struct mt_jargs *args)
{
    struct mt_jdict *dict = mt_jdict_new(run, 0);
    if (!dict)
        return NULL;
    if (args->count > 1)
        return mt_jfail(run, "a dict is made of one value at most");
    if (args->count && mt_jis(args->items[0], MT_J_DICT)) {
        const struct mt_jdict *other = args->items[0]->dict;
        for (size_t i = 0; i < other->count; i++)
            if (!mt_jdict_put(run, dict, other->entries[i].key, other->entries[i].value))
                return NULL;
    } else if (args->count) {
        struct mt_jiterator iterator;
        if (!mt_jiterate(run, args->items[0], &iterator))
            return NULL;
        for (struct mt_jvalue *item; (item = mt_jnext(run, &iterator));) {
            const struct mt_jvalue *pair = mt_jcollect(run, item, MT_J_LIST);
            if (!pair)
                return NULL;
            if (pair->list->count != 2)
                return mt_jfail(run, "a dict is made of pairs");
            if (!mt_jdict_put(run, dict, pair->list->items[0], pair->list->items[1]))
                return NULL;
        }
    }
    for (size_t i = 0; i < args->num_keywords; i++)
        if (!mt_jdict_put_text(run, dict, args->keywords[i].name, args->keywords[i].value))
            return NULL;
    return run->failed ? NULL : dict;
}

static struct mt_jvalue *call_dict(struct mt_jrun *run, const struct mt_jargs *args)
{
    return mt_jdict_value(run, MT_J_DICT, make_dict(run, args));
}

static struct mt_jvalue *call_namespace(struct mt_jrun *run, const struct mt_jargs *args)
{
    struct mt_jdict *dict = make_dict(run, args);
    for (size_t i = 0; dict && i < dict->count; i++)
        if (mt_jis_text(dict->entries[i].key) && dict->entries[i].key->text.bytes &&
            dict->entries[i].key->text.data[0] == '_')
            return mt_jfail(run, "the attributes of a namespace can't begin with an underscore");
    return mt_jdict_value(run, MT_J_NAMESPACE, dict);
}

static struct mt_jvalue *make_cycler(struct mt_jrun *run, enum mt_jkind kind, struct mt_jvalue **items,
                                     size_t count)
{
    struct mt_jvalue *value = mt_jalloc(run, 1, sizeof *value);
    struct mt_jcycler *cycler = value ? mt_jalloc(run, 1, sizeof *cycler) : NULL;
    if (!cycler)
        return NULL;
    *cycler = (struct mt_jcycler){.items = items, .count = count};
    *value = (struct mt_jvalue){.kind = (uint8_t)kind, .cycler = cycler};
    return value;
}

static struct mt_jvalue *call_cycler(struct mt_jrun *run, const struct mt_jargs *args)
{
    if (!args->count || args->num_keywords)
        return mt_jfail(run, "cycler takes one value or more");
    return make_cycler(run, MT_J_CYCLER, args->items, args->count);
}

static struct mt_jvalue *call_joiner(struct mt_jrun *run, const struct mt_jargs *args)
{
    static const char *const names[] = {"sep"};
    struct mt_jvalue *separator, **items = mt_jalloc(run, 1, sizeof(struct mt_jvalue *));
    if (!items || !mt_jbind(run, "joiner", args, names, 1, 0, &separator))
        return NULL;
    if (!(items[0] = separator ? separator : mt_jliteral(run, ", ")))
        return NULL;
    return make_cycler(run, MT_J_JOINER, items, 1);
}

static struct mt_jvalue *cycler_next(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jcycler *cycler = self->cycler;
    if (!mt_jpositional(run, "next", args, 0, 0, NULL))
        return NULL;
    struct mt_jvalue *item = cycler->items[cycler->position];
    cycler->position = (cycler->position + 1) % cycler->count;
    return item;
}

static struct mt_jvalue *cycler_reset(struct mt_jrun *run, struct mt_jvalue *self,
                                      const struct mt_jargs *args)
{
    if (!mt_jpositional(run, "reset", args, 0, 0, NULL))
        return NULL;
    self->cycler->position = 0;
    return mt_jnone();
}

struct mt_jvalue *mt_jcycler_attribute(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name)
{
    if (mt_jis(self, MT_J_JOINER)) {
        if (mt_jslice_is(name, "sep"))
            return self->cycler->items[0];
        return mt_jslice_is(name, "used") ? mt_jbool(self->cycler->position) : NULL;
    }
    if (mt_jslice_is(name, "current"))
        return self->cycler->items[self->cycler->position];
    if (mt_jslice_is(name, "next"))
        return mt_jmethod_new(run, "next", cycler_next, self);
    return mt_jslice_is(name, "reset") ? mt_jmethod_new(run, "reset", cycler_reset, self) : NULL;
}

static struct mt_jvalue *call_raise(struct mt_jrun *run, const struct mt_jargs *args)
{
    static const char *const names[] = {"message"};
    struct mt_jvalue *message;
    if (!mt_jbind(run, "raise_exception", args, names, 1, 1, &message) || !(message = mt_jstr(run, message)))
        return NULL;
    return mt_jfail_as(run, -EINVAL, MT_REASON_BAD_DATA, "%.*s",
                       message->text.bytes > 1000 ? 1000 : (int)message->text.bytes, message->text.data);
}

static struct mt_jvalue *call_strftime(struct mt_jrun *run, const struct mt_jargs *args)
{
    static const char *const names[] = {"format"};
    struct mt_jvalue *format;
    struct mt_jbuffer buffer = {0}, pattern = {0};
    char text[1024];
    struct tm now;
    if (!mt_jbind(run, "strftime_now", args, names, 1, 1, &format))
        return NULL;
    if (!mt_jis_text(format))
        return mt_jfail(run, "strftime_now needs a text, not a value of type %s", mt_jtype(format));
    if (run->now) {
        now = *run->now;
    } else {
        const time_t seconds = time(NULL);
        localtime_r(&seconds, &now);
    }
    /* A character in front tells an empty result from one that does not fit. */
    if (!mt_jputs(run, &pattern, "x") || !mt_jput_slice(run, &pattern, format->text) ||
        !mt_jput(run, &pattern, "", 1))
        return NULL;
    if (memchr(format->text.data, '\0', format->text.bytes) ||
        memmem(format->text.data, format->text.bytes, "%f", 2))
        return mt_jfail_unsupported(run, "strftime_now: %%f and zero bytes are not supported");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t length = strftime(text, sizeof text, pattern.data, &now);
#pragma GCC diagnostic pop
    if (!length)
        return mt_jfail_unsupported(run, "strftime_now: such a long text is not supported");
    return mt_jput(run, &buffer, text + 1, length - 1) ? mt_jbuffer_value(run, &buffer, false) : NULL;
}

static struct mt_jvalue *call_lipsum(struct mt_jrun *run, const struct mt_jargs *args)
{
    (void)args;
    return mt_jfail_unsupported(run, "lipsum is not supported");
}

struct mt_jvalue *mt_jglobal_find(const char *name)
{
    static const struct mt_jfunction functions[] = {
        {"range", call_range},         {"dict", call_dict},
        {"namespace", call_namespace}, {"cycler", call_cycler},
        {"joiner", call_joiner},       {"raise_exception", call_raise},
        {"lipsum", call_lipsum},       {"strftime_now", call_strftime},
    };
    static struct mt_jvalue values[] = {
        {.kind = MT_J_FUNCTION, .function = &functions[0]},
        {.kind = MT_J_FUNCTION, .function = &functions[1]},
        {.kind = MT_J_FUNCTION, .function = &functions[2]},
        {.kind = MT_J_FUNCTION, .function = &functions[3]},
        {.kind = MT_J_FUNCTION, .function = &functions[4]},
        {.kind = MT_J_FUNCTION, .function = &functions[5]},
        {.kind = MT_J_FUNCTION, .function = &functions[6]},
        {.kind = MT_J_FUNCTION, .function = &functions[7]},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(name, functions[i].name) == 0)
            return &values[i];
    return NULL;
}
