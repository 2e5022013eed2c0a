#!/usr/bin/env python3
"""`megatrain train`: the job file of a from-scratch run as people know it, resuming, order, accumulation, evaluation,
pruning, exit codes.
time limit: 300 s"""
import fcntl
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import BUILD, Skipped, case, equal, run_cases  # noqa: E402
from training import (Folder, bits, decided, log_lines, rows, same_runs, saved, text, tiny,  # noqa: E402
                      write_documents, write_rows)

CONFIG_TEST = """\
# A small run from scratch.
model:
  architecture: llama
  hidden_size: 64
  num_layers: 2
  num_attention_heads: 4
  vocab_size: 512
training:
  batch_size: 4
  gradient_accumulation_steps: 2
  learning_rate: 3e-4
  max_steps: 10
distributed:
  backend: nccl
  data_parallel_size: 1
  tensor_parallel_size: 1
  pipeline_parallel_size: 1
"""


def sample_data(folder):
    folder.write("sample_data/prose.txt", text(400) + "\n")
    folder.write("sample_data/deeper/more.txt", text(100, 5))
    write_documents(folder / "sample_data/rows.jsonl", 30)
    write_rows(folder / "sample_data/asked.jsonl",
               [{"instruction": f"Say {i}.", "input": "", "output": f"It is {i}."} for i in range(20)])


@case
def the_job_file_of_a_run_from_scratch_works_as_it_is():
    with Folder() as folder:
        folder.write("config_test.yaml", CONFIG_TEST)
        sample_data(folder)
        folder.run("train", "--config", "config_test.yaml", "--data-path", "./sample_data", "--output-dir", "./test_run",
                   says=["step 10/10", "generate"])
        run = folder / "test_run"
        made = rows(run)
        equal([row["step"] for row in made], list(range(1, 11)))
        for key in ("epoch", "loss", "grad_norm", "learning_rate", "tokens", "target_tokens", "tokens_per_second",
                    "step_seconds", "time", "skipped_steps", "attempt"):
            assert all(key in row for row in made), key
        assert 5.5 < made[0]["loss"] < 7.0 and made[-1]["loss"] < made[0]["loss"], made  # ln 512 is 6.24
        equal(saved(run), [10])
        with open(os.path.join(run, "job.json")) as file:
            frozen = json.load(file)
        equal(frozen["training"]["learning_rate"], 3e-4)
        equal(frozen["training"]["lr_scheduler"], "cosine")
        assert isinstance(frozen["training"]["micro_batch_size"], int), frozen["training"]
        equal(frozen["dataset"]["path"], os.path.realpath(folder / "sample_data"))
        equal(os.readlink(os.path.join(run, "checkpoints", "final")), "step-00000010")
        folder.run("generate", "--model", "test_run", "--prompt", "the cat", "--max-new-tokens", "4")
        # The frozen document is itself a job: the same numbers again.
        folder.run("train", "test_run/job.json", "--output-dir", "again", "--quiet")
        same_runs(folder / "again", run)


@case
def a_folder_that_is_not_empty_is_left_alone():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 20), steps=2)
        folder.write("run/mine", "precious")
        folder.train(document, "run", code=64, says=["not empty", "--resume"])
        equal(os.listdir(folder / "run"), ["mine"])


@case
def a_run_that_failed_before_its_first_step_starts_again_without_resume():
    with Folder() as folder:
        folder.write("empty.jsonl", "")
        folder.train(tiny(folder / "empty.jsonl", steps=2), "run", code=65)
        folder.train(tiny(write_documents(folder / "d.jsonl", 20), steps=2), "run")
        equal((saved(folder / "run"), len(rows(folder / "run"))), ([2], 2))
        folder.train(tiny(folder / "d.jsonl", steps=2), "run", code=64, says=["not empty"])


