#!/usr/bin/env python3
"""megatraind's start and stop: settings, exit codes, its state folder, systemd, its size, its network.
time limit: 300 s"""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import BUILD, MEGATRAIND, Daemon, Skipped, case, equal, run_cases, until  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*arguments, config=None, prefix=(), **options):
    """Runs megatraind to its end, which it must come to by itself: exit status and what it said."""
    with tempfile.TemporaryDirectory(prefix="megatraind-") as folder:
        if config is not None:
            path = os.path.join(folder, "megatraind.conf")
            with open(path, "w") as file:
                file.write(config)
            arguments = ["--config", path, *arguments]
        if "--state-dir" not in arguments:
            arguments = ["--state-dir", os.path.join(folder, "state"), *arguments]
        if "--listen" not in arguments and not (config and "listen" in config):
            arguments = ["--listen", "127.0.0.1:0", *arguments]
        done = subprocess.run([*prefix, MEGATRAIND, *arguments], capture_output=True, text=True, timeout=60, **options)
        return done.returncode, done.stderr


def must_say(found, status, *words):
    equal(found[0], status)
    for word in words:
        assert word in found[1], f"{word!r} is not in {found[1]!r}"


def may_mount():
    command = "mount -t tmpfs none /mnt"
    done = subprocess.run(["unshare", "-m", "sh", "-c", command], capture_output=True)
    if done.returncode:
        raise Skipped("mounting is not permitted")


