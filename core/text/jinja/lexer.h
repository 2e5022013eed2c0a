/* The tokens of a template, as jinja2 cuts it with trim_blocks and lstrip_blocks on, line statements off. */
#ifndef MT_TEXT_JINJA_LEXER_H
#define MT_TEXT_JINJA_LEXER_H

#include "core/base/arena.h"
#include "core/base/error.h"
#include "core/text/jinja/value.h"

enum mt_jtoken_type {
    MT_J_TOKEN_DATA, /* text */
    MT_J_TOKEN_VARIABLE_BEGIN,
    MT_J_TOKEN_VARIABLE_END,
    MT_J_TOKEN_BLOCK_BEGIN,
    MT_J_TOKEN_BLOCK_END,
    MT_J_TOKEN_NAME,     /* text */
    MT_J_TOKEN_STRING,   /* text, its escapes resolved */
    MT_J_TOKEN_INTEGER,  /* integer */
    MT_J_TOKEN_FLOAT,    /* number */
    MT_J_TOKEN_OPERATOR, /* text: "+", "//", "==", ... */
    MT_J_TOKEN_END,
};

struct mt_jtoken {
    enum mt_jtoken_type type;
    uint32_t line, column;
    struct mt_jslice text;
    int64_t integer;
    double number;
};

/* `source` is the template with "\n" as its only line end, and must live as long as the arena. All tokens
 * with an MT_J_TOKEN_END last, in the arena. Errors: MT_REASON_BAD_MODEL with line and column. */
int mt_jlex(struct mt_arena *arena, const char *name, struct mt_jslice source, struct mt_jtoken **tokens,
            size_t *count, struct mt_error *error);

#endif
