/* Filters on texts. */
#include "core/text/jinja/filters.h"

#include <string.h>

static bool no_arguments(struct mt_jrun *run, const char *what, const struct mt_jargs *args)
{
    return mt_jbind(run, what, args, NULL, 0, 0, NULL);
}

FILTER(upper)
{
    struct mt_jvalue *text = no_arguments(run, "upper", args) ? mt_jsoft_str(run, value) : NULL;
    return text ? mt_jchange_case(run, text, MT_J_UPPER) : NULL;
}

FILTER(lower)
{
    struct mt_jvalue *text = no_arguments(run, "lower", args) ? mt_jsoft_str(run, value) : NULL;
    return text ? mt_jchange_case(run, text, MT_J_LOWER) : NULL;
}

FILTER(capitalize)
{
    struct mt_jvalue *text = no_arguments(run, "capitalize", args) ? mt_jsoft_str(run, value) : NULL;
    return text ? mt_jcapitalize(run, text) : NULL;
}

/* Words begin after white space and after - ( { [ <. */
FILTER(title)
{
    struct mt_jvalue *text = no_arguments(run, "title", args) ? mt_jsoft_str(run, value) : NULL;
    struct mt_jbuffer buffer = {0};
    bool begins = true;
    if (!text)
        return NULL;
    const char *data = text->text.data;
    for (size_t i = 0; i < text->text.bytes;) {
        size_t end = i;
        bool separates = false;
        while (end < text->text.bytes) { /* to the end of the word, or over one separator */
            uint32_t character;
            const size_t length = mt_jcharacter(data + end, text->text.bytes - end, &character);
            separates = mt_jis_space(character) || (character < 0x80 && strchr("-({[<", (int)character));
            if (separates && end > i)
                break;
            end += length;
            if (separates || begins)
                break;
        }
        if (separates && end == i)
            continue;
        struct mt_jvalue part = {.kind = MT_J_TEXT, .text = {data + i, end - i}};
        struct mt_jvalue *changed = mt_jchange_case(run, &part, begins ? MT_J_UPPER : MT_J_LOWER);
        if (!changed || !mt_jput_slice(run, &buffer, changed->text))
            return NULL;
        uint32_t last;
        mt_jcharacter_before(data, end, &last);
        begins = mt_jis_space(last) || (last < 0x80 && strchr("-({[<", (int)last));
        i = end;
    }
    return mt_jbuffer_value(run, &buffer, false);
}

FILTER(trim)
{
    static const char *const names[] = {"chars"};
    struct mt_jvalue *characters, *text = mt_jsoft_str(run, value);
    if (!text || !mt_jbind(run, "trim", args, names, 1, 0, &characters))
        return NULL;
    if (mt_jgiven(characters) && !mt_jis_text(characters))
        return mt_jfail(run, "trim needs a text, not a value of type %s", mt_jtype(characters));
    if (!mt_jfind_work(run, text->text.bytes, mt_jgiven(characters) ? characters->text.bytes : 1, true))
        return NULL;
    const struct mt_jslice trimmed =
        mt_jtrim(text->text, mt_jgiven(characters) ? &characters->text : NULL, true, true);
    return mt_jtext_of(run, trimmed, text->markup);
}

FILTER(replace)
{
    static const char *const names[] = {"old", "new", "count"};
    struct mt_jvalue *given[3], *text = mt_jstr(run, value);
    int64_t count = -1;
    if (!text || !mt_jbind(run, "replace", args, names, 3, 2, given) ||
        (mt_jgiven(given[2]) && !mt_jgiven_integer(run, "replace", given[2], &count)))
        return NULL;
    struct mt_jvalue *old = mt_jstr(run, given[0]), *new = old ? mt_jstr(run, given[1]) : NULL;
    return new ? mt_jreplace(run, text, old->text, new->text, count) : NULL;
}

/* The lines of a text with blanks before them. A line end at the end of the text stays. */
static struct mt_jvalue *indent_lines(struct mt_jrun *run, struct mt_jvalue *text, struct mt_jslice indention,
                                      bool first, bool blank)
{
    struct mt_jbuffer with_end = {0}, buffer = {0};
    struct mt_jvalue *lines = mt_jlist_new(run, MT_J_LIST, 0);
    if (!lines || !mt_jput_slice(run, &with_end, text->text) || !mt_jputs(run, &with_end, "\n"))
        return NULL;
    struct mt_jvalue *whole = mt_jbuffer_value(run, &with_end, text->markup);
    if (!whole || !mt_jsplit_lines(run, whole, false, lines))
        return NULL;
    if (first && !mt_jput_slice(run, &buffer, indention))
        return NULL;
    for (size_t i = 0; i < lines->list->count; i++) {
        const struct mt_jslice line = lines->list->items[i]->text;
        if ((i && !mt_jputs(run, &buffer, "\n")) ||
            (i && (blank || line.bytes) && !mt_jput_slice(run, &buffer, indention)) ||
            !mt_jput_slice(run, &buffer, line))
            return NULL;
    }
    return mt_jbuffer_value(run, &buffer, text->markup);
}

