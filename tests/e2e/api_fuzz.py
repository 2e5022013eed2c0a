#!/usr/bin/env python3
"""Documents that nobody means, to POST /plan, POST /datasets/preview and POST /jobs: absurd values of every key that a job
has, shapes of JSON that are none, and random changes of good documents. Each gets an answer in seconds that says what is
wrong, no worker dies of one, and the daemon stays as it was. MT_FUZZ_DOCUMENTS: so many random ones ($MT_FUZZ_SEED).
time limit: 300 s"""
import concurrent.futures
import copy
import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import SANITIZED, SLOWNESS, Daemon, case, equal, run_cases  # noqa: E402
from training import MEGATRAIN, WORKER, write_rows  # noqa: E402

DOCUMENTS = int(os.environ.get("MT_FUZZ_DOCUMENTS", "300" if not SANITIZED else "60"))
SEED = int(os.environ.get("MT_FUZZ_SEED", "1"))
LONGEST_S = 8 * SLOWNESS

daemon = Daemon(worker=WORKER)
datasets = os.path.join(daemon.state, "datasets")
write_rows(os.path.join(datasets, "chat.jsonl"), [{"instruction": f"Question {i}?", "output": f"Answer {i}."} for i in range(9)])
write_rows(os.path.join(datasets, "dpo.jsonl"), [{"prompt": "a", "chosen": "b", "rejected": "c"}])
with open(os.path.join(datasets, "dataset_info.json"), "w") as file:
    json.dump({"chat": {"file_name": "chat.jsonl"}}, file)