@case
def help_and_version_are_printed():
    done = subprocess.run([MEGATRAIND, "--help"], capture_output=True, text=True)
    equal((done.returncode, done.stderr), (0, ""))
    for option in ("--config", "--state-dir", "--listen", "--allow-path", "--workers", "--token-file"):
        assert option in done.stdout, option
    done = subprocess.run([MEGATRAIND, "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("megatraind ") and done.returncode == 0, done


@case
def wrong_options_exit_64():
    must_say(run("--wrokers", "2"), 64, "--wrokers")
    must_say(run("--workers"), 64, "--workers needs a value")
    must_say(run("--workers", "0"), 64, "from 1 to 64")
    must_say(run("--workers", "1.5"), 64, "whole number")
    must_say(run("--stop-grace", "nan"), 64, "number")
    must_say(run("extra"), 64, "extra")


@case
def a_wrong_configuration_exits_78_with_its_line():
    must_say(run(config="[megatraind]\n# fine\nworkers = 2\nworkrs = 3\n"), 78, "line 4", "workers")
    must_say(run(config="[megatraind]\nworkers = many\n"), 78, "line 2", "many")
    must_say(run(config="[megatraind]\nworkers = 1\nworkers = 1\n"), 78, "line 3", "second time")
    must_say(run(config="[daemon]\nworkers = 1\n"), 78, "line 2", "[daemon]")
    must_say(run(config="[megatraind]\n\n\nwhat is this\n"), 78, "line 4")
    must_say(run(config="[megatraind]\nstate_dir = " + "x" * 500 + "\n"), 78, "line 2", "longer")
    must_say(run(config="[megatraind]\nlog_level = loud\n"), 78, "line 2", "loud")
    must_say(run("--config", "/nonexistent/megatraind.conf"), 78, "/nonexistent/megatraind.conf")
    # What a flag overrides is checked all the same.
    must_say(run("--workers", "2", config="[megatraind]\nworkers = many\n"), 78, "line 2")


@case
def the_example_configuration_names_every_key_and_is_right():
    with open(os.path.join(ROOT, "etc/megatraind.conf")) as file:
        example = file.read()
    help_text = subprocess.run([MEGATRAIND, "--help"], capture_output=True, text=True).stdout
    keys = [word[2:].replace("-", "_") for word in help_text.split() if word.startswith("--")]
    for key in set(keys) - {"config", "help", "version", "state_dir"}:
        assert f"\n#{key} = " in example, f"{key} is not explained"
    # All of it switched on, but for what this machine has not: it starts.
    lines = [line[1:] if line.startswith("#") and line[1:2].isalpha() and " = " in line.split("#")[1][:20] else line
             for line in example.splitlines()]
    lines = [line for line in lines if not line.startswith(("state_dir", "listen", "token_file"))]
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("\n".join(lines))
        file.flush()
        with Daemon("--config", file.name) as daemon:
            equal(daemon.get("/readyz")["status"], "ready")


@case
def the_configuration_file_is_obeyed_and_flags_win():
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("[megatraind]\nworkers = 3\nlog_level = error\n")
        file.flush()
        with Daemon("--config", file.name, "--log-level", "info") as daemon:
            jobs = [daemon.submit("step_ms=20", steps=1000) for _ in range(3)]
            until("three run", lambda: [daemon.state_of(job) for job in jobs] == ["running"] * 3)
            assert "ready" in daemon.log()


@case
def addresses_in_use_are_written_and_taken_away():
    with Daemon("--listen", "127.0.0.1:0") as daemon:
        path = os.path.join(daemon.state, "listen")
        with open(path) as file:
            addresses = file.read().split()
        equal(len(addresses), 2)
        for address in addresses:
            port = int(address.rsplit(":", 1)[1])
            socket.create_connection(("127.0.0.1", port)).close()
        equal(daemon.stop(), 0)
        assert not os.path.exists(path)


@case
def a_second_daemon_on_the_same_folder_exits_75():
    with Daemon() as daemon:
        must_say(run("--state-dir", daemon.state), 75, "another megatraind", str(daemon.process.pid))
        equal(daemon.get("/readyz")["status"], "ready")
        # Not even while its workers outlive it does the lock stay.
        job = daemon.submit("ignore_term step_ms=50", steps=10000)
        daemon.wait(job, "running")
        daemon.kill()
        daemon.start()


@case
def an_address_in_use_exits_69():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        must_say(run("--listen", f"127.0.0.1:{taken.getsockname()[1]}"), 69, str(taken.getsockname()[1]))


@case
def a_wrong_address_or_a_missing_token_exits_78():
    must_say(run("--listen", "nonsense"), 78, "nonsense")
    must_say(run("--listen", "0.0.0.0:0"), 78, "token")
    must_say(run("--token-file", "/nonexistent/token"), 78, "/nonexistent/token")
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("short\n")
        file.flush()
        must_say(run("--token-file", file.name), 78, "shorter")


@case
def with_a_token_only_its_bearers_come_in():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("a-long-enough-token\n")
        file.flush()
        with Daemon("--token-file", file.name) as daemon:
            equal(daemon.ask("GET", "/jobs")[0], 401)
            equal(daemon.ask("GET", "/jobs", headers={"Authorization": "Bearer a-long-enough-token"})[0], 200)
            assert "a-long-enough-token" not in daemon.log()


@case
def a_state_folder_that_is_none_exits_73():
    with tempfile.NamedTemporaryFile() as file:
        must_say(run("--state-dir", file.name), 73, file.name)
        must_say(run("--state-dir", file.name + "/below"), 73, file.name)


@case
def a_read_only_state_folder_exits_73():
    may_mount()
    with Daemon() as daemon:
        equal(daemon.stop(), 0)
        script = f"mount --bind '{daemon.state}' '{daemon.state}' && mount -o remount,ro,bind '{daemon.state}' && exec \"$@\""
        must_say(run("--state-dir", daemon.state, prefix=["unshare", "-m", "sh", "-c", script, "sh"]), 73, daemon.state)
        daemon.start()


@case
def a_damaged_or_newer_database_exits_73_and_stays_as_it_is():
    with Daemon() as daemon:
        equal(daemon.stop(), 0)
        path = os.path.join(daemon.state, "megatrain.db")
        with open(path, "rb") as file:
            good = file.read()
        with open(path, "r+b") as file:
            file.seek(60)
            file.write((9999).to_bytes(4, "big"))
        must_say(run("--state-dir", daemon.state), 73, "newer MegaTrain")
        with open(path, "wb") as file:
            file.write(b"\xa5" * len(good))
        must_say(run("--state-dir", daemon.state), 73, "damaged", path)
        with open(path, "rb") as file:
            assert file.read() == b"\xa5" * len(good), "it was changed"


@case
def a_full_state_folder_accepts_nothing_more_and_loses_nothing():
    may_mount()
    root = tempfile.mkdtemp(prefix="megatraind-small-")
    # The daemon sees a disk of 1 MiB there, in a namespace of its own; the test sees it through /proc.
    script = f"mount -t tmpfs -o size=1m none '{root}' && exec \"$@\""
    daemon = Daemon(prefix=["unshare", "-m", "sh", "-c", script, "sh"], state=os.path.join(root, "state"), start=False)
    try:
        daemon.spawn()
        daemon.state = f"/proc/{daemon.process.pid}/root{root}/state"
        listen = os.path.join(daemon.state, "listen")
        until("megatraind listens", lambda: os.path.exists(listen))
        with open(listen) as file:
            daemon.port = int(file.readline().strip().rsplit(":", 1)[1])
        with open(os.path.join(daemon.state, "datasets", "words.txt"), "w") as file:
            file.write("some words\n")
        accepted = []
        document = daemon.document("step_ms=1000", steps=1000)
        for _ in range(1000):
            status, body = daemon.ask("POST", "/jobs", document)
            if status != 201:
                break
            accepted.append(body["id"])
        equal(status, 507)
        assert accepted, "not even one"
        equal(daemon.ask("POST", "/jobs", document)[0], 507)
        listed = [job["id"] for job in daemon.get("/jobs?limit=1000")["data"]]
        equal(sorted(listed), sorted(accepted))
        folders = os.listdir(os.path.join(daemon.state, "jobs"))
        equal(sorted(folders), sorted(accepted))
        equal(daemon.get("/healthz")["status"], "ok")
        # Room again: it goes on.
        for job in accepted[1:]:
            daemon.ask("POST", f"/jobs/{job}/cancel")
            daemon.ask("DELETE", f"/jobs/{job}")
        until("a job is accepted again", lambda: daemon.ask("POST", "/jobs", document)[0] == 201)
        equal(daemon.stop(), 0)
    finally:
        if daemon.process.poll() is None:
            daemon.kill()
        os.rmdir(root)
        daemon.close()


@case
def systemd_hears_of_readiness_status_watchdog_and_stop():
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bus:
        bus.bind(os.path.join(folder, "notify"))
        bus.settimeout(20)
        with Daemon(environment={"NOTIFY_SOCKET": os.path.join(folder, "notify"), "WATCHDOG_USEC": "400000"}) as daemon:
            heard = ""
            while "READY=1" not in heard or heard.count("WATCHDOG=1") < 3:
                heard += bus.recv(4096).decode() + "\n"
            job = daemon.submit("step_ms=20", steps=1000)
            while "STATUS=1 job running" not in heard:
                heard += bus.recv(4096).decode() + "\n"
            daemon.wait(job, "running")  # before its first word it may not be executed yet
            pid = daemon.worker()
            with open(f"/proc/{pid}/environ") as file:
                environment = file.read()
            assert "NOTIFY_SOCKET" not in environment and f"MEGATRAIN_JOB_ID={job}" in environment
            equal(daemon.stop(), 0)
            while "STOPPING=1" not in heard:
                heard += bus.recv(4096).decode() + "\n"


@case
def workers_inherit_nothing_and_go_first_when_memory_runs_out():
    with Daemon() as daemon:
        job = daemon.submit("step_ms=20", steps=1000)
        daemon.wait(job, "running")
        pid = daemon.worker()
        links = {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        foreign = [link for fd, link in links.items() if fd > 3 and daemon.folder(job) not in link]
        equal(foreign, [])
        equal(links[0], "/dev/null")
        assert links[1] == links[2] == os.path.join(daemon.folder(job), "worker.log") and "socket" in links[3], links
        with open(f"/proc/{pid}/oom_score_adj") as file:
            equal(file.read().strip(), "500")
        with open(f"/proc/{pid}/stat") as file:
            equal(int(file.read().rsplit(")", 1)[1].split()[2]), pid)  # its own process group


def idle_it_takes_less_than_32_mib():
    with Daemon() as daemon:
        for _ in range(20):
            daemon.get("/jobs")
            daemon.get("/healthz")
        time.sleep(0.5)
        with open(f"/proc/{daemon.process.pid}/status") as file:
            resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        assert resident < 32 * 1024, f"{resident} kB"
        with open(f"/proc/{daemon.process.pid}/maps") as file:
            assert "openblas" not in file.read()


if "asan" not in BUILD and "tsan" not in BUILD:  # a sanitizer's memory is not ours
    case(idle_it_takes_less_than_32_mib)


@case
def it_calls_out_to_nobody():
    """In a network of its own with nothing but loopback: it works, and no socket of it or its worker points to
    another machine, or waits to reach one, at any time of a job's life."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        raise Skipped("network namespaces are not permitted")
    with tempfile.TemporaryDirectory() as folder:
        state = os.path.join(folder, "state")
        unix = os.path.join(folder, "api.sock")
        process = subprocess.Popen(
            ["unshare", "-n", MEGATRAIND, "--state-dir", state, "--listen", "unix:" + unix],
            env={**os.environ, "MEGATRAIN_WORKER": os.path.join(BUILD, "tests/e2e/counting_worker")},
            stderr=subprocess.DEVNULL)

        def curl(path, *arguments):
            return subprocess.run(["curl", "-sS", "--unix-socket", unix, "http://localhost" + path, *arguments],
                                  capture_output=True, text=True, check=True).stdout
        try:
            until("it listens", lambda: os.path.exists(os.path.join(state, "listen")))
            with open(os.path.join(state, "datasets", "words.txt"), "w") as file:
                file.write("words\n")
            document = Daemon(start=False)
            body = json.dumps(document.document("step_ms=5", steps=60))
            document.close()
            job = json.loads(curl("/jobs", "-H", "Content-Type: application/json", "-d", body))["id"]
            done = False
            while not done:
                done = json.loads(curl(f"/jobs/{job}"))["state"] == "completed"
                for name in ("tcp", "tcp6", "udp", "udp6", "raw", "packet"):
                    with open(f"/proc/{process.pid}/net/{name}") as file:
                        equal((name, file.read().splitlines()[1:]), (name, []))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=40)


@case
def descriptors_that_were_closed_before_the_start_go_to_no_file():
    with Daemon(prefix=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]) as daemon:
        equal([os.readlink(f"/proc/{daemon.process.pid}/fd/{fd}") for fd in range(3)], ["/dev/null"] * 3)
        daemon.wait(daemon.submit(steps=2), "completed")


run_cases()
