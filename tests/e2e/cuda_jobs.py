#!/usr/bin/env python3
"""Whole jobs by `device: cuda` on the simulated CUDA device: learning, same bits, what is said when the device fails,
is full, is missing or too old.
time limit: 400 s"""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from megatraind import BUILD, Daemon, Skipped, case, equal, run_cases, until  # noqa: E402
from training import MEGATRAIN, WORKER, Folder, log_lines, rows, same_runs, saved, tiny, write_documents  # noqa: E402

MODULE = os.path.join(BUILD, "megatrain-cudasim.so")
BF16_TOLERANCE = 5e-3  # of a loss: 8 bits of mantissa, averaged over a batch


def simulated(**settings):
    """The environment of a machine whose CUDA device is the simulated one."""
    if not os.path.exists(MODULE):
        raise Skipped("there is no simulated CUDA module")
    return {**os.environ, "MEGATRAIN_CUDA_MODULE": MODULE, **{f"CUDASIM_{k}": str(v) for k, v in settings.items()}}


def job(folder, device="cuda", steps=20, dtype="bfloat16", **training):
    path = folder / "rows.jsonl"
    if not os.path.exists(path):
        write_documents(path, 40)
    document = tiny(path, steps=steps, every=3, **training)
    document["device"] = device
    document["model"]["dtype"] = dtype
    return document


def losses(run):
    return [row["loss"] for row in rows(run)]


@case
def losses_of_20_steps_follow_the_cpus_and_are_the_same_bits_twice():
    with Folder() as folder:
        folder.train(job(folder, "cpu"), "cpu")
        folder.train(job(folder), "first", env=simulated(SEED=1, DELAY_US=200))
        folder.train(job(folder), "second", env=simulated(SEED=2, DELAY_US=50))
        pairs = list(zip(losses(folder / "cpu"), losses(folder / "first")))
        equal(len(pairs), 20)
        assert pairs[-1][1] < pairs[0][1], pairs
        assert all(abs(a - b) <= BF16_TOLERANCE * a for a, b in pairs), pairs
        same_runs(folder / "first", folder / "second")
        assert any("cuda:0" in line for line in log_lines(folder / "first"))


@case
def in_single_precision_the_losses_are_the_cpus():
    with Folder() as folder:
        folder.train(job(folder, "cpu", dtype="float32"), "cpu")
        folder.train(job(folder, dtype="float32"), "cuda", env=simulated())
        pairs = list(zip(losses(folder / "cpu"), losses(folder / "cuda")))
        assert all(abs(a - b) <= 1e-5 * a for a, b in pairs), pairs


@case
def a_device_that_fails_ends_the_job_with_a_sentence_and_it_resumes_to_the_same_bits():
    with Folder() as folder:
        folder.train(job(folder), "undisturbed", env=simulated())
        for what in ("kernel:900", "product:400", "copy:200", "launch:900"):
            run = what.partition(":")[0]
            said = folder.train(job(folder), run, env=simulated(FAIL=what), code=70)
            assert "cuda:0: " in said and "failed" in said, said[-800:]
            assert saved(folder / run), (what, "failed before the first checkpoint")
            folder.train(job(folder), run, "--resume", env=simulated())
            same_runs(folder / run, folder / "undisturbed")


@case
def a_full_device_is_told_in_numbers_before_the_first_step():
    with Folder() as folder:
        document = job(folder)
        document["model"].update(hidden_size=256, vocab_size=20000)
        said = folder.train(document, "run", env=simulated(MEMORY="16M"), code=70)
        assert "memory of cuda:0" in said and "were asked for" in said and "available" in said, said[-800:]
        equal(rows(folder / "run"), [])


@case
def memory_that_ends_while_the_device_is_set_up_is_out_of_memory():
    with Folder() as folder:
        for what, part in (("cudaInitDevice:1-", "cannot be used"), ("cublasCreate:1-", "opening cuBLAS failed"),
                           ("cudaStreamCreate:2-", "creating a stream failed"),
                           ("cudaEventCreate:3-", "creating an event failed"), ("launch:20:2", "failed: out of memory")):
            job_folder = folder / what.partition(":")[0]
            os.mkdir(job_folder)
            with open(os.path.join(job_folder, "job.json"), "w") as file:
                json.dump(job(folder, steps=2), file)
            done = subprocess.run([WORKER, "--task", "train", "--job-dir", job_folder], env=simulated(FAIL=what),
                                  capture_output=True, text=True, timeout=120)
            said = done.stdout + done.stderr
            equal(done.returncode, 70)
            assert part in said and "memory" in said, (what, said[-800:])


