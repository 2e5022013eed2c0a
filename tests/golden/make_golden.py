#!/usr/bin/env python3
"""Make the golden folders: tiny random models with what transformers and PyTorch compute from them in fp64.

    make_golden.py                    make every case of the tables (cases_*.py) anew
    make_golden.py --case NAME...     make these only (a name may be a glob: 'llama_*')
    make_golden.py --check [--case]   compute again and compare with what is committed; nothing is written
    make_golden.py --list             name the cases
    make_golden.py --inert [--case]   name the settings of each config.json whose change the logits do not show
    make_golden.py --roundtrip CASE DIR
                                      load the checkpoint folder DIR with transformers, refuse a missing or unexpected
                                      key, and compare its config, names, shapes, dtypes and bits with CASE's
    make_golden.py --roundtrip-all DIR
                                      the same of every DIR/CASE-f32 and DIR/CASE-bf16, as test_round_trip leaves them
                                      where MT_ROUND_TRIP_FOLDER says

Our own engine has no part in this. README.md tells what the files hold; cases_*.py are the tables of models.
"""

import argparse
import contextlib
import copy
import fnmatch
import json
import os
import pathlib
import re
import sys
import tempfile
import warnings
import zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
warnings.filterwarnings("ignore")

import numpy as np
import safetensors
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import casebook
import cases_dense  # noqa: F401  (the tables fill casebook.CASES)
import cases_llama  # noqa: F401
import cases_references  # noqa: F401

HERE = pathlib.Path(__file__).resolve().parent
FILE_LIMIT_BYTES = 512 * 1024
SEED = 20240611
STEPS = 3
OPTIMIZER = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
MAX_GRAD_NORM = 1.0
IGNORED = -100


class Fp64(TorchFunctionMode):
    """transformers casts to fp32 where it wants precision (norms, softmax, rope, loss). Here fp32 would lose it, so
    every request for fp32 becomes one for fp64."""

    @staticmethod
    def _widen(value):
        return torch.float64 if value is torch.float32 else value

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = {key: self._widen(value) for key, value in (kwargs or {}).items()}
        if func is torch.Tensor.float:
            return args[0].to(torch.float64)
        return func(*(self._widen(value) for value in args), **kwargs)


