#!/usr/bin/env python3
"""The command line as the daemon's client, against a pretended daemon: what it sends, shows and exits with.

The pretended daemon speaks the API of the design over TCP or a Unix socket and can go away in the middle.
"""
import http.server
import json
import os
import pty
import re
import select
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

MEGATRAIN = os.path.join(os.environ.get("MT_BUILD", "build"), "megatrain")
MEGATRAIN = os.path.abspath(MEGATRAIN)
ID = "01J00000000000000000000000"


class Daemon:
    """State of the pretended daemon, shared by its connections."""

    def __init__(self):
        self.step, self.last, self.end = 0, 10, "completed"
        self.requests, self.errors, self.answer_late = [], [], 0
        self.gone = False  # cuts the connections that are still open

    def job(self):
        state = self.end if self.step >= self.last else "running"
        return {"id": ID, "name": "n\x1b[31m", "state": state, "reason": "bad_data" if state == "failed" else None,
                "error": {"message": "no row has text", "detail": None} if state == "failed" else None,
                "progress": {"step": self.step, "max_steps": 10, "loss": 1.5, "tokens_per_second": 12345.6,
                             "eta_seconds": 75.0},
                "created_at": "2026-01-01T00:00:00.000Z", "labels": {"team": "red"},
                "config": {"logging": {"log_interval": 3}}, "last_checkpoint": {"path": "/x/step-00000010"}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    daemon = None

    def log_message(self, *arguments):
        pass

    def address_string(self):
        return "client"

    def reply(self, status, value, kind="application/json"):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def problem(self, status, title, **more):
        self.reply(status, {"type": "about:blank", "title": title, "status": status, **more},
                   "application/problem+json")

    def do_GET(self):
        daemon = self.daemon
        if daemon.gone:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        daemon.requests.append(("GET", self.path, dict(self.headers), None))
        if self.headers.get("Authorization") == "Bearer wrong":
            return self.problem(401, "Unauthorized")
        if self.path.startswith("/jobs?"):
            first = "after=" not in self.path
            return self.reply(200, {"data": [daemon.job()], "has_more": first, "next": "c1" if first else None})
        if self.path == f"/jobs/{ID}":
            daemon.step = min(daemon.step + 2, daemon.last)
            return self.reply(200, daemon.job())
        if self.path.startswith(f"/jobs/{ID}/metrics"):
            since = int(re.search(r"since_step=(\d+)", self.path).group(1))
            rows = [{"step": i, "loss": 3 / i, "learning_rate": 1e-4, "grad_norm": 0.5, "tokens_per_second": 1e4}
                    for i in range(since + 1, daemon.step + 1)]
            return self.reply(200, {"data": rows[:3], "has_more": len(rows) > 3})
        if self.path.startswith(f"/jobs/{ID}/logs"):
            return self.reply(200, b"a line\n", "text/plain")
        return self.problem(404, "Not found", detail="there is no job of this id")

    def do_DELETE(self):
        self.daemon.requests.append(("DELETE", self.path, dict(self.headers), None))
        if self.path != f"/jobs/{ID}":
            return self.problem(404, "Not found", detail="there is no job of this id")
        self.send_response(204)
        self.end_headers()

    def do_POST(self):
        daemon = self.daemon
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        daemon.requests.append(("POST", self.path, dict(self.headers), json.loads(body) if body else None))
        if self.path == "/jobs" and daemon.errors:
            return self.problem(422, "The job is wrong", errors=daemon.errors)
        if self.path == "/jobs":
            if daemon.answer_late > 0:  # takes the job, and is gone before the answer
                daemon.answer_late -= 1
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return None
            return self.reply(201, daemon.job())
        if self.path.endswith("/pause"):
            return self.problem(409, "Conflict", detail="the job is paused already")
        if self.path.endswith("/cancel"):  # of a running job: it saves first
            return self.reply(202, {**daemon.job(), "state": "running", "requested": "cancel"})
        return self.reply(202, {**daemon.job(), "state": "queued"})


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class TcpServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


def serve(daemon, address):
    handler = type("Bound", (Handler,), {"daemon": daemon})
    server = UnixServer(address, handler) if isinstance(address, str) else TcpServer(address, handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


def stop(server):
    server.shutdown()
    server.server_close()


class Case:
    """A fresh daemon, a folder, and `run`."""

    def __init__(self, folder):
        self.folder = folder
        self.daemon = Daemon()
        self.server = serve(self.daemon, ("127.0.0.1", 0))
        self.port = self.server.server_address[1]
        self.environment = {**os.environ, "MEGATRAIN_URL": f"http://127.0.0.1:{self.port}/",
                            "http_proxy": "http://127.0.0.1:1"}  # no proxy stands before this machine
        self.environment.pop("MEGATRAIN_TOKEN", None)

    def run(self, *arguments, **environment):
        return subprocess.run([MEGATRAIN, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60,
                              env={**self.environment, **environment})

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def equal(found, wanted):
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


def submit_sends_absolute_paths_settings_and_a_key(case):
    case.write("my job.yaml", "model: {architecture: llama, tokenizer: bytes}\ndataset: {path: [texts, /abs/b]}\n"
               "training: {num_steps: 3, learning_rate: 3e-4}\n")
    result = case.run("submit", "my job.yaml", "--set", "training.max_steps=9", "--set", "labels.a=b")
    equal((result.returncode, result.stdout), (0, ID + "\n"))
    method, path, headers, body = case.daemon.requests[-1]
    equal((method, path), ("POST", "/jobs"))
    equal(body, {"name": "my-job", "model": {"architecture": "llama", "tokenizer": "bytes"},
                 "dataset": {"path": [os.path.join(case.folder, "texts"), "/abs/b"]},
                 "training": {"max_steps": 9, "learning_rate": 3e-4}, "labels": {"a": "b"}})
    assert len(headers["Idempotency-Key"]) == 26
    equal(headers["Content-Type"], "application/json")


def submit_asks_again_with_the_same_key_when_the_answer_is_lost(case):
    case.write("job.yaml", "name: x\n")
    case.daemon.answer_late = 1
    result = case.run("submit", "job.yaml")
    equal((result.returncode, result.stdout), (0, ID + "\n"))
    keys = [headers["Idempotency-Key"] for _, _, headers, _ in case.daemon.requests]
    equal(len(keys), 2)
    equal(keys[0], keys[1])


def each_error_is_shown_with_its_line(case):
    case.write("job.yaml", "name: x\ntraining:\n  lr: 1\ndataset:\n  path:\n    - a\n    - b\n")
    case.daemon.errors = [
        {"pointer": "/training/lr", "detail": 'unknown key "lr"; did you mean "learning_rate"?',
         "suggestion": "learning_rate"},
        {"pointer": "/dataset/path/1", "detail": "cannot use b"}, {"pointer": "/model", "detail": "missing"}]
    result = case.run("submit", "job.yaml")
    equal((result.returncode, result.stdout), (78, ""))
    equal(result.stderr, 'job.yaml:3: /training/lr: unknown key "lr"; did you mean "learning_rate"?\n'
          "job.yaml:7: /dataset/path/1: cannot use b\n"
          "job.yaml: /model: missing\n"
          "megatrain: 3 errors in the job\n")


def a_file_that_is_no_yaml_is_refused_with_its_line(case):
    case.write("job.yaml", "name: x\ntraining: {lr: 1\nfoo: }\n")
    result = case.run("submit", "job.yaml")
    equal(result.returncode, 78)
    assert "line " in result.stderr and not case.daemon.requests, result.stderr
    equal(case.run("submit", "absent.yaml").returncode, 78)


def watch_prints_plain_lines_and_exits_0(case):
    result = case.run("watch", ID)
    equal(result.returncode, 0)
    assert "\r" not in result.stdout and "\x1b" not in result.stdout
    equal(result.stdout.splitlines(),
          ["running", "step 2/10  loss 1.5000  lr 0.0001  grad 0.5  10,000 tokens/s  ETA 1 min 15 s",
           "step 3/10  loss 1.0000  lr 0.0001  grad 0.5  10,000 tokens/s  ETA 1 min 15 s",
           "step 6/10  loss 0.5000  lr 0.0001  grad 0.5  10,000 tokens/s  ETA 1 min 15 s",
           "step 9/10  loss 0.3333  lr 0.0001  grad 0.5  10,000 tokens/s  ETA 1 min 15 s",
           "step 10/10  loss 0.3000  lr 0.0001  grad 0.5  10,000 tokens/s", "completed",
           "checkpoint /x/step-00000010", "Ask it:",
           "  megatrain generate --model /x/step-00000010 --prompt '...'    # goes on from a text",
           "  megatrain generate --model /x/step-00000010 --message '...'   # answers, when it has learnt answers"])


def watch_says_how_a_job_ended(case):
    for end, code in (("failed", 70), ("cancelled", 1), ("paused", 75)):
        case.daemon.step, case.daemon.end = 8, end
        result = case.run("watch", "last")
        equal((end, result.returncode), (end, code))
        assert "megatrain generate" not in result.stdout, result.stdout
    case.daemon.step, case.daemon.end = 8, "failed"
    assert "failed (bad_data): no row has text" in case.run("watch", ID).stdout
    equal(case.run("watch", "01X").returncode, 66)


def watch_waits_for_a_daemon_that_restarts(case):
    case.daemon.last = 40
    process = subprocess.Popen([MEGATRAIN, "watch", ID], stdout=subprocess.PIPE, text=True, env=case.environment)
    time.sleep(1)
    case.daemon.gone = True
    stop(case.server)
    time.sleep(1.5)
    case.daemon.gone = False
    case.daemon.last = case.daemon.step + 2
    case.server = serve(case.daemon, ("127.0.0.1", case.port))
    output, _ = process.communicate(timeout=30)
    equal(process.returncode, 0)
    assert "The daemon does not answer; trying again for 120 s.\n" in output, output
    assert "The daemon answers again.\n" in output, output
    steps = re.findall(r"^step (\d+)/", output, re.M)
    equal(len(steps), len(set(steps)))


def watch_gives_up_when_patience_ends(case):
    stop(case.server)
    start = time.monotonic()
    result = case.run("watch", ID, "--patience", "1")
    equal(result.returncode, 69)
    assert time.monotonic() - start < 10
    assert "is megatraind running?" in result.stderr
    equal(case.run("jobs").returncode, 69)
    case.server = serve(case.daemon, ("127.0.0.1", case.port))


def a_terminal_gets_a_bar_that_is_drawn_over_itself(case):
    child, terminal = pty.fork()
    if child == 0:
        os.execve(MEGATRAIN, [MEGATRAIN, "watch", ID], {**case.environment, "TERM": "xterm"})
    output, end = b"", time.monotonic() + 30
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        output += piece
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    equal(os.waitstatus_to_exitcode(status), 0)
    text = output.decode()
    assert "\r 40% [" in text and "\r100% [" in text, text
    assert "completed" in text.splitlines()[-5] and "megatrain generate" in text.splitlines()[-1], text


def jobs_and_show_print_tables_that_hold_no_control_characters(case):
    result = case.run("jobs")
    equal(result.returncode, 0)
    lines = result.stdout.splitlines()
    equal(lines[0].split(), ["ID", "NAME", "STATE", "STEP", "LOSS", "TOKENS/S", "CREATED"])
    equal(lines[1].split(), [ID, "n?[31m", "running", "0/10", "1.5000", "12,346", "2026-01-01T00:00:00.000Z"])
    equal(len(lines), 3)  # two pages
    shown = case.run("show", "last").stdout
    assert "team: red" in shown and "\x1b" not in shown, shown
    equal(json.loads(case.run("show", ID, "--json").stdout)["id"], ID)
    equal([job["id"] for job in json.loads(case.run("jobs", "--json", "--limit", "2").stdout)], [ID, ID])
    equal(len(json.loads(case.run("jobs", "--json", "--limit", "1").stdout)), 1)
    result = case.run("jobs", "--state", "runing")
    equal(result.returncode, 64)
    assert "queued, starting, running, paused, completed, failed and cancelled" in result.stderr, result.stderr


def actions_exit_with_what_came_of_them(case):
    equal(case.run("resume", ID).stdout, f"{ID} queued\n")
    equal(case.run("cancel", ID).stdout, f"{ID} running (cancel requested)\n")
    result = case.run("pause", ID)
    equal((result.returncode, result.stderr), (1, "megatrain: Conflict: the job is paused already\n"))
    equal(case.daemon.requests[-1][1], f"/jobs/{ID}/pause")
    equal(case.run("checkpoint", ID).stdout, f"{ID} queued\n")
    equal(case.daemon.requests[-1][1], f"/jobs/{ID}/checkpoint")
    equal(case.run("delete", "last").stdout, f"{ID} deleted\n")
    equal(case.daemon.requests[-1][:2], ("DELETE", f"/jobs/{ID}"))
    equal(case.run("delete", ID[:-1] + "1", ID).returncode, 66)
    equal(case.run("pause", ID).returncode, 1)
    result = case.run("show", "a/../b?c")  # not an id: nothing is asked
    equal((result.returncode, case.daemon.requests[-1][1]), (66, f"/jobs/{ID}/pause"))
    assert "26 letters and digits" in result.stderr, result.stderr
    equal(case.run("logs", ID).stdout, "a line\n")
    equal(case.run("logs", ID, "--follow", "--json").returncode, 0)
    equal(case.daemon.requests[-1][1], f"/jobs/{ID}/logs?follow=1")
    equal(case.run("logs", "absent").returncode, 66)


def the_token_is_sent_and_a_wrong_one_is_said(case):
    equal(case.run("jobs", MEGATRAIN_TOKEN="secret").returncode, 0)
    equal(case.daemon.requests[-1][2]["Authorization"], "Bearer secret")
    result = case.run("jobs", MEGATRAIN_TOKEN="wrong")
    equal(result.returncode, 77)
    assert "wrong" not in result.stderr


def output_that_cannot_be_written_is_told_once(case):
    for arguments in (["schema"], ["plan", "--presets"], ["jobs"], ["inspect", "--help"]):
        with open("/dev/full", "w") as full:
            result = subprocess.run([MEGATRAIN, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                    env=case.environment)
        equal((arguments, result.returncode), (arguments, 74))
        equal(result.stderr.count("the output could not be written whole"), 1)


def a_unix_socket_is_a_daemon_too(case):
    path = os.path.join(case.folder, "api.sock")
    server = serve(case.daemon, path)
    equal(case.run("jobs", MEGATRAIN_URL="unix:" + path).returncode, 0)
    equal(case.daemon.requests[-1][2]["Host"], "localhost")
    stop(server)
    equal(case.run("jobs", MEGATRAIN_URL="unix:" + path).returncode, 69)


def another_program_at_the_port_is_told(case):
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        result = case.run("jobs", MEGATRAIN_URL=f"http://127.0.0.1:{other.server_port}")
        other.shutdown()
    equal(result.returncode, 69)
    assert "is not megatraind" in result.stderr and "MEGATRAIN_URL" in result.stderr, result.stderr


def wrong_usage_exits_with_64(case):
    for arguments in ([], ["sumbit"], ["jobs", "--stat"], ["jobs", "x"], ["jobs", "--limit", "0"], ["show"], ["watch"],
                      ["watch", "a", "b"], ["submit"], ["watch", "--patience"], ["schema", "--set"],
                      ["submit", "x.yaml", "--idempotency-key", ""]):
        result = case.run(*arguments)
        equal((arguments, result.returncode), (arguments, 64))
    case.write("job.yaml", "name: x\n")
    equal(case.run("submit", "job.yaml", "--set", "training").returncode, 64)
    case.write("model.gguf", "GGUF\x03\0\0\0")
    for what, kind in (("model.gguf", "not a text"), (".", "a folder")):
        result = case.run("submit", what)
        equal(result.returncode, 78)
        assert f"{what} is {kind} and no job" in result.stderr and "model.path" in result.stderr, result.stderr
    equal(case.run("jobs", MEGATRAIN_URL="ftp://x").returncode, 64)
    assert 'did you mean "submit"' in case.run("sumbit").stderr


def every_command_teaches(case):
    listed = re.findall(r"^  (\w+) +\w", case.run("--help").stdout, re.M)
    assert {"schema", "submit", "jobs", "show", "watch", "logs", "pause", "resume", "cancel"} <= set(listed), listed
    for command in listed:
        if command == "megatrain":
            continue
        result = case.run(command, "--help")
        equal((command, result.returncode), (command, 0))
        assert result.stdout.startswith(f"Usage: megatrain {command}"), result.stdout
    assert re.match(r"megatrain \d+\.\d+\.\d+\n$", case.run("--version").stdout)


def main():
    failed = False
    for test in [value for value in globals().values() if callable(value) and getattr(value, "__code__", None)
                 and value.__code__.co_varnames[:1] == ("case",)]:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(os.path.realpath(folder))
            try:
                test(case)
                print("ok", test.__name__)
            except Exception as error:  # a time-out is a failure of the case, too
                failed = True
                print(f"not ok {test.__name__}: {type(error).__name__} {str(error)[:1500]!r}")
            stop(case.server)
    sys.exit(failed)


main()
