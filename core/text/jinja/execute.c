/* Statements. */
#include "core/text/jinja/run.h"

#include <stdlib.h>

struct mt_jvalue *mt_jcapture(struct mt_jrun *run, const struct mt_jnodes *body, struct mt_jframe *frame)
{
    struct mt_jframe *const outer = run->frame;
    struct mt_jbuffer *const out = run->out;
    struct mt_jbuffer buffer = {0};
    run->frame = frame;
    run->out = &buffer;
    run->captures++;
    const bool ok = mt_jexecute(run, body);
    run->captures--;
    run->out = out;
    run->frame = outer;
    return ok ? mt_jbuffer_value(run, &buffer, false) : NULL;
}

/* --- assignments ---------------------------------------------------------------------------------------- */

static bool assign_namespace(struct mt_jrun *run, const struct mt_jnode *target, struct mt_jvalue *value)
{
    struct mt_jvalue *space = mt_jlookup(run, target->name);
    run->at = target;
    if (!space || !mt_jis(space, MT_J_NAMESPACE))
        return mt_jfail(run, "only the attributes of a namespace can be assigned to");
    if (target->value->text.data[0] == '_')
        return mt_jfail(run, "the attributes of a namespace can't begin with an underscore");
    return mt_jdict_put(run, space->dict, target->value, value);
}

static bool unpack(struct mt_jrun *run, const struct mt_jnode *target, struct mt_jvalue *value)
{
    const struct mt_jvalue *list = mt_jcollect(run, value, MT_J_LIST);
    if (!list)
        return false;
    if (list->list->count != target->items.count)
        return mt_jfail(run, "%zu values can't be assigned to %zu names", list->list->count,
                        target->items.count);
    for (size_t i = 0; i < target->items.count; i++)
        if (!mt_jassign_target(run, target->items.items[i], list->list->items[i]))
            return false;
    return true;
}

bool mt_jassign_target(struct mt_jrun *run, const struct mt_jnode *target, struct mt_jvalue *value)
{
    if (target->type == MT_J_NAME)
        return mt_jassign(run, target->name, value);
    if (target->type == MT_J_NAMESPACE_ATTRIBUTE)
        return assign_namespace(run, target, value);
    run->at = target;
    return unpack(run, target, value);
}

static bool execute_set(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *value = mt_jevaluate(run, node->b);
    return value && mt_jassign_target(run, node->a, value);
}

/* The text of a body, through its filters, which see the body's variables. NULL with the error set, or
 * because the body left a loop. */
static struct mt_jvalue *filtered_body(struct mt_jrun *run, const struct mt_jnode *node,
                                       const struct mt_jnode *filters)
{
    struct mt_jframe *const outer = run->frame, *inner = mt_jframe_new(run, outer, &node->undefined);
    struct mt_jvalue *text = inner ? mt_jcapture(run, &node->body, inner) : NULL;
    if (!text || run->control != MT_J_NEXT || !filters)
        return run->control == MT_J_NEXT ? text : NULL;
    run->block = text;
    run->frame = inner;
    struct mt_jvalue *value = mt_jevaluate(run, filters);
    run->frame = outer;
    return value;
}

static bool execute_set_block(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *value = filtered_body(run, node, node->b);
    return value ? mt_jassign_target(run, node->a, value) : !run->failed;
}

static bool execute_filter_block(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *value = filtered_body(run, node, node->a);
    return value ? mt_jwrite(run, run->out, value) : !run->failed;
}

static bool execute_with(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jframe *const outer = run->frame, *inner = mt_jframe_new(run, outer, &node->undefined);
    if (!inner)
        return false;
    for (size_t i = 0; i + 1 < node->items.count; i += 2) {
        struct mt_jvalue *value = mt_jevaluate(run, node->items.items[i + 1]);
        if (!value)
            return false;
        run->frame = inner;
        const bool ok = mt_jassign_target(run, node->items.items[i], value);
        run->frame = outer;
        if (!ok)
            return false;
    }
    run->frame = inner;
    const bool ok = mt_jexecute(run, &node->body);
    run->frame = outer;
    return ok;
}

/* --- macros --------------------------------------------------------------------------------------------- */

