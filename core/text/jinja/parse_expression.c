/* Expressions, by recursive descent in jinja2's order of binding, weakest first: if/else, or, and, not,
 * comparisons, + -, ~, * / // %, **, unary - +, then what follows a value: .x [x] (x), and | and is. */
#include "core/base/size.h"
#include "core/text/jinja/parser.h"
#include "core/text/jinja/run.h"

#include <string.h>

static struct mt_jnode *parse_unary(struct mt_jparser *parser, bool with_filter);

static struct mt_jnode *with_height(struct mt_jparser *parser, struct mt_jnode *node)
{
    uint32_t height = 0;
    const struct mt_jnode *const children[] = {node->a, node->b, node->c};
    for (size_t i = 0; i < 3; i++)
        if (children[i] && children[i]->height > height)
            height = children[i]->height;
    for (size_t i = 0; i < node->items.count; i++)
        if (node->items.items[i] && node->items.items[i]->height > height)
            height = node->items.items[i]->height;
    for (size_t i = 0; i < node->keywords.count; i++)
        if (node->keywords.items[i]->height > height)
            height = node->keywords.items[i]->height;
    node->height = height + 1;
    if (node->height > MT_J_MAX_HEIGHT)
        return mt_jparse_fail(parser, parser->token, -EOVERFLOW, "an expression of more than %d levels",
                              MT_J_MAX_HEIGHT);
    return node;
}

/* A node over two others; passes a failure on. */
static struct mt_jnode *over(struct mt_jparser *parser, enum mt_jnode_type type, const struct mt_jtoken *at,
                             struct mt_jnode *a, struct mt_jnode *b)
{
    if (parser->failed)
        return NULL;
    struct mt_jnode *node = mt_jparse_node(parser, type, at);
    if (!node)
        return NULL;
    node->a = a;
    node->b = b;
    return with_height(parser, node);
}

/* --- values --------------------------------------------------------------------------------------------- */

static struct mt_jnode *constant(struct mt_jparser *parser, const struct mt_jtoken *at,
                                 struct mt_jvalue *value)
{
    struct mt_jnode *node = value ? mt_jparse_node(parser, MT_J_CONSTANT, at) : NULL;
    if (node)
        node->value = value;
    return node;
}

static struct mt_jvalue *number_value(struct mt_jparser *parser, const struct mt_jtoken *token)
{
    struct mt_jvalue *value = mt_arena_alloc(parser->template->arena, 1, sizeof *value);
    if (!value)
        return mt_jparse_fail(parser, token, -ENOMEM, "out of memory");
    if (token->type == MT_J_TOKEN_INTEGER)
        *value = (struct mt_jvalue){.kind = MT_J_INT, .integer = token->integer};
    else
        *value = (struct mt_jvalue){.kind = MT_J_FLOAT, .number = token->number};
    return value;
}

static struct mt_jnode *parse_strings(struct mt_jparser *parser)
{
    const struct mt_jtoken *first = parser->token;
    size_t bytes = 0;
    for (; mt_jat(parser, MT_J_TOKEN_STRING); parser->token++)
        bytes += parser->token->text.bytes;
    if (parser->token == first + 1)
        return constant(parser, first, mt_jparse_text(parser, first->text));
    char *text = mt_arena_alloc(parser->template->arena, bytes + 1, 1);
    if (!text)
        return mt_jparse_fail(parser, first, -ENOMEM, "out of memory");
    bytes = 0;
    for (const struct mt_jtoken *token = first; token < parser->token; token++) {
        memcpy(text + bytes, token->text.data, token->text.bytes);
        bytes += token->text.bytes;
    }
    return constant(parser, first, mt_jparse_text(parser, (struct mt_jslice){text, bytes}));
}

