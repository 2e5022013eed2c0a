#!/usr/bin/env python3
"""Models of ten million parameters learn from real text and from real questions and answers, submitted over HTTP to
megatraind and trained by its worker.
time limit: 400 s"""
import datetime
import math
import os
import re
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import BUILD, Daemon, case, equal, run_cases, until  # noqa: E402
from training import MEGATRAIN, WORKER, real_data  # noqa: E402

SANITIZED = "asan" in BUILD or "tsan" in BUILD
# A sanitized build shows memory errors, not learning: a smaller model, no bound on the loss.
SHAPE = dict(hidden_size=64, num_layers=2, num_attention_heads=2) if SANITIZED else \
    dict(hidden_size=320, num_layers=8, num_attention_heads=5)
PROGRESS_SECONDS = 5  # from a step to its number in the daemon's series, at most
START = math.log(259)  # of the `bytes` tokenizer's ids


def series(daemon):
    """The daemon's Prometheus series: {name with labels: value}."""
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and line[0] != "#"}


def job(path, steps, batch_size, **dataset):
    return {"name": "real", "model": {"architecture": "llama", **SHAPE, "tokenizer": "bytes"},
            "dataset": {"path": path, **dataset},
            "training": {"batch_size": batch_size, "max_steps": steps, "learning_rate": 1e-3, "warmup_ratio": 0.1},
            "checkpoint": {"every_steps": steps // 2}, "device": "cpu"}


def train(document, final_loss):
    """Trains through the API and checks all that the API then shows; the daemon and the job."""
    steps = document["training"]["max_steps"]
    source = document["dataset"]["path"]
    daemon = Daemon("--allow-path", os.path.dirname(source), worker=WORKER)
    try:
        before = series(daemon)
        status, body = daemon.ask("POST", "/jobs", document)
        equal(status, 201)
        id = body["id"]
        gauge = f'megatrain_job_step{{job="{id}"}}'
        looks = []  # when, and the step that was shown; none before and after the run

        def ended():
            looks.append((time.time(), series(daemon).get(gauge)))
            return daemon.state_of(id) in ("completed", "failed")
        until("the job has ended", ended, seconds=300)
        done = daemon.job(id)
        equal((done["state"], done["reason"], done["error"], done["attempt"]), ("completed", None, None, 1))
        equal((done["progress"]["step"], done["progress"]["max_steps"]), (steps, steps))

        rows = daemon.get(f"/jobs/{id}/metrics")["data"]
        equal([row["step"] for row in rows], list(range(1, steps + 1)))
        # Progress is written at most so often, and a fast machine is through before that.
        moves_by = datetime.datetime.fromisoformat(rows[0]["time"]).timestamp() + PROGRESS_SECONDS
        assert all(step for when, step in looks if when > moves_by and step is not None), (moves_by, looks)
        assert all(row["tokens"] >= row["target_tokens"] > 0 and row["tokens_per_second"] > 0 for row in rows)
        losses = [row["loss"] for row in rows]
        print(f"# loss {losses[0]:.3f} to {sum(losses[-5:]) / 5:.3f} in {done['device']}", file=sys.stderr)
        assert abs(losses[0] - START) < 0.35, losses[0]
        assert SANITIZED or sum(losses[-5:]) / 5 < final_loss, losses
        assert all(math.isfinite(row["loss"]) and row["grad_norm"] > 0 for row in rows)

        after = series(daemon)
        equal(after["megatrain_steps_total"] - before["megatrain_steps_total"], steps)
        equal(after["megatrain_trained_tokens_total"] - before["megatrain_trained_tokens_total"],
              sum(row["tokens"] for row in rows))
        equal(after["megatrain_step_duration_seconds_count"] - before["megatrain_step_duration_seconds_count"], steps)
        equal(after['megatrain_jobs{state="completed"}'], 1)
        assert gauge not in after, "the series of a job ends with it"

        checkpoints = daemon.get(f"/jobs/{id}/checkpoints")["data"]
        equal([(entry["step"], entry["verified"]) for entry in checkpoints], [(steps, True), (steps // 2, True)])
        final = os.path.join(daemon.folder(id), "checkpoints", "final")
        equal(os.path.realpath(final), os.path.realpath(checkpoints[0]["path"]))
        parameters = os.path.getsize(os.path.join(final, "model.safetensors")) / 4
        assert SANITIZED or 9e6 < parameters < 12e6, parameters
        messages = [row["message"] for row in daemon.get(f"/jobs/{id}/logs")["data"]]
        assert any(re.search("data: .* tokens", message) for message in messages), messages
        equal(daemon.job(id)["config"]["dataset"]["path"], source)
        return daemon, id
    except BaseException:
        print(daemon.log()[-3000:], file=sys.stderr)
        daemon.close()
        raise


def ask(daemon, id, *question):
    return subprocess.run([MEGATRAIN, "generate", "--model", daemon.folder(id), *question, "--max-new-tokens", "40"],
                          capture_output=True, check=True, timeout=120).stdout


@case
def real_text_is_learnt():
    daemon, id = train(job(real_data("wiki_demo.txt"), 40, 2, max_seq_len=256, val_size=0), 3.3)
    try:
        answer = ask(daemon, id, "--prompt", "Anarchism is a political ")
        assert len(answer) > 10, answer
        equal(ask(daemon, id, "--prompt", "Anarchism is a political "), answer)
        # What it has learnt of English are letters and blanks.
        assert SANITIZED or re.fullmatch(rb"[ a-zA-Z.,\n]+", answer), answer
    finally:
        daemon.close()


@case
def real_questions_and_answers_are_learnt():
    steps = 24
    daemon, id = train(job(real_data("alpaca_en_demo.json"), steps, 1, max_seq_len=512, val_size=8), 3.6)
    try:
        rows = daemon.get(f"/jobs/{id}/metrics")["data"]
        # Answers alone are learnt; the prompts are longer than most of them.
        assert sum(row["target_tokens"] for row in rows) < 0.8 * sum(row["tokens"] for row in rows), rows
        equal([row["step"] for row in rows if "val_loss" in row], [steps // 2, steps])
        answer = ask(daemon, id, "--message", "Name three colours.")
        equal(ask(daemon, id, "--message", "Name three colours."), answer)
    finally:
        daemon.close()


run_cases()
