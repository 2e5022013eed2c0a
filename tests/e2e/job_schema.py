#!/usr/bin/env python3
"""The schema that `megatrain schema` prints agrees with what the engine accepts.

Both judge the same documents: a table of good and bad ones, and thousands made by chance out of the schema
itself. What the engine accepts the schema must accept; what the schema refuses the engine must refuse; and what
only the engine refuses must be of the kinds that no schema can say.
"""
import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skip job_schema: python3-jsonschema is not installed")
    sys.exit(0)

BUILD = os.environ.get("MT_BUILD", "build")
SCRATCH = {"architecture": "llama", "hidden_size": 64, "num_layers": 2, "num_attention_heads": 4}

# What only the engine can know: sentences of errors beside which the schema may accept.
ONLY_THE_ENGINE = re.compile(
    r"not divisible|must be even|head_dim must be even|too small for the tokenizer|outside of the vocabulary|"
    r"larger than a whole step|no machine holds|cannot use |cannot read|is empty$|neither in the models folder|"
    r"not the name of a model|neither the name of a GGUF file|model.file says which|whole number of samples|holds no |No such file|is a file; a model|"
    r"must be a size such as|must be at least 1MiB|is not a tokenizer.json|neither a file nor a folder|NUL"
)


def judge(documents):
    """The engine's errors for each document."""
    lines = "".join(json.dumps(document) + "\n" for document in documents)
    answer = subprocess.run([os.path.join(BUILD, "tests/e2e/job_check")], input=lines, text=True,
                            capture_output=True, check=True).stdout.splitlines()
    assert len(answer) == len(documents), (len(answer), len(documents))
    return [json.loads(line) for line in answer]


def case(name, problem):
    print(f"not ok {name}: {problem}" if problem else f"ok {name}")
    return bool(problem)


def document_with(data, **changes):
    document = {"model": dict(SCRATCH), "dataset": {"path": data}}
    document.update(changes)
    return document


def good_documents(data):
    yield document_with(data)
    yield document_with(data, training={"num_steps": 3, "learning_rate": 3e-4}, optimizer={"type": "deepspeed_adam"})
    yield document_with(data, training={"num_epochs": 0.5, "micro_batch_size": "auto", "freeze": ["*.bias"]})
    yield document_with(data, training={"micro_batch_size": 2, "lr_scheduler": "wsd"}, labels={"a": "b"})
    yield document_with(data, dataset={"path": [data], "query_field": "q", "num_workers": 4})
    yield document_with(data, device="cpu-discrete", memory={"device_limit": "64MiB", "bus_gbps": 12})
    for device in ("auto", "cuda", "cuda:0", "cuda:12", 0, 3, 1.0, ["cuda"], [0]):
        yield document_with(data, device=device)
    yield document_with(data, model={**SCRATCH, "device": "cpu", "trust_remote_code": True, "eos_token_id": [257]})
    yield document_with(data, export=[], priority=-5, logging={"log_interval": 10, "enable_timing": True})
    yield document_with(data, distributed={"backend": "nccl", "data_parallel_size": 1, "tensor_parallel_size": 1,
                                           "pipeline_parallel_size": 1})


