#!/usr/bin/env python3
"""SmolLM2-135M-Instruct from its GGUF file gives llama.cpp's tokens, logits and greedy continuations, as
tests/consumers/llama_cpp.py wrote them down. Fetches 98 MB once.   (time limit: 1200 s)"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import consumers
from consumers import report
import smollm2

MEGATRAIN = os.path.join(consumers.BUILD, "megatrain")


def check_results(path):
    golden = smollm2.read_golden()
    prompts = [one["ids"] for one in golden["prompts"]]
    got = smollm2.tokenize(path, [one["text"] for one in golden["prompts"]])
    report("prompts have llama.cpp's ids", None if got == prompts else f"{got} instead of {prompts}")
    results = smollm2.decode(path, prompts)
    worst = 0.0
    for one, (continuation, _, logits) in zip(golden["prompts"], results):
        worst = max(worst, max(abs(logits[int(i)] - value) for i, value in one["logits"].items()))
        report(f"greedy continuation of {one['text'][:24]!r}",
               smollm2.difference(one["continuation"], one["margins"], continuation))
    report("logits are within 1e-3 of llama.cpp's", None if worst <= smollm2.LOGITS else f"{worst:.3g} apart")
    print(f"# logits at most {worst:.3g} apart")


def check_training(path):
    """A step, and a checkpoint that stands alone: the same tokens, the same template, other weights."""
    with tempfile.TemporaryDirectory(prefix="mt-gguf-") as folder:
        data = os.path.join(folder, "rows.jsonl")
        with open(data, "w", encoding="utf-8") as file:
            for i in range(8):
                file.write(json.dumps({"instruction": f"What is {i}?", "output": f"It is {i}."}) + "\n")
        job = {"name": "real", "model": {"path": path}, "dataset": {"path": data, "max_seq_len": 64, "val_size": 0},
               "training": {"batch_size": 1, "max_steps": 1, "learning_rate": 1e-4}, "device": "cpu"}
        file = os.path.join(folder, "job.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(job, out)
        done = subprocess.run([MEGATRAIN, "train", file, "--output-dir", os.path.join(folder, "run")], capture_output=True,
                              text=True)
        if done.returncode:
            return done.stderr[-400:]
        checkpoint = os.path.join(folder, "run", "checkpoints", "final")
        names = sorted(name for name in os.listdir(checkpoint) if not name.startswith("."))
        wanted = ["chat_template.jinja", "config.json", "generation_config.json", "megatrain", "model.safetensors",
                  "tokenizer.json", "tokenizer_config.json"]
        if names != wanted:
            return f"the checkpoint has {names}"
        texts = [one["text"] for one in smollm2.read_golden()["prompts"]]
        if smollm2.tokenize(path, texts) != smollm2.tokenize(checkpoint, texts):
            return "the checkpoint's tokenizer gives other ids"
        rendered = [subprocess.run([MEGATRAIN, "render", "--model", model, "--tokens"], capture_output=True,
                                   input=b'[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}]')
                    for model in (path, checkpoint)]
        if rendered[0].returncode or rendered[0].stdout != rendered[1].stdout:
            return f"the checkpoint's template gives {rendered[1].stdout} instead of {rendered[0].stdout}"
        with open(os.path.join(checkpoint, "generation_config.json"), encoding="utf-8") as file:
            if json.load(file) != {"bos_token_id": 1, "eos_token_id": 2}:
                return "the checkpoint does not say where answers end"
        again = subprocess.run([MEGATRAIN, "inspect", checkpoint, "--json"], capture_output=True)
        shown = json.loads(again.stdout)
        if again.returncode or shown["kind"] != "checkpoint" or shown["model"]["parameters"] != 134515008:
            return f"inspect says {shown['problems']}"
    return None


def main():
    path, why = smollm2.model()
    if why:
        print("skip SmolLM2-135M-Instruct from its GGUF file: " + why)
        return
    check_results(path)
    report("a checkpoint of a GGUF model stands alone", check_training(path))


main()
