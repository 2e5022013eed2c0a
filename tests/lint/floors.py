#!/usr/bin/env python3
"""Checks that the source folders use each other only as the tables below allow, by reading #include lines.

    floors.py [FOLDER]      the root of the repository; by default the one this script stands in
"""
import os
import re
import sys

# From the ground up: a folder may include its own files and those of the lines above its own.
FLOORS = [
    ["core/base"],
    ["core/formats", "core/device", "core/job"],
    ["core/text"],
    ["core/queue", "core/data", "core/model"],
    ["core/store"],
    ["core/optim"],
    ["core/stream"],
    ["core/train", "core/infer", "core/plan", "core/export"],
    ["daemon/worker", "daemon/cli"],
]

# Houses of their own: what each may include besides itself. A file name allows that file alone.
OTHERS = {
    "api": ["core/base", "core/job", "core/queue"],
    "daemon/megatraind": ["api", "core/base", "core/job", "core/queue"],
    "gpu": ["core/base", "core/device/device.h", "core/device/module.h", "core/device/collective.h",
            "core/device/cuda_memory.h"],
}

# Tests may look at everything.
FREE = ["tests"]

# Headers of libraries, by a pattern of the name in <>: the folders that may include them.
LIBRARIES = {
    r"microhttpd\.h": ["api", "daemon/megatraind"],
    r"sqlite3\.h": ["core/queue"],
    r"systemd/.*": ["daemon/megatraind"],
    r"yaml\.h": ["core/base"],
    r"(cblas|openblas.*|lapack.*)\.h": ["core/device"],
    r"(cuda|cublas|cudnn|cufile|nvml|nccl|nvrtc|cooperative_groups|mma).*": ["gpu"],
    r"cmocka\.h": [],
}

SOURCES = (".c", ".h", ".cu", ".cuh", ".inc")
SKIPPED = ("build", "shared", "runs")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def allowed_folders():
    allowed = dict(OTHERS)
    below = []
    for floor in FLOORS:
        for folder in floor:
            allowed[folder] = list(below)
        below += floor
    return allowed


def folder_of(path, folders):
    """The folder of a table that a path lies in; None when it lies in no such folder."""
    found = [folder for folder in folders if path.startswith(folder + "/")]
    return max(found, key=len, default=None)


def source_files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in SKIPPED)
        for name in sorted(names):
            if name.endswith(SOURCES):
                yield os.path.relpath(os.path.join(folder, name), root)


def find_cycle(graph):
    """A list of nodes, each including the next, the last the first; None when there is no cycle."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for target in graph.get(node, []):
            if cycle := visit(target):
                return cycle
        path.pop()
        done.add(node)
        return None

    for node in sorted(graph):
        if cycle := visit(node):
            return cycle
    return None


def check(root):
    problems, graph = [], {}
    allowed = allowed_folders()
    folders = list(allowed) + FREE
    for path in source_files(root):
        folder = folder_of(path, folders)
        if folder is None:
            problems.append(f"{path}: stands in no folder that tests/lint/floors.py knows")
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = file.readlines()
        for number, line in enumerate(lines, 1):
            if not (match := INCLUDE.match(line)):
                continue
            where, (ours, theirs) = f"{path}:{number}", match.groups()
            if ours:
                if not os.path.exists(os.path.join(root, ours)) or ".." in ours.split("/"):
                    problems.append(f'{where}: "{ours}" is not written from the root of the repository')
                    continue
                graph.setdefault(path, []).append(ours)
                target = folder_of(ours, folders)
                if folder in FREE or target == folder:
                    continue
                if target not in allowed[folder] and ours not in allowed[folder]:
                    problems.append(f"{where}: {folder} may not use {target or ours}")
            elif folder not in FREE:
                for pattern, users in LIBRARIES.items():
                    if re.fullmatch(pattern, theirs) and folder not in users:
                        problems.append(f"{where}: <{theirs}> is for {', '.join(users) or 'tests'} only")
    if cycle := find_cycle(graph):
        problems.append("headers include each other in a circle: " + " -> ".join(cycle))
    return problems


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(here))
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
