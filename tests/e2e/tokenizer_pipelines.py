#!/usr/bin/env python3
"""The ways in which today's models cut, change and decode texts give what `tokenizers` gives.   (time limit: 900 s)

Each is the normalizer, pre-tokenizer, decoder and post-processor of a published tokenizer.json, over one of the small
vocabularies of tests/unit/text. Ids and decoded texts of random texts are compared, then single patterns: what each finds.
The library is the one that tests/requirements.txt pins.
"""
import json
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import consumers
from consumers import report
import texts

KINDS = os.path.join(consumers.ROOT, "tests", "unit", "text", "tokenizers")
COUNT = int(os.environ.get("MT_TOKENIZER_TEXTS", "500"))
ADDED = ["<|begin|>", "<|end|>", "<think>", "<|im_start|>user"]

SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
BLANKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
LLAMA3 = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + BLANKS
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + BLANKS


def cased(more, digits, but="", signs=r"[\r\n/]*"):
    return (rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}{but}]*[{LOWER}{but}]+{more}|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}{but}]+[{LOWER}{but}]*{more}"
            rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+{signs}{BLANKS}")


O200K = cased(SHORT + "?", r"\p{N}{1,3}")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + BLANKS)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def sequence(kind, parts):
    return {"type": "Sequence", kind: parts}


def cut(*stages, regex=False):
    """Stages before a ByteLevel."""
    return sequence("pretokenizers", [*stages, byte_level(regex=regex)])


def digits(single):
    return {"type": "Digits", "individual_digits": single}


def marks(strip=0):
    """What most SentencePiece models decode with."""
    parts = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    return sequence("decoders", parts + ([{"type": "Strip", "content": " ", "start": strip, "stop": 0}] if strip else []))


def metaspace(scheme, whole=False):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": not whole}


BLANK_TO_MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
NFC, LOWERCASE = {"type": "NFC"}, {"type": "Lowercase"}
BYTES = byte_level(True, True)
# A vocabulary whose tokens say where a word ends.
SIGNS = [chr(c) for c in range(33, 127)]
ENDS = ["<unk>", *SIGNS, *(sign + "</w>" for sign in SIGNS), "th", "the</w>", "in", "ou</w>"]
WORD_ENDS = {"vocab": {text: i for i, text in enumerate(ENDS)}, "merges": ["t h", "th e</w>", "i n", "o u</w>"], "byte_fallback": False,
             "end_of_word_suffix": "</w>"}
