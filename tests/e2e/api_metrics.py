#!/usr/bin/env python3
"""GET /metrics against a strict reading of the two text formats, and the JSON snapshot."""
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from api import SLOWNESS, Server, case, equal, run_cases  # noqa: E402

server = Server()
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|Inf|NaN)")
SUFFIXES = {"counter": {"_total"}, "gauge": {""}, "info": {"_info"}, "histogram": {"_bucket", "_sum", "_count"}}


def parse(text, open_metrics):
    """{family: (type, {(name, labels): value})}; refuses whatever a strict reader would."""
    assert text.endswith("\n") and "\r" not in text
    lines = text[:-1].split("\n")
    if open_metrics:
        equal(lines.pop(), "# EOF")
    families, current, helped = {}, None, None
    for line in lines:
        assert line and line == line.strip(), repr(line)
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
            assert len(line.split(" ", 3)) == 4
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            equal(helped, name)
            assert name not in families, f"{name} comes in two pieces"
            assert kind in (SUFFIXES if open_metrics else ("counter", "gauge", "histogram")), kind
            if open_metrics and kind in ("counter", "info"):
                assert not name.endswith("_total") and not name.endswith("_info"), name
            families[name] = (kind, {})
            current = name
            continue
        assert not line.startswith("#"), line
        name = NAME.match(line).group()
        rest, labels = line[len(name):], []
        if rest[0] == "{":
            end = rest.index("} ")
            inside, rest = rest[1:end], rest[end + 1:]
            at = 0
            while at < len(inside):
                match = LABEL.match(inside, at)
                assert match, line
                labels.append(match.groups())
                at = match.end()
                if at < len(inside):
                    equal(inside[at], ",")
                    at += 1
        equal(len(labels), len({k for k, _ in labels}))
        assert rest[0] == " " and NUMBER.fullmatch(rest[1:]), line
        kind, samples = families[current]
        suffix = name[len(current):]
        assert name.startswith(current), f"{line} stands under {current}"
        if open_metrics or kind == "histogram":
            assert suffix in SUFFIXES[kind], line
        else:
            equal(suffix, "")
        key = (name, tuple(sorted(labels)))
        assert key not in samples, f"{line} comes twice"
        samples[key] = float(rest[1:])
        if kind in ("counter", "histogram"):
            assert samples[key] >= 0
    for name, (kind, samples) in families.items():
        if kind == "histogram":
            check_histogram(name, samples, open_metrics)
    return families


def check_histogram(name, samples, open_metrics):
    groups = {}
    for (sample, labels), value in samples.items():
        rest = tuple(label for label in labels if label[0] != "le")
        group = groups.setdefault(rest, {"buckets": []})
        if sample == name + "_bucket":
            bound = dict(labels)["le"]
            if open_metrics and bound != "+Inf":
                assert "." in bound or "e" in bound, f"le={bound} is not a canonical float"
            group["buckets"].append((float(bound), value))
        else:
            group[sample[len(name):]] = value
    for labels, group in groups.items():
        bounds = [bound for bound, _ in group["buckets"]]
        counts = [count for _, count in group["buckets"]]
        equal(bounds, sorted(set(bounds)))
        equal(counts, sorted(counts))
        equal(bounds[-1], float("inf"))
        equal(counts[-1], group["_count"])
        assert "_sum" in group, labels


def scrape(accept=None, open_metrics=False):
    answer = server.get("/metrics", **({"Accept": accept} if accept else {}))
    equal(answer.status, 200)
    return parse(answer.body.decode(), open_metrics)


def value(families, family, name=None, **labels):
    return families[family][1][(name or family, tuple(sorted(labels.items())))]


STATES = ["queued", "starting", "running", "paused", "completed", "failed", "cancelled"]


@case
def the_text_is_well_formed_and_known_labels_stand_at_zero_from_the_start():
    families = scrape()
    for state in STATES:
        equal(value(families, "megatrain_jobs", state=state), 0)
    for reason, count in [("signal", 2), ("out_of_memory", 0), ("stalled", 0), ('odd\\"reason\\\\', 1)]:
        equal(value(families, "megatrain_worker_restarts_total", reason=reason), count)
    for state in ["completed", "failed", "cancelled"]:
        equal(value(families, "megatrain_job_duration_seconds", "megatrain_job_duration_seconds_count", state=state), 0)
    equal(value(families, "megatrain_queue_wait_seconds", "megatrain_queue_wait_seconds_count"), 0)
    equal(value(families, "megatrain_build_info", version="0.1.0-test"), 1)
    equal(value(families, "megatrain_trained_tokens_total"), 12345)
    equal(value(families, "megatrain_steps_total"), 67)
    equal(value(families, "megatrain_step_duration_seconds", "megatrain_step_duration_seconds_bucket", le="0.5"), 3)
    equal(value(families, "megatrain_http_request_duration_seconds", "megatrain_http_request_duration_seconds_count",
                route="/jobs", method="POST", code="201"), 0)
    for name in families:
        assert name.startswith(("megatrain_", "process_")), name
    assert not any("_job_" in name and "duration" not in name for name in families), "no job runs"