def bad_documents(data):
    yield 3
    yield {}
    yield {"model": SCRATCH}
    yield {"dataset": {"path": data}}
    yield document_with(data, modle={})
    yield document_with(data, model={})
    yield document_with(data, model={"architecture": "llama", "hidden_size": 64})
    yield document_with(data, model={"path": "/x", "hidden_size": 64})
    yield document_with(data, model={**SCRATCH, "path": "/x"})
    yield document_with(data, model={**SCRATCH, "num_hidden_layers": 2})
    yield document_with(data, model={**SCRATCH, "architecture": "mixtral"})
    yield document_with(data, model={**SCRATCH, "device": "cpu"}, device="cpu")
    yield document_with(data, dataset={"path": data, "name": "x"})
    yield document_with(data, dataset={"path": []})
    yield document_with(data, dataset={"path": data, "query_field": "q", "columns": {"prompt": "q"}})
    yield document_with(data, training={"max_steps": 3, "num_steps": 3})
    yield document_with(data, training={"max_steps": 3, "num_epochs": 3})
    yield document_with(data, training={"num_steps": 3, "num_epochs": 3})
    for key, values in {"batch_size": [0, -1, 1.5, "8", None, [8]], "learning_rate": [0, -1, "3e-4", True, 1e9],
                        "lr_scheduler": ["cos", 3], "warmup_ratio": [-0.1, 1.1], "micro_batch_size": [0, "all"],
                        "freeze": ["a", [3], [""]], "seed": [-1, 0.5], "learning_rat": [1]}.items():
        for value in values:
            yield document_with(data, training={key: value})
    yield document_with(data, optimizer={"beta1": 1})
    yield document_with(data, optimizer={"eps": 0})
    yield document_with(data, optimizer={"type": "muon"})
    yield document_with(data, memory={"store": "nvme"})
    yield document_with(data, method="dpo")
    for device in ("cuda:N", "cuda:", "cuda:-1", "cuda:10000", "gpu", -1, 1.5, 10000, True, None, [], [0, 1], ["gpu"],
                   [1.5]):
        yield document_with(data, device=device)
    yield document_with(data, distributed={"data_parallel_size": 2})
    yield document_with(data, export=[{"format": "gguf"}])
    yield document_with(data, vlm={})
    yield document_with(data, name="a/b")
    yield document_with(data, name=".a")
    yield document_with(data, labels={"a": 1})
    yield document_with(data, training=None)


ODD = [None, True, False, 0, 1, 2, 3, 8, -1, 0.5, 1.0, 1.5, 1e-8, 1e300, 2**53, "", "auto", "x", "cpu", "llama", "sft",
       "on", "off", "64MiB", "bytes", [], [0], ["a"], {}, {"a": "b"}, {"x": 1}]


def blocks_of(schema, path=()):
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        if "properties" in part:
            yield from blocks_of(part, path + (name,))


def chance_documents(data, schema, chance, count):
    blocks = list(blocks_of(schema))
    for _ in range(count):
        document = document_with(data)
        for _ in range(chance.randint(1, 4)):
            path, block = chance.choice(blocks)
            name = chance.choice(list(block["properties"]) + ["unknown"])
            part = block["properties"].get(name, {})
            values = ODD + part.get("enum", []) * 4
            values += [part[k] for k in ("default", "minimum", "maximum", "exclusiveMinimum") if k in part] * 3
            target = document
            for step in path:
                if not isinstance(target.get(step), dict):
                    target[step] = {}
                target = target[step]
            if chance.random() < 0.1:
                target.pop(name, None)
            else:
                target[name] = copy.deepcopy(chance.choice(values))
        yield document


def main():
    failed = False
    printed = subprocess.run([os.path.join(BUILD, "megatrain"), "schema"], capture_output=True, text=True, check=True)
    schema = json.loads(printed.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    failed |= case("the schema is one of draft 2020-12", "")
    validator = jsonschema.Draft202012Validator(schema)

    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.txt")
        with open(data, "w", encoding="utf-8") as file:
            file.write("some text\n")

        good, bad = list(good_documents(data)), list(bad_documents(data))
        problems = [f"{document}: {errors}" for document, errors in zip(good, judge(good)) if errors]
        problems += [f"{d}: {validator.iter_errors(d).__next__().message}" for d in good if not validator.is_valid(d)]
        failed |= case("good documents pass both", "; ".join(problems))
        problems = [f"the engine takes {document}" for document, errors in zip(bad, judge(bad)) if not errors]
        problems += [f"the schema takes {document}" for document in bad if validator.is_valid(document)]
        failed |= case("bad documents pass neither", "; ".join(problems))

        documents = list(chance_documents(data, schema, random.Random(11), 4000))
        problems, agreed = [], {True: 0, False: 0}
        for document, errors in zip(documents, judge(documents)):
            valid = validator.is_valid(document)
            if not errors and not valid:
                problems.append(f"only the schema refuses {document}: {next(validator.iter_errors(document)).message}")
            elif valid and not all(ONLY_THE_ENGINE.search(error["detail"]) for error in errors):
                problems.append(f"only the engine refuses {document}: {errors}")
            else:
                agreed[valid] += 1
        failed |= case("both agree on documents of chance", "; ".join(problems[:3]))
        few = min(agreed.values()) < 100
        failed |= case("chance makes good and bad documents", f"only {agreed}" if few else "")
    sys.exit(failed)


main()
