/* The state of one rendering: its memory, bounds, place in the template, variables and output. */
#ifndef MT_TEXT_JINJA_RUN_H
#define MT_TEXT_JINJA_RUN_H

#include "core/base/arena.h"
#include "core/text/jinja/jinja.h"
#include "core/text/jinja/node.h"
#include "core/text/jinja/value.h"

/* A text that is being written, in the arena. */
struct mt_jbuffer {
    char *data;
    size_t bytes, capacity;
};

struct mt_jvariable {
    uint32_t name;
    struct mt_jvalue *value; /* NULL: undefined, whatever the parents have */
};

/* A scope. What is not found is looked for in the parent. */
struct mt_jframe {
    struct mt_jframe *parent;
    struct mt_jvariable *variables;
    size_t count, capacity;
    bool captured; /* a macro refers to it: it can't be used anew */
};

enum mt_jcontrol { MT_J_NEXT, MT_J_BREAK, MT_J_CONTINUE };

struct mt_jrun {
    const struct mt_jinja_template *template;
    const struct mt_jinja_limits *limits;
    const struct tm *now;
    struct mt_arena *arena;
    size_t memory_bytes, steps;
    size_t walked_bytes; /* less than a step, not counted yet */
    unsigned depth;

    struct mt_error *error;
    int failed; /* 0, or the error's code */
    const struct mt_jnode *at;

    struct mt_jvalue **globals; /* by name; NULL where there is none */
    struct mt_jframe *frame;
    struct mt_jbuffer *out;
    unsigned captures; /* how many outputs within one another go to a text instead of the result */
    enum mt_jcontrol control;
    struct mt_jvalue *block; /* what a filter block's or set block's body wrote: the filters' first value */

    struct mt_jinja_output *output; /* gets the spans */
};

/* Zeroed memory in the arena. NULL with the error set. */
void *mt_jalloc(struct mt_jrun *run, size_t count, size_t size);
#define MT_J_STEP_BYTES 16
/* Counts steps, of text MT_J_STEP_BYTES as one. False with the error set when it was too much. */
bool mt_jstep(struct mt_jrun *run);
bool mt_jwork(struct mt_jrun *run, size_t bytes);
/* The same where each character is looked up in Unicode's tables. */
static inline bool mt_jwork_characters(struct mt_jrun *run, size_t bytes)
{
    return mt_jwork(run, 4 * bytes);
}
/* One level down, and up again. */
bool mt_jenter(struct mt_jrun *run);
static inline void mt_jleave(struct mt_jrun *run)
{
    run->depth--;
}

