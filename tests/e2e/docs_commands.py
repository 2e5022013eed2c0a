#!/usr/bin/env python3
"""The commands of README.md and docs/*.md work as they stand there.

Each `sh` block is run, a command at a time and in order, in a shell a page: its own home, state folder, port and
working folder, in which the pages' files (job.yaml, texts, conversation.json) and placeholders (FOLDER, DIR, ID) are.
What cannot run here stands under a comment that readers do not see, `<!-- not run: WHY -->`; of it, of what stands in
a comment of the shell, and of what sentences name in `backticks`, the programs, options, job keys, make targets and
routes must be there. A command that is neither is a failure.
time limit: 240 s"""
import glob
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import BUILD, SLOWNESS, case, cases, equal, run_cases, until  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = ("megatrain", "megatraind", "megatrain-worker")
SHELL = ("sh", "bash", "console", "shell")
# Programs of others that pages may name. What of them is installed here is asked for the options.
OTHERS = {"curl", "printf", "echo", "jq", "sudo", "systemctl", "systemd-sysusers", "systemd-tmpfiles", "apt-get", "make",
          "nvidia-smi", "git", "ulimit"}
LIMIT_S = 60 * SLOWNESS
counts = {"run": 0, "checked": 0}


# ---- what the pages say ----

def commands_of(text):
    """The commands of a block, each with the number of its first line in it; one goes on while a quote is open."""
    commands, held, first = [], "", 0
    for number, line in enumerate(text.split("\n")):
        if not held and (not line.strip() or line.lstrip().startswith("#")):
            continue
        first, held = (first, held + "\n" + line) if held else (number, line)
        try:
            shlex.split(held, comments=True)
            open_quote = line.endswith("\\")
        except ValueError:
            open_quote = True
        if not open_quote:
            commands.append((first, held))
            held = ""
    if held:
        raise AssertionError(f"a quote is never closed: {held}")
    return commands


class Page:
    def __init__(self, path):
        self.name = os.path.relpath(path, ROOT)
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.blocks = []  # (line, language, why not run, text)
        prose = []  # the lines, empty where they are a block's
        lines, why, at = self.text.split("\n"), None, 0
        while at < len(lines):
            line = lines[at]
            if mark := re.match(r"<!-- not run: (.+) -->$", line):
                why = mark.group(1)
            elif fence := re.match(r" *(```+|~~~+)(\S*)", line):
                end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == fence.group(1))
                self.blocks.append((at + 2, fence.group(2), why, "\n".join(lines[at + 1:end])))
                prose += [""] * (end - at)
                at, why = end, None
            else:
                if why and line.strip():
                    raise AssertionError(f"{self.name}:{at}: `not run` stands before no block")
                if line.startswith("    $ "):
                    self.blocks.append((at + 1, "sh", None, line[6:]))
            prose.append("" if line.startswith(("```", "    $ ")) else line)
            at += 1
        self.prose = "\n".join(prose)

    def named(self):
        """(line, words) of all that stands in `backticks` in sentences."""
        for found in re.finditer(r"`([^`]+)`", self.prose):
            if "\n\n" not in found.group(1):
                yield self.prose.count("\n", 0, found.start()) + 1, " ".join(found.group(1).split())