/* A name that is read: the macros around it learn whether it is one of those that they bring. */
static struct mt_jnode *name_node(struct mt_jparser *parser, const struct mt_jtoken *token)
{
    if (mt_jslice_is(token->text, "self"))
        return mt_jparse_fail(parser, token, -ENOTSUP, "`self` is not supported");
    struct mt_jnode *node = mt_jparse_node(parser, MT_J_NAME, token);
    if (!node || (node->name = mt_jparse_name(parser, token->text)) == UINT32_MAX)
        return NULL;
    for (struct mt_jbody *body = parser->body; body; body = body->outer) {
        if (!body->macro)
            continue;
        body->macro->wants_caller = body->macro->wants_caller || mt_jslice_is(token->text, "caller");
        body->macro->wants_varargs = body->macro->wants_varargs || mt_jslice_is(token->text, "varargs");
        body->macro->wants_kwargs = body->macro->wants_kwargs || mt_jslice_is(token->text, "kwargs");
    }
    return node;
}

/* `[a, b]` and `{a: b}` after their opening bracket. */
static struct mt_jnode *parse_display(struct mt_jparser *parser, const struct mt_jtoken *at, bool dict)
{
    const char *end = dict ? "}" : "]";
    struct mt_jnode *node = mt_jparse_node(parser, dict ? MT_J_DICT_OF : MT_J_LIST_OF, at);
    while (node && !mt_jat_operator(parser, end)) {
        if (node->items.count && !mt_jexpect_operator(parser, ","))
            return NULL;
        if (mt_jat_operator(parser, end))
            break;
        if (!mt_jparse_push(parser, &node->items, mt_jparse_expression(parser, true)))
            return NULL;
        if (dict && (!mt_jexpect_operator(parser, ":") ||
                     !mt_jparse_push(parser, &node->items, mt_jparse_expression(parser, true))))
            return NULL;
    }
    return node && mt_jexpect_operator(parser, end) ? with_height(parser, node) : NULL;
}

static struct mt_jnode *parse_primary_name(struct mt_jparser *parser)
{
    const struct mt_jtoken *token = parser->token++;
    if (mt_jslice_is(token->text, "true") || mt_jslice_is(token->text, "True"))
        return constant(parser, token, mt_jbool(true));
    if (mt_jslice_is(token->text, "false") || mt_jslice_is(token->text, "False"))
        return constant(parser, token, mt_jbool(false));
    if (mt_jslice_is(token->text, "none") || mt_jslice_is(token->text, "None"))
        return constant(parser, token, mt_jnone());
    return name_node(parser, token);
}

static struct mt_jnode *parse_primary(struct mt_jparser *parser)
{
    const struct mt_jtoken *token = parser->token;
    struct mt_jnode *node = NULL;
    char described[64];
    if (!mt_jparse_enter(parser))
        return NULL;
    if (token->type == MT_J_TOKEN_NAME) {
        node = parse_primary_name(parser);
    } else if (token->type == MT_J_TOKEN_STRING) {
        node = parse_strings(parser);
    } else if (token->type == MT_J_TOKEN_INTEGER || token->type == MT_J_TOKEN_FLOAT) {
        parser->token++;
        node = constant(parser, token, number_value(parser, token));
    } else if (mt_jskip_operator(parser, "(")) {
        if (mt_jat_operator(parser, ")"))
            node = mt_jparse_node(parser, MT_J_TUPLE_OF, token);
        else
            node = mt_jparse_tuple(parser, true, NULL);
        if (node && !mt_jexpect_operator(parser, ")"))
            node = NULL;
    } else if (mt_jskip_operator(parser, "[")) {
        node = parse_display(parser, token, false);
    } else if (mt_jskip_operator(parser, "{")) {
        node = parse_display(parser, token, true);
    } else {
        mt_jparse_fail(parser, token, -EINVAL, "unexpected %s", mt_jdescribe(token, described));
    }
    parser->nesting--;
    return node;
}

/* --- what follows a value ------------------------------------------------------------------------------- */

static struct mt_jnode *parse_slice_part(struct mt_jparser *parser)
{
    if (mt_jat_operator(parser, ":") || mt_jat_operator(parser, "]") || mt_jat_operator(parser, ","))
        return NULL;
    return mt_jparse_expression(parser, true);
}

