/* Expressions to values. */
#include "core/text/jinja/run.h"

#include <string.h>

/* The values of nodes, one after another. */
static struct mt_jvalue **evaluate_all(struct mt_jrun *run, const struct mt_jnodes *nodes)
{
    struct mt_jvalue **values = mt_jalloc(run, nodes->count + 1, sizeof(struct mt_jvalue *));
    for (size_t i = 0; values && i < nodes->count; i++)
        if (!(values[i] = mt_jevaluate(run, nodes->items[i])))
            return NULL;
    return values;
}

static struct mt_jvalue *evaluate_sequence(struct mt_jrun *run, const struct mt_jnode *node,
                                           enum mt_jkind kind)
{
    struct mt_jvalue *list = mt_jlist_new(run, kind, 0);
    if (!list || !(list->list->items = evaluate_all(run, &node->items)))
        return NULL;
    list->list->count = node->items.count;
    return list;
}

static struct mt_jvalue *evaluate_dict(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jdict *dict = mt_jdict_new(run, node->items.count / 2);
    for (size_t i = 0; dict && i + 1 < node->items.count; i += 2) {
        struct mt_jvalue *key = mt_jevaluate(run, node->items.items[i]);
        struct mt_jvalue *value = key ? mt_jevaluate(run, node->items.items[i + 1]) : NULL;
        if (!value || !mt_jdict_put(run, dict, key, value))
            return NULL;
    }
    return mt_jdict_value(run, MT_J_DICT, dict);
}

static struct mt_jvalue *evaluate_item(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *object = mt_jevaluate(run, node->a);
    if (!object)
        return NULL;
    if (node->b->type != MT_J_SLICE) {
        struct mt_jvalue *key = mt_jevaluate(run, node->b);
        run->at = node;
        return key ? mt_jitem(run, object, key) : NULL;
    }
    struct mt_jvalue *parts[3] = {NULL, NULL, NULL};
    for (size_t i = 0; i < 3; i++)
        if (node->b->items.items[i] && !(parts[i] = mt_jevaluate(run, node->b->items.items[i])))
            return NULL;
    run->at = node;
    return mt_jsliced(run, object, parts[0], parts[1], parts[2]);
}

/* --- arguments ------------------------------------------------------------------------------------------ */

static bool spread_items(struct mt_jrun *run, struct mt_jvalue *more, struct mt_jargs *args)
{
    struct mt_jvalue *list = mt_jcollect(run, more, MT_J_LIST);
    if (!list)
        return false;
    const size_t count = args->count + list->list->count;
    struct mt_jvalue **items = mt_jalloc(run, count + 1, sizeof(struct mt_jvalue *));
    if (!items)
        return false;
    if (args->count)
        memcpy(items, args->items, args->count * sizeof *items);
    if (list->list->count)
        memcpy(items + args->count, list->list->items, list->list->count * sizeof *items);
    args->items = items;
    args->count = count;
    return true;
}

static bool add_keyword(struct mt_jrun *run, struct mt_jargs *args, struct mt_jslice name,
                        struct mt_jvalue *value)
{
    for (size_t i = 0; i < args->num_keywords; i++)
        if (args->keywords[i].name.bytes == name.bytes &&
            memcmp(args->keywords[i].name.data, name.data, name.bytes) == 0)
            return mt_jfail(run, "an argument is given twice");
    args->keywords[args->num_keywords++] = (struct mt_jkeyword){name, value};
    return true;
}

/* The arguments of a call, filter or test. */
static bool evaluate_arguments(struct mt_jrun *run, const struct mt_jnode *node, struct mt_jargs *args)
{
    *args = (struct mt_jargs){.count = node->items.count};
    if (node->items.count && !(args->items = evaluate_all(run, &node->items)))
        return false;
    struct mt_jvalue *more = NULL, *rest = NULL;
    if (node->b && (!(more = mt_jevaluate(run, node->b)) || !spread_items(run, more, args)))
        return false;
    if (!node->keywords.count && !node->c)
        return true;
    struct mt_jvalue **values = evaluate_all(run, &node->keywords);
    if (!values || (node->c && !(rest = mt_jevaluate(run, node->c))))
        return false;
    if (rest && !mt_jis(rest, MT_J_DICT))
        return mt_jfail(run, "what stands after `**` must be a dict, not of type %s", mt_jtype(rest));
    args->keywords =
        mt_jalloc(run, node->keywords.count + (rest ? rest->dict->count : 0) + 1, sizeof *args->keywords);
    if (!args->keywords)
        return false;
    for (size_t i = 0; i < node->keywords.count; i++)
        if (!add_keyword(run, args, node->keywords.items[i]->value->text, values[i]))
            return false;
    for (size_t i = 0; rest && i < rest->dict->count; i++) {
        const struct mt_jentry *entry = &rest->dict->entries[i];
        if (!mt_jis_text(entry->key))
            return mt_jfail(run, "the names of arguments must be texts");
        if (!add_keyword(run, args, entry->key->text, entry->value))
            return false;
    }
    return true;
}

struct mt_jvalue *mt_jevaluate_call(struct mt_jrun *run, const struct mt_jnode *node,
                                    struct mt_jvalue *caller)
{
    struct mt_jargs args;
    struct mt_jvalue *callee = mt_jevaluate(run, node->a);
    if (!callee || !evaluate_arguments(run, node, &args))
        return NULL;
    run->at = node;
    if (caller) {
        struct mt_jkeyword *keywords = mt_jalloc(run, args.num_keywords + 1, sizeof *keywords);
        if (!keywords)
            return NULL;
        if (args.num_keywords)
            memcpy(keywords, args.keywords, args.num_keywords * sizeof *keywords);
        args.keywords = keywords;
        if (!add_keyword(run, &args, (struct mt_jslice){"caller", 6}, caller))
            return NULL;
    }
    return mt_jcall(run, callee, &args);
}

