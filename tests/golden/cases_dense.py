"""Golden models of the dense families. Windows are shorter than the rows, caps and multipliers are such that they are
felt, and every norm weight and bias is random."""

from casebook import ABSENT, EPS, PLAIN, SMALL, TIED, TOKENS, UNTIED, add, layer_norm, old_form, rope

WINDOW = 5
FULL, SLIDING = "full_attention", "sliding_attention"
BIASES = {"attention_bias": True, "mlp_bias": True}
NO_KV = {"num_key_value_heads": ABSENT}
PARTIAL = {"rope_type": "default", "rope_theta": 10000.0}

# mistral, ministral, ministral3
add("mistral", "mistral", "no window, head size of its own", SMALL, {"sliding_window": None})
add("mistral_window", "mistral", "a sliding window on every layer", SMALL, {"sliding_window": WINDOW})
add("mistral_window_old", "mistral", "mistral_window with an older config.json", SMALL, {"sliding_window": WINDOW},
    weights="mistral_window", rewrite=old_form())
add("ministral", "ministral", "sliding and full layers mixed", SMALL,
    {"sliding_window": WINDOW, "layer_types": [SLIDING, FULL]})
add("ministral3", "ministral3", "yarn, and queries that grow with the logarithm of the position", SMALL,
    rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=4, max_position_embeddings=64, beta_fast=0.5,
         beta_slow=0.05, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3))

# qwen2, qwen3
QWEN_OLD = old_form(drop=("layer_types",))
add("qwen2", "qwen2", "biases on q, k and v only", PLAIN)
add("qwen2_tied", "qwen2", "tied head", PLAIN, TIED)
add("qwen2_window", "qwen2", "layers from max_window_layers on slide", PLAIN,
    {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1})
add("qwen2_window_old", "qwen2", "qwen2_window without layer_types, as version 4 wrote it", PLAIN,
    {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    weights="qwen2_window", rewrite=QWEN_OLD)
add("qwen2_window_unused", "qwen2", "qwen2 as on the hub: a window is named but not used", PLAIN, weights="qwen2",
    rewrite=old_form(drop=("layer_types",), use_sliding_window=False, sliding_window=WINDOW, max_window_layers=1))
add("qwen3", "qwen3", "norms on q and k, a head at a time", SMALL)
add("qwen3_tied_bias", "qwen3", "tied head, attention biases", SMALL, {**TIED, "attention_bias": True})
add("qwen3_window", "qwen3", "layers from max_window_layers on slide", SMALL,
    {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1})
add("qwen3_old", "qwen3", "qwen3 with yarn and an older config.json, key type", SMALL,
    {**rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=16)},
    rewrite=old_form(drop=("layer_types",), type_key="type"))

# gemma, gemma2, gemma3, vaultgemma
GEMMA = {**SMALL, **TIED}
CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
add("gemma", "gemma", "norms by 1 + weight, scaled embeddings, tanh GELU", GEMMA)
add("gemma_bias", "gemma", "attention biases", GEMMA, {"attention_bias": True})
add("gemma2", "gemma2", "soft caps that bite, post norms, even layers slide, query_pre_attn_scalar", GEMMA,
    {**CAPS, "query_pre_attn_scalar": 13, "sliding_window": WINDOW})
add("gemma2_no_caps", "gemma2", "soft caps switched off", GEMMA,
    {"attn_logit_softcapping": None, "final_logit_softcapping": None, "query_pre_attn_scalar": 5,
     "sliding_window": WINDOW})
add("gemma2_old", "gemma2", "gemma2 with an older config.json without layer_types", GEMMA,
    {**CAPS, "query_pre_attn_scalar": 13, "sliding_window": WINDOW}, weights="gemma2",
    rewrite=old_form(drop=("layer_types",), hidden_act="gelu_pytorch_tanh"))
