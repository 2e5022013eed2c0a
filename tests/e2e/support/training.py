"""What the tests of real training share: small jobs and their data, `megatrain train` by hand, and the comparison of
runs bit by bit."""
import hashlib
import json
import os
import random
import shutil
import subprocess
import tempfile

from megatraind import BUILD, Skipped, equal

MEGATRAIN = os.path.join(BUILD, "megatrain")
WORKER = os.path.join(BUILD, "megatrain-worker")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
WORDS = "the cat sat on a mat and then it ran off to see what dogs do when no one looks".split()
# Of a metrics row, what a run's arithmetic decides; the rest is time and attempt.
DECIDED = ("step", "epoch", "loss", "grad_norm", "learning_rate", "tokens", "target_tokens", "skipped_steps", "val_loss")


def real_data(name):
    """A file of the real data sets that are not part of the repository."""
    folder = os.environ.get("MT_TEST_DATA") or os.path.join(ROOT, "..", "shared", "data")
    path = os.path.realpath(os.path.join(folder, "llamafactory", name))
    if not os.path.exists(path):
        raise Skipped(f"there is no {name} in $MT_TEST_DATA")
    return path


def text(words, seed=1):
    chooser = random.Random(seed)
    return " ".join(chooser.choice(WORDS) for _ in range(words))


def write_rows(path, rows):
    with open(path, "w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
    return path


def write_documents(path, count, words=2, seed=2):
    """JSON lines with a `text` column, each document of its own length and contents, and shorter than 32 bytes."""
    return write_rows(path, [{"text": f"{i}: {text(words + i % 3, seed + i)}"} for i in range(count)])


def tiny(path, steps=12, every=3, **training):
    """A job that takes milliseconds a step; `path` is its data."""
    return {"name": "tiny",
            "model": {"architecture": "llama", "hidden_size": 32, "num_layers": 2, "num_attention_heads": 2},
            "dataset": {"path": path, "max_seq_len": 32, "packing": False, "val_size": 0},
            "training": {"batch_size": 4, "max_steps": steps, "learning_rate": 3e-3, **training},
            "checkpoint": {"every_steps": every}, "device": "cpu"}


class Folder:
    """A temporary folder, the current one of the commands that run in it."""

    def __enter__(self):
        self.path = os.path.realpath(tempfile.mkdtemp(prefix="megatrain-e2e-"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def write(self, name, contents):
        path = self / name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w" if isinstance(contents, str) else "wb") as file:
            file.write(contents)
        return path

    def job(self, document, name="job.json"):
        return self.write(name, json.dumps(document))

    def start(self, *arguments, prefix=(), **options):
        return subprocess.Popen([*prefix, MEGATRAIN, *arguments], cwd=self.path, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def run(self, *arguments, code=0, says=(), prefix=(), **options):
        """Runs `megatrain ...` to its end: the exit code and parts of what it says must be as told."""
        process = self.start(*arguments, prefix=prefix, **options)
        out, err = process.communicate(timeout=120)
        if process.returncode != code:
            raise AssertionError(f"{arguments} ended with {process.returncode}, wanted {code}: {err[-1500:]}")
        for part in says:
            if part not in out + err:
                raise AssertionError(f"{part!r} is not in what {arguments} said: {(out + err)[-1500:]}")
        return out + err

    def train(self, document, run, *arguments, **options):
        """`megatrain train` of a document into the folder `run`."""
        return self.run("train", self.job(document), "--output-dir", run, *arguments, **options)


def rows(run):
    """metrics.jsonl; a torn last line is none."""
    try:
        with open(os.path.join(run, "metrics.jsonl")) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def log_lines(run):
    with open(os.path.join(run, "log.jsonl")) as file:
        return [json.loads(line)["message"] for line in file]


def decided(run):
    return [{key: row.get(key) for key in DECIDED} for row in rows(run)]


def saved(run):
    """Steps of the checkpoints."""
    folder = os.path.join(run, "checkpoints")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(int(name[5:]) for name in names if name.startswith("step-"))


def file_hash(*path):
    with open(os.path.join(*path), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def bits(run, checkpoint="final"):
    """Hashes of parameters and moments."""
    folder = os.path.join(run, "checkpoints", checkpoint)
    return {name: file_hash(folder, name) for name in ("model.safetensors", "megatrain/optimizer.safetensors")}


def same_runs(found, wanted):
    """Every row and every bit of two completed runs; a row's time and attempt may differ."""
    a, b = decided(found), decided(wanted)
    for row, other in zip(a, b):
        equal(row, other)
    equal(len(a), len(b))
    equal(bits(found), bits(wanted))


class SmallDisk:
    """A file system of its own of so many bytes, seen by commands that run with its `prefix`, and by the test itself
    below `seen`."""

    def __init__(self, mib):
        self.path = os.path.realpath(tempfile.mkdtemp(prefix="megatrain-small-"))
        script = f"mount -t tmpfs -o size={mib}m none '{self.path}' && echo mounted && exec sleep 1000"
        self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        if self.process.stdout.readline() != "mounted\n":
            self.__exit__()
            raise Skipped("mounting is not permitted")
        self.prefix = ["nsenter", "-t", str(self.process.pid), "-m"]
        self.seen = f"/proc/{self.process.pid}/root{self.path}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        os.rmdir(self.path)

    def fill(self, leave):
        """Leaves so many bytes free."""
        with open(os.path.join(self.seen, "ballast"), "wb") as file:
            status = os.statvfs(self.seen)
            file.write(b"\0" * max(0, status.f_bavail * status.f_frsize - leave))

    def empty(self):
        os.unlink(os.path.join(self.seen, "ballast"))
