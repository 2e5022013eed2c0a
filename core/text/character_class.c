#include "core/text/character_class.h"

#include "core/text/regex_dialect.h"
#include "core/text/unicode.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define CHARACTERS 0x110000

static uint16_t table[CHARACTERS];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static uint16_t class_of(utf8proc_category_t category)
{
    switch (category) {
    case UTF8PROC_CATEGORY_LU:
        return MT_CLASS_LU;
    case UTF8PROC_CATEGORY_LL:
        return MT_CLASS_LL;
    case UTF8PROC_CATEGORY_LT:
        return MT_CLASS_LT;
    case UTF8PROC_CATEGORY_LM:
        return MT_CLASS_LM;
    case UTF8PROC_CATEGORY_LO:
        return MT_CLASS_LO;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return MT_CLASS_M;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return MT_CLASS_N;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return MT_CLASS_P;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
        return MT_CLASS_S;
    default:
        return 0;
    }
}

/* Ranges as a pattern has them: "\x{1c89}-\x{1c8a}\x{2b739}". */
static void set_ranges(const char *ranges, uint16_t class)
{
    while (*ranges) {
        char *end;
        const unsigned long first = strtoul(ranges + 3, &end, 16);
        unsigned long last = first;
        ranges = end + 1;
        if (*ranges == '-') {
            last = strtoul(ranges + 4, &end, 16);
            ranges = end + 1;
        }
        for (unsigned long c = first; c <= last && c < CHARACTERS; c++)
            table[c] = class;
    }
}

static void make(void)
{
    static const struct {
        const char *name;
        uint16_t class;
    } newer[] = {{"Lu", MT_CLASS_LU}, {"Ll", MT_CLASS_LL}, {"Lm", MT_CLASS_LM}, {"Lo", MT_CLASS_LO},
                 {"M", MT_CLASS_M},   {"N", MT_CLASS_N},   {"P", MT_CLASS_P},   {"S", MT_CLASS_S}};
    for (utf8proc_int32_t c = 0; c < CHARACTERS; c++)
        table[c] = class_of(utf8proc_category(c));
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
        set_ranges(mt_regex_newer_ranges(newer[i].name), newer[i].class);
    for (uint32_t c = 0; c <= 0x3000; c++)
        if (mt_is_white_space(c))
            table[c] |= MT_CLASS_SPACE;
    table['\r'] |= MT_CLASS_NEWLINE;
    table['\n'] |= MT_CLASS_NEWLINE;
}

const uint16_t *mt_character_classes(void)
{
    pthread_once(&made, make);
    return table;
}