@case
def a_wrong_value_is_said_to_come_from_the_option_that_gave_it():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 20), steps=2)
        folder.train(document, "run", "--set", "training.max_step=5", code=78,
                     says=['--set training.max_step: unknown key "max_step"; did you mean "max_steps"?'])
        folder.train(document, "run", "--data-path", "nowhere", code=65, says=["--data-path: cannot use", "nowhere"])
        said = folder.train(document, "run", "--set", "foo.bar=1", code=78, says=['--set foo.bar: unknown key "foo"'])
        assert "job.json" not in said, said
        said = folder.train(document, "run", "--set", "training={max_step: 5}", code=78, says=['--set training: unknown key "max_step"'])
        # What the file has wrong is the file's, whatever options say of its neighbours.
        document["traning"] = {"seed": 1}
        folder.train(document, "run", "--set", "traning.seed=2", "--set", "training.seed=3", code=78, says=["job.json:", ": /traning: "])


@case
def one_run_has_one_process():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 20), steps=2)
        os.mkdir(folder / "run")
        held = os.open(folder / "run", os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        folder.train(document, "run", code=64, says=["another process"])
        os.close(held)
        folder.train(document, "run")


@case
def exit_codes_say_what_went_wrong():
    with Folder() as folder:
        data = write_documents(folder / "d.jsonl", 20)
        folder.run("train", code=64, says=["JOB"])
        folder.run("train", "--no-such-option", code=64)
        folder.run("train", "absent.yaml", code=78, says=["absent.yaml"])
        folder.train({**tiny(data), "trainign": {}}, "a", code=78, says=["/trainign", "training"])
        folder.train(tiny(folder / "nowhere"), "b", code=65, says=["nowhere"])
        folder.write("empty.jsonl", "")
        folder.train(tiny(folder / "empty.jsonl"), "c", code=65, says=["empty"])
        folder.write("file", "")
        folder.train(tiny(data, steps=1), "file/below", code=74, says=["file/below"])
        folder.run("train", "--resume", "--output-dir", "never", code=74, says=["no run in", "never"])
        os.mkdir(folder / "empty")
        folder.run("train", "--resume", "--output-dir", "empty", code=74, says=["no run in 'empty' to go on with"])
        folder.train(tiny(data), "empty", "--resume", code=74, says=["no run in 'empty' to go on with"])
        equal(os.listdir(folder / "empty"), [])
        folder.run("train", "--help", says=["Exit:"])
        for run in "abc":
            assert not os.path.exists(folder / f"{run}/checkpoints/final"), run


@case
def a_file_in_the_place_of_a_checkpoint_is_moved_aside():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 20), steps=6, every=3, lr_scheduler="constant", warmup_ratio=0)
        folder.train(document, "whole", "--quiet")
        folder.train(document, "run", "--set", "training.max_steps=3", "--quiet")
        folder.write("run/checkpoints/step-00000006", "mine")
        folder.train(document, "run", "--resume", "--set", "training.max_steps=6",
                     says=["passed over", "not a folder", "step-00000006.aside-1"])
        equal(bits(folder / "run"), bits(folder / "whole"))
        with open(folder / "run/checkpoints/step-00000006.aside-1") as file:
            equal(file.read(), "mine")


@case
def a_short_address_space_is_told_and_never_waited_for():
    """The library for matrix products tries for ever to get a buffer where there are no addresses left."""
    if any(kind in BUILD for kind in ("asan", "tsan")):
        raise Skipped("sanitizers take more addresses than that")
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 20), steps=2, every=0)

        def limited(mib):
            return ["bash", "-c", f'ulimit -v {mib * 1024} && exec "$0" "$@"']
        folder.train(document, "short", "--quiet", code=70, says=["OpenBLAS", "ulimit -v"], prefix=limited(300))
        folder.run("generate", "--model", "short", "--prompt", "x", code=65, prefix=limited(300))
        ends = set()
        for mib in range(400, 900, 40):  # on the way all sorts of things do not fit
            process = folder.start("train", folder.job(document), "--quiet", "--output-dir", f"run-{mib}", prefix=limited(mib))
            process.communicate(timeout=60)
            ends.add(process.returncode)
        assert ends <= {0, 70}, ends
        folder.train(document, "enough", "--quiet", prefix=limited(300 + 130 * (os.cpu_count() + 3)))


