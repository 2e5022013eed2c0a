#!/usr/bin/env python3
"""Every entry of a real LLaMA-Factory registry is read, with the counts and texts that Python reads, or refused with
the right reason.
time limit: 400 s"""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import Skipped, case, equal, run_cases  # noqa: E402
from training import Folder, real_data, tiny, write_rows  # noqa: E402

# Renders all that a conversation may hold, so plainly that a few lines of Python do, too.
TEMPLATE = """\
{%- if tools %}{{ 'TOOLS ' + tools|tojson + '\\n' }}{% endif -%}
{%- for message in messages %}{{ '<' + message.role + '>' + message.content }}
{%- for call in message.tool_calls or [] %}{{ 'CALL ' + call.function.name + ' ' + call.function.arguments|tojson }}
{%- endfor %}{{ '</' + message.role + '>\\n' }}{% endfor -%}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif -%}
"""

try:
    registry = real_data("dataset_info.json")
except Skipped as reason:
    print(f"skip registry: {reason}")
    sys.exit(0)
data = os.path.dirname(registry)
with open(registry) as file:
    entries = json.load(file)
folder = Folder().__enter__()
write_rows(folder / "one.jsonl", [{"text": "a few words"}])
folder.train(tiny("one.jsonl", steps=1), "run")
shutil.copytree(folder / "run/checkpoints/final", folder / "model")
folder.write("model/chat_template.jinja", TEMPLATE)


def job(name=None, path=None, **dataset):
    document = tiny(path)
    document["model"] = {"path": folder / "model"}
    document["dataset"] = {"max_seq_len": 65536, "packing": False, "val_size": 0, **dataset,
                           **({"name": name, "dataset_dir": data} if name else {"path": path})}
    return folder.job(document)


def read(*arguments, **dataset):
    return json.loads(folder.run("data", job(*arguments, **dataset), "--show", "1000", "--json"))


def load(name):
    with open(os.path.join(data, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file] if name.endswith(".jsonl") else json.load(file)


def rendered(messages, tools=None):
    text = "TOOLS " + json.dumps(tools, ensure_ascii=False) + "\n" if tools else ""
    for message in messages:
        text += f"<{message['role']}>{message.get('content', '')}"
        for call in message.get("calls", []):
            text += f"CALL {call['name']} {json.dumps(call['arguments'], ensure_ascii=False)}"
        text += f"</{message['role']}>\n"
    return text


def alpaca(row):
    question = "\n".join(part for part in (row["instruction"], row["input"]) if part)
    return [{"role": "user", "content": question}, {"role": "assistant", "content": row["output"]}], None


def glaive(row):
    roles = {"human": "user", "gpt": "assistant", "observation": "tool", "function_call": "assistant"}
    messages = []
    for turn in row["conversations"]:
        message = {"role": roles[turn["from"]], "content": turn["value"]}
        if turn["from"] == "function_call":
            message.update(content="", calls=[json.loads(turn["value"])])
        messages.append(message)
    tools = json.loads(row["tools"]) if row["tools"] else []
    return messages, [{"type": "function", "function": tool} for tool in tools]


def parts(row):
    return [{"role": message["role"], "content": "".join(part["value"] for part in message["content"])}
            for message in row["messages"]], None


def check(found, rows, form):
    """Counts, every row that is kept, and of each the learned text."""
    equal(found["rows"], len(rows))
    dropped = {row for drop in found["dropped"] for row in drop["rows"]}
    for row in dropped:  # LLaMA-Factory passes these over, too
        messages, _ = form(rows[row])
        assert not messages[-1]["content"].strip() and not messages[-1].get("calls"), (row, found["dropped"])
    kept = [i for i in range(len(rows)) if i not in dropped]
    equal([sample["row"] for sample in found["show"]], kept)
    for sample in found["show"]:
        messages, tools = form(rows[sample["row"]])
        text = rendered(messages, tools)
        equal(sample["text"], text)
        answers = [rendered([message])[len("<assistant>"):-1] for message in messages if message["role"] == "assistant"
                   and (message["content"].strip() or message.get("calls"))]
        learned = bytes(i for i, mark in zip(sample["ids"], sample["learned"]) if mark and i < 256).decode()
        equal(learned, "".join(answers))
    return len(kept)


@case
def alpaca_entries_are_what_python_reads():
    equal(check(read("alpaca_en_demo"), load("alpaca_en_demo.json"), alpaca), 999)
    equal(check(read("identity"), load("identity.json"), alpaca), 91)


@case
def sharegpt_with_tools_is_what_python_reads():
    rows = load("glaive_toolcall_en_demo.json")
    equal(check(read("glaive_toolcall_en_demo"), rows, glaive), len(rows))


@case
def messages_with_parts_and_weights_are_what_python_reads():
    rows = load("v1_sft_demo.jsonl")
    equal(check(read(path=os.path.join(data, "v1_sft_demo.jsonl")), rows, parts), 500)


@case
def plain_text_entries_are_what_python_reads():
    rows = load("c4_demo.jsonl")
    found = read("c4_demo")
    equal((found["samples"], found["windowed"]), (300, 0))
    equal([sample["text"] for sample in found["show"]], [f"<|begin|>{row['text']}<|end|>" for row in rows])
    with open(os.path.join(data, "wiki_demo.txt"), encoding="utf-8") as file:
        text = file.read()
    found = read("wiki_demo", max_seq_len=4096)
    ids = list(found["show"][0]["ids"])
    for sample in found["show"][1:]:
        equal(sample["ids"][0], ids[-1])  # windows share a token
        ids += sample["ids"][1:]
    equal(bytes(i for i in ids if i < 256).decode(), text)


@case
def preference_entries_are_kept_for_preference_training():
    for name in ("dpo_en_demo", "kto_en_demo"):
        folder.run("data", job(name), code=65, says=["preference training (method: dpo), which is not supported yet"])


@case
def every_other_entry_is_refused_with_its_reason():
    read_above = {"alpaca_en_demo", "identity", "glaive_toolcall_en_demo", "c4_demo", "wiki_demo", "dpo_en_demo",
                  "kto_en_demo"}
    assert read_above < set(entries)
    for name, entry in entries.items():
        if name in read_above:
            continue
        if "file_name" in entry:
            reason = [entry["file_name"]]  # is not there
        else:
            reason = [name]
        said = folder.run("data", job(name), "--show", "0", code=65, says=reason)
        if "file_name" in entry:
            assert "No such file" in said or "not supported yet" in said, said
    for name, column in (("mllm_demo", "images"), ("mllm_audio_demo", "audios"), ("mllm_video_demo", "videos")):
        with Folder() as other:
            other.write(entries[name]["file_name"], '[{"messages": []}]')
            with open(other / "dataset_info.json", "w") as file:
                json.dump({name: entries[name]}, file)
            path = other.job({**json.load(open(job(path="one.jsonl"))), "dataset": {"name": name, "dataset_dir": other.path}})
            other.run("data", path, code=65, says=[f"the column {column} is not supported yet"])
    folder.run("data", job("identitty"), code=65, says=["identitty", "identity"])


if __name__ == "__main__":
    run_cases()
