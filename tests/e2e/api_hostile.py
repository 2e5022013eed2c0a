#!/usr/bin/env python3
"""Clients that are wrong, slow or hostile: each gets its own refusal, and the server serves the others on."""
import concurrent.futures
import os
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from api import SLOWNESS, Server, case, equal, read_all, run_cases, status_of  # noqa: E402

server = Server()
TOKEN = "correct-horse-battery-staple"
MIB = 1 << 20


def request(line="GET /version", host="localhost", *headers, body=b"", close=True):
    head = [f"{line} HTTP/1.1"]
    if host is not None:
        head.append(f"Host: {host}")
    head += headers
    if close:
        head.append("Connection: close")
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


def ask(*arguments, to=None, **named):
    return status_of((to or server).raw(request(*arguments, **named)))


@case
def foreign_hosts_are_421():
    machine = os.uname().nodename
    for good in ["localhost", "LOCALHOST:80", "localhost.", "127.0.0.1", "127.0.0.1:8642", "127.1.2.3", "[::1]",
                 "[::1]:99", machine, f"{machine}:8642", f"{machine}.local"]:
        equal((good, ask("GET /version", good)), (good, 200))
    for bad in ["evil.example", "evil.example:8642", "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.1", "[::2]",
                f"{machine}.evil.example", "localhost:80a", "[::1", "", "localhost@evil.example", "0x7f000001x", ":80"]:
        equal((bad, ask("GET /version", bad)), (bad, 421))
    equal(ask("GET /version", None), 400)
    equal(status_of(server.raw(b"GET /version HTTP/1.0\r\n\r\n")), 200)
    with Server("--allow-host", "mega.example") as fresh:
        equal(ask("GET /version", "Mega.Example:443", to=fresh), 200)
        equal(ask("GET /version", "giga.example", to=fresh), 421)


@case
def foreign_origins_may_read_but_not_write():
    def post(origin, host="localhost:8642"):
        return ask("POST /jobs", host, "Content-Type: application/json", "Content-Length: 2", f"Origin: {origin}",
                   body=b"{}")

    for bad in ["http://evil.example", "null", "http://localhost", "http://localhost:8643", "https://evil.example",
                "http://localhost:8642.evil.example", "file://", ""]:
        equal((bad, post(bad)), (bad, 403))
    for good in ["http://localhost:8642", "https://localhost:8642"]:
        equal(post(good), 201)
    equal(ask("DELETE /jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV", "localhost", "Origin: http://evil.example"), 403)
    answer = server.raw(request("GET /version", "localhost", "Origin: http://evil.example"))
    equal(status_of(answer), 200)
    assert b"access-control" not in answer.lower(), "no page of another origin can read it"