GEMMA3 = {**GEMMA, "query_pre_attn_scalar": 13, "sliding_window": WINDOW}
GEMMA3_ROPE = {"rope_parameters": {FULL: {"rope_type": "linear", "factor": 4.0, "rope_theta": 1000.0},
                                   SLIDING: {"rope_type": "default", "rope_theta": 50.0}}}


def gemma3_old(config):
    config = dict(config)
    nested = config.pop("rope_parameters")
    config = {"rope_parameters": {"rope_type": "default", "rope_theta": nested[FULL]["rope_theta"]}, **config}
    return old_form(drop=("layer_types", "_sliding_window_pattern"), sliding_window_pattern=2,
                    rope_local_base_freq=nested[SLIDING]["rope_theta"],
                    rope_scaling={"factor": nested[FULL]["factor"], "rope_type": "linear"})(config)


add("gemma3_text", "gemma3_text", "two ropes by layer type, one scaled; q/k norms by 1 + weight", GEMMA3,
    {**GEMMA3_ROPE, "layer_types": [SLIDING, FULL]})
add("gemma3_text_old", "gemma3_text", "gemma3_text with sliding_window_pattern and rope_local_base_freq", GEMMA3,
    {**GEMMA3_ROPE, "layer_types": [SLIDING, FULL]}, weights="gemma3_text", rewrite=gemma3_old)
add("gemma3_text_pattern", "gemma3_text", "default ropes, a pattern of three layers, final soft cap", GEMMA3,
    {"num_hidden_layers": 3, "layer_types": [SLIDING, SLIDING, FULL], "hidden_size": 16,
     "final_logit_softcapping": 3.0})
add("vaultgemma", "vaultgemma", "gemma2 without post norms", GEMMA,
    {**CAPS, "query_pre_attn_scalar": 13, "sliding_window": WINDOW})

