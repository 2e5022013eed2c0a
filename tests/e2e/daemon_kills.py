#!/usr/bin/env python3
"""kill -9 of worker, daemon, or both at any moment, and orderly stops: every job goes on by itself and makes every
step once; none is lost, none runs for ever.
time limit: 400 s"""
import http.client
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import Daemon, alive, case, equal, run_cases, until  # noqa: E402

random.seed(20260131)


def row(daemon, job, columns):
    """From the database itself, beside a daemon that may be dead."""
    with sqlite3.connect(f"file:{daemon.state}/megatrain.db?mode=ro", uri=True, timeout=30) as database:
        return database.execute(f"SELECT {columns} FROM jobs WHERE id = ?", (job,)).fetchone()


@case
def twenty_kills_at_any_moment_change_nothing():
    with Daemon("--restart-delay", "0.01", "--restart-limit", "50") as daemon:
        job = daemon.submit("step_ms=4 load_ms=20 save_ms=20", steps=900, every=20)
        kills = {"worker": 0, "daemon": 0, "both": 0}
        for _ in range(20):
            made = len(daemon.rows(job))
            until("it goes on", lambda: len(daemon.rows(job)) != made or daemon.state_of(job) == "completed")
            time.sleep(random.random() * 0.15)
            who = random.choice(list(kills))
            pid = daemon.worker()
            kills[who] += 1
            if who != "worker":
                daemon.process.kill()
            if who != "daemon" and pid:
                os.kill(pid, signal.SIGKILL)
            if who != "worker":
                daemon.process.wait()
                time.sleep(random.random() * 0.05)
                daemon.start()
        done = daemon.wait(job, "completed", seconds=120)
        print(f"# kills {kills}, attempts {done['attempt']}", file=sys.stderr)
        daemon.check_whole(job, 900)
        equal((done["progress"]["step"], done["reason"], done["error"]), (900, None, None))
        equal(done["progress"]["trained_tokens"], 90000)


@case
def jobs_acknowledged_before_a_kill_are_all_there_and_run():
    with Daemon("--workers", "4") as daemon:
        accepted = []
        for _ in range(6):
            accepted += [daemon.submit("step_ms=1", steps=3) for _ in range(random.randint(1, 6))]
            daemon.kill()
            daemon.start()
        for job in accepted:
            daemon.wait(job, "completed")
            daemon.check_whole(job, 3)
        folders = [name for name in os.listdir(os.path.join(daemon.state, "jobs"))]
        equal(sorted(folders), sorted(accepted))


@case
def a_new_daemon_waits_for_the_worker_that_the_old_one_left():
    with Daemon("--save-grace", "30") as daemon:
        job = daemon.submit("step_ms=10 save_ms=1500", steps=200, every=0)
        daemon.wait_step(job, 5)
        daemon.wait(job, "running")
        old = daemon.worker()
        daemon.kill()
        daemon.start()
        # The old one is saving; a second one beside it would write the same files.
        while alive(old):
            equal(daemon.worker(), 0)
            time.sleep(0.02)
        done = daemon.wait(job, "completed")
        equal(done["attempt"], 2)
        daemon.check_whole(job, 200)
        assert any(entry["attempt"] == 1 for entry in daemon.rows(job)), "what the first attempt saved was used"


@case
def a_left_worker_that_does_not_end_is_killed_with_its_children():
    with Daemon("--save-grace", "1", "--kill-grace", "0.5") as daemon:
        job = daemon.submit("child ignore_term step_ms=20", steps=100000, every=10)
        daemon.wait_step(job, 12)
        daemon.wait(job, "running")
        old = daemon.worker()
        with open(os.path.join(daemon.folder(job), "child.pid")) as file:
            child = int(file.read())
        daemon.kill()
        daemon.start()
        until("worker and child are gone", lambda: not alive(old) and not alive(child), 20)
        again = until("a second attempt", lambda: [j for j in [daemon.job(job)] if j["attempt"] == 2], 20)[0]
        assert again["last_checkpoint"]["step"] >= 10, again
        daemon.act(job, "cancel")
        daemon.wait(job, "cancelled", seconds=20)


@case
def a_process_that_only_has_the_number_of_a_worker_is_left_alone():
    with Daemon() as daemon:
        job = daemon.submit("step_ms=20", steps=60)
        daemon.wait(job, "running")
        old = daemon.worker()
        daemon.kill()
        until("the worker has ended", lambda: not alive(old))
        bystander = subprocess.Popen(["sleep", "100"], start_new_session=True, stdout=subprocess.DEVNULL)
        try:
            with sqlite3.connect(os.path.join(daemon.state, "megatrain.db"), timeout=30) as database:
                database.execute("UPDATE jobs SET worker_pid = ? WHERE id = ?", (bystander.pid, job))
            daemon.start()
            daemon.wait(job, "completed")
            equal(bystander.poll(), None)
        finally:
            bystander.kill()
            bystander.wait()


