#!/usr/bin/env python3
"""Real training that is killed, stopped and paused at any moment ends with the very bits of the run that never was:
workers, the daemon with its worker, saves, `megatrain train` in every phase.
time limit: 400 s"""
import datetime
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import BUILD, Daemon, case, equal, run_cases, until  # noqa: E402
from training import (WORKER, Folder, bits, decided, log_lines, rows, same_runs, saved, text, tiny,  # noqa: E402
                      write_documents)

SANITIZED = "asan" in BUILD or "tsan" in BUILD
SEED = int(os.environ.get("MT_TEST_SEED", "20260131"))
STEPS = 40
random.seed(SEED)


def small_job():
    """Three and a half epochs, three evaluations, eight checkpoints."""
    document = tiny("documents.jsonl", steps=STEPS, every=5)
    document["model"].update(hidden_size=192, num_layers=4)  # so that kills hit steps, not saves alone
    document["dataset"]["val_size"] = 4
    return document


def real_daemon(*options):
    daemon = Daemon("--restart-delay", "0.05", *options, worker=WORKER)
    write_documents(os.path.join(daemon.state, "datasets", "documents.jsonl"), 49)
    return daemon


def submit(daemon, document):
    status, body = daemon.ask("POST", "/jobs", document)
    equal((status, body if status != 201 else None), (201, None))
    return body["id"]


def undisturbed(daemon):
    """Its folder, and how long it took."""
    begin = time.monotonic()
    job = submit(daemon, small_job())
    daemon.wait(job, "completed")
    equal([row["attempt"] for row in daemon.rows(job)], [1] * STEPS)
    return daemon.folder(job), time.monotonic() - begin


def check_as_undisturbed(daemon, job, wanted):
    done = daemon.wait(job, "completed")
    same_runs(daemon.folder(job), wanted)
    equal((done["reason"], done["error"], done["progress"]["step"]), (None, None, STEPS))
    # Rows say which attempt made them: the later ones the steps after the checkpoint that they began from.
    attempts = [row["attempt"] for row in daemon.rows(job)]
    equal(attempts, sorted(attempts))
    assert attempts[-1] == done["attempt"], (attempts, done["attempt"])
    for step in range(1, STEPS):
        if attempts[step] != attempts[step - 1]:
            assert step % 5 == 0 or done["attempt"] == 1, f"attempt {attempts[step]} began after step {step}"
    equal(daemon.get(f"/jobs/{job}/checkpoints")["data"][0]["step"], STEPS)
    equal([row["step"] for row in daemon.get(f"/jobs/{job}/metrics")["data"]], list(range(1, STEPS + 1)))
    return done


def kill_trials(trials, kill):
    trials = 3 if SANITIZED else trials
    with real_daemon("--restart-limit", "50") as daemon:
        wanted, seconds = undisturbed(daemon)
        moments = []
        while len(moments) < trials:
            job = submit(daemon, small_job())
            time.sleep(random.random() * seconds)
            pid = daemon.worker()
            if not pid:  # it was done before; or not begun
                daemon.wait(job, "completed")
                continue
            moments.append(len(daemon.rows(job)))
            kill(daemon, pid)
            done = check_as_undisturbed(daemon, job, wanted)
            assert done["attempt"] == 2 or moments[-1] == STEPS, done["attempt"]
        print(f"# killed after steps {sorted(moments)}", file=sys.stderr)
        assert SANITIZED or len(set(moments)) > 2, moments


@case
def ten_kills_of_the_worker_change_no_bit():
    kill_trials(10, lambda daemon, pid: os.kill(pid, signal.SIGKILL))


@case
def ten_kills_of_the_daemon_with_its_worker_change_no_bit():
    def kill(daemon, pid):
        daemon.process.kill()
        os.kill(pid, signal.SIGKILL)
        daemon.process.wait()
        daemon.start()
    kill_trials(10, kill)