static struct mt_jnode *parse_subscribed(struct mt_jparser *parser)
{
    const struct mt_jtoken *at = parser->token;
    struct mt_jnode *start = mt_jat_operator(parser, ":") ? NULL : mt_jparse_expression(parser, true);
    if (parser->failed || !mt_jskip_operator(parser, ":"))
        return start;
    struct mt_jnode *stop = parse_slice_part(parser);
    struct mt_jnode *step = mt_jskip_operator(parser, ":") ? parse_slice_part(parser) : NULL;
    struct mt_jnode *node = parser->failed ? NULL : mt_jparse_node(parser, MT_J_SLICE, at);
    if (!node)
        return NULL;
    node->items.items = mt_arena_alloc(parser->template->arena, 3, sizeof *node->items.items);
    if (!node->items.items)
        return mt_jparse_fail(parser, at, -ENOMEM, "out of memory");
    node->items.count = 3;
    node->items.items[0] = start;
    node->items.items[1] = stop;
    node->items.items[2] = step;
    return with_height(parser, node);
}

static struct mt_jnode *parse_subscript(struct mt_jparser *parser, struct mt_jnode *object)
{
    const struct mt_jtoken *at = parser->token;
    char described[64];
    if (mt_jskip_operator(parser, ".")) {
        const struct mt_jtoken *token = parser->token++;
        if (token->type == MT_J_TOKEN_NAME) {
            struct mt_jnode *node = over(parser, MT_J_ATTRIBUTE, at, object, NULL);
            return node && (node->value = mt_jparse_text(parser, token->text)) ? node : NULL;
        }
        if (token->type == MT_J_TOKEN_INTEGER)
            return over(parser, MT_J_ITEM, at, object, constant(parser, token, number_value(parser, token)));
        parser->token--;
        return mt_jparse_fail(parser, token, -EINVAL, "a name or number is expected after `.`, not %s",
                              mt_jdescribe(token, described));
    }
    parser->token++;
    struct mt_jnode *index = NULL;
    while (!mt_jat_operator(parser, "]")) {
        if (index)
            return mt_jparse_fail(parser, parser->token, -ENOTSUP,
                                  "several indices in one subscript are not "
                                  "supported");
        index = parse_subscribed(parser);
        if (!index)
            return NULL;
        if (!mt_jat_operator(parser, "]") && !mt_jexpect_operator(parser, ","))
            return NULL;
    }
    if (!index)
        return mt_jparse_fail(parser, at, -ENOTSUP, "an empty subscript is not supported");
    if (parser->token[-1].type == MT_J_TOKEN_OPERATOR && mt_jslice_is(parser->token[-1].text, ","))
        return mt_jparse_fail(parser, at, -ENOTSUP, "a comma in a subscript is not supported");
    parser->token++;
    return over(parser, MT_J_ITEM, at, object, index);
}

static bool parse_argument(struct mt_jparser *parser, struct mt_jnode *call, const struct mt_jtoken *at)
{
    static const char out_of_order[] = "arguments are in an order that Python forbids";
    if (mt_jskip_operator(parser, "*")) {
        if (call->b || call->c)
            return mt_jparse_fail(parser, at, -EINVAL, out_of_order);
        call->b = mt_jparse_expression(parser, true);
        return call->b;
    }
    if (mt_jskip_operator(parser, "**")) {
        if (call->c)
            return mt_jparse_fail(parser, at, -EINVAL, out_of_order);
        call->c = mt_jparse_expression(parser, true);
        return call->c;
    }
    if (mt_jat(parser, MT_J_TOKEN_NAME) && parser->token[1].type == MT_J_TOKEN_OPERATOR &&
        mt_jslice_is(parser->token[1].text, "=")) {
        if (call->c)
            return mt_jparse_fail(parser, at, -EINVAL, out_of_order);
        const struct mt_jtoken *name = parser->token;
        parser->token += 2;
        struct mt_jnode *keyword = over(parser, MT_J_KEYWORD, name, mt_jparse_expression(parser, true), NULL);
        if (!keyword || !(keyword->value = mt_jparse_text(parser, name->text)))
            return false;
        for (size_t i = 0; i < call->keywords.count; i++) {
            const struct mt_jslice earlier = call->keywords.items[i]->value->text;
            if (earlier.bytes == name->text.bytes &&
                memcmp(earlier.data, name->text.data, earlier.bytes) == 0)
                return mt_jparse_fail(parser, name, -EINVAL, "the argument `%.*s` is given twice",
                                      (int)mt_size_min(earlier.bytes, 80), earlier.data);
        }
        return mt_jparse_push(parser, &call->keywords, keyword);
    }
    if (call->b || call->c || call->keywords.count)
        return mt_jparse_fail(parser, at, -EINVAL, out_of_order);
    return mt_jparse_push(parser, &call->items, mt_jparse_expression(parser, true));
}

