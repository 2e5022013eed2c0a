#!/usr/bin/env python3
"""The calls about jobs, as a client sees them: what is answered, with which status and headers."""
import concurrent.futures
import json
import os
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from api import BUILD, SANITIZED, UNKNOWN_ID, Server, case, equal, run_cases  # noqa: E402

server = Server()


@case
def a_job_is_accepted_with_201_and_its_location():
    answer = server.post("/jobs", {"name": "first", "training": {"learning_rate": 3e-4}})
    equal(answer.status, 201)
    equal(answer.headers["Location"], "/jobs/" + answer.json["id"])
    equal(answer.headers["Content-Type"], "application/json")
    equal(answer.json["config"], {"name": "first", "training": {"learning_rate": 3e-4}})
    assert b"0.0003" in answer.body, "3e-4 is shown as people write it"
    shown = server.get(answer.headers["Location"])
    equal((shown.status, shown.json), (200, answer.json))


@case
def every_answer_has_the_common_headers():
    for path, status in [("/jobs", 200), ("/nothing", 404), ("/", 200), ("/healthz", 200), ("/plan", 405)]:
        answer = server.get(path)
        equal(answer.status, status)
        equal(answer.headers["Cache-Control"], "no-store")
        equal(answer.headers["X-Content-Type-Options"], "nosniff")
        equal(int(answer.headers["Content-Length"]), len(answer.body))
        assert len(answer.headers["X-Request-Id"]) == 26, answer.headers["X-Request-Id"]


@case
def a_harmless_request_id_is_kept_and_another_is_not():
    equal(server.get("/healthz", X_Request_Id="trace-1.a:b").headers["X-Request-Id"], "trace-1.a:b")
    for bad in ["x" * 65, "a b", "<script>"]:
        assert server.get("/healthz", X_Request_Id=bad).headers["X-Request-Id"] != bad


@case
def every_error_of_a_document_comes_back_with_its_pointer():
    problem = server.post("/jobs", {"bad": True}).problem(422)
    equal([e["pointer"] for e in problem["errors"]], ["/training/learning_rat", "/model"])
    equal(problem["errors"][0]["suggestion"], "learning_rate")
    for document in ([], "text", 3, None, True):
        problem = server.post("/jobs", document).problem(422)
        equal(problem["errors"][0]["pointer"], "")


@case
def what_the_daemon_cannot_do_has_its_status():
    server.post("/jobs", {"full": True}).problem(507)
    answer = server.post("/jobs", {"stopping": True})
    answer.problem(503)
    assert answer.headers["Retry-After"]
    # The sentence holds a byte that is not UTF-8.
    equal(server.post("/jobs", {"broken": True}).problem(500)["detail"], "the database ? does not answer")


@case
def malformed_json_is_400_and_says_where():
    for body, words in [
        (b'{"a": 1,\n "b": }', "line 2"),
        (b'{"a": 1, "a": 2}', "a"),
        (b'{"name": "\xff\xfe"}', ""),
        (b'{"name": "\xc0\xaf"}', ""),
        (b'{"a": NaN}', ""),
        (b"{} {}", ""),
        (b"\xef\xbb\xbf{", ""),
        (b"'", ""),
        (b"[" * 5000, ""),
        (b"", "empty"),
        (b"   ", ""),
        (b'{"a": "\x00"}', ""),
    ]:
        detail = server.post("/jobs", body).problem(400)["detail"]
        assert words in detail, (body[:30], detail)


@case
def only_json_is_taken():
    body = b'{"name": "x"}'
    for good in ["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"]:
        equal(server.ask("POST", "/jobs", body, {"Content-Type": good}).status, 201)
    for bad in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/yaml",
                "application/json; charset=latin-1", "multipart/form-data; boundary=x"]:
        server.ask("POST", "/jobs", body, {"Content-Type": bad}).problem(415)
    assert "Content-Type: application/json" in server.ask("POST", "/jobs", body).problem(415)["detail"]


@case
def the_same_key_and_body_give_the_first_job_again():
    def submit(name, key):
        return server.post("/jobs", {"name": name}, {"Idempotency-Key": key})

    first, again = submit("once", "key-1"), submit("once", "key-1")
    equal((first.status, again.status), (201, 201))
    equal(first.json["id"], again.json["id"])
    submit("other", "key-1").problem(409)
    assert submit("once", "key-2").json["id"] != first.json["id"]
    for bad in ["", "x" * 256, "caf\xe9"]:
        submit("once", bad).problem(400)


