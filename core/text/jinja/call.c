/* Calls: arguments in their places, and what can be called. */
#include "core/text/jinja/run.h"

#include <string.h>

static size_t find_name(const char *const *names, size_t count, struct mt_jslice name)
{
    size_t i = 0;
    while (i < count && !mt_jslice_is(name, names[i]))
        i++;
    return i;
}

bool mt_jbind(struct mt_jrun *run, const char *what, const struct mt_jargs *args, const char *const *names,
              size_t num_names, size_t num_required, struct mt_jvalue **values)
{
    if (args->count > num_names)
        return mt_jfail(run, "%s takes at most %zu arguments, not %zu", what, num_names, args->count);
    for (size_t i = 0; i < num_names; i++)
        values[i] = i < args->count ? args->items[i] : NULL;
    for (size_t i = 0; i < args->num_keywords; i++) {
        const struct mt_jkeyword *keyword = &args->keywords[i];
        const size_t at = find_name(names, num_names, keyword->name);
        const int length = keyword->name.bytes > 80 ? 80 : (int)keyword->name.bytes;
        if (at == num_names)
            return mt_jfail(run, "%s has no argument `%.*s`", what, length, keyword->name.data);
        if (values[at])
            return mt_jfail(run, "%s gets the argument `%.*s` twice", what, length, keyword->name.data);
        values[at] = keyword->value;
    }
    for (size_t i = 0; i < num_required; i++)
        if (!values[i])
            return mt_jfail(run, "%s needs the argument `%s`", what, names[i]);
    return true;
}

static struct mt_jvalue *take_keyword(struct mt_jkeyword *keywords, size_t count, struct mt_jslice name)
{
    for (size_t i = 0; i < count; i++)
        if (keywords[i].value && keywords[i].name.bytes == name.bytes &&
            memcmp(keywords[i].name.data, name.data, name.bytes) == 0) {
            struct mt_jvalue *value = keywords[i].value;
            keywords[i].value = NULL;
            return value;
        }
    return NULL;
}

/* A macro's arguments, in its own frame. What was not given gets its default, which may use the arguments
 * before it, or is undefined. */
static bool bind_arguments(struct mt_jrun *run, const struct mt_jnode *node, const struct mt_jargs *args,
                           struct mt_jkeyword *keywords)
{
    const size_t without_default = node->items.count - node->defaults.count;
    for (size_t i = 0; i < node->items.count; i++) {
        const uint32_t name = node->items.items[i]->name;
        struct mt_jvalue *value = i < args->count ? args->items[i]
                                                  : take_keyword(keywords, args->num_keywords,
                                                                 run->template->name_values[name]->text);
        if (!value && i >= without_default)
            value = mt_jevaluate(run, node->defaults.items[i - without_default]);
        else if (!value)
            value = mt_jundefined_name(run, NULL, run->template->name_values[name]);
        if (!value || !mt_jassign(run, name, value))
            return false;
    }
    return true;
}

static uint32_t name_number(const struct mt_jrun *run, const char *name)
{
    for (size_t i = 0; i < run->template->num_names; i++)
        if (strcmp(run->template->names[i], name) == 0)
            return (uint32_t)i;
    return UINT32_MAX;
}

static bool bind_rest(struct mt_jrun *run, const struct mt_jnode *node, const struct mt_jargs *args,
                      struct mt_jkeyword *keywords)
{
    if (node->wants_caller) {
        struct mt_jvalue *caller =
            take_keyword(keywords, args->num_keywords, (struct mt_jslice){"caller", 6});
        if (!caller && !(caller = mt_jundefined_hint(run, "No caller defined")))
            return false;
        if (!mt_jassign(run, name_number(run, "caller"), caller))
            return false;
    }
    struct mt_jdict *rest = mt_jdict_new(run, 0);
    for (size_t i = 0; rest && i < args->num_keywords; i++) {
        if (!keywords[i].value)
            continue;
        if (!node->wants_kwargs)
            return mt_jfail(run, "the macro takes no argument `%.*s`",
                            keywords[i].name.bytes > 80 ? 80 : (int)keywords[i].name.bytes,
                            keywords[i].name.data);
        if (!mt_jdict_put_text(run, rest, keywords[i].name, keywords[i].value))
            return false;
    }
    struct mt_jvalue *kwargs = rest ? mt_jdict_value(run, MT_J_DICT, rest) : NULL;
    if (!kwargs || (node->wants_kwargs && !mt_jassign(run, name_number(run, "kwargs"), kwargs)))
        return false;
    if (!node->wants_varargs)
        return args->count <= node->items.count ||
               mt_jfail(run, "the macro takes at most %zu arguments, not %zu", node->items.count,
                        args->count);
    struct mt_jvalue *varargs = mt_jlist_new(run, MT_J_TUPLE, 0);
    for (size_t i = node->items.count; varargs && i < args->count; i++)
        if (!mt_jappend(run, varargs, args->items[i]))
            return false;
    return varargs && mt_jassign(run, name_number(run, "varargs"), varargs);
}

static struct mt_jvalue *call_macro(struct mt_jrun *run, struct mt_jvalue *macro, const struct mt_jargs *args)
{
    const struct mt_jnode *node = macro->macro->node;
    struct mt_jkeyword *keywords = NULL;
    if (args->num_keywords) {
        if (!(keywords = mt_jalloc(run, args->num_keywords, sizeof *keywords)))
            return NULL;
        memcpy(keywords, args->keywords, args->num_keywords * sizeof *keywords);
    }
    struct mt_jframe *caller = run->frame;
    struct mt_jframe *frame = mt_jframe_new(run, macro->macro->closure, &node->undefined);
    if (!frame)
        return NULL;
    run->frame = frame;
    struct mt_jvalue *text = NULL;
    if (bind_arguments(run, node, args, keywords) && bind_rest(run, node, args, keywords))
        text = mt_jcapture(run, &node->body, frame);
    run->frame = caller;
    return text;
}

static struct mt_jvalue *call_joiner(struct mt_jrun *run, struct mt_jvalue *joiner,
                                     const struct mt_jargs *args)
{
    if (!mt_jbind(run, "a joiner", args, NULL, 0, 0, NULL))
        return NULL;
    if (joiner->cycler->position++)
        return joiner->cycler->items[0];
    return mt_jliteral(run, "");
}

struct mt_jvalue *mt_jcall(struct mt_jrun *run, struct mt_jvalue *callee, const struct mt_jargs *args)
{
    switch (callee->kind) {
    case MT_J_UNDEFINED:
        return mt_jfail_undefined(run, callee);
    case MT_J_MACRO:
        return call_macro(run, callee, args);
    case MT_J_FUNCTION:
        return callee->function->call(run, args);
    case MT_J_METHOD:
        return callee->method->call(run, callee->method->self, args);
    case MT_J_LOOP:
        return mt_jloop_call(run, callee, args);
    case MT_J_JOINER:
        return call_joiner(run, callee, args);
    default:
        return mt_jfail(run, "a value of type %s can't be called", mt_jtype(callee));
    }
}