/* `(a, b, c=d, *e, **f)` into a call, filter or test. */
static bool parse_arguments(struct mt_jparser *parser, struct mt_jnode *call)
{
    const struct mt_jtoken *at = parser->token++;
    for (bool first = true; !mt_jat_operator(parser, ")"); first = false) {
        if (!first && !mt_jexpect_operator(parser, ","))
            return false;
        if (!first && mt_jat_operator(parser, ")"))
            break;
        if (!parse_argument(parser, call, at))
            return false;
    }
    parser->token++;
    return with_height(parser, call);
}

static struct mt_jnode *parse_call(struct mt_jparser *parser, struct mt_jnode *callee)
{
    struct mt_jnode *call = over(parser, MT_J_CALL, parser->token, callee, NULL);
    return call && parse_arguments(parser, call) ? call : NULL;
}

static struct mt_jnode *parse_postfix(struct mt_jparser *parser, struct mt_jnode *node)
{
    while (node) {
        if (mt_jat_operator(parser, ".") || mt_jat_operator(parser, "["))
            node = parse_subscript(parser, node);
        else if (mt_jat_operator(parser, "("))
            node = parse_call(parser, node);
        else
            break;
    }
    return node;
}

/* The name of a filter or test into node->value. */
static bool parse_called_name(struct mt_jparser *parser, struct mt_jnode *node)
{
    const struct mt_jtoken *token = parser->token;
    char described[64];
    if (token->type != MT_J_TOKEN_NAME)
        return mt_jparse_fail(parser, token, -EINVAL, "a name is expected, not %s",
                              mt_jdescribe(token, described));
    parser->token++;
    node->value = mt_jparse_text(parser, token->text);
    return node->value;
}

struct mt_jnode *mt_jparse_filters(struct mt_jparser *parser, struct mt_jnode *value, bool inline_first)
{
    while (inline_first || mt_jat_operator(parser, "|")) {
        if (!inline_first)
            parser->token++;
        inline_first = false;
        const struct mt_jtoken *at = parser->token;
        struct mt_jnode *node = over(parser, MT_J_FILTER, at, value, NULL);
        if (!node || !parse_called_name(parser, node))
            return NULL;
        const struct mt_jslice name = node->value->text;
        bool refused;
        node->filter = mt_jfilter_find(name, &refused);
        if (refused)
            return mt_jparse_fail(parser, at, -ENOTSUP, "the filter `%.*s` is not supported", (int)name.bytes,
                                  name.data);
        if (!node->filter && !parser->soft)
            return mt_jparse_fail(parser, at, -EINVAL, "there is no filter `%.*s`",
                                  (int)mt_size_min(name.bytes, 80), name.data);
        if (mt_jat_operator(parser, "(") && !parse_arguments(parser, node))
            return NULL;
        value = node;
    }
    return value;
}

