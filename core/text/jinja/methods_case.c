/* The methods of str that change or ask for the case and kind of characters. */
#include "core/text/jinja/methods.h"

#include <string.h>

static bool is_cased(uint32_t character)
{
    return mt_jis_lower(character) || mt_jis_upper(character) || mt_jis_title(character);
}

/* Characters that do not come between a sigma and the word it ends: marks, dots and the like
 * (Case_Ignorable). */
static bool is_ignorable(uint32_t character)
{
    return character == '\'' || character == '.' || character == ':' || character == '^' ||
           character == '`' || character == 0xa8 || character == 0xad || character == 0xaf ||
           character == 0xb4 || character == 0xb7 || character == 0xb8 || character == 0x2019 ||
           (character >= 0x300 && character <= 0x36f);
}

/* A capital sigma at the end of a word becomes the final form. */
static bool ends_word(struct mt_jslice text, size_t sigma, size_t length)
{
    uint32_t character = 0;
    size_t at = sigma;
    do {
        if (!at)
            return false;
        at -= mt_jcharacter_before(text.data, at, &character);
    } while (is_ignorable(character));
    if (!is_cased(character))
        return false;
    for (at = sigma + length; at < text.bytes;) {
        at += mt_jcharacter(text.data + at, text.bytes - at, &character);
        if (!is_ignorable(character))
            return !is_cased(character);
    }
    return true;
}

static bool put_mapped(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice text, size_t at,
                       enum mt_jcase mapping, size_t *length)
{
    uint32_t character, mapped[MT_J_CASE_MAX];
    *length = mt_jcharacter(text.data + at, text.bytes - at, &character);
    if (character == 0x3a3 && mapping == MT_J_LOWER && ends_word(text, at, *length))
        return mt_jput_character(run, buffer, 0x3c2);
    const size_t count = mt_jmap_case(character, mapping, mapped);
    for (size_t i = 0; i < count; i++)
        if (!mt_jput_character(run, buffer, mapped[i]))
            return false;
    return true;
}

struct mt_jvalue *mt_jchange_case(struct mt_jrun *run, struct mt_jvalue *text, enum mt_jcase mapping)
{
    struct mt_jbuffer buffer = {0};
    if (!mt_jwork_characters(run, text->text.bytes))
        return NULL;
    for (size_t i = 0, length; i < text->text.bytes; i += length)
        if (!put_mapped(run, &buffer, text->text, i, mapping, &length))
            return NULL;
    return mt_jbuffer_value(run, &buffer, text->markup);
}

struct mt_jvalue *mt_jcapitalize(struct mt_jrun *run, struct mt_jvalue *text)
{
    struct mt_jbuffer buffer = {0};
    if (!mt_jwork_characters(run, text->text.bytes))
        return NULL;
    for (size_t i = 0, length; i < text->text.bytes; i += length)
        if (!put_mapped(run, &buffer, text->text, i, i ? MT_J_LOWER : MT_J_TITLE, &length))
            return NULL;
    return mt_jbuffer_value(run, &buffer, text->markup);
}

static struct mt_jvalue *upper(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return mt_jpositional(run, "upper", args, 0, 0, NULL) ? mt_jchange_case(run, self, MT_J_UPPER) : NULL;
}

static struct mt_jvalue *lower(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return mt_jpositional(run, "lower", args, 0, 0, NULL) ? mt_jchange_case(run, self, MT_J_LOWER) : NULL;
}

static struct mt_jvalue *casefold(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return mt_jpositional(run, "casefold", args, 0, 0, NULL) ? mt_jchange_case(run, self, MT_J_FOLD) : NULL;
}

static struct mt_jvalue *capitalize(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return mt_jpositional(run, "capitalize", args, 0, 0, NULL) ? mt_jcapitalize(run, self) : NULL;
}

static struct mt_jvalue *title(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jbuffer buffer = {0};
    bool in_word = false;
    if (!mt_jpositional(run, "title", args, 0, 0, NULL) || !mt_jwork_characters(run, self->text.bytes))
        return NULL;
    for (size_t i = 0, length; i < self->text.bytes; i += length) {
        uint32_t character;
        mt_jcharacter(self->text.data + i, self->text.bytes - i, &character);
        if (!put_mapped(run, &buffer, self->text, i, in_word ? MT_J_LOWER : MT_J_TITLE, &length))
            return NULL;
        in_word = is_cased(character);
    }
    return mt_jbuffer_value(run, &buffer, self->markup);
}

static struct mt_jvalue *swapcase(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jbuffer buffer = {0};
    if (!mt_jpositional(run, "swapcase", args, 0, 0, NULL) || !mt_jwork_characters(run, self->text.bytes))
        return NULL;
    for (size_t i = 0, length; i < self->text.bytes; i += length) {
        uint32_t character;
        length = mt_jcharacter(self->text.data + i, self->text.bytes - i, &character);
        if (is_cased(character) && !mt_jis_title(character)
                ? !put_mapped(run, &buffer, self->text, i, mt_jis_upper(character) ? MT_J_LOWER : MT_J_UPPER,
                              &length)
                : !mt_jput(run, &buffer, self->text.data + i, length))
            return NULL;
    }
    return mt_jbuffer_value(run, &buffer, self->markup);
}