# gemma4_text
GEMMA4 = {**GEMMA, "hidden_size": 16, "intermediate_size": 24, "sliding_window": WINDOW,
          "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 48}
add("gemma4_text", "gemma4_text", "values normed without weight, scale 1, proportional rope, wider global heads",
    GEMMA4, {"layer_types": [SLIDING, FULL], "global_head_dim": 16, "hidden_size": 24})
add("gemma4_text_shared", "gemma4_text", "later layers reuse keys and values, their MLP twice as wide", GEMMA4,
    {"num_hidden_layers": 4, "layer_types": [SLIDING, FULL, SLIDING, FULL], "num_kv_shared_layers": 2,
     "use_double_wide_mlp": True, "global_head_dim": 16, "hidden_size_per_layer_input": 4})
add("gemma4_text_per_layer", "gemma4_text", "per-layer inputs and a final soft cap", GEMMA4,
    {"num_hidden_layers": 3, "layer_types": [SLIDING, SLIDING, FULL], "global_head_dim": 16,
     "hidden_size_per_layer_input": 6, "final_logit_softcapping": 3.0})
add("gemma4_text_k_eq_v", "gemma4_text", "global layers take their values from k_proj, own key-value heads", GEMMA4,
    {"layer_types": [SLIDING, FULL], "global_head_dim": 16, "attention_k_eq_v": True,
     "num_global_key_value_heads": 1, "hidden_size": 24})
add("gemma4_text_hub", "gemma4_text", "gemma4_text_k_eq_v with global_head_dim and num_global_key_value_heads", GEMMA4,
    {"layer_types": [SLIDING, FULL], "global_head_dim": 16, "attention_k_eq_v": True,
     "num_global_key_value_heads": 1, "hidden_size": 24}, weights="gemma4_text_k_eq_v",
    rewrite=lambda config: {**{key: value for key, value in config.items() if key != "per_layer_config"},
                            "global_head_dim": 16, "num_global_key_value_heads": 1})

# phi, phi3
PHI = {**PLAIN, **layer_norm()}
add("phi", "phi", "parallel attention and MLP, partial rotary, biases everywhere, a head with a bias", PHI)
add("phi_qk_layernorm", "phi", "LayerNorm on q and k", PHI,
    {"qk_layernorm": True, "rope_parameters": {**PARTIAL, "partial_rotary_factor": 0.75}})
add("phi_old", "phi", "phi with an older config.json: partial_rotary_factor at the top level", PHI, weights="phi",
    rewrite=old_form())
SHORT, LONG = [1.0, 1.1, 1.3, 1.6], [1.0, 2.0, 3.5, 5.0]
LONGROPE = {"max_position_embeddings": 64, "original_max_position_embeddings": 16}
add("phi3", "phi3", "fused qkv_proj and gate_up_proj", PLAIN)
add("phi3_window", "phi3", "a sliding window", PLAIN, {"sliding_window": WINDOW})
add("phi3_partial", "phi3", "partial rotary, tied head", PLAIN,
    {**TIED, "rope_parameters": {**PARTIAL, "partial_rotary_factor": 0.75}, "hidden_size": 32})
add("phi3_longrope_short", "phi3", "longrope, rows within the original length: short factors", PLAIN,
    {**LONGROPE, **rope("longrope", short_factor=SHORT, long_factor=LONG)})
add("phi3_longrope_long", "phi3", "longrope, rows beyond the original length: long factors for all positions", PLAIN,
    {**LONGROPE, "original_max_position_embeddings": 8, **rope("longrope", short_factor=SHORT, long_factor=LONG)})
add("phi3_longrope_mixed", "phi3", "longrope: one row beyond the original length gives all rows the long factors",
    PLAIN, {**LONGROPE, "original_max_position_embeddings": 10,
            **rope("longrope", short_factor=SHORT, long_factor=LONG)},
    coupled=True)
add("phi3_longrope_old", "phi3", "phi3_longrope_long with rope_scaling, key type", PLAIN,
    {**LONGROPE, "original_max_position_embeddings": 8, **rope("longrope", short_factor=SHORT, long_factor=LONG)},
    weights="phi3_longrope_long",
    rewrite=old_form(rope_scaling={"type": "longrope", "short_factor": SHORT, "long_factor": LONG}))

# glm, glm4
add("glm", "glm", "neighbouring pairs rotate, half of the head; fused gate_up_proj; q, k, v biases", SMALL)
add("glm_no_bias", "glm", "without attention biases, another partial factor", SMALL,
    {"attention_bias": False, "rope_parameters": {**PARTIAL, "partial_rotary_factor": 0.75}})
add("glm4", "glm4", "glm with norms before and after each branch", SMALL)
add("glm4_old", "glm4", "glm4 with an older config.json", SMALL, weights="glm4", rewrite=old_form())

# olmo, olmo2, olmo3
add("olmo", "olmo", "LayerNorm without weight or bias", PLAIN,
    {"rms_norm_eps": ABSENT})
add("olmo_clip_qkv", "olmo", "q, k and v clipped", PLAIN, {"rms_norm_eps": ABSENT, "clip_qkv": 0.7})
add("olmo2", "olmo2", "norms after the branches, q/k norms over the whole projection", PLAIN)
add("olmo2_bias", "olmo2", "attention biases", PLAIN, {"attention_bias": True})
OLMO3 = {**PLAIN, "sliding_window": WINDOW, "layer_types": [SLIDING, FULL]}
OLMO3_YARN = {"rope_parameters": {
    FULL: {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 64,
           "beta_fast": 4.0, "beta_slow": 0.5, "attention_factor": 1.2},
    SLIDING: {"rope_type": "default", "rope_theta": 500000.0}}}


def olmo3_old(config):
    config = dict(config)
    yarn = dict(config.pop("rope_parameters")[FULL])
    theta = yarn.pop("rope_theta")
    return old_form(rope_theta=theta, rope_scaling=yarn)(config)


add("olmo3", "olmo3", "olmo2 with a window and yarn on full layers only", OLMO3, OLMO3_YARN)
add("olmo3_old", "olmo3", "olmo3 with rope_scaling, which holds for full layers only", OLMO3, OLMO3_YARN,
    weights="olmo3", rewrite=olmo3_old)

# smollm3
add("smollm3", "smollm3", "layers without rope (no_rope_layers 1 means rope), tied head", PLAIN,
    {**TIED, "no_rope_layers": [1, 0], **rope(theta=2e6)})
add("smollm3_window", "smollm3", "the layers without rope slide; biases", PLAIN,
    {**UNTIED, "num_hidden_layers": 2, "no_rope_layers": [0, 1], "use_sliding_window": True, "sliding_window": WINDOW,
     **BIASES})

# granite and its kin
GRANITE = {"embedding_multiplier": 3.0, "attention_multiplier": 0.21, "residual_multiplier": 0.6, "logits_scaling": 1.7}
add("granite", "granite", "the four multipliers", PLAIN, GRANITE)
add("granite_bias_tied", "granite", "the multipliers with biases and a tied head", PLAIN, {**GRANITE, **BIASES, **TIED})
add("granite_swa", "granite_swa", "sliding layers and a rope base for each layer", PLAIN,
    {**GRANITE, "sliding_window": WINDOW, "layer_types": [FULL, SLIDING], "layer_rope_theta": [10000.0, 50.0]})
add("hyperclovax", "hyperclovax", "granite's multipliers with post norms", SMALL, GRANITE)

# cohere, cohere2
COHERE = {**layer_norm(), **TIED, "logit_scale": 0.3}
add("cohere", "cohere", "parallel blocks on one LayerNorm without bias, neighbouring pairs rotate, logit_scale", PLAIN,
    COHERE)
add("cohere_qk_norm", "cohere", "q/k norms with a weight for each head; biases", PLAIN,
    {**COHERE, "use_qk_norm": True, "attention_bias": True})
add("cohere2", "cohere2", "sliding layers with rope, full layers without", SMALL,
    {**COHERE, "sliding_window": WINDOW, "layer_types": [SLIDING, FULL]})
add("cohere2_old", "cohere2", "cohere2 with sliding_window_pattern", SMALL,
    {**COHERE, "sliding_window": WINDOW, "layer_types": [SLIDING, FULL]}, weights="cohere2",
    rewrite=old_form(drop=("layer_types",), sliding_window_pattern=2))

# starcoder2, stablelm
add("starcoder2", "starcoder2", "LayerNorm, an MLP without gate, biases, a window, tied head", PLAIN,
    {**layer_norm("norm_epsilon"), **TIED, "sliding_window": WINDOW})
add("starcoder2_no_bias", "starcoder2", "without biases, untied, no window", PLAIN,
    {**layer_norm("norm_epsilon"), "use_bias": False})
STABLELM = {**PLAIN, **layer_norm(), "rope_parameters": {**PARTIAL, "partial_rotary_factor": 0.5}}
add("stablelm", "stablelm", "LayerNorm with a gated MLP, partial rotary", STABLELM)
add("stablelm_qkv_bias", "stablelm", "q, k and v biases, the default quarter rotates", PLAIN,
    {**layer_norm(), "use_qkv_bias": True, "num_attention_heads": 2, "num_key_value_heads": 1})
add("stablelm_parallel_qk_norm", "stablelm", "parallel residual, a LayerNorm for each head of q and k", STABLELM,
    {"use_parallel_residual": True, "qk_layernorm": True})

# the gpt line
GPT2 = {**TOKENS, "n_positions": 32, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_inner": 40,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "layer_norm_epsilon": EPS}
add("gpt2", "gpt2", "learned positions, fused c_attn, weights stored [in, out]", GPT2)
add("gpt2_inverse_layer", "gpt2", "scores divided by layer + 1, MLP four times as wide, dropout named but not applied",
    GPT2, {"scale_attn_by_inverse_layer_idx": True, "n_inner": None, "resid_pdrop": 0.1, "attn_pdrop": 0.1,
           "embd_pdrop": 0.1})
add("gpt2_unscaled", "gpt2", "scores without the factor, an untied head, another activation", GPT2,
    {"scale_attn_weights": False, **UNTIED, "activation_function": "relu"})
add("gpt2_hub", "gpt2", "gpt2 with names as on the hub, without transformer.", GPT2, weights="gpt2",
    rename=lambda name: name.removeprefix("transformer."))
NEOX = {**PLAIN, **layer_norm(), **NO_KV, "hidden_size": 24, "num_attention_heads": 3, "classifier_dropout": 0.0}
add("gpt_neox", "gpt_neox", "parallel residual with two norms, qkv by head, partial rotary", NEOX,
    {"rope_parameters": {**PARTIAL, "partial_rotary_factor": 0.5}})
add("gpt_neox_sequential", "gpt_neox", "residuals one after the other, the default quarter rotates", NEOX,
    {"use_parallel_residual": False, "hidden_size": 32, "num_attention_heads": 2})
add("gpt_neox_no_bias", "gpt_neox", "no attention biases, tanh GELU, tied head", NEOX,
    {**TIED, "attention_bias": False, "hidden_act": "gelu_new",
     "rope_parameters": {**PARTIAL, "partial_rotary_factor": 1.0}})


def neox_old(config):
    config = dict(config)
    scaling = config.pop("rope_parameters")
    return old_form(rotary_pct=scaling["partial_rotary_factor"], rotary_emb_base=scaling["rope_theta"])(config)


add("gpt_neox_old", "gpt_neox", "gpt_neox with rotary_pct and rotary_emb_base", NEOX,
    {"rope_parameters": {**PARTIAL, "partial_rotary_factor": 0.5}}, weights="gpt_neox", rewrite=neox_old)
GPTJ = {**TOKENS, **UNTIED, "n_positions": 32, "n_embd": 24, "n_layer": 2, "n_head": 3, "rotary_dim": 4, "n_inner": 40,
        "layer_norm_epsilon": EPS}
add("gptj", "gptj", "one norm, parallel blocks, neighbouring pairs of rotary_dim, a head with a bias", GPTJ)
add("codegen", "codegen", "gptj with a fused projection in four shuffled parts", GPTJ,
    {"n_embd": 32, "n_head": 4, "n_inner": 32, "pad_token_id": ABSENT})
add("gpt_neo", "gpt_neo", "global and local layers, scores not scaled, learned positions",
    {**TOKENS, "hidden_size": 24, "num_layers": 2, "num_heads": 3, "intermediate_size": 40, "window_size": WINDOW,
     "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 32,
     "layer_norm_epsilon": EPS})
add("gpt_bigcode", "gpt_bigcode", "one key-value head, weights stored [out, in]", GPT2, {"multi_query": True})
add("gpt_bigcode_multi_head", "gpt_bigcode", "as many key-value heads as heads", GPT2, {"multi_query": False})
add("gpt_neox_japanese", "gpt_neox_japanese", "a bias only on the last dense layer",
    {**TOKENS, **TIED, "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2,
     "intermediate_multiple_size": 2, "max_position_embeddings": 32, "attention_dropout": 0.0,
     "layer_norm_eps": EPS})
add("openai-gpt", "openai-gpt", "norms after the residuals, no final norm",
    {key: value for key, value in GPT2.items() if key != "n_inner"} | {"n_embd": 16, "n_head": 2})
add("ctrl", "ctrl", "sinusoidal positions, ReLU MLP, norms before",
    {**TOKENS, "n_positions": 32, "n_embd": 24, "n_layer": 2, "n_head": 3, "dff": 40, "resid_pdrop": 0.0,
     "embd_pdrop": 0.0, "layer_norm_epsilon": EPS})

# exaone4 and other recent families
EXAONE4 = {**PLAIN, "sliding_window": WINDOW, "sliding_window_pattern": 2, "layer_types": [SLIDING, FULL]}
add("exaone4", "exaone4", "norms after the branches, q/k norms, full layers without rope", EXAONE4)
add("exaone4_no_window", "exaone4", "without a window every layer has rope", PLAIN,
    {"sliding_window": None, "layer_types": [FULL, FULL]})
add("exaone4_old", "exaone4", "exaone4 with the pattern as a word beside layer_types", EXAONE4, weights="exaone4",
    rewrite=old_form(sliding_window_pattern="LG"))
add("seed_oss", "seed_oss", "biases on q, k and v, none on the output", SMALL, {"attention_dropout": 0.0})
add("seed_oss_out_bias", "seed_oss", "biases on the output and in the MLP only", SMALL,
    {"attention_bias": False, "attention_out_bias": True, "mlp_bias": True, "residual_dropout": 0.0})
add("arcee", "arcee", "squared ReLU without a gate", SMALL)
add("arcee_bias_yarn", "arcee", "biases, yarn", SMALL,
    {**BIASES, **rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=16)})
APERTUS = {**PLAIN, **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                           original_max_position_embeddings=64)}
add("apertus", "apertus", "xIELU with its four tensors, q/k norms, llama3 rope", APERTUS,
    given={"*.act_fn.eps": -1e-6})