class NoFp32(TorchDispatchMode):
    """Proves that Fp64 missed nothing: an operation that makes an fp32 tensor stops the script."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor) and tensor.dtype is torch.float32:
                raise AssertionError(f"{func} computed in fp32")
        return result


@contextlib.contextmanager
def double_precision():
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Fp64():
            yield
    finally:
        torch.set_default_dtype(previous)


def generator(case, what):
    """A stream of random numbers for one tensor of one set of weights: independent of the order of tensors."""
    return np.random.Generator(np.random.PCG64([SEED, zlib.crc32(case.encode()), zlib.crc32(what.encode())]))


def randomise(model, case):
    """Gives every parameter, and every buffer that is saved, random values that fp32 holds exactly. What a fresh model
    has constant (norm weights at one or, where 1 + weight multiplies, at zero; biases; gates) is moved around its
    constant; the rest gets a scale at which no branch drowns another."""
    embeddings = {id(model.get_input_embeddings().weight)}
    saved = set(model.state_dict())
    tensors = dict(model.named_parameters())
    tensors.update({name: buffer for name, buffer in model.named_buffers() if name in saved})
    given = case.get("given", {})
    for name, tensor in tensors.items():
        values = [value for pattern, value in given.items() if fnmatch.fnmatch(name, pattern)]
        if values:
            with torch.no_grad():
                tensor.fill_(values[0])
            continue
        noise = generator(case.get("weights", case["name"]), name).standard_normal(tensor.shape)
        first = float(tensor.flatten()[0])
        if bool((tensor == first).all()) or tensor.dim() < 2:
            centre = tensor.detach().double().numpy() if tensor.dim() < 2 else first
            value = centre + case.get("vector_std", 0.2) * noise
        elif id(tensor) in embeddings:
            value = case.get("embedding_std", 0.5) * noise
        else:
            value = case.get("matrix_gain", 1.0) * noise / np.sqrt(tensor.shape[-1])
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(np.asarray(value, dtype=np.float32)))


def make_batch(case, vocab_size):
    """Rows of different odd lengths, padded on the right with id 0 (which real tokens use too)."""
    lengths = case.get("lengths", (13, 9, 11))
    rows, width = len(lengths), max(lengths)
    draw = generator(case.get("weights", case["name"]), "batch")
    input_ids = np.zeros((rows, width), dtype=np.int64)
    mask = np.zeros((rows, width), dtype=np.int64)
    labels = np.full((rows, width), IGNORED, dtype=np.int64)
    for row, length in enumerate(lengths):
        input_ids[row, :length] = draw.integers(0, case.get("tokens", vocab_size), length)
        mask[row, :length] = 1
        prompt = (row * 2 + 1) % 5 if case.get("prompts", True) else 0
        labels[row, prompt:length] = input_ids[row, prompt:length]
        if case.get("prompts", True) and length > 8:
            labels[row, 6] = IGNORED
    return {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(mask),
            "labels": torch.from_numpy(labels)}


def forward(model, batch):
    output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False)
    logits = output.logits
    targets = batch["labels"][:, 1:]
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), targets.reshape(-1),
                                             ignore_index=IGNORED, reduction="sum") / (targets != IGNORED).sum()
    return logits, loss


def gradients(model, batch, fp32=False):
    """The batch's logits and loss, and the model's gradients left in .grad."""
    model.zero_grad(set_to_none=True)
    with contextlib.nullcontext() if fp32 else NoFp32():
        logits, loss = forward(model, batch)
        loss.backward()
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return logits.detach(), loss.detach()


def global_norm(model):
    return torch.sqrt(sum((p.grad**2).sum() for p in model.parameters() if p.grad is not None))


def check_rows_alone(model, batch, logits):
    """Padding must not matter: each row alone, unpadded, gives the logits that it has in the batch."""
    for row in range(batch["input_ids"].shape[0]):
        length = int(batch["attention_mask"][row].sum())
        alone = {key: value[row : row + 1, :length] for key, value in batch.items()}
        with torch.no_grad():
            difference = (forward(model, alone)[0][0] - logits[row, :length]).abs().max()
        assert difference < 1e-10, f"row {row} alone differs from the batch by {difference:g}"


def check_derivative(model, batch):
    """The gradient's own square is the loss's slope along it: shows that the backward pass belongs to the forward."""
    square = float(global_norm(model)) ** 2
    start = [p.detach().clone() for p in model.parameters()]
    step = 1e-5 / max(1.0, square**0.5)
    losses = []
    with torch.no_grad():
        for sign in (1, -1):
            for parameter, value in zip(model.parameters(), start, strict=True):
                parameter.copy_(value + sign * step * parameter.grad)
            losses.append(float(forward(model, batch)[1]))
        for parameter, value in zip(model.parameters(), start, strict=True):
            parameter.copy_(value)
    slope = (losses[0] - losses[1]) / (2 * step)
    assert abs(slope - square) < 1e-5 * square, f"gradient and finite difference disagree: {square} {slope}"


def check_fp32(case, folder, batch, logits, losses, grads, deltas):
    """transformers as everybody runs it, in fp32 and without Fp64, stays within half the tolerances of the engine:
    Fp64 changed no meaning, and the tolerances can be kept."""
    model = load_model(folder, case, torch.float32)
    real = batch["attention_mask"] == 1
    initial = [p.detach().clone() for p in model.parameters()]
    plain, _ = gradients(model, batch, fp32=True)
    difference = (plain[real] - logits[real]).abs().max() / logits[real].abs().max()
    assert difference < 1e-5, f"fp32: logits differ by {difference:g}"
    largest = max(float(grad.abs().max()) for grad in grads)
    above = []
    for (name, parameter), grad in zip(model.named_parameters(), grads, strict=True):
        floor = 1e-4 * float(grad.abs().max()) + 1e-6 * largest
        above.append(grad.abs() > floor)
        worst = float((parameter.grad - grad).abs().max())
        assert worst < 0.5 * floor, f"fp32: gradient of {name} is off by {worst:g}, allowed {floor:g}"
    plain_losses, _ = train(model, batch, fp32=True)
    assert np.allclose(plain_losses, losses, rtol=5e-6, atol=0), f"fp32: losses {plain_losses}, not {losses}"
    for (name, parameter), start, delta, where in zip(model.named_parameters(), initial, deltas, above, strict=True):
        if bool(where.any()):
            worst = float((parameter.detach() - start - delta)[where].abs().max())
            assert worst < 0.025 * OPTIMIZER["lr"], f"fp32: update of {name} is off by {worst:g}"


def on_disk(case, model, values):
    """Tensors in the names and shapes of the checkpoint: save_pretrained of a copy that holds them as weights."""
    clone = copy.deepcopy(model)
    buffers = set(clone.state_dict()) - {name for name, _ in clone.named_parameters(remove_duplicate=False)}
    with torch.no_grad():
        for (_, parameter), value in zip(clone.named_parameters(), values, strict=True):
            parameter.copy_(value)
    clone = clone.to(torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        clone.save_pretrained(folder)
        tensors = load_file(os.path.join(folder, "model.safetensors"))
    rename = case.get("rename", lambda name: name)
    return {rename(name): value for name, value in tensors.items() if name not in buffers}


def save_initial(case, folder):
    """config.json and model.safetensors, as save_pretrained writes them (or the config as an older release did)."""
    config = casebook.make_config(case)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomise(model, case)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if "rename" in case:
        path = folder / "model.safetensors"
        tensors = {case["rename"](name): value for name, value in load_file(path).items()}
        save_file(tensors, path, metadata={"format": "pt"})
    if "rewrite" in case:
        path = folder / "config.json"
        path.write_text(json.dumps(case["rewrite"](json.loads(path.read_text())), indent=2) + "\n")


def load_model(folder, case=None, dtype=torch.float64):
    attention = (case or {}).get("attention", "eager")
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation=attention, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not report.get(kind), f"{folder}: {kind}: {report[kind]}"
    return model.eval()


def train(model, batch, fp32=False):
    """Three clipped AdamW updates on the one batch."""
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1]},
              {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], foreach=False, **OPTIMIZER)
    losses, norms = [], []
    for _ in range(STEPS):
        _, loss = gradients(model, batch, fp32)
        losses.append(float(loss))
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM, foreach=False)))
        optimizer.step()
    return losses, norms


def make_case(case, folder):
    """Fills `folder` with the case's four files."""
    folder.mkdir(parents=True, exist_ok=True)
    save_initial(case, folder)
    with double_precision():
        model = load_model(folder, case)
        batch = make_batch(case, model.config.get_text_config().vocab_size)
        initial = [p.detach().clone() for p in model.parameters()]
        logits, loss = gradients(model, batch)
        assert torch.isfinite(logits[batch["attention_mask"] == 1]).all() and torch.isfinite(loss)
        if not case.get("coupled"):
            check_rows_alone(model, batch, logits)
        if not case.get("not_the_slope"):
            check_derivative(model, batch)
        norm = float(global_norm(model))
        grads = [p.grad.clone() for p in model.parameters()]
        losses, norms = train(model, batch)
        assert losses[0] == float(loss) and abs(norms[0] - norm) <= 1e-12 * norm
        deltas = [p.detach() - start for p, start in zip(model.parameters(), initial, strict=True)]
    check_fp32(case, folder, batch, logits, losses, grads, deltas)
    golden = dict(batch)
    golden["logits"] = logits.masked_fill(batch["attention_mask"][..., None] == 0, 0.0).to(torch.float32)
    golden["loss"] = loss.reshape(1)
    golden["grad_norm"] = torch.tensor([norm], dtype=torch.float64)
    golden["loss3"] = torch.tensor(losses, dtype=torch.float64)
    golden["grad_norm3"] = torch.tensor(norms, dtype=torch.float64)
    for prefix, values in (("grad", grads), ("delta3", deltas)):
        golden.update({f"{prefix}.{name}": value for name, value in on_disk(case, model, values).items()})
    # A parameter that no gradient reaches would make its golden values worthless.
    dead = [name for name, value in golden.items() if name.startswith("grad.") and not value.any()]
    assert dead == case.get("dead", []), f"no gradient reaches {dead}"
    save_file({name: value.contiguous() for name, value in golden.items()}, folder / "golden.safetensors")
    write_note(case, folder, golden)
    for path in folder.iterdir():
        path.chmod(0o644)
        assert path.stat().st_size <= FILE_LIMIT_BYTES, f"{path} has {path.stat().st_size} bytes"