@case
def resume_takes_its_own_document_and_no_other():
    with Folder() as folder:
        data = write_documents(folder / "d.jsonl", 40)
        document = tiny(data, steps=12)
        folder.train(document, "whole")
        folder.train(document, "run", "--set", "training.max_steps=6")
        # Another document is refused, whatever differs, and nothing has moved.
        before = bits(folder / "run")
        folder.train(document, "run", "--resume", code=78, says=["training.max_steps", "6 -> 12", "--set"])
        folder.train({**document, "training": {**document["training"], "max_steps": 6, "learning_rate": 1e-4}}, "run",
                     "--resume", code=78, says=["training.learning_rate"])
        equal(bits(folder / "run"), before)
        # Nothing left is said; the document may be left out, or be the same.
        folder.run("train", "--resume", "--output-dir", "run", says=["nothing is left"])
        folder.train(document, "run", "--resume", "--set", "training.max_steps=6", says=["nothing is left"])
        equal(bits(folder / "run"), before)
        equal(len(rows(folder / "run")), 6)
        # A change is told, and kept.
        folder.train(document, "run", "--resume", "--set", "training.max_steps=12",
                     says=["changes", "training.max_steps 6 -> 12", "the learning rate takes another course", "step 7 "])
        equal([row["step"] for row in rows(folder / "run")], list(range(1, 13)))
        with open(folder / "run/job.json") as file:
            equal(json.load(file)["training"]["max_steps"], 12)
        # Other data under the same name is noticed.
        write_documents(data, 41)
        folder.run("train", "--resume", "--output-dir", "run", code=65, says=["other data"])


@case
def a_reader_of_the_progress_who_goes_away_does_not_end_the_run():
    with Folder() as folder:
        process = folder.start("train", folder.job(tiny(write_documents(folder / "d.jsonl", 40), steps=60, every=0)),
                               "--output-dir", "run")
        process.stderr.readline()
        process.stderr.close()
        process.stdout.close()
        equal((process.wait(timeout=60), len(rows(folder / "run"))), (0, 60))


@case
def what_was_frozen_cannot_be_trained_further_and_it_says_why():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 20), steps=2)
        folder.train(document, "run", "--set", "training.freeze=['lm_head*']")
        folder.run("train", "--resume", "--output-dir", "run", "--set", "training.max_steps=4", "--set",
                   "training.freeze=[]", code=65, says=["lm_head.weight", "training.freeze", "new job"])
        folder.run("train", "--resume", "--output-dir", "run", "--set", "training.max_steps=4", "--set",
                   "training.freeze=['lm_head*', '*norm*']", says=["step 4/4"])


@case
def more_gradient_slabs_than_layers_take_no_room():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 20), steps=2)
        folder.train(document, "run", "--set", "memory.num_grad_slabs=1000000", "--set", "device=cpu-discrete", "--set",
                     "memory.device_limit=16MiB")


@case
def a_set_may_stand_alone_on_resume():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 20), steps=4)
        folder.train(document, "run")
        folder.run("train", "--resume", "--output-dir", "run", "--set", "training.max_steps=6",
                   says=["training.max_steps 4 -> 6"])
        equal([row["step"] for row in rows(folder / "run")], [1, 2, 3, 4, 5, 6])


def stopped_and_resumed(folder, document, run, step):
    """Trains to `step`, by a kill that leaves the checkpoint of that step as the newest, then to the end."""
    folder.train(document, run)
    for other in saved(folder / run):
        if other > step:
            shutil.rmtree(folder / f"{run}/checkpoints/step-{other:08d}")
    os.unlink(folder / f"{run}/checkpoints/final")
    return folder.run("train", "--resume", "--output-dir", run)


