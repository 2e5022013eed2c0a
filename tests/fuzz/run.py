#!/usr/bin/env python3
"""Runs fuzz targets one after another, each for some seconds: from seeds that are made here, and from what earlier runs
kept. Ends with 1 when a target found an input that it could not bear; the input's path is said.

    tests/fuzz/run.py [--seconds N] PROGRAM...
"""
import argparse
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e", "support"))
BUILD = os.environ.setdefault("MT_BUILD", os.path.join(ROOT, "build", "fuzz"))
import consumers  # noqa: E402
LENGTHS = {"gguf": 70000, "sentencepiece": 40000, "parquet": 20000, "arrow": 20000, "csv": 4096, "tokenizer": 20000,
           "template": 20000}
WORDS = "the cat sat on a mat and then it ran off to see what dogs do".split()


def table(rows):
    import pyarrow
    some = [None if i % 5 == 3 else f"word {i}" for i in range(rows)]
    return pyarrow.table({
        "text": some, "number": pyarrow.array(range(rows), pyarrow.int32()), "real": [i / 3 for i in range(rows)],
        "kind": pyarrow.array([f"kind {i % 3}" for i in range(rows)]).dictionary_encode(),
        "flag": [None if i % 4 == 0 else i % 2 == 0 for i in range(rows)],
        "messages": [[{"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": None}][:i % 3] for i in range(rows)],
        "time": pyarrow.array(range(rows), pyarrow.timestamp("us", tz="UTC"))})


def seeds_parquet(folder):
    import pyarrow.parquet as parquet
    for i, packing in enumerate(["none", "snappy", "gzip", "zstd", "lz4"]):
        parquet.write_table(table(12), os.path.join(folder, packing), compression=packing, data_page_version=f"{1 + i % 2}.0",
                            use_dictionary=i % 2 == 0, row_group_size=7)
    parquet.write_table(table(9).select(["text", "number"]), os.path.join(folder, "delta"), use_dictionary=False,
                        column_encoding={"text": "DELTA_BYTE_ARRAY", "number": "DELTA_BINARY_PACKED"})


def seeds_arrow(folder):
    import pyarrow
    for packing in (None, "lz4", "zstd"):
        options = pyarrow.ipc.IpcWriteOptions(compression=packing)
        for kind, new in (("file", pyarrow.ipc.new_file), ("stream", pyarrow.ipc.new_stream)):
            with new(os.path.join(folder, f"{kind}-{packing}"), table(12).schema, options=options) as writer:
                writer.write_table(table(12), max_chunksize=7)


def seeds_csv(folder):
    rows = ['a,b,c\n1,"two, or ""2""",\n', 'text\r\n"one\r\ntwo"\r\n\r\nthree', "\ufeffa,b\nx,y\n", 'a,b\n1\n1,2,3\n', '"a\n']
    for i, text in enumerate(rows):
        with open(os.path.join(folder, str(i)), "w", newline="", encoding="utf-8") as file:
            file.write(text)


def seeds_gguf(folder):
    for path in glob.glob(os.path.join(ROOT, "tests", "golden", "gguf", "*.gguf")):
        if os.path.getsize(path) <= LENGTHS["gguf"]:
            shutil.copy(path, folder)


def seeds_sentencepiece(folder):
    import sentencepiece
    chooser = random.Random(1)
    lines = [" ".join(chooser.choice(WORDS) for _ in range(8)) for _ in range(200)]
    for kind in ("unigram", "bpe"):
        for i, options in enumerate([{}, {"byte_fallback": True, "normalization_rule_name": "identity"}]):
            with open(os.path.join(folder, f"{kind}-{i}"), "wb") as file:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(lines), model_writer=file, model_type=kind, hard_vocab_limit=False, minloglevel=2,
                    vocab_size=340 if options else 60, user_defined_symbols=["<mark>"], **options)


def seeds_tokenizer(folder):
    for path in glob.glob(os.path.join(ROOT, "tests", "unit", "text", "tokenizers", "*", "tokenizer.json")):
        shutil.copy(path, os.path.join(folder, os.path.basename(os.path.dirname(path))))


def seeds_template(folder):
    with open(os.path.join(ROOT, "tests", "golden", "jinja", "cases.json"), encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    for i, case in enumerate(cases):
        with open(os.path.join(folder, str(i)), "w", encoding="utf-8") as file:
            file.write(case["template"])


def make_seeds(kind, folder):
    needed = {"parquet": "pyarrow", "arrow": "pyarrow", "sentencepiece": "sentencepiece"}.get(kind)
    why = consumers.packages(needed) if needed else None
    if why:
        return print(f"  NOTE    no seeds for {kind}: {why}")
    os.makedirs(folder)
    globals()["seeds_" + kind](folder)


def run(program, seconds):
    kind = os.path.basename(program)[len("fuzz_"):]
    seeds, kept, found = (os.path.join(BUILD, name, kind) for name in ("seeds", "corpus", "found"))
    if not os.path.isdir(seeds):
        make_seeds(kind, seeds)
    os.makedirs(kept, exist_ok=True)
    os.makedirs(found, exist_ok=True)
    done = subprocess.run([program, f"-max_total_time={seconds}", f"-max_len={LENGTHS[kind]}", "-timeout=20", "-rss_limit_mb=3000",
                           "-malloc_limit_mb=1500", f"-artifact_prefix={found}/", "-print_final_stats=1", "-verbosity=1", kept,
                           *([seeds] if os.path.isdir(seeds) else [])], capture_output=True, text=True, errors="replace")
    if done.returncode:
        print(done.stderr[-6000:])
        print(f"not ok {kind}: an input is in {found}")
        return False
    count = re.search(r"stat::number_of_executed_units: *(\d+)", done.stderr)
    cover = re.findall(r"cov: (\d+)", done.stderr)
    print(f"ok {kind}: {count.group(1) if count else '?'} inputs, {cover[-1] if cover else '?'} edges", flush=True)
    return True


parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=int, default=30)
parser.add_argument("programs", nargs="+")
arguments = parser.parse_args()
sys.exit(0 if all([run(program, arguments.seconds) for program in arguments.programs]) else 1)
