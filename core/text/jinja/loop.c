/* `for`, and the variable `loop`. Items are fetched as late as jinja2 fetches them, since the filter of a
 * loop may look at what its body has changed: one ahead where `loop.last` or `loop.nextitem` is asked for,
 * all of them for the length of what has none. */
#include "core/text/jinja/run.h"

#include <inttypes.h>

struct mt_jloop {
    const struct mt_jnode *node;
    struct mt_jframe *frame; /* around the loop */
    struct mt_jiterator iterator;
    bool filtered;
    struct mt_jvalue *before, *current, *after; /* after: fetched ahead, NULL where not */
    struct mt_jvalue *last_changed;
    int64_t index0;
    int64_t depth0;
    size_t length;
    bool length_known;
};

/* The next item that passes the loop's filter. NULL at the end, or with the error set. */
static struct mt_jvalue *fetch(struct mt_jrun *run, struct mt_jloop *loop)
{
    struct mt_jvalue *item = mt_jnext(run, &loop->iterator);
    if (!loop->filtered)
        return item;
    struct mt_jframe *const outer = run->frame, *frame = mt_jframe_new(run, loop->frame, NULL);
    if (!frame)
        return NULL;
    struct mt_jvalue *passed = NULL;
    run->frame = frame;
    for (; item && !passed; item = passed ? item : mt_jnext(run, &loop->iterator)) {
        struct mt_jvalue *test =
            mt_jassign_target(run, loop->node->a, item) ? mt_jevaluate(run, loop->node->c) : NULL;
        if (!test)
            break;
        if (mt_jtruth(test))
            passed = item;
    }
    run->frame = outer;
    return passed;
}

static struct mt_jvalue *peek(struct mt_jrun *run, struct mt_jloop *loop)
{
    if (!loop->after)
        loop->after = fetch(run, loop);
    return loop->after;
}

static bool advance(struct mt_jrun *run, struct mt_jloop *loop)
{
    struct mt_jvalue *item = peek(run, loop);
    if (!item)
        return false;
    loop->after = NULL;
    loop->index0++;
    loop->before = loop->current;
    loop->current = item;
    return true;
}

/* What a turn of a loop has written for an item whose places are wanted. */
static void note_place(struct mt_jrun *run, const struct mt_jvalue *item, size_t begin)
{
    if (!item->followed || run->captures || run->out->bytes == begin)
        return;
    struct mt_jinja_span *place = &run->output->places[item->followed - 1];
    /* Written again: nowhere, and no third time makes it one place. */
    *place = place->end ? (struct mt_jinja_span){SIZE_MAX, SIZE_MAX}
                        : (struct mt_jinja_span){begin, run->out->bytes};
}

static bool run_loop(struct mt_jrun *run, const struct mt_jnode *node, struct mt_jvalue *iterable,
                     int64_t depth0)
{
    struct mt_jframe *const outer = run->frame;
    struct mt_jframe *frame = NULL;
    struct mt_jvalue *value = mt_jalloc(run, 1, sizeof *value);
    struct mt_jloop *loop = value ? mt_jalloc(run, 1, sizeof *loop) : NULL;
    if (!loop)
        return false;
    *loop =
        (struct mt_jloop){.node = node, .frame = outer, .filtered = node->c, .index0 = -1, .depth0 = depth0};
    *value = (struct mt_jvalue){.kind = MT_J_LOOP, .loop = loop};
    if (!mt_jiterate(run, iterable, &loop->iterator))
        return false;

    bool ok = true;
    while (ok && run->control == MT_J_NEXT && advance(run, loop)) {
        if (!frame || frame->captured)
            frame = mt_jframe_new(run, outer, NULL);
        if (!frame || !mt_jframe_reset(run, frame, &node->undefined))
            return false;
        run->frame = frame;
        const struct mt_jvalue *item = loop->current;
        const size_t begin = run->out->bytes;
        ok = (run->template->loop == UINT32_MAX || mt_jassign(run, run->template->loop, value)) &&
             mt_jassign_target(run, node->a, loop->current) && mt_jexecute(run, &node->body);
        run->frame = outer;
        note_place(run, item, begin);
        if (run->control == MT_J_CONTINUE)
            run->control = MT_J_NEXT;
    }
    if (run->control == MT_J_BREAK)
        run->control = MT_J_NEXT;
    if (!ok || run->failed)
        return false;
    if (loop->index0 >= 0 || !node->otherwise.count)
        return true;
    if (!(run->frame = mt_jframe_new(run, outer, &node->otherwise_undefined)))
        return false;
    ok = mt_jexecute(run, &node->otherwise);
    run->frame = outer;
    return ok;
}

bool mt_jexecute_for(struct mt_jrun *run, const struct mt_jnode *node)
{
    struct mt_jvalue *iterable = mt_jevaluate(run, node->b);
    run->at = node;
    return iterable && run_loop(run, node, iterable, 0);
}

