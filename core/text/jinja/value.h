/* Values of a template: what Python has, as far as templates meet it. A value does not change once made (the
 * sandbox forbids what would), except namespaces, cyclers, joiners and what iterates. All live in the arena
 * of a rendering, or of the template for constants. */
#ifndef MT_TEXT_JINJA_VALUE_H
#define MT_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_jrun;
struct mt_jvalue;
struct mt_jdict;
struct mt_jnode;

enum mt_jkind {
    MT_J_UNDEFINED,
    MT_J_NONE,
    MT_J_BOOL,
    MT_J_INT,
    MT_J_FLOAT,
    MT_J_WIDE, /* a whole number beyond 64 bits: its digits as `text`, not to be reckoned with */
    MT_J_TEXT,
    MT_J_LIST,
    MT_J_TUPLE,
    MT_J_DICT,
    MT_J_RANGE,
    MT_J_VIEW,      /* keys(), values() or items() of a dict */
    MT_J_GENERATOR, /* can be walked once: what map, select, items, ... return */
    MT_J_NAMESPACE,
    MT_J_MACRO,
    MT_J_FUNCTION, /* a global */
    MT_J_METHOD,   /* a method bound to its object */
    MT_J_LOOP,
    MT_J_CYCLER,
    MT_J_JOINER,
};

enum mt_jview { MT_J_KEYS, MT_J_VALUES, MT_J_ITEMS };

struct mt_jslice {
    const char *data; /* UTF-8 */
    size_t bytes;
};

struct mt_jlist { /* of lists, tuples and generators */
    struct mt_jvalue **items;
    size_t count;
    size_t position; /* generators: of the next item */
    bool group;      /* a tuple of the filter groupby: has .grouper and .list */
};

struct mt_jrange {
    int64_t start, stop, step;
    size_t count;
};

/* Why a value is not there: a hint, or the name that was not found (in `object` unless NULL). */
struct mt_jundefined {
    const char *hint;
    struct mt_jvalue *object, *name;
    bool unsafe; /* the sandbox keeps it away */
};

struct mt_jargs;
typedef struct mt_jvalue *(*mt_jmethod_call)(struct mt_jrun *run, struct mt_jvalue *self,
                                             const struct mt_jargs *args);
typedef struct mt_jvalue *(*mt_jfilter)(struct mt_jrun *run, struct mt_jvalue *value,
                                        const struct mt_jargs *args);
typedef bool (*mt_jtest)(struct mt_jrun *run, struct mt_jvalue *value, const struct mt_jargs *args,
                         bool *holds);
struct mt_jmethod {
    const char *name;
    mt_jmethod_call call;
    struct mt_jvalue *self;
};

struct mt_jfunction {
    const char *name;
    struct mt_jvalue *(*call)(struct mt_jrun *run, const struct mt_jargs *args);
};

struct mt_jcycler {
    struct mt_jvalue **items; /* of a joiner: its separator */
    size_t count, position;
};

struct mt_jmacro {
    const struct mt_jnode *node;
    struct mt_jframe *closure;
    bool anonymous; /* the body of a call block */
};

struct mt_jloop;

struct mt_jvalue {
    uint8_t kind;      /* enum mt_jkind */
    uint8_t view;      /* MT_J_VIEW: enum mt_jview */
    bool markup;       /* MT_J_TEXT: Markup, a str that escapes what is added to it */
    uint8_t ascii;     /* MT_J_TEXT: 0 not known yet, 1 ASCII only, 2 not */
    uint32_t followed; /* number in the list that the rendering follows, from 1; 0: none of it */
    union {
        bool truth;
        int64_t integer;
        double number;
        struct mt_jslice text; /* MT_J_TEXT, MT_J_WIDE */
        struct mt_jlist *list;
        struct mt_jdict *dict; /* MT_J_DICT, MT_J_NAMESPACE, MT_J_VIEW */
        const struct mt_jrange *range;
        const struct mt_jundefined *undefined;
        const struct mt_jmethod *method;
        const struct mt_jfunction *function;
        const struct mt_jmacro *macro;
        struct mt_jloop *loop;
        struct mt_jcycler *cycler;
    };
};

/* --- making values: NULL means that the rendering has failed -------------------------------------------- */

