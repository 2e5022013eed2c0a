"""Python packages of tests/requirements.txt, fetched once with pip into <build>/consumers."""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("MT_BUILD", os.path.join(ROOT, "build"))
CONSUMERS = os.path.join(BUILD, "consumers")


def report(name, why):
    """The line of a case; `why` is what is wrong, or nothing."""
    print(f"not ok {name}: {why}" if why else f"ok {name}", flush=True)


def tokenize_lines(model, data, *options):
    """The process that has tokenized these pieces of bytes with the tokenizer of a folder or GGUF file."""
    request = b"".join(b"%d\n%s" % (len(one), one) for one in data)
    return subprocess.run([os.path.join(BUILD, "tests", "e2e", "tokenize_lines"), model, *options], input=request,
                          capture_output=True)


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


def source_files(name, pattern, label):
    """A folder with the files of a source package whose paths match `pattern`, by their base names; or None and why not."""
    package = requirement(name)
    folder = os.path.join(CONSUMERS, label + "-" + package.split("==")[1])
    if os.path.isdir(folder):
        return folder, None
    archive = os.path.join(CONSUMERS, package.replace("-", "_").replace("==", "-") + ".tar.gz")
    os.makedirs(CONSUMERS, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CONSUMERS) as scratch:
        if not os.path.exists(archive):
            done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                                   "--dest", scratch, package], capture_output=True, text=True)
            found = [one for one in os.listdir(scratch) if one.endswith(".tar.gz")]
            if not found:
                return None, "pip could not fetch " + package + ": " + (done.stderr.strip().splitlines() or ["no reason"])[-1]
            shutil.move(os.path.join(scratch, found[0]), archive)
        unpacked = os.path.join(scratch, "files")
        os.mkdir(unpacked)
        with tarfile.open(archive) as members:
            for member in members:
                if member.isfile() and re.search(pattern, member.name):
                    with open(os.path.join(unpacked, os.path.basename(member.name)), "wb") as file:
                        shutil.copyfileobj(members.extractfile(member), file)
        try:
            os.rename(unpacked, folder)
        except OSError:  # another test was first
            pass
    return folder, None