add("apertus_bias", "apertus", "attention biases, tied head, a cut-off of xIELU that is felt", APERTUS,
    {"attention_bias": True, **TIED}, given={"*.act_fn.eps": -0.3})
add("nemotron", "nemotron", "LayerNorm by 1 + weight with bias, squared ReLU, partial rotary", SMALL,
    layer_norm("norm_eps"))
add("nemotron_bias", "nemotron", "biases everywhere, another partial factor", SMALL,
    {**layer_norm("norm_eps"), **BIASES, "rope_parameters": {**PARTIAL, "partial_rotary_factor": 0.75}})
add("helium", "helium", "neighbouring pairs rotate", PLAIN, {"head_dim": 8})
add("ernie4_5", "ernie4_5", "neighbouring pairs rotate, tied head", SMALL, TIED)
add("ernie4_5_bias", "ernie4_5", "biases everywhere, untied", SMALL, {"use_bias": True})
add("hunyuan_v1_dense", "hunyuan_v1_dense", "q/k norms after rope", SMALL)
add("hunyuan_v1_dense_alpha", "hunyuan_v1_dense", "rope dynamic with alpha, which is static; biases, tied", SMALL,
    {**TIED, "attention_bias": True,
     **rope("dynamic", alpha=50.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0)})
add("jais2", "jais2", "LayerNorm, squared ReLU without a gate, biases", SMALL, layer_norm())
add("nanochat", "nanochat", "norms without weights, q/k norms after rope, soft-capped logits", PLAIN,
    {"final_logit_softcapping": 3.0})
