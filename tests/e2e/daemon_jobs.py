#!/usr/bin/env python3
"""The life of jobs under megatraind: order, actions in every state, workers that misbehave, files.
time limit: 600 s"""
import concurrent.futures
import http.client
import os
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import SLOWNESS, Daemon, alive, case, equal, run_cases, until  # noqa: E402

# Short patience, so that what hangs is found out soon.
daemon = Daemon("--restart-delay", "0.05", "--kill-grace", "0.5", "--stall-timeout", "3", "--save-grace", "4")


def worker_of(job):
    until("a worker runs", lambda: daemon.state_of(job) == "running" and daemon.worker())
    return daemon.worker()


@case
def a_job_runs_from_queued_to_completed():
    job = daemon.submit(steps=40)
    done = daemon.wait(job, "completed")
    equal((done["reason"], done["error"], done["attempt"], done["device"]), (None, None, 1, "counter"))
    equal((done["progress"]["step"], done["progress"]["max_steps"], done["progress"]["trained_tokens"]),
          (40, 40, 4000))
    equal(done["last_checkpoint"]["step"], 40)
    assert done["created_at"] <= done["started_at"] <= done["finished_at"], done
    daemon.check_whole(job, 40)
    equal([entry["step"] for entry in daemon.get(f"/jobs/{job}/checkpoints")["data"]], [40, 30, 20, 10])


@case
def higher_priority_first_then_first_come():
    blocker = daemon.submit("step_ms=20", steps=1000)
    daemon.wait(blocker, "running")
    jobs = [daemon.submit(steps=3, priority=priority) for priority in (-1, 0, 0, 7)]
    equal([daemon.state_of(job) for job in jobs], ["queued"] * 4)
    equal(daemon.act(blocker, "cancel"), 202)
    done = [daemon.wait(job, "completed") for job in jobs]
    order = sorted(range(4), key=lambda i: done[i]["started_at"])
    equal(order, [3, 1, 2, 0])


@case
def pause_saves_and_resume_goes_on_from_there():
    job = daemon.submit("step_ms=10", steps=150, every=0)
    daemon.wait_step(job, 5)
    equal(daemon.act(job, "resume"), 409)
    equal(daemon.act(job, "pause"), 202)
    paused = daemon.wait(job, "paused")
    equal(paused["reason"], "paused_by_user")
    assert paused["last_checkpoint"]["step"] == paused["progress"]["step"] > 4, paused
    equal(daemon.worker(), 0)
    equal(daemon.act(job, "pause"), 409)
    equal(daemon.act(job, "checkpoint"), 409)
    equal(daemon.act(job, "resume"), 202)
    done = daemon.wait(job, "completed")
    equal((done["attempt"], done["reason"]), (2, None))
    daemon.check_whole(job, 150)


@case
def queued_jobs_are_paused_and_cancelled_at_once():
    blocker = daemon.submit("step_ms=20", steps=1000)
    daemon.wait(blocker, "running")
    first, second = daemon.submit(steps=2), daemon.submit(steps=2)
    status, answer = daemon.ask("POST", f"/jobs/{first}/pause")
    equal((status, answer["state"]), (202, "paused"))
    status, answer = daemon.ask("POST", f"/jobs/{second}/cancel")
    equal((status, answer["state"], answer["reason"]), (202, "cancelled", "cancelled_by_user"))
    equal(daemon.act(second, "resume"), 409)
    status, answer = daemon.ask("POST", f"/jobs/{first}/resume")
    equal((status, answer["state"]), (202, "queued"))
    daemon.act(blocker, "cancel")
    daemon.wait(first, "completed")


@case
def a_checkpoint_is_made_when_asked_for():
    job = daemon.submit("step_ms=20", steps=400, every=0)
    daemon.wait_step(job, 3)
    daemon.wait(job, "running")
    equal(daemon.act(job, "checkpoint"), 202)
    found = until("a checkpoint", lambda: daemon.get(f"/jobs/{job}/checkpoints")["data"])
    assert found[0]["step"] >= 3 and found[0]["verified"], found
    equal(daemon.state_of(job), "running")
    daemon.act(job, "cancel")
    cancelled = daemon.wait(job, "cancelled")
    equal(cancelled["last_checkpoint"]["step"], cancelled["progress"]["step"])
    equal(daemon.act(job, "cancel"), 409)


