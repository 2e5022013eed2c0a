#!/usr/bin/env python3
"""Repositories of GGUF files: a job names one, and of its files one, wherever on this machine it is, or on a hub
(here a stand-in on loopback), of which no more than that one is fetched."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import gguf
from hub import Hub
from megatraind import Daemon, case, equal, run_cases, until
from training import WORKER, Folder, tiny, write_documents

Q4, Q8, BF16 = "tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf", "BF16/tiny-BF16"
PARTS = [f"{BF16}-0000{i}-of-00002.gguf" for i in (1, 2)]
NAME = "Org/Tiny-GGUF"


def repository():
    """As people lay them: quantisations beside one another, a large one in parts in a folder, and what is no model."""
    return {Q4: gguf.tiny_file(1), Q8: gguf.tiny_file(2), **gguf.tiny_parts(BF16, 2, 3), "README.md": b"words",
            "config.json": b"{}", "mmproj-tiny-F16.gguf": b"GGUF", "imatrix_tiny.gguf": b"GGUF"}


class World(Folder):
    """A folder, a home with programs' models in it, and a hub."""

    def __enter__(self):
        super().__enter__()
        self.files = repository()
        self.hub = Hub(self.files, NAME, Q4, Q8, *PARTS)
        self.data = write_documents(self / "data.jsonl", 8)
        return self

    def __exit__(self, *arguments):
        self.hub.close()
        super().__exit__(*arguments)

    def environment(self):
        return {"HF_ENDPOINT": self.hub.url, "HOME": self / "home", "HF_HUB_CACHE": self / "hub", "HF_TOKEN": "",
                "OLLAMA_MODELS": self / "ollama"}

    def ask(self, *arguments, **options):
        return self.run(*arguments, env={**os.environ, **self.environment()}, **options)

    def lay(self, folder, *names):
        for name in names:
            self.write(os.path.join(folder, name), self.files[name])

    def document(self, **model):
        return {**tiny(self.data, steps=1, every=0), "model": {**model, "tokenizer": "bytes"}}

    def train(self, run, *arguments, code=0, says=(), **model):
        """What a run's job says of its model in the end."""
        self.ask("train", self.job(self.document(**model), "wants.json"), "--output-dir", run, *arguments, code=code, says=says)
        if code == 0:
            with open(self / f"{run}/job.json") as file:
                return json.load(file)["model"]

    def fetched(self):
        return [path.rsplit("/", 1)[-1] for where, path, *_ in self.hub.requests if where == "store"]


@case
def the_file_that_is_meant_is_found_in_every_place():
    for place in (f"models/{NAME}", "hub/models--Org--Tiny-GGUF/snapshots/abc", f"home/.lmstudio/models/{NAME}",
                  f"home/.cache/lm-studio/models/{NAME}"):
        with World() as world:
            world.lay(place, *world.files)
            many = ["holds 3 GGUF models; name one of them by model.file, or as Org/Tiny-GGUF:",
                    f"there are {PARTS[0]}, {Q4}, {Q8}"]
            world.train("run", name=NAME, code=65, says=many)
            world.ask("tokenize", "--model", NAME, code=65, says=many)
            for i, (said, file) in enumerate([({"file": Q4}, Q4), ({"file": "q8_0"}, Q8), ({"file": "BF16"}, PARTS[0]),
                                              ({"file": "tiny-BF16-00002-of-00002.gguf"}, PARTS[0])]):
                model = world.train(f"run{i}", name=NAME, **said)
                equal((model["path"], model.get("name"), model.get("file")), (world / f"{place}/{file}", None, None))
            equal(world.train("colon", name=f"{NAME}:Q8_0")["path"], world / f"{place}/{Q8}")
            equal(world.train("host", name=f"hf.co/{NAME}:Q8_0")["path"], world / f"{place}/{Q8}")
            shown = json.loads(world.ask("inspect", f"{NAME}:BF16", "--json", code=65))
            equal((shown["path"], shown["kind"], len(shown["tensors"])), (world / f"{place}/{PARTS[0]}", "gguf", 21))
            world.train("none", name=NAME, file="Q6_K", code=65, says=['holds no GGUF model "Q6_K"; there are', Q4])
            world.train("twice", name=f"{NAME}:Q8_0", file="Q4_K_M", code=78, says=["leave one of them out"])
            assert ": fits" in world.ask("plan", f"{NAME}:Q8_0", "--set", "model.tokenizer=bytes")
            world.ask("plan", f"{NAME}:Q6_K", code=65, says=['holds no GGUF model "Q6_K"; there are'])
            equal(world.hub.requests, [])


