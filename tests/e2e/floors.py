#!/usr/bin/env python3
"""tests/lint/floors.py finds each kind of wrong #include, and nothing else."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BASE = {"core/base/error.h": "", "core/device/device.h": '#include "core/base/error.h"\n'}

# Files beside BASE, and what the one complaint must mention; None: no complaint.
CASES = {
    "lower_floors_may_be_used": (
        {"core/store/a.c": '#include "core/device/device.h"\n#include <stdio.h>\n', "core/store/a.h": ""}, None),
    "higher_floors_may_not": ({"core/base/b.c": '#include "core/device/device.h"\n'}, "core/base/b.c:1"),
    "neighbours_may_not": (
        {"core/job/j.c": '#include "core/device/device.h"\n'}, "core/job may not use core/device"),
    "api_sees_no_engine": ({"api/a.c": '#include "core/device/device.h"\n'}, "api may not use core/device"),
    "the_daemon_fills_the_api_table": (
        {"api/control.h": "", "daemon/megatraind/d.c": '#include "api/control.h"\n'}, None),
    "cuda_sees_the_device_interface": ({"gpu/d.cu": '#include "core/device/device.h"\n#include <cuda_runtime.h>\n'},
                                       None),
    "cuda_sees_nothing_else": (
        {"core/device/open.h": "", "gpu/d.cu": '#include "core/device/open.h"\n'}, "gpu may not use core/device"),
    "core_sees_no_cuda": ({"core/device/d.c": "#include <cuda_runtime.h>\n"}, "<cuda_runtime.h> is for gpu"),
    "core_sees_no_http": ({"core/queue/q.c": "#include <microhttpd.h>\n"}, "<microhttpd.h>"),
    "only_the_queue_sees_sqlite": ({"api/a.c": "#include <sqlite3.h>\n"}, "<sqlite3.h> is for core/queue"),
    "paths_start_at_the_root": ({"core/base/b.c": '#include "error.h"\n'}, "not written from the root"),
    "headers_make_no_circle": (
        {"core/base/x.h": '#include "core/base/y.h"\n', "core/base/y.h": '#include "core/base/x.h"\n'}, "circle"),
    "unknown_folders_are_named": ({"core/new/n.c": ""}, "core/new/n.c: stands in no folder"),
    "tests_may_use_everything": (
        {"tests/unit/t.c": '#include "core/device/device.h"\n#include <sqlite3.h>\n'}, None),
}


def complaints(files):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {**BASE, **files}.items():
            path = os.path.join(folder, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        result = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "lint", "floors.py"), folder],
                                stdout=subprocess.PIPE, text=True, check=False)
        lines = result.stdout.splitlines()
        assert (result.returncode != 0) == bool(lines)
        return lines


def main():
    failed = False
    for name, (files, mention) in CASES.items():
        lines = complaints(files)
        if (mention is None and not lines) or (mention and len(lines) == 1 and mention in lines[0]):
            print(f"ok {name}")
        else:
            failed = True
            print(f"not ok {name}: {lines}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