@case
def cancel_frees_the_device_within_ten_seconds_with_the_whole_group():
    job = daemon.submit("child hang_at=3 ignore_term", steps=10)
    daemon.wait_step(job, 2)
    pid = worker_of(job)
    with open(os.path.join(daemon.folder(job), "child.pid")) as file:
        child = int(file.read())
    begin = time.monotonic()
    equal(daemon.act(job, "cancel"), 202)
    daemon.wait(job, "cancelled", seconds=15 * SLOWNESS)
    seconds = time.monotonic() - begin
    assert seconds < 10 * SLOWNESS, f"{seconds:.1f} s"
    until("worker and child are gone", lambda: not alive(pid) and not alive(child), 5 * SLOWNESS)


@case
def what_a_worker_leaves_behind_goes_with_it():
    for fake, state in (("child", "completed"), ("child exit_at=4 code=65", "failed")):
        job = daemon.submit(fake, steps=5)
        daemon.wait(job, state)
        with open(os.path.join(daemon.folder(job), "child.pid")) as file:
            child = int(file.read())
        until("the child is gone", lambda: not alive(child), 5 * SLOWNESS)


@case
def a_cancel_before_the_first_word_is_kept():
    job = daemon.submit("mute_ms=1500", steps=1000)
    daemon.wait(job, "starting")
    equal(daemon.act(job, "cancel"), 202)
    equal(daemon.job(job)["requested"], "cancel")
    daemon.wait(job, "cancelled", seconds=20)


@case
def a_worker_that_hangs_after_its_last_word_keeps_no_slot():
    job = daemon.submit("hang_after_done ignore_term", steps=3)
    begin = time.monotonic()
    done = daemon.wait(job, "completed", seconds=20)
    equal((done["reason"], done["attempt"]), (None, 1))
    assert time.monotonic() - begin < 12


@case
def a_crashed_worker_goes_on_from_its_last_checkpoint():
    job = daemon.submit("crash_once_at=27", steps=40)
    done = daemon.wait(job, "completed")
    equal((done["attempt"], done["reason"], done["error"]), (2, None, None))
    daemon.check_whole(job, 40)
    equal([row["attempt"] for row in daemon.rows(job)], [1] * 20 + [2] * 20)


@case
def crashes_with_new_steps_between_are_forgiven_for_ever():
    # Twelve deaths, each after steps that no attempt had made before.
    job = daemon.submit("crash_every=12", steps=100)
    done = daemon.wait(job, "completed")
    assert done["attempt"] > 8, done["attempt"]
    daemon.check_whole(job, 100)


@case
def a_job_that_always_dies_at_the_same_step_fails_after_five_restarts():
    job = daemon.submit("crash_at=12", steps=40)
    failed = daemon.wait(job, "failed")
    equal((failed["reason"], failed["attempt"]), ("signal", 6))
    assert "SIGSEGV" in failed["error"]["message"] and "6 workers" in failed["error"]["message"], failed["error"]
    equal(failed["last_checkpoint"]["step"], 10)
    # It can be taken up again, and is forgiven anew.
    equal(daemon.act(job, "resume"), 202)
    failed = daemon.wait(job, "failed")
    equal(failed["attempt"], 12)


@case
def a_worker_killed_by_someone_is_not_called_out_of_memory():
    job = daemon.submit("crash_at=200 signal=9 resident=50 step_ms=10", steps=300)
    failed = daemon.wait(job, "failed")
    equal(failed["reason"], "signal")
    message = failed["error"]["message"]
    assert "killed by signal 9 (" in message and "MiB" in message, message


@case
def a_pause_of_a_worker_that_was_stopped_is_bounded():
    with Daemon("--save-grace", "1", "--kill-grace", "0.5", "--stall-timeout", "60") as daemon:
        job = daemon.submit("step_ms=10", steps=1000)
        daemon.wait_step(job, 15)
        os.kill(daemon.worker(), signal.SIGSTOP)
        begin = time.monotonic()
        equal(daemon.act(job, "pause"), 202)
        paused = daemon.wait(job, "paused", seconds=30)
        assert time.monotonic() - begin < 20, time.monotonic() - begin
        equal((paused["reason"], paused["last_checkpoint"]["step"]), ("paused_by_user", 10))


@case
def a_kill_from_outside_while_it_runs_is_survived():
    job = daemon.submit("step_ms=10", steps=100)
    daemon.wait_step(job, 15)
    os.kill(worker_of(job), signal.SIGKILL)
    done = daemon.wait(job, "completed")
    equal(done["attempt"], 2)
    daemon.check_whole(job, 100)


@case
def an_exit_without_a_word_is_a_death():
    job = daemon.submit("exit_at=4 code=0", steps=10)
    failed = daemon.wait(job, "failed")
    equal((failed["reason"], failed["attempt"]), ("exit", 6))
    assert "code 0" in failed["error"]["message"], failed["error"]


