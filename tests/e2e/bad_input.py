#!/usr/bin/env python3
"""Whatever is wrong with a job, its data, its model or its disk has its own clear error, over HTTP and on the command
line; the daemon lives on and nothing that was acknowledged is lost.
time limit: 300 s"""
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import MEGATRAIND, Daemon, case, equal, run_cases, until  # noqa: E402
from training import (WORKER, Folder, SmallDisk, log_lines, rows, same_runs, saved, text, tiny,  # noqa: E402
                      write_documents, write_rows)

daemon = Daemon("--restart-delay", "0.05", worker=WORKER)
data = os.path.join(daemon.state, "datasets")
models = os.path.join(daemon.state, "models")
write_documents(os.path.join(data, "good.jsonl"), 30)
accepted = []


def with_keys(**changes):
    """The small job with blocks changed: with_keys(training={"learning_rate": "x"})."""
    document = tiny("good.jsonl", steps=3, every=0)
    for block, keys in changes.items():
        document[block] = {**document[block], **keys} if isinstance(keys, dict) and block in document else keys
    return document


def refused(document, pointer, *parts, status=422):
    """The API refuses it with this pointer, and the sentence has these parts."""
    found, body = daemon.ask("POST", "/jobs", document)
    equal(found, status)
    equal((body["status"], bool(body["title"]), bool(body["detail"])), (status, True, True))
    mine = [error for error in body["errors"] if error["pointer"] == pointer]
    assert mine, body
    for part in parts:
        assert part in json.dumps(mine, ensure_ascii=False), f"{part!r} is not in {mine}"
    return mine[0]


def raw(body, content_type="application/json"):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
    connection.request("POST", "/jobs", body, {"Content-Type": content_type})
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def accept(document):
    status, body = daemon.ask("POST", "/jobs", document)
    equal((status, body if status != 201 else None), (201, None))
    accepted.append(body["id"])
    return body["id"]


@case
def what_is_not_json_or_yaml_is_told_with_its_place():
    for body, parts in ((b'{"model": {"path": "x",}', ["line 1"]), (b"", []), (b'{\n"a": 1,\n"a": 2}', ["duplicate", "a"]),
                        (b'{"name": "\xff"}', []), (b'{"training": {"learning_rate": NaN}}', ["line 1"])):
        status, answer = raw(body)
        equal((body, status), (body, 400))
        for part in parts:
            assert part in answer["detail"], answer
    equal(raw(b"[1]")[0], 422)
    with Folder() as folder:
        for name, contents, parts in (("a.yaml", "model:\n  architecture: llama\n  - 1\n", ["a.yaml", "3"]),
                                      ("b.yaml", "model: {a: 1\n", ["b.yaml"]),
                                      ("c.yaml", "name: x\nname: y\n", ["c.yaml", "2", "name"]),
                                      ("d.json", '{"name": "x"\n "model": 1}', ["d.json", "line 2"])):
            folder.write(name, contents)
            folder.run("train", name, code=78, says=parts)


@case
def wrong_types_and_unknown_keys_are_all_told_at_once():
    document = with_keys(training={"batch_size": "many", "learning_rat": 1, "max_steps": 1.5}, model={"hidden_size": 64},
                         dataset={"packing": "maybe"}, nmae="x")
    status, body = daemon.ask("POST", "/jobs", document)
    equal(status, 422)
    pointers = {error["pointer"]: error for error in body["errors"]}
    for pointer in ("/training/batch_size", "/training/learning_rat", "/training/max_steps", "/dataset/packing", "/nmae"):
        assert pointer in pointers, body
    equal(pointers["/training/learning_rat"]["suggestion"], "learning_rate")
    equal(pointers["/nmae"]["suggestion"], "name")
    with Folder() as folder:
        folder.train(document, "run", code=78, says=["/training/batch_size", "learning_rate", "/dataset/packing", "6 errors"])


@case
def a_learning_rate_that_is_no_number_is_refused():
    refused(with_keys(training={"learning_rate": "NaN"}), "/training/learning_rate")
    refused(with_keys(training={"learning_rate": 0}), "/training/learning_rate")
    refused(with_keys(training={"learning_rate": -1e-3}), "/training/learning_rate")
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 5))
        folder.train(document, "run", "--set", "training.learning_rate=.nan", code=78, says=["--set training.learning_rate", "finite"])
        folder.train(document, "run", "--set", "training.learning_rate=.inf", code=78, says=["--set training.learning_rate"])


