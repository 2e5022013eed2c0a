/* str() and repr() of values. */
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <inttypes.h>
#include <string.h>

static bool write_text_repr(struct mt_jrun *run, struct mt_jbuffer *buffer, const struct mt_jvalue *value)
{
    const struct mt_jslice text = value->text;
    const bool single = text.bytes && memchr(text.data, '\'', text.bytes);
    const char quote = single && !memchr(text.data, '"', text.bytes) ? '"' : '\'';
    if (!mt_jputs(run, buffer, value->markup ? "Markup(" : "") || !mt_jput(run, buffer, &quote, 1))
        return false;
    for (size_t i = 0; i < text.bytes;) {
        uint32_t character;
        const size_t length = mt_jcharacter(text.data + i, text.bytes - i, &character);
        bool ok;
        if (character == '\\' || character == (unsigned char)quote)
            ok = mt_jputf(run, buffer, "\\%c", (int)character);
        else if (character == '\n' || character == '\r' || character == '\t')
            ok = mt_jputs(run, buffer, character == '\n' ? "\\n" : character == '\r' ? "\\r" : "\\t");
        else if (mt_jis_printable(character))
            ok = mt_jput(run, buffer, text.data + i, length);
        else
            ok = mt_jputf(run, buffer,
                          character < 0x100     ? "\\x%02x"
                          : character < 0x10000 ? "\\u%04x"
                                                : "\\U%08x",
                          character);
        if (!ok)
            return false;
        i += length;
    }
    return mt_jput(run, buffer, &quote, 1) && mt_jputs(run, buffer, value->markup ? ")" : "");
}

static bool write_items(struct mt_jrun *run, struct mt_jbuffer *buffer, const struct mt_jlist *list,
                        const char *open, const char *close)
{
    if (!mt_jputs(run, buffer, open))
        return false;
    for (size_t i = 0; i < list->count; i++)
        if ((i && !mt_jputs(run, buffer, ", ")) || !mt_jwrite_repr(run, buffer, list->items[i]))
            return false;
    return mt_jputs(run, buffer, close);
}

static bool write_dict(struct mt_jrun *run, struct mt_jbuffer *buffer, const struct mt_jdict *dict)
{
    if (!mt_jputs(run, buffer, "{"))
        return false;
    for (size_t i = 0; i < dict->count; i++)
        if ((i && !mt_jputs(run, buffer, ", ")) || !mt_jwrite_repr(run, buffer, dict->entries[i].key) ||
            !mt_jputs(run, buffer, ": ") || !mt_jwrite_repr(run, buffer, dict->entries[i].value))
            return false;
    return mt_jputs(run, buffer, "}");
}

static bool write_view(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *view)
{
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    const struct mt_jvalue *list = mt_jcollect(run, view, MT_J_LIST);
    return list && write_items(run, buffer, list->list, names[view->view], "])");
}

static bool write_range(struct mt_jrun *run, struct mt_jbuffer *buffer, const struct mt_jrange *range)
{
    return mt_jputf(run, buffer, "range(%" PRId64 ", %" PRId64, range->start, range->stop) &&
           (range->step == 1 || mt_jputf(run, buffer, ", %" PRId64, range->step)) &&
           mt_jputs(run, buffer, ")");
}

static bool write_compound(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value)
{
    switch (value->kind) {
    case MT_J_LIST:
        return write_items(run, buffer, value->list, "[", "]");
    case MT_J_TUPLE:
        return write_items(run, buffer, value->list, "(", value->list->count == 1 ? ",)" : ")");
    case MT_J_DICT:
        return write_dict(run, buffer, value->dict);
    case MT_J_VIEW:
        return write_view(run, buffer, value);
    case MT_J_RANGE:
        return write_range(run, buffer, value->range);
    case MT_J_NAMESPACE:
        return mt_jputs(run, buffer, "<Namespace ") && write_dict(run, buffer, value->dict) &&
               mt_jputs(run, buffer, ">");
    case MT_J_MACRO:
        if (value->macro->anonymous)
            return mt_jputs(run, buffer, "<Macro anonymous>");
        return mt_jputs(run, buffer, "<Macro ") &&
               write_text_repr(run, buffer, run->template->name_values[value->macro->node->name]) &&
               mt_jputs(run, buffer, ">");
    case MT_J_LOOP:
        return mt_jloop_repr(run, buffer, value);
    default: /* what Python prints has the object's address in it */
        return mt_jfail_unsupported(run, "printing a value of type %s is not supported", mt_jtype(value));
    }
}

bool mt_jwrite_repr(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value)
{
    char number[MT_J_FLOAT_BYTES];
    switch (value->kind) {
    case MT_J_UNDEFINED:
        return mt_jputs(run, buffer, "Undefined");
    case MT_J_NONE:
        return mt_jputs(run, buffer, "None");
    case MT_J_BOOL:
        return mt_jputs(run, buffer, value->truth ? "True" : "False");
    case MT_J_INT:
        return mt_jputf(run, buffer, "%" PRId64, value->integer);
    case MT_J_WIDE:
        return mt_jput_slice(run, buffer, value->text);
    case MT_J_FLOAT:
        mt_jfloat_repr(value->number, number);
        return mt_jputs(run, buffer, number);
    case MT_J_TEXT:
        return write_text_repr(run, buffer, value);
    default:
        break;
    }
    if (!mt_jenter(run) || !mt_jstep(run))
        return false;
    const bool ok = write_compound(run, buffer, value);
    mt_jleave(run);
    return ok;
}

bool mt_jwrite(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value)
{
    if (mt_jis_text(value))
        return mt_jput_slice(run, buffer, value->text);
    if (mt_jis(value, MT_J_UNDEFINED))
        return true;
    return mt_jwrite_repr(run, buffer, value);
}

struct mt_jvalue *mt_jstr(struct mt_jrun *run, struct mt_jvalue *value)
{
    if (mt_jis_text(value))
        return value->markup ? mt_jtext_of(run, value->text, false) : value;
    struct mt_jbuffer buffer = {0};
    return mt_jwrite(run, &buffer, value) ? mt_jbuffer_value(run, &buffer, false) : NULL;
}

struct mt_jvalue *mt_jsoft_str(struct mt_jrun *run, struct mt_jvalue *value)
{
    return mt_jis_text(value) ? value : mt_jstr(run, value);
}

struct mt_jvalue *mt_jescape(struct mt_jrun *run, struct mt_jvalue *value)
{
    if (mt_jis_text(value) && value->markup)
        return value;
    struct mt_jvalue *text = mt_jstr(run, value);
    struct mt_jbuffer buffer = {0};
    if (!text)
        return NULL;
    for (size_t i = 0; i < text->text.bytes; i++) {
        const char *const c = &text->text.data[i];
        const char *escaped = *c == '&'    ? "&amp;"
                              : *c == '<'  ? "&lt;"
                              : *c == '>'  ? "&gt;"
                              : *c == '\'' ? "&#39;"
                              : *c == '"'  ? "&#34;"
                                           : NULL;
        if (escaped ? !mt_jputs(run, &buffer, escaped) : !mt_jput(run, &buffer, c, 1))
            return NULL;
    }
    return mt_jbuffer_value(run, &buffer, true);
}
