"""References for families whose code is not in transformers, written from their published descriptions: InternLM2 (technical
report, arXiv 2403.17297: grouped-query attention with one matrix, its rows interleaved by group), Baichuan 1 and 2 (arXiv
2309.10305: W_pack, rotary positions in the 7B, ALiBi in the 13B, an output matrix whose rows are normed to length 1 in the
second generation) and ChatGLM2, ChatGLM3 and GLM-4 (arXiv 2406.12793: RMSNorm, grouped-query attention, SwiGLU, rotary positions on
neighbouring pairs of half of each head). Names of tensors and settings are those of the published checkpoints.

The classes are registered with transformers' Auto classes, so make_golden.py treats them as it does the others.
"""

import math
from types import SimpleNamespace

import torch
import transformers
from huggingface_hub.dataclasses import strict
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def angles(length, dims, theta):
    frequency = theta ** (-torch.arange(0, dims, 2, dtype=torch.get_default_dtype()) / dims)
    return torch.outer(torch.arange(length, dtype=torch.get_default_dtype()), frequency)


def turn_halves(x, theta):
    """x: [batch, length, heads, dim]; pairs (i, i + dim / 2)."""
    angle = angles(x.shape[1], x.shape[3], theta)[:, None, :]
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()), dim=-1)


def turn_neighbours(x, dims, theta):
    """Pairs (2i, 2i + 1) of the first `dims` dimensions."""
    angle = angles(x.shape[1], dims, theta)[:, None, :]
    turned, rest = x[..., :dims], x[..., dims:]
    even, odd = turned[..., 0::2], turned[..., 1::2]
    pairs = torch.stack((even * angle.cos() - odd * angle.sin(), odd * angle.cos() + even * angle.sin()), dim=-1)
    return torch.cat((pairs.flatten(-2), rest), dim=-1)


def slopes(heads):
    """Of ALiBi: powers of 2^(-8 / heads), and for the heads past a power of two every second one of the next power."""
    power = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return torch.tensor(first + [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * (heads - power), 2)])


def attend(q, k, v, bias=None):
    """Causal; q [batch, length, heads, dim], k and v with heads or fewer; right padding is never seen."""
    group = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(group, dim=2) for x in (k, v))
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[3])
    if bias is not None:
        scores = scores + bias
    length = q.shape[1]
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("bhts,bshd->bthd", weights, v).flatten(2)


class Reference(transformers.PreTrainedModel):
    """What make_golden.py asks of a model."""

    supports_gradient_checkpointing = False

    def forward(self, input_ids, attention_mask=None, use_cache=False):
        return SimpleNamespace(logits=self.compute(input_ids))


class GatedMlp(nn.Module):
    def __init__(self, hidden, wide, names):
        super().__init__()
        self.names = names
        for name, shape in zip(names, ((hidden, wide), (hidden, wide), (wide, hidden)), strict=True):
            setattr(self, name, nn.Linear(*shape, bias=False))

    def forward(self, x):
        gate, up, down = (getattr(self, name) for name in self.names)
        return down(F.silu(gate(x)) * up(x))


# ---- InternLM2 ----


@strict
class InternLM2Config(transformers.PreTrainedConfig):
    model_type = "internlm2"
    vocab_size: int = 92544
    hidden_size: int = 4096
    intermediate_size: int = 14336
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    hidden_act: str = "silu"
    max_position_embeddings: int = 32768
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = None
    bos_token_id: int | None = 1
    eos_token_id: int | None = 2
    tie_word_embeddings: bool = False
    bias: bool = True
    rope_theta: float = 10000.0


class InternLM2Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.dim, self.theta = config.hidden_size // self.heads, config.rope_theta
        self.wqkv = nn.Linear(config.hidden_size, (self.heads + 2 * self.groups) * self.dim, bias=config.bias)
        self.wo = nn.Linear(self.heads * self.dim, config.hidden_size, bias=config.bias)

    def forward(self, x):
        rows = self.wqkv(x).unflatten(-1, (self.groups, self.heads // self.groups + 2, self.dim))
        q, k, v = rows[..., :-2, :].flatten(2, 3), rows[..., -2, :], rows[..., -1, :]
        return self.wo(attend(turn_halves(q, self.theta), turn_halves(k, self.theta), v))


class InternLM2Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = InternLM2Attention(config)
        self.feed_forward = GatedMlp(config.hidden_size, config.intermediate_size, ("w1", "w3", "w2"))
        self.attention_norm = Norm(config.hidden_size, config.rms_norm_eps)
        self.ffn_norm = Norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class InternLM2Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tok_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList(InternLM2Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)


class InternLM2ForCausalLM(Reference):
    config_class = InternLM2Config

    def __init__(self, config):
        super().__init__(config)
        self.model = InternLM2Model(config)
        self.output = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.tok_embeddings

    def compute(self, ids):
        x = self.model.tok_embeddings(ids)
        for layer in self.model.layers:
            x = layer(x)
        return self.output(self.model.norm(x))


# ---- Baichuan ----


@strict
class BaichuanConfig(transformers.PreTrainedConfig):
    """max_position_embeddings: rotary positions; without it model_max_length and ALiBi. z_loss_weight: of the second
    generation, whose output matrix is normed."""

    model_type = "baichuan"
    vocab_size: int = 64000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    hidden_act: str = "silu"
    max_position_embeddings: int | None = None
    model_max_length: int | None = None
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-6
    pad_token_id: int | None = None
    bos_token_id: int | None = 1
    eos_token_id: int | None = 2
    tie_word_embeddings: bool = False
    z_loss_weight: int | None = None


class BaichuanAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.rotary = config.num_attention_heads, config.max_position_embeddings is not None
        self.W_pack = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in self.W_pack(x).chunk(3, dim=-1))
        if self.rotary:
            return self.o_proj(attend(turn_halves(q, 10000.0), turn_halves(k, 10000.0), v))
        place = torch.arange(x.shape[1], dtype=x.dtype)
        bias = slopes(self.heads).to(x.dtype)[:, None, None] * (place[None, :] - place[:, None])
        return self.o_proj(attend(q, k, v, bias))


class BaichuanLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = BaichuanAttention(config)
        self.mlp = GatedMlp(config.hidden_size, config.intermediate_size, ("gate_proj", "up_proj", "down_proj"))
        self.input_layernorm = Norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class BaichuanModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList(BaichuanLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)


class BaichuanForCausalLM(Reference):
    config_class = BaichuanConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = BaichuanModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def compute(self, ids):
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x)
        matrix = self.lm_head.weight
        if self.config.z_loss_weight is not None:
            matrix = F.normalize(matrix)
        return F.linear(self.model.norm(x), matrix)


