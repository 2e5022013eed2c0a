#!/usr/bin/env python3
"""What is learned of a conversation, down to the tokens: with each of llama.cpp's collection of real chat templates
(see templates.py) and with each named one, the learned spans are the assistant's turns and nothing else.
time limit: 900 s"""
import json
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
sys.path.insert(0, HERE)
from megatraind import Skipped, case, equal, run_cases  # noqa: E402
from templates import NOT_TOLD, fetch  # noqa: E402
from training import Folder, tiny, write_rows  # noqa: E402

BEGIN, END = 256, 257  # of the tokenizer `bytes`
QUESTIONS, ANSWERS = ["Which question?", "And then?"], ["First answer.", "Second answer!"]
NAMED = ["chatml", "qwen", "yi", "phi4", "llama2", "llama3", "mistral", "gemma", "phi", "zephyr", "cohere", "deepseek",
         "deepseek3", "openchat", "vicuna", "granite3", "default"]
# They take no conversation without tools.
TOOLS_ONLY = {"CohereForAI-c4ai-command-r-plus-tool_use.jinja", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja",
              "NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja", "fireworks-ai-llama-3-firefunction-v2.jinja"}
# What the model writes itself before its answer: whom it talks to, on which channel.
OWN_HEADERS = {"Cohere2MoE.jinja": ["<|START_TEXT|>"],
               "Kimi-K3.jinja": ["<|close|>think<|sep|><|open|>response<|sep|>"],
               "meetkai-functionary-medium-v3.2.jinja": ["all"],
               "muse-glimmer.jinja": ["to=user<|message|>"],
               "openai-gpt-oss-120b.jinja": ["<|channel|>final<|message|>"],
               "upstage-Solar-Open-100B.jinja": ["<|content|>"]}
folder = Folder().__enter__()


def turns(*weights, system=False):
    messages = [{"role": "system", "content": "Be brief."}] if system else []
    for question, answer, weight in zip(QUESTIONS, ANSWERS, weights):
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer, "loss_weight": weight})
    return {"messages": messages}


WEIGHTS = [(1,), (1, 1), (0, 1), (1, 0), (1, 1)]
ROWS = [turns(*weights, system=i == 4) for i, weights in enumerate(WEIGHTS)]
write_rows(folder / "turns.jsonl", ROWS)


def look(name=None, template=None, path="turns.jsonl"):
    document = tiny(path)
    document["dataset"]["max_seq_len"] = 65536
    if template:
        shutil.copy(template, folder / "model/chat_template.jinja")
        document["model"] = {"path": folder / "model"}
    else:
        document["dataset"]["template"] = name
    said = folder.run("data", folder.job(document), "--show", "9", "--json")
    return json.loads(said)


def text(ids):
    return "".join({BEGIN: "<|begin|>", END: "<|end|>", 258: "<|pad|>"}.get(i) or chr(i) for i in ids)


def spans(sample):
    """What is learned, run by run."""
    found, inside = [], False
    for token, mark in zip(sample["ids"], sample["learned"]):
        if mark and not inside:
            found.append([])
        if mark:
            found[-1].append(token)
        inside = mark
    return [text(span) for span in found]


def check(found, which=None):
    samples = {sample["row"]: sample for sample in found["show"]}
    refused = {row for drop in found["dropped"] for row in drop["rows"]}
    equal(set(samples) | refused, set(range(len(ROWS))))
    assert not refused - {4}, found["dropped"]  # a template may know no system prompt
    for row, sample in samples.items():
        wanted = [answer for answer, weight in zip(ANSWERS, WEIGHTS[row]) if weight]
        got = spans(sample)
        equal(len(got), len(wanted))
        for span, answer in zip(got, wanted):
            equal(span.count(answer), 1)
            before, after = span.split(answer)
            # From behind the generation prompt: nothing of a header, unless the template leaves it to the model.
            assert before.strip() in OWN_HEADERS.get(which, [""]), span
            # To the end of the turn: marks of the template and of the tokenizer, none of what begins another one.
            assert re.fullmatch(r"\s*((<[^<>]+>|\[e~\[|think|response|message)\s*)*", after), span
            assert not re.search("start|user|system|begin", after), span
        pairs = zip(sample["ids"], sample["ids"][1:])
        assert (BEGIN, BEGIN) not in pairs, sample["ids"][:8]
        if WEIGHTS[row][-1]:  # some templates end an answer only by what comes next; the last one is ended always
            assert got[-1].split(wanted[-1])[1].strip(), f"no end token: {got[-1]!r}"


@case
def the_learned_spans_of_the_named_templates_are_the_answers():
    for name in NAMED:
        try:
            check(look(name=name))
        except Exception as fault:
            raise AssertionError(f"{name}: {fault}") from fault


@case
def the_learned_spans_of_real_templates_are_the_answers():
    collection = fetch()
    if not os.path.isdir(collection):
        raise Skipped(collection)
    folder.train(tiny("turns.jsonl", steps=1) | {"dataset": {"path": "turns.jsonl", "max_seq_len": 2048}}, "run")
    shutil.copytree(folder / "run/checkpoints/final", folder / "model")
    wrong, told = [], 0
    for name in sorted(os.listdir(collection)):
        try:
            check(look(template=os.path.join(collection, name)), name)
            told += 1
        except Exception as fault:
            if name not in NOT_TOLD | TOOLS_ONLY:
                wrong.append(f"{name}: {str(fault)[:300]}")
    assert not wrong, f"{len(wrong)} of {told + len(wrong)} templates:\n" + "\n".join(wrong)
    assert told > 50, told


if __name__ == "__main__":
    run_cases()
