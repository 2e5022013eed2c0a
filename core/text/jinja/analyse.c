/* Which variables a scope begins without. jinja2 decides before it renders where each name of a scope comes
 * from: a name that the scope's own statements assign before anything in it reads, and that no scope around
 * it knows, is undefined until then, even where a variable of that name was given to the template. (An
 * assignment in a branch of an `if` does not count: the name is looked up then.) This finds those names; all
 * others are looked up from scope to scope. */
#include "core/text/jinja/parser.h"

#include <stdlib.h>
#include <string.h>

enum reference { NOT_KNOWN, LOOKED_UP, UNDEFINED, PARAMETER };

/* By number of the name. */
struct symbols {
    const struct symbols *parent;
    size_t count;
    uint8_t *references; /* enum reference */
    uint8_t *stored;
};

static bool symbols_new(struct symbols *symbols, const struct symbols *parent, size_t count)
{
    *symbols = (struct symbols){.parent = parent, .count = count};
    symbols->references = calloc(2, count + 1);
    symbols->stored = symbols->references ? symbols->references + count + 1 : NULL;
    return symbols->references;
}

static void symbols_free(struct symbols *symbols)
{
    free(symbols->references);
}

static bool is_known(const struct symbols *symbols, uint32_t name)
{
    for (; symbols; symbols = symbols->parent)
        if (symbols->references[name])
            return true;
    return false;
}

static void load(struct symbols *symbols, uint32_t name)
{
    if (!is_known(symbols, name))
        symbols->references[name] = LOOKED_UP;
}

static void store(struct symbols *symbols, uint32_t name)
{
    symbols->stored[name] = true;
    if (!symbols->references[name])
        symbols->references[name] = is_known(symbols->parent, name) ? LOOKED_UP : UNDEFINED;
}

static void store_target(struct symbols *symbols, const struct mt_jnode *target, bool parameter)
{
    for (size_t i = 0; i < target->items.count; i++)
        store_target(symbols, target->items.items[i], parameter);
    if (target->type == MT_J_NAMESPACE_ATTRIBUTE)
        load(symbols, target->name);
    if (target->type != MT_J_NAME)
        return;
    store(symbols, target->name);
    if (parameter)
        symbols->references[target->name] = PARAMETER;
}

static void load_all(struct symbols *symbols, const struct mt_jnodes *nodes);

static void load_expression(struct symbols *symbols, const struct mt_jnode *node)
{
    if (!node)
        return;
    if (node->type == MT_J_NAME)
        load(symbols, node->name);
    load_expression(symbols, node->a);
    load_expression(symbols, node->b);
    load_expression(symbols, node->c);
    load_all(symbols, &node->items);
    load_all(symbols, &node->keywords);
}

static void load_all(struct symbols *symbols, const struct mt_jnodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++)
        load_expression(symbols, nodes->items[i]);
}

static bool visit_all(struct symbols *symbols, const struct mt_jnodes *nodes);

/* One branch of an `if`, on a copy of what is known before it. */
static bool visit_branch(const struct symbols *before, const struct mt_jnodes *nodes, struct symbols *branch)
{
    if (!symbols_new(branch, before->parent, before->count))
        return false;
    memcpy(branch->references, before->references, 2 * (before->count + 1));
    return visit_all(branch, nodes);
}

static bool visit_if(struct symbols *symbols, const struct mt_jnode *node)
{
    struct symbols branches[2] = {{0}, {0}};
    load_expression(symbols, node->a);
    const bool ok = visit_branch(symbols, &node->body, &branches[0]) &&
                    visit_branch(symbols, &node->otherwise, &branches[1]);
    for (size_t name = 0; ok && name < symbols->count; name++) {
        const uint8_t *a = branches[0].references, *b = branches[1].references;
        if (!symbols->stored[name] && (branches[0].stored[name] || branches[1].stored[name])) {
            symbols->references[name] = LOOKED_UP;
            symbols->stored[name] = true;
        } else if (b[name] || a[name]) {
            symbols->references[name] = b[name] ? b[name] : a[name];
        }
    }
    symbols_free(&branches[0]);
    symbols_free(&branches[1]);
    return ok;
}

/* What a statement means to the scope it stands in; the scopes within it come later. */
static bool visit(struct symbols *symbols, const struct mt_jnode *node)
{
    switch (node->type) {
    case MT_J_IF:
        return visit_if(symbols, node);
    case MT_J_OUTPUT:
    case MT_J_CALL_BLOCK:
    case MT_J_FILTER_BLOCK:
        load_expression(symbols, node->a);
        return true;
    case MT_J_SET:
        load_expression(symbols, node->b);
        store_target(symbols, node->a, false);
        return true;
    case MT_J_SET_BLOCK:
        store_target(symbols, node->a, false);
        return true;
    case MT_J_FOR:
        load_expression(symbols, node->b);
        return true;
    case MT_J_WITH:
        for (size_t i = 1; i < node->items.count; i += 2)
            load_expression(symbols, node->items.items[i]);
        return true;
    case MT_J_MACRO_DEF:
        store(symbols, node->name);
        return true;
    default:
        return true;
    }
}

