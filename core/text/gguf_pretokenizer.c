/* The ways in which byte-level vocabularies cut texts into words, by the names that GGUF files have for them.
 * Patterns are those of the models' own tokenizer.json files: each splits what the one before it left,
 * matches and what is between them becoming words. */
#include "core/text/gguf_pretokenizer.h"

#include "core/text/patterns.h"

#include <string.h>

/* Some of these letters have others that look alike: they are written as numbers. The formatter disagrees
 * with itself about how wide the others are. */
/* clang-format off */
#define DEEPSEEK_LETTERS \
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌ" \
    "Ύ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ" \
    "ἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3" \
    "ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹ" \
    "ℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗ" \
    "Ａ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
/* clang-format on */
#define BLOOM_WORDS " ?[^(\\s|.,!?…。，、।۔،)]+"

/* Kimi's letters are those of the cased words without Chinese ones. */
#define NO_HAN "(?!\\p{Han})"
#define CAPITALS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALLS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

enum {
    NFC = 1,
    IGNORE_MERGES = 2,
    ADD_BEGIN = 4,
};

#define PATTERNS 6

struct kind {
    const char *names; /* one after another, each with a blank before and behind */
    int flags;
    const char *patterns[PATTERNS];
};

static const struct kind kinds[] = {
    {" gpt-2 phi-2 jais trillion granite-docling exaone4 gigachat a.x-4.0 mellum jina-es jina-de jina-v2-es "
     "jina-v2-de "
     "jina-v1-en jina-v2-code roberta-bpe ",
     0,
     {MT_GPT2_WORDS}},
    {" olmo mpt modern-bert ", NFC, {MT_GPT2_WORDS}},
    {" starcoder refact smollm codeshell exaone minerva-7b mellum2 ", 0, {"\\p{N}", MT_GPT2_WORDS}},
    {" command-r ", NFC, {"\\p{N}", MT_GPT2_WORDS}},
    {" llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
     IGNORE_MERGES | ADD_BEGIN,
     {MT_WORDS("\\p{N}{1,3}")}},
    {" dbrx smaug-bpe chatglm-bpe ", 0, {MT_WORDS("\\p{N}{1,3}")}},
    {" glm4 glm5 ", IGNORE_MERGES, {MT_WORDS("\\p{N}{1,3}")}},
    {" qwen2 deepseek-r1-qwen megrez f2llmv2 ", NFC, {MT_WORDS("\\p{N}")}},
    {" stablelm2 hunyuan solar-open grok-2 kormo ", 0, {MT_WORDS("\\p{N}")}},
    {" laguna ", 0, {"[^\\n]+|[\\n]+", MT_WORDS("\\p{N}")}},
    {" ufakzeka ", 0, {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" MT_BLANKS}},
    {" qwen35 ",
     0,
     {MT_CONTRACTIONS
      "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" MT_BLANKS}},
    {" seed-coder ",
     0,
     {MT_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" MT_BLANKS}},
    {" bailingmoe bailingmoe2 llada-moe ",
     0,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
      "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|"
      "\\s+(?!\\S)|\\s+"}},
    {" minicpm5 ", IGNORE_MERGES, {"\\p{N}{1,3}", MT_WORDS("\\p{N}+")}},
    {" exaone-moe ",
     0,
     {MT_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "
                      "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {" jais-2 ",
     0,
     {MT_CONTRACTIONS
      "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
      "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|"
      "\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"}},
    {" tekken ", IGNORE_MERGES | ADD_BEGIN, {MT_CASED_WORDS("", "\\p{N}")}},
    {" gpt-4o llama4 kanana2 minimax-m2 talkie ", 0, {MT_CASED_WORDS(MT_CONTRACTIONS "?", "\\p{N}{1,3}")}},
    {" granite-embed-multi-97m ", IGNORE_MERGES, {MT_CASED_WORDS(MT_CONTRACTIONS "?", "\\p{N}{1,3}")}},
    {" kimi-k2 ",
     0,
     {"\\p{Han}+|[^\\r\\n\\p{L}\\p{N}]?(?:" NO_HAN CAPITALS ")*(?:" NO_HAN SMALLS ")+" MT_CONTRACTIONS
      "?|[^\\r\\n\\p{L}\\p{N}]?(?:" NO_HAN CAPITALS ")+(?:" NO_HAN SMALLS ")*" MT_CONTRACTIONS
      "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" MT_BLANKS}},
    {" tiny_aya cohere2moe ",
     0,
     {"\\d{1,3}(?=(?:\\d{3})*\\b)", MT_CASED_WORDS(MT_CONTRACTIONS "?", "\\p{N}{1,3}")}},
    {" youtu ",
     IGNORE_MERGES,
     {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
      MT_CASED_WORDS(MT_CONTRACTIONS "?", "\\p{N}")}},
    {" deepseek-llm ",
     0,
     {"[\\r\\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+",
      "\\p{N}+"}},
    {" deepseek-coder ", 0, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"}},
    {" deepseek-v3 hunyuan-dense joyai-llm hy_v4 ",
     0,
     {"\\p{N}{1,3}", MT_DEEPSEEK_EAST_ASIAN, MT_DEEPSEEK_WORDS}},
    {" spark2_5 ",
     0,
     {"\\p{N}{1,3}", MT_DEEPSEEK_EAST_ASIAN,
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
      " ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+",
      "\\p{N}"}},
    {" afmoe ",
     0,
     {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
      "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{faff}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}"
      "\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}"
      "\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+",
      MT_DEEPSEEK_WORDS}},
    /* Digits in threes from the right; no words: merges go over blanks. */
    {" superbpe ", 0, {"\\p{N}+", "\\p{N}(?:(?!(?:\\d{3})+(?!\\d))\\p{N})*"}},
    {" chameleon ",
     ADD_BEGIN,
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]",
      MT_GPT2_WORDS}},
    {" falcon ", 0, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", MT_GPT2_WORDS, "[0-9][0-9][0-9]"}},
    /* Files older than the names; llama.cpp has this for them. */
    {" default ", 0, {"[\\p{P}\\$\\+<=>\\^~\\|]+", MT_GPT2_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {" bloom poro-chat gpt3-finnish ", 0, {BLOOM_WORDS}},
    {" viking ", 0, {BLOOM_WORDS, "\\p{N}"}},
};

static bool is_named(const struct kind *kind, const char *name, size_t bytes)
{
    if (!bytes || memchr(name, ' ', bytes))
        return false;
    for (const char *found = kind->names; (found = memmem(found, strlen(found), name, bytes)); found++)
        if (found[-1] == ' ' && found[bytes] == ' ')
            return true;
    return false;
}

static json_t *split(const char *pattern)
{
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pattern, "behavior",
                     "Isolated", "invert", 0);
}

int mt_gguf_pretokenizer_find(const char *name, size_t bytes, struct mt_gguf_pretokenizer *result,
                              struct mt_error *error)
{
    *result = (struct mt_gguf_pretokenizer){0};
    const struct kind *kind = NULL;
    for (size_t i = 0; !kind && i < sizeof kinds / sizeof *kinds; i++)
        if (is_named(&kinds[i], name, bytes))
            kind = &kinds[i];
    if (!kind)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "tokenizer.ggml.pre `%.*s` is not supported yet", (int)(bytes < 64 ? bytes : 64),
                            name);
    json_t *stages = json_array();
    for (size_t i = 0; i < PATTERNS && kind->patterns[i]; i++)
        json_array_append_new(stages, split(kind->patterns[i]));
    json_array_append_new(stages, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                                            0, "trim_offsets", 1, "use_regex", 0));
    result->pre_tokenizer = json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", stages);
    if (kind->flags & NFC)
        result->normalizer = json_pack("{s:s}", "type", "NFC");
    result->ignore_merges = kind->flags & IGNORE_MERGES;
    result->add_begin = kind->flags & ADD_BEGIN;
    if (result->pre_tokenizer && (result->normalizer || !(kind->flags & NFC)))
        return 0;
    json_decref(result->pre_tokenizer);
    json_decref(result->normalizer);
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory in the tokenizer");
}
