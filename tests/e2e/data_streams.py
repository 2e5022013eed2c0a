#!/usr/bin/env python3
"""Training on data that outgrows memory, and on mixtures: kept samples, kills, files that change in between.
time limit: 300 s"""
import gzip
import json
import os
import random
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import case, equal, run_cases  # noqa: E402
from training import Folder, SmallDisk, rows, same_runs, saved, text, tiny, write_documents, write_rows  # noqa: E402


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
def kills_while_the_tokens_are_made_leave_nothing_that_is_believed():
    with Folder() as folder:
        document = tiny(write_large(folder / "large.jsonl"), steps=2)
        document["dataset"].update(max_seq_len=256, packing=True)
        begun = time.monotonic()
        folder.train(document, "whole", **cached(folder, "other"))
        seconds = time.monotonic() - begun
        job, chooser, killed = folder.job(document), random.Random(9), 0
        for _ in range(12):
            process = folder.start("train", job, "--output-dir", "killed", "--quiet", **cached(folder))
            time.sleep(chooser.random() * seconds)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            killed += any(name.startswith(".tmp-") for name in entries(folder))
            shutil.rmtree(folder / "killed", ignore_errors=True)
            if any(len(name) == 64 for name in entries(folder)):
                shutil.rmtree(folder / "cache")
        assert killed, "no kill came while tokens were written"
        folder.run("train", job, "--output-dir", "killed", "--quiet", **cached(folder))
        same_runs(folder / "killed", folder / "whole")


@case
def jobs_that_make_the_same_tokens_at_once_do_not_disturb_one_another():
    with Folder() as folder:
        document = tiny(write_large(folder / "large.jsonl"), steps=2)
        document["dataset"].update(max_seq_len=256, packing=True)
        folder.train(document, "whole", **cached(folder, "other"))
        job = folder.job(document)
        runs = [folder.start("train", job, "--output-dir", f"run{i}", "--quiet", **cached(folder)) for i in range(3)]
        for i, process in enumerate(runs):
            said = process.communicate(timeout=120)
            equal((process.returncode, said[1]), (0, ""))
            same_runs(folder / f"run{i}", folder / "whole")
        equal([len(name) for name in entries(folder)], [64])


@case
def a_full_disk_while_tokens_are_made_is_an_error_that_leaves_nothing():
    with Folder() as folder, SmallDisk(8) as disk:
        document = tiny(write_large(folder / "large.jsonl"), steps=1)
        folder.run("train", folder.job(document), "--output-dir", folder / "run", code=74, prefix=disk.prefix,
                   says=["No space left on device", "MEGATRAIN_CACHE_DIR"],
                   env={**os.environ, "MEGATRAIN_CACHE_DIR": disk.path + "/cache"})
        equal(os.listdir(disk.seen + "/cache"), [])


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


def numbered(folder, name, lengths):
    """Documents as long as nothing else is, so that a step of one sequence tells which one it was."""
    write_rows(folder / name, [{"text": "x" * (length - 2)} for length in lengths])  # a begin and an end token beside it
    return name


def one_by_one(folder, document, run, epochs):
    """Lengths of the sequences, epoch by epoch."""
    document["training"] = {"batch_size": 1, "num_epochs": epochs, "learning_rate": 1e-9}
    folder.train(document, run)
    found = [row["tokens"] for row in rows(folder / run)]
    size, rest = divmod(len(found), epochs)
    equal(rest, 0)
    return [found[epoch * size:(epoch + 1) * size] for epoch in range(epochs)]


@case
def each_epoch_has_every_row_once_in_an_order_of_its_own():
    with Folder() as folder:
        lengths = random.Random(5).sample(range(3, 64), 40)
        document = tiny(numbered(folder, "d.jsonl", lengths))
        document["dataset"]["max_seq_len"] = 64
        first, second, third = one_by_one(folder, document, "run", 3)
        for epoch in (first, second, third):
            equal(sorted(epoch), sorted(lengths))
            assert epoch != lengths and epoch != sorted(lengths)
        assert first != second and second != third and first != third
        equal(one_by_one(folder, document, "again", 1), [first])
        other = tiny("d.jsonl")
        other["dataset"]["max_seq_len"] = 64
        other["training"] = {"batch_size": 1, "num_epochs": 1, "learning_rate": 1e-9, "seed": 7}
        folder.train(other, "seed")
        found = [row["tokens"] for row in rows(folder / "seed")]
        equal(sorted(found), sorted(lengths))
        assert found != first