add("internlm3", "internlm3", "llama with biases apart", SMALL, BIASES)
add("iquestcoder", "iquestcoder", "a llama by another name", SMALL)
add("exaone", "exaone", "exaone 3: llama's mathematics", SMALL)
add("bitnet", "bitnet", "norms inside attention and MLP, squared ReLU gate", PLAIN)
add("persimmon", "persimmon", "qkv by head with biases, q/k LayerNorm, squared ReLU, partial rotary", NEOX,
    {"classifier_dropout": ABSENT})
MLA = {**PLAIN, "num_key_value_heads": 4, "hidden_size": 24, "kv_lora_rank": 10, "q_lora_rank": 12,
       "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 7}
add("minicpm3", "minicpm3", "latent attention, scaled embeddings, residuals and logits", MLA,
    {**TIED, "scale_emb": 3, "scale_depth": 1.4, "dim_model_base": 12})
add("youtu", "youtu", "latent attention, dense MLPs, neighbouring pairs rotate", MLA, TIED)
add("cwm", "cwm", "llama with sliding layers and llama3 rope", SMALL,
    {"sliding_window": WINDOW, "layer_types": [FULL, SLIDING],
     **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)})

# falcon
FALCON = {**TOKENS, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "ffn_hidden_size": 40,
          "max_position_embeddings": 64, "layer_norm_epsilon": EPS}