@case
def a_key_sent_by_many_at_once_makes_one_job():
    def submit(_):
        return server.post("/jobs", {"name": "race"}, {"Idempotency-Key": "race"}).json["id"]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        equal(len(set(pool.map(submit, range(64)))), 1)


@case
def lists_are_paged_newest_first():
    with Server() as fresh:
        ids = [fresh.submit(state="paused" if i % 2 else "queued") for i in range(7)]
        found, after = [], ""
        while True:
            page = fresh.get("/jobs?limit=3" + after).json
            found += [job["id"] for job in page["data"]]
            if not page["has_more"]:
                break
            after = "&after=" + page["next"]
        equal(found, ids[::-1])
        equal([j["id"] for j in fresh.get("/jobs?state=paused").json["data"]], ids[1::2][::-1])
        equal(fresh.get("/jobs?state=failed").json, {"data": [], "has_more": False, "next": None})


@case
def a_bad_query_is_400():
    for query in ["limit=0", "limit=1001", "limit=-1", "limit=", "limit=1e3", "limit=+5", "limit=%20 5".replace(" ", ""),
                  "limit=99999999999999999999", "limit=5&limit=5", "state=ready", "state=", "state=queued%00",
                  "after=nonsense", "limit=%zz", "limit=%", "limit=%4", "after=%ff", "limt=3", "x=1", "=1",
                  "limit=5&&&state=Queued"]:
        server.get("/jobs?" + query).problem(400)
    assert "'limit'" in server.get("/jobs?limt=3").problem(400)["detail"]
    for query in ["", "limit=5&", "&limit=5", "state=queued&limit=1000", "l%69mit=%35"]:
        equal(server.get("/jobs?" + query).status, 200)


@case
def actions_move_jobs_and_forbidden_ones_are_409():
    job = server.submit()
    for action, status, state in [("resume", 409, None), ("pause", 202, "paused"), ("pause", 409, None),
                                  ("resume", 202, "queued"), ("checkpoint", 409, None), ("cancel", 202, "cancelled"),
                                  ("cancel", 409, None)]:
        answer = server.post(f"/jobs/{job}/{action}", b"")
        equal(answer.status, status)
        if state:
            equal(answer.json["state"], state)
        else:
            assert answer.problem(409)["detail"]
    equal(server.post(f"/jobs/{server.submit(state='running')}/checkpoint", b"").status, 202)
    for action in ["cancel", "pause", "resume", "checkpoint"]:
        server.post(f"/jobs/{UNKNOWN_ID}/{action}", b"").problem(404)


@case
def actions_take_an_empty_body_with_or_without_a_type():
    job = server.submit()
    equal(server.ask("POST", f"/jobs/{job}/pause").status, 202)
    equal(server.ask("POST", f"/jobs/{job}/resume", b"", {"Content-Type": "application/json"}).status, 202)
    equal(server.post(f"/jobs/{job}/pause", b"{}").status, 202)
    server.post(f"/jobs/{job}/resume", {"force": True}).problem(400)
    server.post(f"/jobs/{job}/resume", b"{").problem(400)
    equal(server.get(f"/jobs/{job}").json["state"], "paused")


@case
def only_an_ended_job_is_removed():
    job = server.submit()
    server.ask("DELETE", f"/jobs/{job}").problem(409)
    server.post(f"/jobs/{job}/cancel", b"")
    answer = server.ask("DELETE", f"/jobs/{job}")
    equal((answer.status, answer.body), (204, b""))
    server.ask("DELETE", f"/jobs/{job}").problem(404)
    server.get(f"/jobs/{job}").problem(404)


@case
def paths_are_matched_with_care():
    job = server.submit()
    for path in ["/jobs/", "//jobs", "/jobs//", "/Jobs", "/jobs/../jobs", "/jobs/%2e%2e/jobs", f"/jobs/{job}/",
                 f"/jobs/{job}%00", f"/jobs/{job}%2Fmetrics", f"/jobs%2F{job}", f"/jobs/{job}x", "/jobs/%", "/jobs/%zz",
                 "/jobs/..%2f..%2fetc%2fpasswd", "/jobs/" + "A" * 26, "/jobs/" + "0" * 8000, "/%6aobs/x", "/jobs/%ff",
                 f"/jobs/{job}/metrics/../logs", "/jobs/'; drop table jobs; --".replace(" ", "%20"), "/.", "/..",
                 f"/jobs/{UNKNOWN_ID}"]:
        server.get(path).problem(404)
    equal(server.get(f"/%6aobs/{job}").status, 200)  # an escape of a plain letter is that letter
    equal(server.get(f"/jobs/%{ord(job[0]):02x}{job[1:]}").json["id"], job)


