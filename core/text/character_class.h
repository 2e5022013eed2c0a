/* What kinds of characters there are, as one lookup: the properties that tokenizers' patterns ask for. */
#ifndef MT_TEXT_CHARACTER_CLASS_H
#define MT_TEXT_CHARACTER_CLASS_H

#include <stddef.h>
#include <stdint.h>

enum {
    MT_CLASS_LU = 1,
    MT_CLASS_LL = 2,
    MT_CLASS_LT = 4,
    MT_CLASS_LM = 8,
    MT_CLASS_LO = 16,
    MT_CLASS_M = 32,
    MT_CLASS_N = 64,
    MT_CLASS_P = 128,
    MT_CLASS_S = 256,
    MT_CLASS_SPACE = 512,    /* Unicode's White_Space */
    MT_CLASS_NEWLINE = 1024, /* \r and \n */
    MT_CLASS_L = MT_CLASS_LU | MT_CLASS_LL | MT_CLASS_LT | MT_CLASS_LM | MT_CLASS_LO,
};

/* [0x110000]; made at the first call. The same as core/text/regex.h has for \p{...} and \s. */
const uint16_t *mt_character_classes(void);

/* The class of the character at `text`, which is UTF-8 (bytes > 0), and its length. */
static inline unsigned mt_class_at(const uint16_t *classes, const char *text, size_t *length)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) {
        *length = 1;
        return classes[at[0]];
    }
    if (at[0] < 0xe0) {
        *length = 2;
        return classes[(at[0] & 0x1fu) << 6 | (at[1] & 0x3fu)];
    }
    if (at[0] < 0xf0) {
        *length = 3;
        return classes[(at[0] & 0xfu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu)];
    }
    *length = 4;
    const uint32_t character =
        (at[0] & 7u) << 18 | (at[1] & 0x3fu) << 12 | (at[2] & 0x3fu) << 6 | (at[3] & 0x3fu);
    return character < 0x110000 ? classes[character] : 0;
}

#endif