static struct mt_jnode *parse_test(struct mt_jparser *parser, struct mt_jnode *value)
{
    const struct mt_jtoken *at = parser->token++;
    const bool negated = mt_jskip_name(parser, "not");
    struct mt_jnode *node = over(parser, MT_J_TEST, at, value, NULL);
    const struct mt_jtoken *name_token = parser->token;
    if (!node || !parse_called_name(parser, node))
        return NULL;
    const struct mt_jslice name = node->value->text;
    node->test = mt_jtest_find(name);
    if (!node->test && !parser->soft)
        return mt_jparse_fail(parser, name_token, -EINVAL, "there is no test `%.*s`",
                              (int)mt_size_min(name.bytes, 80), name.data);
    const bool one_argument = mt_jat(parser, MT_J_TOKEN_NAME) || mt_jat(parser, MT_J_TOKEN_STRING) ||
                              mt_jat(parser, MT_J_TOKEN_INTEGER) || mt_jat(parser, MT_J_TOKEN_FLOAT) ||
                              mt_jat_operator(parser, "[") || mt_jat_operator(parser, "{");
    if (mt_jat_operator(parser, "(")) {
        if (!parse_arguments(parser, node))
            return NULL;
    } else if (one_argument && !mt_jat_name(parser, "else") && !mt_jat_name(parser, "or") &&
               !mt_jat_name(parser, "and")) {
        if (mt_jat_name(parser, "is"))
            return mt_jparse_fail(parser, parser->token, -EINVAL, "tests with `is` can't follow one another");
        if (!mt_jparse_push(parser, &node->items, parse_postfix(parser, parse_primary(parser))))
            return NULL;
        if (!with_height(parser, node))
            return NULL;
    }
    return negated ? over(parser, MT_J_NOT, at, node, NULL) : node;
}

static struct mt_jnode *parse_filters_and_tests(struct mt_jparser *parser, struct mt_jnode *node)
{
    while (node) {
        if (mt_jat_operator(parser, "|"))
            node = mt_jparse_filters(parser, node, false);
        else if (mt_jat_name(parser, "is"))
            node = parse_test(parser, node);
        else if (mt_jat_operator(parser, "("))
            node = parse_call(parser, node);
        else
            break;
    }
    return node;
}

/* --- operators ------------------------------------------------------------------------------------------ */

static struct mt_jnode *parse_unary(struct mt_jparser *parser, bool with_filter)
{
    const struct mt_jtoken *at = parser->token;
    struct mt_jnode *node;
    if (mt_jat_operator(parser, "-") || mt_jat_operator(parser, "+")) {
        const enum mt_jnode_type type = mt_jat_operator(parser, "-") ? MT_J_MINUS : MT_J_PLUS;
        if (!mt_jparse_enter(parser))
            return NULL;
        parser->token++;
        node = over(parser, type, at, parse_unary(parser, false), NULL);
        parser->nesting--;
    } else {
        node = parse_primary(parser);
    }
    node = parse_postfix(parser, node);
    return with_filter ? parse_filters_and_tests(parser, node) : node;
}

struct operation {
    const char *text;
    enum mt_joperator operator;
};

static const struct operation *operation_at(const struct mt_jparser *parser,
                                            const struct operation *operations)
{
    for (; operations->text; operations++)
        if (mt_jat_operator(parser, operations->text))
            return operations;
    return NULL;
}

/* Operators of one strength between operands of the next, grouped from the left. */
static struct mt_jnode *parse_binary(struct mt_jparser *parser, const struct operation *operations,
                                     struct mt_jnode *(*operand)(struct mt_jparser *))
{
    struct mt_jnode *left = operand(parser);
    const struct operation *operation;
    while (left && (operation = operation_at(parser, operations))) {
        const struct mt_jtoken *at = parser->token++;
        left = over(parser, MT_J_BINARY, at, left, operand(parser));
        if (left)
            left->operator=(uint8_t) operation->operator;
    }
    return left;
}

static struct mt_jnode *parse_power_operand(struct mt_jparser *parser)
{
    return parse_unary(parser, true);
}

static struct mt_jnode *parse_power(struct mt_jparser *parser)
{
    static const struct operation operations[] = {{"**", MT_J_POWER}, {NULL, 0}};
    return parse_binary(parser, operations, parse_power_operand);
}

static struct mt_jnode *parse_product(struct mt_jparser *parser)
{
    static const struct operation operations[] = {
        {"*", MT_J_MULTIPLY}, {"/", MT_J_DIVIDE}, {"//", MT_J_FLOOR_DIVIDE}, {"%", MT_J_MODULO}, {NULL, 0}};
    return parse_binary(parser, operations, parse_power);
}

