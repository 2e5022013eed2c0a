/* Patterns that many tokenizers cut words with, as their files have them. core/text/scanner.h knows some by
 * their text: who writes one down takes it from here, lest a letter more make it slow. */
#ifndef MT_TEXT_PATTERNS_H
#define MT_TEXT_PATTERNS_H

#define MT_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
/* Newlines and blanks: how most end. */
#define MT_BLANKS "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define MT_GPT2_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Letters, then digits as `digits` takes them, then signs. */
#define MT_WORDS(digits)                                                                                     \
    MT_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" MT_BLANKS

/* Words that begin with capitals and go on small, with `more` behind them. */
#define MT_CASED_WORDS(more, digits)                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" more         \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" more        \
    "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" MT_BLANKS

#define MT_DEEPSEEK_WORDS                                                                                    \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"     \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*" MT_BLANKS
#define MT_DEEPSEEK_EAST_ASIAN "[一-龥\xe3\x81\x80-ゟ゠-ヿ]+"

#endif
