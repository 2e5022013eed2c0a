"""What the tables of golden models (cases_*.py) are written with: an entry a case, a line for each variant of a family.

A case is a dictionary:
    name, shows      the folder, and what would go unseen without it
    model_type       the family as transformers names it
    config           its configuration
    lengths          tokens of each row; default (13, 9, 11)
    tokens           draw ids below this only, so that ids repeat
    prompts          False: no label is masked
    coupled          rows of a batch influence each other by design: a row alone gives other logits
    weights          the case whose random numbers are used (default its own name)
    given            values of saved tensors that are not to be random, by pattern
    not_the_slope    by design the gradient is not the loss's slope (rows without input gradient)
    dead             parameters that no gradient reaches, by design
    matrix_gain, vector_std, embedding_std    scales of the random numbers
    attention        transformers' attention implementation; default "eager"
    rewrite          function from the config.json that save_pretrained writes to the one kept (older forms)
    rename           function from a tensor's name as save_pretrained writes it to the one kept (older forms)
"""

import transformers

TOKENS = {"vocab_size": 48, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
UNTIED = {"tie_word_embeddings": False}
TIED = {"tie_word_embeddings": True}
# Large enough to be felt: with 1e-6 a norm that takes another epsilon would go unseen.
EPS = 1e-2
# Small, and nothing cancels out: head size is not hidden_size / heads, fewer key-value heads than heads.
SMALL = {
    **TOKENS, **UNTIED, "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64,
    "rms_norm_eps": EPS,
}
# For families whose head size is always hidden_size / heads.
PLAIN = {key: value for key, value in SMALL.items() if key != "head_dim"} | {"hidden_size": 32, "intermediate_size": 28}

CASES = []
ABSENT = object()


def add(name, model_type, shows, base, config=None, **more):
    """`config` goes over `base`; a key of `base` that the family lacks is named in `config` as ABSENT."""
    keys = {key: value for key, value in {**base, **(config or {})}.items() if value is not ABSENT}
    CASES.append({"name": name, "model_type": model_type, "shows": shows, "config": keys, **more})


def make_config(case):
    return transformers.AutoConfig.for_model(case["model_type"], **case["config"])


def layer_norm(key="layer_norm_eps"):
    """For families with LayerNorm: their name for epsilon."""
    return {"rms_norm_eps": ABSENT, key: EPS}


def rope(rope_type="default", theta=10000.0, **more):
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": theta, **more}}


def old_form(drop=(), type_key="rope_type", **more):
    """config.json as transformers 4 wrote it: rope keys at the top level, torch_dtype. `drop` are keys that version 4
    did not have, `more` those that it had instead."""
    def rewrite(config):
        config = {key: value for key, value in config.items() if key not in drop}
        if "rope_parameters" in config:
            scaling = dict(config.pop("rope_parameters"))
            config["rope_theta"] = scaling.pop("rope_theta")
            if "partial_rotary_factor" in scaling:
                config["partial_rotary_factor"] = scaling.pop("partial_rotary_factor")
            kind = scaling.pop("rope_type")
            config["rope_scaling"] = None if kind == "default" else {type_key: kind, **scaling}
        config["torch_dtype"] = config.pop("dtype")
        config["transformers_version"] = "4.45.0"
        return dict(sorted({**config, **more}.items()))
    return rewrite