static struct mt_jnode *parse_concatenation(struct mt_jparser *parser)
{
    const struct mt_jtoken *at = parser->token;
    struct mt_jnode *first = parse_product(parser);
    if (!first || !mt_jat_operator(parser, "~"))
        return first;
    struct mt_jnode *node = mt_jparse_node(parser, MT_J_CONCATENATE, at);
    if (!node || !mt_jparse_push(parser, &node->items, first))
        return NULL;
    while (mt_jskip_operator(parser, "~"))
        if (!mt_jparse_push(parser, &node->items, parse_product(parser)))
            return NULL;
    return with_height(parser, node);
}

static struct mt_jnode *parse_sum(struct mt_jparser *parser)
{
    static const struct operation operations[] = {{"+", MT_J_ADD}, {"-", MT_J_SUBTRACT}, {NULL, 0}};
    return parse_binary(parser, operations, parse_concatenation);
}

static struct mt_jnode *parse_comparison(struct mt_jparser *parser)
{
    static const struct operation operations[] = {
        {"==", MT_J_EQUAL},  {"!=", MT_J_NOT_EQUAL},     {"<", MT_J_LESS}, {"<=", MT_J_LESS_EQUAL},
        {">", MT_J_GREATER}, {">=", MT_J_GREATER_EQUAL}, {NULL, 0}};
    const struct mt_jtoken *at = parser->token;
    struct mt_jnode *left = parse_sum(parser), *node = NULL;
    while (left) {
        const struct mt_jtoken *operator_at = parser->token;
        const struct operation *operation = operation_at(parser, operations);
        enum mt_joperator operator;
        if (operation) {
            operator= operation->operator;
            parser->token++;
        } else if (mt_jskip_name(parser, "in")) {
            operator= MT_J_IN;
        } else if (mt_jat_name(parser, "not") && parser->token[1].type == MT_J_TOKEN_NAME &&
                   mt_jslice_is(parser->token[1].text, "in")) {
            operator= MT_J_NOT_IN;
            parser->token += 2;
        } else {
            break;
        }
        struct mt_jnode *operand = over(parser, MT_J_OPERAND, operator_at, parse_sum(parser), NULL);
        if (!operand)
            return NULL;
        operand->operator=(uint8_t) operator;
        if (!node && !(node = over(parser, MT_J_COMPARISON, at, left, NULL)))
            return NULL;
        if (!mt_jparse_push(parser, &node->items, operand))
            return NULL;
    }
    return node && left ? with_height(parser, node) : left;
}

static struct mt_jnode *parse_not(struct mt_jparser *parser)
{
    const struct mt_jtoken *at = parser->token;
    if (!mt_jskip_name(parser, "not"))
        return parse_comparison(parser);
    if (!mt_jparse_enter(parser))
        return NULL;
    struct mt_jnode *node = over(parser, MT_J_NOT, at, parse_not(parser), NULL);
    parser->nesting--;
    return node;
}

static struct mt_jnode *parse_and(struct mt_jparser *parser)
{
    struct mt_jnode *left = parse_not(parser);
    while (left && mt_jat_name(parser, "and")) {
        const struct mt_jtoken *at = parser->token++;
        left = over(parser, MT_J_AND, at, left, parse_not(parser));
    }
    return left;
}

static struct mt_jnode *parse_or(struct mt_jparser *parser)
{
    struct mt_jnode *left = parse_and(parser);
    while (left && mt_jat_name(parser, "or")) {
        const struct mt_jtoken *at = parser->token++;
        left = over(parser, MT_J_OR, at, left, parse_and(parser));
    }
    return left;
}

/* jinja2 lets filters that do not exist stand in all three parts; here the value, which is parsed before its
 * `if` is seen, is held to what exists. */
