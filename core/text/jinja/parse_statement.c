/* Statements, and the parser's tools. What Jinja needs a loader of other templates for (include, import,
 * extends, block) can't stand in a chat template, and is refused by name. */
#include "core/base/size.h"
#include "core/text/jinja/parser.h"
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *mt_jparse_fail(struct mt_jparser *parser, const struct mt_jtoken *at, int code, const char *format, ...)
{
    if (parser->failed)
        return NULL;
    parser->failed = code;
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    mt_error_set(parser->error, code, code == -ENOMEM ? MT_REASON_OUT_OF_MEMORY : MT_REASON_BAD_MODEL,
                 "%s:%u:%u: %s", parser->template->name, at->line, at->column, message);
    return NULL;
}

struct mt_jnode *mt_jparse_node(struct mt_jparser *parser, enum mt_jnode_type type,
                                const struct mt_jtoken *at)
{
    struct mt_jnode *node = mt_arena_alloc(parser->template->arena, 1, sizeof *node);
    if (!node)
        return mt_jparse_fail(parser, at, -ENOMEM, "out of memory");
    node->type = (uint8_t)type;
    node->line = at->line;
    node->column = at->column;
    node->height = 1;
    return node;
}

/* The array doubles at powers of two. */
bool mt_jparse_push(struct mt_jparser *parser, struct mt_jnodes *nodes, struct mt_jnode *node)
{
    if (!node)
        return false;
    if ((nodes->count & (nodes->count - 1)) == 0) {
        struct mt_jnode **items = mt_arena_alloc(parser->template->arena, mt_size_max(nodes->count * 2, 1),
                                                 sizeof(struct mt_jnode *));
        if (!items)
            return mt_jparse_fail(parser, parser->token, -ENOMEM, "out of memory");
        if (nodes->count)
            memcpy(items, nodes->items, nodes->count * sizeof *items);
        nodes->items = items;
    }
    nodes->items[nodes->count++] = node;
    return true;
}

bool mt_jparse_enter(struct mt_jparser *parser)
{
    if (parser->failed)
        return false;
    if (parser->nesting >= MT_J_MAX_NESTING)
        return mt_jparse_fail(parser, parser->token, -EOVERFLOW, "nested more than %d levels deep",
                              MT_J_MAX_NESTING);
    parser->nesting++;
    return true;
}

uint32_t mt_jparse_name(struct mt_jparser *parser, struct mt_jslice name)
{
    struct mt_jinja_template *template = parser->template;
    for (size_t i = 0; i < template->num_names; i++)
        if (mt_jslice_is(name, template->names[i]))
            return (uint32_t)i;
    if (template->num_names == MT_J_MAX_NAMES) {
        mt_jparse_fail(parser, parser->token, -EOVERFLOW, "more than %d names", MT_J_MAX_NAMES);
        return UINT32_MAX;
    }
    if (template->num_names == parser->names_capacity) {
        const size_t capacity = mt_size_max(32, 2 * parser->names_capacity);
        const char **names = mt_arena_alloc(template->arena, capacity, sizeof *names);
        struct mt_jvalue **values = mt_arena_alloc(template->arena, capacity, sizeof *values);
        if (!names || !values) {
            mt_jparse_fail(parser, parser->token, -ENOMEM, "out of memory");
            return UINT32_MAX;
        }
        if (template->num_names) {
            memcpy(names, template->names, template->num_names * sizeof *names);
            memcpy(values, template->name_values, template->num_names * sizeof *values);
        }
        template->names = names;
        template->name_values = values;
        parser->names_capacity = capacity;
    }
    char *copy = mt_arena_strndup(template->arena, name.data, name.bytes);
    struct mt_jvalue *value = copy ? mt_jparse_text(parser, (struct mt_jslice){copy, name.bytes}) : NULL;
    if (!value) {
        mt_jparse_fail(parser, parser->token, -ENOMEM, "out of memory");
        return UINT32_MAX;
    }
    template->names[template->num_names] = copy;
    template->name_values[template->num_names] = value;
    return (uint32_t) template->num_names++;
}

