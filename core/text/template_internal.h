/* What the files of core/text/template.h share. */
#ifndef MT_TEXT_TEMPLATE_INTERNAL_H
#define MT_TEXT_TEMPLATE_INTERNAL_H

#include "core/text/jinja/jinja.h"
#include "core/text/template.h"

struct mt_template {
    struct mt_jinja_template *usual;
    struct mt_jinja_template *with_tools; /* NULL: the usual one */
    json_t *special_tokens;
    /* Whether tool-call arguments are wanted as a JSON text; else as an object. */
    bool text_arguments, text_arguments_with_tools;
    bool knows_tools;
    char fingerprint[65];
};

/* A conversation as the template's variables: a new object, or an error of MT_REASON_BAD_DATA. */
int mt_template_variables(const struct mt_template *template, const json_t *conversation, json_t **variables,
                          struct mt_error *error);
const struct mt_jinja_template *mt_template_for(const struct mt_template *template, const json_t *variables);
/* Finds out what a template wants as tool-call arguments. */
bool mt_template_wants_text(const struct mt_jinja_template *jinja, const json_t *special_tokens);

#endif