static struct mt_jvalue *make_macro(struct mt_jrun *run, const struct mt_jnode *node, bool anonymous)
{
    struct mt_jvalue *value = mt_jalloc(run, 1, sizeof *value);
    struct mt_jmacro *macro = value ? mt_jalloc(run, 1, sizeof *macro) : NULL;
    if (!macro)
        return NULL;
    *macro = (struct mt_jmacro){.node = node, .closure = run->frame, .anonymous = anonymous};
    *value = (struct mt_jvalue){.kind = MT_J_MACRO, .macro = macro};
    for (struct mt_jframe *frame = run->frame; frame && !frame->captured; frame = frame->parent)
        frame->captured = true;
    return value;
}

static bool execute_macro(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *macro = make_macro(run, node, false);
    return macro && mt_jassign(run, node->name, macro);
}

static bool execute_call_block(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *caller = make_macro(run, node->b, true);
    struct mt_jvalue *value = caller ? mt_jevaluate_call(run, node->a, caller) : NULL;
    return value && mt_jwrite(run, run->out, value);
}

static bool add_span(struct mt_jrun *run, size_t begin, size_t end)
{
    struct mt_jinja_output *output = run->output;
    if (output->num_spans == output->capacity) {
        const size_t capacity = output->capacity ? 2 * output->capacity : 8;
        struct mt_jinja_span *spans = reallocarray(output->spans, capacity, sizeof *spans);
        if (!spans)
            return mt_jfail_as(run, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
        output->spans = spans;
        output->capacity = capacity;
    }
    output->spans[output->num_spans++] = (struct mt_jinja_span){begin, end};
    return true;
}

static bool execute_generation(struct mt_jrun *run, const struct mt_jnode *node)
{
    const size_t begin = run->out->bytes;
    struct mt_jframe *const outer = run->frame;
    if (!(run->frame = mt_jframe_new(run, outer, &node->undefined)))
        return false;
    const bool ok = mt_jexecute(run, &node->body);
    run->frame = outer;
    if (!ok)
        return false;
    if (!run->captures)
        return add_span(run, begin, run->out->bytes);
    run->output->spans_lost = true;
    return true;
}

static bool execute_if(struct mt_jrun *run, const struct mt_jnode *node)
{
    for (;;) {
        struct mt_jvalue *test = mt_jevaluate(run, node->a);
        if (!test)
            return false;
        if (mt_jtruth(test))
            return mt_jexecute(run, &node->body);
        /* An `elif` is an `if` alone in the other branch. */
        if (node->otherwise.count != 1 || node->otherwise.items[0]->type != MT_J_IF)
            return mt_jexecute(run, &node->otherwise);
        node = node->otherwise.items[0];
    }
}

static bool execute_output(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *value = mt_jevaluate(run, node->a);
    run->at = node;
    return value && mt_jwrite(run, run->out, value);
}

static bool execute_statement(struct mt_jrun *run, const struct mt_jnode *node)
{
    switch (node->type) {
    case MT_J_DATA:
        return mt_jput_slice(run, run->out, node->value->text);
    case MT_J_OUTPUT:
        return execute_output(run, node);
    case MT_J_SET:
        return execute_set(run, node);
    case MT_J_SET_BLOCK:
        return execute_set_block(run, node);
    case MT_J_IF:
        return execute_if(run, node);
    case MT_J_FOR:
        return mt_jexecute_for(run, node);
    case MT_J_WITH:
        return execute_with(run, node);
    case MT_J_MACRO_DEF:
        return execute_macro(run, node);
    case MT_J_CALL_BLOCK:
        return execute_call_block(run, node);
    case MT_J_FILTER_BLOCK:
        return execute_filter_block(run, node);
    case MT_J_GENERATION:
        return execute_generation(run, node);
    case MT_J_BREAK_LOOP:
    case MT_J_CONTINUE_LOOP:
        run->control = node->type == MT_J_BREAK_LOOP ? MT_J_BREAK : MT_J_CONTINUE;
        return true;
    default:
        return mt_jfail_as(run, -ENOTSUP, MT_REASON_INTERNAL, "a statement of unknown type %d", node->type);
    }
}

bool mt_jexecute(struct mt_jrun *run, const struct mt_jnodes *body)
{
    if (!mt_jenter(run))
        return false;
    bool ok = true;
    for (size_t i = 0; ok && run->control == MT_J_NEXT && i < body->count; i++) {
        run->at = body->items[i];
        ok = mt_jstep(run) && execute_statement(run, body->items[i]);
    }
    mt_jleave(run);
    return ok;
}