@case
def a_width_that_heads_do_not_divide_is_refused():
    document = with_keys(model={"hidden_size": 65, "num_attention_heads": 4})
    status, body = daemon.ask("POST", "/jobs", document)
    equal(status, 422)
    assert "65" in json.dumps(body["errors"]) and "4" in json.dumps(body["errors"]), body
    assert body["errors"][0]["pointer"].startswith("/model"), body
    with Folder() as folder:
        document["dataset"]["path"] = write_documents(folder / "d.jsonl", 5)
        folder.train(document, "run", code=78, says=["65"])


@case
def data_that_is_missing_empty_or_without_the_columns_is_refused_at_submission():
    refused(with_keys(dataset={"path": "nowhere.jsonl"}), "/dataset/path", "nowhere.jsonl")
    open(os.path.join(data, "empty.jsonl"), "w").close()
    refused(with_keys(dataset={"path": "empty.jsonl"}), "/dataset/path", "empty")
    os.makedirs(os.path.join(data, "hollow"), exist_ok=True)
    refused(with_keys(dataset={"path": "hollow"}), "/dataset/path", "hollow")
    write_rows(os.path.join(data, "columns.jsonl"), [{"question": "Who?", "reply": "I."}])
    refused(with_keys(dataset={"path": "columns.jsonl"}), "/dataset/path", "question", "reply", "instruction", "output")
    refused(with_keys(dataset={"path": "columns.jsonl", "columns": {"prompt": "question", "response": "answer"}}), "/dataset/path",
            "answer", "reply")
    with open(os.path.join(data, "torn.jsonl"), "w") as file:
        file.write('{"text": "whole"}\n{"text": "torn\n')
    with open(os.path.join(data, "broken.jsonl"), "w") as file:
        file.write('{"text": \n')
    refused(with_keys(dataset={"path": "broken.jsonl"}), "/dataset/path", "line 1")
    with open(os.path.join(data, "model.pt"), "wb") as file:
        file.write(b"\x80\x02}q\x00.")
    refused(with_keys(dataset={"path": "model.pt"}), "/dataset/path", "model.pt")
    document = with_keys()
    document["dataset"] = {"name": "unheard_of"}
    refused(document, "/dataset/name", "dataset_info.json")
    for path in ("/etc/passwd", "../../secret.txt"):
        refused(with_keys(dataset={"path": path}), "/dataset/path")
    # The same on the command line, each with exit code 65.
    with Folder() as folder:
        for name, parts in (("empty.jsonl", ["empty"]), ("hollow", ["hollow"]), ("columns.jsonl", ["question", "instruction"]),
                            ("broken.jsonl", ["line 1"]), ("torn.jsonl", ["line 2"])):
            folder.train(tiny(os.path.join(data, name)), "run-" + name, code=65, says=parts)
    # A name that is no text: the sentence goes through JSON all the same.
    os.makedirs(os.path.join(data, "bytes"))
    odd = os.path.join(data, "bytes").encode() + b"/\xff\xfe.jsonl"
    with open(odd, "w") as file:
        file.write("no JSON\n")
    refused(with_keys(dataset={"path": "bytes"}), "/dataset/path", "bytes/??.jsonl", "line 1")
    with open(odd, "w") as file:
        file.write('{"text": "whole"}\n' * 20000 + "no JSON\n")
    failed = daemon.wait(accept(with_keys(dataset={"path": "bytes"})), "failed")
    equal((failed["reason"], failed["attempt"]), ("bad_data", 1))
    assert "??.jsonl" in failed["error"]["message"] and "line 20001" in failed["error"]["message"], failed["error"]
    # What only reading to the end finds fails the job, once.
    failed = daemon.wait(accept(with_keys(dataset={"path": "torn.jsonl"})), "failed")
    equal((failed["reason"], failed["attempt"]), ("bad_data", 1))
    assert "line 2" in failed["error"]["message"], failed["error"]


