#!/usr/bin/env python3
"""Data sets of a hub are fetched, from a stand-in on loopback: what a job needs of them, checked, once, into the hub's
cache, and only where that is allowed."""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from hub import COMMIT, Hub
from megatraind import Daemon, case, equal, run_cases, until
from training import MEGATRAIN, WORKER, Folder, text, tiny

CONFIGS = """---
configs:
- config_name: en
  default: true
  data_files:
  - {split: train, path: "en/train-*.jsonl"}
  - {split: test, path: en/test.jsonl}
- config_name: de
  data_files: de/*.jsonl
---
"""


def rows(count, seed):
    return "".join(json.dumps({"text": f"{i}: {text(3, seed + i)}"}) + "\n" for i in range(count)).encode()


FILES = {"README.md": CONFIGS.encode(), "en/train-1.jsonl": rows(5, 1), "en/train-2 b.jsonl": rows(200, 20),
         "en/test.jsonl": rows(4, 300), "de/a.jsonl": rows(6, 400), "setup.py": b"raise SystemExit", "big.bin": b"x" * 99}
LARGE = "en/train-2 b.jsonl"
ENTRIES = {"en": {"hf_hub_url": "Org/Set"}, "de": {"hf_hub_url": "Org/Set", "subset": "de"},
           "test": {"hf_hub_url": "Org/Set", "split": "test"}, "none": {"hf_hub_url": "Org/Set", "split": "trian"},
           "fr": {"hf_hub_url": "Org/Set", "subset": "fr"}, "other": {"hf_hub_url": "Org/Other"}}
REPOSITORY = "cache/datasets--Org--Set"
SNAPSHOT = f"{REPOSITORY}/snapshots/{COMMIT}"


class World(Folder):
    """A folder with a registry, a cache and a hub."""

    def __enter__(self):
        super().__enter__()
        self.hub = Hub(FILES, "Org/Set", LARGE, kind="datasets")
        self.write("data/dataset_info.json", json.dumps(ENTRIES))
        self.environment = {**os.environ, "HF_ENDPOINT": self.hub.url, "HF_HUB_CACHE": self / "cache"}
        self.environment.pop("HF_TOKEN", None)
        return self

    def __exit__(self, *arguments):
        self.hub.close()
        super().__exit__(*arguments)

    def wants(self, **dataset):
        document = tiny("", steps=1, every=0)
        document["dataset"] = {**document["dataset"], "dataset_dir": "data", **dataset}
        del document["dataset"]["path"]
        self.job(document, "wants.json")

    def fetch(self, run, name, code=0, says=(), allow=True, token=None):
        self.wants(name=name)
        return self.run("train", "wants.json", "--output-dir", run, *(["--allow-download"] if allow else []), code=code,
                        says=says, env={**self.environment, **({"HF_TOKEN": token} if token else {})})

    def has(self, *names):
        found = {}
        for folder, _, files in os.walk(self / SNAPSHOT):
            for name in files:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, self / SNAPSHOT)] = file.read()
        equal(found, {name: FILES[name] for name in names})
        with open(self / f"{REPOSITORY}/refs/main") as file:
            equal(file.read(), COMMIT)


@case
def what_a_job_needs_of_a_data_set_is_fetched_once():
    with World() as world:
        world.fetch("run", "en", token="secret-word")
        world.has("README.md", "en/train-1.jsonl", LARGE)
        equal({one[3] for one in world.hub.requests if one[0] == "hub"}, {"Bearer secret-word"})
        equal([one[3] for one in world.hub.of_large()], [None])
        with open(world / "run/log.jsonl") as file:
            assert any("data: 205 rows" in line for line in file)
        count = len(world.hub.requests)
        world.fetch("again", "en")
        world.fetch("without", "en", allow=False)
        equal(len(world.hub.requests), count)


@case
def a_part_of_the_data_is_not_taken_for_all_of_it():
    with World() as world:
        world.fetch("run", "en")
        world.fetch("a", "test", allow=False, code=65, says=["or not all of it: fetch it first"])
        world.fetch("b", "test")
        world.has("README.md", "en/train-1.jsonl", LARGE, "en/test.jsonl")
        world.fetch("c", "de")
        world.has("README.md", "en/train-1.jsonl", LARGE, "en/test.jsonl", "de/a.jsonl")
        os.unlink(world / f"{SNAPSHOT}/en/train-1.jsonl")
        world.fetch("d", "en", allow=False, code=65, says=["or not all of it: fetch it first"])
        world.fetch("e", "en")
        equal(len(world.hub.of_large()), 1)


@case
def what_is_fetched_later_is_of_the_commit_that_is_there():
    with World() as world:
        world.fetch("run", "en")
        world.hub.requests.clear()
        world.fetch("more", "test")
        equal(world.hub.requests[0][1], f"/api/datasets/Org/Set/revision/{COMMIT}?blobs=true")


