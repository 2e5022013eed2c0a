"""Golden models of the llama family: heads, tying, lengths, biases, older files, and every kind of rope scaling."""

from casebook import PLAIN, SMALL, TIED, add, old_form, rope

add("llama_gqa_untied", "llama", "grouped-query heads, an output head of its own", PLAIN)
add("llama_gqa_tied", "llama", "the output head is the embedding table", PLAIN, TIED)
add("llama_odd_length", "llama", "one row of an odd length, every token a target", PLAIN,
    lengths=(17,), prompts=False)
add("llama_padding", "llama", "rows of very different lengths in one batch, the shortest with one target", PLAIN,
    lengths=(19, 5, 2, 11))
add("llama_head_dim", "llama", "head_dim in config.json is not hidden_size / heads", SMALL,
    {"rms_norm_eps": 1e-5, **rope(theta=500.0)})
add("llama_bias", "llama", "biases in attention and MLP", SMALL, {"attention_bias": True, "mlp_bias": True})
add("llama_old_config", "llama", "llama_gqa_untied with config.json as transformers 4 wrote it", PLAIN,
    weights="llama_gqa_untied", rewrite=old_form())
add("llama_one_kv_head", "llama", "one key-value head for all heads", SMALL, {"num_key_value_heads": 1})
add("llama_pad_token", "llama", "the row of pad_token_id gets no gradient from the input side, only from the tied head",
    SMALL, {**TIED, "pad_token_id": 5}, tokens=12, not_the_slope=True)

# Rope scaling. Head size 16, so that high, middle and low frequencies are there.
LLAMA_ROPE = {**SMALL, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 16}
LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
add("llama_rope_linear", "llama", "rope_type linear", LLAMA_ROPE, rope("linear", 1000.0, factor=2.5))
add("llama_rope_dynamic", "llama", "rope_type dynamic, rows longer than max_position_embeddings", LLAMA_ROPE,
    {"max_position_embeddings": 8, **rope("dynamic", factor=2.0)}, lengths=(13, 13, 13))
add("llama_rope_dynamic_short", "llama", "rope_type dynamic, rows within max_position_embeddings: no scaling",
    LLAMA_ROPE, {"max_position_embeddings": 13, **rope("dynamic", factor=2.0)})
add("llama_rope_dynamic_mixed", "llama", "rope_type dynamic: the longest row of the batch sets the base of all rows",
    LLAMA_ROPE, {"max_position_embeddings": 10, **rope("dynamic", factor=2.0)}, coupled=True)
add("llama_rope_llama3", "llama", "rope_type llama3, frequencies in all three bands", LLAMA_ROPE, LLAMA3)
add("llama_rope_llama3_old", "llama", "llama_rope_llama3 in the older form, key rope_type", LLAMA_ROPE, LLAMA3,
    weights="llama_rope_llama3", rewrite=old_form())
add("llama_rope_linear_old", "llama", "llama_rope_linear in the older form, key type", LLAMA_ROPE,
    rope("linear", 1000.0, factor=2.5), weights="llama_rope_linear", rewrite=old_form(type_key="type"))
YARN = {"max_position_embeddings": 256}
add("llama_rope_yarn", "llama", "rope_type yarn, betas by default", LLAMA_ROPE,
    {**YARN, **rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=64)})
add("llama_rope_yarn_mscale", "llama", "yarn with betas, two mscales and a ramp whose ends are not rounded", LLAMA_ROPE,
    {**YARN, **rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=64, beta_fast=8.0, beta_slow=1.5,
                    mscale=0.9, mscale_all_dim=0.4, truncate=False)})
add("llama_rope_yarn_factor", "llama", "yarn with its own attention factor; factor null is the ratio of the lengths",
    LLAMA_ROPE, {**YARN, **rope("yarn", 100.0, factor=None, original_max_position_embeddings=64, attention_factor=1.3)})
add("llama_rope_yarn_no_original", "llama", "yarn without original_max_position_embeddings: the longest position is it",
    LLAMA_ROPE, {"max_position_embeddings": 64, **rope("yarn", 100.0, factor=4.0)})
add("llama_rope_longrope", "llama", "longrope outside phi3, rows within the original length", LLAMA_ROPE,
    {"max_position_embeddings": 64,
     **rope("longrope", factor=4.0, original_max_position_embeddings=16,
            short_factor=[1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0],
            long_factor=[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 9.0])})