add("falcon_7b", "falcon", "all q heads, one k, one v; parallel blocks on one norm", FALCON)
add("falcon_40b", "falcon", "q, k, v by group, two norms, as in the 40B", FALCON,
    {"hidden_size": 32, "num_attention_heads": 4, "new_decoder_architecture": True, "num_kv_heads": 2})
add("falcon_11b", "falcon", "the new architecture with one norm for both branches, untied", FALCON,
    {"hidden_size": 32, "num_attention_heads": 4, "new_decoder_architecture": True, "num_kv_heads": 2,
     "num_ln_in_parallel_attn": 1, **UNTIED})
add("falcon_rw", "falcon", "alibi with bfloat16 slopes for three heads, biases, sequential blocks, q, k, v by head",
    FALCON, {"alibi": True, "multi_query": False, "parallel_attn": False, "bias": True}, attention="sdpa")
add("falcon_rw_rounded", "falcon", "alibi for twelve heads: slopes and biases that bfloat16 rounds",
    FALCON, {"hidden_size": 48, "num_attention_heads": 12, "alibi": True, "multi_query": False, "parallel_attn": False,
             "bias": True}, attention="sdpa")

# opt, bloom, mpt, xglm, biogpt
OPT = {**TOKENS, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "ffn_dim": 40,
       "max_position_embeddings": 32, "word_embed_proj_dim": 24, "dropout": 0.0}
