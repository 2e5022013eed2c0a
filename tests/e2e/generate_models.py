#!/usr/bin/env python3
"""`megatrain generate` asks a job of the daemon by its id, and no checkpoint whose model is not as it was written."""
import http.server
import os
import shutil
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import Daemon, case, equal, run_cases, until
from training import WORKER, Folder, tiny, write_documents

ABSENT = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


@case
def a_job_is_asked_by_its_id():
    with Folder() as folder, Daemon(worker=WORKER) as daemon:
        url = f"http://127.0.0.1:{daemon.port}"
        environment = {**os.environ, "MEGATRAIN_URL": url}

        def ask(model, **options):
            return folder.run("generate", "--model", model, "--prompt", "the cat", "--max-new-tokens", "4", env=environment, **options)
        write_documents(os.path.join(daemon.state, "datasets/data.jsonl"), 8)
        status, job = daemon.ask("POST", "/jobs", tiny("data.jsonl", steps=2, every=0))
        equal(status, 201)
        until("the job has ended", lambda: daemon.state_of(job["id"]) in ("completed", "failed"))
        equal(ask(job["id"]), ask(os.path.join(daemon.state, "jobs", job["id"])))
        checkpoint = daemon.job(job["id"])["last_checkpoint"]["path"]
        assert f'"path": "{checkpoint}"' in folder.run("inspect", job["id"], "--json", env=environment)
        ask(ABSENT, code=65, says=[f"there is no job {ABSENT} at {url}", "megatrain jobs lists"])
        os.rename(checkpoint, checkpoint + "-moved")
        ask(job["id"], code=65, says=[f"has the checkpoint {checkpoint}, which cannot be opened here: No such file"])
        document = {**tiny("data.jsonl", steps=10**9, every=0), "name": "long"}
        status, long = daemon.ask("POST", "/jobs", document)
        until("it runs", lambda: daemon.state_of(long["id"]) == "running")
        ask(long["id"], code=65, says=[f"the job {long['id']} is running and has no checkpoint yet"])
        daemon.ask("POST", f"/jobs/{long['id']}/cancel")
        until("it has ended", lambda: daemon.state_of(long["id"]) == "cancelled")


@case
def without_a_daemon_an_id_is_said_to_be_unknown():
    with Folder() as folder:
        nowhere = {**os.environ, "MEGATRAIN_URL": "http://127.0.0.1:1"}
        folder.run("show", ABSENT, code=69, env=nowhere)
        for command in (["generate", "--prompt", "x", "--model"], ["tokenize", "--model"], ["inspect"]):
            folder.run(*command, ABSENT, code=69, env=nowhere,
                       says=[f"there is no file or folder {ABSENT}", "no answer from the daemon at http://127.0.0.1:1"])


class Other(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404 if "strict" in self.headers["Host"] else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@case
def another_program_at_the_daemons_port_knows_of_no_job():
    server = http.server.HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Folder() as folder:
        for host in ("127.0.0.1", "strict.localhost"):
            url = f"http://{host}:{server.server_port}"
            folder.run("generate", "--model", ABSENT, "--prompt", "x", code=69, env={**os.environ, "MEGATRAIN_URL": url},
                       says=[url, "is not megatraind; MEGATRAIN_URL says"])
    server.shutdown()
    server.server_close()


@case
def a_checkpoint_that_is_not_as_it_was_written_is_refused():
    with Folder() as folder:
        folder.train(tiny(write_documents(folder / "data.jsonl", 8), steps=1, every=0), "run")
        final = folder / "run/checkpoints/final"

        def ask(**options):
            return folder.run("generate", "--model", "run", "--prompt", "the", "--max-new-tokens", "4", **options)
        answer = ask()
        weights = os.path.join(final, "model.safetensors")
        flip(weights, os.path.getsize(weights) - 1)
        ask(code=65, says=["is damaged: the contents of 'model.safetensors' are not those that were written",
                           "name another checkpoint, or, if this was changed on purpose, remove", "megatrain/manifest.json"])
        flip(weights, os.path.getsize(weights) - 1)
        shutil.copy(os.path.join(final, "config.json"), folder / "config.json")
        with open(os.path.join(final, "config.json"), "a") as file:
            file.write("\n")
        ask(code=65, says=["is damaged: 'config.json' has"])
        shutil.copy(folder / "config.json", os.path.join(final, "config.json"))
        # What only a resume needs may be gone.
        os.unlink(os.path.join(final, "megatrain/optimizer.safetensors"))
        equal(ask(), answer)
        flip(weights, os.path.getsize(weights) - 1)
        os.unlink(os.path.join(final, "megatrain/manifest.json"))
        ask()


run_cases()