@case
def samples_longer_than_allowed_are_cut_dropped_or_refused():
    with Folder() as folder:
        path = write_rows(folder / "d.jsonl", [{"instruction": "a", "output": "b" * length} for length in (3, 5, 400, 7, 6)]
                          + [{"instruction": "c" * 400, "output": "gone"}])

        def job(overlong):
            document = tiny(path, steps=2)
            document["dataset"].update(max_seq_len=256, overlong=overlong)
            return document
        said = folder.train(job("truncate"), "cut")
        assert "5 samples" in said and "1 truncated" in said and "1 row dropped (no_target), the first is row 6" in said, said
        said = folder.train(job("drop"), "dropped")
        assert "4 samples" in said and "2 rows dropped (overlong), the first is row 3" in said, said
        folder.train(job("error"), "refused", code=65, says=["max_seq_len", "256"])


@case
def data_without_anything_to_learn_fails():
    write_rows(os.path.join(data, "nothing.jsonl"), [{"instruction": "Say nothing.", "output": ""}] * 3)
    failed = daemon.wait(accept(with_keys(dataset={"path": "nothing.jsonl", "max_seq_len": 256})), "failed")
    equal((failed["reason"], failed["attempt"]), ("bad_data", 1))
    assert "nothing" in failed["error"]["message"] or "no target" in failed["error"]["message"], failed["error"]
    with Folder() as folder:
        document = tiny(os.path.join(data, "nothing.jsonl"))
        folder.train(document, "run", code=65, says=["3"])


def trained(folder):
    """A small model to damage."""
    folder.train(tiny(write_documents(folder / "d.jsonl", 30), steps=6, every=2), "run")
    return folder / "run/checkpoints/final"


def cut(path, keep):
    with open(path, "r+b") as file:
        file.truncate(keep if keep >= 0 else os.path.getsize(path) + keep)


@case
def a_model_that_is_missing_or_damaged_is_refused():
    with Folder() as folder:
        whole = trained(folder)
        document = with_keys()

        def model(name, damage=None):
            shutil.copytree(whole, os.path.join(models, name))
            os.unlink(os.path.join(models, name, "megatrain/manifest.json"))  # which would tell of any damage
            if damage:
                damage(os.path.join(models, name))
            document["model"] = {"path": name}
            return document

        def lose(name):
            return lambda path: os.unlink(os.path.join(path, name))
        document["model"] = {"path": "nowhere"}
        refused(document, "/model/path", "nowhere")
        document["model"] = {"name": "Org/Nowhere"}
        refused(document, "/model/name", "Org/Nowhere")
        refused(model("no-config", lose("config.json")), "/model/path", "config.json")
        refused(model("no-weights", lose("model.safetensors")), "/model/path", "no-weights", ".safetensors")
        refused(model("no-tokenizer", lose("tokenizer.json")), "/model/path", "tokenizer.json")
        refused(model("short", lambda path: cut(os.path.join(path, "model.safetensors"), -100)), "/model/path", "model.safetensors")
        refused(model("header", lambda path: cut(os.path.join(path, "model.safetensors"), 40)), "/model/path", "model.safetensors")
        refused(model("words", lambda path: cut(os.path.join(path, "config.json"), 50)), "/model/path", "config.json")

        def edit(name, change):
            def damage(path):
                path = os.path.join(path, name)
                with open(path) as file:
                    contents = json.load(file)
                change(contents)
                with open(path, "w") as file:
                    json.dump(contents, file)
            return damage
        other_shape = edit("config.json", lambda config: config.update(intermediate_size=64))
        refused(model("shape", other_shape), "/model/path", "gate_proj", "model.safetensors")

        # A model that config.json makes much larger than its files is found out before memory is taken for it.
        many_heads = edit("config.json", lambda config: config.update(num_attention_heads=1 << 20))
        refused(model("heads", many_heads), "/model/path", "q_proj", "model.safetensors")

        # A tokenizer that has more ids than the model has rows in its embedding.
        one_more = edit("tokenizer.json", lambda tokenizer: tokenizer["added_tokens"].append(
            {**tokenizer["added_tokens"][0], "id": 259, "content": "<more>"}))
        refused(model("more", one_more), "/model/path", "the tokenizer has 260 ids", "the model's vocab_size is 259")

        def pickled(path):
            os.rename(os.path.join(path, "model.safetensors"), os.path.join(path, "pytorch_model.bin"))
        refused(model("pickle", pickled), "/model/path", "safetensors")
        for name, part in (("no-config", "config.json"), ("short", "model.safetensors"), ("shape", "gate_proj"),
                           ("heads", "q_proj"), ("pickle", "safetensors"), ("more", "260 ids")):
            path = os.path.join(models, name)
            if name != "more":
                folder.run("generate", "--model", path, "--prompt", "x", code=65, says=[part])
            folder.train({**tiny(folder / "d.jsonl"), "model": {"path": path}}, "run-" + name, code=65, says=[part])
        for name, text, part in (("cut", '{"eos_token_id": 2', "generation_config.json"), ("list", "[2]", "no JSON object"),
                                 ("type", '{"eos_token_id": "2"}', "`eos_token_id` must be a whole number")):
            path = model("generation-" + name)["model"]["path"]
            with open(os.path.join(models, path, "generation_config.json"), "w") as file:
                file.write(text)
            folder.run("generate", "--model", os.path.join(models, path), "--prompt", "x", code=65, says=[part, "mend"])
        # Without training it is of use as long as the ids that are too many do not come up.
        more = os.path.join(models, "more")
        folder.run("generate", "--model", more, "--prompt", "x", "--max-new-tokens", "1")
        folder.run("generate", "--model", more, "--prompt", "x<more>", code=65, says=["token 259", "vocabulary of 259"])
        # And the whole one is taken.
        daemon.wait(accept(model("whole")), "completed")
        folder.run("generate", "--model", folder / "absent", "--prompt", "x", code=65, says=["absent"])