def write_note(case, folder, golden):
    """golden.json: for people and for the test's name; nothing in it is needed to read the tensors."""
    config = json.loads((folder / "config.json").read_text())
    note = {
        "case": case["name"],
        "model_type": config["model_type"],
        "shows": case["shows"],
        "rows_coupled": bool(case.get("coupled")),
        "made_with": {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
                      "safetensors": safetensors.__version__, "numpy": np.__version__},
        "attention": case.get("attention", "eager"),
        "seed": SEED,
        "weights_of": case.get("weights", case["name"]),
        "row_lengths": golden["attention_mask"].sum(dim=1).tolist(),
        "loss3": golden["loss3"].tolist(),
        "grad_norm3": golden["grad_norm3"].tolist(),
        "optimizer": {"type": "adamw", "learning_rate": OPTIMIZER["lr"], "beta1": OPTIMIZER["betas"][0],
                      "beta2": OPTIMIZER["betas"][1], "eps": OPTIMIZER["eps"],
                      "weight_decay": OPTIMIZER["weight_decay"], "weight_decay_one_dimensional": 0.0,
                      "max_grad_norm": MAX_GRAD_NORM},
        "parameters": {},
    }
    # A line a parameter: each has grad.NAME and delta3.NAME.
    shapes = {name[5:]: list(value.shape) for name, value in sorted(golden.items()) if name.startswith("grad.")}
    lines = [f"    {json.dumps(name)}: {json.dumps(shape)}" for name, shape in shapes.items()]
    head, _, _ = json.dumps(note, indent=2).partition('  "parameters": {')
    head = re.sub(r"\[\s+([^][]*?)\s+\]", lambda found: "[" + re.sub(r"\s*\n\s*", " ", found[1]) + "]", head)
    (folder / "golden.json").write_text(head + '  "parameters": {\n' + ",\n".join(lines) + "\n  }\n}\n")