# name: vocabulary, normalizer, pre-tokenizer, decoder, changes of the model
PIPELINES = {
    "bloom": ("gpt2", None, cut(split(BLOOM)), BYTES, {}),
    "viking": ("gpt2", NFC, cut(split(BLOOM), split(r"\p{N}")), BYTES, {}),
    "falcon": ("gpt2", None, sequence("pretokenizers", [
        {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(regex=True), digits(False), split("[0-9][0-9][0-9]")]), BYTES, {}),
    "llama 3, smollm3": ("gpt2", None, cut(split(LLAMA3)), BYTES, {"ignore_merges": True}),
    "llama 4, gpt-oss": ("gpt2", None, cut(split(O200K)), BYTES, {}),
    "phi-4": ("gpt2", None, cut(split(LLAMA3, "Removed", True)), BYTES, {}),
    "phi-4-mini": ("gpt2", None, cut(split(O200K, "Removed", True)), BYTES, {}),
    "cl100k": ("gpt2", None, cut(split(CL100K, "Removed", True)), BYTES, {}),
    "qwen 3": ("gpt2", NFC, cut(split(QWEN2)), BYTES, {}),
    "qwen 3.5": ("gpt2", NFC, cut(split(QWEN35)), BYTES, {}),
    "deepseek-v3, hunyuan": ("gpt2", sequence("normalizers", []), cut(
        split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK)), BYTES, {}),
    "deepseek-coder": ("gpt2", sequence("normalizers", []), cut(
        split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"), digits(True)), BYTES, {}),
    "kimi-k2": ("gpt2", None, cut(split(r"[\p{Han}]+|" + cased(SHORT + "?", r"\p{N}{1,3}", r"&&[^\p{Han}]", r"[\r\n]*"))), BYTES, {}),
    "tekken": ("gpt2", None, cut(split(cased("", r"\p{N}"))), BYTES, {"ignore_merges": True}),
    "command-a": ("gpt2", NFC, cut(digits(True), regex=True), BYTES, {}),
    "tiny aya": ("gpt2", NFC, cut(split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(O200K)), BYTES, {}),
    "granite 3, starcoder": ("gpt2", None, cut(digits(True), regex=True), BYTES, {}),
    "afmoe": ("gpt2", None, cut(split(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))"), split(DEEPSEEK)), BYTES, {}),
    "superbpe": ("gpt2", None, cut(split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))")), BYTES, {}),
    "olmo": ("gpt2", NFC, byte_level(regex=True), BYTES, {}),
    "opt": ("gpt2", None, byte_level(regex=True), BYTES, {}),
    "jais 2": ("gpt2", None, cut(split(SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                                       r"\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}")), BYTES, {}),
    "gemma 3": ("gemma", BLANK_TO_MARK, split(" ", "MergedWithPrevious"), marks(), {"ignore_merges": False}),
    "gemma 4": ("gemma", BLANK_TO_MARK, None, marks(), {}),
    "ernie 4.5, minicpm": ("llama2", BLANK_TO_MARK, None, marks(), {}),
    "llama 2": ("llama2", sequence("normalizers", [{"type": "Prepend", "prepend": "▁"}, BLANK_TO_MARK]), None, marks(1), {}),
    "mistral": ("mistral", None, metaspace("first", True), marks(1), {}),
    "xglm": ("unigram", sequence("normalizers", [{"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]),
             sequence("pretokenizers", [{"type": "WhitespaceSplit"}, metaspace("always")]), metaspace("always"), {}),
    "helium": ("unigram_bytes", sequence("normalizers", [{"type": "Prepend", "prepend": " "}, BLANK_TO_MARK]), None, marks(1), {}),
    "openai-gpt": ("llama2", {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
                   {"type": "BertPreTokenizer"}, {"type": "BPEDecoder", "suffix": "</w>"}, WORD_ENDS),
    "bert's normalizer": ("gpt2", {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": False,
                                   "lowercase": False}, byte_level(), BYTES, {}),
    "words": ("llama2", LOWERCASE, {"type": "Whitespace"}, None, {}),
}
# Each alone, as the pattern of a normalizer: every match becomes a sign.
PATTERNS = [
    BLOOM, CL100K, r"[\p{Lu}\p{Lo}\p{M}&&[^\p{Han}]]+", r"[^\p{L}&&[a-m]]+", r"[a-z&&[^aeiou]]+|[A-Z[0-9]]{2}+x?", r"[^[^a-c]&&[b-d]]+",
    r"[a-c&&b-d&&[^c]]", r"[^\S\r\n]+", r"[\W_]+", r"[^\W\d_]+", r"[\P{L}]+", r"[^\P{L}]+", r"\p{^L}+", r"[\p{^L}x]+", r"\w+", r"[\w]+",
    r"\W", r"[^\w]", r"a\b", r"\h+", r"[\H\n]{2}", r"\pL+", r"[\PL]+", r"[\w-]+", r"[-a]+", r"[a-]+", r"[^^]+", r"[..=]", r"[&a]+",
    r"\p{N}{1,3}+", r"\p{N}{2}?x", r"a{,2}b", r"x{2,3}*y", r"(?:ab){2}+", r"(?:\p{Nd}{3})+", r"\u4e00|\u0041", r"[\u0041-\u005a]+", r"\v",
    r"(?m:a.b)", r"(?i:ABC[x-z&&[^y]])", r"[[:digit:][a-c]]+", r"[[:^word:]x]+", r"[^[:space:]]+", r"\{a\}", r"{", r"[é-ü]+", r"[\t-\r]",
]


def model_of(kind):
    with open(os.path.join(KINDS, kind, "tokenizer.json"), encoding="utf-8") as file:
        return json.load(file)["model"]


def document(model, normalizer, pre_tokenizer, decoder, changes):
    model = {**model, **changes}
    size = len(model["vocab"])
    added = [{"id": size + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": i == 2,
              "special": i != 2} for i, text in enumerate(ADDED[:3])]
    around = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": ADDED[0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
              "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
              "special_tokens": {ADDED[0]: {"id": ADDED[0], "ids": [size], "tokens": [ADDED[0]]}}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": around, "decoder": decoder, "model": model}


def compare(folder, whole, data, written=True):
    """Nothing, or where a text has other ids, or ids another text. Not `written`: the folder has other files for it."""
    from tokenizers import Tokenizer
    library = Tokenizer.from_str(json.dumps(whole))
    if written:
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(whole, file)
    done, back = consumers.tokenize_lines(folder, data, "special"), consumers.tokenize_lines(folder, data, "special", "decode").stdout
    if done.returncode:
        return done.stderr.decode(errors="replace").strip()
    for one, line in zip(data, done.stdout.decode().split("\n")):
        ids = library.encode(one.decode()).ids
        if line != " ".join(map(str, ids)):
            return f"{one.decode()!r} gives {line} instead of {ids}"
        length, back = back.split(b"\n", 1)
        text, back = back[:int(length)].decode(errors="replace"), back[int(length) + 1:]
        if text != library.decode(ids, skip_special_tokens=False):
            return f"{ids} gives {text!r} instead of {library.decode(ids, skip_special_tokens=False)!r}"
    return None


def check_merges(folder):
    """A folder of vocab.json and merges.txt, as OPT's are, is what a tokenizer.json of its parts would be."""
    os.remove(os.path.join(folder, "tokenizer.json"))
    model = model_of("gpt2")
    vocab = {**model["vocab"], "</s>": len(model["vocab"]), "<pad>": len(model["vocab"]) + 1}
    files = {"vocab.json": json.dumps(vocab), "merges.txt": "#version: 0.2\n" + "\n".join(map(" ".join, model["merges"])) + "\n",
             "tokenizer_config.json": json.dumps({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": "</s>",
                                                  "eos_token": "</s>", "unk_token": "</s>", "pad_token": {"content": "<pad>"}})}
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    whole = document({**model, "vocab": vocab}, None, byte_level(regex=True), BYTES, {})
    whole["added_tokens"] = [{**one, "content": text, "id": vocab[text], "normalized": False, "special": True}
                             for one, text in zip(whole["added_tokens"], ["</s>", "<pad>"])]
    around = {"id": "</s>", "type_id": 0}
    whole["post_processor"]["single"][0]["SpecialToken"] = around
    whole["post_processor"]["special_tokens"] = {"</s>": {"id": "</s>", "ids": [vocab["</s>"]], "tokens": ["</s>"]}}
    r = random.Random("merges")
    return compare(folder, whole, [texts.random_text(r, ["</s>", "<pad>"]).encode() for _ in range(COUNT)], written=False)


def main():
    why = consumers.packages("tokenizers")
    if why:
        print("skip tokenizer pipelines: " + why)
        return
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory(prefix="mt-pipelines-") as folder:
        for name, (kind, *parts) in PIPELINES.items():
            r = random.Random(name)
            data = [texts.random_text(r, ADDED).encode() for _ in range(COUNT)]
            report(f"{COUNT} texts, {name}", compare(folder, document(model_of(kind), *parts), data))
        failed = []
        model = {**model_of("gpt2"), "merges": []}
        for pattern in PATTERNS:
            r = random.Random(pattern)
            data = [texts.random_text(r).encode() for _ in range(min(COUNT, 60))]
            data += [b"{a{x} \xc2\xbda\xc2\xb2 a a", b"axx xxxx y xxxxy", b"12345678x 1,234 abb bb", b"a\nb aXb", b"IT'S don't ABCz 3x2 ^^ ]pL="]
            found = {"type": "Replace", "pattern": {"Regex": pattern}, "content": "#"}
            why = compare(folder, document(model, found, cut(), BYTES, {}), data)
            failed += [f"{pattern}: {why}"] if why else []
        report(f"{len(PATTERNS)} patterns", "; ".join(failed))
        report(f"{COUNT} texts, vocab.json and merges.txt", check_merges(folder))


main()