@case
def a_damaged_checkpoint_is_passed_over_and_named():
    with Folder() as folder:
        trained(folder)
        document = tiny(folder / "d.jsonl", steps=6, every=2)
        shutil.copytree(folder / "run", folder / "again", symlinks=True)

        def broken(run, step, name, damage):
            damage(folder / f"{run}/checkpoints/step-{step:08d}/{name}")
        # Truncated, missing, changed: each time the one before is used and the end is the same.
        for i, (name, damage) in enumerate((("model.safetensors", lambda path: cut(path, -1)),
                                            ("megatrain/optimizer.safetensors", os.unlink),
                                            ("config.json", lambda path: cut(path, 10)),
                                            ("megatrain/manifest.json", lambda path: cut(path, 30)),
                                            ("megatrain/trainer_state.json", os.unlink))):
            run = f"damaged{i}"
            shutil.copytree(folder / "run", folder / run, symlinks=True)
            broken(run, 6, name, damage)
            folder.run("train", "--resume", "--output-dir", run, says=["passed over", os.path.basename(name), "step 4"])
            same_runs(folder / run, folder / "run")

        def flip(path):
            with open(path, "r+b") as file:
                file.seek(-5, 2)
                byte = file.read(1)
                file.seek(-5, 2)
                file.write(bytes([byte[0] ^ 1]))
        broken("again", 6, "model.safetensors", flip)
        folder.run("train", "--resume", "--output-dir", "again", says=["passed over", "contents"])
        same_runs(folder / "again", folder / "run")
        # None whole: an error that names the newest, and no new start over it.
        for step in (2, 4, 6):
            broken("again", step, "megatrain/optimizer.safetensors", os.unlink)
        folder.run("train", "--resume", "--output-dir", "again", code=65, says=["step-00000006", "optimizer.safetensors"])
        equal(saved(folder / "again"), [2, 4, 6])
        equal(len(rows(folder / "again")), 6)
        folder.train(document, "run", "--resume", says=["nothing is left"])