@case
def the_process_tells_of_itself():
    families = scrape()
    with open(f"/proc/{server.process.pid}/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    assert 0.5 < value(families, "process_resident_memory_bytes") / resident < 2
    assert abs(time.time() - value(families, "process_start_time_seconds")) < 120
    assert 4 < value(families, "process_open_fds") <= value(families, "process_max_fds")
    assert 0 <= value(families, "process_cpu_seconds_total") < 100


@case
def open_metrics_comes_only_when_it_is_asked_for():
    open_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    text_type = "text/plain; version=0.0.4; charset=utf-8"
    prometheus = ("application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
                  "text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1")
    for accept, kind in [
        (prometheus, open_type), ("application/openmetrics-text", open_type), ("*/*", text_type),
        ("text/html,application/xhtml+xml,*/*;q=0.8", text_type), ("text/plain", text_type), ("", text_type),
        ("application/json", "application/json"), ("application/openmetrics-text;q=0.2,text/plain;q=0.3", text_type),
        ("application/*;q=0.9, text/plain;q=0.1", open_type), ("image/png", text_type), (";;q=,,/,*", text_type),
    ]:
        equal((accept, server.get("/metrics", Accept=accept).headers["Content-Type"]), (accept, kind))
    families = scrape(prometheus, True)
    equal(families["megatrain_steps"][0], "counter")
    equal(value(families, "megatrain_steps", "megatrain_steps_total"), 67)
    equal(families["megatrain_build"][0], "info")


@case
def requests_are_counted_by_route_method_and_code():
    def count(**labels):
        families = scrape()
        try:
            return value(families, "megatrain_http_request_duration_seconds",
                         "megatrain_http_request_duration_seconds_count", **labels)
        except KeyError:
            return 0

    job = server.submit()
    equal(count(route="/jobs", method="POST", code="201"), 1)
    for _ in range(3):
        server.get(f"/jobs/{job}")
    server.get("/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV")
    equal(count(route="/jobs/{id}", method="GET", code="200"), 3)
    equal(count(route="/jobs/{id}", method="GET", code="404"), 1)
    for i in range(5):
        server.ask("BREW" + "X" * i, f"/nowhere/{i}")
    equal(count(route="other", method="other", code="404"), 5)
    text = server.get("/metrics").body.decode()
    assert "BREW" not in text and "nowhere" not in text, "no client makes up labels"


@case
def a_job_has_series_of_its_own_only_while_it_runs():
    job = server.submit(name="a \"b\"\\", state="running")
    with open(os.path.join(server.job_folder(job), "metrics.jsonl"), "w") as file:
        for step in range(1, 701):
            row = {"step": step, "loss": 7 / step, "learning_rate": 1e-5 * step, "grad_norm": 0.5 + step}
            file.write(json.dumps(row) + "\n")
        file.write('{"step": 701, "lo')
    families = scrape()
    for name, wanted in [("step", 2), ("max_steps", 10), ("loss", 2.5), ("learning_rate", 0.007), ("grad_norm", 700.5),
                         ("progress_ratio", 0.2)]:
        found = value(families, "megatrain_job_" + name, job=job)
        assert abs(found - wanted) < 1e-12, (name, found, wanted)
    equal(value(families, "megatrain_jobs", state="running"), 1)

    snapshot = server.get("/metrics", Accept="application/json").json
    equal(sorted(snapshot), ["devices", "disk", "jobs", "memory", "running", "time", "version"])
    equal(sorted(snapshot["jobs"]), sorted(STATES))
    running = snapshot["running"]
    equal([(r["id"], r["name"]) for r in running], [(job, "a \"b\"\\")])
    equal(running[0]["progress"]["max_steps"], 10)
    equal(running[0]["recent"], [{"step": s, "loss": 7 / s} for s in range(201, 701)])

    server.post(f"/jobs/{job}/cancel", b"")
    text = server.get("/metrics").body.decode()
    assert job not in text and "megatrain_job_step" not in text
    equal(server.get("/metrics", Accept="application/json").json["running"], [])


@case
def a_scrape_is_quick():
    for _ in range(8):
        job = server.submit(state="running")
        with open(os.path.join(server.job_folder(job), "metrics.jsonl"), "w") as file:
            file.writelines('{"step": %d, "loss": 1.5, "padding": "%s"}\n' % (s, "x" * 300) for s in range(1, 50001))
    for accept in ["text/plain", "application/json"]:
        begin = time.monotonic()
        equal(server.get("/metrics", Accept=accept).status, 200)
        assert time.monotonic() - begin < SLOWNESS


@case
def it_stops_cleanly():
    server.stop()


run_cases()