static struct mt_jnode *parse_condition(struct mt_jparser *parser)
{
    struct mt_jnode *node = parse_or(parser);
    while (node && mt_jat_name(parser, "if")) {
        const struct mt_jtoken *at = parser->token++;
        const bool soft = parser->soft;
        parser->soft = true;
        struct mt_jnode *test = parse_or(parser);
        struct mt_jnode *otherwise = NULL;
        if (test && mt_jskip_name(parser, "else")) {
            otherwise = mt_jparse_enter(parser) ? parse_condition(parser) : NULL;
            parser->nesting--;
        }
        parser->soft = soft;
        node = over(parser, MT_J_CONDITION, at, node, test);
        if (node) {
            node->c = otherwise;
            node = with_height(parser, node);
        }
    }
    return node;
}

struct mt_jnode *mt_jparse_expression(struct mt_jparser *parser, bool condition)
{
    if (!mt_jparse_enter(parser))
        return NULL;
    struct mt_jnode *node = condition ? parse_condition(parser) : parse_or(parser);
    parser->nesting--;
    return node;
}

/* Where a tuple without brackets ends. */
static bool tuple_ends(const struct mt_jparser *parser, const char *end_name)
{
    return mt_jat(parser, MT_J_TOKEN_VARIABLE_END) || mt_jat(parser, MT_J_TOKEN_BLOCK_END) ||
           mt_jat_operator(parser, ")") || (end_name && mt_jat_name(parser, end_name));
}

static struct mt_jnode *parse_target_part(struct mt_jparser *parser, bool namespaces)
{
    const struct mt_jtoken *token = parser->token;
    char described[64];
    if (mt_jskip_operator(parser, "(")) {
        if (!mt_jparse_enter(parser))
            return NULL;
        struct mt_jnode *node = mt_jparse_target(parser, false, NULL);
        parser->nesting--;
        return node && mt_jexpect_operator(parser, ")") ? node : NULL;
    }
    static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
    bool assignable = token->type == MT_J_TOKEN_NAME;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        assignable = assignable && !mt_jslice_is(token->text, reserved[i]);
    if (!assignable)
        return mt_jparse_fail(parser, token, -EINVAL, "can't assign to %s", mt_jdescribe(token, described));
    parser->token++;
    struct mt_jnode *node = mt_jparse_node(parser, MT_J_NAME, token);
    if (!node || (node->name = mt_jparse_name(parser, token->text)) == UINT32_MAX)
        return NULL;
    if (namespaces && mt_jskip_operator(parser, ".")) {
        if (!mt_jat(parser, MT_J_TOKEN_NAME))
            return mt_jparse_fail(parser, parser->token, -EINVAL, "a name is expected after `.`, not %s",
                                  mt_jdescribe(parser->token, described));
        node->type = MT_J_NAMESPACE_ATTRIBUTE;
        node->value = mt_jparse_text(parser, parser->token->text);
        parser->token++;
        return node->value ? node : NULL;
    }
    return node;
}

/* Expressions or targets with commas between them: a tuple, or the only one without a comma. */
static struct mt_jnode *parse_sequence(struct mt_jparser *parser, bool target, bool option,
                                       const char *end_name)
{
    const struct mt_jtoken *at = parser->token;
    struct mt_jnodes parts = {0};
    bool is_tuple = false;
    char described[64];
    while (!tuple_ends(parser, end_name)) {
        struct mt_jnode *part =
            target ? parse_target_part(parser, option) : mt_jparse_expression(parser, option);
        if (!mt_jparse_push(parser, &parts, part))
            return NULL;
        if (!mt_jskip_operator(parser, ","))
            break;
        is_tuple = true;
    }
    if (!parts.count)
        return mt_jparse_fail(parser, parser->token, -EINVAL, "an expression is expected, not %s",
                              mt_jdescribe(parser->token, described));
    if (!is_tuple)
        return parts.items[0];
    struct mt_jnode *node = mt_jparse_node(parser, MT_J_TUPLE_OF, at);
    if (!node)
        return NULL;
    node->items = parts;
    return with_height(parser, node);
}

struct mt_jnode *mt_jparse_tuple(struct mt_jparser *parser, bool condition, const char *end_name)
{
    return parse_sequence(parser, false, condition, end_name);
}

struct mt_jnode *mt_jparse_target(struct mt_jparser *parser, bool namespaces, const char *end_name)
{
    return parse_sequence(parser, true, namespaces, end_name);
}