@case
def a_place_without_the_file_is_passed_over():
    with World() as world:
        world.lay(f"models/{NAME}", Q4)
        world.lay("hub/models--Org--Tiny-GGUF/snapshots/0ff1ce", "README.md")
        world.lay("hub/models--Org--Tiny-GGUF/snapshots/abc", Q8)  # of a commit that main does not name any more
        world.write("hub/models--Org--Tiny-GGUF/refs/main", "0ff1ce")
        world.lay(f"home/.lmstudio/models/{NAME}", *PARTS)
        equal(world.train("a", name=NAME)["path"], world / f"models/{NAME}/{Q4}")
        equal(world.train("b", name=NAME, file="Q8_0")["path"],
              world / f"hub/models--Org--Tiny-GGUF/snapshots/abc/{Q8}")
        equal(world.train("c", name=NAME, file="BF16")["path"], world / f"home/.lmstudio/models/{NAME}/{PARTS[0]}")


@case
def a_folder_given_by_its_path_is_chosen_from_likewise():
    with World() as world:
        world.lay("studio/repo", *world.files)
        equal(world.train("run", path="studio/repo", file="Q8_0")["path"], world / f"studio/repo/{Q8}")
        world.train("file", path=f"studio/repo/{Q8}", file="Q8_0", code=78, says=["/model/file", "model.path is a file itself"])
        world.train("none", path="studio/repo", file="Q6_K", code=65, says=["/model/file", 'holds no GGUF model "Q6_K"'])
        for wrong in ("../secret.gguf", "/etc/passwd", "", "a:b"):
            world.train("bad", path="studio/repo", file=wrong, code=78, says=["/model/file"])


@case
def one_file_of_a_repository_is_fetched_and_no_other():
    with World() as world:
        world.train("no", name=NAME, file="Q8_0", code=65, says=["let it be fetched (--allow-download)"])
        world.train("open", "--allow-download", name=NAME, code=65, says=[
            "Org/Tiny-GGUF on the hub holds 3 GGUF models; name one of them by model.file, or as Org/Tiny-GGUF:",
            f"there are {PARTS[0]}, {Q4}, {Q8}"])
        world.train("none", "--allow-download", name=NAME, file="Q6_K", code=65, says=['holds no GGUF model "Q6_K"; there are'])
        equal(world.fetched(), [])
        model = world.train("run", "--allow-download", name=NAME, file="Q8_0")
        equal(model, {"path": world / f"models/{NAME}/{Q8}", "download": NAME, "tokenizer": "bytes", "dtype": "auto"})
        equal(world.fetched(), [Q8])
        equal(os.listdir(world / "models/Org"), ["Tiny-GGUF"])  # nothing of the way there is left
        equal(os.listdir(world / f"models/{NAME}"), [Q8])
        world.ask("train", "wants.json", "--output-dir", "run", "--resume")
        equal(world.train("again", name=NAME, file="Q8_0")["path"], world / f"models/{NAME}/{Q8}")
        world.train("other", name=NAME, file="Q4_K_M", code=65, says=['no GGUF model "Q4_K_M"; there is tiny-Q8_0.gguf; fetch it first'])
        world.train("other", "--allow-download", name=f"{NAME}:Q4_K_M")
        equal((world.fetched(), sorted(os.listdir(world / f"models/{NAME}"))), ([Q8, Q4], [Q4, Q8]))


@case
def the_only_model_of_a_repository_needs_no_choice():
    with World() as world:
        world.hub.listing = ["README.md", "config.json", "mmproj-tiny-F16.gguf", "imatrix_tiny.gguf", Q4]
        equal(world.train("run", "--allow-download", name=NAME)["path"], world / f"models/{NAME}/{Q4}")
        equal(world.fetched(), [Q4])
        world.hub.listing = ["README.md", "mmproj-tiny-F16.gguf"]
        world.train("none", "--allow-download", name=NAME, file="BF16", code=65, says=["on the hub holds no GGUF model"])