@case
def a_stop_of_the_daemon_and_a_pause_change_no_bit():
    with real_daemon() as daemon:
        wanted, _ = undisturbed(daemon)
        job = submit(daemon, small_job())
        daemon.wait_step(job, 7)
        equal(daemon.stop(), 0)
        made = len(daemon.rows(job))
        assert made < STEPS, "it was too late to stop it"
        equal(saved(daemon.folder(job))[-1], made)
        daemon.start()
        daemon.wait_step(job, made + 1)
        if daemon.act(job, "pause") == 202:
            paused = daemon.wait(job, "paused", "completed")
            if paused["state"] == "paused":
                equal(paused["last_checkpoint"]["step"], paused["progress"]["step"])
                equal(daemon.act(job, "resume"), 202)
        done = daemon.wait(job, "completed")
        same_runs(daemon.folder(job), wanted)
        assert done["attempt"] >= 2, done


@case
def a_pause_and_a_resume_change_no_bit():
    with real_daemon() as daemon:
        wanted, _ = undisturbed(daemon)
        job = submit(daemon, small_job())
        daemon.wait_step(job, 3)
        equal(daemon.act(job, "pause"), 202)
        paused = daemon.wait(job, "paused")
        equal((paused["reason"], paused["last_checkpoint"]["step"]), ("paused_by_user", paused["progress"]["step"]))
        equal(daemon.act(job, "resume"), 202)
        done = daemon.wait(job, "completed")
        same_runs(daemon.folder(job), wanted)
        equal(done["attempt"], 2)


def whole(checkpoint):
    """Sizes as in the manifest; the hashes are compared by the run that resumes from it."""
    with open(os.path.join(checkpoint, "megatrain", "manifest.json")) as file:
        manifest = json.load(file)
    for entry in manifest["files"]:
        equal((entry["name"], os.path.getsize(os.path.join(checkpoint, entry["name"]))), (entry["name"], entry["bytes"]))
    return manifest["step"]


@case
def a_hundred_kills_while_saving_never_cost_a_checkpoint():
    """A run that saves after each step is killed again and again; it goes on from the newest name each time."""
    kills = 25 if SANITIZED else 100
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 30), steps=100000, every=1, lr_scheduler="constant", warmup_ratio=0)
        folder.train({**document, "training": {**document["training"], "max_steps": 9}}, "timed", "--quiet")
        times = [datetime.datetime.fromisoformat(row["time"].replace("Z", "+00:00")) for row in rows(folder / "timed")]
        seconds = statistics.median((b - a).total_seconds() for a, b in zip(times, times[1:]))  # of a step and its save
        arguments = ["train", folder.job(document), "--output-dir", "run", "--quiet"]
        run, checkpoints, saving = folder / "run", folder / "run/checkpoints", 0
        for i in range(kills):
            before = saved(run)[-1] if saved(run) else 0
            stale = rows(run)[-1:]  # of a step whose save was cut short: it stands there until the run goes on
            process = folder.start(*arguments, *(["--resume"] if i else []))
            until("a new step", lambda: (len(rows(run)) > before and rows(run)[-1:] != stale) or process.poll() is not None)
            time.sleep(random.random() * 2 * seconds)
            process.kill()
            out, err = process.communicate()
            equal((process.returncode, err), (-signal.SIGKILL, ""))
            saving += any(name.startswith(".tmp-step") for name in os.listdir(checkpoints))
            for step in saved(run):
                equal(whole(os.path.join(checkpoints, f"step-{step:08d}")), step)
            newest = saved(run)[-1] if saved(run) else 0
            assert newest >= before, (newest, before)
        said = log_lines(run)
        assert not [line for line in said if "passed over" in line], said
        resumed = [int(line.split()[3]) for line in said if line.startswith("resuming from step")]
        equal(resumed, sorted(resumed))
        print(f"# {saving} of {kills} kills in the middle of a save, {saved(run)[-1]} steps made", file=sys.stderr)
        assert saving > kills / 4, f"only {saving} kills hit a save"
        last = saved(run)[-1]
        folder.train({**document, "checkpoint": {"every_steps": 0}}, "whole", "--set", f"training.max_steps={last}", "--quiet")
        equal(bits(run, f"step-{last:08d}"), bits(folder / "whole"))
        equal(decided(run)[:last], decided(folder / "whole"))