/* Constants are shared by threads, so that what is found out late of other texts must be known of them. */
struct mt_jvalue *mt_jparse_text(struct mt_jparser *parser, struct mt_jslice text)
{
    struct mt_jvalue *value = mt_arena_alloc(parser->template->arena, 1, sizeof *value);
    if (!value)
        return mt_jparse_fail(parser, parser->token, -ENOMEM, "out of memory");
    value->kind = MT_J_TEXT;
    value->text = text;
    value->ascii = mt_jis_ascii(text) ? 1 : 2;
    return value;
}

/* --- tokens --------------------------------------------------------------------------------------------- */

bool mt_jat(const struct mt_jparser *parser, enum mt_jtoken_type type)
{
    return parser->token->type == type;
}

bool mt_jat_operator(const struct mt_jparser *parser, const char *text)
{
    return mt_jat(parser, MT_J_TOKEN_OPERATOR) && mt_jslice_is(parser->token->text, text);
}

bool mt_jat_name(const struct mt_jparser *parser, const char *name)
{
    return mt_jat(parser, MT_J_TOKEN_NAME) && mt_jslice_is(parser->token->text, name);
}

bool mt_jskip_operator(struct mt_jparser *parser, const char *text)
{
    if (!mt_jat_operator(parser, text))
        return false;
    parser->token++;
    return true;
}

bool mt_jskip_name(struct mt_jparser *parser, const char *name)
{
    if (!mt_jat_name(parser, name))
        return false;
    parser->token++;
    return true;
}

const char *mt_jdescribe(const struct mt_jtoken *token, char buffer[64])
{
    switch (token->type) {
    case MT_J_TOKEN_NAME:
    case MT_J_TOKEN_OPERATOR:
        snprintf(buffer, 64, "`%.*s`", (int)mt_size_min(token->text.bytes, 40), token->text.data);
        return buffer;
    case MT_J_TOKEN_DATA:
        return "text";
    case MT_J_TOKEN_VARIABLE_BEGIN:
        return "`{{`";
    case MT_J_TOKEN_VARIABLE_END:
        return "`}}`";
    case MT_J_TOKEN_BLOCK_BEGIN:
        return "`{%`";
    case MT_J_TOKEN_BLOCK_END:
        return "`%}`";
    case MT_J_TOKEN_STRING:
        return "a string";
    case MT_J_TOKEN_INTEGER:
    case MT_J_TOKEN_FLOAT:
        return "a number";
    case MT_J_TOKEN_END:
        break;
    }
    return "the end of the template";
}

static bool expect(struct mt_jparser *parser, enum mt_jtoken_type type, const char *text)
{
    char described[64];
    if (parser->failed)
        return false;
    if (parser->token->type != type || (text && !mt_jslice_is(parser->token->text, text)))
        return mt_jparse_fail(parser, parser->token, -EINVAL, "`%s` is expected, not %s",
                              text                           ? text
                              : type == MT_J_TOKEN_BLOCK_END ? "%}"
                                                             : "}}",
                              mt_jdescribe(parser->token, described));
    parser->token++;
    return true;
}

bool mt_jexpect_operator(struct mt_jparser *parser, const char *text)
{
    return expect(parser, MT_J_TOKEN_OPERATOR, text);
}

static bool expect_name(struct mt_jparser *parser, const char *name)
{
    return expect(parser, MT_J_TOKEN_NAME, name);
}

/* --- bodies --------------------------------------------------------------------------------------------- */

static bool parse_body(struct mt_jparser *parser, const char *const *ends, struct mt_jnodes *body);

/* The rest of a block's tag, its body and its closing tag up to the name in it. */
static bool parse_block(struct mt_jparser *parser, const char *const *ends, struct mt_jnodes *body)
{
    const struct mt_jtoken *opening = parser->token;
    while (opening[-1].type != MT_J_TOKEN_BLOCK_BEGIN)
        opening--;
    mt_jskip_operator(parser, ":");
    if (!expect(parser, MT_J_TOKEN_BLOCK_END, NULL) || !parse_body(parser, ends, body))
        return false;
    if (mt_jat(parser, MT_J_TOKEN_END))
        return mt_jparse_fail(parser, opening, -EINVAL, "`%.*s` without its `%s`",
                              (int)mt_size_min(opening->text.bytes, 40), opening->text.data, ends[0]);
    return true;
}