@case
def a_model_in_parts_comes_whole_or_not_at_all():
    with World() as world:
        world.hub.listing = [Q4, PARTS[0]]
        world.train("part", "--allow-download", name=NAME, file="BF16", code=65,
                    says=["on the hub has 1 of the 2 parts of", PARTS[0]])
        world.hub.listing = sorted(world.files)
        world.hub.faults = [("none",), ("wrong",), ("wrong",)]  # the first part comes last
        world.train("run", "--allow-download", name=NAME, file="BF16", code=65, says=["was not received as the hub has it"])
        assert not os.path.exists(world / f"models/{NAME}")
        model = world.train("next", "--allow-download", name=NAME, file="BF16")
        equal(model["path"], world / f"models/{NAME}/{PARTS[0]}")
        equal(world.fetched(), [os.path.basename(PARTS[i]) for i in (1, 0, 0, 0)])
        for part in PARTS:
            with open(world / f"models/{NAME}/{part}", "rb") as file:
                equal(file.read(), world.files[part])
        equal(os.listdir(world / "models/Org"), ["Tiny-GGUF"])


@case
def what_was_fetched_and_removed_is_fetched_again_for_its_run():
    with World() as world:
        world.train("run", "--allow-download", name=NAME, file="Q8_0")
        os.unlink(world / f"models/{NAME}/{Q8}")
        world.lay(f"models/{NAME}", Q4)
        world.ask("train", "--output-dir", "run", "--resume", code=65, says=[f"is not in {world.path}", "not allowed"])
        world.ask("train", "--output-dir", "run", "--resume", "--allow-download")
        equal(world.fetched(), [Q8, Q8])


@case
def the_daemon_fetches_a_file_and_tells_its_path():
    with World() as world, Daemon("--allow-download", worker=WORKER, environment=world.environment()) as daemon:
        write_documents(os.path.join(daemon.state, "datasets/data.jsonl"), 8)
        place = os.path.join(daemon.state, "models", NAME)
        document = {**world.document(name=NAME, file="Q8_0"), "dataset": {"path": "data.jsonl", "max_seq_len": 32, "val_size": 0}}
        status, job = daemon.ask("POST", "/jobs", document)
        equal((status, job["config"]["model"]["path"], job["config"]["model"]["file"]), (201, place, "Q8_0"))
        until("the job has ended", lambda: daemon.state_of(job["id"]) in ("completed", "failed"))
        model = daemon.job(job["id"])["config"]["model"]
        equal((daemon.job(job["id"])["error"], model["path"], model.get("file")), (None, os.path.join(place, Q8), None))
        status, again = daemon.ask("POST", "/jobs", document)  # it is there now
        equal((status, again["config"]["model"]["path"]), (201, os.path.join(place, Q8)))
        equal(world.fetched(), [Q8])
        for model, pointer in (({"name": NAME, "file": "../x"}, "/model/file"), ({"path": "x", "file": "a"}, "/model/path"),
                               ({"path": place, "download": "Org/Other", "file": "Q8_0"}, "/model/download"),
                               ({"path": f"{place}/../../../x", "download": NAME}, "/model/download")):
            status, answer = daemon.ask("POST", "/jobs", {**document, "model": model})
            equal((status, answer["errors"][0]["pointer"]), (422, pointer))


@case
def models_of_lm_studio_and_of_repositories_are_listed_as_jobs_say_them():
    with World() as world:
        world.lay(f"home/.lmstudio/models/{NAME}", *world.files)
        world.lay("home/.lmstudio/models/Org/One-GGUF", Q4, "mmproj-tiny-F16.gguf")
        world.lay("hub/models--Hub--One-GGUF/snapshots/abc", Q8, "config.json")
        world.lay("models/Org/One-GGUF", Q8)
        listed = json.loads(world.ask("models", "--json"))["data"]
        equal([(one["id"], one["source"], one["usable"]) for one in listed],
              [(f"Org/One-GGUF/{Q8}", "models", True), ("Hub/One-GGUF", "hub_cache", True),
               (f"Org/One-GGUF:{Q4}", "lm_studio", True), (f"{NAME}:{PARTS[0]}", "lm_studio", True),
               (f"{NAME}:{Q4}", "lm_studio", True), (f"{NAME}:{Q8}", "lm_studio", True)])
        equal(listed[3]["bytes"], sum(len(world.files[part]) for part in PARTS))
        for one in listed:  # each is found by what is listed
            shown = json.loads(world.ask("inspect", one["id"], "--json", code=65))
            equal(os.path.realpath(os.path.join(world.path, shown["path"])), os.path.realpath(os.path.join(world.path, one["path"])))
        world.write("home/.lmstudio-home-pointer", str(world / "elsewhere") + "\n")
        world.lay("elsewhere/models/Org/Moved-GGUF", Q4)
        assert f"Org/Moved-GGUF" in world.ask("models")


run_cases()