def without_versions(path):
    document = json.loads(path.read_text())
    for key in ("transformers_version", "made_with", "loss3", "grad_norm3"):  # numbers: compared as tensors
        document.pop(key, None)
    return document


def check_case(case, committed):
    """Computes the case again, elsewhere, and names every difference that is not rounding."""
    problems = []
    with tempfile.TemporaryDirectory() as temporary:
        fresh = pathlib.Path(temporary) / case["name"]
        make_case(case, fresh)
        for name in ("config.json", "golden.json"):
            if without_versions(fresh / name) != without_versions(committed / name):
                problems.append(f"{name} differs")
        new, old = load_file(fresh / "model.safetensors"), load_file(committed / "model.safetensors")
        if new.keys() != old.keys() or any(not torch.equal(new[key], old[key]) for key in new):
            problems.append("model.safetensors differs")
        new, old = load_file(fresh / "golden.safetensors"), load_file(committed / "golden.safetensors")
        if new.keys() != old.keys():
            return problems + ["golden.safetensors has other tensors"]
        largest = max(float(old[key].abs().max()) for key in old if key.startswith("grad."))
        for key in new:
            if new[key].dtype == torch.int64:
                close = torch.equal(new[key], old[key])
            elif key.startswith("delta3."):
                # Adam blows the rounding noise of a vanishing gradient up to a whole update: compare the others.
                grad = old["grad." + key[len("delta3."):]]
                real = grad.abs() > 1e-9 * largest
                close = torch.allclose(new[key][real].double(), old[key][real].double(), rtol=1e-4, atol=1e-9)
            else:
                scale = float(old[key].abs().max())
                close = float((new[key].double() - old[key].double()).abs().max()) <= 1e-6 * scale + 1e-9 * largest
            if not close:
                problems.append(f"golden.safetensors: {key} differs")
    return problems


def roundtrip(case_name, folder):
    """`folder` is the checkpoint that a program under test wrote after training CASE at learning rate 0; or CASE rounded
    to bfloat16 first, when its config.json says bfloat16."""
    folder, committed = pathlib.Path(folder), HERE / case_name
    config, wanted = (json.loads((path / "config.json").read_text()) for path in (folder, committed))
    key = "torch_dtype" if "torch_dtype" in wanted else "dtype"
    narrow = config.get(key) == "bfloat16" and wanted[key] == "float32"
    load_model(folder, dtype=torch.float32)
    rename = next((case.get("rename") for case in casebook.CASES if case["name"] == case_name), None)
    old = load_file(committed / "model.safetensors")
    if rename:  # saved under the names that transformers itself writes
        old = {f"transformer.{name}": value for name, value in old.items()}
    new = {}
    for path in sorted(folder.glob("model*.safetensors")):
        new.update(load_file(path))
    problems = [f"missing tensor {name}" for name in old.keys() - new.keys()]
    problems += [f"unexpected tensor {name}" for name in new.keys() - old.keys()]
    for name in old.keys() & new.keys():
        value = old[name].to(torch.bfloat16) if narrow else old[name]
        bits = torch.int16 if narrow else torch.int32
        if value.dtype != new[name].dtype or value.shape != new[name].shape:
            problems.append(f"{name}: {new[name].dtype} {list(new[name].shape)}, "
                            f"not {value.dtype} {list(value.shape)}")
        elif not torch.equal(value.view(bits), new[name].view(bits)):
            problems.append(f"{name}: other bits")
    if narrow:
        wanted[key] = "bfloat16"
    if config != wanted:
        problems.append("config.json differs")
    return sorted(problems)