/* A body that is a scope of its own: unknown filters count there again. */
static bool parse_scope(struct mt_jparser *parser, const char *const *ends, struct mt_jnodes *body)
{
    const bool soft = parser->soft;
    parser->soft = false;
    const bool ok = parse_block(parser, ends, body);
    parser->soft = soft;
    return ok;
}

static bool parse_scope_to(struct mt_jparser *parser, const char *end, struct mt_jnodes *body)
{
    const char *const ends[] = {end, NULL};
    return parse_scope(parser, ends, body) && expect_name(parser, end);
}

/* A body that is a function: loops around it are out of reach. */
static bool parse_function(struct mt_jparser *parser, const char *end, struct mt_jnode *macro,
                           struct mt_jnodes *body)
{
    struct mt_jbody inner = {.outer = parser->body, .macro = macro};
    parser->body = &inner;
    const bool ok = parse_scope_to(parser, end, body);
    parser->body = inner.outer;
    return ok;
}

/* --- statements ----------------------------------------------------------------------------------------- */

static struct mt_jnode *parse_set(struct mt_jparser *parser, struct mt_jnode *node)
{
    node->a = mt_jparse_target(parser, true, NULL);
    if (!node->a)
        return NULL;
    if (mt_jskip_operator(parser, "=")) {
        node->type = MT_J_SET;
        node->b = mt_jparse_tuple(parser, true, NULL);
        return node->b ? node : NULL;
    }
    node->type = MT_J_SET_BLOCK;
    if (node->a->type == MT_J_TUPLE_OF)
        return mt_jparse_fail(parser, parser->token, -EINVAL, "a set block can't assign to several names");
    node->b = mt_jparse_filters(parser, NULL, false);
    return !parser->failed && parse_scope_to(parser, "endset", &node->body) ? node : NULL;
}

static struct mt_jnode *parse_for(struct mt_jparser *parser, struct mt_jnode *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    node->type = MT_J_FOR;
    if (!(node->a = mt_jparse_target(parser, false, "in")) || !expect_name(parser, "in") ||
        !(node->b = mt_jparse_tuple(parser, false, "recursive")))
        return NULL;
    const bool soft = parser->soft;
    parser->soft = false;
    if (mt_jskip_name(parser, "if"))
        node->c = mt_jparse_expression(parser, true);
    parser->soft = soft;
    node->flag = mt_jskip_name(parser, "recursive");
    if (parser->failed)
        return NULL;
    parser->body->loops++;
    const bool ok = parse_scope(parser, ends, &node->body);
    parser->body->loops--;
    if (!ok)
        return NULL;
    if (mt_jskip_name(parser, "endfor"))
        return node;
    parser->token++;
    return parse_scope_to(parser, "endfor", &node->otherwise) ? node : NULL;
}

static bool parse_branches(struct mt_jparser *parser, struct mt_jnode *node)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL}, *const last[] = {"endif", NULL};
    for (;;) {
        node->type = MT_J_IF;
        if (!(node->a = mt_jparse_tuple(parser, false, NULL)) || !parse_block(parser, ends, &node->body))
            return false;
        if (mt_jskip_name(parser, "endif"))
            return true;
        const struct mt_jtoken *token = parser->token++;
        if (mt_jslice_is(token->text, "else"))
            return parse_block(parser, last, &node->otherwise) && expect_name(parser, "endif");
        struct mt_jnode *branch = mt_jparse_node(parser, MT_J_IF, token);
        if (!mt_jparse_push(parser, &node->otherwise, branch))
            return false;
        node = branch;
    }
}

static struct mt_jnode *parse_if(struct mt_jparser *parser, struct mt_jnode *node)
{
    const bool soft = parser->soft;
    parser->soft = true;
    const bool ok = parse_branches(parser, node);
    parser->soft = soft;
    return ok ? node : NULL;
}

