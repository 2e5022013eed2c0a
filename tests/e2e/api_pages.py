#!/usr/bin/env python3
"""The pages for people: what runs, all jobs, a job with everything about it, and the loss curve."""
import base64
import hashlib
import html.parser
import json
import os
import sys
import time
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from api import SLOWNESS, UNKNOWN_ID, Server, case, equal, run_cases  # noqa: E402
from megatraind import Daemon, until  # noqa: E402

EVIL = '<img src=x onerror="alert(1)">&'
SHOWN = "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
server = Server()


class Reader(html.parser.HTMLParser):
    """The words of a page, its links, and that what must be closed is."""
    OPEN = {"meta", "br", "td", "th", "tr", "dt", "dd"}

    def __init__(self, page):
        super().__init__()
        self.text, self.links, self.tags, self.open = "", [], [], []
        self.feed(page)
        equal(self.open, [])

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "a":
            self.links.append(dict(attributes)["href"])
        if tag not in self.OPEN:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.OPEN:
            equal(self.open.pop(), tag)

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data + " "


def page_of(answer):
    equal((answer.status, answer.headers["Content-Type"]), (200, "text/html; charset=utf-8"))
    page = answer.body.decode()
    assert "<img" not in page and "<script" not in page and "http:" not in page and "https:" not in page
    assert "color-scheme:light dark" in page and "width=device-width" in page and "<html lang=en>" in page
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "unsafe-inline" not in policy
    style = page.split("<style>")[1].split("</style>")[0].encode()
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy, policy
    assert " style=" not in page, "the policy would not take it"
    return page, Reader(page)


def write(job, name, rows):
    with open(os.path.join(server.job_folder(job), name), "w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


def chart(job):
    answer = server.get(f"/jobs/{job}/chart.svg")
    equal((answer.status, answer.headers["Content-Type"]), (200, "image/svg+xml"))
    return xml.etree.ElementTree.fromstring(answer.body)


def lines(picture):
    """The points of each polyline."""
    return [[tuple(map(float, point.split(","))) for point in line.get("points").split()]
            for line in picture.iter("{http://www.w3.org/2000/svg}polyline")]


@case
def what_runs_is_shown_first_and_everything_is_escaped():
    job = server.submit(name=EVIL, state="running")
    server.submit(name="waits")
    page, read = page_of(server.get("/"))
    equal((page.count(SHOWN), page.count("<progress value=2 max=10>")), (2, 3))
    assert page.index("<h2>Running</h2>") < page.index(f'<a href="/jobs/{job}">') < page.index("<h2>Jobs</h2>")
    assert "Memory: 8.0 GiB of 16.0 GiB free" in read.text and "running (1)" in read.text and "queued (1)" in read.text
    assert "refresh" in page.split("<style>")[0]


@case
def thousands_of_jobs_are_a_page_at_a_time_and_by_state():
    with Server() as many:
        names = [many.submit(name=f"job-{i}", state=("completed", "failed")[i % 2]) and f"job-{i}" for i in range(1100)]
        found, path = [], "/"
        while path:
            begin = time.monotonic()
            answer = many.get(path)
            assert time.monotonic() - begin < 1 * SLOWNESS and len(answer.body) < 60000
            page, read = page_of(answer)
            found += [word for word in read.text.split() if word.startswith("job-")]
            assert ("refresh" in page.split("<style>")[0]) == (path == "/"), "an older page stays as it is"
            path = next((link for link in read.links if "after=" in link), None)
        equal(found, names[::-1])
        _, read = page_of(many.get("/?state=failed"))
        found = [word for word in read.text.split() if word.startswith("job-")]
        equal(found, names[:0:-2][:50])
        assert any(link.startswith("/?state=failed&after=") for link in read.links), read.links
        equal(many.get("/?state=nonsense").status, 200)
        equal(many.get("/?after=nonsense").status, 400)


@case
def a_browser_gets_a_jobs_page_and_a_program_its_document():
    job = server.submit(name=EVIL, state="running", model={"path": EVIL})
    folder = server.job_folder(job)
    write(job, "metrics.jsonl", [{"step": s, "loss": 5 / s} for s in range(1, 41)])
    write(job, "log.jsonl", [{"time": "2026-01-31T12:00:00Z", "level": "warning", "message": EVIL + str(i)} for i in range(9)])
    checkpoint = os.path.join(folder, "checkpoints", "step-00000040")
    os.makedirs(os.path.join(checkpoint, "megatrain"))
    with open(os.path.join(checkpoint, "megatrain", "manifest.json"), "w") as file:
        json.dump({"bytes": 3 << 20, "loss": 0.125, "created_at": "2026-01-31T12:00:00Z", "files": []}, file)
    page, read = page_of(server.get(f"/jobs/{job}", Accept=BROWSER))
    for words in (job, "running", "2 of 10", "Loss", "0.125", "3.0 MiB", checkpoint, f"megatrain pause {job}", f"megatrain cancel {job}",
                  EVIL + "8", "The job document"):
        assert words in read.text, (words, read.text)
    assert f"megatrain resume {job}" not in read.text and page.count("<polyline") == 1 and "refresh" in page.split("<style>")[0]
    for accept in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}, {"Accept": "application/json, text/html;q=0.9"}):
        answer = server.get(f"/jobs/{job}", **accept)
        equal((answer.headers["Content-Type"], answer.headers["Vary"], answer.json["id"]), ("application/json", "Accept", job))
    ended = server.submit(name="ended", state="completed")
    page, read = page_of(server.get(f"/jobs/{ended}", Accept=BROWSER))
    assert "megatrain pause" not in read.text and "refresh" not in page.split("<style>")[0] and "None yet." in read.text
    assert f"megatrain generate --model {server.job_folder(ended)} --message" in read.text, read.text
    server.get(f"/jobs/{UNKNOWN_ID}", Accept=BROWSER).problem(404)


