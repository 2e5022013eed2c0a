#!/usr/bin/env python3
"""Whatever is done to a file of a checkpoint, a resume names the file, goes on from the checkpoint before, and ends with
the bits of the undisturbed run; and so do resumes on other devices and with other numbers of threads.
time limit: 300 s"""
import os
import random
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import case, equal, run_cases  # noqa: E402
from training import Folder, bits, log_lines, tiny, write_documents  # noqa: E402

chance = random.Random(5)


def flip(path):
    with open(path, "r+b") as file:
        at = chance.randrange(os.path.getsize(path))
        file.seek(at)
        byte = file.read(1)[0] ^ 1 << chance.randrange(8)
        file.seek(at)
        file.write(bytes([byte]))


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def empty(path):
    os.truncate(path, 0)


def grow(path):
    with open(path, "ab") as file:
        file.write(b"x")


def become(make):
    def damage(path):
        os.unlink(path)
        make(path)
    return damage


DAMAGES = {"flipped": flip, "cut": cut, "empty": empty, "grown": grow, "gone": os.unlink, "a folder": become(os.mkdir),
           "a link": become(lambda path: os.symlink("/etc/passwd", path)), "a pipe": become(os.mkfifo)}


def files_of(folder):
    return sorted(os.path.relpath(os.path.join(parent, name), folder) for parent, _, names in os.walk(folder)
                  for name in names)


@case
def every_damage_to_every_file_is_named_and_passed_over():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 20), steps=4)
        every = ["--set", "checkpoint.every_steps=2"]
        folder.train(document, "whole", *every, "--set", "training.max_steps=6", "--set", "training.lr_scheduler=constant")
        folder.train(document, "base", *every, "--set", "training.lr_scheduler=constant")
        wanted = bits(folder / "whole")
        newest = os.path.join("checkpoints", "step-00000004")
        names = files_of(os.path.join(folder / "base", newest))
        assert len(names) >= 6 and "megatrain/manifest.json" in names, names
        for name in names:
            for what, damage in DAMAGES.items():
                shutil.rmtree(folder / "run", ignore_errors=True)
                shutil.copytree(folder / "base", folder / "run", symlinks=True)
                damage(os.path.join(folder / "run", newest, name))
                folder.run("train", "--resume", "--output-dir", "run", "--set", "training.max_steps=6", "--quiet")
                said = [line for line in log_lines(folder / "run") if "passed over" in line]
                # A flipped bit of the manifest may be in what it says of another file.
                named = what == "flipped" and name.endswith("manifest.json") or os.path.basename(name) in said[0]
                assert len(said) == 1 and "step-00000004" in said[0] and named, (name, what, said)
                assert bits(folder / "run") == wanted, (name, what)


@case
def a_resume_elsewhere_ends_with_the_same_bits():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 20), steps=6)
        folder.train(document, "whole", "--set", "checkpoint.every_steps=2", "--set", "training.lr_scheduler=constant")
        wanted = bits(folder / "whole")
        settings = [["device=cpu"], ["device=cpu-discrete", "memory.activation_offload=on"],
                    ["memory.checkpoint_interval=1", "memory.recompute=never"], ["device=cpu-discrete", "memory.recompute=auto", "memory.checkpoint_interval=2"]]
        cores = os.sched_getaffinity(0)
        for first in range(len(settings)):
            run = f"run{first}"
            for step in (2, 4, 6):
                chosen = settings[(first + step // 2) % len(settings)]
                options = [word for setting in [*chosen, f"training.max_steps={step}"] for word in ("--set", setting)]
                os.sched_setaffinity(0, {min(cores)} if step == 4 else cores)
                if step == 2:
                    folder.train(document, run, *options, "--set", "training.lr_scheduler=constant")
                else:
                    folder.run("train", "--resume", "--output-dir", run, *options)
            os.sched_setaffinity(0, cores)
            equal(bits(folder / run) == wanted, True)


run_cases()