bool mt_jall_cased(struct mt_jslice text, bool is_upper)
{
    bool any = false;
    for (size_t i = 0; i < text.bytes;) {
        uint32_t character;
        i += mt_jcharacter(text.data + i, text.bytes - i, &character);
        if (mt_jis_title(character) || (is_upper ? mt_jis_lower(character) : mt_jis_upper(character)))
            return false;
        any = any || (is_upper ? mt_jis_upper(character) : mt_jis_lower(character));
    }
    return any;
}

static struct mt_jvalue *method_islower(struct mt_jrun *run, struct mt_jvalue *self,
                                        const struct mt_jargs *args)
{
    return mt_jpositional(run, "islower", args, 0, 0, NULL) && mt_jwork_characters(run, self->text.bytes)
               ? mt_jbool(mt_jall_cased(self->text, false))
               : NULL;
}

static struct mt_jvalue *method_isupper(struct mt_jrun *run, struct mt_jvalue *self,
                                        const struct mt_jargs *args)
{
    return mt_jpositional(run, "isupper", args, 0, 0, NULL) && mt_jwork_characters(run, self->text.bytes)
               ? mt_jbool(mt_jall_cased(self->text, true))
               : NULL;
}

static struct mt_jvalue *method_istitle(struct mt_jrun *run, struct mt_jvalue *self,
                                        const struct mt_jargs *args)
{
    bool in_word = false, any = false;
    if (!mt_jpositional(run, "istitle", args, 0, 0, NULL))
        return NULL;
    for (size_t i = 0; i < self->text.bytes;) {
        uint32_t character;
        i += mt_jcharacter(self->text.data + i, self->text.bytes - i, &character);
        const bool begins = mt_jis_upper(character) || mt_jis_title(character);
        if (begins ? in_word : mt_jis_lower(character) && !in_word)
            return mt_jbool(false);
        in_word = begins || mt_jis_lower(character);
        any = any || in_word;
    }
    return mt_jbool(any);
}

/* All of one kind, and at least one. */
static struct mt_jvalue *all_are(struct mt_jrun *run, const struct mt_jvalue *self,
                                 const struct mt_jargs *args, bool (*is_kind)(uint32_t character),
                                 bool of_nothing)
{
    if (!mt_jpositional(run, "the method", args, 0, 0, NULL) || !mt_jwork_characters(run, self->text.bytes))
        return NULL;
    for (size_t i = 0; i < self->text.bytes;) {
        uint32_t character;
        i += mt_jcharacter(self->text.data + i, self->text.bytes - i, &character);
        if (!is_kind(character))
            return mt_jbool(false);
    }
    return mt_jbool(self->text.bytes || of_nothing);
}

static bool is_letter_or_numeric(uint32_t character)
{
    return mt_jis_letter(character) || mt_jis_numeric(character);
}

static bool is_ascii(uint32_t character)
{
    return character < 0x80;
}

#define KIND_METHOD(name, is_kind, of_nothing)                                                               \
    static struct mt_jvalue *method_##name(struct mt_jrun *run, struct mt_jvalue *self,                      \
                                           const struct mt_jargs *args)                                      \
    {                                                                                                        \
        return all_are(run, self, args, is_kind, of_nothing);                                                \
    }
KIND_METHOD(isalpha, mt_jis_letter, false)
KIND_METHOD(isalnum, is_letter_or_numeric, false)
KIND_METHOD(isdecimal, mt_jis_decimal, false)
KIND_METHOD(isdigit, mt_jis_digit, false)
KIND_METHOD(isnumeric, mt_jis_numeric, false)
KIND_METHOD(isspace, mt_jis_space, false)
KIND_METHOD(isprintable, mt_jis_printable, true)
KIND_METHOD(isascii, is_ascii, true)

const struct mt_jmethod_name mt_jcase_methods[] = {
    {"upper", upper},
    {"lower", lower},
    {"title", title},
    {"capitalize", capitalize},
    {"casefold", casefold},
    {"swapcase", swapcase},
    {"islower", method_islower},
    {"isupper", method_isupper},
    {"istitle", method_istitle},
    {"isalpha", method_isalpha},
    {"isalnum", method_isalnum},
    {"isdecimal", method_isdecimal},
    {"isdigit", method_isdigit},
    {"isnumeric", method_isnumeric},
    {"isspace", method_isspace},
    {"isprintable", method_isprintable},
    {"isascii", method_isascii},
    {"isidentifier", NULL},
    {NULL, NULL},
};
