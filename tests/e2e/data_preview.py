#!/usr/bin/env python3
"""A look at a job's data before the first step: `megatrain data` and `POST /datasets/preview`.
time limit: 300 s"""
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import Daemon, case, equal, run_cases, until  # noqa: E402
from training import MEGATRAIN, WORKER, Folder, tiny, write_rows  # noqa: E402

PINNED = {"samples", "dropped", "truncated", "tokens", "target_tokens", "lengths", "show"}
BEGIN, END = 256, 257  # of the tokenizer `bytes`
CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n{}<|im_end|>\n"
ROWS = [{"instruction": f"Question {i}?", "output": f"The answer is {'x' * i}."} for i in range(1, 6)]

folder = Folder().__enter__()
daemon = Daemon(worker=WORKER)
write_rows(folder / "chat.jsonl", ROWS)
write_rows(os.path.join(daemon.state, "datasets", "chat.jsonl"), ROWS)


def job(path="chat.jsonl", **dataset):
    document = tiny(path)
    document["dataset"].update({"max_seq_len": 512, "template": "chatml", **dataset})
    return document


def look(document, *arguments, code=0, says=()):
    said = folder.run("data", folder.job(document), "--json", *arguments, code=code, says=says)
    return json.loads(said) if code == 0 else said


def decoded(ids):
    return bytes(i for i in ids if i < 256).decode()


def learned(sample):
    return decoded([i for i, mark in zip(sample["ids"], sample["learned"]) if mark])


folder.train({**job(), "training": {"batch_size": 4, "max_steps": 1}}, "run")


@case
def the_document_has_the_pinned_members_and_they_agree_with_one_another():
    found = look(job(), "--show", "5")
    assert PINNED <= set(found), PINNED - set(found)
    equal((found["samples"], found["rows"], found["dropped"], found["truncated"], found["complete"]), (5, 5, [], 0, True))
    equal(found["tokens"], sum(len(sample["ids"]) for sample in found["show"]))
    equal(found["target_tokens"], sum(sum(sample["learned"]) for sample in found["show"]))
    equal([found["lengths"]["min"], found["lengths"]["max"]],
          [min(len(s["ids"]) for s in found["show"]), max(len(s["ids"]) for s in found["show"])])
    equal(sum(count for _, count in found["lengths"]["histogram"]), 5)
    for i, sample in enumerate(found["show"]):
        equal(sample["row"], i)
        equal(sample["text"], CHATML.format(ROWS[i]["instruction"], ROWS[i]["output"]))
        equal("".join(sample["pieces"]), sample["text"])
        equal(learned(sample), ROWS[i]["output"] + "<|im_end|>")
        assert set(sample["learned"]) == {0, 1} and len(sample["learned"]) == len(sample["ids"]) == len(sample["pieces"])


@case
def the_number_of_samples_and_of_rows_is_bounded_as_asked():
    equal(len(look(job())["show"]), 3)
    equal(look(job(), "--show", "0")["show"], [])
    found = look(job(), "--rows", "2")
    equal((found["samples"], found["rows"], found["complete"]), (2, 2, False))
    equal([(sample["row"], learned(sample)) for sample in found["show"]],
          [(i, ROWS[i]["output"] + "<|im_end|>") for i in range(2)])
    equal(look(job(), "--rows", "5")["complete"], True)


@case
def tools_that_the_model_s_template_passes_over_are_told():
    shutil.copytree(folder / "run/checkpoints/final", folder / "plain")
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        if os.path.exists(folder / f"plain/{name}"):
            os.unlink(folder / f"plain/{name}")
    plain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    user, answer = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    conversations = [{"messages": [user, answer]}, {"messages": [user, answer], "tools": [{"name": "f"}]},
                     {"messages": [user, call, {"role": "tool", "content": "1"}, answer]}]
    write_rows(folder / "tools.jsonl", conversations)
    for template, unwritten in ((plain, 2), ("{{ tools }}" + plain, 0)):
        folder.write("plain/chat_template.jinja", template)
        document = {**job("tools.jsonl"), "model": {"path": folder / "plain"}}
        del document["dataset"]["template"]
        equal(look(document)["tools_unwritten"], unwritten)
        said = folder.run("data", folder.job(document), "--show", "0")
        equal("2 conversations have tools" in said, unwritten == 2)
        folder.write("chat.json", json.dumps(conversations[1]))
        with open(folder / "chat.json", "rb") as chat:
            done = subprocess.run([MEGATRAIN, "render", "--model", folder / "plain"], stdin=chat, capture_output=True,
                                  timeout=60, check=True)
        equal(b"does not write tools" in done.stderr, unwritten == 2)