@case
def a_cache_that_others_filled_in_part_is_completed():
    with World() as world:
        world.write(f"{SNAPSHOT}/de/a.jsonl", FILES["de/a.jsonl"])
        world.write(f"{SNAPSHOT}/README.md", FILES["README.md"])
        world.write(f"{REPOSITORY}/refs/main", COMMIT)
        world.fetch("a", "de", allow=False)
        world.fetch("b", "test", allow=False, code=65, says=["no data for the split"])
        equal(world.hub.requests, [])
        world.fetch("c", "test")
        world.has("README.md", "de/a.jsonl", "en/test.jsonl")


@case
def without_permission_nothing_is_asked_for():
    with World() as world:
        world.fetch("run", "en", allow=False, code=65, says=["is not in the local cache", "--allow-download"])
        equal(world.hub.requests, [])


@case
def what_the_hub_does_not_have_is_told():
    with World() as world:
        world.fetch("a", "none", code=65, says=["no data for the split \"trian\""])
        world.fetch("b", "fr", code=65, says=["has no subset \"fr\"; it has: en, de"])
        world.fetch("c", "other", code=65, says=["the hub has no Org/Other (404"])
        equal(world.hub.of_large(), [])
        world.hub.api_status = 401
        world.fetch("d", "en", code=65, says=["it wants a token, in HF_TOKEN, or has no such data set"])


@case
def what_breaks_off_goes_on_and_what_is_wrong_is_refused():
    with World() as world:
        world.hub.faults = [("cut", 1000), ("status", 503)]
        world.fetch("run", "en")
        world.has("README.md", "en/train-1.jsonl", LARGE)
        equal([one[2] for one in world.hub.of_large()], [None, "bytes=1000-", "bytes=1000-"])
    with World() as world:
        world.hub.faults = [("wrong",), ("wrong",)]
        world.fetch("run", "en", code=65, says=["was not received as the hub has it: its SHA-256 is"])
        assert not os.path.exists(world / f"{SNAPSHOT}/{LARGE}")
        assert not os.path.exists(world / f"{REPOSITORY}/refs/main")
        world.fetch("offline", "en", code=65, allow=False, says=["or not all of it"])


@case
def names_that_lead_elsewhere_are_not_taken():
    with World() as world:
        world.hub.listing = sorted(FILES) + ["../../../evil.jsonl", "/etc/evil.jsonl", "en/../../../../evil.jsonl",
                                             "en/.train-9.jsonl", "en//train-9.jsonl", "en/train-\n9.jsonl"]
        world.fetch("run", "en")
        world.has("README.md", "en/train-1.jsonl", LARGE)
        assert all("evil" not in one[1] and "-9" not in one[1] for one in world.hub.requests)


@case
def a_stop_keeps_what_came_and_the_next_run_goes_on():
    with World() as world:
        world.hub.faults = [("slow",)]
        world.wants(name="en")
        process = subprocess.Popen([MEGATRAIN, "train", "wants.json", "--output-dir", "run", "--allow-download"],
                                   cwd=world.path, env=world.environment, stderr=subprocess.DEVNULL)
        part = world / f"{SNAPSHOT}/{LARGE}.part"
        until("some of it is here", lambda: os.path.exists(part) and os.path.getsize(part) >= 5000)
        process.send_signal(signal.SIGTERM)
        equal(process.wait(timeout=30), 75)
        world.run("train", "--resume", "--output-dir", "run", "--allow-download", env=world.environment)
        world.has("README.md", "en/train-1.jsonl", LARGE)
        equal([one[2] for one in world.hub.of_large()], [None, "bytes=5000-"])


@case
def parts_of_a_mixture_are_fetched():
    with World() as world:
        world.write("own.jsonl", rows(3, 900))
        world.wants(mix=[{"name": "de", "weight": 1}, {"path": "own.jsonl", "weight": 1}, {"name": "test", "weight": 1}])
        world.run("train", "wants.json", "--output-dir", "run", "--allow-download", env=world.environment)
        world.has("README.md", "de/a.jsonl", "en/test.jsonl")


@case
def the_daemon_takes_such_a_job_only_where_its_administrator_allows_it_and_the_worker_fetches():
    with World() as world:
        environment = {"HF_ENDPOINT": world.hub.url, "HF_HUB_CACHE": world / "cache"}
        document = {**tiny("", steps=1, every=0), "dataset": {"name": "en", "max_seq_len": 32, "val_size": 0}}
        for options in ((), ("--allow-download",)):
            with Daemon(*options, worker=WORKER, environment=environment) as daemon:
                with open(os.path.join(daemon.state, "datasets/dataset_info.json"), "w") as file:
                    json.dump(ENTRIES, file)
                status, job = daemon.ask("POST", "/jobs", document)
                if not options:
                    equal((status, job["errors"][0]["pointer"]), (422, "/dataset/name"))
                    equal(world.hub.requests, [])
                    continue
                equal(status, 201)
                until("the job has ended", lambda: daemon.state_of(job["id"]) in ("completed", "failed"))
                equal(daemon.job(job["id"])["error"], None)
                world.has("README.md", "en/train-1.jsonl", LARGE)
                # What needs no download is still looked at before the job is taken.
                status, answer = daemon.ask("POST", "/jobs", {**document, "dataset": {**document["dataset"], "name": "fr"}})
                equal((status, answer["errors"][0]["pointer"]), (422, "/dataset/name"))


run_cases()
