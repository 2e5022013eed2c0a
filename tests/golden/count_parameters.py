#!/usr/bin/env python3
"""Count the parameters of each preset (etc/presets) as transformers builds it, on the meta device: no memory is taken.

    count_parameters.py            write parameters.json beside this script
    count_parameters.py --check    compare with what is committed; nothing is written

`make check` compares our own counts with the file (tests/unit/plan/test_presets.c). Tied matrices count once, buffers not
at all. Families whose code is not in transformers (internlm2, baichuan, chatglm) are left out.
"""

import json
import os
import pathlib
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
PRESETS = HERE.parent.parent / "etc" / "presets"
RESULT = HERE / "parameters.json"
ABSENT = {"internlm2", "baichuan", "chatglm"}


def count(config):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        parsed = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(parsed)
    model.tie_weights()
    return sum(parameter.numel() for parameter in {id(p): p for p in model.parameters()}.values())


def main():
    transformers.logging.set_verbosity_error()
    counts = {}
    for path in sorted(PRESETS.glob("*.json")):
        config = json.loads(path.read_text())["config"]
        if config["model_type"] not in ABSENT:
            counts[path.stem] = count(config)
    found = {"made_with": {"transformers": transformers.__version__}, "parameters": counts}
    if "--check" in sys.argv[1:]:
        same = json.loads(RESULT.read_text())["parameters"] == counts
        print("equal" if same else "other counts")
        return 0 if same else 1
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    print(f"{len(counts)} presets")
    return 0


if __name__ == "__main__":
    sys.exit(main())