add("opt", "opt", "positions from row 2 on, ReLU, norms before", OPT)
add("opt_post_norm", "opt", "as in the 350m: norms after, project_in and project_out, no final norm", OPT,
    {"do_layer_norm_before": False, "word_embed_proj_dim": 12})
add("opt_no_bias", "opt", "no biases, norms without weights, GELU, untied", OPT,
    {"enable_bias": False, "layer_norm_elementwise_affine": False, "activation_function": "gelu", **UNTIED})
BLOOM = {**TOKENS, "hidden_size": 24, "n_layer": 2, "n_head": 3, "layer_norm_epsilon": EPS}
add("bloom", "bloom", "alibi for three heads, a norm on the embeddings, qkv by head", BLOOM)
add("bloom_post_residual", "bloom", "residuals taken after the norms, four heads, untied", BLOOM,
    {"apply_residual_connection_post_layernorm": True, "n_head": 4, **UNTIED})
MPT = {**TOKENS, "d_model": 24, "n_heads": 3, "n_layers": 2, "max_seq_len": 32, "expansion_ratio": 4,
       "layer_norm_epsilon": EPS}
add("mpt", "mpt", "alibi for three heads, all q, all k, all v; exact GELU, norms without bias", MPT)
add("mpt_scale_clip", "mpt", "softmax_scale, clip_qkv, four heads", MPT,
    {"n_heads": 4, "attn_config": {"softmax_scale": 0.7, "clip_qkv": 0.8}})
add("xglm", "xglm", "sinusoidal positions from row 2 on, scaled embeddings",
    {**TOKENS, "d_model": 24, "ffn_dim": 40, "num_layers": 2, "attention_heads": 3, "max_position_embeddings": 32,
     "dropout": 0.0, "attention_dropout": 0.0})
add("biogpt", "biogpt", "learned positions from row 2 on, scaled embeddings, GELU; layer_norm_eps has no effect",
    {**TOKENS, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
     "max_position_embeddings": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
     "layer_norm_eps": EPS})