struct mt_jvalue *mt_jnone(void);
struct mt_jvalue *mt_jbool(bool truth);
struct mt_jvalue *mt_jint(struct mt_jrun *run, int64_t integer);
struct mt_jvalue *mt_jfloat(struct mt_jrun *run, double number);
struct mt_jvalue *mt_jtext(struct mt_jrun *run, const char *data, size_t bytes); /* keeps the pointer */
struct mt_jvalue *mt_jtext_of(struct mt_jrun *run, struct mt_jslice text, bool markup);
struct mt_jvalue *mt_jwide(struct mt_jrun *run, const char *digits, size_t bytes); /* keeps the pointer */
struct mt_jvalue *mt_jliteral(struct mt_jrun *run, const char *text);              /* keeps the pointer */
struct mt_jvalue *mt_jlist_new(struct mt_jrun *run, enum mt_jkind kind, size_t capacity); /* count 0 */
struct mt_jvalue *mt_jpair(struct mt_jrun *run, struct mt_jvalue *first, struct mt_jvalue *second);
struct mt_jvalue *mt_jdict_value(struct mt_jrun *run, enum mt_jkind kind, struct mt_jdict *dict);
struct mt_jvalue *mt_jview_new(struct mt_jrun *run, struct mt_jdict *dict, enum mt_jview view);
struct mt_jvalue *mt_jrange_new(struct mt_jrun *run, struct mt_jrange range);
struct mt_jvalue *mt_jundefined_hint(struct mt_jrun *run, const char *hint);
struct mt_jvalue *mt_jundefined_name(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *name);
struct mt_jvalue *mt_jundefined_unsafe(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *name);
struct mt_jvalue *mt_jmethod_new(struct mt_jrun *run, const char *name, mt_jmethod_call call,
                                 struct mt_jvalue *self);

/* --- looking at values ---------------------------------------------------------------------------------- */

static inline bool mt_jis(const struct mt_jvalue *value, enum mt_jkind kind)
{
    return value->kind == kind;
}

static inline bool mt_jis_text(const struct mt_jvalue *value)
{
    return value->kind == MT_J_TEXT;
}

/* bool is a kind of int, as in Python. */
static inline bool mt_jis_integer(const struct mt_jvalue *value)
{
    return value->kind == MT_J_INT || value->kind == MT_J_BOOL;
}

static inline bool mt_jis_number(const struct mt_jvalue *value)
{
    return mt_jis_integer(value) || value->kind == MT_J_FLOAT;
}

static inline int64_t mt_jinteger(const struct mt_jvalue *value) /* of an integer */
{
    return value->kind == MT_J_BOOL ? value->truth : value->integer;
}

static inline double mt_jnumber(const struct mt_jvalue *value) /* of a number */
{
    return value->kind == MT_J_FLOAT ? value->number : (double)mt_jinteger(value);
}

static inline bool mt_jslice_is(struct mt_jslice text, const char *other)
{
    return text.bytes == __builtin_strlen(other) && __builtin_memcmp(text.data, other, text.bytes) == 0;
}

bool mt_jtruth(struct mt_jvalue *value);
const char *mt_jtype(const struct mt_jvalue *value); /* Python's name of the type */
/* len(): false and the error set where the type has none. */
bool mt_jlength(struct mt_jrun *run, struct mt_jvalue *value, size_t *length);
bool mt_jhas_length(const struct mt_jvalue *value);
/* Fails with what an undefined value is; returns NULL. */
void *mt_jfail_undefined(struct mt_jrun *run, const struct mt_jvalue *value);

/* --- dicts: in order of insertion ----------------------------------------------------------------------- */

struct mt_jentry {
    struct mt_jvalue *key, *value;
    uint64_t hash;
};

struct mt_jdict {
    struct mt_jentry *entries;
    size_t count, capacity;
    uint32_t *index; /* open addressing: entry number + 1; NULL while there are few entries */
    size_t index_size;
};

struct mt_jdict *mt_jdict_new(struct mt_jrun *run, size_t capacity);
/* Puts or replaces; false with the error set (not hashable, memory). */
bool mt_jdict_put(struct mt_jrun *run, struct mt_jdict *dict, struct mt_jvalue *key, struct mt_jvalue *value);
bool mt_jdict_put_text(struct mt_jrun *run, struct mt_jdict *dict, struct mt_jslice key,
                       struct mt_jvalue *value);
/* NULL when absent; an unhashable key is absent too (`error` of mt_jhash says so). */
struct mt_jvalue *mt_jdict_get(struct mt_jrun *run, const struct mt_jdict *dict, const struct mt_jvalue *key);
struct mt_jvalue *mt_jdict_get_text(struct mt_jrun *run, const struct mt_jdict *dict, struct mt_jslice key);

/* --- comparing (compare.c) ------------------------------------------------------------------------------ */

/* False: not hashable, or the error set since it was too much work. */
bool mt_jhash(struct mt_jrun *run, const struct mt_jvalue *value, uint64_t *hash);
/* ==; values nested deeper than any that a rendering can print count as different, and those whose comparison
 * is too much work, which sets the error. */
bool mt_jequal(struct mt_jrun *run, const struct mt_jvalue *a, const struct mt_jvalue *b);
/* Order: sets *order below, at or above 0; false with the error set for types without order. NaN: *unordered.
 */
bool mt_jcompare(struct mt_jrun *run, struct mt_jvalue *a, struct mt_jvalue *b, int *order, bool *unordered);
/* `item in container`; false with the error set when there is no such test. */
bool mt_jcontains(struct mt_jrun *run, struct mt_jvalue *container, struct mt_jvalue *item, bool *found);
bool mt_jsame(const struct mt_jvalue *a, const struct mt_jvalue *b); /* Python's `is` */

#endif
