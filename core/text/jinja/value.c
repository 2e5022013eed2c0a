/* Making values and asking what they are. */
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <string.h>

static struct mt_jvalue none = {.kind = MT_J_NONE};
static struct mt_jvalue falsehood = {.kind = MT_J_BOOL, .truth = false};
static struct mt_jvalue truth = {.kind = MT_J_BOOL, .truth = true};

struct mt_jvalue *mt_jnone(void)
{
    return &none;
}

struct mt_jvalue *mt_jbool(bool value)
{
    return value ? &truth : &falsehood;
}

static struct mt_jvalue *make(struct mt_jrun *run, enum mt_jkind kind)
{
    struct mt_jvalue *value = mt_jalloc(run, 1, sizeof *value);
    if (value)
        value->kind = (uint8_t)kind;
    return value;
}

struct mt_jvalue *mt_jint(struct mt_jrun *run, int64_t integer)
{
    struct mt_jvalue *value = make(run, MT_J_INT);
    if (value)
        value->integer = integer;
    return value;
}

struct mt_jvalue *mt_jfloat(struct mt_jrun *run, double number)
{
    struct mt_jvalue *value = make(run, MT_J_FLOAT);
    if (value)
        value->number = number;
    return value;
}

struct mt_jvalue *mt_jwide(struct mt_jrun *run, const char *digits, size_t bytes)
{
    struct mt_jvalue *value = make(run, MT_J_WIDE);
    if (value)
        value->text = (struct mt_jslice){digits, bytes};
    return value;
}

struct mt_jvalue *mt_jtext(struct mt_jrun *run, const char *data, size_t bytes)
{
    return mt_jtext_of(run, (struct mt_jslice){data, bytes}, false);
}

struct mt_jvalue *mt_jtext_of(struct mt_jrun *run, struct mt_jslice text, bool markup)
{
    struct mt_jvalue *value = make(run, MT_J_TEXT);
    if (value) {
        value->text = text.bytes ? text : (struct mt_jslice){"", 0};
        value->markup = markup;
    }
    return value;
}

struct mt_jvalue *mt_jliteral(struct mt_jrun *run, const char *text)
{
    return mt_jtext(run, text, strlen(text));
}

struct mt_jvalue *mt_jlist_new(struct mt_jrun *run, enum mt_jkind kind, size_t capacity)
{
    struct mt_jvalue *value = make(run, kind);
    struct mt_jlist *list = value ? mt_jalloc(run, 1, sizeof *list) : NULL;
    if (!list || (capacity && !(list->items = mt_jalloc(run, capacity, sizeof(struct mt_jvalue *)))))
        return NULL;
    value->list = list;
    return value;
}

struct mt_jvalue *mt_jpair(struct mt_jrun *run, struct mt_jvalue *first, struct mt_jvalue *second)
{
    struct mt_jvalue *pair = mt_jlist_new(run, MT_J_TUPLE, 2);
    if (!pair)
        return NULL;
    pair->list->items[0] = first;
    pair->list->items[1] = second;
    pair->list->count = 2;
    return pair;
}

struct mt_jvalue *mt_jdict_value(struct mt_jrun *run, enum mt_jkind kind, struct mt_jdict *dict)
{
    struct mt_jvalue *value = dict ? make(run, kind) : NULL;
    if (value)
        value->dict = dict;
    return value;
}

struct mt_jvalue *mt_jview_new(struct mt_jrun *run, struct mt_jdict *dict, enum mt_jview view)
{
    struct mt_jvalue *value = mt_jdict_value(run, MT_J_VIEW, dict);
    if (value)
        value->view = (uint8_t)view;
    return value;
}

struct mt_jvalue *mt_jrange_new(struct mt_jrun *run, struct mt_jrange range)
{
    struct mt_jvalue *value = make(run, MT_J_RANGE);
    struct mt_jrange *copy = value ? mt_jalloc(run, 1, sizeof *copy) : NULL;
    if (!copy)
        return NULL;
    *copy = range;
    value->range = copy;
    return value;
}

static struct mt_jvalue *make_undefined(struct mt_jrun *run, struct mt_jundefined why)
{
    struct mt_jvalue *value = make(run, MT_J_UNDEFINED);
    struct mt_jundefined *undefined = value ? mt_jalloc(run, 1, sizeof *undefined) : NULL;
    if (!undefined)
        return NULL;
    *undefined = why;
    value->undefined = undefined;
    return value;
}

struct mt_jvalue *mt_jundefined_hint(struct mt_jrun *run, const char *hint)
{
    return make_undefined(run, (struct mt_jundefined){.hint = hint});
}

struct mt_jvalue *mt_jundefined_name(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *name)
{
    return make_undefined(run, (struct mt_jundefined){.object = object, .name = name});
}