@case
def host_memory_that_cannot_be_pinned_is_told_once_and_works():
    with Folder() as folder:
        folder.train(job(folder, steps=3), "run", env=simulated(PINNED_LIMIT="4K", PAGEABLE="copy"))
        told = [line for line in log_lines(folder / "run") if "could not be pinned" in line]
        equal(len(told), 1)
        assert "LimitMEMLOCK" in told[0], told


@case
def a_build_without_the_module_says_that_it_takes_the_cpu():
    with Folder() as folder:
        alone = shutil.copy(MEGATRAIN, folder / "megatrain")
        environment = {name: value for name, value in os.environ.items() if name != "MEGATRAIN_CUDA_MODULE"}
        folder.train(job(folder, "auto", steps=2), "run", env=environment, executable=alone)
        told = [line for line in log_lines(folder / "run") if "device auto takes the CPU" in line]
        equal(len(told), 1)
        assert "no CUDA module" in told[0], told


@case
def without_a_driver_auto_takes_the_cpu_and_cuda_says_why_not():
    with Folder() as folder:
        environment = simulated(DRIVER=0, DEVICES=0)
        folder.train(job(folder, "auto", steps=2), "auto", env=environment)
        told = [line for line in log_lines(folder / "auto") if "device auto takes the CPU" in line]
        equal(len(told), 1)
        assert any("device: cpu" in line for line in log_lines(folder / "auto"))
        said = folder.train(job(folder, "cuda", steps=2), "cuda", env=environment, code=70)
        assert "no CUDA device can be used" in said and "driver" in said, said[-800:]
        assert not any("data:" in line for line in log_lines(folder / "cuda")), "told after the data was read"
        said = folder.train(job(folder, "cuda:3", steps=2), "other", env=simulated(), code=70)
        assert "there is no device cuda:3" in said, said[-800:]


@case
def a_device_without_bf16_products_is_named_and_refused():
    with Folder() as folder:
        said = folder.train(job(folder, steps=2), "run", env=simulated(CAPABILITY=75), code=70)
        assert "compute capability is 7.5" in said and "8.0" in said, said[-800:]


@case
def a_module_without_code_for_the_gpu_is_told_and_auto_takes_the_cpu():
    with Folder() as folder:
        environment = simulated(CODE=90, CAPABILITY=86)
        said = folder.train(job(folder, steps=2), "cuda", env=environment, code=70)
        assert "no code for this GPU" in said and "CUDA_ARCHS" in said, said[-800:]
        folder.train(job(folder, "auto", steps=2), "auto", env=environment)
        told = [line for line in log_lines(folder / "auto") if "device auto takes the CPU" in line]
        assert len(told) == 1 and "no code for this GPU" in told[0], told


@case
def a_module_that_is_not_there_or_is_none_is_named():
    with Folder() as folder:
        for path, part in (("/nowhere/module.so", "/nowhere/module.so"), ("libc.so.6", "is no CUDA module")):
            environment = {**os.environ, "MEGATRAIN_CUDA_MODULE": path}
            said = folder.train(job(folder, steps=2), "run", env=environment, code=70)
            assert part in said, said[-800:]
            folder.run("schema")


STALE_MODULE = """
#define MT_CUDA_MODULE_INTERFACE 1u
#include "core/device/module.h"
const struct mt_cuda_module *mt_cuda_module_entry(const struct mt_cuda_module_host *host);
const struct mt_cuda_module *mt_cuda_module_entry(const struct mt_cuda_module_host *host)
{
    static const struct mt_cuda_module module = {.version = MT_CUDA_MODULE_VERSION, .interface = 1u};
    return host ? &module : 0;
}
"""