@case
def a_second_daemon_or_a_taken_port_leaves_the_first_alone():
    again = subprocess.run([MEGATRAIND, "--state-dir", daemon.state, "--listen", "127.0.0.1:0"], capture_output=True, text=True,
                           timeout=60)
    equal(again.returncode, 75)
    assert "another megatraind" in again.stderr, again.stderr
    with Folder() as folder:
        taken = subprocess.run([MEGATRAIND, "--state-dir", folder / "state", "--listen", f"127.0.0.1:{daemon.port}"],
                               capture_output=True, text=True, timeout=60)
        equal(taken.returncode, 69)
        assert str(daemon.port) in taken.stderr, taken.stderr
    socket.create_connection(("127.0.0.1", daemon.port)).close()
    equal(daemon.get("/readyz")["status"], "ready")


@case
def a_full_disk_stops_a_run_and_costs_nothing():
    with Folder() as folder, SmallDisk(6) as disk:
        document = tiny(write_documents(folder / "d.jsonl", 30), steps=60, every=1)
        document["checkpoint"]["keep"] = 100  # 0.6 MB each: some nine of them fit
        job = folder.job(document)
        run = os.path.join(disk.path, "run")
        said = folder.run("train", job, "--output-dir", run, code=74, prefix=disk.prefix, says=["full", "bytes"])
        seen = os.path.join(disk.seen, "run")
        made = saved(seen)
        assert 2 < len(made) < 60 and made == list(range(1, len(made) + 1)), (made, said[-500:])
        equal([name for name in os.listdir(os.path.join(seen, "checkpoints")) if name.startswith(".tmp")], [])
        for step in made[:-2]:
            shutil.rmtree(os.path.join(seen, "checkpoints", f"step-{step:08d}"))
        folder.run("train", "--resume", "--output-dir", run, "--set", "checkpoint.keep=2", code=0, prefix=disk.prefix)
        folder.train({**document, "checkpoint": {"every_steps": 0}}, "whole")
        same_runs(seen, folder / "whole")


@case
def a_full_state_folder_pauses_the_job_and_it_goes_on_when_there_is_room():
    with SmallDisk(28) as disk:
        other = Daemon(worker=WORKER, prefix=disk.prefix, state=os.path.join(disk.path, "state"), start=False)
        try:
            other.spawn()
            other.state = os.path.join(disk.seen, "state")
            listen = os.path.join(other.state, "listen")
            until("megatraind listens", lambda: os.path.exists(listen))
            with open(listen) as file:
                other.port = int(file.readline().strip().rsplit(":", 1)[1])
            write_documents(os.path.join(other.state, "datasets", "good.jsonl"), 30)
            document = with_keys(training={"max_steps": 300})
            document["model"]["hidden_size"] = 128
            document["checkpoint"] = {"every_steps": 100, "keep": 1}
            status, body = other.ask("POST", "/jobs", document)
            equal(status, 201)
            job = body["id"]
            other.wait_step(job, 101)
            disk.fill(leave=2 << 20)
            paused = other.wait(job, "paused", "completed")
            equal((paused["state"], paused["reason"]), ("paused", "disk_full"))
            assert "bytes" in paused["error"]["message"], paused["error"]
            equal(other.get("/healthz")["status"], "ok")
            equal(other.job(job)["last_checkpoint"]["step"] % 100, 0)
            disk.empty()
            equal(other.act(job, "resume"), 202)
            done = other.wait(job, "completed")
            equal([row["step"] for row in other.rows(job)], list(range(1, 301)))
            equal((done["progress"]["step"], done["reason"]), (300, None))
            equal(other.stop(), 0)
        finally:
            if other.process.poll() is None:
                other.kill()
            other.close()


@case
def after_all_this_the_daemon_lives_and_has_every_job():
    equal(daemon.get("/healthz")["status"], "ok")
    job = accept(with_keys())
    daemon.wait(job, "completed")
    listed = [entry["id"] for entry in daemon.get("/jobs?limit=1000")["data"]]
    equal(sorted(listed), sorted(accepted))
    equal(sorted(os.listdir(os.path.join(daemon.state, "jobs"))), sorted(accepted))
    assert any("data:" in line for line in log_lines(daemon.folder(job)))
    daemon.kill()
    daemon.start()
    equal(sorted(entry["id"] for entry in daemon.get("/jobs?limit=1000")["data"]), sorted(accepted))
    equal(daemon.stop(), 0)
    daemon.close()


try:
    run_cases()
finally:
    daemon.close()
