#!/usr/bin/env python3
"""tests/run.py counts what a test did, and lets no failure pass as success."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(scripts, ci="", options=()):
    """The runner's last line and exit status for shell scripts given as text."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, script in enumerate(scripts):
            paths.append(os.path.join(folder, f"t{number}.sh"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n" + script)
            os.chmod(paths[-1], 0o755)
        environment = dict(os.environ, MT_BUILD=folder, CI=ci)
        result = subprocess.run([os.path.join(ROOT, "tests", "run.py"), *options, *paths], env=environment,
                                stdout=subprocess.PIPE, text=True, check=False)
        return result.stdout.splitlines()[-1], result.returncode


CASES = {
    "plain_lines_are_counted": (["echo ok one; echo ok two"], "2 passed, 0 failed", 0),
    "a_named_failure_fails": (["echo ok one; echo 'not ok two: why'; exit 1"], "1 passed, 1 failed", 1),
    "a_named_failure_fails_whatever_the_status": (["echo 'not ok two: why'"], "0 passed, 1 failed", 1),
    "an_unnamed_failure_fails": (["echo ok one; exit 3"], "1 passed, 1 failed", 1),
    "a_signal_fails": (["echo ok one; kill -SEGV $$"], "1 passed, 1 failed", 1),
    "no_cases_fail": (["echo hello"], "0 passed, 1 failed", 1),
    "skips_are_counted": (["echo ok one; echo 'skip two: no data'"], "1 passed, 0 failed, 1 skipped", 0),
    "only_skips_are_no_failure": (["echo 'skip two: no data'"], "0 passed, 0 failed, 1 skipped", 0),
    "tap_is_counted": (
        ["echo 1..3; echo 'ok 1 - a'; echo 'not ok 2 # SKIP b'; echo 'not ok 3 - c'; exit 1"],
        "1 passed, 1 failed, 1 skipped", 1),
    "several_tap_plans_add_up": (["echo 1..1; echo 'ok 1 - a'; echo 1..1; echo 'ok 1 - b'"], "2 passed, 0 failed", 0),
    "missing_tap_results_fail": (["echo 1..3; echo 'ok 1 - a'"], "1 passed, 1 failed", 1),
    "tests_add_up": (["echo ok a", "echo ok a; echo ok b", "exit 1"], "3 passed, 1 failed", 1),
    "the_time_limit_holds_for_children_too": (
        ["# time limit: 1 s\necho ok a\nsleep 1000 & wait"], "1 passed, 1 failed", 1),
}


def main():
    failed = False

    def tell(name, expected, found):
        nonlocal failed
        if expected == found:
            print(f"ok {name}")
        else:
            failed = True
            print(f"not ok {name}: {found}, not {expected}")

    for name, (scripts, line, status) in CASES.items():
        tell(name, (line, status), run(scripts))
    skip = ["echo ok a; echo 'skip two: no data'"]
    tell("a_skip_fails_in_ci", ("1 passed, 0 failed, 1 skipped", 1), run(skip, ci="true"))
    tell("a_name_selects_tests", ("1 passed, 0 failed", 0), run(["exit 1", "echo ok b"], options=["--only", "t1"]))
    return failed


if __name__ == "__main__":
    sys.exit(main())