pages = [Page(path) for path in [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs/*.md")))]]


# ---- what is there ----

_said = {}


def said(*words):
    """What a program prints, on either output."""
    if words not in _said:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, cwd=ROOT,
                              env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
        _said[words] = (done.returncode, done.stdout)
    return _said[words]


def built(program):
    return os.path.join(BUILD, program)


def help_of(words):
    """The help text for a command's words, and how many of them name it."""
    program = os.path.basename(words[0])
    if program == "megatrain" and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
        code, text = said(built(program), words[1], "--help")
        if code != 0:
            raise AssertionError(f"there is no `megatrain {words[1]}`")
        return text, 2
    return said(built(program), "--help")[1], 1


def job_keys():
    schema = json.loads(said(built("megatrain"), "schema")[1])

    def walk(node, prefix, seen):
        keys = set()
        for part in [node, *node.get("oneOf", []), *node.get("anyOf", []), *node.get("allOf", [])]:
            if ref := part.get("$ref"):
                if ref in seen:
                    continue
                target = schema
                for name in ref.lstrip("#/").split("/"):
                    target = target[name]
                keys |= walk(target, prefix, seen | {ref})
            for name, child in part.get("properties", {}).items():
                keys |= {prefix + name} | walk(child, prefix + name + ".", seen)
        return keys
    return walk(schema, "", frozenset())


def check_options(words):
    text, used = help_of(words)
    known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
    for i, word in enumerate(words[used:], used):
        option = word.split("=", 1)[0]
        if re.match(r"--?[a-zA-Z]", word) and option not in known:
            raise AssertionError(f"`{' '.join(words[:used])}` has no option {option}")
        if word == "--set" and i + 1 < len(words) and "=" in words[i + 1]:
            key = words[i + 1].split("=")[0]
            if key.split(".")[0] != "model" and key not in job_keys():
                raise AssertionError(f"there is no job key {key}")


def routes():
    """(method, pattern) of what the router has, built or named as not built yet."""
    with open(os.path.join(ROOT, "api/router.c"), encoding="utf-8") as file:
        text = file.read()
    found = set(re.findall(r'\.method = "([A-Z*]+)",\s*\.pattern = "([^"]+)"', text))
    found |= set(re.findall(r'NOT_BUILT\("([A-Z]+)", "([^"]+)"', text))
    return found | {("POST", f"/jobs/{{id}}/{action}") for action in re.findall(r'ACTION\("(\w+)"', text)}


def query_names(method, pattern):
    """Of the API's own document: the daemon of the first page that has one gives it."""
    operation = api_document["paths"].get(pattern, {}).get(method.lower(), {})
    return {p["name"] for p in operation.get("parameters", []) if p.get("in") == "query"}


def check_route(method, target):
    path, _, query = target.partition("?")
    path = re.sub(r"\$\w+|\bID\b", "{id}", path)
    for known, pattern in routes():
        if known in (method, "*") and re.fullmatch(re.sub(r"\\{rest\\}", ".+", re.sub(r"\\{(?:id|name)\\}", "[^/]+",
                                                   re.escape(pattern))), path):
            names = {part.split("=")[0] for part in re.split("[&]", query) if part}
            if api_document and names - query_names(method, pattern):
                raise AssertionError(f"{method} {pattern} has no parameter {names - query_names(method, pattern)}")
            return
    raise AssertionError(f"there is no {method} {path}")


def make_targets():
    """Out of make's own list. Trying a target with -n would run the makes in its recipe, and fail where they do."""
    return set(re.findall(r"^([a-z][\w-]*):", said("make", "-qp", "help")[1], re.M))


def check_curl(words):
    known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w.-]*", said("curl", "--help", "all")[1]))
    method, i = "GET", 1
    while i < len(words):
        if words[i].startswith("-"):
            if words[i] not in known:
                raise AssertionError(f"curl has no option {words[i]}")
            if words[i] in ("-X", "--request"):
                method = words[i + 1]
            if words[i] in ("-d", "--json", "--data", "--data-binary") and method == "GET":
                method = "POST"
            takes = words[i] in ("-X", "-H", "-d", "--request", "--header", "--data", "--json", "--data-binary", "-o",
                                 "--unix-socket")
            i += 1 + takes
            continue
        check_route(method, re.sub(r"^(\$URL|(https?://)?(localhost|127\.0\.0\.1)(:\d+)?)", "", words[i]))
        i += 1


def check(command):
    """That programs, options, targets, keys and routes of a command are there."""
    words = shlex.split(re.sub(r"[{}]", "", command) if command.startswith("{") else command, comments=True)
    parts, part = [], []
    for word in words:
        if word in ("|", "&&", "||", "&", ";"):
            parts.append(part)
            part = []
        else:
            part.append(word)
    for part in [p for p in parts + [part] if p]:
        part = [w for i, w in enumerate(part) if not (w in (">", "<", ">>") or (i and part[i - 1] in (">", "<", ">>")))]
        while part and (part[0] == "sudo" or re.match(r"\w+=", part[0])):
            part = part[1:]
        if not part:
            continue
        program = os.path.basename(part[0])
        if program in OURS:
            check_options(part)
        elif program == "make":
            for target in [w for w in part[1:] if "=" not in w and not w.startswith("-")]:
                if target not in make_targets():
                    raise AssertionError(f"make has no target {target}")
        elif program == "curl":
            check_curl(part)
        elif program == "systemctl":
            units = [w for w in part[1:] if not w.startswith("-")][1:]
            for unit in units:
                assert os.path.exists(os.path.join(ROOT, "systemd", unit.removesuffix(".service") + ".service")), unit
        elif os.path.exists(os.path.join(ROOT, part[0])):
            pass
        elif program not in OTHERS:
            raise AssertionError(f"what is {program}?")
    counts["checked"] += 1


# ---- the place in which pages run ----

class Place:
    """A home, a working folder and a port of a page's own, with a shell in it."""

    def __init__(self, page):
        self.page = page
        self.root = tempfile.mkdtemp(prefix="docs-")
        self.home, self.cwd = os.path.join(self.root, "home"), os.path.join(self.root, "here")
        self.bin = os.path.join(self.root, "bin")
        for folder in (self.home, self.cwd, self.bin, os.path.join(self.cwd, "texts"), os.path.join(self.root, "srv")):
            os.mkdir(folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.state = os.path.join(self.home, "megatrain")
        self.write_programs()
        self.write_files()
        environment = {**os.environ, "HOME": self.home, "PATH": self.bin + ":" + os.environ["PATH"],
                       "MEGATRAIN_URL": f"http://127.0.0.1:{self.port}", "MEGATRAIN_TOKEN": "a-token",
                       "MEGATRAIN_PRESETS": os.path.join(ROOT, "etc/presets"),
                       "MEGATRAIN_WORKER": built("megatrain-worker")}
        self.results, writing = os.pipe()
        self.shell = subprocess.Popen(["bash"], cwd=self.cwd, env=environment, stdin=subprocess.PIPE, pass_fds=[writing],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.result_fd = writing
        os.close(writing)
        self.tell("set -o pipefail")

    def write_programs(self):
        """The built programs; the daemon where nobody else listens, and curl with a failure for a refused call."""
        os.mkdir(os.path.join(self.cwd, "build"))
        place = (f"for w; do w=${{w//8642/{self.port}}}; w=${{w//\\/run\\/megatrain/$HOME}}; "
                 f"w=${{w//\\/srv\\/models/{self.root}\\/srv}}; set -- \"$@\" \"$w\"; shift; done")
        scripts = {
            "megatraind": f"{place}\ncase \"$*\" in *--listen*|*--help*) ;; *) set -- \"$@\" --listen 127.0.0.1:{self.port};; "
                          f"esac\nexec {built('megatraind')} \"$@\" --listen unix:$HOME/api.sock",
            "curl": f"{place}\nexec {shutil.which('curl')} --fail-with-body -sS --max-time {LIMIT_S} \"$@\"",
            "megatrain": f"[ -e {self.state}/listen ] || unset MEGATRAIN_URL\nexec {built('megatrain')} \"$@\"",
            "megatrain-worker": f"exec {built('megatrain-worker')} \"$@\"",
        }
        for name, script in scripts.items():
            for folder in (self.bin, os.path.join(self.cwd, "build")):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(f"#!/bin/bash\n{script}\n")
                os.chmod(file.name, 0o755)

    def write_files(self):
        for name in ("one", "two"):
            with open(os.path.join(self.cwd, "texts", name + ".txt"), "w") as file:
                file.write(f"Once upon a time there were {name} words to learn.\n" * 300)
        with open(os.path.join(self.cwd, "conversation.json"), "w") as file:
            json.dump([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello there"}], file)
        # README.md's own job, with fewer steps of a smaller model.
        job = next(text for _, language, _, text in pages[0].blocks if language == "yaml" and "# job.yaml" in text)
        for key, small in (("max_steps", 3), ("hidden_size", 64), ("num_layers", 2)):
            job, changed = re.subn(rf"\b{key}: \d+", f"{key}: {small}", job)
            equal(changed, 1)
        with open(os.path.join(self.cwd, "job.yaml"), "w") as file:
            file.write(job)
        os.symlink(os.path.join(ROOT, "docs"), os.path.join(self.cwd, "docs"))
        for placeholder in ("FOLDER", "DIR"):
            os.symlink(trained_model(), os.path.join(self.cwd, placeholder))

    def tell(self, line):
        self.shell.stdin.write(line.encode() + b"\n")
        self.shell.stdin.flush()

    def run(self, command):
        """Runs a command in the shell; its status and what it printed."""
        script, out = os.path.join(self.root, "command"), os.path.join(self.root, "out")
        with open(script, "w") as file:
            file.write(command + "\n")
        self.tell(f". {script} </dev/null >{out} 2>&1; echo $? >&{self.result_fd}")
        result = []
        reader = threading.Thread(target=lambda: result.append(os.read(self.results, 16)), daemon=True)
        reader.start()
        reader.join(LIMIT_S)
        with open(out, errors="replace") as file:
            text = file.read()
        if not result or not result[0]:
            raise AssertionError(f"it takes more than {LIMIT_S} s: {text[-300:]}")
        return int(result[0]), text

    # ---- what readers do between the lines ----

    def ask(self, method, path, document=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=document and json.dumps(document).encode(),
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.loads(answer.read())

    def listens(self):
        try:
            return self.ask("GET", "/healthz")
        except OSError:
            return None

    def start_daemon(self):
        code, text = self.run(f"megatraind --state-dir {self.state} --allow-path {self.cwd} >daemon.log 2>&1 &")
        equal(code, 0)
        until("the daemon of the page listens", self.listens)
        global api_document
        api_document = self.ask("GET", "/openapi.json")
        with open(os.path.join(self.state, "datasets", "notes.txt"), "w") as file:
            file.write("some notes to learn\n" * 100)

    def job(self, ended):
        """A job's id: one that has ended, or one that goes on for long."""
        document = {"name": "page", "model": {"architecture": "llama", "hidden_size": 64, "num_layers": 2,
                                              "num_attention_heads": 4, "tokenizer": "bytes"},
                    "dataset": {"path": "notes.txt", "max_seq_len": 64}, "training": {"max_steps": 2 if ended else 100000}}
        job = self.ask("POST", "/jobs", document)["id"]
        if ended:
            until("a job has ended", lambda: self.ask("GET", f"/jobs/{job}")["state"] in ("completed", "failed"), LIMIT_S)
        return job

    def stop_running(self):
        for job in self.ask("GET", "/jobs?limit=100")["data"]:
            if job["state"] in ("queued", "starting", "running"):
                self.ask("POST", f"/jobs/{job['id']}/cancel")

    def prepare(self, command):
        """What $ID and ID stand for in a command."""
        if "$ID" in command:
            if not self.listens():
                self.start_daemon()
            ended = "/pause" not in command
            if ended:
                self.stop_running()
            self.run(f"ID={self.job(ended)}")
        if re.search(r"/jobs/ID\b", command):
            jobs = os.path.join(self.state, "jobs")
            newest = sorted(os.listdir(jobs))[-1]
            os.symlink(newest, os.path.join(jobs, "ID"))
        if ("$URL" in command or "/run/megatrain/" in command) and not self.listens():
            self.start_daemon()

    def signal(self, number):
        try:
            os.killpg(self.shell.pid, number)
        except ProcessLookupError:
            pass

    def close(self):
        try:
            self.signal(signal.SIGTERM)
            self.shell.wait(20 * SLOWNESS)  # it ends at once; the daemon, once its workers have saved
            until("the page's processes end", lambda: subprocess.run(["pgrep", "-g", str(self.shell.pid)],
                  stdout=subprocess.DEVNULL).returncode != 0, 20 * SLOWNESS)
        finally:
            self.signal(signal.SIGKILL)
            self.end()

    def end(self):
        self.shell.wait()
        self.shell.stdin.close()
        os.close(self.results)
        shutil.rmtree(self.root, ignore_errors=True)


api_document = None
_trained = []


def trained_model():
    """A model folder with a chat template, made once."""
    if not _trained:
        root = tempfile.mkdtemp(prefix="docs-model-")
        with open(os.path.join(root, "job.json"), "w") as file:
            json.dump({"model": {"architecture": "llama", "hidden_size": 64, "num_layers": 1, "num_attention_heads": 4,
                                 "tokenizer": "bytes"},
                       "dataset": {"path": os.path.join(root, "words.txt"), "max_seq_len": 32},
                       "training": {"max_steps": 1}}, file)
        with open(os.path.join(root, "words.txt"), "w") as file:
            file.write("some words\n" * 50)
        subprocess.run([built("megatrain"), "train", "job.json", "--out", "run"], cwd=root, check=True, capture_output=True)
        model = glob.glob(os.path.join(root, "run/checkpoints/step-*"))[-1]
        template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}" \
                   "{% if add_generation_prompt %}[assistant] {% endif %}"
        path = os.path.join(model, "tokenizer_config.json")
        settings = {}
        if os.path.exists(path):
            with open(path) as file:
                settings = json.load(file)
        with open(path, "w") as file:
            json.dump({**settings, "chat_template": template}, file)
        _trained.append((root, model))
    return _trained[0][1]


def run_page(page, blocks):
    place, faults = Place(page), []
    try:
        for line, _, why, text in blocks:
            for offset, command in commands_of(text):
                where = f"{page.name}:{line + offset}"
                shown = " ".join(command.split())[:90]
                try:
                    if remark := re.search(r"\s#\s(?:or: )?((?:curl|megatrain\w*|build/\w+) .*)$", command):
                        check(remark.group(1))
                    if why:
                        check(command)
                        print(f"  {where}: checked, not run ({why}): {shown}", flush=True)
                        continue
                    begin = time.monotonic()
                    place.prepare(command)
                    daemon = re.match(r"\S*\bmegatraind ", command) and "--help" not in command
                    if daemon and not command.split("#")[0].rstrip().endswith("&"):
                        command += " &"
                    code, said_ = place.run(command)
                    if daemon:
                        until("the daemon listens", place.listens, 20 * SLOWNESS)
                    if code != 0:
                        raise AssertionError(f"status {code}: {said_[-400:]}")
                    counts["run"] += 1
                    print(f"  {where}: run in {time.monotonic() - begin:.1f} s: {shown}", flush=True)
                except (AssertionError, OSError) as fault:
                    faults.append(f"{where}: {shown}: {fault}")
                    print(f"  {faults[-1]}", flush=True)
    finally:
        place.close()
    if faults:
        raise AssertionError("; ".join(faults))


@case
def every_block_says_what_it_is():
    nameless = [f"{page.name}:{line}" for page in pages for line, language, _, _ in page.blocks if not language]
    equal(nameless, [])


for each in pages:
    if shell_blocks := [block for block in each.blocks if block[1] in SHELL]:
        def page_case(page=each, blocks=tuple(shell_blocks)):
            run_page(page, blocks)
        page_case.__name__ = "the_commands_of_" + each.name + "_work"
        cases.append(page_case)


@case
def commands_and_options_that_sentences_name_are_there():
    everything = " ".join([help_of([program])[0] for program in OURS] + [
        said(built("megatrain"), command, "--help")[1]
        for command in re.findall(r"^  ([a-z]+)  ", said(built("megatrain"), "--help")[1], re.M)])
    known = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", everything))
    faults, named = [], 0
    for page in pages:
        for line, words in page.named():
            plain = re.sub(r"[\[\]…]|\.\.\.", " ", words)
            first = plain.split()[0] if plain.split() else ""
            try:
                if first in OURS and " " in plain.strip():
                    check(plain)
                elif re.fullmatch(r"make [a-z-]+", plain):
                    check(plain)
                elif route := re.match(r"(GET|POST|DELETE) (/\S*)$", plain.strip()):
                    check_route(*route.groups())
                elif re.match(r"--[a-z]", first) and first.split("=")[0] not in known:
                    raise AssertionError(f"no program has the option {first}")
                else:
                    continue
                named += 1
            except (AssertionError, ValueError) as fault:
                faults.append(f"{page.name}:{line}: `{words}`: {fault}")
    print(f"  {named} commands, options and routes in sentences checked")
    for fault in faults:
        print("  " + fault)
    equal(faults, [])


@case
def every_option_that_a_program_takes_stands_in_its_help():
    faults = []
    for path in glob.glob(os.path.join(ROOT, "daemon/*/*.c")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        words = " ".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', text))
        for name in re.findall(r'\{"([a-z-]+)", (?:required_argument|no_argument|optional_argument)', text):
            if name != "help" and not re.search(rf"--{name}(?![\w-])", words):
                faults.append(f"{os.path.relpath(path, ROOT)}: --{name}")
    equal(faults, [])


@case
def what_is_not_there_is_found():
    for wrong in ("megatrain train job.yaml --quickly", "megatrain trian job.yaml", "megatraind --stat-dir x", "make chekc",
                  "megatrain train job.yaml --set training.learning_rat=1", "curl localhost:8642/job", "curl --jsn x $URL/jobs",
                  "curl -X DELETE $URL/metrics", "curl '$URL/jobs?stat=running'", "sudo make instal",
                  "sudo systemctl enable --now megatrainer", "cat job.yaml | megatrain-lora", "curl $URL/jobs/$ID/log"):
        try:
            check(wrong)
        except AssertionError:
            continue
        raise AssertionError(f"nothing was found wrong with `{wrong}`")


@case
def none_was_neither_run_nor_checked():
    total = sum(len(commands_of(text)) for page in pages for _, language, _, text in page.blocks if language in SHELL)
    marked = sum(len(commands_of(text)) for page in pages for _, language, why, text in page.blocks
                 if language in SHELL and why)
    print(f"  {counts['run']} commands run, {marked} marked as not run and checked")
    equal(counts["run"] + marked, total)


try:
    run_cases()
finally:
    for folder, _ in _trained:
        shutil.rmtree(folder, ignore_errors=True)