struct mt_jvalue *mt_jundefined_unsafe(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *name)
{
    return make_undefined(run, (struct mt_jundefined){.object = object, .name = name, .unsafe = true});
}

struct mt_jvalue *mt_jmethod_new(struct mt_jrun *run, const char *name, mt_jmethod_call call,
                                 struct mt_jvalue *self)
{
    struct mt_jvalue *value = make(run, MT_J_METHOD);
    struct mt_jmethod *method = value ? mt_jalloc(run, 1, sizeof *method) : NULL;
    if (!method)
        return NULL;
    *method = (struct mt_jmethod){.name = name, .call = call, .self = self};
    value->method = method;
    return value;
}

bool mt_jtruth(struct mt_jvalue *value)
{
    switch (value->kind) {
    case MT_J_UNDEFINED:
    case MT_J_NONE:
        return false;
    case MT_J_BOOL:
        return value->truth;
    case MT_J_INT:
        return value->integer != 0;
    case MT_J_FLOAT:
        return value->number != 0;
    case MT_J_TEXT:
        return value->text.bytes != 0;
    case MT_J_LIST:
    case MT_J_TUPLE:
        return value->list->count != 0;
    case MT_J_DICT:
    case MT_J_VIEW:
        return value->dict->count != 0;
    case MT_J_RANGE:
        return value->range->count != 0;
    default:
        return true;
    }
}

const char *mt_jtype(const struct mt_jvalue *value)
{
    static const char *const names[] = {
        [MT_J_UNDEFINED] = "Undefined",
        [MT_J_NONE] = "NoneType",
        [MT_J_BOOL] = "bool",
        [MT_J_INT] = "int",
        [MT_J_FLOAT] = "float",
        [MT_J_WIDE] = "int",
        [MT_J_TEXT] = "str",
        [MT_J_LIST] = "list",
        [MT_J_TUPLE] = "tuple",
        [MT_J_DICT] = "dict",
        [MT_J_RANGE] = "range",
        [MT_J_VIEW] = "dict view",
        [MT_J_GENERATOR] = "generator",
        [MT_J_NAMESPACE] = "Namespace",
        [MT_J_MACRO] = "Macro",
        [MT_J_FUNCTION] = "function",
        [MT_J_METHOD] = "method",
        [MT_J_LOOP] = "LoopContext",
        [MT_J_CYCLER] = "Cycler",
        [MT_J_JOINER] = "Joiner",
    };
    return names[value->kind];
}

bool mt_jhas_length(const struct mt_jvalue *value)
{
    switch (value->kind) {
    case MT_J_UNDEFINED:
    case MT_J_TEXT:
    case MT_J_LIST:
    case MT_J_TUPLE:
    case MT_J_DICT:
    case MT_J_RANGE:
    case MT_J_VIEW:
    case MT_J_LOOP:
        return true;
    default:
        return false;
    }
}

bool mt_jlength(struct mt_jrun *run, struct mt_jvalue *value, size_t *length)
{
    switch (value->kind) {
    case MT_J_UNDEFINED:
        *length = 0;
        return true;
    case MT_J_TEXT:
        if (!value->ascii)
            value->ascii = mt_jis_ascii(value->text) ? 1 : 2;
        *length = value->ascii == 1 ? value->text.bytes : mt_jcount(value->text);
        return mt_jwork(run, value->text.bytes);
    case MT_J_LIST:
    case MT_J_TUPLE:
        *length = value->list->count;
        return true;
    case MT_J_DICT:
    case MT_J_VIEW:
        *length = value->dict->count;
        return true;
    case MT_J_RANGE:
        *length = value->range->count;
        return true;
    case MT_J_LOOP:
        return mt_jloop_length(run, value->loop, length);
    default:
        return mt_jfail(run, "a value of type %s has no length", mt_jtype(value));
    }
}

void *mt_jfail_undefined(struct mt_jrun *run, const struct mt_jvalue *value)
{
    const struct mt_jundefined *why = value->undefined;
    if (why->hint)
        return mt_jfail(run, "%s", why->hint);
    struct mt_jbuffer name = {0};
    if (!mt_jwrite_repr(run, &name, why->name))
        return NULL;
    const int length = name.bytes > 200 ? 200 : (int)name.bytes;
    if (why->unsafe)
        return mt_jfail(run, "access to attribute %.*s of '%s' object is unsafe", length, name.data,
                        mt_jtype(why->object));
    if (!why->object)
        return mt_jfail(run, "%.*s is undefined", length, name.data);
    return mt_jfail(run, "'%s object' has no %s %.*s", mt_jtype(why->object),
                    mt_jis_text(why->name) ? "attribute" : "element", length, name.data);
}
