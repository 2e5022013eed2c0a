/* The names of the filters. */
#include "core/text/jinja/filters.h"

mt_jfilter mt_jfilter_find(struct mt_jslice name, bool *refused)
{
    static const struct {
        const char *name;
        mt_jfilter filter; /* NULL: Jinja has it, this does not */
    } filters[] = {
        {"abs", mt_jfilter_abs},
        {"attr", mt_jfilter_attr},
        {"batch", mt_jfilter_batch},
        {"capitalize", mt_jfilter_capitalize},
        {"center", mt_jfilter_center},
        {"count", mt_jfilter_length},
        {"d", mt_jfilter_default},
        {"default", mt_jfilter_default},
        {"dictsort", mt_jfilter_dictsort},
        {"e", mt_jfilter_escape},
        {"escape", mt_jfilter_escape},
        {"filesizeformat", mt_jfilter_filesizeformat},
        {"first", mt_jfilter_first},
        {"float", mt_jfilter_float},
        {"forceescape", mt_jfilter_forceescape},
        {"format", mt_jfilter_format},
        {"from_json", mt_jfilter_from_json},
        {"groupby", mt_jfilter_groupby},
        {"indent", mt_jfilter_indent},
        {"int", mt_jfilter_int},
        {"items", mt_jfilter_items},
        {"join", mt_jfilter_join},
        {"last", mt_jfilter_last},
        {"length", mt_jfilter_length},
        {"list", mt_jfilter_list},
        {"lower", mt_jfilter_lower},
        {"map", mt_jfilter_map},
        {"max", mt_jfilter_max},
        {"min", mt_jfilter_min},
        {"pprint", NULL},
        {"random", NULL},
        {"reject", mt_jfilter_reject},
        {"rejectattr", mt_jfilter_rejectattr},
        {"replace", mt_jfilter_replace},
        {"reverse", mt_jfilter_reverse},
        {"round", mt_jfilter_round},
        {"safe", mt_jfilter_safe},
        {"select", mt_jfilter_select},
        {"selectattr", mt_jfilter_selectattr},
        {"slice", mt_jfilter_slice},
        {"sort", mt_jfilter_sort},
        {"string", mt_jfilter_string},
        {"striptags", NULL},
        {"sum", mt_jfilter_sum},
        {"title", mt_jfilter_title},
        {"tojson", mt_jto_json},
        {"trim", mt_jfilter_trim},
        {"truncate", mt_jfilter_truncate},
        {"unique", mt_jfilter_unique},
        {"upper", mt_jfilter_upper},
        {"urlencode", mt_jfilter_urlencode},
        {"urlize", NULL},
        {"wordcount", mt_jfilter_wordcount},
        {"wordwrap", NULL},
        {"xmlattr", mt_jfilter_xmlattr},
    };
    *refused = false;
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (mt_jslice_is(name, filters[i].name)) {
            *refused = !filters[i].filter;
            return filters[i].filter;
        }
    return NULL;
}

bool mt_jgiven(const struct mt_jvalue *value)
{
    return value && !mt_jis(value, MT_J_NONE);
}

bool mt_jgiven_integer(struct mt_jrun *run, const char *what, const struct mt_jvalue *value, int64_t *integer)
{
    if (!value)
        return true;
    if (!mt_jis_integer(value))
        return mt_jfail(run, "%s needs a whole number, not a value of type %s", what, mt_jtype(value));
    *integer = mt_jinteger(value);
    return true;
}