@case
def the_curve_has_every_loss_of_a_short_series():
    job = server.submit()
    server.get(f"/jobs/{job}/chart.svg").problem(404)
    write(job, "metrics.jsonl", [{"step": 1, "loss": 3.0}])
    server.get(f"/jobs/{job}/chart.svg").problem(404)
    rows = [{"step": s, "loss": 10.0 - s} for s in range(1, 6)] + [{"step": 6, "loss": None}, {"step": 7}, {"step": 8, "loss": 1.0}]
    rows[2]["val_loss"], rows[4]["val_loss"] = 8.0, 6.0
    write(job, "metrics.jsonl", rows + [{"step": 3, "loss": 99.0}, {"step": "x", "loss": 99.0}, ["no"], {"step": 9, "loss": "y"}])
    loss, validation = lines(chart(job))
    equal((len(loss), len(validation)), (6, 2))
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in zip(loss, loss[1:])), loss  # to the right, and down
    assert all(56 <= x <= 712 and 8 <= y <= 216 for x, y in loss + validation)
    equal((loss[0][0], loss[-1][0]), (56, 712))
    equal(validation[0][0], loss[2][0])
    write(job, "metrics.jsonl", [{"step": s, "loss": 0.0} for s in range(1, 9)])
    equal(len(lines(chart(job))[0]), 8)  # a flat curve is one
    server.get(f"/jobs/{UNKNOWN_ID}/chart.svg").problem(404)


@case
def a_long_series_is_drawn_from_first_to_last_step_in_no_time():
    job = server.submit()
    for count in (3000, 400000):
        write(job, "metrics.jsonl", [{"step": s, "loss": 2 + 8 * (1 - s / count), "padding": "x" * 40} for s in range(1, count + 1)])
        begin = time.monotonic()
        picture = chart(job)
        assert time.monotonic() - begin < 1 * SLOWNESS, time.monotonic() - begin
        (line,) = lines(picture)
        assert 200 < len(line) <= 402, len(line)
        equal((line[0][0], line[-1][0]), (56, 712))
        assert line[0][1] < 10 and line[-1][1] > 214, line
        words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert str(count) in words, words
        # A straight line comes out straight: no part of the series is left out or drawn twice.
        assert all(abs((x - 56) / 656 - (y - 8) / 208) < 0.02 for x, y in line)


@case
def a_long_series_keeps_every_validation_loss():
    job = server.submit()
    count, each = 60000, 1000
    write(job, "metrics.jsonl", [{"step": s, "loss": 4 - s / count, "padding": "x" * 150,
                                  **({"val_loss": 5 - s / count} if s % each == 0 else {})} for s in range(1, count + 1)])
    loss, validation = lines(chart(job))
    equal((len(validation), validation[-1][0]), (count // each, 712))
    assert len(loss) > 200 and all(a[0] < b[0] and a[1] < b[1] for a, b in zip(validation, validation[1:])), validation


@case
def progress_time_left_and_errors_of_real_jobs_are_on_their_pages():
    with Daemon() as daemon:
        def page(path):
            import http.client
            connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
            connection.request("GET", path, headers={"Accept": BROWSER})
            return Reader(connection.getresponse().read().decode()).text
        slow = daemon.submit("step_ms=30", steps=4000)
        daemon.wait_step(slow, 3)
        until("its time left is shown", lambda: "tokens/s" in page(f"/jobs/{slow}") and "left" in page(f"/jobs/{slow}"))
        assert "of 4000" in page("/") and "Running" in page("/")
        bad = daemon.submit("fail_at=2", labels={"reason": "bad_data"}, priority=9)
        daemon.act(slow, "cancel")
        daemon.wait(bad, "failed")
        why = daemon.job(bad)["error"]["message"]
        for path in ("/", f"/jobs/{bad}"):
            assert why in page(path), (path, why)
        assert "bad_data" in page(f"/jobs/{bad}") and f"megatrain resume {bad}" in page(f"/jobs/{bad}")


@case
def it_stops_cleanly():
    server.stop()


run_cases()