@case
def after_any_step_of_three_epochs_the_order_is_the_undisturbed_one():
    """10 samples, batch 2, 3 epochs: stopped after each of the 15 steps, exact ends of epochs among them."""
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 10), every=1, batch_size=2)
        del document["training"]["max_steps"]
        document["training"]["num_epochs"] = 3
        document["checkpoint"]["keep"] = 20
        folder.train(document, "whole")
        equal(len(rows(folder / "whole")), 15)
        epochs = [row["epoch"] for row in rows(folder / "whole")]
        equal([round(epoch, 6) for epoch in epochs], [round((i + 1) / 5, 6) for i in range(15)])
        for step in (1, 4, 5, 6, 9, 10, 14):
            stopped_and_resumed(folder, document, f"run{step}", step)
            same_runs(folder / f"run{step}", folder / "whole")
            attempts = [row["attempt"] for row in rows(folder / f"run{step}")]
            equal(attempts, [1] * step + [2] * (15 - step))


@case
def an_end_at_an_epoch_goes_on_where_more_epochs_are_asked():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 10), every=0, batch_size=2, lr_scheduler="constant")
        del document["training"]["max_steps"]
        document["training"]["num_epochs"] = 2
        folder.train({**document, "training": {**document["training"], "num_epochs": 1}}, "run")
        equal(len(rows(folder / "run")), 5)
        folder.train(document, "run", "--resume", "--set", "training.num_epochs=2")
        equal([row["step"] for row in rows(folder / "run")], list(range(1, 11)))


@case
def sixty_three_batches_at_accumulation_eight_are_eight_updates():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 63), every=0, batch_size=1, gradient_accumulation_steps=8,
                        warmup_ratio=0.5, lr_scheduler="constant")
        del document["training"]["max_steps"]
        document["training"]["num_epochs"] = 1
        folder.train(document, "run")
        made = rows(folder / "run")
        equal(len(made), 8)
        assert made[-1]["epoch"] == 1, made[-1]
        # Warm-up counts these, not the batches.
        equal([round(row["learning_rate"] / 3e-3, 9) for row in made], [0, 0.25, 0.5, 0.75, 1, 1, 1, 1])
        # The last one has seven of the sequences.
        assert 0.8 < made[-1]["tokens"] / (sum(row["tokens"] for row in made[:-1]) / 7) < 0.95, made


@case
def accumulated_steps_equal_one_large_batch_bit_by_bit():
    """Sequences of different lengths, answers alone learned: 2 x 4 and 8 x 1 in the same micro-batches."""
    with Folder() as folder:
        data = write_rows(folder / "d.jsonl", [{"instruction": text(1 + i % 3, i), "input": "", "output": text(1 + i % 7, 50 + i)}
                                               for i in range(40)])
        document = tiny(data, steps=3, every=0, learning_rate=1e-4, lr_scheduler="constant", warmup_ratio=0)
        document["dataset"]["max_seq_len"] = 320

        def with_batches(batch, accumulation, micro):
            changed = {**document, "training": {**document["training"], "batch_size": batch, "micro_batch_size": micro,
                                                "gradient_accumulation_steps": accumulation}}
            folder.train(changed, f"run{batch}x{accumulation}-{micro}")
            return folder / f"run{batch}x{accumulation}-{micro}"
        large = with_batches(8, 1, 2)
        same_runs(with_batches(2, 4, 2), large)
        same_runs(with_batches(4, 2, 2), large)
        other = with_batches(8, 1, 8)
        for a, b in zip(decided(other), decided(large)):
            assert abs(a["loss"] - b["loss"]) < 1e-6 * b["loss"], (a, b)
            assert abs(a["grad_norm"] - b["grad_norm"]) < 1e-5 * b["grad_norm"], (a, b)
            equal(a["target_tokens"], b["target_tokens"])


@case
def held_out_samples_are_evaluated_at_each_checkpoint():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 40), steps=7, every=3)
        document["dataset"]["val_size"] = 0.2
        folder.train(document, "run")
        made = rows(folder / "run")
        equal([row["step"] for row in made if "val_loss" in row], [3, 6, 7])
        assert all(1 < row["val_loss"] < 6 for row in made if "val_loss" in row), made