def stop_in(folder, document, number, when):
    """Starts a run, sends it the signal once `when` says so, and lets it end: exit 75 in time, with a hint, and what goes
    on from there ends with the undisturbed bits. False when it was done before the signal."""
    process = folder.start("train", folder.job(document), "--output-dir", "run")
    said = []
    reader = threading.Thread(target=lambda: said.extend(iter(process.stderr.readline, "")))
    reader.start()
    try:
        until("the moment to stop", lambda: when(said) or process.poll() is not None)
        begin = time.monotonic()
        process.send_signal(number)
        code = process.wait(timeout=30)
        seconds = time.monotonic() - begin
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    finally:
        reader.join()
        process.stdout.close()
        process.stderr.close()
    if code == 0:
        return False
    equal((code, [line for line in said if "go on with: megatrain train --resume" in line] != []), (75, True))
    assert seconds < 30 / (1 if SANITIZED else 3), f"{seconds:.1f} s"
    folder.run("train", "--resume", "--output-dir", "run", "--quiet")
    same_runs(folder / "run", folder / "whole")
    return True


def phase(name):
    return lambda said: any(line.strip() == name for line in said)


def stops(document, when, check=lambda run: True):
    """With both signals; `check` says of the stopped run whether the signal hit what it was meant for. On a busy machine
    one may come late, and is tried again."""
    with Folder() as folder:
        path = document["dataset"]["path"] = os.path.join(folder.path, document["dataset"]["path"])
        write_documents(path, 120) if path.endswith("jsonl") else folder.write(path, text(10000) * 250)
        folder.train(document, "whole", "--quiet")
        for number in (signal.SIGTERM, signal.SIGINT):
            for attempt in range(8):
                hit = stop_in(folder, document, number, when) and check(folder / "run")
                shutil.rmtree(folder / "run")
                if hit:
                    break
            assert hit, f"{number.name} missed its moment each time"


@case
def a_signal_while_loading_or_tokenising_is_resumable():
    for name in ("loading", "tokenizing"):
        stops(tiny("big.txt", steps=3, every=0), phase(name), lambda run: [row["attempt"] for row in rows(run)] == [1] * 3)


@case
def a_signal_in_a_step_is_resumable():
    document = tiny("d.jsonl", steps=60, every=0, batch_size=64, micro_batch_size=16)
    stops(document, lambda said: any(line.startswith("step 5/") for line in said), lambda run: rows(run)[-1]["attempt"] == 2)


@case
def a_signal_that_comes_twice_at_once_is_one_request():  # as timeout(1) sends it, to the process and to its group
    with Folder() as folder:
        document = tiny(os.path.join(folder.path, "d.jsonl"), steps=100000, every=0)
        write_documents(folder / "d.jsonl", 120)
        process = folder.start("train", folder.job(document), "--output-dir", "run")
        for line in iter(process.stderr.readline, ""):
            if line.startswith("step 3/"):
                break
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)  # or the kernel makes one of them
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        equal((process.returncode, "go on with" in said, len(saved(folder / "run"))), (75, True, 1))


@case
def a_signal_in_a_save_is_resumable():
    document = tiny("d.jsonl", steps=12, every=1)
    document["model"]["hidden_size"] = 256
    stops(document, lambda said: any(line.startswith("step 3/") for line in said), lambda run: rows(run)[-1]["attempt"] == 2)


@case
def a_signal_in_an_evaluation_is_resumable_and_its_loss_is_not_lost():
    document = tiny("d.jsonl", steps=4, every=2, batch_size=1)
    document["model"].update(hidden_size=128, num_layers=8)
    document["dataset"]["val_size"] = 110

    # The row and the line of step 2 come after its evaluation, so the signal is sent once step 1 is made.
    def broken_off(run):
        return any("evaluation_due" in open(os.path.join(run, "checkpoints", name, "megatrain", "trainer_state.json")).read()
                   for name in os.listdir(os.path.join(run, "checkpoints")))
    stops(document, lambda said: any(line.startswith("step 1/") for line in said), broken_off)


run_cases()