@case
def methods_that_a_path_has_not_are_405_with_allow():
    job = server.submit()
    for method, path, allow in [
        ("PUT", "/jobs", "POST, GET, HEAD, OPTIONS"),
        ("DELETE", "/jobs", "POST, GET, HEAD, OPTIONS"),
        ("POST", f"/jobs/{job}", "GET, HEAD, DELETE, OPTIONS"),
        ("GET", f"/jobs/{job}/cancel", "POST, OPTIONS"),
        ("POST", "/healthz", "GET, HEAD, OPTIONS"),
        ("TRACE", "/", "GET, HEAD, OPTIONS"),
        ("BREW", "/metrics", "GET, HEAD, OPTIONS"),
    ]:
        answer = server.ask(method, path)
        answer.problem(405)
        equal(answer.headers["Allow"], allow)
        options = server.ask("OPTIONS", path)
        equal((options.status, options.body, options.headers["Allow"]), (204, b"", allow))
    equal(server.ask("OPTIONS", "*").status, 204)
    server.ask("OPTIONS", "/nothing").problem(404)


@case
def head_is_get_without_the_body():
    job = server.submit()
    for path in ["/jobs", f"/jobs/{job}", "/healthz", "/openapi.json", "/", f"/jobs/{job}/metrics", "/nothing"]:
        get, head = server.get(path), server.ask("HEAD", path)
        equal((head.status, head.body), (get.status, b""))
        equal(head.headers["Content-Type"], get.headers["Content-Type"])
        equal(head.headers["Content-Length"], get.headers["Content-Length"])


@case
def what_is_not_built_yet_is_501_and_named():
    job = server.submit()
    for method, path in [("GET", f"/jobs/{job}/events"), ("GET", "/events"),
                         ("POST", f"/jobs/{job}/export"), ("GET", f"/exports/{job}"),
                         ("GET", f"/exports/{job}/files/model.gguf"),
                         ("GET", "/datasets"), ("POST", "/datasets"), ("DELETE", "/datasets/a")]:
        assert "ot supported yet" in server.ask(method, path).problem(501)["detail"]
    for method, path in [("GET", "/v1/models"), ("POST", "/v1/chat/completions"), ("GET", "/v1/files/a/content")]:
        answer = server.ask(method, path)
        equal((answer.status, answer.headers["Content-Type"]), (501, "application/json"))
        equal(sorted(answer.json["error"]), ["code", "message", "param", "type"])
        equal(answer.headers["x-should-retry"], "false")


@case
def a_plan_takes_a_document_and_the_machine_of_the_query():
    plan = server.post("/plan?gpu_memory=24G&bus_gbps=25", {"name": "x"}).json
    equal(plan["machine"], {"gpu_memory": "24G", "bus_gbps": 25.0})
    equal(plan["document"], {"name": "x"})
    assert "lots" in server.post("/plan?gpu_memory=lots", {}).problem(400)["detail"]
    server.post("/plan?gpus=2", {}).problem(400)
    equal(server.post("/plan", {"invalid": True}).problem(422)["errors"][0]["pointer"], "/model")
    server.post("/plan", []).problem(422)
    server.ask("POST", "/plan").problem(415)


@case
def devices_are_listed_and_cuda_says_why_it_is_not_there():
    found = server.get("/devices").json
    equal([device["id"] for device in found["data"]], ["cpu"])
    equal(found["cuda"], {"versions": None, "unavailable": "there is no module"})


@case
def models_are_listed():
    found = server.get("/models").json
    equal(([model["id"] for model in found["data"]], found["has_more"], found["next"]), (["Org/Tiny"], False, None))


