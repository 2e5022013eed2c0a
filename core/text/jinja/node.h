/* The syntax tree of a template. */
#ifndef MT_TEXT_JINJA_NODE_H
#define MT_TEXT_JINJA_NODE_H

#include "core/base/arena.h"
#include "core/text/jinja/value.h"

enum mt_jnode_type {
    /* Expressions: what the members mean stands behind each. */
    MT_J_CONSTANT,    /* value */
    MT_J_NAME,        /* name */
    MT_J_LIST_OF,     /* items */
    MT_J_TUPLE_OF,    /* items */
    MT_J_DICT_OF,     /* items: key, value, key, value, ... */
    MT_J_ATTRIBUTE,   /* a.value */
    MT_J_ITEM,        /* a[b] */
    MT_J_SLICE,       /* as b of an item: items (start, stop, step), each may be NULL */
    MT_J_CALL,        /* a(items, keywords, *b, **c) */
    MT_J_FILTER,      /* a | value(items, keywords, *b, **c); a is NULL in a filter block: the body */
    MT_J_TEST,        /* a is value(items, keywords, *b, **c) */
    MT_J_NOT,         /* not a */
    MT_J_AND,         /* a and b */
    MT_J_OR,          /* a or b */
    MT_J_MINUS,       /* -a */
    MT_J_PLUS,        /* +a */
    MT_J_BINARY,      /* a operator b */
    MT_J_COMPARISON,  /* a, then items: each with its operator in `operator` and the right side in a */
    MT_J_OPERAND,     /* operator, a */
    MT_J_CONCATENATE, /* items */
    MT_J_CONDITION,   /* a if b else c, c may be NULL */
    MT_J_KEYWORD,     /* name of an argument in value, a */
    MT_J_NAMESPACE_ATTRIBUTE, /* target only: name.value */
    /* Statements. */
    MT_J_DATA,         /* value: text */
    MT_J_OUTPUT,       /* a */
    MT_J_SET,          /* target a, value b */
    MT_J_SET_BLOCK,    /* target a, filter b (may be NULL), body */
    MT_J_IF,           /* condition a, body, otherwise */
    MT_J_FOR,          /* target a, iterable b, filter c (may be NULL), flag: recursive, body, otherwise */
    MT_J_WITH,         /* items: target, value, target, value, ...; body */
    MT_J_MACRO_DEF,    /* name, items: arguments (names), defaults: of the last of them; body; wants_* */
    MT_J_CALL_BLOCK,   /* a: the call; b: an MT_J_MACRO_DEF without name, the caller */
    MT_J_FILTER_BLOCK, /* a: the filters; body */
    MT_J_GENERATION,   /* body */
    MT_J_BREAK_LOOP,
    MT_J_CONTINUE_LOOP,
};

enum mt_joperator {
    MT_J_ADD,
    MT_J_SUBTRACT,
    MT_J_MULTIPLY,
    MT_J_DIVIDE,
    MT_J_FLOOR_DIVIDE,
    MT_J_MODULO,
    MT_J_POWER,
    MT_J_EQUAL,
    MT_J_NOT_EQUAL,
    MT_J_LESS,
    MT_J_LESS_EQUAL,
    MT_J_GREATER,
    MT_J_GREATER_EQUAL,
    MT_J_IN,
    MT_J_NOT_IN,
};

struct mt_jnodes {
    struct mt_jnode **items;
    size_t count;
};

/* Names that a scope begins without (analyse.c). */
struct mt_jnames {
    uint32_t *names;
    size_t count;
};

struct mt_jnode {
    uint8_t type;     /* enum mt_jnode_type */
    uint8_t operator; /* enum mt_joperator */
    bool flag;
    bool wants_caller, wants_varargs, wants_kwargs;
    uint32_t line, column; /* from 1; a column is a character */
    uint32_t height;       /* of the expression's tree */
    uint32_t name;         /* number of a name in the template */
    struct mt_jvalue *value;
    mt_jfilter
        filter; /* of MT_J_FILTER and MT_J_TEST; NULL: none of that name, which fails when it is reached */
    mt_jtest test;
    struct mt_jnode *a, *b, *c;
    struct mt_jnodes items, keywords, defaults, body, otherwise;
    struct mt_jnames undefined, otherwise_undefined; /* of the body, where it is a scope, and of the other */
};

struct mt_jinja_template {
    struct mt_arena *arena;
    const char *name;
    const char **names;             /* by number */
    struct mt_jvalue **name_values; /* the same as values */
    size_t num_names;
    uint32_t loop; /* the number of the name `loop`, UINT32_MAX where it does not occur */
    struct mt_jnodes body;
    struct mt_jnames undefined;
};

#endif