@case
def a_module_that_was_built_from_other_headers_is_refused():
    with Folder() as folder:
        source, stale = folder / "stale.c", folder / "stale.so"
        with open(source, "w") as file:
            file.write(STALE_MODULE)
        subprocess.run(["gcc", "-I.", "-shared", "-fPIC", "-o", stale, source], check=True)
        environment = {**os.environ, "MEGATRAIN_CUDA_MODULE": str(stale)}
        said = folder.train(job(folder, steps=2), "cuda", env=environment, code=70)
        assert "was built from other sources than this program" in said and "stale.so" in said, said[-800:]
        folder.train(job(folder, "auto", steps=2), "auto", env=environment)
        told = [line for line in log_lines(folder / "auto") if "device auto takes the CPU" in line]
        assert len(told) == 1 and "other sources" in told[0], told


@case
def under_the_daemon_a_job_on_a_failing_device_is_started_again_and_completes():
    with Folder() as folder, Daemon("--allow-path", folder.path, worker=WORKER,
                                    environment=simulated(FAIL="kernel:900")) as daemon:
        status, body = daemon.ask("POST", "/jobs", job(folder))
        equal(status, 201)
        until("the job completes", lambda: daemon.state_of(body["id"]) == "completed", seconds=120)
        assert daemon.job(body["id"])["attempt"] > 1, daemon.job(body["id"])
        assert "cuda:0: " in daemon.log() and "cudaErrorIllegalAddress" in daemon.log()


@case
def under_the_daemon_a_full_device_fails_the_job_and_the_next_one_runs():
    with Folder() as folder, Daemon("--allow-path", folder.path, worker=WORKER,
                                    environment=simulated(FAIL="cudaMalloc:2-:2")) as daemon:
        status, body = daemon.ask("POST", "/jobs", job(folder, steps=2))
        equal(status, 201)
        until("the job failed", lambda: daemon.state_of(body["id"]) == "failed", seconds=60)
        failed = daemon.job(body["id"])
        equal(failed["reason"], "out_of_memory")
        assert "memory of cuda:0" in failed["error"]["message"], failed["error"]
        status, body = daemon.ask("POST", "/jobs", job(folder, "cpu", steps=2))
        equal(status, 201)
        until("the next job completes", lambda: daemon.state_of(body["id"]) == "completed", seconds=60)


@case
def what_this_gpu_can_never_hold_is_refused_with_its_numbers():
    with Folder() as folder, Daemon("--allow-path", folder.path, worker=WORKER,
                                    environment=simulated(MEMORY="64M")) as daemon:
        document = job(folder, steps=2)
        document["model"].update(hidden_size=2048, vocab_size=20000)
        for device in ("cuda", "auto"):
            document["device"] = device
            status, body = daemon.ask("POST", "/jobs", document)
            equal(status, 422)
            assert "the device needs" in body["errors"][0]["detail"] and "32.0 MiB" in body["errors"][0]["detail"], body
        status, body = daemon.ask("POST", "/jobs", job(folder, steps=2))
        equal(status, 201)
        until("the next job completes", lambda: daemon.state_of(body["id"]) == "completed", seconds=60)


@case
def products_that_cublaslt_has_no_algorithm_for_are_made_another_way():
    test = os.path.join(BUILD, "tests/unit/device/test_linear")
    done = subprocess.run([test], env=simulated(FAIL="cublasLtMatmulAlgoGetHeuristic:1-:15"), capture_output=True,
                          text=True, timeout=200)
    equal(done.returncode, 0)
    assert "cublasLtMatmulAlgoGetHeuristic fails" in done.stderr, done.stderr[-400:]


@case
def devices_are_listed_by_the_command_and_by_the_daemon():
    with Folder() as folder:
        folder.run("devices", env=simulated(), says=["cpu ", "cuda:0", "yes", "8.0", "CUDA driver"])
        folder.run("devices", env=simulated(CAPABILITY=75), says=["cuda:0", "no ", "compute capability is 7.5"])
        folder.run("devices", env=simulated(DRIVER=0, DEVICES=0), says=["cpu ", "CUDA: no CUDA device can be used"])
        environment = simulated(DEVICES=2)
        with Daemon(worker=WORKER, environment=environment) as daemon:
            found = daemon.get("/devices")
            equal([device["id"] for device in found["data"]], ["cpu", "cuda:0", "cuda:1"])
            assert all(device["usable"] for device in found["data"]) and found["cuda"]["unavailable"] is None, found
            url = {**environment, "MEGATRAIN_URL": f"http://127.0.0.1:{daemon.port}"}
            folder.run("devices", env=url, says=["cuda:1"])


run_cases()