@case
def what_is_cut_off_is_the_end_and_the_counts_are_those_of_the_samples():
    whole = look(job(), "--show", "5")["show"]
    limit = len(whole[2]["ids"])  # rows 3 and 4 are longer
    found = look(job(max_seq_len=limit), "--show", "5")
    equal((found["truncated"], found["samples"], found["dropped"]), (2, 5, []))
    for sample, uncut in zip(found["show"], whole):
        equal((sample["ids"], sample["learned"]), (uncut["ids"][:limit], uncut["learned"][:limit]))
    equal(found["tokens"], sum(min(len(sample["ids"]), limit) for sample in whole))
    equal(found["target_tokens"], sum(sum(sample["learned"][:limit]) for sample in whole))
    buckets = {}
    for sample in found["show"]:
        floor = 1 << (len(sample["ids"]).bit_length() - 1)
        buckets[floor] = buckets.get(floor, 0) + 1
    equal(found["lengths"]["histogram"], [[floor, count] for floor, count in sorted(buckets.items())])
    equal(found["lengths"]["mean"], found["tokens"] / 5)
    found = look(job(max_seq_len=limit, overlong="drop"), "--show", "5")
    equal(([sample["row"] for sample in found["show"]], found["dropped"][0]["rows"]), ([0, 1, 2], [3, 4]))
    look(job(max_seq_len=limit, overlong="error"), code=65, says=["chat.jsonl: line 4", f"more than max_seq_len {limit}"])
    # Windows of a document overlap in one token, so that each is a target once.
    write_rows(folder / "long.jsonl", [{"text": "0123456789" * 3}])
    windows = look(job("long.jsonl", max_seq_len=12), "--show", "9")["show"]
    ids = [BEGIN] + [ord(c) for c in "0123456789" * 3] + [END]
    equal([window["ids"] for window in windows], [ids[0:12], ids[11:23], ids[22:34]])
    equal([window["learned"] for window in windows], [[0] + [1] * (len(window["ids"]) - 1) for window in windows])


@case
def what_is_asked_for_is_a_number():
    folder.run("data", folder.job(job()), "--show", "many", code=64, says=["--show takes a whole number"])
    folder.run("data", code=64, says=["name a job document"])


@case
def samples_are_shown_as_tokens_with_the_learned_ones_marked():
    said = folder.run("data", "--config", folder.job(job()), "--show", "1")
    shown = said.split("\n\n")[0]
    assert "row 1: " in shown and "[[" in shown and "\033" not in said, said
    marked = re.search(r"\[\[(.*?)\]\]", shown, re.S).group(1).replace("|", "")
    equal(marked, "The answer is x.<im_end>")
    assert "  > Question 1?<|im_end|>" in shown.split("\n"), shown
    for line in ("template   chatml", "rows       5 in 1 file", "samples    5", "lengths "):
        assert line in said, (line, said)
    assert re.search(r"64 - 127 +#+ +5", said), said


@case
def a_terminal_gets_colour_unless_it_is_told_not_to():
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([MEGATRAIN, "data", folder.job(job()), "--show", "1"], stdout=theirs,
                                   cwd=folder.path, env={**os.environ, "NO_COLOR": "", **environment})
        os.close(theirs)
        said = b""
        try:
            while block := os.read(ours, 65536):
                said += block
        except OSError:  # the other end is closed
            pass
        equal(process.wait(), 0)
        equal(b"\033[32m" in said, coloured)
        os.close(ours)


@case
def control_characters_of_the_data_do_not_reach_the_terminal():
    write_rows(folder / "control.jsonl", [{"instruction": "\033[2Jboo\a", "output": "x\033]0;title\a"}])
    said = folder.run("data", folder.job(job("control.jsonl")))
    assert "\033" not in said and "\a" not in said, repr(said)


@case
def dropped_rows_are_listed_with_their_reasons():
    write_rows(folder / "mixed.jsonl", [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]},
        {"messages": [{"role": "user", "content": "a"}]},
        {"messages": [{"role": "wizard", "content": "a"}]},
        {"messages": [{"role": "user", "content": "a" * 600}, {"role": "assistant", "content": "b"}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c" * 600}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls":
                      [{"function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "4"},
                      {"role": "assistant", "content": "d"}]},
    ])
    found = look(job("mixed.jsonl"))
    drops = {drop["reason"]: drop for drop in found["dropped"]}
    equal((found["samples"], found["truncated"]), (2, 1))
    equal({reason: drop["rows"] for reason, drop in drops.items()},
          {"turn_order": [1, 3, 4], "no_target": [2, 5], "template": [7]})
    equal([drops[reason]["count"] for reason in sorted(drops)], [2, 1, 3])
    assert "turn 2 is the user's where an answer is expected" in drops["turn_order"]["why"], drops
    assert "no form for" in drops["template"]["why"], drops
    folder.run("data", folder.job(job("mixed.jsonl")), says=["dropped    3 (turn_order): rows 2, 4, 5; the first: "])


