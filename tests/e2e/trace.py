#!/usr/bin/env python3
"""Traces of training: every layer's copies, operations and updates are there, in their rows, and change no bit.
time limit: 120 s"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import case, equal, run_cases  # noqa: E402
from training import ROOT, Folder, same_runs, tiny, write_documents  # noqa: E402

LAYERS, STEPS = 3, 4
folder = Folder().__enter__()
write_documents(folder / "notes.jsonl", 40)


def job(**logging):
    document = tiny("notes.jsonl", steps=STEPS, every=0, micro_batch_size=2)
    document["model"]["num_layers"] = LAYERS
    document["device"] = "cpu-discrete"
    document["memory"] = {"recompute": "always", "activation_offload": "on"}
    document["logging"] = logging
    return document


def spans(path):
    with open(folder / path) as file:
        events = json.load(file)
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    return [(rows[event["tid"]], event) for event in events if event["ph"] == "X"]


@case
def every_layer_copy_and_update_is_there():
    folder.train(job(), "traced", "--trace", folder / "steps.json", "--quiet")
    found = {}
    for row, event in spans("steps.json"):
        found.setdefault((row, event["name"]), []).append(event)
        assert event["ts"] >= 0 and event["dur"] >= 0, event
    for layer in range(LAYERS):
        for row, what, least in [("compute", "forward", STEPS), ("compute", "recompute", 2 * STEPS),
                                 ("compute", "backward", 2 * STEPS), ("weights in", "weights of", STEPS),
                                 ("gradients out", "gradients of", STEPS), ("updates", "update of", STEPS)]:
            assert len(found.get((row, f"{what} layer {layer}"), [])) >= least, (row, what, layer, found.keys())
    for row, what in [("compute", "head and loss"), ("weights in", "weights of final norm"), ("host", "embedding"),
                      ("gradients out", "gradient of the embeddings"), ("updates", "update of head")]:
        assert len(found.get((row, what), [])) >= STEPS, (row, what)
    for row in ("weights in", "compute", "gradients out"):  # operations of a stream follow each other
        times = sorted((event["ts"], event["ts"] + event["dur"]) for name, event in spans("steps.json") if name == row)
        assert all(after[0] >= before[1] - 0.2 for before, after in zip(times, times[1:])), row


@case
def a_trace_changes_no_bit():
    folder.train(job(), "plain", "--quiet")
    same_runs(folder / "traced", folder / "plain")


@case
def accumulation_changes_neither_bits_nor_the_weights_that_cross_the_bus():
    crossed = []
    for batch, accumulation in ((8, 1), (1, 8)):
        document = job()
        document["training"].update(batch_size=batch, gradient_accumulation_steps=accumulation, micro_batch_size=1)
        name = f"{batch}x{accumulation}"
        folder.train(document, name, "--trace", folder / f"{name}.json", "--quiet")
        crossed.append(sum(event["args"]["bytes"] for row, event in spans(f"{name}.json") if row == "weights in" and
                           event["cat"] == "weights"))
    same_runs(folder / "8x1", folder / "1x8")
    equal(crossed[0], crossed[1])
    # Each layer twice, the rest once: what a run of as many steps and no accumulation takes, too.
    equal(crossed[0], sum(event["args"]["bytes"] for row, event in spans("steps.json") if event["cat"] == "weights"))


@case
def the_job_key_puts_it_into_the_run():
    folder.train(job(trace=True), "keyed", "--quiet")
    assert any(event["cat"] == "backward" for _, event in spans("keyed/trace.json"))


@case
def a_file_that_cannot_be_written_is_named():
    folder.run("train", folder.job(job()), "--output-dir", "nowhere", "--trace", "missing/steps.json", code=74,
               says=["missing/steps.json"])


@case
def the_picture_is_drawn_from_it():
    script = os.path.join(ROOT, "docs", "draw_trace.py")
    drawn = subprocess.run([sys.executable, script, folder / "steps.json", "3"], check=True, capture_output=True,
                           text=True).stdout
    assert drawn.startswith("<svg") and "backward layer 0" in drawn and "gradients out" in drawn
    equal(subprocess.run([sys.executable, script, folder / "steps.json", "99"], capture_output=True).returncode, 1)
    document = {**job(), "device": "cpu"}  # nothing is copied
    folder.train(document, "uncopied", "--trace", folder / "uncopied.json", "--quiet")
    for step, code in ((1, 0), (STEPS, 0), (STEPS + 1, 1)):
        drawn = subprocess.run([sys.executable, script, folder / "uncopied.json", str(step)], capture_output=True, text=True)
        equal((drawn.returncode, "backward layer 0" in drawn.stdout), (code, code == 0))


try:
    run_cases()
finally:
    folder.__exit__()