static struct mt_jnode *parse_with(struct mt_jparser *parser, struct mt_jnode *node)
{
    node->type = MT_J_WITH;
    while (!mt_jat(parser, MT_J_TOKEN_BLOCK_END)) {
        if (node->items.count && !mt_jexpect_operator(parser, ","))
            return NULL;
        if (!mt_jparse_push(parser, &node->items, mt_jparse_target(parser, false, NULL)) ||
            !mt_jexpect_operator(parser, "=") ||
            !mt_jparse_push(parser, &node->items, mt_jparse_expression(parser, true)))
            return NULL;
    }
    return parse_scope_to(parser, "endwith", &node->body) ? node : NULL;
}

/* `(a, b=c)` of a macro or caller. */
static bool parse_signature(struct mt_jparser *parser, struct mt_jnode *macro)
{
    if (!mt_jexpect_operator(parser, "("))
        return false;
    while (!mt_jat_operator(parser, ")")) {
        if (macro->items.count && !mt_jexpect_operator(parser, ","))
            return false;
        const struct mt_jtoken *token = parser->token;
        char described[64];
        if (token->type != MT_J_TOKEN_NAME)
            return mt_jparse_fail(parser, token, -EINVAL, "the name of an argument is expected, not %s",
                                  mt_jdescribe(token, described));
        parser->token++;
        struct mt_jnode *argument = mt_jparse_node(parser, MT_J_NAME, token);
        if (!mt_jparse_push(parser, &macro->items, argument) ||
            (argument->name = mt_jparse_name(parser, token->text)) == UINT32_MAX)
            return false;
        for (size_t i = 0; i + 1 < macro->items.count; i++)
            if (macro->items.items[i]->name == argument->name)
                return mt_jparse_fail(parser, token, -EINVAL, "an argument stands there twice");
        if (mt_jskip_operator(parser, "=")) {
            if (!mt_jparse_push(parser, &macro->defaults, mt_jparse_expression(parser, true)))
                return false;
        } else if (macro->defaults.count) {
            return mt_jparse_fail(parser, token, -EINVAL, "an argument without a default after one with it");
        }
        if (mt_jslice_is(token->text, "caller") && !macro->defaults.count)
            return mt_jparse_fail(parser, token, -EINVAL, "the argument `caller` needs a default");
    }
    parser->token++;
    return true;
}

static struct mt_jnode *parse_macro(struct mt_jparser *parser, struct mt_jnode *node)
{
    node->type = MT_J_MACRO_DEF;
    const struct mt_jtoken *name = parser->token;
    char described[64];
    if (name->type != MT_J_TOKEN_NAME)
        return mt_jparse_fail(parser, name, -EINVAL, "the name of the macro is expected, not %s",
                              mt_jdescribe(name, described));
    parser->token++;
    if ((node->name = mt_jparse_name(parser, name->text)) == UINT32_MAX ||
        !(node->value = mt_jparse_text(parser, name->text)) || !parse_signature(parser, node))
        return NULL;
    return parse_function(parser, "endmacro", node, &node->body) ? node : NULL;
}

static struct mt_jnode *parse_call_block(struct mt_jparser *parser, struct mt_jnode *node)
{
    node->type = MT_J_CALL_BLOCK;
    node->b = mt_jparse_node(parser, MT_J_MACRO_DEF, parser->token);
    if (!node->b || (mt_jat_operator(parser, "(") && !parse_signature(parser, node->b)))
        return NULL;
    const struct mt_jtoken *at = parser->token;
    if (!(node->a = mt_jparse_expression(parser, true)))
        return NULL;
    if (node->a->type != MT_J_CALL)
        return mt_jparse_fail(parser, at, -EINVAL, "a call is expected");
    return parse_function(parser, "endcall", node->b, &node->b->body) ? node : NULL;
}

static struct mt_jnode *parse_filter_block(struct mt_jparser *parser, struct mt_jnode *node)
{
    node->type = MT_J_FILTER_BLOCK;
    if (!(node->a = mt_jparse_filters(parser, NULL, true)))
        return NULL;
    return parse_scope_to(parser, "endfilter", &node->body) ? node : NULL;
}

static struct mt_jnode *parse_generation(struct mt_jparser *parser, struct mt_jnode *node)
{
    node->type = MT_J_GENERATION;
    return parse_function(parser, "endgeneration", NULL, &node->body) ? node : NULL;
}

