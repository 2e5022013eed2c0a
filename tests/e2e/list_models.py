#!/usr/bin/env python3
"""GET /models: what is on disk where jobs find models, and what of it can be trained."""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import Daemon, case, equal, run_cases, until
from training import WORKER, Folder, tiny, write_documents

DIGEST = "0123456789abcdef" * 4


def make_model(folder):
    folder.run("train", folder.job(tiny(write_documents(folder / "first.jsonl", 8), steps=1, every=0), "first.json"),
               "--output-dir", "first")
    return folder / "first/checkpoints/final"


def copy(model, path):
    shutil.copytree(model, path)
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path) if name.endswith(".safetensors"))


@case
def models_of_the_folder_the_hub_cache_and_ollama_are_listed_and_jobs_find_them():
    with Folder() as folder:
        environment = {"HOME": folder / "home", "HF_HUB_CACHE": folder / "hub", "OLLAMA_MODELS": folder / "ollama"}
        with Daemon(worker=WORKER, environment=environment) as daemon:
            equal(daemon.ask("GET", "/models"), (200, {"data": [], "has_more": False, "next": None}))
            model, models = make_model(folder), os.path.join(daemon.state, "models")
            size = copy(model, f"{models}/Org/Tiny")
            copy(model, f"{models}/Org/Growing.partial")
            copy(model, f"{models}/plain")
            os.unlink(f"{models}/plain/model.safetensors")
            folder.write(f"{models}/odd/config.json", json.dumps({"model_type": "mystery"}))
            folder.write(f"{models}/files/broken.gguf", b"GGUF" + bytes(20))
            folder.write(f"{models}/notes.txt", "x")
            copy(model, folder / "hub/models--Org--Tiny/snapshots/abc")  # the models folder goes before
            copy(model, folder / "hub/models--Hub--Tiny/snapshots/0ff1ce")
            copy(model, folder / "hub/models--Hub--Tiny/snapshots/0ff000")
            folder.write("hub/models--Hub--Tiny/refs/main", "0ff1ce")
            folder.write("hub/models--Hub--words/snapshots/abc/tokenizer.json", "{}")
            folder.write("hub/datasets--Org--Set/snapshots/abc/config.json", "{}")
            folder.write(f"ollama/blobs/sha256-{DIGEST}", b"GGUF" + bytes(20))
            folder.write("ollama/manifests/registry.ollama.ai/library/tiny/latest", json.dumps({"layers": [
                {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{DIGEST}"}]}))
            folder.write("ollama/manifests/registry.ollama.ai/someone/adapted/latest", json.dumps({"layers": [
                {"mediaType": "application/vnd.ollama.image.adapter", "digest": f"sha256:{DIGEST}"}]}))
            for name in ("packed-00001-of-00002.gguf", "packed-00002-of-00002.gguf", "mmproj-packed.gguf"):
                folder.write(f"hub/models--Hub--packed/snapshots/abc/{name}", b"GGUF" + bytes(20))
            for name in ("a.gguf", "b.gguf"):
                folder.write(f"hub/models--Hub--several/snapshots/abc/{name}", b"GGUF" + bytes(20))
            status, found = daemon.ask("GET", "/models")
            equal((status, found["has_more"]), (200, False))
            by_id = {one["id"]: one for one in found["data"]}
            equal([(one["id"], one["source"], one["format"], one["usable"]) for one in found["data"]],
                  [("Org/Tiny", "models", "huggingface", True), ("files/broken.gguf", "models", "gguf", False),
                   ("odd", "models", "huggingface", False), ("plain", "models", "huggingface", False),
                   ("Hub/Tiny", "hub_cache", "huggingface", True), ("Hub/packed", "hub_cache", "gguf", False),
                   ("Hub/several:a.gguf", "hub_cache", "gguf", False), ("Hub/several:b.gguf", "hub_cache", "gguf", False),
                   ("ollama:tiny:latest", "ollama", "gguf", False),
                   ("ollama:someone/adapted:latest", "ollama", "gguf", False)])
            equal(by_id["Hub/several:b.gguf"]["path"], folder / "hub/models--Hub--several/snapshots/abc/b.gguf")
            assert "adapter beside it, which is not supported" in by_id["ollama:someone/adapted:latest"]["reason"], by_id
            with open(os.path.join(model, "config.json")) as file:
                config = json.load(file)
            tiny_one = by_id["Org/Tiny"]
            equal((tiny_one["model_type"], tiny_one["bytes"], tiny_one["reason"]), (config["model_type"], size, None))
            assert size - 8192 < 4 * tiny_one["parameters"] < size, tiny_one  # float32, and a header
            equal(by_id["Hub/Tiny"]["path"], folder / "hub/models--Hub--Tiny/snapshots/0ff1ce")
            assert "mystery" in by_id["odd"]["reason"] and by_id["odd"]["model_type"] == "mystery", by_id["odd"]
            assert "holds no .safetensors file" in by_id["plain"]["reason"], by_id["plain"]
            equal((by_id["files/broken.gguf"]["bytes"], by_id["files/broken.gguf"]["parameters"]), (24, None))
            shown = folder.run("models", env={**os.environ, **environment})  # with ./models, which is not there
            equal([line.split()[0] for line in shown.splitlines()[1:7]],
                  ["Hub/Tiny", "Hub/packed", "Hub/several:a.gguf", "Hub/several:b.gguf", "Org/Tiny", "ollama:tiny:latest"])
            for part in ("MODEL", "Hub/several:a.gguf: ", "adapter beside it, which is not supported"):
                assert part in shown, (part, shown)
            assert '"has_more": false' in folder.run("models", "--json", env={**os.environ, **environment})
            folder.run("models", "--familes", code=64, says=["unknown option --familes (is --families meant?)"])
            for name in ("Org/Tiny", "Hub/Tiny"):  # what is listed is what jobs may say
                write_documents(os.path.join(daemon.state, "datasets/data.jsonl"), 8)
                document = {**tiny("data.jsonl", steps=1, every=0), "model": {"name": name}}
                status, job = daemon.ask("POST", "/jobs", document)
                equal((status, job["config"]["model"]["path"]), (201, by_id[name]["path"]))
                until("the job has ended", lambda: daemon.state_of(job["id"]) in ("completed", "failed"))
                equal(daemon.job(job["id"])["error"], None)


run_cases()