/* loop(items) of a recursive loop: what the loop over these items writes. */
struct mt_jvalue *mt_jloop_call(struct mt_jrun *run, struct mt_jvalue *value, const struct mt_jargs *args)
{
    static const char *const names[] = {"iterable"};
    struct mt_jloop *loop = value->loop;
    struct mt_jvalue *iterable;
    if (!loop->node->flag)
        return mt_jfail(run, "`loop` can only be called in a loop that is marked `recursive`");
    if (!mt_jbind(run, "loop", args, names, 1, 1, &iterable) || !mt_jenter(run))
        return NULL;
    struct mt_jframe *const outer = run->frame;
    struct mt_jbuffer *const out = run->out;
    struct mt_jbuffer buffer = {0};
    run->frame = loop->frame;
    run->out = &buffer;
    run->captures++;
    const bool ok = run_loop(run, loop->node, iterable, loop->depth0 + 1);
    run->captures--;
    run->out = out;
    run->frame = outer;
    mt_jleave(run);
    return ok ? mt_jbuffer_value(run, &buffer, false) : NULL;
}

bool mt_jloop_length(struct mt_jrun *run, struct mt_jloop *loop, size_t *length)
{
    if (!loop->length_known) {
        if (!loop->filtered && mt_jhas_length(loop->iterator.source)) {
            if (!mt_jlength(run, loop->iterator.source, &loop->length))
                return false;
        } else {
            struct mt_jvalue *rest = mt_jlist_new(run, MT_J_LIST, 0);
            for (struct mt_jvalue *item; rest && (item = fetch(run, loop));)
                if (!mt_jappend(run, rest, item))
                    return false;
            if (!rest || run->failed)
                return false;
            loop->length = rest->list->count + (size_t)(loop->index0 + 1) + (loop->after ? 1 : 0);
            loop->iterator = (struct mt_jiterator){.source = rest};
            loop->filtered = false;
        }
        loop->length_known = true;
    }
    *length = loop->length;
    return true;
}

bool mt_jloop_repr(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value)
{
    size_t length;
    return mt_jloop_length(run, value->loop, &length) &&
           mt_jputf(run, buffer, "<LoopContext %" PRId64 "/%zu>", value->loop->index0 + 1, length);
}

static struct mt_jvalue *cycle(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    if (args->num_keywords || !args->count)
        return mt_jfail(run, "loop.cycle takes one value or more");
    return args->items[(size_t)self->loop->index0 % args->count];
}

/* Whether the arguments differ from those of the call before. */
static struct mt_jvalue *changed(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    if (args->num_keywords)
        return mt_jfail(run, "loop.changed takes no named arguments");
    struct mt_jvalue *values = mt_jlist_new(run, MT_J_TUPLE, 0);
    for (size_t i = 0; values && i < args->count; i++)
        if (!mt_jappend(run, values, args->items[i]))
            return NULL;
    if (!values)
        return NULL;
    const bool same = self->loop->last_changed && mt_jequal(run, self->loop->last_changed, values);
    self->loop->last_changed = values;
    return mt_jbool(!same);
}

struct mt_jvalue *mt_jloop_attribute(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name)
{
    struct mt_jloop *loop = self->loop;
    size_t length;
    if (mt_jslice_is(name, "index"))
        return mt_jint(run, loop->index0 + 1);
    if (mt_jslice_is(name, "index0"))
        return mt_jint(run, loop->index0);
    if (mt_jslice_is(name, "first"))
        return mt_jbool(loop->index0 == 0);
    if (mt_jslice_is(name, "last")) {
        const bool last = !peek(run, loop);
        return run->failed ? NULL : mt_jbool(last);
    }
    if (mt_jslice_is(name, "previtem"))
        return loop->before ? loop->before : mt_jundefined_hint(run, "there is no previous item");
    if (mt_jslice_is(name, "nextitem")) {
        struct mt_jvalue *next = peek(run, loop);
        return next || run->failed ? next : mt_jundefined_hint(run, "there is no next item");
    }
    if (mt_jslice_is(name, "depth"))
        return mt_jint(run, loop->depth0 + 1);
    if (mt_jslice_is(name, "depth0"))
        return mt_jint(run, loop->depth0);
    if (mt_jslice_is(name, "cycle"))
        return mt_jmethod_new(run, "cycle", cycle, self);
    if (mt_jslice_is(name, "changed"))
        return mt_jmethod_new(run, "changed", changed, self);
    const bool from_end = mt_jslice_is(name, "revindex"), from_end0 = mt_jslice_is(name, "revindex0");
    if (!from_end && !from_end0 && !mt_jslice_is(name, "length"))
        return NULL;
    if (!mt_jloop_length(run, loop, &length))
        return NULL;
    return mt_jint(run, (int64_t)length - (from_end ? loop->index0 : from_end0 ? loop->index0 + 1 : 0));
}
