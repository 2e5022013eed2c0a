#!/usr/bin/env python3
"""Each way of cutting words that llama.cpp names (tokenizer.ggml.pre) gives the ids of `tokenizers` with its patterns.   (time limit: 900 s)

The names and patterns are read from llama.cpp's source, in the package of llama-cpp-python that tests/requirements.txt
pins. Where llama.cpp has code or a simpler pattern instead, the model's own tokenizer.json is what counts: INSTEAD.
Vocabulary and merges are those of tests/unit/text/tokenizers/gpt2 (gemma where blanks are marks), written into a GGUF file of no tensors.
"""
import ast
import json
import os
import random
import re
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import consumers
import texts

KINDS = os.path.join(consumers.ROOT, "tests", "unit", "text", "tokenizers")
COUNT = int(os.environ.get("MT_TOKENIZER_TEXTS", "400"))

REFUSED = {"whitespace"}  # no words of bytes; of a model of embeddings
MARKED = {"gemma4", "sarvam-moe", "granite-embed-multi-311m"}  # SentencePiece's marks, and no words
NFC = {"olmo", "mpt", "modern-bert", "command-r", "qwen2", "deepseek-r1-qwen", "megrez", "f2llmv2"}
IGNORE_MERGES = {"minicpm5", "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                 "jina-v5-nano", "youtu", "glm4", "glm5", "tekken", "granite-embed-multi-97m"}
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"


def cased(more, digits, signs, but=""):
    return (rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}{but}]*[{LOWER}{but}]+{more}|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}{but}]+[{LOWER}{but}]*{more}"
            rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+{signs}|\s*[\r\n]+|\s+(?!\S)|\s+")


INSTEAD = {
    "TEKKEN": [cased("", r"\p{N}", r"[\r\n/]*")],
    "GPT4O": [cased(SHORT + "?", r"\p{N}{1,3}", r"[\r\n/]*")],
    "MINIMAX_M2": [cased(SHORT + "?", r"\p{N}{1,3}", r"[\r\n/]*")],
    "GRANITE_EMB_MULTI": [cased(SHORT + "?", r"\p{N}{1,3}", r"[\r\n/]*")],
    "KIMI_K2": [r"\p{Han}+|" + cased(SHORT + "?", r"\p{N}{1,3}", r"[\r\n]*", r"&&[^\p{Han}]")],
    "BAILINGMOE": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
}


def patterns_of(source):
    """Lists of patterns by name."""
    cases, names, waiting = {}, {}, []
    body = source[source.index("struct llm_tokenizer_bpe : "):source.index("struct llm_tokenizer_bpe_session")]
    for line in body.split("\n"):
        if found := re.match(r"\s*case LLAMA_VOCAB_PRE_TYPE_(\w+):", line):
            waiting.append(found[1])
        elif "default:" in line:
            waiting.append("DEFAULT")
        elif found := re.match(r"""\s*("(?:[^"\\]|\\.)*")\s*,""", line):
            for kind in waiting:
                cases.setdefault(kind, []).append(ast.literal_eval(found[1]))
        elif "break;" in line:
            waiting = []
    for given, kind in re.findall(r"else if \(((?:\s*tokenizer_pre == \"[^\"]+\"\s*(?:\|\|)?)+)\) \{\s*pre_type = LLAMA_VOCAB_PRE_TYPE_(\w+);", source):
        for name in re.findall(r'"([^"]+)"', given):
            names[name] = INSTEAD.get(kind, cases[kind if kind in cases else "DEFAULT"])
    names["afmoe"] = [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", *names["afmoe"][1:]]
    return names


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def array(values):
    return struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values))


def write_file(path, pre, vocab, merges):
    types = [6 if re.fullmatch("<0x..>", one) else 1 for one in sorted(vocab, key=vocab.get)]
    keys = [("general.architecture", 8, text("llama")), ("tokenizer.ggml.model", 8, text("gpt2")), ("tokenizer.ggml.pre", 8, text(pre)),
            ("tokenizer.ggml.tokens", 9, array(sorted(vocab, key=vocab.get))),
            ("tokenizer.ggml.token_type", 9, struct.pack(f"<IQ{len(types)}i", 5, len(types), *types)),
            ("tokenizer.ggml.merges", 9, array([one if isinstance(one, str) else " ".join(one) for one in merges]))]
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)))
        for key, kind, value in keys:
            file.write(text(key) + struct.pack("<I", kind) + value)


def library(model, name, patterns):
    from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
    from tokenizers.models import BPE
    made = Tokenizer(BPE(model["vocab"], [tuple(one.split(" ")) if isinstance(one, str) else tuple(one) for one in model["merges"]],
                         ignore_merges=name in IGNORE_MERGES, byte_fallback=name in MARKED))
    if name in MARKED:
        made.normalizer = normalizers.Replace(" ", "▁")
        return made
    made.pre_tokenizer = pre_tokenizers.Sequence([*(pre_tokenizers.Split(Regex(one), "isolated") for one in patterns),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if name in NFC:
        made.normalizer = normalizers.NFC()
    return made


NUMBERS = ["1234567", " 12,345.6789", "½1234", "x12345678901234", "٣٤٥٦٧٨٩", "<sentinel:12>", "IMGIMGABCZ", "中文English混ä", "it's I'LL 'S"]


def check(path, model, name, patterns):
    write_file(path, name, model["vocab"], model["merges"])
    r = random.Random(name)
    data = [one.encode() for one in NUMBERS] + [texts.random_text(r, NUMBERS).encode() for _ in range(COUNT)]
    done = consumers.tokenize_lines(path, data)
    if done.returncode:
        return done.stderr.decode(errors="replace").strip()
    for one, line, ids in zip(data, done.stdout.decode().split("\n"), library(model, name, patterns).encode_batch([one.decode() for one in data])):
        if line != " ".join(map(str, ids.ids)):
            return f"{one!r} gives {line} instead of {ids.ids}"
    return None


def main():
    why = consumers.packages("tokenizers")
    folder, missing = consumers.source_files("llama-cpp-python", r"/src/llama-vocab\.cpp$", "vocabulary-source")
    if why or missing:
        print("skip pre-tokenizers of GGUF files: " + (why or missing))
        return
    with open(os.path.join(folder, "llama-vocab.cpp"), encoding="utf-8") as file:
        names = patterns_of(file.read())
    models = {}
    for kind in ("gpt2", "gemma"):
        with open(os.path.join(KINDS, kind, "tokenizer.json"), encoding="utf-8") as file:
            models[kind] = json.load(file)["model"]
    if len(names) < 90:
        print(f"not ok names: only {len(names)} were found")
    with tempfile.TemporaryDirectory(prefix="mt-pre-") as scratch:
        path = os.path.join(scratch, "model.gguf")
        for name in sorted([*names, "no-such"]):
            model = models["gemma" if name in MARKED else "gpt2"]
            if name in REFUSED or name == "no-such":
                write_file(path, name, model["vocab"], model["merges"])
                done = consumers.tokenize_lines(path, [b"text"])
                why = None if done.returncode and f"`{name}` is not supported" in done.stderr.decode() else done.stderr.decode()
                print(f"not ok {name} is refused by name: {why}" if why else f"ok {name} is refused by name")
            else:
                why = check(path, model, name, names[name])
                print(f"not ok {COUNT} texts, {name}: {why}" if why else f"ok {COUNT} texts, {name}", flush=True)


main()
