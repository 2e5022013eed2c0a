#!/usr/bin/env python3
"""Nothing calls out: training by hand, and a job under the daemon with its worker, run in a network of their own in
which the kernel counts every attempt to send something, and there is none."""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import MEGATRAIND, Skipped, case, equal, run_cases, until  # noqa: E402
from training import MEGATRAIN, WORKER, Folder, rows, tiny, write_documents  # noqa: E402

# Brings up loopback, so that a route is looked for and its absence counted, and becomes the command.
LOOPBACK = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 1))
os.execvp(sys.argv[1], sys.argv[1:])
"""
CALL_OUT = """
import socket
for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        try:
            socket.socket(family, kind).connect((address, 53))
        except OSError:
            pass
try:
    socket.create_connection(("localhost", 9))
except OSError:
    pass
"""


class Network:
    """A network with nothing but loopback; a process that sleeps in it keeps it."""

    def __enter__(self):
        if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
            raise Skipped("network namespaces are not permitted")
        self.process = subprocess.Popen(["unshare", "-n", sys.executable, "-c", LOOPBACK, "sh", "-c", "echo; exec sleep 1000"],
                                        stdout=subprocess.PIPE)
        self.process.stdout.readline()
        self.prefix = ["nsenter", "-t", str(self.process.pid), "-n"]
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def attempts(self):
        """All that was sent in it, or would have been had there been a way."""
        count = 0
        with open(f"/proc/{self.process.pid}/net/snmp") as file:
            lines = [line.split() for line in file]
        for names, values in zip(lines[::2], lines[1::2]):
            known = dict(zip(names, values))
            count += sum(int(known.get(name, 0)) for name in ("OutRequests", "OutNoRoutes", "ActiveOpens", "OutDatagrams"))
        try:
            with open(f"/proc/{self.process.pid}/net/snmp6") as file:
                known = dict(line.split() for line in file)
        except FileNotFoundError:
            return count
        return count + sum(int(known.get(name, 0)) for name in ("Ip6OutNoRoutes", "Udp6OutDatagrams"))


def control():
    """The count must see what it is to see."""
    with Network() as network:
        equal(network.attempts(), 0)
        subprocess.run([*network.prefix, sys.executable, "-c", CALL_OUT], check=True)
        if network.attempts() < 3:
            raise Skipped("this kernel does not count attempts to send")


@case
def training_and_generating_by_hand_call_out_to_nobody():
    control()
    with Network() as network, Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 30), steps=4, every=2)
        folder.train(document, "run", prefix=network.prefix)
        folder.run("generate", "--model", "run", "--prompt", "the", "--max-new-tokens", "3", prefix=network.prefix)
        folder.run("schema", prefix=network.prefix)
        equal(len(rows(folder / "run")), 4)
        equal(network.attempts(), 0)


@case
def the_daemon_and_its_worker_call_out_to_nobody():
    control()
    with Network() as network, Folder() as folder:
        state, address = folder / "state", "unix:" + (folder / "api.sock")
        daemon = subprocess.Popen([*network.prefix, MEGATRAIND, "--state-dir", state, "--listen", address],
                                  env={**os.environ, "MEGATRAIN_WORKER": WORKER}, stderr=subprocess.DEVNULL)
        try:
            until("megatraind listens", lambda: os.path.exists(os.path.join(state, "listen")))
            write_documents(os.path.join(state, "datasets", "d.jsonl"), 30)
            job = folder.job(tiny(os.path.join(state, "datasets", "d.jsonl"), steps=4, every=2))

            def client(*arguments):
                return subprocess.run([*network.prefix, MEGATRAIN, *arguments], capture_output=True, text=True, timeout=120,
                                      env={**os.environ, "MEGATRAIN_URL": address})
            submitted = client("submit", job, "--json")
            equal(submitted.returncode, 0)
            done = client("watch", json.loads(submitted.stdout)["id"])
            equal((done.returncode, done.stderr if done.returncode else ""), (0, ""))
            equal(network.attempts(), 0)
        finally:
            daemon.send_signal(signal.SIGTERM)
            equal(daemon.wait(timeout=40), 0)
        equal(network.attempts(), 0)


run_cases()
