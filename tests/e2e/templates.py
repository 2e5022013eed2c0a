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
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
