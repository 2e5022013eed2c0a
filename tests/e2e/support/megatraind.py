"""What the tests of the daemon share: megatraind in a folder of its own with a worker that only counts
(tests/e2e/counting_worker.c), a client for it, and the reporting of cases."""
import atexit
import hashlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

BUILD = os.path.abspath(os.environ.get("MT_BUILD", "build"))
MEGATRAIND = os.path.join(BUILD, "megatraind")
COUNTING_WORKER = os.path.join(BUILD, "tests/e2e/counting_worker")
SANITIZED = os.path.basename(BUILD) in ("asan", "tsan")
# Bounds on time are for the plain build on a machine that has a processor for everybody who wants one.
SLOWNESS = (8 if SANITIZED else 1) * max(1, os.getloadavg()[0] / (os.cpu_count() or 1))
PATIENCE_S = 60 * SLOWNESS  # for what takes a moment on a quiet machine

cases = []


class Skipped(Exception):
    pass


def case(function):
    """A test; its name is its claim."""
    cases.append(function)
    return function


def run_cases():
    only = sys.argv[1:]
    failed = False
    for function in cases:
        name = function.__name__.replace("_", " ")
        if only and not any(word in function.__name__ for word in only):
            continue
        try:
            function()
            print("ok", name, flush=True)
        except Skipped as reason:
            print(f"skip {name}: {reason}", flush=True)
        except Exception as fault:  # each case stands alone
            failed = True
            traceback.print_exc()
            why = str(fault).replace("\n", " ")[:300] or type(fault).__name__
            print(f"not ok {name}: {why}", flush=True)
    sys.exit(1 if failed else 0)


def equal(found, wanted):
    if found != wanted:
        raise AssertionError(f"found {found!r}, wanted {wanted!r}")


def until(what, condition, seconds=PATIENCE_S):
    """Waits until the condition gives something true, and gives that back."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain: {what}")
        time.sleep(0.02)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def counted(steps):
    """The value that the counting worker ends with after so many steps in order."""
    value = "start"
    for step in range(1, steps + 1):
        value = hashlib.sha256(f"{value} {step}".encode()).hexdigest()
    return value


class Daemon:
    """megatraind on a state folder of its own, which outlives stops and kills until close()."""

    def __init__(self, *options, start=True, worker=COUNTING_WORKER, prefix=(), environment=None, state=None):
        self.root = tempfile.mkdtemp(prefix="megatraind-")
        self.state = state or os.path.join(self.root, "state")
        self.log_path = os.path.join(self.root, "log")
        self.options = ["--state-dir", self.state, "--listen", "127.0.0.1:0", *options]
        self.prefix = list(prefix)
        self.environment = {**os.environ, "MEGATRAIN_WORKER": worker, **(environment or {})}
        self.environment.pop("NOTIFY_SOCKET", None) if not environment else None
        self.process = None
        atexit.register(self.close)
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, fault, trace):
        if fault:
            print(self.log()[-6000:], file=sys.stderr)
        self.close()

    def spawn(self):
        self.process = subprocess.Popen([*self.prefix, MEGATRAIND, *self.options], env=self.environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=open(self.log_path, "ab"))

    def start(self):
        listen = os.path.join(self.state, "listen")
        if os.path.exists(listen):  # a daemon that was killed leaves it
            os.unlink(listen)
        self.spawn()

        def listening():
            if self.process.poll() is not None:
                raise AssertionError(f"megatraind ended with {self.process.returncode}: {self.log()[-600:]}")
            return os.path.exists(listen)
        until("megatraind listens", listening)
        with open(listen) as file:
            self.port = int(file.readline().strip().rsplit(":", 1)[1])
        data = os.path.join(self.state, "datasets", "words.txt")
        if not os.path.exists(data):
            with open(data, "w") as file:
                file.write("some words to train on\n" * 10)
        return self

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def stop(self, seconds=PATIENCE_S):
        """SIGTERM; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.root, ignore_errors=True)

    # ---- the client ----

    def ask(self, method, path, document=None, headers=None, timeout=30):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            body = None if document is None else json.dumps(document).encode()
            connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def get(self, path):
        status, body = self.ask("GET", path)
        equal(status, 200)
        return body

    def document(self, fake="", steps=40, every=10, labels=None, **more):
        return {"name": "counting",
                "model": {"architecture": "llama", "hidden_size": 64, "num_layers": 2, "num_attention_heads": 4,
                          "tokenizer": "bytes"},
                "dataset": {"path": "words.txt"}, "training": {"max_steps": steps},
                "checkpoint": {"every_steps": every},
                "labels": {"fake": fake or "step_ms=5", **(labels or {})}, **more}

    def submit(self, fake="", **more):
        status, body = self.ask("POST", "/jobs", self.document(fake, **more))
        if status != 201:
            raise AssertionError(f"{status}: {body}")
        return body["id"]

    def job(self, job):
        return self.get(f"/jobs/{job}")

    def state_of(self, job):
        return self.job(job)["state"]

    def act(self, job, action):
        return self.ask("POST", f"/jobs/{job}/{action}")[0]

    def wait(self, job, *states, seconds=PATIENCE_S):
        """The job, once it is in one of the states."""
        def reached():
            found = self.job(job)
            return found if found["state"] in states else None
        return until(f"job {job} is {' or '.join(states)}", reached, seconds)

    def wait_step(self, job, step, seconds=PATIENCE_S):
        """The job once its metrics have the step; asked of the file, which is written first."""
        return until(f"job {job} has made step {step}",
                     lambda: any(row["step"] >= step for row in self.rows(job)), seconds)

    def folder(self, job):
        return os.path.join(self.state, "jobs", job)

    def rows(self, job):
        try:
            with open(os.path.join(self.folder(job), "metrics.jsonl")) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def value(self, job, step):
        with open(os.path.join(self.folder(job), "checkpoints", f"step-{step:08d}", "value")) as file:
            return file.read()

    def worker(self):
        """The pid of the one worker, a child of the daemon."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            children = file.read().split()
        return int(children[0]) if children else 0

    def check_whole(self, job, steps):
        """Every step was made exactly once and in order, and the last checkpoint says so."""
        equal([row["step"] for row in self.rows(job)], list(range(1, steps + 1)))
        equal(self.value(job, steps), counted(steps))