static bool visit_all(struct symbols *symbols, const struct mt_jnodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (!visit(symbols, nodes->items[i]))
            return false;
    return true;
}

static bool analyse_inner(struct mt_jinja_template *template, const struct symbols *symbols,
                          const struct mt_jnodes *nodes);

/* The undefined names of a scope whose parameters are known, then the scopes within it. */
static bool finish_scope(struct mt_jinja_template *template, struct symbols *symbols,
                         const struct mt_jnodes *body, struct mt_jnames *undefined)
{
    size_t count = 0;
    if (!visit_all(symbols, body))
        return false;
    for (size_t name = 0; name < symbols->count; name++)
        count += symbols->references[name] == UNDEFINED;
    if (count && !(undefined->names = mt_arena_alloc(template->arena, count, sizeof *undefined->names)))
        return false;
    for (size_t name = 0; name < symbols->count; name++)
        if (symbols->references[name] == UNDEFINED)
            undefined->names[undefined->count++] = (uint32_t)name;
    return analyse_inner(template, symbols, body);
}

static bool analyse_macro(struct mt_jinja_template *template, struct symbols *symbols, struct mt_jnode *node)
{
    for (size_t i = 0; i < node->items.count; i++)
        store_target(symbols, node->items.items[i], true);
    for (uint32_t name = 0; name < template->num_names; name++)
        if ((node->wants_caller && strcmp(template->names[name], "caller") == 0) ||
            (node->wants_varargs && strcmp(template->names[name], "varargs") == 0) ||
            (node->wants_kwargs && strcmp(template->names[name], "kwargs") == 0))
            symbols->references[name] = PARAMETER;
    load_all(symbols, &node->defaults);
    return finish_scope(template, symbols, &node->body, &node->undefined);
}

static bool analyse_body(struct mt_jinja_template *template, struct symbols *symbols, struct mt_jnode *node)
{
    if (node->type == MT_J_FOR) {
        store_target(symbols, node->a, true);
        if (template->loop != UINT32_MAX)
            symbols->references[template->loop] = PARAMETER;
    } else if (node->type == MT_J_WITH) {
        for (size_t i = 0; i < node->items.count; i += 2)
            store_target(symbols, node->items.items[i], true);
    } else if (node->type == MT_J_MACRO_DEF) {
        return analyse_macro(template, symbols, node);
    }
    return finish_scope(template, symbols, &node->body, &node->undefined);
}

static bool analyse_scope(struct mt_jinja_template *template, const struct symbols *parent,
                          struct mt_jnode *node, bool otherwise)
{
    struct symbols symbols;
    const bool ok =
        symbols_new(&symbols, parent, template->num_names) &&
        (otherwise ? finish_scope(template, &symbols, &node->otherwise, &node->otherwise_undefined)
                   : analyse_body(template, &symbols, node));
    symbols_free(&symbols);
    return ok;
}

static bool analyse_inner(struct mt_jinja_template *template, const struct symbols *symbols,
                          const struct mt_jnodes *nodes)
{
    bool ok = true;
    for (size_t i = 0; ok && i < nodes->count; i++) {
        struct mt_jnode *node = nodes->items[i];
        switch (node->type) {
        case MT_J_IF:
            ok = analyse_inner(template, symbols, &node->body) &&
                 analyse_inner(template, symbols, &node->otherwise);
            break;
        case MT_J_FOR:
            ok =
                analyse_scope(template, symbols, node, false) && analyse_scope(template, symbols, node, true);
            break;
        case MT_J_WITH:
        case MT_J_SET_BLOCK:
        case MT_J_FILTER_BLOCK:
        case MT_J_GENERATION:
        case MT_J_MACRO_DEF:
            ok = analyse_scope(template, symbols, node, false);
            break;
        case MT_J_CALL_BLOCK:
            ok = analyse_scope(template, symbols, node->b, false);
            break;
        default:
            break;
        }
    }
    return ok;
}

bool mt_janalyse(struct mt_jinja_template *template)
{
    struct symbols symbols;
    const bool ok = symbols_new(&symbols, NULL, template->num_names) &&
                    finish_scope(template, &symbols, &template->body, &template->undefined);
    symbols_free(&symbols);
    return ok;
}
