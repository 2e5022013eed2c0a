#!/usr/bin/env python3
"""Runs test programs and counts their cases; `make check` ends with its last line.

A test is an executable that prints a line for each case:
    ok NAME          not ok NAME: why          skip NAME: why
or cmocka's TAP, in which the same stand as `ok 1 - NAME`, `not ok 1 - NAME`, `not ok 1 # SKIP NAME`.
A test without cases, one that ends by a signal or over its time limit, and one that fails without having
named a failing case, each count as one failed case more.

A test says in a comment near its top when it needs more than the usual time (`time limit: 900 s`), or must not
share the machine with another test (`runs alone`).

A test given as cudasim:PATH runs with the CUDA module of the simulated device, and says so in its name;
cudasim-backward:PATH, with threads and blocks that start last first; cudasim-racecheck:PATH, with CUDA threads that
are threads to ThreadSanitizer.

When CI=true a skip fails the run, unless tests/ci-allowed-skips.txt names it.
"""
import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
USUAL_LIMIT_S = {"unit": 120, "golden": 120, "e2e": 300}
SANITIZER_SLOWNESS = 8
SHOWN_LINES = 60

RESULT = re.compile(r"^(ok|not ok|skip)(?: \d+)?(?: -)? *(# SKIP)? ?(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)$")


SIMULATED = {
    "cudasim": {},
    "cudasim-backward": {"CUDASIM_SEED": "1"},
    "cudasim-racecheck": {"CUDASIM_RACECHECK": "1"},
}


class Test:
    def __init__(self, path, build):
        device, colon, program = path.partition(":")
        if not colon or device not in SIMULATED:
            device, program = "", path
        path = os.path.abspath(program)
        # build/tests/unit/base/test_x and tests/e2e/x.sh are unit/base/test_x and e2e/x.sh
        for base in (os.path.join(build, "tests"), os.path.join(ROOT, "tests")):
            if path.startswith(base + os.sep):
                self.name = os.path.relpath(path, base)
                break
        else:
            self.name = os.path.basename(path)
        self.path = path
        self.own = {}
        if device:
            self.own = {"MEGATRAIN_CUDA_MODULE": os.path.join(build, "megatrain-cudasim.so"), **SIMULATED[device]}
        source_file = os.path.join(ROOT, "tests", self.name)
        self.name += f"-on-{device}" if device else ""
        self.log = os.path.join(build, "check", self.name.replace(os.sep, "-") + ".log")
        program = next((source_file + end for end in (".c", ".cc") if os.path.exists(source_file + end)), path)
        with open(program, encoding="utf-8", errors="replace") as source:
            head = source.read(2000)
        limit = re.search(r"time limit: (\d+) s", head)
        self.limit_s = int(limit.group(1)) if limit else USUAL_LIMIT_S.get(self.name.split(os.sep)[0], 120)
        self.alone = "runs alone" in head
        self.passed, self.failed, self.skipped = [], [], []
        self.seconds = 0.0

    def run(self, environment, limit_factor):
        start = time.monotonic()
        with open(self.log, "wb") as log:
            process = subprocess.Popen([self.path], cwd=ROOT, env=environment | self.own, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = process.wait(self.limit_s * limit_factor)
                trouble = f"died by {signal.Signals(-status).name}" if status < 0 else ""
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status, trouble = 1, f"over its time limit of {self.limit_s * limit_factor:.0f} s"
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what a test left running
        except (ProcessLookupError, PermissionError):
            pass
        self.seconds = time.monotonic() - start
        self.count(status, trouble)

    def count(self, status, trouble):
        planned = 0
        reason = ""  # of the skip that follows, printed by tests/unit/support.h
        with open(self.log, encoding="utf-8", errors="replace") as log:
            for line in log:
                line = line.rstrip("\n")
                if plan := PLAN.match(line):
                    planned += int(plan.group(1))
                if line.startswith("# skip: "):
                    reason = line[len("# skip: "):]
                if not (result := RESULT.match(line)):
                    continue
                word, tap_skip, name = result.groups()
                if word == "skip" or tap_skip:
                    self.skipped.append(name if ": " in name or not reason else f"{name}: {reason}")
                    reason = ""
                else:
                    (self.passed if word == "ok" else self.failed).append(name)
        counted = len(self.passed) + len(self.failed) + len(self.skipped)
        if trouble:
            self.failed.append(trouble)
        elif status != 0 and not self.failed:
            self.failed.append(f"ended with status {status}, naming no failed case")
        elif counted < planned:
            self.failed.append(f"{planned} cases planned, {counted} reported")
        elif counted == 0:
            self.failed.append("no cases")

    def report(self):
        counts = [f"{len(self.passed)} passed"]
        counts += [f"{len(self.failed)} failed"] if self.failed else []
        counts += [f"{len(self.skipped)} skipped"] if self.skipped else []
        print(f"  {'FAIL' if self.failed else 'ok':5} {self.name:40} {', '.join(counts)} ({self.seconds:.1f} s)")
        for name in self.skipped:
            print(f"        skipped: {name}")
        if self.failed:
            for name in self.failed:
                print(f"        failed: {name}")
            with open(self.log, encoding="utf-8", errors="replace") as log:
                lines = log.read().splitlines()
            print(f"        --- {os.path.relpath(self.log)}, last {min(SHOWN_LINES, len(lines))} lines")
            for line in lines[-SHOWN_LINES:]:
                print(f"        | {line}")
        sys.stdout.flush()


def allowed_skips():
    try:
        with open(os.path.join(ROOT, "tests", "ci-allowed-skips.txt"), encoding="utf-8") as file:
            return {line.strip() for line in file if line.strip() and not line.startswith("#")}
    except FileNotFoundError:
        return set()


def test_environment(build):
    environment = dict(os.environ, MT_BUILD=build, CMOCKA_MESSAGE_OUTPUT="TAP")
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"):
        environment.pop(name, None)
    environment.setdefault("ASAN_OPTIONS", "detect_stack_use_after_return=1:strict_string_checks=1")
    environment.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    environment.setdefault("TSAN_OPTIONS", "history_size=7:halt_on_error=0")
    return environment


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="words; run the tests whose names contain one of them")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--sanitized", action="store_true", help="allow for a slower build")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()

    build = os.environ.get("MT_BUILD", os.path.join(ROOT, "build"))
    os.makedirs(os.path.join(build, "check"), exist_ok=True)
    words = options.only.split()
    tests = [Test(path, build) for path in options.tests]
    tests = [test for test in tests if not words or any(word in test.name for word in words)]
    environment = test_environment(build)
    # Time limits are for a machine that has a processor for everybody who wants one.
    factor = (SANITIZER_SLOWNESS if options.sanitized else 1) * max(1, os.getloadavg()[0] / (os.cpu_count() or 1))

    printing = threading.Lock()

    def run(test):
        test.run(environment, factor)
        with printing:
            test.report()

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as executor:
        for done in [executor.submit(run, test) for test in tests if not test.alone]:
            done.result()
    for test in tests:
        if test.alone:
            run(test)

    passed, failed, skipped = (sum(len(getattr(test, kind)) for test in tests)
                               for kind in ("passed", "failed", "skipped"))
    forbidden = []
    if os.environ.get("CI") == "true":
        allowed = allowed_skips()
        forbidden = [f"{test.name}: {name}" for test in tests for name in test.skipped
                     if f"{test.name}: {name.split(': ')[0]}" not in allowed]
        for name in forbidden:
            print(f"  a skip fails in CI: {name}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or forbidden else 0


if __name__ == "__main__":
    sys.exit(main())
