"""Python packages of tests/requirements.txt, fetched once with pip into <build>/consumers."""
import hashlib
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("MT_BUILD", os.path.join(ROOT, "build"))
CONSUMERS = os.path.join(BUILD, "consumers")


def requirement(name):
    """The pinned "name==version"."""
    with open(os.path.join(ROOT, "tests", "requirements.txt"), encoding="utf-8") as file:
        for line in file:
            if re.match(re.escape(name) + "==", line):
                return line.split("#")[0].strip()
    raise KeyError(name)


def packages(*names):
    """Makes these packages importable, without what they depend on. Returns nothing, or why that is not possible."""
    pinned = sorted(requirement(name) for name in names)
    python = "%d.%d " % sys.version_info[:2]
    folder = os.path.join(CONSUMERS, "python-" + hashlib.sha256((python + " ".join(pinned)).encode()).hexdigest()[:12])
    if not os.path.isdir(folder):
        os.makedirs(CONSUMERS, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CONSUMERS) as scratch:
            target = os.path.join(scratch, "python")
            done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:",
                                   "--target", target, *pinned], capture_output=True, text=True)
            if done.returncode:
                why = (done.stderr.strip().splitlines() or ["no reason"])[-1]
                return "pip could not fetch " + ", ".join(pinned) + ": " + why
            try:
                os.rename(target, folder)
            except OSError:  # another test was first
                pass
    sys.path.insert(0, folder)
    return None
