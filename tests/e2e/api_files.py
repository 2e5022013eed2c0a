#!/usr/bin/env python3
"""What a job's folder holds, over HTTP: step series, log (also followed), checkpoints."""
import concurrent.futures
import http.client
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from api import SLOWNESS, UNKNOWN_ID, Server, case, equal, run_cases  # noqa: E402

server = Server()


def step_row(step, **more):
    return {"step": step, "epoch": step / 100, "loss": 5.5 / step, "grad_norm": 1.25, "learning_rate": 0.0003,
            "tokens": 512, "time": "2026-01-31T12:00:00.123Z", **more}


def write(job, name, rows, end=""):
    with open(os.path.join(server.job_folder(job), name), "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.write(end)


def append(job, name, text):
    with open(os.path.join(server.job_folder(job), name), "a") as file:
        file.write(text)


def steps(path):
    page = server.get(path).json
    return [row["step"] for row in page["data"]], page["has_more"]


@case
def rows_come_as_they_were_written():
    job = server.submit()
    write(job, "metrics.jsonl", [step_row(s, val_loss=1.5) for s in range(1, 4)])
    answer = server.get(f"/jobs/{job}/metrics")
    equal(answer.headers["Content-Type"], "application/json")
    equal(answer.json, {"data": [step_row(s, val_loss=1.5) for s in range(1, 4)], "has_more": False})


@case
def a_job_without_files_has_empty_lists():
    job = server.submit()
    equal(server.get(f"/jobs/{job}/metrics").json, {"data": [], "has_more": False})
    equal(server.get(f"/jobs/{job}/logs").json, {"data": [], "has_more": False, "next": "b0"})
    equal(server.get(f"/jobs/{job}/checkpoints").json, {"data": [], "has_more": False, "next": None})
    for name in ["metrics", "logs", "checkpoints"]:
        server.get(f"/jobs/{UNKNOWN_ID}/{name}").problem(404)


@case
def since_step_and_limit_page_through_a_long_series():
    job = server.submit()
    write(job, "metrics.jsonl", [step_row(s) for s in range(1, 5001)])
    equal(steps(f"/jobs/{job}/metrics"), (list(range(1, 1001)), True))
    equal(steps(f"/jobs/{job}/metrics?limit=10000"), (list(range(1, 5001)), False))
    equal(steps(f"/jobs/{job}/metrics?since_step=5000"), ([], False))
    equal(steps(f"/jobs/{job}/metrics?since_step=9223372036854775807"), ([], False))
    for since in list(range(0, 5000, 97)) + [1, 2, 4998, 4999]:
        wanted = list(range(since + 1, min(since + 4, 5001)))
        equal(steps(f"/jobs/{job}/metrics?since_step={since}&limit=3"), (wanted, since + 3 < 5000))
    equal(steps(f"/jobs/{job}/metrics?since_step=4997&limit=3"), ([4998, 4999, 5000], False))
    for bad in ["since_step=-1", "since_step=x", "since_step=1.5", "limit=0", "limit=10001", "since_step=",
                "since_step=9223372036854775808", "from=3"]:
        server.get(f"/jobs/{job}/metrics?{bad}").problem(400)


@case
def a_large_series_is_searched_and_not_read():
    job = server.submit()
    row = '{"step": %d, "loss": 1.0, "padding": "' + "x" * 150 + '"}\n'
    with open(os.path.join(server.job_folder(job), "metrics.jsonl"), "w") as file:
        file.writelines(row % s for s in range(1, 500001))

    def read_bytes():
        with open(f"/proc/{server.process.pid}/io") as file:
            return int(next(line for line in file if line.startswith("rchar")).split()[1])

    before = read_bytes()
    equal(steps(f"/jobs/{job}/metrics?since_step=444444&limit=2"), ([444445, 444446], True))
    equal(steps(f"/jobs/{job}/metrics?since_step=499999"), ([500000], False))
    assert read_bytes() - before < 8 << 20, "of about 95 MB"


@case
def torn_and_damaged_lines_are_passed_over():
    job = server.submit()
    whole = [json.dumps(step_row(s)) for s in range(1, 6)]
    text = "\n".join([whole[0], "", whole[1], '{"step": 3, "lo', "not json", "[1]", "\0\0", whole[2],
                      '{"step": 3}',  # a step twice: the first one counts
                      "x" * 3000000, whole[3]]) + "\n" + whole[4][:20]
    append(job, "metrics.jsonl", text)
    equal(steps(f"/jobs/{job}/metrics"), ([1, 2, 3, 4], False))
    append(job, "metrics.jsonl", whole[4][20:])
    equal(steps(f"/jobs/{job}/metrics"), ([1, 2, 3, 4], False))
    append(job, "metrics.jsonl", "\n")
    equal(steps(f"/jobs/{job}/metrics"), ([1, 2, 3, 4, 5], False))
    equal(steps(f"/jobs/{job}/metrics?since_step=3"), ([4, 5], False))


@case
def what_is_no_plain_file_is_not_read():
    job = server.submit()
    folder = server.job_folder(job)
    os.symlink("/etc/passwd", os.path.join(folder, "metrics.jsonl"))
    os.mkfifo(os.path.join(folder, "log.jsonl"))
    server.get(f"/jobs/{job}/metrics").problem(500)
    server.get(f"/jobs/{job}/logs").problem(500)


def log_row(i, **more):
    return {"time": f"2026-01-31T12:00:{i % 60:02d}.000Z", "level": "info", "message": f"message {i}", **more}


@case
def the_log_is_paged_with_a_cursor_that_stays_good():
    job = server.submit()
    rows = [log_row(i) for i in range(2500)]
    write(job, "log.jsonl", rows)
    found, after = [], ""
    while True:
        page = server.get(f"/jobs/{job}/logs?limit=999{after}").json
        found += page["data"]
        after = "&after=" + page["next"]
        if not page["has_more"]:
            break
    equal(found, rows)
    append(job, "log.jsonl", json.dumps(log_row(2500)) + "\n" + '{"torn')
    page = server.get(f"/jobs/{job}/logs?limit=999{after}").json
    equal((page["data"], page["has_more"]), ([log_row(2500)], False))
    for bad in ["b1", "0", "b", "b-1", "bx", "b99999999", "b999999999999999999999", "", "b0x"]:
        server.get(f"/jobs/{job}/logs?after={bad}").problem(400)


@case
def the_log_as_plain_text_is_whole_and_harmless():
    job = server.submit()
    write(job, "log.jsonl", [log_row(i) for i in range(3000)] +
          [{"time": "t", "level": "warning", "message": "two\nlines\x1b[31m", "step": 7, "why": "a b"}, {"message": "x"}])
    answer = server.get(f"/jobs/{job}/logs", Accept="text/plain")
    equal(answer.headers["Content-Type"], "text/plain; charset=utf-8")
    lines = answer.body.decode().split("\n")
    equal(lines[:2], ["2026-01-31T12:00:00.000Z info message 0", "2026-01-31T12:00:01.000Z info message 1"])
    equal(lines[2999:], ["2026-01-31T12:00:59.000Z info message 2999", "t warning two", '    lines?[31m step=7 why="a b"',
                         "- - x", ""])
    for accept, kind in [("text/plain;q=0.1, application/json", "application/json"), ("*/*", "application/json"),
                         ("text/*", "text/plain; charset=utf-8"), ("text/html", "application/json"),
                         ("application/x-ndjson", "application/x-ndjson"),
                         ("text/plain, application/json;q=0", "text/plain; charset=utf-8")]:
        equal(server.get(f"/jobs/{job}/logs", Accept=accept).headers["Content-Type"], kind)


class Follower(threading.Thread):
    """Reads a followed log to its end."""

    def __init__(self, job, query="follow=1", **headers):
        super().__init__(daemon=True)
        self.link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.link.request("GET", f"/jobs/{job}/logs?{query}", headers=headers)
        self.lines, self.fault = [], None
        self.response = self.link.getresponse()
        equal(self.response.status, 200)
        self.start()

    def run(self):
        try:
            for line in self.response:
                self.lines.append(line.decode())
        except Exception as fault:
            self.fault = fault

    def wait_for(self, count):
        deadline = time.monotonic() + 10
        while len(self.lines) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        equal(len(self.lines), count)


@case
def a_followed_log_goes_on_until_the_job_ends():
    job = server.submit(state="running")  # with no log yet
    rows, plain = Follower(job), Follower(job, "follow=true", Accept="text/plain")
    equal(rows.response.headers["Content-Type"], "application/x-ndjson")
    equal(rows.response.headers["X-Accel-Buffering"], "no")
    time.sleep(0.5)
    equal(rows.lines, [])
    append(job, "log.jsonl", json.dumps(log_row(0)) + "\n")
    rows.wait_for(1)
    text = json.dumps(log_row(1)) + "\n"
    append(job, "log.jsonl", text[:10])  # half a line
    time.sleep(0.6)
    equal(len(rows.lines), 1)
    append(job, "log.jsonl", text[10:])
    rows.wait_for(2)
    late = Follower(job, "follow=1&after=" + server.get(f"/jobs/{job}/logs?limit=1").json["next"])
    late.wait_for(1)
    append(job, "log.jsonl", "".join(json.dumps(log_row(i)) + "\n" for i in range(2, 2000)))
    server.post(f"/jobs/{job}/cancel", b"")
    append(job, "log.jsonl", json.dumps(log_row(2000, last=True)) + "\n")
    for follower in (rows, plain, late):
        follower.join(20)
        assert not follower.is_alive() and follower.fault is None, follower.fault
    equal([json.loads(line) for line in rows.lines], [log_row(i) for i in range(2000)] + [log_row(2000, last=True)])
    equal(len(plain.lines), 2001)
    equal([json.loads(line) for line in late.lines][0], log_row(1))


@case
def following_a_queued_or_paused_job_waits_and_an_ended_one_ends():
    for state in ["completed", "failed", "cancelled"]:
        job = server.submit(state=state)
        write(job, "log.jsonl", [log_row(0)])
        follower = Follower(job)
        follower.join(10)
        assert not follower.is_alive()
        equal(len(follower.lines), 1)
    waiting = [Follower(server.submit(state=state)) for state in ["queued", "paused", "starting"]]
    time.sleep(2.5)
    assert all(follower.is_alive() for follower in waiting)


@case
def waiting_streams_cost_next_to_no_time():
    def cpu_seconds():
        with open(f"/proc/{server.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    job = server.submit(state="running")
    followers = [Follower(job) for _ in range(50)]
    time.sleep(0.5)
    before = cpu_seconds()
    time.sleep(2)
    assert cpu_seconds() - before < 0.3 * SLOWNESS, f"{cpu_seconds() - before} s of CPU in 2 s"
    server.post(f"/jobs/{job}/cancel", b"")
    for follower in followers:
        follower.join(10)
        assert not follower.is_alive()


@case
def a_job_that_is_removed_ends_its_streams():
    job = server.submit(state="paused")
    follower = Follower(job)
    time.sleep(0.3)
    server.post(f"/jobs/{job}/cancel", b"")
    server.ask("DELETE", f"/jobs/{job}")
    follower.join(10)
    assert not follower.is_alive() and follower.fault is None


@case
def many_streams_beside_many_requests_lose_nothing():
    # libmicrohttpd before 1.0.3 could pass over a connection that was ready while another one was suspended.
    jobs = [server.submit(state="running") for _ in range(4)]
    followers = [Follower(jobs[i % 4]) for i in range(120)]
    stop = threading.Event()
    slowest = [0.0]

    def ask(_):
        count = 0
        while not stop.is_set():
            begin = time.monotonic()
            equal(server.get("/version").status, 200)
            slowest[0] = max(slowest[0], time.monotonic() - begin)
            count += 1
        return count

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        counts = [pool.submit(ask, i) for i in range(8)]
        for i in range(40):
            for job in jobs:
                append(job, "log.jsonl", json.dumps(log_row(i)) + "\n")
            time.sleep(0.1)
        for job in jobs:
            server.post(f"/jobs/{job}/cancel", b"")
        for follower in followers:
            follower.join(30)
        stop.set()
        assert sum(c.result() for c in counts) > 100 / SLOWNESS
    for follower in followers:
        assert not follower.is_alive() and follower.fault is None, follower.fault
        equal([json.loads(line)["message"] for line in follower.lines], [f"message {i}" for i in range(40)])
    assert slowest[0] < 5 * SLOWNESS, f"a request took {slowest[0]:.1f} s"


def write_checkpoint(job, step, damage=None):
    folder = os.path.join(server.job_folder(job), "checkpoints", f"step-{step:08d}")
    os.makedirs(os.path.join(folder, "megatrain"))
    files = {"model.safetensors": 100, "megatrain/optimizer.safetensors": 200}
    for name, size in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"x" * size)
    manifest = {"format": 1, "step": step, "loss": 2.125, "created_at": "2026-01-31T12:00:00.123Z", "bytes": 300,
                "algorithm": "xxh3-128", "files": [{"name": n, "bytes": s, "hash": "0" * 32} for n, s in files.items()]}
    with open(os.path.join(folder, "megatrain", "manifest.json"), "w") as file:
        json.dump(manifest, file)
    if damage == "truncated":
        os.truncate(os.path.join(folder, "model.safetensors"), 99)
    elif damage == "missing":
        os.remove(os.path.join(folder, "model.safetensors"))
    elif damage == "manifest":
        os.truncate(os.path.join(folder, "megatrain", "manifest.json"), 30)
    return folder


@case
def checkpoints_are_listed_newest_first_and_damaged_ones_are_not_verified():
    job = server.submit()
    folder = write_checkpoint(job, 50)
    for step, damage in [(100, None), (150, "truncated"), (200, "missing"), (250, "manifest")]:
        write_checkpoint(job, step, damage)
    root = os.path.dirname(folder)
    os.symlink("step-00000100", os.path.join(root, "final"))
    os.makedirs(os.path.join(root, ".tmp-step-00000300"))
    os.makedirs(os.path.join(root, "step-x"))
    page = server.get(f"/jobs/{job}/checkpoints").json
    equal((page["has_more"], page["next"]), (False, None))
    equal([(c["step"], c["verified"]) for c in page["data"]],
          [(250, False), (200, False), (150, False), (100, True), (50, True)])
    equal(page["data"][-1], {"step": 50, "path": folder, "bytes": 300, "loss": 2.125,
                             "created_at": "2026-01-31T12:00:00.123Z", "verified": True})
    equal(page["data"][0]["bytes"], None)


@case
def it_stops_cleanly_with_streams_open():
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 5


run_cases()
