/* Jinja templates as Hugging Face's chat templates are written: `transformers` renders them with jinja2's
 * ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, the loop controls, `{% generation %}`, and its
 * own raise_exception, strftime_now, tojson, dict and namespace. This renders the same bytes, in bounds of
 * work, memory, nesting and output. What of Jinja is not built is refused with its line and column when a
 * template is parsed, or, where only values can tell, when it is rendered: never rendered otherwise. Values
 * behave as Python's do (truth, str, repr, slices, comparisons), with whole numbers of 64 bits.
 *
 * One addition to what `transformers` has: the filter `from_json`, which some templates guard tool arguments
 * with. */
#ifndef MT_TEXT_JINJA_JINJA_H
#define MT_TEXT_JINJA_JINJA_H

#include "core/base/error.h"
#include "core/text/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct mt_jinja_template;

/* `name` is for messages ("chat_template.jinja"). A parsed template does not change: threads may share it.
 * Errors: MT_REASON_BAD_MODEL, "NAME:LINE:COLUMN: ...",
 * -EINVAL for what is not Jinja and -ENOTSUP for what is not supported. */
int mt_jinja_parse(const char *source, size_t bytes, const char *name, struct mt_jinja_template **template,
                   struct mt_error *error);
void mt_jinja_free(struct mt_jinja_template *template); /* NULL is fine */

struct mt_jinja_limits {
    size_t steps;        /* nodes evaluated, and 16 bytes of text walked over count as one */
    size_t memory_bytes; /* all values and texts made on the way */
    size_t output_bytes; /* any one text */
    unsigned depth;      /* of expressions and statements inside one another, through macros */
};
extern const struct mt_jinja_limits mt_jinja_default_limits;

/* Bytes [begin, end) of the output that a `{% generation %}` block wrote. */
struct mt_jinja_span {
    size_t begin, end;
};

struct mt_jinja_output { /* starts as {0} */
    struct mt_text text;
    struct mt_jinja_span *spans; /* in the order of their ends */
    size_t num_spans, capacity;
    /* A generation block was rendered where its place in the output can't be told (in a macro, a call or a
     * set block): the spans then are not to be relied on. */
    bool spans_lost;
    /* Where each item of the list that `mt_jinja_options.follow` names was written: by the one turn of a loop
     * at the template's own level that had it and wrote something. Empty where there was none, or more than
     * one. */
    struct mt_jinja_span *places;
    size_t num_places;
    size_t steps; /* that were taken, as limits count them */
};
void mt_jinja_output_free(struct mt_jinja_output *output); /* leaves {0} */

struct mt_jinja_options {
    const struct mt_jinja_limits *limits; /* NULL: the default ones */
    const struct tm *now;                 /* what strftime_now formats; NULL: the local time */
    const char *follow;                   /* a variable, a list, whose items' places are wanted; NULL: none */
};

/* Renders into `output` (cleared first). `variables` is an object of names to values; JSON numbers with a
 * fraction or an exponent are floats. `options` may be NULL. Errors, each with the place in the template:
 * -EINVAL, MT_REASON_BAD_DATA for the template's own raise_exception (its words alone, after the place),
 * -EDOM, MT_REASON_BAD_DATA for any other failure (an undefined value used, a wrong type), -ENOTSUP,
 * MT_REASON_BAD_MODEL, -EOVERFLOW, MT_REASON_BAD_MODEL for a limit, -ENOMEM. */
int mt_jinja_render(const struct mt_jinja_template *template, const json_t *variables,
                    const struct mt_jinja_options *options, struct mt_jinja_output *output,
                    struct mt_error *error);

#endif
