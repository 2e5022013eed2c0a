#!/usr/bin/env python3
"""Encoding beside the library `tokenizers`, both on one thread, in one run: tokenizer_speed_ratio, at least 1.

The vocabularies are llama.cpp's (tests/requirements.txt), saved as the tokenizer.json that both read. The text is this
repository's: its documents and sources, and sentences of many scripts, in documents of a few kilobytes. Of each vocabulary
5 pairs of runs are taken in turn, each the second time over the same text; tokenizer_speed_ratio is that of the vocabulary
where it is smallest.
"""
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e", "support"))
import consumers
import texts

TOKENIZE = os.path.join(consumers.BUILD, "tests", "e2e", "tokenize_lines")
VOCABULARIES = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2", "starcoder": "starcoder", "llama2": "llama-spm"}
PAIRS = 5
BYTES = 3 << 19


def corpus():
    r = random.Random(1)
    data = []
    for folder, _, names in sorted(os.walk(ROOT)):
        if "/build" in folder or "/.git" in folder or "/golden" in folder:
            continue
        for name in sorted(names):
            if name.endswith((".md", ".c", ".h", ".py")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                data += [text[i:i + 4000] for i in range(0, len(text), 4000)]
    data += [" ".join(r.choice(texts.SCRIPTS) for _ in range(30)) for _ in range(len(data) // 10)]
    r.shuffle(data)
    kept, size = [], 0
    for text in data:
        if size > BYTES:
            break
        kept.append(text)
        size += len(text.encode())
    return kept, size


def ours(folder, request):
    done = subprocess.run([TOKENIZE, folder, "repeat=2"], input=request, capture_output=True, check=True)
    return float(done.stdout.split()[1])


def theirs(library, data):
    for _ in range(2):
        start = time.perf_counter()
        library.encode_batch_fast(data, add_special_tokens=False)
        seconds = time.perf_counter() - start
    return seconds


def main():
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    why = consumers.packages("tokenizers", "sentencepiece", "tiktoken", "regex")
    folder, why_not = (None, why) if why else consumers.source_files(
        "llama-cpp-python", r"/models/ggml-vocab-[^/]+\.(gguf|inp|out)$", "vocabularies")
    if why_not:
        print("bench tokenizer_speed_ratio - - >=1 skipped: " + why_not)
        return
    from tokenizers import Tokenizer
    data, size = corpus()
    encoded = [text.encode() for text in data]
    request = b"".join(b"%d\n%s" % (len(one), one) for one in encoded)
    smallest = None
    for name, vocabulary in VOCABULARIES.items():
        with tempfile.TemporaryDirectory(prefix="mt-bench-") as scratch:
            model = os.path.join(folder, f"ggml-vocab-{vocabulary}.gguf")
            subprocess.run([TOKENIZE, model, "save=" + scratch], input=b"", check=True, capture_output=True)
            library = Tokenizer.from_file(os.path.join(scratch, "tokenizer.json"))
            pairs = [(ours(scratch, request), theirs(library, data)) for _ in range(PAIRS)]
        ratio = statistics.median(their / our for our, their in pairs)
        best = min(our for our, _ in pairs)
        print(f"bench tokenizer_speed_ratio_{name} {ratio:.2f} x >=1 {'pass' if ratio >= 1 else 'fail'}"
              f"  ({size / best / 1e6:.0f} MB/s)", flush=True)
        smallest = min(ratio, smallest or ratio)
    print(f"bench tokenizer_speed_ratio {smallest:.2f} x >=1 {'pass' if smallest >= 1 else 'fail'}")


main()
