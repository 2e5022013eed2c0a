#!/usr/bin/env python3
"""Real chat templates render as `transformers` renders them.   (time limit: 900 s)

The templates come with the source package of llama-cpp-python that tests/requirements.txt pins; it is fetched once
with pip into <build>/consumers. What they must render is in tests/golden/templates/golden.json, see
tests/golden/make_templates.py.
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MT_BUILD", os.path.join(ROOT, "build"))
CONSUMERS = os.path.join(BUILD, "consumers")
RENDER = os.path.join(BUILD, "tests", "e2e", "render_lines")


def requirement():
    with open(os.path.join(ROOT, "tests", "requirements.txt"), encoding="utf-8") as file:
        return next(line.split("#")[0].strip() for line in file if line.startswith("llama-cpp-python=="))


def fetch():
    """The folder of templates."""
    package = requirement()
    folder = os.path.join(CONSUMERS, "chat-templates-" + package.split("==")[1])
    if os.path.isdir(folder):
        return folder
    os.makedirs(CONSUMERS, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CONSUMERS) as scratch:
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                               "--dest", scratch, package], capture_output=True, text=True)
        archives = [name for name in os.listdir(scratch) if name.endswith(".tar.gz")]
        if not archives:
            return "pip could not fetch " + package + ": " + (done.stderr.strip().splitlines() or ["no reason"])[-1]
        unpacked = os.path.join(scratch, "templates")
        os.mkdir(unpacked)
        with tarfile.open(os.path.join(scratch, archives[0])) as archive:
            for member in archive:
                if re.search(r"/models/templates/[^/]+\.jinja$", member.name) and member.isfile():
                    with open(os.path.join(unpacked, os.path.basename(member.name)), "wb") as file:
                        file.write(archive.extractfile(member).read())
        os.rename(unpacked, folder)
    return folder


def render(requests):
    done = subprocess.run([RENDER], input="".join(json.dumps(request) + "\n" for request in requests).encode(),
                          capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.split(b"\n") if line]


def difference(expected, got):
    """A sentence, or nothing where they agree."""
    if "error" in expected:
        if "error" not in got:
            return "rendered, though it must fail"
        if expected["error"] == "raised" and (got["code"] != "EINVAL" or not got["error"].endswith(expected["message"])):
            return f"must be refused with \"{expected['message']}\", but: {got['error']}"
        return None
    if "error" in got:
        return got["error"]
    text = got["text"].encode()
    if "text" in expected and got["text"] != expected["text"]:
        return f"{got['text']!r} instead of {expected['text']!r}"
    if "sha256" in expected and hashlib.sha256(text).hexdigest() != expected["sha256"]:
        return f"other text ({len(text)} bytes instead of {expected['bytes']})"
    if got["spans"] != expected.get("spans", []):
        return f"generation spans {got['spans']} instead of {expected.get('spans', [])}"
    return None


QUESTION, ANSWERS = "Which question?", ["First answer.", "Second answer!"]
PLAIN = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWERS[0]},
         {"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWERS[1]}]
# Their generation prompt is not what stands before an answer (Command R7B), or they render nothing without tools.
NOT_TOLD = {"CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja"}


def megatrain(folder, conversation, *options):
    done = subprocess.run([os.path.join(BUILD, "megatrain"), "render", "--model", folder, *options],
                          input=json.dumps(conversation).encode(), capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check_learned(name, folder):
    """The learned parts are the assistant's turns: a sentence, or nothing where they are."""
    code, text, why = megatrain(folder, PLAIN)
    if code:
        return None  # the template itself refuses a conversation without tools
    code, lines, why = megatrain(folder, PLAIN, "--learned")
    if name in NOT_TOLD:
        return None if code == 65 and "can't be told" in why else "an answer was told that can't be"
    if code:
        return why
    parts = [json.loads(line) for line in lines.splitlines()]
    if len(parts) != len(ANSWERS):
        return f"{len(parts)} learned parts: {parts}"
    for part, answer in zip(parts, ANSWERS):
        if part.count(answer) != 1 or QUESTION in part or part not in text:
            return f"learned: {part!r}"
        rest = part.replace(answer, "").replace("<|", "").replace("|>", "")
        if "user" in rest.replace("to=user", "") or ("assistant" in rest and "</assistant>" not in rest
                                                     and "assistant_end" not in rest):
            return f"a header is learned: {part!r}"
    return None


def check_arguments(folder, golden):
    """Tool-call arguments as a text or as an object render alike."""
    conversation = golden["conversations"]["call"]
    as_text = json.loads(json.dumps(conversation))
    function = as_text["messages"][1]["tool_calls"][0]["function"]
    function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    one, other = megatrain(folder, conversation), megatrain(folder, as_text)
    return None if one[:2] == other[:2] else f"{one[1] or one[2]!r} and {other[1] or other[2]!r}"


def check_turns(folder, golden):
    failed = 0
    for name in golden["templates"]:
        with tempfile.TemporaryDirectory() as model:
            shutil.copy(os.path.join(folder, name), os.path.join(model, "chat_template.jinja"))
            with open(os.path.join(model, "tokenizer_config.json"), "w", encoding="utf-8") as file:
                json.dump({"bos_token": "<s>", "eos_token": {"content": "</s>"}}, file)
            for what, why in (("learned", check_learned(name, model)), ("arguments", check_arguments(model, golden))):
                print(f"not ok {what}: {name}: {why}" if why else f"ok {what}: {name}")
                failed += bool(why)
    return failed


def main():
    with open(os.path.join(ROOT, "tests", "golden", "templates", "golden.json"), encoding="utf-8") as file:
        golden = json.load(file)
    folder = fetch()
    if not os.path.isdir(folder):
        print(f"skip real_templates: {folder}")
        return 0
    failed = False
    for name, row in golden["templates"].items():
        with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
            source = file.read()
        answers = render([{"template": source, "variables": golden["conversations"][case], "now": golden["now"]}
                          for case in row])
        wrong = [f"{case}: {why}" for (case, expected), got in zip(row.items(), answers)
                 if (why := difference(expected, got))]
        print(f"not ok {name}: {wrong[0]}" if wrong else f"ok {name}")
        failed = failed or bool(wrong)
    return int(bool(check_turns(folder, golden)) or failed)


if __name__ == "__main__":
    sys.exit(main())