@case
def pruning_keeps_the_newest_the_best_and_the_one_resumed_from():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 40), steps=10, every=2, lr_scheduler="constant", warmup_ratio=0)
        document["checkpoint"]["keep"] = 1
        document["dataset"]["val_size"] = 0.2
        folder.train(document, "improves")
        equal(saved(folder / "improves"), [10])
        # From step 5 on a rate that ruins the model: the best stays, and with it the last.
        worse = {**document, "training": {**document["training"], "max_steps": 4}}
        folder.train(worse, "ruined")
        folder.train({**worse, "training": {**worse["training"], "max_steps": 10, "learning_rate": 1.0}}, "ruined", "--resume",
                     "--set", "training.max_steps=10", "--set", "training.learning_rate=1.0", says=["learning_rate 0.003 -> 1"])
        losses = {row["step"]: row["val_loss"] for row in rows(folder / "ruined") if "val_loss" in row}
        equal(min(losses, key=losses.get), 4)
        equal(saved(folder / "ruined"), [4, 10])
        del document["dataset"]["val_size"]
        document["dataset"]["val_size"] = 0
        document["checkpoint"]["keep"] = 3
        folder.train(document, "three")
        equal(saved(folder / "three"), [6, 8, 10])


@case
def steps_that_are_not_finite_are_refused_and_end_the_job():
    with Folder() as folder:
        document = tiny(write_documents(folder / "d.jsonl", 40), steps=60, every=1, learning_rate=100.0,
                        lr_scheduler="constant", warmup_ratio=0, weight_decay=10.0)
        said = folder.train(document, "run", code=70, says=["not finite", "3 times in a row", "last good checkpoint"])
        step = len(rows(folder / "run"))
        assert f"step {step + 1} failed" in said and f"that of step {step}" in said, said[-800:]
        refused = [line for line in log_lines(folder / "run") if "was refused" in line]
        equal(len(refused), 3)
        equal(saved(folder / "run")[-1], step)
        assert not os.path.lexists(folder / "run/checkpoints/final")
        # Updates within the backward pass: the first one ends it, and says as much.
        document["training"].update(max_skipped_steps=0, max_grad_norm=0)
        said = folder.train(document, "at-once", code=70, says=["is not finite", "last good checkpoint"])
        step = saved(folder / "at-once")[-1]
        assert f"step {step + 1} failed" in said and f"that of step {step}" in said, said[-800:]


@case
def a_checkpoint_is_a_folder_that_other_programs_load():
    """Keys that transformers needs; what it makes of them was checked with it by hand."""
    with Folder() as folder:
        folder.train(tiny(write_documents(folder / "d.jsonl", 40), steps=2), "run")
        final = folder / "run/checkpoints/final"
        equal(sorted(os.listdir(final)), ["config.json", "generation_config.json", "megatrain", "model.safetensors",
                                          "tokenizer.json", "tokenizer_config.json"])
        equal(sorted(os.listdir(os.path.join(final, "megatrain"))),
              ["manifest.json", "optimizer.safetensors", "trainer_state.json"])
        with open(os.path.join(final, "config.json")) as file:
            config = json.load(file)
        for key, value in {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32",
                           "hidden_size": 32, "intermediate_size": 128, "num_hidden_layers": 2,
                           "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 259,
                           "hidden_act": "silu", "tie_word_embeddings": False, "attention_bias": False,
                           "mlp_bias": False, "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258,
                           "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}.items():
            equal((key, config.get(key)), (key, value))
        assert abs(config["rms_norm_eps"] - 1e-5) < 1e-12, config
        with open(os.path.join(final, "tokenizer_config.json")) as file:
            tokenizer = json.load(file)
        equal([tokenizer[key] for key in ("tokenizer_class", "bos_token", "eos_token", "pad_token")],
              ["PreTrainedTokenizerFast", "<|begin|>", "<|end|>", "<|pad|>"])
        with open(os.path.join(final, "tokenizer.json")) as file:
            vocabulary = json.load(file)["model"]["vocab"]
        equal(sorted(vocabulary.values())[:256], list(range(256)))
        with open(os.path.join(final, "model.safetensors"), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        equal(header.get("__metadata__"), {"format": "pt"})
        assert "model.layers.1.mlp.down_proj.weight" in header and "lm_head.weight" in header, sorted(header)


run_cases()