# ---- ChatGLM ----


@strict
class ChatGLMConfig(transformers.PreTrainedConfig):
    model_type = "chatglm"
    padded_vocab_size: int = 65024
    hidden_size: int = 4096
    ffn_hidden_size: int = 13696
    kv_channels: int = 128
    num_layers: int = 28
    num_attention_heads: int = 32
    multi_query_attention: bool = True
    multi_query_group_num: int = 2
    seq_length: int = 8192
    layernorm_epsilon: float = 1e-5
    rmsnorm: bool = True
    add_bias_linear: bool = False
    add_qkv_bias: bool = True
    post_layer_norm: bool = True
    original_rope: bool = True
    apply_residual_connection_post_layernorm: bool = False
    rope_ratio: float = 1.0
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | None = 2
    tie_word_embeddings: bool = False

    @property
    def vocab_size(self):
        return self.padded_vocab_size


class ChatGLMAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.groups = config.num_attention_heads, config.multi_query_group_num
        self.dim, self.theta = config.kv_channels, 10000.0 * config.rope_ratio
        rows = (self.heads + 2 * self.groups) * self.dim
        self.query_key_value = nn.Linear(config.hidden_size, rows, bias=config.add_qkv_bias)
        self.dense = nn.Linear(self.heads * self.dim, config.hidden_size, bias=False)

    def forward(self, x):
        sizes = [self.heads * self.dim, self.groups * self.dim, self.groups * self.dim]
        q, k, v = (part.unflatten(-1, (-1, self.dim)) for part in self.query_key_value(x).split(sizes, dim=-1))
        q, k = (turn_neighbours(part, self.dim // 2, self.theta) for part in (q, k))
        return self.dense(attend(q, k, v))


class ChatGLMMlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense_h_to_4h = nn.Linear(config.hidden_size, 2 * config.ffn_hidden_size, bias=False)
        self.dense_4h_to_h = nn.Linear(config.ffn_hidden_size, config.hidden_size, bias=False)

    def forward(self, x):
        gate, up = self.dense_h_to_4h(x).chunk(2, dim=-1)
        return self.dense_4h_to_h(F.silu(gate) * up)


class ChatGLMLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = Norm(config.hidden_size, config.layernorm_epsilon)
        self.self_attention = ChatGLMAttention(config)
        self.post_attention_layernorm = Norm(config.hidden_size, config.layernorm_epsilon)
        self.mlp = ChatGLMMlp(config)

    def forward(self, x):
        x = x + self.self_attention(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class ChatGLMForConditionalGeneration(Reference):
    config_class = ChatGLMConfig

    def __init__(self, config):
        super().__init__(config)
        self.transformer = nn.ModuleDict()
        self.transformer["embedding"] = nn.ModuleDict(
            {"word_embeddings": nn.Embedding(config.padded_vocab_size, config.hidden_size)})
        self.transformer["encoder"] = nn.ModuleDict(
            {"layers": nn.ModuleList(ChatGLMLayer(config) for _ in range(config.num_layers)),
             "final_layernorm": Norm(config.hidden_size, config.layernorm_epsilon)})
        self.transformer["output_layer"] = nn.Linear(config.hidden_size, config.padded_vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.transformer["embedding"]["word_embeddings"]

    def compute(self, ids):
        x = self.get_input_embeddings()(ids)
        for layer in self.transformer["encoder"]["layers"]:
            x = layer(x)
        return self.transformer["output_layer"](self.transformer["encoder"]["final_layernorm"](x))


for _config, _model in ((InternLM2Config, InternLM2ForCausalLM), (BaichuanConfig, BaichuanForCausalLM),
                        (ChatGLMConfig, ChatGLMForConditionalGeneration)):
    transformers.AutoConfig.register(_config.model_type, _config)
    transformers.AutoModelForCausalLM.register(_config, _model)