@case
def a_preview_takes_a_document_and_how_much_of_it_to_show():
    found = server.post("/datasets/preview", {"name": "x"}).json
    equal((found["show"][0]["row"], found["rows"]), (3, 2000))
    found = server.post("/datasets/preview?show=7&rows=9", {"name": "x"}).json
    equal((found["show"][0]["row"], found["rows"]), (7, 9))
    server.post("/datasets/preview?rows=0", {}).problem(400)
    equal(server.post("/datasets/preview", {"invalid": True}).problem(422)["errors"][0]["pointer"], "/dataset/path")
    server.post("/datasets/preview", []).problem(422)
    server.ask("POST", "/datasets/preview").problem(415)


@case
def probes_answer_and_say_when_not_ready():
    equal(server.get("/healthz").json, {"status": "ok"})
    equal(server.get("/readyz?verbose").json, {"status": "ready"})
    equal(server.get("/version").json, {"name": "megatrain", "version": "0.1.0-test"})
    with Server("--not-ready") as fresh:
        equal(fresh.get("/readyz").problem(503)["detail"], "the database does not answer")
        equal(fresh.get("/healthz").status, 200)


@case
def addresses_of_every_kind_are_served_and_the_socket_file_goes_away():
    fresh = Server(listen=("127.0.0.1:0", "[::1]:0", "localhost:0", "unix:FOLDER/api.sock"))
    path = os.path.join(fresh.folder, "api.sock")
    equal(os.stat(path).st_mode & 0o777, 0o660)
    equal(fresh.addresses[3], "unix:" + path)
    port = int(fresh.addresses[1].rsplit(":", 1)[1])
    assert fresh.addresses[1].startswith("http://[::1]:")
    for family, address, host in [(socket.AF_INET6, ("::1", port), f"[::1]:{port}"), (socket.AF_UNIX, path, "any")]:
        with socket.socket(family) as link:
            link.connect(address)
            link.sendall(f"GET /version HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: link.recv(4096), b""))
            assert answer.startswith(b"HTTP/1.1 200") and b"megatrain" in answer, answer
    fresh.process.terminate()
    equal(fresh.process.wait(30), 0)
    assert not os.path.exists(path)
    fresh.stop()


@case
def a_stale_socket_is_replaced_and_a_live_one_or_a_file_is_not():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s")
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(path)
        with Server(listen=(f"unix:{path}",)):
            def refused(*arguments):
                done = subprocess.run([os.path.join(BUILD, "tests/e2e/api_server"), folder, *arguments],
                                      capture_output=True, text=True, timeout=30)
                return done.returncode, done.stderr

            status, words = refused(f"unix:{path}")
            equal(status, 69)
            assert "another process" in words, words
            assert os.path.exists(path)
            status, words = refused(f"127.0.0.1:{server.port}")
            equal(status, 69)
            plain = os.path.join(folder, "plain")
            with open(plain, "w") as file:
                file.write("kept")
            status, words = refused(f"unix:{plain}")
            equal(status, 78)
            assert open(plain).read() == "kept"
            for address in ["0.0.0.0:0", "[::]:0"]:
                status, words = refused(address)
                equal(status, 78)
                assert "token" in words, words
            for address in ["8642", "::1:80", "[::1:80", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:8o", "unix:x",
                            "unix:", "unix:/" + "x" * 200, "no.such.name:80", "127.0.0.1:-1", "unix:/no/such/folder/s"]:
                status, words = refused(address)
                equal((address, status), (address, 78))


@case
def two_hundred_clients_at_once_are_all_served():
    def talk(i):
        link = server.connect()
        link.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return link

    links = [talk(i) for i in range(200)]
    for link in links:
        assert link.recv(4096).startswith(b"HTTP/1.1 200")
    body = json.dumps({"name": "crowd", "padding": "x" * 20000}).encode()

    def submit(_):
        return server.ask("POST", "/jobs", body, {"Content-Type": "application/json"}).status

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        equal(set(pool.map(submit, range(400))), {201})
    for link in links:  # and the first ones are still there
        link.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b'{"status":"ok"}' in b"".join(iter(lambda: link.recv(4096), b""))
        link.close()


@case
def memory_stays_small():
    with open(f"/proc/{server.process.pid}/status") as file:
        resident = int(next(line for line in file if line.startswith("VmRSS")).split()[1])
    if not SANITIZED:
        assert resident < 64 * 1024, f"{resident} KiB"


@case
def it_stops_cleanly():
    server.stop()


run_cases()
