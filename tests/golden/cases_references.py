"""Golden models of families whose code is not in transformers: references.py has them, written from what was published."""

from casebook import ABSENT, EPS, PLAIN, TOKENS, UNTIED, add

import references  # noqa: F401  (registers the classes)

BARE = {key: value for key, value in PLAIN.items() if key not in ("num_key_value_heads", "max_position_embeddings")}
add("internlm2", "internlm2", "q, k, v of each group one after the other in one matrix", PLAIN, {"bias": False})
add("internlm2_bias", "internlm2", "biases in attention, another rope base", PLAIN, {"bias": True, "rope_theta": 500.0})
add("baichuan_7b", "baichuan", "all q, all k, all v in one matrix, rotary positions", BARE,
    {"max_position_embeddings": 64})
add("baichuan_13b", "baichuan", "ALiBi for three heads", BARE,
    {"hidden_size": 24, "num_attention_heads": 3, "model_max_length": 64})
add("baichuan2_7b", "baichuan", "rows of the output matrix normed to length 1", BARE,
    {"max_position_embeddings": 64, "model_max_length": 64, "z_loss_weight": 0})
add("baichuan2_13b", "baichuan", "ALiBi and the normed output matrix", BARE,
    {"model_max_length": 64, "z_loss_weight": 0})
CHATGLM = {**TOKENS, **UNTIED, "vocab_size": ABSENT, "padded_vocab_size": 48, "hidden_size": 24, "ffn_hidden_size": 36,
           "kv_channels": 8, "num_layers": 2, "num_attention_heads": 4, "multi_query_group_num": 2, "seq_length": 64,
           "layernorm_epsilon": EPS}
add("chatglm", "chatglm", "q, then k, then v in one matrix, neighbouring pairs of half a head rotate", CHATGLM)
add("chatglm_ratio", "chatglm", "rope_ratio, no biases", CHATGLM, {"rope_ratio": 50.0, "add_qkv_bias": False})
