"""Python packages that tests use, pinned by tests/requirements.txt and fetched once into <build>/consumers."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def requirement(name):
    with open(os.path.join(ROOT, "tests", "requirements.txt"), encoding="utf-8") as file:
        return next(line.split("#")[0].strip() for line in file if line.startswith(name + "=="))


def use(name, build):
    """Makes `import` find the package; a sentence where it cannot be had."""
    package = requirement(name)
    consumers = os.path.join(build, "consumers")
    folder = os.path.join(consumers, package.replace("==", "-"))
    if not os.path.isdir(folder):
        os.makedirs(consumers, exist_ok=True)
        scratch = f"{folder}.{os.getpid()}"
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:",
                               "--no-compile", "--target", scratch, package], capture_output=True, text=True)
        if done.returncode != 0:
            return f"pip could not fetch {package}: " + (done.stderr.strip().splitlines() or ["no reason"])[-1]
        try:
            os.rename(scratch, folder)
        except OSError:
            pass  # another test was faster
    sys.path.insert(0, folder)
    return None
