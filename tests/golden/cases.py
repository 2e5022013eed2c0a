"""The table of golden models: one entry a case, families with variants as one base and a line a variant.

A case is a dictionary:
    name, shows      the folder, and what would go unseen without it
    model_type       the family as transformers names it
    config           keys of config.json over the family's base
    lengths          tokens of each row; default (13, 9, 11)
    weights          the case whose random stream is used (default its own name)
    rewrite          function from config.json as save_pretrained writes it to the one kept (older forms)
    attention        transformers' attention implementation; default "eager"
    coupled          rows of the batch influence each other by design, so a row alone gives other logits
    prompts          False: no label is masked
"""

import transformers

# Small, and nothing cancels out: head size is not hidden_size / heads, fewer key-value heads than heads.
SMALL = {
    "vocab_size": 72, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None,
    "tie_word_embeddings": False,
}
# For families without head_dim: the head size is hidden_size / heads.
NO_HEAD_DIM = {"hidden_size": 32, "head_dim": None}

CASES = []


def add(name, model_type, shows, config=None, **more):
    CASES.append({"name": name, "model_type": model_type, "shows": shows, "config": dict(config or {}), **more})


def make_config(case):
    """A key given as None is left to the family where the family has no such key."""
    keys = {**SMALL, **case["config"]} if not case.get("own_keys") else dict(case["config"])
    keys = {key: value for key, value in keys.items() if value is not None or key.endswith("_token_id")}
    return transformers.AutoConfig.for_model(case["model_type"], **keys)


def old_form(**more):
    """config.json as transformers 4 wrote it: rope keys at the top level, torch_dtype."""
    def rewrite(config):
        config = dict(config)
        rope = dict(config.pop("rope_parameters"))
        config["rope_theta"] = rope.pop("rope_theta")
        if rope.get("rope_type", "default") != "default":
            config["rope_scaling"] = rope
        else:
            config["rope_scaling"] = None
        config["torch_dtype"] = config.pop("dtype")
        config["transformers_version"] = "4.45.0"
        config.update(more)
        return dict(sorted(config.items()))
    return rewrite


# llama
add("llama_gqa_untied", "llama", "grouped-query heads, an output head of its own", {**NO_HEAD_DIM})
add("llama_gqa_tied", "llama", "the output head is the embedding table",
    {**NO_HEAD_DIM, "tie_word_embeddings": True})
add("llama_odd_length", "llama", "one row of an odd length, every token a target", {**NO_HEAD_DIM},
    lengths=(17,), prompts=False)
add("llama_padding", "llama", "rows of very different lengths in one batch, the shortest with one target",
    {**NO_HEAD_DIM}, lengths=(19, 5, 2, 11))
add("llama_head_dim", "llama", "head_dim in config.json is not hidden_size / heads",
    {"rms_norm_eps": 1e-5, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}})
add("llama_bias", "llama", "biases in attention and MLP", {"attention_bias": True, "mlp_bias": True})
add("llama_old_config", "llama", "llama_gqa_untied with config.json as transformers 4 wrote it", {**NO_HEAD_DIM},
    weights="llama_gqa_untied", rewrite=old_form())
