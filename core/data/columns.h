/* Which cells of a row mean what, as a job or an entry of dataset_info.json says. */
#ifndef MT_DATA_COLUMNS_H
#define MT_DATA_COLUMNS_H

#include <stdbool.h>

/* How a row holds its turns. */
enum mt_formatting {
    MT_FORMATTING_OPEN,     /* not said: what the first row of a file looks like */
    MT_FORMATTING_ALPACA,   /* columns: prompt, query, response, system, history */
    MT_FORMATTING_SHAREGPT, /* a list of turns: {"from": "human", "value": ...} */
    MT_FORMATTING_OPENAI,   /* a list of messages: {"role": "user", "content": ...}, with tool calls */
};

/* The names that a list of turns uses. NULL: the usual ones, and their usual synonyms. */
struct mt_tags {
    const char *role, *content;   /* "from" and "value", or "role" and "content" */
    const char *user, *assistant; /* "human" and "gpt", or "user" and "assistant" */
    const char *observation;      /* what a tool answered: "observation", or "tool" */
    const char *function;         /* a call of tools: "function_call", or "function" */
    const char *system;           /* "system" */
};

/* Names of columns. In options NULL stands for the usual name; "" for no such column. */
struct mt_columns {
    const char *prompt;            /* "instruction" */
    const char *query;             /* "input"; none where `prompt` was given */
    const char *response;          /* "output" */
    const char *system;            /* "system" */
    const char *history;           /* "history" */
    const char *text;              /* "text": a document instead of a conversation */
    const char *messages;          /* "messages" or "conversations" */
    const char *tools;             /* "tools": a list, or its JSON text */
    const char *chosen, *rejected; /* of preference data: the better and the worse answer */
    const char *kto_tag;           /* of preference data: whether the answer is wanted */
    enum mt_formatting formatting;
    struct mt_tags tags;
    bool ranking; /* preference data: `chosen` and `rejected` instead of an answer */
};

/* Whether the rows are for preference training. */
static inline bool mt_columns_prefer(const struct mt_columns *columns)
{
    return columns->ranking || (columns->kto_tag && *columns->kto_tag);
}

#endif