/* Fail at the current place; return NULL. The first failure counts. */
void *mt_jfail(struct mt_jrun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *mt_jfail_as(struct mt_jrun *run, int code, enum mt_reason reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void *mt_jfail_unsupported(struct mt_jrun *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* So that the compiler sees that they return NULL. */
#define mt_jfail(...) (mt_jfail(__VA_ARGS__), (void *)NULL)
#define mt_jfail_as(...) (mt_jfail_as(__VA_ARGS__), (void *)NULL)
#define mt_jfail_unsupported(...) (mt_jfail_unsupported(__VA_ARGS__), (void *)NULL)

bool mt_jput(struct mt_jrun *run, struct mt_jbuffer *buffer, const char *data, size_t bytes);
bool mt_jputs(struct mt_jrun *run, struct mt_jbuffer *buffer, const char *text);
bool mt_jputf(struct mt_jrun *run, struct mt_jbuffer *buffer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool mt_jput_character(struct mt_jrun *run, struct mt_jbuffer *buffer, uint32_t character);
bool mt_jput_slice(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice text);
bool mt_jput_repeated(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice text, size_t times);
struct mt_jvalue *mt_jbuffer_value(struct mt_jrun *run, const struct mt_jbuffer *buffer, bool markup);

/* --- scopes -----------------------------------------------------------------------------------------------
 */

/* A frame without these names (NULL: none). */
struct mt_jframe *mt_jframe_new(struct mt_jrun *run, struct mt_jframe *parent,
                                const struct mt_jnames *undefined);
/* Forgets all variables, for the next round of a loop. */
bool mt_jframe_reset(struct mt_jrun *run, struct mt_jframe *frame, const struct mt_jnames *undefined);
bool mt_jassign(struct mt_jrun *run, uint32_t name, struct mt_jvalue *value); /* in the innermost frame */
struct mt_jvalue *mt_jlookup(const struct mt_jrun *run, uint32_t name);       /* NULL: not there */

/* --- str(), repr() (print.c) and JSON (json.c) ---------------------------------------------------------- */

bool mt_jwrite(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value);
bool mt_jwrite_repr(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value);
/* str(value) as a plain text; soft keeps Markup. */
struct mt_jvalue *mt_jstr(struct mt_jrun *run, struct mt_jvalue *value);
struct mt_jvalue *mt_jsoft_str(struct mt_jrun *run, struct mt_jvalue *value);
/* HTML-escaped, as Markup; Markup itself stays as it is. */
struct mt_jvalue *mt_jescape(struct mt_jrun *run, struct mt_jvalue *value);

struct mt_jvalue *mt_jfrom_json(struct mt_jrun *run, const json_t *json);
struct mt_jvalue *mt_jparse_json(struct mt_jrun *run, struct mt_jslice text);
struct mt_jvalue *mt_jto_json(struct mt_jrun *run, struct mt_jvalue *value, const struct mt_jargs *args);

/* --- numbers (number.c) --------------------------------------------------------------------------------- */

/* Python's repr of a float. */
#define MT_J_FLOAT_BYTES 40
void mt_jfloat_repr(double number, char text[MT_J_FLOAT_BYTES]);
/* int(text, base), float(text) as Python reads them: false where it is no number. *overflow: more than 64
 * bits. */
bool mt_jread_int(struct mt_jslice text, int base, int64_t *integer, bool *overflow);
bool mt_jread_float(struct mt_jslice text, double *number);

/* --- operators (operate.c) ------------------------------------------------------------------------------ */

struct mt_jvalue *mt_joperate(struct mt_jrun *run, enum mt_joperator operator, struct mt_jvalue * a,
                              struct mt_jvalue *b);
struct mt_jvalue *mt_jnegate(struct mt_jrun *run, struct mt_jvalue *value, bool minus);
bool mt_jrelate(struct mt_jrun *run, enum mt_joperator operator, struct mt_jvalue * a, struct mt_jvalue *b,
                bool *holds);

/* --- attributes and items (attribute.c) ----------------------------------------------------------------- */

struct mt_jvalue *mt_jattribute(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *name);
struct mt_jvalue *mt_jitem(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *key);
/* object[start:stop:step], each may be NULL. */
struct mt_jvalue *mt_jsliced(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *start,
                             struct mt_jvalue *stop, struct mt_jvalue *step);

/* --- walking (iterate.c) -------------------------------------------------------------------------------- */

struct mt_jiterator {
    struct mt_jvalue *source;
    size_t position; /* bytes of a text, else items */
};
bool mt_jiterable(const struct mt_jvalue *value);
bool mt_jiterate(struct mt_jrun *run, struct mt_jvalue *value, struct mt_jiterator *iterator);
/* The next item, NULL at the end or with the error set (run->failed). */
struct mt_jvalue *mt_jnext(struct mt_jrun *run, struct mt_jiterator *iterator);
/* list(value): a fresh list, or tuple. */
struct mt_jvalue *mt_jcollect(struct mt_jrun *run, struct mt_jvalue *value, enum mt_jkind kind);
bool mt_jappend(struct mt_jrun *run, struct mt_jvalue *list,
                struct mt_jvalue *item); /* of a list in the making */

/* --- calls (call.c) ------------------------------------------------------------------------------------- */

struct mt_jkeyword {
    struct mt_jslice name;
    struct mt_jvalue *value;
};

struct mt_jargs {
    struct mt_jvalue **items;
    size_t count;
    struct mt_jkeyword *keywords;
    size_t num_keywords;
};

/* Puts arguments in the order of `names` (`num_names` of them, the first `num_required` needed) into
 * `values`, NULL where one was not given. `what` is for messages. */
bool mt_jbind(struct mt_jrun *run, const char *what, const struct mt_jargs *args, const char *const *names,
              size_t num_names, size_t num_required, struct mt_jvalue **values);
struct mt_jvalue *mt_jcall(struct mt_jrun *run, struct mt_jvalue *callee, const struct mt_jargs *args);

/* --- what templates call -------------------------------------------------------------------------------- */

/* NULL when Jinja has none of that name. *refused: Jinja has it and this does not. */
mt_jfilter mt_jfilter_find(struct mt_jslice name, bool *refused);
mt_jtest mt_jtest_find(struct mt_jslice name);
/* A global of Jinja's or transformers', NULL when there is none of that name. */
struct mt_jvalue *mt_jglobal_find(const char *name);

/* A method or attribute that Python's type has: NULL without an error where there is none. */
struct mt_jvalue *mt_jtext_method(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name);
struct mt_jvalue *mt_jdict_method(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name);
struct mt_jvalue *mt_jlist_method(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name);
struct mt_jvalue *mt_jnumber_method(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name);
struct mt_jvalue *mt_jloop_attribute(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name);
struct mt_jvalue *mt_jcycler_attribute(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name);

/* text.format(...) and text % values (format.c, percent.c). */
struct mt_jvalue *mt_jformat(struct mt_jrun *run, struct mt_jvalue *text, const struct mt_jargs *args);
struct mt_jvalue *mt_jformat_map(struct mt_jrun *run, struct mt_jvalue *text, struct mt_jvalue *mapping);
struct mt_jvalue *mt_jpercent(struct mt_jrun *run, struct mt_jvalue *text, struct mt_jvalue *values);

/* --- evaluating ----------------------------------------------------------------------------------------- */

struct mt_jvalue *mt_jevaluate(struct mt_jrun *run, const struct mt_jnode *node);
/* A call, with the caller of a call block (NULL: none). */
struct mt_jvalue *mt_jevaluate_call(struct mt_jrun *run, const struct mt_jnode *node,
                                    struct mt_jvalue *caller);
bool mt_jexecute(struct mt_jrun *run, const struct mt_jnodes *body);
/* Executes `body` in a new frame, and returns what it wrote. NULL with the error set. */
struct mt_jvalue *mt_jcapture(struct mt_jrun *run, const struct mt_jnodes *body, struct mt_jframe *frame);
bool mt_jassign_target(struct mt_jrun *run, const struct mt_jnode *target, struct mt_jvalue *value);
bool mt_jexecute_for(struct mt_jrun *run, const struct mt_jnode *node);
struct mt_jvalue *mt_jloop_call(struct mt_jrun *run, struct mt_jvalue *loop, const struct mt_jargs *args);
bool mt_jloop_length(struct mt_jrun *run, struct mt_jloop *loop, size_t *length);
bool mt_jloop_repr(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *loop);

#endif