@case
def data_without_anything_to_learn_is_an_error_that_says_what_to_do():
    look(job(max_seq_len=16), code=65, says=["none of the 5 rows has a token to learn", "make dataset.max_seq_len larger"])
    look(job(max_seq_len=16, overlong="drop"), code=65, says=[
        "5 longer than max_seq_len (the first: it has", "tokens)", "make dataset.max_seq_len larger"])
    look(job(max_seq_len=16), code=65, says=["tokens, and its answer begins behind max_seq_len 16"])
    look(job("absent.jsonl"), code=65, says=["absent.jsonl"])
    by_name = job()
    by_name["dataset"] = {"name": "words"}
    look(by_name, code=65, says=["No such file or directory; dataset.dataset_dir names the folder with dataset_info.json"])
    look({**job(), "traning": {}}, code=78, says=["training"])


@case
def a_mistyped_column_of_a_later_row_is_an_error_with_file_and_line():
    write_rows(folder / "typo.jsonl", ROWS[:2] + [{"instrution": "lost", "output": "o"}])
    look(job("typo.jsonl"), code=65, says=["typo.jsonl: line 3", "instrution, output", '"instruction" and "output"'])
    write_rows(folder / "typo2.jsonl", [{"instruction": "i", "input": "n", "output": "o"},
                                        {"instruction": "i", "inptu": "lost", "output": "o"},
                                        {"instruction": "i", "output": "o"}])
    look(job("typo2.jsonl"), code=65, says=["typo2.jsonl: line 2", '"inptu" where rows before have "input"'])


@case
def the_api_answers_the_same_document_to_curl():
    wanted = look(job(), "--show", "2")
    body = json.dumps(job())
    said = subprocess.run(["curl", "-sS", "-X", "POST", f"http://127.0.0.1:{daemon.port}/datasets/preview?show=2",
                           "-H", "Content-Type: application/json", "-d", body], capture_output=True, check=True)
    equal(json.loads(said.stdout), wanted)
    status, found = daemon.ask("POST", "/datasets/preview?rows=2&show=0", job())
    equal((status, found["samples"], found["complete"], found["show"]), (200, 2, False, []))
    status, found = daemon.ask("POST", "/datasets/preview", job())
    equal((status, len(found["show"])), (200, 3))


@case
def the_api_says_what_is_wrong_with_document_data_and_question():
    for document, pointer, part in (
            ({**job(), "traning": {}}, "/traning", "training"),
            (job(os.path.join(folder.path, "chat.jsonl")), "/dataset/path", "allow"),
            (job("../chat.jsonl"), "/dataset/path", ""),
            (job("absent.jsonl"), "/dataset/path", "absent.jsonl"),
            (job(template="chatlm"), "/dataset/template", "chatml"),
            (job(columns={"prompt": "question"}), "/dataset/path", "question")):
        status, found = daemon.ask("POST", "/datasets/preview", document)
        equal((status, found["errors"][0]["pointer"]), (422, pointer))
        assert part in found["errors"][0]["detail"] + str(found["errors"][0].get("suggestion")), found
    for query in ("show=101", "show=x", "rows=0", "nothing=1"):
        equal(daemon.ask("POST", "/datasets/preview?" + query, job())[0], 400)


@case
def one_preview_is_made_at_a_time_and_the_daemon_answers_others_meanwhile():
    slow = folder.write("slow-worker", f'#!/bin/sh\ncase "$*" in *preview*) touch {folder / "begun"}; sleep 3 ;; esac\n'
                        f'exec {WORKER} "$@"\n')
    os.chmod(slow, 0o755)
    with Daemon(worker=slow) as other:
        write_rows(os.path.join(other.state, "datasets", "chat.jsonl"), ROWS)
        answers = []
        first = threading.Thread(target=lambda: answers.append(other.ask("POST", "/datasets/preview", job())))
        first.start()
        until("the first one has begun", lambda: os.path.exists(folder / "begun"))
        status, found = other.ask("POST", "/datasets/preview", job())
        equal((status, "another look" in found["detail"]), (503, True))
        equal(other.ask("GET", "/jobs")[0], 200)
        equal(answers, [])  # all of that before the first answer
        first.join()
        equal(answers[0][0], 200)
        equal(other.ask("POST", "/datasets/preview", job())[0], 200)


@case
def a_preview_of_data_without_anything_to_learn_says_what_to_do():
    status, found = daemon.ask("POST", "/datasets/preview", job(max_seq_len=32))
    equal((status, found["errors"][0]["pointer"]), (422, "/dataset/path"))
    assert "make dataset.max_seq_len larger" in found["errors"][0]["detail"], found


@case
def a_template_that_is_not_known_is_refused_at_submission():
    document = job(template="chatlm")
    status, found = daemon.ask("POST", "/jobs", document)
    equal((status, found["errors"][0]["pointer"]), (422, "/dataset/template"))
    equal(daemon.ask("POST", "/jobs", job())[0], 201)