@case
def a_token_is_asked_for_before_the_body_and_on_every_call_but_the_probes():
    with Server("--token", TOKEN, listen=("127.0.0.1:0", "unix:FOLDER/s")) as fresh:
        good = {"Authorization": f"Bearer {TOKEN}"}
        for path in ["/jobs", "/", "/metrics", "/version", "/openapi.json", "/nothing", "/v1/models"]:
            answer = fresh.get(path)
            equal(answer.status, 401)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer"), answer.headers
        for path in ["/healthz", "/readyz"]:
            equal(fresh.get(path).status, 200)
        equal(fresh.ask("GET", "/jobs", headers=good).status, 200)
        equal(fresh.ask("GET", "/jobs", headers={"Authorization": f"bearer   {TOKEN}"}).status, 200)
        for wrong in [f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer ", "Bearer", f"Basic {TOKEN}", TOKEN,
                      f"Bearer {TOKEN.upper()}", f"Bearer {TOKEN} {TOKEN}"]:
            fresh.ask("GET", "/jobs", headers={"Authorization": wrong}).problem(401)
        # Not one byte of the body is waited for when the client asks first.
        with fresh.connect() as link:
            link.sendall(request("POST /jobs", "localhost", "Content-Type: application/json",
                                 "Content-Length: 1000", "Expect: 100-continue"))
            equal(status_of(read_all(link)), 401)
        # A client that sends without asking sees the answer, too.
        fresh.post("/jobs", b"x" * (MIB // 2)).problem(401)
        twice = request("GET /jobs", "localhost", f"Authorization: Bearer {TOKEN}", f"Authorization: Bearer {TOKEN}")
        equal(status_of(fresh.raw(twice)), 400)
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(os.path.join(fresh.folder, "s"))
            link.sendall(request("GET /jobs"))
            equal(status_of(read_all(link)), 200)


@case
def contradictory_framing_is_400():
    json_type = "Content-Type: application/json"
    for headers, body in [
        (("Content-Length: 2", "Content-Length: 2"), b"{}"),
        (("Content-Length: 2", "Content-Length: 3"), b"{} "),
        (("Content-Length: 2", "Transfer-Encoding: chunked"), b"2\r\n{}\r\n0\r\n\r\n"),
        (("Transfer-Encoding: gzip, chunked",), b"2\r\n{}\r\n0\r\n\r\n"),
        (("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), b"2\r\n{}\r\n0\r\n\r\n"),
        (("Content-Length: 0x2",), b"{}"),
        (("Content-Length: -2",), b"{}"),
        (("Content-Length: 2", "Host: localhost"), b"{}"),
        (("Content-Length: 2", "Content-Type: text/plain"), b"{}"),
        (("Transfer-Encoding: chunked",), b"zz\r\n{}\r\n0\r\n\r\n"),
    ]:
        equal((headers, ask("POST /jobs", "localhost", json_type, *headers, body=body)), (headers, 400))
    equal(ask("POST /jobs", "localhost", json_type, "Transfer-Encoding: chunked", body=b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"),
          201)
    equal(ask("POST /jobs", "localhost", json_type, "Content-Length: 99999999999999999999", body=b"{}"), 413)


@case
def a_body_over_one_mib_is_413_and_the_client_sees_it():
    exact = b'{"name": "' + b"x" * (MIB - 12) + b'"}'
    equal(len(exact), MIB)
    equal(server.post("/jobs", exact).status, 201)
    for size in [MIB + 1, 10 * MIB, 40 * MIB]:
        server.post("/jobs", b" " * size).problem(413)

    def pieces(count):
        for _ in range(count):
            yield b" " * 65536

    for count in [17, 200]:
        answer = server.ask("POST", "/jobs", pieces(count), {"Content-Type": "application/json"})
        answer.problem(413)
    equal(ask("POST /jobs", "localhost", "Content-Type: application/json", f"Content-Length: {1 << 40}"), 413)
    with server.connect() as link:
        link.sendall(request("POST /jobs", "localhost", "Content-Type: application/json",
                             f"Content-Length: {2 * MIB}", "Expect: 100-continue"))
        equal(status_of(read_all(link)), 413)


@case
def a_client_that_asks_first_is_told_to_go_on():
    with server.connect() as link:
        link.sendall(request("POST /jobs", "localhost", "Content-Type: application/json", "Content-Length: 2",
                             "Expect: 100-continue"))
        equal(link.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
        link.sendall(b"{}")
        equal(status_of(read_all(link)), 201)


@case
def one_connection_carries_many_requests_also_after_refusals():
    with server.connect() as link:
        stream = link.makefile("rb")
        for line, headers, body, wanted in [
            ("GET /version", (), b"", 200),
            ("POST /jobs", ("Content-Type: text/plain", "Content-Length: 5"), b"12345", 415),
            ("POST /jobs", ("Content-Type: application/json", "Content-Length: 2000000"), b" " * 2000000, 413),
            ("GET /nothing", (), b"", 404),
            ("POST /jobs", ("Content-Type: application/json", "Content-Length: 2"), b"{}", 201),
            ("OPTIONS /jobs", (), b"", 204),
            ("GET /version", ("Content-Length: 3",), b"abc", 200),
            ("GET /version", (), b"", 200),
        ]:
            link.sendall(request(line, "localhost", *headers, body=body, close=False))
            equal(int(stream.readline().split()[1]), wanted)
            length = 0
            while (header := stream.readline()) != b"\r\n":
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            stream.read(length)


@case
def noise_instead_of_http_ends_that_connection_alone():
    for noise in [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500), b"\r\n" * 1000, b"GET\r\n\r\n",
                  b"GET /version HTTP/9.9\r\n\r\n", b"\0" * 4096, b"GET /\0version HTTP/1.1\r\nHost: localhost\r\n\r\n",
                  b"GET /version HTTP/1.1\r\nHost: localhost\r\nno colon here\r\n\r\n", os.urandom(4000)]:
        with server.connect(5) as link:
            link.sendall(noise)
            try:
                link.shutdown(1)
                assert status_of(read_all(link)) != 500
            except OSError:
                pass
    equal(server.get("/healthz").status, 200)


@case
def a_flood_of_headers_is_refused():
    for flood in [b"X-A: " + b"a" * 100000 + b"\r\n", b"".join(b"X-%d: y\r\n" % i for i in range(20000))]:
        with server.connect() as link:
            try:
                link.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n" + flood + b"\r\n")
            except OSError:
                pass
            assert status_of(read_all(link)) in (0, 400, 413, 431)
    equal(status_of(server.raw(request("GET /" + "a" * 100000))), 414)
    equal(server.get("/healthz").status, 200)


@case
def slow_headers_and_slow_bodies_are_cut_and_honest_slow_ones_are_not():
    def drip(first, piece, pause):
        """Sends a byte or so at a time until the server has enough; the status and the seconds it took."""
        begin = time.monotonic()
        with server.connect(60) as link:
            link.sendall(first)
            done = threading.Event()

            def send():
                try:
                    while not done.wait(pause):
                        link.sendall(piece)
                except OSError:
                    pass

            sender = threading.Thread(target=send)
            sender.start()
            answer = read_all(link)
            done.set()
            sender.join()
        return status_of(answer), time.monotonic() - begin

    post = request("POST /jobs", "localhost", "Content-Type: application/json", "Content-Length: 30000")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        silent = pool.submit(drip, b"", b"", 1)
        headers = pool.submit(drip, b"GET /version HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"a", 0.3)
        nothing = pool.submit(drip, post, b"", 1)
        body = pool.submit(drip, post, b" " * 50, 0.5)
        honest = pool.submit(drip, post + b'{"name": "slow"}', b" " * 1024, 0.5)
        started = time.monotonic()
        while time.monotonic() - started < 9:  # the others are served meanwhile
            begin = time.monotonic()
            equal(server.get("/version").status, 200)
            assert time.monotonic() - begin < 2 * SLOWNESS
            time.sleep(0.2)
        for name, cut in [("silent", silent), ("headers", headers), ("nothing", nothing), ("body", body)]:
            status, seconds = cut.result()
            equal((name, status), (name, 408))
            assert 9 < seconds < 10 + 4 * SLOWNESS, (name, seconds)
        equal(honest.result()[0], 201)


@case
def a_client_is_not_blamed_for_the_time_that_the_server_takes_to_read():
    links = []
    for _ in range(60):
        link = server.connect()
        link.sendall(b"GET /version HT")  # so that it is surely served by now
        links.append(link)
    time.sleep(1)
    server.process.send_signal(signal.SIGSTOP)  # as when all its threads are busy, or the machine sleeps
    try:
        for link in links:
            link.sendall(b"TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        time.sleep(11)
    finally:
        server.process.send_signal(signal.SIGCONT)
    equal([status_of(read_all(link)) for link in links], [200] * 60)


@case
def clients_that_never_read_stall_nobody():
    job = server.submit(state="running")
    folder = server.job_folder(job)
    with open(os.path.join(folder, "metrics.jsonl"), "w") as file:
        for step in range(1, 20001):
            file.write('{"step": %d, "loss": 1.5, "padding": "%s"}\n' % (step, "x" * 200))
    links = []
    for _ in range(30):
        link = server.connect()
        link.sendall(request(f"GET /jobs/{job}/metrics?limit=10000"))
        links.append(link)
    begin = time.monotonic()
    for _ in range(50):
        equal(server.get("/jobs?limit=1").status, 200)
    assert time.monotonic() - begin < 10 * SLOWNESS
    # Large answers share a budget: what is over it is put off and not piled up in memory.
    answers = [status_of(read_all(link)) for link in links]
    assert set(answers) <= {200, 503} and 200 in answers, answers
    for link in links:
        link.close()
    equal(server.get(f"/jobs/{job}/metrics?limit=10000").status, 200)


@case
def followers_over_the_limit_are_refused_and_others_served():
    job = server.submit(state="running")
    open(os.path.join(server.job_folder(job), "log.jsonl"), "w").close()
    links = []
    try:
        for _ in range(256):
            links.append(server.connect())
            links[-1].sendall(request(f"GET /jobs/{job}/logs?follow=1"))
        for link in links:
            assert b" 200 " in link.recv(4000)
        for _ in range(20):
            with server.connect() as link:
                link.sendall(request(f"GET /jobs/{job}/logs?follow=1"))
                answer = read_all(link)
            equal((status_of(answer), b"Retry-After: 10" in answer), (503, True))
            equal(server.get("/healthz").status, 200)
    finally:
        for link in links:
            link.close()
    deadline = time.monotonic() + 20
    while server.get(f"/jobs/{job}/logs").status == 200 and time.monotonic() < deadline:
        with server.connect() as link:
            link.sendall(request(f"GET /jobs/{job}/logs?follow=1"))
            if b" 200 " in link.recv(4000):
                break
        time.sleep(0.2)
    else:
        raise AssertionError("those that went away still count")


@case
def clients_that_vanish_leave_nothing_behind():
    def descriptors():
        return len(os.listdir(f"/proc/{server.process.pid}/fd"))

    job = server.submit(state="running")
    open(os.path.join(server.job_folder(job), "log.jsonl"), "w").close()
    time.sleep(0.5)
    before = descriptors()
    for line in [f"GET /jobs/{job}/logs?follow=1", "GET /jobs", "POST /jobs"] * 20:
        link = server.connect()
        link.sendall(request(line, "localhost", "Content-Length: 100" if line == "POST /jobs" else "X: y"))
        time.sleep(0.01)
        link.close()
    deadline = time.monotonic() + 30  # some are only found by the deadline for bodies
    while descriptors() > before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert descriptors() <= before, (before, descriptors())


@case
def it_stops_promptly_with_all_kinds_of_clients_connected():
    job = server.submit(state="running")
    links = []
    for bytes_sent in [b"", b"GET /ver", request(f"GET /jobs/{job}/logs?follow=1"), request("GET /version", close=False),
                       request("POST /jobs", "localhost", "Content-Type: application/json", "Content-Length: 9")] * 5:
        link = server.connect()
        link.sendall(bytes_sent)
        links.append(link)
    time.sleep(0.5)
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 5
    for link in links:
        link.close()


run_cases()
