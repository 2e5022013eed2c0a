#!/usr/bin/env python3
"""Vocabularies of GGUF files give the ids that llama.cpp's own test vectors have.   (time limit: 900 s)

The vocabularies and their vectors come with the source package of llama-cpp-python that tests/requirements.txt
pins; it is fetched once with pip into <build>/consumers.
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import consumers
from consumers import report, tokenize_lines as tokenize

# Kinds of other models than language models; refused by name.
REFUSED = {"bert-bge": "bert", "nomic-bert-moe": "t5"}


def check_vectors(model):
    with open(model + ".inp", "rb") as file:
        texts = file.read().split(b"\n__ggml_vocab_test__\n")
    with open(model + ".out", encoding="utf-8") as file:
        wanted = [line.split() for line in file.read().split("\n")]
    done = tokenize(model, texts)
    if done.returncode:
        return done.stderr.decode(errors="replace").strip()
    got = [line.split() for line in done.stdout.decode().split("\n")]
    if len(texts) < 40:
        return f"only {len(texts)} texts"
    for text, ids, expected in zip(texts, got, wanted):
        if ids != expected:
            return f"{text!r} gives {ids} instead of {expected}"
    return None


def check_decoding(model):
    """Ids decode to the text they were made of; SentencePiece and BPE lose nothing but ill-formed bytes."""
    texts = ["Hello  world\n\n\tit's 1234 ½ \u00e4\u00e9 日本 🦙👩\u200d👧 \u0639\u0631", " leading", "trailing ", "\n", "a\u0001b"]
    done = tokenize(model, [text.encode() for text in texts], "decode")
    out = done.stdout
    for text in texts:
        length, out = out.split(b"\n", 1)
        got, out = out[:int(length)], out[int(length) + 1:]
        if got.decode(errors="replace") != text:
            return f"{text!r} comes back as {got!r}"
    return None


def check_saved(model):
    """What a checkpoint carries is the same tokenizer."""
    texts = [b"Hello  world\n\n\tit's 1234 " + "½ äö 日本 🦙👩\u200d👧 عر".encode(), b" x<s>y </s> z"]
    direct = tokenize(model, texts, "special")
    with tempfile.TemporaryDirectory(prefix="mt-gguf-") as folder:
        done = tokenize(model, texts, "special", "save=" + folder)
        again = tokenize(folder, texts, "special")
        if done.returncode or again.returncode:
            return (done.stderr + again.stderr).decode(errors="replace").strip()
        if again.stdout != direct.stdout:
            return f"{again.stdout!r} instead of {direct.stdout!r}"
    return None


def main():
    folder, why = consumers.source_files("llama-cpp-python", r"/models/ggml-vocab-[^/]+\.(gguf|inp|out)$", "vocabularies")
    if why:
        print("skip vocabularies of GGUF files: " + why)
        return
    names = sorted(name[len("ggml-vocab-"):-len(".gguf")] for name in os.listdir(folder) if name.endswith(".gguf"))
    if len(names) < 19:
        print(f"not ok vocabularies: only {len(names)} are there")
    for name in names:
        model = os.path.join(folder, f"ggml-vocab-{name}.gguf")
        if name in REFUSED:
            done = tokenize(model, [b"text"])
            refused = done.returncode != 0 and f"`{REFUSED[name]}` is not supported" in done.stderr.decode()
            report(f"{name} is refused by name", None if refused else done.stderr.decode())
            continue
        if os.path.exists(model + ".inp"):
            report(f"{name}: llama.cpp's vectors", check_vectors(model))
        report(f"{name}: decoding gives the text back", check_decoding(model))
        report(f"{name}: as a checkpoint carries it", check_saved(model))


main()