BASE = {"name": "n", "method": "sft",
        "model": {"architecture": "llama", "hidden_size": 64, "num_layers": 2, "num_attention_heads": 4, "tokenizer": "bytes",
                  "vocab_size": 300, "intermediate_size": 128, "num_key_value_heads": 2, "rope_theta": 10000.0,
                  "rms_norm_eps": 1e-6, "max_position_embeddings": 128, "head_dim": 16, "tie_word_embeddings": True,
                  "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        "dataset": {"path": "chat.jsonl", "max_seq_len": 64, "template": "chatml", "packing": True, "val_size": 0.1},
        "training": {"batch_size": 2, "max_steps": 2, "learning_rate": 1e-3, "freeze": ["*norm*"]},
        "optimizer": {"type": "adamw", "beta1": 0.9}, "memory": {"store": "ram", "checkpoint_interval": 1},
        "checkpoint": {"every_steps": 1, "keep": 1}, "device": "cpu", "labels": {"a": "b"}}
ODD = [None, True, False, 0, -1, 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, -2**63, 0.5, -0.0, 1e-320, 1e300, -1e300, "", " ", "0", "-1",
       "auto", "nan", "inf", "1e999", "99999999999999999999", "x" * 70000, "\u0001\u007f\u2028\U0010ffff", "../../etc/passwd", "/",
       "a\nb", "%s%n", [], {}, [None], [[[[[[]]]]]], {"": {"": {}}}, {"a": 1}, [1, "a"], ["*"] * 2000, list(range(3000)),
       {str(i): i for i in range(2000)}]


def post(path, body, timeout=60):
    """Status, answer, seconds. A body of bytes is sent as it is."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=timeout)
    begin = time.monotonic()
    try:
        connection.request("POST", path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text), time.monotonic() - begin
    finally:
        connection.close()


preview_lock = threading.Lock()  # the daemon makes one at a time


def fault_of(path, body):
    """What is wrong with the answer, or None."""
    shown = (body if isinstance(body, bytes) else json.dumps(body).encode())[:300]
    for attempt in range(20):
        if path.startswith("/datasets"):
            with preview_lock:
                status, answer, seconds = post(path, body)
        else:
            status, answer, seconds = post(path, body)
        busy = status == 503 and ("under way" in answer["detail"] or attempt < 2 and "gave no answer" in answer["detail"])
        if not busy:
            break
    if status not in (200, 201, 400, 413, 422):
        return f"{path} {shown}: {status} {answer}"
    if seconds > LONGEST_S:
        return f"{path} {shown}: {seconds:.1f} s for {status}"
    if status == 422 and not (answer["errors"] and all(isinstance(e["pointer"], str) and e["detail"] for e in answer["errors"])):
        return f"{path} {shown}: {answer}"
    if status == 200 and path.startswith("/plan"):
        numbers = json.dumps(answer)
        if "NaN" in numbers or "Infinity" in numbers or answer["parameters"] <= 0 or answer["device"]["total_bytes"] < 0:
            return f"{path} {shown}: {numbers[:300]}"
    if status == 201:
        daemon.ask("POST", f"/jobs/{answer['id']}/cancel")
    return None


def survey(tries):
    tries = list(tries)
    before = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        faults = [fault for fault in pool.map(lambda one: fault_of(*one), tries) if fault]
    for fault in faults[:40]:
        print("  " + fault, flush=True)
    equal(daemon.process.poll(), None)
    equal(faults[:3], [])
    time.sleep(0.5)
    assert len(os.listdir(f"/proc/{daemon.process.pid}/fd")) <= before + 8, "descriptors are lost"
    blind = [line for line in daemon.log().split("\n") if "were not looked at" in line]
    equal(blind[:3], [])  # a worker died over a submitted job
    print(f"  {len(tries)} documents", flush=True)


def keys_of(schema):
    """Every key of a job, dotted."""
    def walk(node, prefix):
        for name, child in node.get("properties", {}).items():
            yield prefix + name
            yield from walk(child, prefix + name + ".")
        for part in ("oneOf", "anyOf", "allOf"):
            for child in node.get(part, []):
                yield from walk(child, prefix)
    return sorted(set(walk(schema, "")))


def changed(document, key, value):
    document = copy.deepcopy(document)
    at = document
    *way, last = key.split(".")
    for name in way:
        if not isinstance(at.get(name), dict):
            at[name] = {}
        at = at[name]
    at[last] = value
    return document


KEYS = keys_of(json.loads(subprocess.run([MEGATRAIN, "schema"], capture_output=True, text=True, check=True).stdout))
KEYS += [f"model.{key}" for key in BASE["model"] if f"model.{key}" not in KEYS]


@case
def the_good_document_is_good_everywhere():
    for path, wanted in (("/plan", 200), ("/datasets/preview", 200), ("/jobs", 201)):
        status, job, _ = post(path, BASE)
        equal((path, status, job.get("errors")), (path, wanted, None))
    daemon.wait(job["id"], "completed")


@case
def an_absurd_value_of_any_key_gets_an_answer():
    assert len(KEYS) > 80, KEYS
    chance = random.Random(SEED)
    few = (lambda odd: odd) if os.environ.get("MT_FUZZ_ALL") else (lambda odd: chance.sample(odd, 8 if not SANITIZED else 2))
    survey(("/plan", changed(BASE, key, value)) for key in KEYS for value in few(ODD))


@case
def absurd_values_are_refused_by_preview_and_submission_too():
    chance = random.Random(SEED + 1)
    times = 1 if os.environ.get("MT_FUZZ_ALL") is None else 8
    survey((path, changed(BASE, key, value)) for path in ("/datasets/preview", "/jobs") for key in KEYS
           for value in chance.sample(ODD, times) if not SANITIZED or chance.random() < 0.2)


@case
def what_is_no_document_gets_400_or_422():
    good = json.dumps(BASE).encode()
    bodies = [b"{", b"}", b"null", b"[]", b"0", b'"x"', b"[" * 100000, b'{"a":' * 50000 + b"1" + b"}" * 50000, b"[" * 3000 + b"]" * 3000,
              b'{"model": ' + b"[" * 2000 + b"]" * 2000 + b"}", b'{"name": "\xff\xfe"}', b'{"name": "\xed\xa0\x80"}', b'{"name": "\\ud800"}',
              b'{"name": "\\u0000"}', b'{"\\u0000": 1}', b'{"name": "a\x00b"}', b"\xef\xbb\xbf" + good, good + b" x", good + good, good[:-1],
              b'{"training": {"max_steps": 1' + b"0" * 400 + b"}}", b'{"training": {"learning_rate": 1e999}}',
              b'{"training": {"learning_rate": NaN}}', b'{"name": 1, "name": 2}', good.replace(b'"n"', b"'n'"), b"\x00" * 100,
              b'{"' + b"k" * 900000 + b'": 1}', b'{"labels": {' + b", ".join(b'"%d": "x"' % i for i in range(50000)) + b"}}"]
    for body in bodies:
        for path in ("/plan", "/datasets/preview", "/jobs"):
            status, answer, seconds = post(path, body)
            assert status in (400, 422), (path, body[:60], status, answer)
            assert seconds < LONGEST_S and answer["detail"], (path, body[:60], seconds)


@case
def random_changes_of_good_documents_get_an_answer():
    chance = random.Random(SEED + 2)

    def places(value, way=()):
        yield way
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, child in children:
            yield from places(child, way + (key,))

    def mutate(document):
        document = copy.deepcopy(document)
        for _ in range(chance.choice((1, 1, 2, 3, 5))):
            way = chance.choice([way for way in places(document) if way])
            at = document
            for key in way[:-1]:
                at = at[key]
            what = chance.random()
            if what < 0.6:
                at[way[-1]] = copy.deepcopy(chance.choice(ODD))
            elif what < 0.75:
                del at[way[-1]]
            elif what < 0.9 and isinstance(at, dict):
                at[chance.choice(KEYS).split(".")[-1]] = copy.deepcopy(chance.choice(ODD))
            elif isinstance(at, dict):  # one part under another's name
                other = chance.choice([way for way in places(document) if way])
                source = document
                for key in other:
                    source = source[key]
                at[way[-1]] = copy.deepcopy(source)
        return document

    def mangled(body):
        body = bytearray(body)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(body))
            body[at:at + chance.choice((0, 1, 1, 4))] = bytes(chance.choice(b'{}[]",:0123456789eE+-.\\u\xff\x00 tfn')
                                                              for _ in range(chance.randint(0, 3)))
        return bytes(body)
    tries = []
    for i in range(DOCUMENTS):
        path = ("/plan", "/plan", "/datasets/preview", "/jobs")[i % 4]
        tries.append((path, mangled(json.dumps(BASE).encode()) if i % 5 == 0 else mutate(BASE)))
    survey(tries)


@case
def absurd_machines_to_plan_for_get_an_answer():
    def quoted(value):
        return "".join(c if c.isalnum() or c in "-_." else "".join(f"%{b:02X}" for b in c.encode()) for c in value)
    names = ("gpu_memory", "host_memory", "bus_gbps", "bus_latency_us", "device_tflops", "device_gbps", "dram_gbps")
    values = ("0", "-1", "1e308", "1e-308", "nan", "inf", "-inf", "0x10", "99999999999999999999G", "1", "1K", "18446744073709551615", "",
              "1e400", "3.5T", "G", "24GG", "\u221e", "1" * 5000)
    survey((f"/plan?{name}={quoted(value)}", {**BASE, "device": "cuda"}) for name in names for value in values)


run_cases()