/* `{% print a, b %}`: the first goes on as the node, the others stand behind it. */
static struct mt_jnode *parse_print(struct mt_jparser *parser, struct mt_jnode *node)
{
    node->type = MT_J_CONCATENATE;
    while (!mt_jat(parser, MT_J_TOKEN_BLOCK_END)) {
        if (node->items.count && !mt_jexpect_operator(parser, ","))
            return NULL;
        if (!mt_jparse_push(parser, &node->items, mt_jparse_expression(parser, true)))
            return NULL;
    }
    struct mt_jnode *output = mt_jparse_node(parser, MT_J_OUTPUT, parser->token);
    if (output)
        output->a = node;
    return output;
}

static struct mt_jnode *parse_jump(struct mt_jparser *parser, struct mt_jnode *node)
{
    const struct mt_jtoken *token = parser->token - 1;
    node->type = mt_jslice_is(token->text, "break") ? MT_J_BREAK_LOOP : MT_J_CONTINUE_LOOP;
    if (!parser->body->loops)
        return mt_jparse_fail(parser, token, -EINVAL, "`%.*s` outside of a loop", (int)token->text.bytes,
                              token->text.data);
    return node;
}

static struct mt_jnode *parse_statement(struct mt_jparser *parser)
{
    static const struct {
        const char *name;
        struct mt_jnode *(*parse)(struct mt_jparser *parser, struct mt_jnode *node);
    } statements[] = {
        {"set", parse_set},
        {"if", parse_if},
        {"for", parse_for},
        {"macro", parse_macro},
        {"generation", parse_generation},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"with", parse_with},
        {"print", parse_print},
        {"break", parse_jump},
        {"continue", parse_jump},
    };
    static const char *const refused[] = {"block", "extends", "include", "import", "from", "autoescape"};
    const struct mt_jtoken *token = parser->token;
    char described[64];
    if (token->type != MT_J_TOKEN_NAME)
        return mt_jparse_fail(parser, token, -EINVAL, "the name of a tag is expected, not %s",
                              mt_jdescribe(token, described));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (mt_jslice_is(token->text, refused[i]))
            return mt_jparse_fail(parser, token, -ENOTSUP, "the tag `%s` is not supported in a chat template",
                                  refused[i]);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!mt_jslice_is(token->text, statements[i].name))
            continue;
        struct mt_jnode *node = mt_jparse_node(parser, MT_J_DATA, token);
        if (!node || !mt_jparse_enter(parser))
            return NULL;
        parser->token++;
        node = statements[i].parse(parser, node);
        parser->nesting--;
        return node;
    }
    return mt_jparse_fail(parser, token, -EINVAL, "unknown tag %s", mt_jdescribe(token, described));
}

/* Text and tags up to a tag with one of the names `ends`, or the end of the template. */
static bool parse_body(struct mt_jparser *parser, const char *const *ends, struct mt_jnodes *body)
{
    for (;;) {
        const struct mt_jtoken *token = parser->token;
        struct mt_jnode *node;
        if (token->type == MT_J_TOKEN_END)
            return true;
        parser->token++;
        if (token->type == MT_J_TOKEN_DATA) {
            node = mt_jparse_node(parser, MT_J_DATA, token);
            if (node && !(node->value = mt_jparse_text(parser, token->text)))
                return false;
        } else if (token->type == MT_J_TOKEN_VARIABLE_BEGIN) {
            node = mt_jparse_node(parser, MT_J_OUTPUT, token);
            if (node && (!(node->a = mt_jparse_tuple(parser, true, NULL)) ||
                         !expect(parser, MT_J_TOKEN_VARIABLE_END, NULL)))
                return false;
        } else {
            for (const char *const *end = ends; end && *end; end++)
                if (mt_jat_name(parser, *end))
                    return true;
            node = parse_statement(parser);
            if (!node || !expect(parser, MT_J_TOKEN_BLOCK_END, NULL))
                return false;
        }
        if (!mt_jparse_push(parser, body, node))
            return false;
    }
}

bool mt_jparse_template(struct mt_jparser *parser)
{
    struct mt_jbody body = {0};
    parser->body = &body;
    bool done = parse_body(parser, NULL, &parser->template->body) && !parser->failed;
    parser->body = NULL;
    return done;
}
