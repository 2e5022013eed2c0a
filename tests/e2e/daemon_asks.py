#!/usr/bin/env python3
"""Calls whose answer a process makes (GET /models and /devices, POST /plan and /datasets/preview, and the look at a
submitted job): one that hangs, dies or talks nonsense costs nobody but the client that asked.
time limit: 300 s"""
import concurrent.futures
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import BUILD, COUNTING_WORKER, SLOWNESS, Daemon, alive, case, equal, run_cases, until  # noqa: E402

QUICK_S = min(SLOWNESS, 9.0)  # less than most calls hang below
ASKING = ("GET /models", "GET /devices", "POST /plan", "POST /datasets/preview")


class Asked(Daemon):
    """A daemon whose worker does `what` (shell) when it is asked one of `tasks`, after leaving a mark."""

    def __init__(self, what, tasks="models|devices|plan|preview"):
        super().__init__(start=False)
        self.begun = os.path.join(self.root, "begun")
        self.environment["MEGATRAIN_WORKER"] = worker = os.path.join(self.root, "worker")
        with open(worker, "w") as file:
            file.write(f'#!/bin/sh\ncase "$2" in {tasks}) echo $$ >> {self.begun}; {what} ;; esac\n'
                       f'exec {COUNTING_WORKER} "$@"\n')
        os.chmod(worker, 0o755)
        self.start()

    def pids(self):
        """Of the processes that were asked."""
        try:
            with open(self.begun) as file:
                return [int(line) for line in file]
        except FileNotFoundError:
            return []

    def call(self, line, timeout=60):
        """Status, headers, body, and the seconds that it took."""
        method, path = line.split()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        begin = time.monotonic()
        connection.request(method, path, json.dumps(self.document()) if method == "POST" else None,
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if "json" in answer.headers["Content-Type"]:
            body = json.loads(body)
        return answer.status, answer.headers, body, time.monotonic() - begin

    def send(self, line):
        """A client that has asked, and does not read."""
        method, path = line.split()
        body = json.dumps(self.document()) if method == "POST" else ""
        link = socket.create_connection(("127.0.0.1", self.port))
        link.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        return link

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))


def quick(daemon, *lines):
    for line in lines:
        status, _, _, seconds = daemon.call(line)
        assert status in (200, 201), (line, status)
        assert seconds < QUICK_S, (line, seconds)


@case
def twenty_calls_that_hang_stall_nobody_and_end_with_a_clear_error():
    with Asked("exec sleep 300") as daemon, concurrent.futures.ThreadPoolExecutor(64) as pool:
        models = [pool.submit(daemon.call, "GET /models") for _ in range(20)]
        others = [pool.submit(daemon.call, line) for line in ASKING[1:3] for _ in range(4)]
        look = pool.submit(daemon.call, ASKING[3])
        until("they hang", lambda: len(daemon.pids()) >= 4 + 2 * 4 + 1)
        for _ in range(20):
            quick(daemon, "GET /healthz", "GET /jobs", "GET /metrics", "GET /")
        quick(daemon, "POST /jobs", "POST /jobs")
        job = daemon.submit(steps=3)
        daemon.wait(job, "completed")
        status, headers, body, _ = daemon.call(ASKING[3])
        equal((status, "another look" in body["detail"], int(headers["Retry-After"]) > 0), (503, True, True))
        ends = {"late": [], "turned away": []}
        for answer in models:
            status, headers, body, seconds = answer.result()
            equal((status, body["status"], int(headers["Retry-After"]) > 0), (503, 503, True))
            late = "--task models gave no answer in 20 s" in body["detail"]
            assert late or "Too many of these calls are under way" in body["detail"], body
            ends["late" if late else "turned away"].append(seconds)
        equal({end: len(seconds) for end, seconds in ends.items()}, {"late": 4, "turned away": 16})
        assert min(ends["late"]) > 19 and max(ends["late"]) < 20 + 4 * SLOWNESS, ends
        assert max(ends["turned away"]) < 11 + 4 * SLOWNESS, ends
        for answer, wanted in zip(others + [look], [15] * 4 + [5] * 4 + [20]):
            status, _, body, seconds = answer.result()
            equal(status, 503)
            assert f"gave no answer in {wanted} s" in body["detail"], body
        until("no process is left", lambda: not any(map(alive, daemon.pids())), 5 * SLOWNESS)
        quick(daemon, "GET /healthz")


@case
def a_call_over_the_bound_is_turned_away_at_once():
    with Asked("exec sleep 300") as daemon:
        before = daemon.threads()
        links = [daemon.send("GET /models") for _ in range(32)]
        until("they hang", lambda: len(daemon.pids()) == 4)
        until("all of them are taken", lambda: daemon.threads() >= before + 32)
        status, headers, body, seconds = daemon.call("GET /models")
        equal((status, headers["Retry-After"]), (503, "2"))
        assert seconds < QUICK_S and "Too many" in body["detail"], (seconds, body)
        quick(daemon, "GET /healthz", "POST /jobs")
        for link in links:
            link.close()


