#!/usr/bin/env python3
"""`megatrain inspect` shows what a model holds, and what of it is not supported."""
import json
import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import case, equal, run_cases
from training import ROOT, Folder, tiny, write_documents

GOLDEN = os.path.join(ROOT, "tests", "golden")


def inspect(folder, path, code=0):
    return json.loads(folder.run("inspect", path, "--json", code=code))


def write_safetensors(path, tensors):
    """tensors: name -> (type, shape, bytes)."""
    header, data = {}, b""
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


@case
def a_gguf_file_is_shown_with_its_metadata():
    with Folder() as folder:
        shown = inspect(folder, os.path.join(GOLDEN, "gguf/qwen3.gguf"), code=65)
        equal((shown["kind"], shown["version"], shown["model"]["model_type"]), ("gguf", 3, "qwen3"))
        equal(shown["metadata"]["qwen3.attention.head_count_kv"], 2)
        equal(shown["config"]["num_key_value_heads"], 2)
        equal(list(shown["types"]), ["F32"])
        assert any(one["name"] == "blk.1.attn_q_norm.weight" and one["shape"] == [8] for one in shown["tensors"])
        equal(len(shown["problems"]), 1)
        assert "no vocabulary" in shown["problems"][0], shown["problems"]
        text = folder.run("inspect", os.path.join(GOLDEN, "gguf/qwen3.gguf"), code=65)
        for part in ("blk.0.ffn_gate.weight", "qwen3.block_count", "not supported, or wrong"):
            assert part in text, part


@case
def a_checkpoint_and_its_parts_are_shown():
    with Folder() as folder:
        folder.train(tiny(write_documents(folder / "data.jsonl", 8), steps=1, every=0), "run")
        shown = inspect(folder, "run/checkpoints/final")
        equal(inspect(folder, "run") | {"path": None}, shown | {"path": None})
        equal((shown["kind"], shown["checkpoint"]["step"], shown["model"]["layers"]), ("checkpoint", 1, 2))
        equal((shown["tokenizer"]["kind"], shown["tokenizer"]["vocab_size"]), ("bytes", 259))
        equal(shown["problems"], [])
        weights = inspect(folder, "run/checkpoints/final/model.safetensors")
        equal((weights["kind"], weights["model"], weights["bytes"]), ("safetensors", None, shown["bytes"]))
        os.truncate(folder / "run/checkpoints/final/model.safetensors", 3000)
        broken = inspect(folder, "run/checkpoints/final", code=65)
        assert "cut off" in broken["problems"][0], broken["problems"]
        folder.run("inspect", "run/checkpoints/final/model.safetensors", code=65, says=["cut off"])


@case
def what_is_not_supported_is_named():
    with Folder() as folder:
        folder.write("model/config.json", json.dumps({"model_type": "unheard_of"}))
        write_safetensors(folder / "model/model.safetensors", {"w": ("I32", [2], b"\0" * 8)})
        shown = inspect(folder, "model", code=65)
        equal(shown["model"], None)
        assert any("I32, which is not supported" in one for one in shown["problems"]), shown["problems"]
        assert any("`unheard_of` is not supported yet" in one for one in shown["problems"]), shown["problems"]
        os.unlink(folder / "model/model.safetensors")
        folder.write("model/pytorch_model.bin", "x")
        shown = inspect(folder, "model", code=65)
        assert any("pickle file" in one for one in shown["problems"]), shown["problems"]
        for command in (["inspect"], ["render", "--model"], ["tokenize", "--model"]):
            folder.run(*command, "absent", code=65, says=["cannot open absent", "no model of that name"])
        folder.run("inspect", "a", "b", code=64)
        folder.write("rows.csv", "instruction,output\nadd 1 and 1,2\n")
        folder.run("inspect", "rows.csv", code=65, says=["rows.csv is a file of data and no model", "megatrain data"])


@case
def a_folder_without_a_tokenizer_says_so():
    with Folder() as folder:
        shutil.copytree(os.path.join(GOLDEN, "llama_gqa_tied"), folder / "model")
        assert any("no tokenizer" in note for note in inspect(folder, "model")["notes"])


@case
def the_one_gguf_model_of_a_folder_is_shown_and_of_several_all_are_named():
    """A folder as LM Studio and the hub lay it."""
    with Folder() as folder:
        os.makedirs(folder / "Org/Model-GGUF")
        golden = os.path.join(GOLDEN, "gguf/qwen3.gguf")
        shutil.copy(golden, folder / "Org/Model-GGUF/b.gguf")
        shown = inspect(folder, "Org/Model-GGUF", code=65)
        equal((shown["kind"], shown["path"], shown["model"]["model_type"]), ("gguf", "Org/Model-GGUF/b.gguf", "qwen3"))
        shutil.copy(golden, folder / "Org/Model-GGUF/a.gguf")
        folder.run("inspect", "Org/Model-GGUF", code=65, says=["holds 2 GGUF models", "there are a.gguf, b.gguf"])
        folder.run("inspect", "Org", code=65, says=["Org holds no model"])
        os.makedirs(folder / "models--Org--Name/snapshots/abc")
        folder.run("inspect", "models--Org--Name", code=65, says=["say Org/Name instead"])


@case
def shards_in_half_precision_are_one_model():
    """A golden model cut into two shards of other types is the model; without one of them it is told so."""
    with Folder() as folder:
        source = os.path.join(GOLDEN, "llama_gqa_tied")
        os.mkdir(folder / "model")
        shutil.copy(os.path.join(source, "config.json"), folder / "model")
        with open(os.path.join(source, "model.safetensors"), "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            data = file.read()
        header.pop("__metadata__", None)
        shards, places = [{}, {}], {}
        for i, (name, one) in enumerate(sorted(header.items())):
            raw = data[one["data_offsets"][0]:one["data_offsets"][1]]
            if i % 2:  # the upper halves of float32 are bfloat16
                raw = b"".join(raw[k + 2:k + 4] for k in range(0, len(raw), 4))
            shards[i % 2][name] = ("BF16" if i % 2 else "F32", one["shape"], raw)
            places[name] = f"model-{i % 2 + 1:05}-of-00002.safetensors"
        for i, shard in enumerate(shards):
            write_safetensors(folder / f"model/model-{i + 1:05}-of-00002.safetensors", shard)
        folder.write("model/model.safetensors.index.json", json.dumps({"weight_map": places}))
        shown = inspect(folder, "model")
        equal((sorted(shown["types"]), len(shown["tensors"]), shown["model"]["tied"]), (["BF16", "F32"], len(header), True))
        os.unlink(folder / "model/model-00002-of-00002.safetensors")
        shown = inspect(folder, "model", code=65)
        assert "names the shard model-00002-of-00002.safetensors, which is not there" in shown["problems"][0], shown["problems"]


run_cases()