@case
def the_model_is_asked_as_it_was_trained():
    with open(folder / "run/checkpoints/final/chat_template.jinja") as file:
        assert "<|im_start|>" in file.read()
    again = {**job(), "model": {"path": folder / "run/checkpoints/final"}}
    del again["dataset"]["template"]
    equal(look(again)["show"], look(job())["show"])
    # With the Alpaca prompt, too, though the model came with another template.
    other = job(template="alpaca")
    folder.train({**other, "model": again["model"], "training": {"batch_size": 4, "max_steps": 1}}, "alpaca")
    again["model"] = {"path": folder / "alpaca/checkpoints/final"}
    equal(look(again)["show"], look(other)["show"])


def with_template(template, **config):
    """A model folder with another chat template, and other special tokens."""
    model = folder / "other"
    shutil.rmtree(model, ignore_errors=True)
    shutil.copytree(folder / "run/checkpoints/final", model)
    folder.write("other/chat_template.jinja", template)
    with open(model + "/tokenizer_config.json") as file:
        tokenizer = json.load(file)
    with open(model + "/tokenizer_config.json", "w") as file:
        json.dump({**tokenizer, **config}, file)
    document = {**job(), "model": {"path": model}}
    del document["dataset"]["template"]
    return document


@case
def the_refusals_of_a_template_are_reported_by_row_before_training():
    document = with_template("{%- for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not "
                             "allowed') }}{% endif %}{{ m.role + ': ' + m.content + eos_token }}{% endfor %}")
    question = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    write_rows(folder / "system.jsonl",
               [{"messages": ([{"role": "system", "content": "s"}] if i in (1, 3) else []) + list(question)} for i in range(5)])
    document["dataset"]["path"] = "system.jsonl"
    drop, = look(document)["dropped"]
    equal((drop["reason"], drop["count"], drop["rows"]), ("template", 2, [1, 3]))
    assert drop["why"].endswith("System role not allowed"), drop
    said = folder.train(document, "refused")
    assert "2 rows dropped (template), the first is row 2" in said and "System role not allowed" in said, said
    write_rows(folder / "system.jsonl", [{"messages": [{"role": "system", "content": "s"}, *question]}] * 2)
    look(document, code=65, says=["none of the 2 rows has a token to learn", "System role not allowed"])


@case
def a_template_that_writes_nothing_of_the_answers_is_an_error_and_no_mask_of_zeros():
    document = with_template("{%- for m in messages if m.role == 'user' %}{{ '<' + m.role + '>' + m.content }}{% endfor %}")
    look(document, code=65, says=["none of the 5 rows has a token to learn", "that the chat template refuses"])


@case
def a_call_of_which_the_template_writes_nothing_is_not_learned_as_an_empty_answer():
    document = with_template("{%- for m in messages %}<{{ m.role }}>{{ m.content or '' }}{{ eos_token }}{% endfor %}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}")
    call = [{"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
            {"role": "tool", "content": "4"}]
    write_rows(folder / "calls.jsonl", [{"messages": [*call, {"role": "assistant", "content": "four"}]},
                                        {"messages": call[:2]}])
    document["dataset"]["path"] = "calls.jsonl"
    found = look(document)
    equal([(sample["row"], learned(sample)) for sample in found["show"]], [(0, "four")])
    equal([(drop["reason"], drop["rows"]) for drop in found["dropped"]], [("template", [1])])


@case
def an_end_token_that_is_the_padding_token_too_is_learned():
    document = with_template("{%- for m in messages %}{{ m.role + ': ' + m.content + eos_token }}{% endfor %}"
                             "{% if add_generation_prompt %}assistant: {% endif %}", pad_token="<|end|>")
    for sample in look(document, "--show", "5")["show"]:
        equal((sample["ids"][-1], sample["learned"][-1]), (257, 1))
        equal(learned(sample), ROWS[sample["row"]]["output"])


@case
def reasoning_in_earlier_turns_follows_the_rule_of_the_template():
    document = with_template(
        "{%- for m in messages %}{{ '<' + m.role + '>' }}{% if m.reasoning_content and loop.last %}"
        "{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}{{ m.content + '</' + m.role + '>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}")
    answer = {"role": "assistant", "content": "a", "reasoning_content": "r"}
    write_rows(folder / "reasons.jsonl", [{"messages": [{"role": "user", "content": "q"}, answer] * 2}])
    document["dataset"]["path"] = "reasons.jsonl"
    sample, = look(document)["show"]
    equal(sample["text"], "<user>q</user><assistant>a</assistant><user>q</user><assistant><think>r</think>a</assistant>")
    equal(learned(sample), "a</assistant><think>r</think>a</assistant>")


if __name__ == "__main__":
    run_cases()
