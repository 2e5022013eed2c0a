#!/usr/bin/env python3
"""Training on data that outgrows memory, and on mixtures: kept samples, kills, files that change in between.
time limit: 300 s"""
import gzip
import json
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import case, equal, run_cases  # noqa: E402
from training import Folder, rows, same_runs, saved, text, tiny, write_documents, write_rows  # noqa: E402


def cached(folder, where="cache"):
    return {"env": {**os.environ, "MEGATRAIN_CACHE_DIR": folder / where}}


def entries(folder, where="cache"):
    place = folder / where
    return sorted(os.listdir(place)) if os.path.isdir(place) else []


def write_large(path):
    """More than four million tokens: 16 MiB of them, which no array keeps in memory."""
    words = text(20000, 3).split()
    chooser = random.Random(4)
    with open(path, "w") as file:
        for i in range(9000):
            begin = chooser.randrange(15000)
            file.write(json.dumps({"text": f"{i} " + " ".join(words[begin:begin + 220])}) + "\n")
    return path


@case
def data_that_outgrows_memory_is_kept_and_gives_the_same_run():
    with Folder() as folder:
        document = tiny(write_large(folder / "large.jsonl"), steps=6)
        document["dataset"].update(max_seq_len=256, packing=True, val_size=2)
        folder.train(document, "first", **cached(folder))
        equal((len(entries(folder)), len(entries(folder)[0])), (1, 64))
        ids = os.path.join(folder / "cache", entries(folder)[0], "ids")
        kept = os.stat(ids)
        folder.train(document, "second", **cached(folder))
        equal((os.stat(ids).st_ino, os.stat(ids).st_mtime_ns), (kept.st_ino, kept.st_mtime_ns))  # read, not made again
        equal(len(entries(folder)), 1)
        same_runs(folder / "second", folder / "first")
        with open(ids, "rb") as file:
            whole = file.read()
        with open(ids, "r+b") as file:  # spoilt: made anew, not believed
            file.seek(1000000)
            file.write(b"\xff\xff\xff\x7f")
        folder.train(document, "third", **cached(folder))
        same_runs(folder / "third", folder / "first")
        with open(ids, "rb") as file:
            assert file.read() == whole


@case
def a_kept_file_that_is_cut_during_a_run_ends_it_with_a_reason_and_a_resume_gives_the_same_run():
    with Folder() as folder:
        document = tiny(write_large(folder / "large.jsonl"), steps=60)
        document["dataset"].update(max_seq_len=64, packing=True)
        folder.train(document, "whole", **cached(folder))
        [name] = entries(folder)
        for file in ("ids", "ranges"):
            run = f"cut-{file}"
            process = folder.start("train", folder.job(document), "--output-dir", run, "--quiet", **cached(folder))
            until = time.monotonic() + 60
            while process.poll() is None and len(rows(folder / run)) < 3 and time.monotonic() < until:
                time.sleep(0.002)
            with open(os.path.join(folder / "cache", name, file), "r+b") as kept:
                kept.truncate(1000)
            said = process.communicate(timeout=60)
            equal(process.returncode, 74)
            assert f"{name}/{file}" in str(said) and "changed by another program" in str(said), said
            folder.run("train", folder.job(document), "--output-dir", run, "--quiet", "--resume", **cached(folder))
            same_runs(folder / run, folder / "whole")


@case
def what_stands_in_the_place_of_a_kept_file_is_neither_waited_for_nor_believed():
    with Folder() as folder:
        document = tiny(write_large(folder / "large.jsonl"), steps=1)
        document["dataset"].update(max_seq_len=256, val_size=2)
        folder.train(document, "first", **cached(folder))
        [name] = entries(folder)
        for file in ("ids", "index"):
            path = os.path.join(folder / "cache", name, file)
            for make in (os.mkfifo, lambda link: os.symlink("/dev/zero", link)):
                os.unlink(path)
                make(path)
                run = f"after-{file}-{make.__name__.strip('<>')}"
                folder.train(document, run, **cached(folder))
                same_runs(folder / run, folder / "first")
                assert os.path.isfile(path) and not os.path.islink(path)


@case
def a_limit_on_the_size_of_files_is_an_error_that_leaves_nothing():
    with Folder() as folder:
        document = tiny(write_large(folder / "large.jsonl"), steps=1)
        limited = ["bash", "-c", 'ulimit -f 10000; exec "$@"', "limited"]
        folder.run("train", folder.job(document), "--output-dir", "run", code=74, prefix=limited,
                   says=["File too large", "MEGATRAIN_CACHE_DIR"], **cached(folder))
        equal(entries(folder), [])


@case
def small_data_leaves_nothing_in_the_cache():
    with Folder() as folder:
        folder.train(tiny(write_documents(folder / "d.jsonl", 20), steps=2), "run", **cached(folder))
        equal(entries(folder), [])


def mixture(folder, steps):
    write_documents(folder / "a.jsonl", 40)
    write_rows(folder / "b.jsonl", [{"instruction": f"Say {i}.", "output": f"It is {i}."} for i in range(9)])
    with gzip.open(folder / "c.csv.gz", "wt", newline="") as file:
        file.write("instruction,input,output\r\n" + "".join(f'"Ask, {i}",,"He said ""{i}"""\r\n' for i in range(15)))
    document = tiny("unused", steps=steps)
    document["dataset"] = {
        "max_seq_len": 256, "packing": False, "val_size": 0.1, "group_by_length": True,
        "mix": [{"path": "a.jsonl", "weight": 2}, {"path": ["b.jsonl"]}, {"path": "c.csv.gz", "weight": 0.5}]}
    document["training"]["gradient_accumulation_steps"] = 2
    return document


def resume(run):
    return ["--resume"] if saved(run) or rows(run) else []


@case
def a_mixture_that_is_killed_anywhere_ends_with_the_undisturbed_bits():
    with Folder() as folder:
        document = mixture(folder, 40)
        folder.train(document, "whole")
        chooser = random.Random(7)
        job = folder.job(document)
        for _ in range(6):
            process = folder.start("train", job, "--output-dir", "killed", "--quiet",
                                   *resume(folder / "killed"))
            wanted = len(rows(folder / "killed")) + chooser.randrange(1, 8)
            until = time.monotonic() + 30
            while process.poll() is None and len(rows(folder / "killed")) < wanted and time.monotonic() < until:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        folder.run("train", job, "--output-dir", "killed", "--quiet",
                   *resume(folder / "killed"))
        same_runs(folder / "killed", folder / "whole")


@case
def a_file_that_changed_between_two_runs_is_named_as_the_reason():
    with Folder() as folder:
        document = mixture(folder, 6)
        folder.train(document, "run")
        job = folder.job(document)
        with open(folder / "b.jsonl", "a") as file:
            file.write('{"instruction": "One", "output": "more"}\n')
        folder.run("train", job, "--output-dir", "run", "--resume", "--set", "training.max_steps=9", code=65,
                   says=["made with other data", "start a new job from its weights"])


@case
def what_is_wrong_with_a_part_of_a_mixture_names_the_part():
    with Folder() as folder:
        document = mixture(folder, 2)
        folder.write("b.jsonl", '{"instruction": "x"}\n')
        folder.train(document, "run", code=65, says=["b.jsonl", "output"])
        folder.write("b.jsonl", "")
        document["dataset"]["mix"][1]["path"] = "nowhere.jsonl"
        folder.train(document, "run", code=65, says=["dataset/mix/1/path", "nowhere.jsonl"])


if __name__ == "__main__":
    run_cases()