@case
def clients_that_go_away_leave_nothing_behind():
    with Asked("sleep 300") as daemon:  # a child of the shell: the whole group is to go
        quick(daemon, "GET /healthz", "POST /jobs")
        time.sleep(0.5)
        before = daemon.descriptors(), daemon.threads()
        links = [daemon.send(line) for line in ASKING for _ in range(6)]
        until("they hang", lambda: len(daemon.pids()) >= 3 * 4 + 1)
        for link in links:
            link.close()

        def left():
            return subprocess.run(["ps", "-eo", "pgid="], capture_output=True, text=True).stdout.split()
        until("no process is left", lambda: not {str(pid) for pid in daemon.pids()} & set(left()), 6 * SLOWNESS)
        assert len(daemon.pids()) < len(links), "nobody is asked for those who waited and went away"
        until("no descriptor and no thread is left",
              lambda: daemon.descriptors() <= before[0] and daemon.threads() <= before[1], 6 * SLOWNESS)


@case
def a_submission_is_kept_though_its_client_went_away():
    with Asked("sleep 1", "probe") as daemon:
        daemon.send("POST /jobs").close()
        until("it is looked at", daemon.pids)
        until("the job is there", lambda: len(daemon.get("/jobs")["data"]) == 1)


@case
def one_that_dies_is_told_from_one_that_is_silent():
    for what, *parts in (
            ("kill -SEGV $$", "died by SIGSEGV before it had answered"),
            ("kill -KILL $$", "died by SIGKILL before it had answered (perhaps for want of memory)"),
            ("echo first >&2; echo 'the disk is on fire' >&2; exit 74", "ended with status 74 and no answer: the disk is on fire"),
            ("head -c 300000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo last >&2; exit 1", "status 1", "answer: last"),
            ("exit 3", "ended with status 3 and no answer"),
            ("echo '{'; exit 0", "is no JSON"),
            ("exit 0", "is no JSON"),
            ("echo '{}'; exit 0", "another form"),
            ("head -c 9000000 /dev/zero; exit 0", "answered more than 8 MiB"),
            ("exec >&-; sleep 300", "closed its output, then hung")):
        with Asked(what) as daemon:
            for line in ASKING:
                status, _, body, seconds = daemon.call(line)
                equal((what, line, status), (what, line, 500))
                assert all(part in body["detail"] for part in parts), (what, line, body)
                assert seconds < 3 * SLOWNESS, (what, line, seconds)
            until("no process is left", lambda: not any(map(alive, daemon.pids())), 5 * SLOWNESS)


@case
def a_worker_that_is_not_there_is_named():
    with Asked("rm $0; exit 0") as daemon:
        daemon.call("GET /models")
        status, _, body, _ = daemon.call("GET /models")
        equal(status, 500)
        assert "cannot start" in body["detail"] and "No such file" in body["detail"], body


@case
def the_daemon_stops_at_once_though_calls_hang():
    with Asked("exec sleep 300") as daemon:
        links = [daemon.send("GET /models") for _ in range(12)]
        until("they hang", lambda: len(daemon.pids()) == 4)
        begin = time.monotonic()
        equal(daemon.stop(), 0)
        assert time.monotonic() - begin < min(4 * SLOWNESS, 15), time.monotonic() - begin
        equal([pid for pid in daemon.pids() if alive(pid)], [])
        for link in links:
            with link:
                assert b" 503 " in link.recv(1000), "each gets an answer"


@case
def a_submission_whose_look_the_stop_breaks_off_is_refused_and_leaves_nothing():
    with Asked("exec sleep 300", "probe") as daemon, concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(daemon.call, "POST /jobs") for _ in range(8)]  # four are looked at, four wait
        until("they hang", lambda: len(daemon.pids()) == 4)
        equal(daemon.stop(), 0)
        for answer in answers:
            status, headers, body, _ = answer.result()
            equal((status, int(headers["Retry-After"]) > 0), (503, True))
        equal(os.listdir(os.path.join(daemon.state, "jobs")), [])
        equal([pid for pid in daemon.pids() if alive(pid)], [])
        equal(daemon.start().get("/jobs")["data"], [])


@case
def devices_are_looked_at_no_more_often_than_every_two_seconds():
    with Asked("echo '{\"data\": [], \"has_more\": false, \"next\": null}'; exit 0") as daemon:
        begin, count = time.monotonic(), 0
        while len(daemon.pids()) < 3:
            equal(daemon.call("GET /devices")[0], 200)
            count += 1
        assert time.monotonic() - begin > 2 * 2, "the second and the third look come 2 s after the one before"
        assert count > 3, "what was seen is told again"


@case
def many_connections_keep_no_job_from_running():
    with Daemon(prefix=["sh", "-c", 'ulimit -Sn 200; exec "$@"', "sh"]) as daemon:
        links = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(400)]
        for link in links:
            link.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert all(b" 200 " in link.recv(1000) for link in links)
        daemon.wait(daemon.submit(steps=3), "completed")
        for link in links:
            link.close()


@case
def a_worker_that_answers_ends_with_the_daemon_that_asked():
    reading, writing = os.pipe()
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys\n"
         "child = subprocess.Popen(sys.argv[1:], stdin=0)\nprint(child.pid, flush=True)\nchild.wait()\n",
         os.path.join(BUILD, "megatrain-worker"), "--task", "models"], stdin=reading, stdout=subprocess.PIPE)
    os.close(reading)
    worker = int(parent.stdout.readline())

    def blocked():  # for what it reads: it is past its start
        with open(f"/proc/{worker}/wchan") as file, open(f"/proc/{worker}/cmdline", "rb") as words:
            return "pipe" in file.read() and b"models" in words.read()
    until("the worker waits for its question", blocked)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until("the worker ends", lambda: not alive(worker), 5 * SLOWNESS)
    os.close(writing)


run_cases()
