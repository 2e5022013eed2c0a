#!/usr/bin/env python3
"""Every test that docs/pains.md names exists, and is run; and a published pain that needs a real vocabulary.
time limit: 900 s"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e", "support"))
import consumers  # noqa: E402
from megatraind import Skipped, case, run_cases  # noqa: E402
from training import MEGATRAIN  # noqa: E402


def is_run(path, name):
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            source = file.read()
    except FileNotFoundError:
        return False
    if path.endswith(".py"):
        return re.search(rf"^@case\ndef {name}\(", source, re.M)
    return re.search(rf"static void {name}\(", source) and len(re.findall(rf"\b{name}\b", source)) > 1


@case
def every_fault_has_its_tests():
    with open(os.path.join(ROOT, "docs", "pains.md"), encoding="utf-8") as file:
        rows = [line for line in file if line.startswith("|") and not line.startswith(("|---", "| fault"))]
    assert len(rows) >= 30, rows
    for row in rows:
        named = re.findall(r"`([\w./]+): (\w+)`", row)
        assert named, row
        for path, name in named:
            assert is_run(path, name), f"{path}: {name}"


@case
def the_ids_of_llama_2_are_the_published_ones():
    folder, why = consumers.source_files("llama-cpp-python", r"/models/ggml-vocab-[^/]+\.(gguf|inp|out)$", "vocabularies")
    if why:
        raise Skipped(why)
    done = subprocess.run([MEGATRAIN, "tokenize", "--model", os.path.join(folder, "ggml-vocab-llama-spm.gguf")],
                          input="This is \N{LLAMA}.cpp".encode(), capture_output=True, check=True)
    assert done.stdout.split() == b"1 910 338 29871 243 162 169 156 29889 8223".split(), done.stdout


run_cases()
