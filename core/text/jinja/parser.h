/* What the two halves of the parser share. */
#ifndef MT_TEXT_JINJA_PARSER_H
#define MT_TEXT_JINJA_PARSER_H

#include "core/text/jinja/lexer.h"
#include "core/text/jinja/node.h"

#define MT_J_MAX_NESTING 200 /* of brackets and blocks: the parser calls itself */
#define MT_J_MAX_NAMES 1024
#define MT_J_MAX_HEIGHT 500 /* of an expression's tree: `a + b + c ...` grows it without nesting */

/* A macro, call block or other body that is a function of its own. */
struct mt_jbody {
    struct mt_jbody *outer;
    struct mt_jnode *macro; /* NULL for the template's own text and generation blocks */
    unsigned loops;         /* that `break` and `continue` could mean */
};

struct mt_jparser {
    struct mt_jinja_template *template;
    const struct mt_jtoken *token; /* the current one */
    struct mt_jbody *body;
    unsigned nesting;
    /* In a branch of an `if`: jinja2 lets a filter that does not exist stand there, and fails when it is
     * reached. */
    bool soft;
    size_t names_capacity;
    struct mt_error *error;
    int failed;
};

/* Fail at a place; return NULL. The first failure counts. */
void *mt_jparse_fail(struct mt_jparser *parser, const struct mt_jtoken *at, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
struct mt_jnode *mt_jparse_node(struct mt_jparser *parser, enum mt_jnode_type type,
                                const struct mt_jtoken *at);
bool mt_jparse_push(struct mt_jparser *parser, struct mt_jnodes *nodes, struct mt_jnode *node);
bool mt_jparse_enter(struct mt_jparser *parser);
/* The number of a name; UINT32_MAX on failure. */
uint32_t mt_jparse_name(struct mt_jparser *parser, struct mt_jslice name);
struct mt_jvalue *mt_jparse_text(struct mt_jparser *parser, struct mt_jslice text);

bool mt_jat(const struct mt_jparser *parser, enum mt_jtoken_type type);
bool mt_jat_operator(const struct mt_jparser *parser, const char *text);
bool mt_jat_name(const struct mt_jparser *parser, const char *name);
bool mt_jskip_operator(struct mt_jparser *parser, const char *text); /* if it is there */
bool mt_jskip_name(struct mt_jparser *parser, const char *name);
bool mt_jexpect_operator(struct mt_jparser *parser, const char *text);
/* What a token is called in messages. */
const char *mt_jdescribe(const struct mt_jtoken *token, char buffer[64]);

/* An expression; several with commas are a tuple. `condition`: `a if b` may stand there. `end_name`: a name
 * that ends a tuple, or NULL. */
struct mt_jnode *mt_jparse_expression(struct mt_jparser *parser, bool condition);
struct mt_jnode *mt_jparse_tuple(struct mt_jparser *parser, bool condition, const char *end_name);
/* What `for`, `set` and `with` assign to. */
struct mt_jnode *mt_jparse_target(struct mt_jparser *parser, bool namespaces, const char *end_name);
/* `|a|b` after a block's keyword; `inline_first`: the first without its bar. NULL without failure: none. */
struct mt_jnode *mt_jparse_filters(struct mt_jparser *parser, struct mt_jnode *value, bool inline_first);

/* All tokens into template->body. */
bool mt_jparse_template(struct mt_jparser *parser);

/* Finds the names that each scope begins without. False: out of memory. */
bool mt_janalyse(struct mt_jinja_template *template);

#endif
