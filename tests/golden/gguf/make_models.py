#!/usr/bin/env python3
"""Turns golden models into GGUF files with llama.cpp's own converter: F32, without a vocabulary.

    python3 make_models.py LLAMA_CPP_FOLDER [CASE...]

LLAMA_CPP_FOLDER holds convert_hf_to_gguf.py (the source package of llama-cpp-python 0.3.36 carries it, in
vendor/llama.cpp); torch and transformers are needed. CASE: folders of tests/golden, by default those below.
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile

ROOT = os.path.abspath(sys.argv[1])
sys.path[:0] = [ROOT, os.path.join(ROOT, "gguf-py")]

import gguf  # noqa: E402
import torch  # noqa: E402
from conversion import ModelBase, ModelType, get_model_architecture, get_model_class  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CASES = """arcee_bias_yarn bloom cohere cohere_qk_norm ernie4_5 exaone4 falcon_11b falcon_40b falcon_7b gemma gemma2 gemma3_text glm4
           gpt2 gpt_bigcode gpt_bigcode_multi_head gpt_neox gpt_neox_sequential
           granite_bias_tied hunyuan_v1_dense jais2 llama_bias llama_gqa_tied llama_head_dim llama_rope_linear llama_rope_llama3
           llama_rope_yarn nemotron nemotron_bias olmo olmo_clip_qkv olmo2_bias olmo3 phi phi3 phi3_longrope_short phi3_longrope_long
           phi3_partial phi3_window qwen2 qwen2_tied qwen3 qwen3_tied_bias seed_oss smollm3 stablelm_qkv_bias
           starcoder2""".split()


def convert(case, target):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(HERE.parent / case / "model.safetensors", folder)
        shutil.copy(HERE.parent / case / "config.json", folder)
        config = json.loads((folder / "config.json").read_text())
        vocabulary = {str(i): i for i in range(config["vocab_size"])}  # gemma3's converter counts it
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []}))
        parameters = ModelBase.load_hparams(folder, False)
        # keys that transformers writes no more, and the converter reads
        if config["model_type"] == "gpt2":
            parameters.setdefault("n_ctx", config["n_positions"])
        if config["model_type"] == "falcon" and not config["new_decoder_architecture"]:
            parameters["num_kv_heads"] = 1  # multi_query
        if config["model_type"] == "gpt_neox":
            parameters.setdefault("rotary_pct", config["rope_parameters"]["partial_rotary_factor"])
        kind = get_model_class(get_model_architecture(parameters, ModelType.TEXT))
        kind = type(kind.__name__, (kind,), {"set_vocab": lambda self: None, "model_arch": kind.model_arch})
        with torch.inference_mode():
            kind(folder, gguf.LlamaFileType.ALL_F32, target, eager=True, model_name=case, hparams=parameters).write()


for case in sys.argv[2:] or CASES:
    convert(case, HERE / f"{case}.gguf")