static void *fail_unknown(struct mt_jrun *run, const struct mt_jnode *node, const char *what)
{
    run->at = node;
    return mt_jfail(run, "there is no %s `%.*s`", what,
                    node->value->text.bytes > 80 ? 80 : (int)node->value->text.bytes, node->value->text.data);
}

static struct mt_jvalue *apply_filter(struct mt_jrun *run, const struct mt_jnode *node,
                                      struct mt_jvalue *value)
{
    struct mt_jargs args;
    if (!node->filter)
        return fail_unknown(run, node, "filter");
    if (!evaluate_arguments(run, node, &args))
        return NULL;
    run->at = node;
    return node->filter(run, value, &args);
}

static struct mt_jvalue *evaluate_test(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jargs args;
    bool holds;
    if (!node->test)
        return fail_unknown(run, node, "test");
    struct mt_jvalue *value = mt_jevaluate(run, node->a);
    if (!value || !evaluate_arguments(run, node, &args))
        return NULL;
    run->at = node;
    return node->test(run, value, &args, &holds) ? mt_jbool(holds) : NULL;
}

/* --- operators ------------------------------------------------------------------------------------------ */

static struct mt_jvalue *evaluate_comparison(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *left = mt_jevaluate(run, node->a);
    bool holds = true;
    for (size_t i = 0; left && holds && i < node->items.count; i++) {
        const struct mt_jnode *operand = node->items.items[i];
        struct mt_jvalue *right = mt_jevaluate(run, operand->a);
        if (!right)
            return NULL;
        run->at = operand;
        if (!mt_jrelate(run, operand->operator, left, right, &holds))
            return NULL;
        left = right;
    }
    return left ? mt_jbool(holds) : NULL;
}

static struct mt_jvalue *evaluate_concatenation(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jbuffer buffer = {0};
    struct mt_jvalue **values = evaluate_all(run, &node->items);
    for (size_t i = 0; values && i < node->items.count; i++) {
        run->at = node->items.items[i];
        if (!mt_jwrite(run, &buffer, values[i]))
            return NULL;
    }
    return values ? mt_jbuffer_value(run, &buffer, false) : NULL;
}

static struct mt_jvalue *evaluate_condition(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *test = mt_jevaluate(run, node->b);
    if (!test)
        return NULL;
    if (mt_jtruth(test))
        return mt_jevaluate(run, node->a);
    return node->c ? mt_jevaluate(run, node->c)
                   : mt_jundefined_hint(run, "an `if` without `else` in an expression was false");
}

static struct mt_jvalue *evaluate_binary(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *a = mt_jevaluate(run, node->a);
    struct mt_jvalue *b = a ? mt_jevaluate(run, node->b) : NULL;
    run->at = node;
    return b ? mt_joperate(run, node->operator, a, b) : NULL;
}

static struct mt_jvalue *evaluate_name(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *value = mt_jlookup(run, node->name);
    return value ? value : mt_jundefined_name(run, NULL, run->template->name_values[node->name]);
}

static struct mt_jvalue *evaluate(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *a = NULL;
    if (node->type == MT_J_ATTRIBUTE || node->type == MT_J_NOT || node->type == MT_J_AND ||
        node->type == MT_J_OR || node->type == MT_J_MINUS || node->type == MT_J_PLUS ||
        node->type == MT_J_FILTER) {
        if (!(a = node->a ? mt_jevaluate(run, node->a) : run->block))
            return NULL;
        run->at = node;
    }
    switch (node->type) {
    case MT_J_NAME:
        return evaluate_name(run, node);
    case MT_J_KEYWORD:
        return mt_jevaluate(run, node->a);
    case MT_J_LIST_OF:
        return evaluate_sequence(run, node, MT_J_LIST);
    case MT_J_TUPLE_OF:
        return evaluate_sequence(run, node, MT_J_TUPLE);
    case MT_J_DICT_OF:
        return evaluate_dict(run, node);
    case MT_J_ATTRIBUTE:
        return mt_jattribute(run, a, node->value);
    case MT_J_ITEM:
        return evaluate_item(run, node);
    case MT_J_CALL:
        return mt_jevaluate_call(run, node, NULL);
    case MT_J_FILTER:
        return apply_filter(run, node, a);
    case MT_J_TEST:
        return evaluate_test(run, node);
    case MT_J_NOT:
        return mt_jbool(!mt_jtruth(a));
    case MT_J_AND:
        return mt_jtruth(a) ? mt_jevaluate(run, node->b) : a;
    case MT_J_OR:
        return mt_jtruth(a) ? a : mt_jevaluate(run, node->b);
    case MT_J_MINUS:
    case MT_J_PLUS:
        return mt_jnegate(run, a, node->type == MT_J_MINUS);
    case MT_J_BINARY:
        return evaluate_binary(run, node);
    case MT_J_COMPARISON:
        return evaluate_comparison(run, node);
    case MT_J_CONCATENATE:
        return evaluate_concatenation(run, node);
    case MT_J_CONDITION:
        return evaluate_condition(run, node);
    default:
        return mt_jfail_as(run, -ENOTSUP, MT_REASON_INTERNAL, "an expression of unknown type %d", node->type);
    }
}

struct mt_jvalue *mt_jevaluate(struct mt_jrun *run, const struct mt_jnode *node)
{
    if (node->type == MT_J_CONSTANT)
        return node->value;
    run->at = node;
    if (!mt_jstep(run) || !mt_jenter(run))
        return NULL;
    struct mt_jvalue *value = evaluate(run, node);
    mt_jleave(run);
    return value;
}
