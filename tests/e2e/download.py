#!/usr/bin/env python3
"""Models are fetched from a hub, here a stand-in on loopback: whole, checked, and only where that is allowed."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from hub import COMMIT, Hub
from megatraind import Daemon, Skipped, case, equal, run_cases, until
from training import MEGATRAIN, WORKER, Folder, SmallDisk, tiny, write_documents

WEIGHTS = "model.safetensors"


def make_model(folder):
    """The files of a small model, as bytes by name."""
    folder.run("train", folder.job(tiny(write_documents(folder / "first.jsonl", 8), steps=1, every=0), "first.json"),
               "--output-dir", "first")
    path = folder / "first/checkpoints/final"
    return {name: open(os.path.join(path, name), "rb").read() for name in sorted(os.listdir(path))
            if os.path.isfile(os.path.join(path, name))}


class World(Folder):
    """A folder with a hub, and a job that wants its model."""

    def __enter__(self):
        super().__enter__()
        self.files = make_model(self)
        self.hub = Hub(self.files, "Org/Tiny", WEIGHTS)
        document = tiny(write_documents(self / "data.jsonl", 8), steps=1, every=0)
        document["model"] = {"name": "Org/Tiny"}
        self.job(document, "wants.json")
        return self

    def __exit__(self, *arguments):
        self.hub.close()
        super().__exit__(*arguments)

    def environment(self):
        environment = {**os.environ, "HF_ENDPOINT": self.hub.url, "HF_HUB_CACHE": self / "no-cache"}
        environment.pop("HF_TOKEN", None)
        return environment

    def start_fetching(self):
        """A process that has fetched some of the weights and waits for more."""
        process = subprocess.Popen([MEGATRAIN, "train", "wants.json", "--output-dir", "run", "--allow-download"],
                                   cwd=self.path, env=self.environment(), stderr=subprocess.DEVNULL)
        part = self / f"models/Org/Tiny.partial/{WEIGHTS}.part"
        until("some of it is here", lambda: os.path.exists(part) and os.path.getsize(part) >= 5000)
        return process

    def fetch(self, run, code=0, says=(), allow=True, token=None, **options):
        environment = self.environment()
        if token:
            environment["HF_TOKEN"] = token
        return self.run("train", "wants.json", "--output-dir", run, *(["--allow-download"] if allow else []), code=code,
                        says=says, env=environment, **options)

    def check_whole(self):
        for name, data in self.files.items():
            with open(self / f"models/Org/Tiny/{name}", "rb") as file:
                assert file.read() == data, name
        assert not os.path.exists(self / "models/Org/Tiny.partial")


@case
def a_model_is_fetched_once_and_the_token_stays_with_the_hub():
    with World() as world:
        world.fetch("run", token="secret-word")
        world.check_whole()
        hub = [one for one in world.hub.requests if one[0] == "hub"]
        equal({one[3] for one in hub}, {"Bearer secret-word"})
        equal([one[3] for one in world.hub.of_large()], [None])
        count = len(world.hub.requests)
        world.fetch("again")
        world.fetch("without", allow=False)
        equal(len(world.hub.requests), count)
        with open(world / "run/job.json") as file:
            model = json.load(file)["model"]
        equal((model["path"], model["download"]), (world / "models/Org/Tiny", "Org/Tiny"))


@case
def without_permission_nothing_is_asked_for():
    with World() as world:
        world.fetch("run", allow=False, code=65, says=["Org/Tiny is neither in the models folder", "let it be fetched (--allow-download)"])
        equal(world.hub.requests, [])


@case
def what_breaks_off_goes_on_at_its_byte():
    with World() as world:
        size = len(world.files[WEIGHTS])
        world.hub.faults = [("cut", 1000), ("cut", 700), ("status", 503)]
        world.fetch("run")
        world.check_whole()
        equal([one[2] for one in world.hub.of_large()], [None, "bytes=1000-", "bytes=1700-", "bytes=1700-"])
        assert size > 1700


@case
def a_hub_without_ranges_is_asked_for_all_of_it_again():
    with World() as world:
        world.hub.ranges = False
        world.hub.faults = [("cut", 1000)]
        world.fetch("run")
        world.check_whole()
        equal(len(world.hub.of_large()), 2)


@case
def a_wrong_checksum_is_tried_once_more_and_then_refused():
    with World() as world:
        world.hub.faults = [("wrong",)]
        world.fetch("run")
        world.check_whole()
        equal([one[2] for one in world.hub.of_large()], [None, None])
    with World() as world:
        world.hub.faults = [("wrong",), ("wrong",)]
        world.fetch("run", code=65, says=["was not received as the hub has it: its SHA-256 is"])
        assert not os.path.exists(world / "models/Org/Tiny")
        assert not os.path.exists(world / f"models/Org/Tiny.partial/{WEIGHTS}")
        assert not os.path.exists(world / f"models/Org/Tiny.partial/{WEIGHTS}.part")


@case
def a_body_without_end_ends_where_the_file_should():
    with World() as world:
        world.hub.faults = [("endless",)]
        world.fetch("run")
        world.check_whole()
    with World() as world:
        world.hub.faults = [("endless",), ("endless",)]
        world.fetch("run", code=74, says=["more bytes come than the", "that the hub told"])
        assert not os.path.exists(world / f"models/Org/Tiny.partial/{WEIGHTS}.part")


@case
def what_does_not_go_on_where_the_file_ended_begins_again():
    """Another part than was asked for, and a part of a file that has changed since, both of files without a checksum."""
    with World() as world:
        whole, asked = world.files["tokenizer.json"], []

        def odd(request):
            if not request.path.endswith("/tokenizer.json") or len(asked) == 4:
                return False
            asked.append(request.headers.get("Range"))
            if not asked[-1]:  # a part of it, and no more
                request.close_connection = True
                return Hub.send(request, 200, whole[:100], Content_Length=str(len(whole)), ETag=f'"{len(asked)}"')
            first = 50 if len(asked) == 2 else 100
            return Hub.send(request, 206, b" " * (len(whole) - first), ETag='"4"',
                            Content_Range=f"bytes {first}-{len(whole) - 1}/{len(whole)}")
        world.hub.odd = odd
        world.fetch("run")
        world.check_whole()
        equal(asked, [None, "bytes=100-", None, "bytes=100-"])


@case
def a_hub_that_never_goes_on_is_given_up():
    with World() as world:
        whole, asked = world.files[WEIGHTS], []

        def odd(request):
            if request.path != "/" + WEIGHTS:
                return False
            asked.append(request.headers.get("Range"))
            return Hub.send(request, 206, whole[7:], Content_Range=f"bytes 7-{len(whole) - 1}/{len(whole)}")
        world.hub.odd = odd
        world.fetch("run", code=74, says=["does not go on where the file ended"])
        equal(asked, [None] * 6)


@case
def the_hub_is_left_alone_for_as_long_as_it_asks():
    with World() as world:
        times = []

        def odd(request):
            if request.path != "/" + WEIGHTS:
                return False
            times.append(time.monotonic())
            return len(times) == 1 and Hub.send(request, 429, b"slowly", Retry_After="3")
        world.hub.odd = odd
        world.fetch("run")
        world.check_whole()
        assert len(times) == 2 and times[1] - times[0] >= 3, times


@case
def a_redirection_leads_to_a_hub_alone():
    with World() as world:
        for target, says in ((None, "302"), ("file:///etc/passwd", "file"), ("/loop.safetensors", "redirects")):
            def odd(request, target=target):
                headers = {"Location": target} if target else {}
                return ".safetensors" in request.path and Hub.send(request, 302, **headers)
            world.hub.odd = odd
            world.fetch("run", code=74, says=[says])
        # A token goes to the host that it is for, also where the listing is elsewhere.
        seen = []

        def elsewhere(request):
            if not request.path.startswith("/api/"):
                return False
            seen.append(request.headers.get("Authorization"))
            if request.server is world.hub.servers[0]:
                return Hub.send(request, 307, Location=world.hub.store + request.path)
            return Hub.send(request, 200, b"<html>log in</html>")
        world.hub.odd = elsewhere
        world.fetch("run", code=65, token="secret-word", says=["the hub's answer is no JSON"])
        equal(seen, ["Bearer secret-word", None])


@case
def a_token_that_would_become_a_header_is_not_sent():
    with World() as world:
        world.fetch("run", code=65, token="word\r\nX-Other: 1", says=["HF_TOKEN holds a blank, a line break"])
        equal(world.hub.requests, [])


@case
def refusals_of_the_hub_are_told():
    with World() as world:
        world.hub.api_status = 401
        world.fetch("a", code=65, says=["it wants a token, in HF_TOKEN"])
        world.fetch("b", code=65, token="x", says=["the token in HF_TOKEN has no access"])
        world.hub.api_status = 404
        world.fetch("c", code=65, says=["the hub has no Org/Tiny (404"])
        world.hub.api_status = 200
        world.hub.listing = ["config.json", "pytorch_model.bin"]
        world.fetch("d", code=65, says=["no safetensors files, only pickle files"])
        world.hub.listing = ["README.md"]
        world.fetch("e", code=65, says=["no config.json"])
        equal(world.hub.of_large(), [])


@case
def names_that_lead_elsewhere_are_not_taken():
    with World() as world:
        world.hub.listing = sorted(world.files) + ["../evil.safetensors", "sub/model.safetensors", ".hidden.safetensors",
                                                   "a b.safetensors", "setup.py", "pytorch_model.bin"]
        world.fetch("run")
        world.check_whole()
        equal(sorted(os.listdir(world / "models/Org/Tiny")), sorted([".commit", *world.files]))


@case
def a_stop_keeps_what_came_and_the_next_run_goes_on():
    with World() as world:
        world.hub.faults = [("slow",)]
        process = world.start_fetching()
        process.send_signal(signal.SIGTERM)
        equal(process.wait(timeout=30), 75)
        world.run("train", "--resume", "--output-dir", "run", "--allow-download", env=world.environment())
        world.check_whole()
        equal([one[2] for one in world.hub.of_large()], [None, "bytes=5000-"])


@case
def what_is_killed_in_the_middle_goes_on_too():
    with World() as world:
        world.hub.faults = [("slow",)]
        process = world.start_fetching()
        process.kill()
        equal(process.wait(timeout=30), -signal.SIGKILL)
        assert not os.path.exists(world / "models/Org/Tiny")  # no half of a model has its name
        world.fetch("next")
        world.check_whole()


@case
def a_disk_without_room_is_told_before_anything_is_fetched():
    with World() as world:
        os.mkdir(world / "models")
        size = sum(len(data) for data in world.files.values())
        script = (f"mount -t tmpfs -o size={size // 2 // 4096 * 4096} tmpfs models || exit 99; "
                  f"{MEGATRAIN} train wants.json --output-dir run --allow-download; code=$?; "
                  "mount -o remount,size=256m models; "
                  f"{MEGATRAIN} train wants.json --output-dir next --allow-download || exit 98; "
                  "test ! -e models/Org/Tiny.partial || exit 97; exit $code")
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script], cwd=world.path, env=world.environment(),
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120)
        if done.returncode == 99 or "unshare failed" in done.stderr:
            raise Skipped("no file system may be mounted here")
        assert "free some space and ask again" in done.stderr, done.stderr
        equal(done.returncode, 74)
        equal(len(world.hub.of_large()), 1)  # of the second run


@case
def a_file_of_a_size_that_nobody_told_leaves_the_disk_some_room():
    with World() as world, SmallDisk(72) as disk:
        sizeless = json.dumps({"sha": COMMIT, "siblings": [{"rfilename": name} for name in world.files]}).encode()
        world.hub.odd = lambda request: request.path.startswith("/api/") and Hub.send(request, 200, sizeless)
        world.hub.faults = [("endless",)]
        os.symlink(disk.path, world / "models")
        world.fetch("run", code=74, says=["No space left"],
                    prefix=[*disk.prefix, "sh", "-c", f"cd '{world.path}' && exec \"$@\"", "sh"])
        room = os.statvfs(disk.seen)
        assert room.f_bavail * room.f_frsize > 60 << 20, room


@case
def the_daemon_fetches_only_where_its_administrator_allows_it():
    with World() as world:
        environment = {"HF_ENDPOINT": world.hub.url, "HF_HUB_CACHE": world / "no-cache"}
        document = {"name": "fetch", "model": {"name": "Org/Tiny"}, "dataset": {"path": "words.txt", "max_seq_len": 32, "val_size": 0},
                    "training": {"batch_size": 1, "max_steps": 1}, "device": "cpu"}
        with Daemon(worker=WORKER, environment=environment) as daemon:
            status, answer = daemon.ask("POST", "/jobs", document)
            equal((status, answer["errors"][0]["pointer"]), (422, "/model/name"))
            document["model"] = {"path": os.path.join(daemon.state, "models/Org/Tiny"), "download": "Org/Tiny"}
            status, answer = daemon.ask("POST", "/jobs", document)
            equal((status, answer["errors"][0]["pointer"]), (422, "/model/download"))
        equal(world.hub.requests, [])
        document["model"] = {"name": "Org/Tiny"}
        with Daemon("--allow-download", worker=WORKER, environment=environment) as daemon:
            status, job = daemon.ask("POST", "/jobs", document)
            equal(status, 201)
            until("the job has ended", lambda: daemon.state_of(job["id"]) in ("completed", "failed"))
            equal(daemon.job(job["id"])["error"], None)
            with open(os.path.join(daemon.state, "models/Org/Tiny", WEIGHTS), "rb") as file:
                assert file.read() == world.files[WEIGHTS]
            # Nobody else chooses where a download goes.
            document["model"] = {"path": os.path.join(daemon.state, "models/other"), "download": "Org/Tiny"}
            status, answer = daemon.ask("POST", "/jobs", document)
            equal((status, answer["errors"][0]["pointer"]), (422, "/model/download"))


run_cases()