def roundtrip_all(folder):
    tried = 0
    problems = []
    for path in sorted(pathlib.Path(folder).iterdir()):
        name, _, dtype = path.name.rpartition("-")
        if dtype not in ("f32", "bf16"):
            continue
        tried += 1
        try:
            problems += [f"{path.name}: {problem}" for problem in roundtrip(name, path)]
        except Exception as error:  # one that does not load must not hide the others
            problems.append(f"{path.name}: {type(error).__name__}: {error}")
    print(f"{tried} checkpoints")
    return problems


def inert_settings(case_name):
    """The numbers and switches of a case's config.json that its logits do not show: what a wrong reading of them would
    pass. A setting whose change gives other shapes is felt by loading."""
    config = json.loads((HERE / case_name / "config.json").read_text())
    golden = load_file(HERE / case_name / "golden.safetensors")
    case = next(case for case in casebook.CASES if case["name"] == case_name)
    real = golden["attention_mask"] == 1
    inert = []
    for path, value in leaves(config):
        if not isinstance(value, (bool, int, float)) or str(path[0]).endswith("_token_id"):
            continue
        changed = copy.deepcopy(config)
        place = changed
        for key in path[:-1]:
            place = place[key]
        if isinstance(value, bool):
            place[path[-1]] = not value
        else:
            place[path[-1]] = value + 1 if isinstance(value, int) else 1.5 * value + 0.1
        with tempfile.TemporaryDirectory() as temporary:
            temporary = pathlib.Path(temporary)
            (temporary / "config.json").write_text(json.dumps(changed))
            (temporary / "model.safetensors").symlink_to(HERE / case_name / "model.safetensors")
            try:
                with double_precision(), torch.no_grad():
                    logits = forward(load_model(temporary, case), golden)[0]
                if (logits[real] - golden["logits"][real]).abs().max() < 1e-4:
                    inert.append("/".join(map(str, path)))
            except Exception:  # refused: felt
                continue
    return inert


def leaves(value, path=()):
    if isinstance(value, (dict, list)):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(below, (*path, key))
    else:
        yield path, value


def select(patterns):
    names = [case["name"] for case in casebook.CASES]
    assert len(names) == len(set(names)), "two cases have one name"
    if not patterns:
        return casebook.CASES
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            sys.exit(f"no case is called {pattern}; --list names them")
    return [case for case in casebook.CASES if any(fnmatch.fnmatch(case["name"], pattern) for pattern in patterns)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--inert", action="store_true")
    parser.add_argument("--roundtrip", nargs=2, metavar=("CASE", "DIR"))
    parser.add_argument("--roundtrip-all", metavar="DIR")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if options.roundtrip or options.roundtrip_all:
        problems = roundtrip(*options.roundtrip) if options.roundtrip else roundtrip_all(options.roundtrip_all)
        print("\n".join(problems) or "loads in transformers and equals the case bit for bit")
        return 1 if problems else 0
    failed = 0
    chosen = select(options.case)
    for case in chosen:
        if options.list:
            print(f"{case['name']:36} {case['shows']}")
            continue
        if options.inert:
            print(f"{case['name']}:", *inert_settings(case["name"]))
            continue
        folder = HERE / case["name"]
        try:
            problems = check_case(case, folder) if options.check else make_case(case, folder)
        except Exception as error:  # one broken case must not hide the others
            problems = [f"{type(error).__name__}: {error}"]
        failed += bool(problems)
        print(f"{'FAIL' if problems else 'ok  '} {case['name']}", *(problems or ()), sep="\n    " if problems else " ")
    if not (options.list or options.inert):
        print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