@case
def rows_that_are_held_out_are_no_others_and_train_never():
    with Folder() as folder:
        lengths = random.Random(6).sample(range(3, 64), 40)
        document = tiny(numbered(folder, "d.jsonl", lengths))
        document["dataset"].update(max_seq_len=64, val_size=10)
        first, second = one_by_one(folder, document, "run", 2)
        equal((len(set(first)), sorted(first)), (30, sorted(second)))
        assert set(first) < set(lengths)
        shown = json.loads(folder.run("data", folder.job(document), "--show", "40", "--json"))["show"]
        equal(sorted(len(sample["ids"]) for sample in shown if not sample["validation"]), sorted(first))


@case
def weights_say_how_many_rows_of_each_part_an_epoch_has():
    with Folder() as folder:
        numbers = random.Random(8).sample(range(3, 64), 30)
        parts = [numbers[:6], numbers[6:26], numbers[26:]]
        document = tiny("unused")
        document["dataset"] = {"max_seq_len": 64, "packing": False, "val_size": 0, "mix": [
            {"path": numbered(folder, f"{i}.jsonl", part), "weight": weight}
            for i, (part, weight) in enumerate(zip(parts, (3, 5, 2)))]}
        for epoch in one_by_one(folder, document, "run", 2):  # the second part lasts longest: 20 rows at 5 of 10
            counts = [[epoch.count(length) for length in part] for part in parts]
            equal([sum(part) for part in counts], [12, 20, 8])
            equal(counts, [[2] * 6, [1] * 20, [2] * 4])
        document["dataset"]["mix_strategy"] = "interleave_under"
        first, second, third = one_by_one(folder, document, "under", 3)  # 6 rows at 3 of 10, but 4 at 2: both last 20
        for epoch in (first, second, third):
            equal([sum(epoch.count(length) for length in part) for part in parts], [6, 10, 4])
        equal(sorted(length for length in first + second if length in parts[1]), sorted(parts[1]))  # it goes on
        document["dataset"]["mix_strategy"] = "concat"
        equal(sorted(one_by_one(folder, document, "concat", 1)[0]), sorted(numbers))


@case
def a_mixture_that_is_killed_anywhere_ends_with_the_undisturbed_bits():
    with Folder() as folder:
        document = mixture(folder, 40)
        folder.train(document, "whole")
        chooser = random.Random(7)
        job = folder.job(document)
        stops = []
        for _ in range(6):
            process = folder.start("train", job, "--output-dir", "killed", "--quiet",
                                   *resume(folder / "killed"))
            wanted = len(rows(folder / "killed")) + chooser.randrange(1, 8)
            until = time.monotonic() + 30
            while process.poll() is None and len(rows(folder / "killed")) < wanted and time.monotonic() < until:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            stops.append(len(rows(folder / "killed")))
        assert sum(0 < stop < 40 for stop in stops) >= 3, stops  # else nothing was shown
        folder.run("train", job, "--output-dir", "killed", "--quiet",
                   *resume(folder / "killed"))
        same_runs(folder / "killed", folder / "whole")


@case
def a_file_that_changed_between_two_runs_is_named_as_the_reason():
    with Folder() as folder:
        document = mixture(folder, 6)
        folder.train(document, "run")
        job = folder.job(document)
        with open(folder / "b.jsonl") as file:
            whole = file.read()
        replaced = whole.replace("It is 4.", "It is 5.")
        for changed in (whole + '{"instruction": "One", "output": "more"}\n', replaced, whole[:whole.rindex("{")]):
            folder.write("b.jsonl", changed)
            folder.run("train", job, "--output-dir", "run", "--resume", "--set", "training.max_steps=9", code=65,
                       says=["made with other data", "start a new job from its weights"])
        folder.write("b.jsonl", whole)  # the same contents, at another time
        folder.run("train", job, "--output-dir", "run", "--resume", "--set", "training.max_steps=9")
        equal(len(rows(folder / "run")), 9)


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
