#!/usr/bin/env python3
"""A worker killed in the middle of a deferred update: the job is resumed and ends with the very bits of the run that
never was.
time limit: 300 s"""
import mmap
import os
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import BUILD, Daemon, case, equal, run_cases, until  # noqa: E402
from training import same_runs, tiny, write_documents  # noqa: E402

SANITIZED = "asan" in BUILD or "tsan" in BUILD
STEPS, LAYERS = 16, 6


class Mark:
    """What tests/e2e/marking_worker.c says of the update at work."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(32))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 32)

    def read(self):
        return struct.unpack("=4Q", self.memory)

    def wait_inside(self, update, group, pid):
        """Until that update is being made of that group, or of one after it; no sleep, since it is short. False
        where it was not seen before the worker's end: on a busy machine this process may not run meanwhile."""
        end = time.monotonic() + 60
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
            for _ in range(1000):
                inside, at, of, _made = self.read()
                if inside and (at, of) >= (update, group):
                    return True
        return False


def job(device, **training):
    document = tiny("documents.jsonl", steps=STEPS, every=5, batch_size=2, **training)
    document["model"].update(hidden_size=256, num_layers=LAYERS)  # an update of a layer takes a moment
    document["device"] = device
    return document


def check(document, trials):
    with Daemon("--restart-delay", "0.5", "--restart-limit", "50",  # long enough to read the mark
                worker=os.path.join(BUILD, "tests/e2e/marking_worker"), start=False) as daemon:
        mark = Mark(os.path.join(daemon.root, "mark"))
        daemon.environment["MT_TEST_MARK"] = mark.path
        daemon.start()
        write_documents(os.path.join(daemon.state, "datasets", "documents.jsonl"), 40)
        status, body = daemon.ask("POST", "/jobs", document)
        equal(status, 201)
        daemon.wait(body["id"], "completed")
        wanted, hits = daemon.folder(body["id"]), []
        for _ in range(20):
            if len(hits) == len(trials):
                break
            update, group = trials[len(hits)]
            mark.memory[:] = bytes(32)
            status, body = daemon.ask("POST", "/jobs", document)
            equal(status, 201)
            pid = until("the worker", daemon.worker)
            if not mark.wait_inside(update, group, pid):
                daemon.wait(body["id"], "completed")
                continue
            os.kill(pid, signal.SIGKILL)
            until("its end", lambda: not os.path.exists(f"/proc/{pid}") or daemon.worker() != pid)
            inside, at, of, _made = mark.read()
            done = daemon.wait(body["id"], "completed")
            equal((done["attempt"], done["reason"], done["progress"]["step"]), (2, None, STEPS))
            same_runs(daemon.folder(body["id"]), wanted)
            if inside and (at, of) >= (update, group):
                hits.append((at, of))
        print(f"# killed inside the updates (number, group of parameters) {hits}", file=sys.stderr)
        equal(len(hits), len(trials))


# Before the first checkpoint, between two, of the first layer, of a middle one, of the last.
MOMENTS = [(2, 1), (7, LAYERS // 2), (8, LAYERS), (12, 2)]
FEWER = MOMENTS[1:3] if SANITIZED else MOMENTS


@case
def in_the_next_forward_pass_after_clipping():
    check(job("cpu"), FEWER)


@case
def on_a_device_apart_with_accumulation():
    check(job("cpu-discrete", gradient_accumulation_steps=2), FEWER[:2])


@case
def in_the_backward_pass_without_a_finite_check():
    check(job("cpu-discrete", max_grad_norm=0, max_skipped_steps=0), FEWER[:2])


run_cases()