@case
def what_would_only_happen_again_is_not_tried_again():
    for reason in ("bad_data", "bad_model", "non_finite_loss", "bad_job"):
        job = daemon.submit("fail_at=3", steps=10, labels={"reason": reason})
        failed = daemon.wait(job, "failed")
        equal((failed["reason"], failed["attempt"]), (reason, 1))
        equal(failed["error"], {"message": "the counting worker was told to fail", "detail": "as told"})


@case
def what_may_pass_is_tried_again_and_an_invented_reason_is_internal():
    for said, shown in (("device", "device"), ("cosmic rays", "internal")):
        job = daemon.submit("fail_at=3", steps=10, labels={"reason": said})
        failed = daemon.wait(job, "failed")
        equal((failed["reason"], failed["attempt"]), (shown, 6))


@case
def a_full_disk_pauses_the_job():
    job = daemon.submit("fail_at=13", steps=20, labels={"reason": "disk_full"})
    paused = daemon.wait(job, "paused")
    equal((paused["reason"], paused["last_checkpoint"]["step"]), ("disk_full", 10))
    assert paused["error"]["message"], paused


@case
def a_silent_worker_is_stalled_and_started_again():
    job = daemon.submit("hang_at=5 ignore_term", steps=10, every=2)
    again = until("a second attempt", lambda: [j for j in [daemon.job(job)] if j["attempt"] == 2], 30)[0]
    assert again["reason"] in ("stalled", None), again
    daemon.act(job, "cancel")
    daemon.wait(job, "cancelled", seconds=20)
    assert any(series["reason"] == "stalled" for series in restarts() if series["count"] > 0)


def restarts():
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = []
    for line in text.splitlines():
        if line.startswith("megatrain_worker_restarts_total{"):
            found.append({"reason": line.split('"')[1], "count": float(line.split()[-1])})
    return found


@case
def a_pause_that_is_not_obeyed_ends_in_a_pause_all_the_same():
    job = daemon.submit("ignore_requests ignore_term step_ms=20", steps=5000, every=10)
    daemon.wait_step(job, 11)
    equal(daemon.act(job, "pause"), 202)
    equal(daemon.act(job, "pause"), 202)
    equal(daemon.act(job, "resume"), 409)
    paused = daemon.wait(job, "paused", seconds=30)
    equal(paused["reason"], "paused_by_user")
    assert paused["last_checkpoint"]["step"] >= 10, paused
    daemon.act(job, "cancel")


@case
def cancel_overtakes_a_pause_and_nothing_overtakes_a_cancel():
    job = daemon.submit("ignore_requests step_ms=20", steps=5000)
    daemon.wait_step(job, 3)
    daemon.wait(job, "running")
    equal(daemon.act(job, "pause"), 202)
    equal(daemon.act(job, "cancel"), 202)
    equal(daemon.act(job, "cancel"), 202)
    equal(daemon.act(job, "pause"), 409)
    equal(daemon.act(job, "checkpoint"), 409)
    daemon.wait(job, "cancelled", seconds=30)


@case
def cancel_in_the_pause_between_two_attempts_is_at_once():
    with Daemon("--restart-delay", "60") as other:
        job = other.submit("crash_at=2", steps=10)
        until("the first death", lambda: other.job(job)["reason"] == "signal")
        equal(other.state_of(job), "starting")
        begin = time.monotonic()
        equal(other.act(job, "cancel"), 202)
        other.wait(job, "cancelled")
        assert time.monotonic() - begin < 10
        second = other.submit("crash_at=2", steps=10)
        until("the first death", lambda: other.job(second)["reason"] == "signal")
        equal(other.act(second, "pause"), 202)
        other.wait(second, "paused")


@case
def a_flood_of_log_lines_blocks_neither_worker_nor_daemon():
    job = daemon.submit("flood=30000 print=20000000", steps=30)
    worst = 0
    while daemon.state_of(job) in ("queued", "starting", "running"):
        begin = time.monotonic()
        daemon.get("/healthz")
        worst = max(worst, time.monotonic() - begin)
    equal(daemon.state_of(job), "completed")
    daemon.check_whole(job, 30)
    assert worst < 5, f"the API stood still for {worst:.1f} s"
    lines = [line for line in daemon.log().splitlines() if job in line]
    assert len(lines) < 400, f"{len(lines)} lines of the flood in the daemon's log"


@case
def garbage_on_the_socket_changes_nothing():
    job = daemon.submit("garbage", steps=20)
    done = daemon.wait(job, "completed")
    equal(done["progress"]["step"], 20)
    equal([c["step"] for c in daemon.get(f"/jobs/{job}/checkpoints")["data"]], [20, 10])
    assert "/etc/passwd" not in str(daemon.job(job))
    assert "not in the protocol" in daemon.log()