@case
def a_cancel_or_pause_that_was_promised_is_kept_by_the_next_daemon():
    for action, state in (("cancel", "cancelled"), ("pause", "paused")):
        with Daemon("--save-grace", "30") as daemon:
            job = daemon.submit("ignore_requests step_ms=20", steps=100000)
            daemon.wait_step(job, 3)
            daemon.wait(job, "running")
            equal(daemon.act(job, action), 202)
            daemon.kill()
            equal(row(daemon, job, "state, requested"), ("running", action))
            daemon.start()
            daemon.wait(job, state, seconds=30)


@case
def what_the_daemon_missed_is_taken_over_from_the_files():
    with Daemon() as daemon:
        job = daemon.submit("step_ms=5", steps=10000, every=50)
        daemon.wait_step(job, 60)
        daemon.wait(job, "running")
        os.kill(daemon.process.pid, signal.SIGSTOP)  # deaf, as one that is about to die
        daemon.wait_step(job, daemon.rows(job)[-1]["step"] + 60)
        os.kill(daemon.worker(), signal.SIGKILL)
        daemon.process.kill()
        daemon.process.wait()
        last = daemon.rows(job)[-1]["step"]
        known = row(daemon, job, "step")[0]
        assert known < last, f"{known}, {last}"
        # Paused, so that what is taken over can be looked at before a worker cuts the rows back.
        with sqlite3.connect(os.path.join(daemon.state, "megatrain.db"), timeout=30) as database:
            database.execute("UPDATE jobs SET requested = 'pause' WHERE id = ?", (job,))
        daemon.start()
        paused = daemon.wait(job, "paused")
        equal(paused["progress"]["step"], last)
        equal(paused["last_checkpoint"]["step"], last // 50 * 50)
        equal(paused["progress"]["trained_tokens"], last * 100)


@case
def sigterm_saves_queues_and_ends_with_0():
    with Daemon("--workers", "2") as daemon:
        jobs = [daemon.submit("step_ms=10", steps=150, every=0) for _ in range(3)]
        for job in jobs[:2]:
            daemon.wait_step(job, 5)
            daemon.wait(job, "running")
        begin = time.monotonic()
        equal(daemon.stop(), 0)
        assert time.monotonic() - begin < 20
        for job in jobs[:2]:
            equal(row(daemon, job, "state, reason"), ("queued", "interrupted"))
            saved = [name for name in os.listdir(os.path.join(daemon.folder(job), "checkpoints"))]
            equal(saved, [f"step-{daemon.rows(job)[-1]['step']:08d}"])
        equal(row(daemon, jobs[2], "state, reason"), ("queued", None))
        daemon.start()
        for job in jobs:
            daemon.wait(job, "completed")
            daemon.check_whole(job, 150)


@case
def a_worker_that_will_not_stop_does_not_keep_the_daemon():
    with Daemon("--stop-grace", "4", "--kill-grace", "1") as daemon:
        job = daemon.submit("ignore_requests ignore_term step_ms=20", steps=100000, every=10)
        daemon.wait_step(job, 11)
        daemon.wait(job, "running")
        worker = daemon.worker()
        begin = time.monotonic()
        equal(daemon.stop(), 0)
        assert time.monotonic() - begin < 8
        assert not alive(worker)
        equal(row(daemon, job, "state, reason"), ("queued", "interrupted"))


@case
def a_second_sigterm_hurries():
    with Daemon("--stop-grace", "120") as daemon:
        job = daemon.submit("ignore_requests ignore_term step_ms=20", steps=100000, every=10)
        daemon.wait_step(job, 11)
        daemon.wait(job, "running")
        begin = time.monotonic()
        daemon.process.send_signal(signal.SIGTERM)
        until("it says so", lambda: "stopping" in daemon.log())
        equal(daemon.ask("POST", "/jobs", daemon.document())[0], 503)
        equal(daemon.stop(), 0)
        assert time.monotonic() - begin < 30
        equal(row(daemon, job, "state, reason"), ("queued", "interrupted"))


@case
def statistics_outlive_a_restart():
    with Daemon() as daemon:
        job = daemon.submit("crash_once_at=15", steps=30)
        daemon.wait(job, "completed")

        def counters():
            connection = http.client.HTTPConnection("127.0.0.1", daemon.port)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                    if line.startswith(("megatrain_steps_total", "megatrain_trained_tokens_total",
                                        "megatrain_worker_restarts_total", "megatrain_queue_wait_seconds_count",
                                        "megatrain_job_duration_seconds_count"))}
        before = counters()
        # 14 steps, then 20 more from the checkpoint at 10.
        equal(before["megatrain_steps_total"], 34)
        equal(before["megatrain_trained_tokens_total"], 3400)
        equal(before['megatrain_worker_restarts_total{reason="signal"}'], 1)
        daemon.kill()
        daemon.start()
        equal(counters(), before)


run_cases()