FILTER(indent)
{
    static const char *const names[] = {"width", "first", "blank"};
    struct mt_jvalue *given[3];
    struct mt_jbuffer blanks = {0};
    int64_t width = 4;
    if (!mt_jbind(run, "indent", args, names, 3, 0, given))
        return NULL;
    if (mt_jis(value, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, value);
    if (!mt_jis_text(value))
        return mt_jfail(run, "indent needs a text, not a value of type %s", mt_jtype(value));
    struct mt_jslice indention;
    if (given[0] && mt_jis_text(given[0])) {
        struct mt_jvalue *text = value->markup ? mt_jstr(run, given[0]) : given[0];
        if (!text)
            return NULL;
        indention = text->text;
    } else {
        if (!mt_jgiven_integer(run, "indent", given[0], &width) ||
            !mt_jput_repeated(run, &blanks, (struct mt_jslice){" ", 1}, width > 0 ? (size_t)width : 0))
            return NULL;
        indention = (struct mt_jslice){blanks.data, blanks.bytes};
    }
    return indent_lines(run, value, indention, given[1] && mt_jtruth(given[1]),
                        given[2] && mt_jtruth(given[2]));
}

FILTER(center)
{
    static const char *const names[] = {"width"};
    struct mt_jvalue *given, *text = mt_jsoft_str(run, value);
    int64_t width = 80;
    if (!text || !mt_jbind(run, "center", args, names, 1, 0, &given) ||
        !mt_jgiven_integer(run, "center", given, &width))
        return NULL;
    return mt_jjustify(run, text, width, (struct mt_jslice){" ", 1}, MT_J_CENTER);
}

FILTER(truncate)
{
    static const char *const names[] = {"length", "killwords", "end", "leeway"};
    struct mt_jvalue *given[4];
    int64_t length = 255, leeway = 5;
    size_t count;
    if (!mt_jbind(run, "truncate", args, names, 4, 0, given) ||
        !mt_jgiven_integer(run, "truncate", given[0], &length) ||
        (mt_jgiven(given[3]) && !mt_jgiven_integer(run, "truncate", given[3], &leeway)))
        return NULL;
    if (mt_jis(value, MT_J_UNDEFINED))
        return value;
    if (!mt_jis_text(value) || (given[2] && !mt_jis_text(given[2])))
        return mt_jfail(run, "truncate needs a text");
    if (value->markup)
        return mt_jfail_unsupported(run, "truncate on Markup is not supported");
    const struct mt_jslice end = given[2] ? given[2]->text : (struct mt_jslice){"...", 3};
    const int64_t end_length = (int64_t)mt_jcount(end);
    if (length < end_length || leeway < 0 || !mt_jlength(run, value, &count))
        return mt_jfail(run,
                        "truncate: the length must be that of the end or more, and the leeway 0 or more");
    if ((int64_t)count <= length || (int64_t)count - length <= leeway)
        return value;
    struct mt_jslice kept = {value->text.data, mt_joffset(value->text, (size_t)(length - end_length))};
    if (!(given[1] && mt_jtruth(given[1]))) {
        const char *blank = memrchr(kept.data, ' ', kept.bytes);
        kept.bytes = blank ? (size_t)(blank - kept.data) : kept.bytes;
    }
    struct mt_jbuffer buffer = {0};
    return mt_jput_slice(run, &buffer, kept) && mt_jput_slice(run, &buffer, end)
               ? mt_jbuffer_value(run, &buffer, false)
               : NULL;
}

FILTER(wordcount)
{
    struct mt_jvalue *text = no_arguments(run, "wordcount", args) ? mt_jsoft_str(run, value) : NULL;
    int64_t count = 0;
    bool in_word = false;
    if (!text || !mt_jwork_characters(run, text->text.bytes))
        return NULL;
    for (size_t i = 0; i < text->text.bytes;) {
        uint32_t character;
        i += mt_jcharacter(text->text.data + i, text->text.bytes - i, &character);
        const bool word = mt_jis_word(character);
        count += word && !in_word;
        in_word = word;
    }
    return mt_jint(run, count);
}

FILTER(escape)
{
    return no_arguments(run, "escape", args) ? mt_jescape(run, value) : NULL;
}

FILTER(forceescape)
{
    struct mt_jvalue *text = no_arguments(run, "forceescape", args) ? mt_jstr(run, value) : NULL;
    return text ? mt_jescape(run, text) : NULL;
}

FILTER(safe)
{
    struct mt_jvalue *text = no_arguments(run, "safe", args) ? mt_jstr(run, value) : NULL;
    return text ? mt_jtext_of(run, text->text, true) : NULL;
}

FILTER(string)
{
    return no_arguments(run, "string", args) ? mt_jsoft_str(run, value) : NULL;
}

FILTER(format)
{
    struct mt_jvalue *text = mt_jsoft_str(run, value);
    if (!text)
        return NULL;
    if (args->count && args->num_keywords)
        return mt_jfail(run, "format takes arguments with or without names, not both");
    if (args->num_keywords) {
        struct mt_jdict *dict = mt_jdict_new(run, args->num_keywords);
        for (size_t i = 0; dict && i < args->num_keywords; i++)
            if (!mt_jdict_put_text(run, dict, args->keywords[i].name, args->keywords[i].value))
                return NULL;
        struct mt_jvalue *mapping = mt_jdict_value(run, MT_J_DICT, dict);
        return mapping ? mt_jpercent(run, text, mapping) : NULL;
    }
    struct mt_jvalue *tuple = mt_jlist_new(run, MT_J_TUPLE, 0);
    for (size_t i = 0; tuple && i < args->count; i++)
        if (!mt_jappend(run, tuple, args->items[i]))
            return NULL;
    return tuple ? mt_jpercent(run, text, tuple) : NULL;
}

FILTER(from_json)
{
    if (!no_arguments(run, "from_json", args))
        return NULL;
    if (!mt_jis_text(value))
        return mt_jfail(run, "from_json needs a text, not a value of type %s", mt_jtype(value));
    return mt_jparse_json(run, value->text);
}

static bool quote(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value, bool query)
{
    struct mt_jvalue *text = mt_jstr(run, value);
    for (size_t i = 0; text && i < text->text.bytes; i++) {
        const unsigned char c = (unsigned char)text->text.data[i];
        const bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                           (c && c < 0x80 && strchr("_.-~", c)) || (c == '/' && !query);
        if (plain               ? !mt_jput(run, buffer, &text->text.data[i], 1)
            : c == ' ' && query ? !mt_jputs(run, buffer, "+")
                                : !mt_jputf(run, buffer, "%%%02X", c))
            return false;
    }
    return text;
}

FILTER(urlencode)
{
    struct mt_jbuffer buffer = {0};
    if (!no_arguments(run, "urlencode", args))
        return NULL;
    if (mt_jis_text(value) || !mt_jiterable(value))
        return quote(run, &buffer, value, false) ? mt_jbuffer_value(run, &buffer, false) : NULL;
    struct mt_jvalue *pairs = mt_jis(value, MT_J_DICT) ? mt_jview_new(run, value->dict, MT_J_ITEMS) : value;
    struct mt_jiterator iterator;
    if (!pairs || !mt_jiterate(run, pairs, &iterator))
        return NULL;
    size_t count = 0;
    for (struct mt_jvalue *pair; (pair = mt_jnext(run, &iterator)); count++) {
        const struct mt_jvalue *list = mt_jcollect(run, pair, MT_J_LIST);
        if (!list || list->list->count != 2)
            return mt_jfail(run, "urlencode needs pairs");
        if ((count && !mt_jputs(run, &buffer, "&")) || !quote(run, &buffer, list->list->items[0], true) ||
            !mt_jputs(run, &buffer, "=") || !quote(run, &buffer, list->list->items[1], true))
            return NULL;
    }
    return run->failed ? NULL : mt_jbuffer_value(run, &buffer, false);
}

FILTER(xmlattr)
{
    static const char *const names[] = {"autospace"};
    struct mt_jvalue *autospace;
    struct mt_jbuffer buffer = {0};
    if (!mt_jbind(run, "xmlattr", args, names, 1, 0, &autospace))
        return NULL;
    if (!mt_jis(value, MT_J_DICT))
        return mt_jfail(run, "xmlattr needs a dict, not a value of type %s", mt_jtype(value));
    const bool space = !autospace || mt_jtruth(autospace);
    for (size_t i = 0; i < value->dict->count; i++) {
        const struct mt_jentry *entry = &value->dict->entries[i];
        if (mt_jis(entry->value, MT_J_NONE) || mt_jis(entry->value, MT_J_UNDEFINED))
            continue;
        if (!mt_jis_text(entry->key))
            return mt_jfail(run, "xmlattr needs texts as keys");
        for (size_t j = 0; j < entry->key->text.bytes; j++)
            if (memchr(" \t\n\r\f\v/>=", entry->key->text.data[j], 9))
                return mt_jfail(run,
                                "xmlattr: a character in the name of an attribute that can't stand there");
        const struct mt_jvalue *key = mt_jescape(run, entry->key), *text = mt_jescape(run, entry->value);
        if (!key || !text || ((space || buffer.bytes) && !mt_jputs(run, &buffer, " ")) ||
            !mt_jput_slice(run, &buffer, key->text) || !mt_jputs(run, &buffer, "=\"") ||
            !mt_jput_slice(run, &buffer, text->text) || !mt_jputs(run, &buffer, "\""))
            return NULL;
    }
    return mt_jbuffer_value(run, &buffer, false);
}