@case
def removed_checkpoints_are_forgotten():
    job = daemon.submit("step_ms=20", steps=60)
    until("step 10 saved", lambda: daemon.job(job)["last_checkpoint"])
    shutil.rmtree(os.path.join(daemon.folder(job), "checkpoints", "step-00000010"))
    daemon.wait(job, "completed")
    equal([c["step"] for c in daemon.get(f"/jobs/{job}/checkpoints")["data"]], [60, 50, 40, 30, 20])


@case
def delete_takes_ended_jobs_and_their_files():
    job = daemon.submit("step_ms=20", steps=1000)
    daemon.wait(job, "running")
    equal(daemon.ask("DELETE", f"/jobs/{job}")[0], 409)
    daemon.act(job, "cancel")
    daemon.wait(job, "cancelled")
    folder = daemon.folder(job)
    assert os.path.exists(folder)
    equal(daemon.ask("DELETE", f"/jobs/{job}")[0], 204)
    assert not os.path.exists(folder)
    equal(daemon.ask("GET", f"/jobs/{job}")[0], 404)
    equal(daemon.ask("DELETE", f"/jobs/{job}")[0], 404)
    until("nothing is left of it",
          lambda: not [name for name in os.listdir(os.path.join(daemon.state, "jobs")) if job in name])


@case
def the_same_key_is_the_same_job_even_at_once():
    document = daemon.document(steps=2)
    key = {"Idempotency-Key": "once"}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: daemon.ask("POST", "/jobs", document, key), range(16)))
    equal({status for status, _ in answers}, {201})
    equal(len({body["id"] for _, body in answers}), 1)
    equal(daemon.ask("POST", "/jobs", {**document, "name": "another"}, key)[0], 409)
    folders = [name for name in os.listdir(os.path.join(daemon.state, "jobs"))]
    jobs = []
    after = ""
    while True:
        page = daemon.get(f"/jobs?limit=7{after}")
        jobs += [job["id"] for job in page["data"]]
        if not page["has_more"]:
            break
        after = "&after=" + page["next"]
    equal(sorted(name for name in folders if not name.startswith(".")), sorted(jobs))


@case
def a_wrong_document_is_refused_with_every_error_and_leaves_nothing():
    before = set(os.listdir(os.path.join(daemon.state, "jobs")))
    status, problem = daemon.ask("POST", "/jobs", {"model": {"path": "/etc"}, "training": {"learning_rat": 1},
                                                   "dataset": {"path": "../../../etc/passwd"}})
    equal(status, 422)
    pointers = {error["pointer"] for error in problem["errors"]}
    assert {"/model/path", "/training/learning_rat", "/dataset/path"} <= pointers, pointers
    status, problem = daemon.ask("POST", "/jobs", {**daemon.document(), "dataset": {"path": "missing.txt"}})
    equal((status, problem["errors"][0]["pointer"]), (422, "/dataset/path"))
    open(os.path.join(daemon.state, "datasets", "empty.txt"), "w").close()
    status, problem = daemon.ask("POST", "/jobs", {**daemon.document(), "dataset": {"path": "empty.txt"}})
    equal((status, problem["errors"][0]["pointer"]), (422, "/dataset/path"))
    equal(set(os.listdir(os.path.join(daemon.state, "jobs"))), before)


@case
def a_missing_worker_program_fails_the_job_and_not_the_daemon():
    with Daemon("--restart-delay", "0.01", worker="/etc/passwd") as other:
        job = other.submit(steps=3)
        failed = other.wait(job, "failed")
        equal(failed["reason"], "internal")
        assert "could not be started" in failed["error"]["message"], failed["error"]
        equal(other.get("/readyz")["status"], "ready")


@case
def several_workers_run_at_the_same_time():
    with Daemon("--workers", "3") as other:
        jobs = [other.submit("step_ms=20", steps=1000) for _ in range(4)]
        until("three run", lambda: [other.state_of(job) for job in jobs] == ["running"] * 3 + ["queued"])
        other.act(jobs[1], "cancel")
        other.wait(jobs[3], "running")
        equal(other.state_of(jobs[1]), "cancelled")


@case
def at_the_end_nothing_runs_and_the_daemon_is_small():
    until("all jobs rest", lambda: not [job for state in ("queued", "starting", "running")
                                        for job in daemon.get(f"/jobs?state={state}")["data"]])
    equal(daemon.worker(), 0)
    with open(f"/proc/{daemon.process.pid}/status") as file:
        resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    assert "asan" in os.environ.get("MT_BUILD", "") or resident < 64 * 1024, f"{resident} kB after all this"
    equal(daemon.stop(), 0)
    daemon.close()


run_cases()
