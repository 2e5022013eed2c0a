"""Small GGUF models for tests, of one file or in several parts."""
import random
import struct

WIDTH, HEADS, LAYERS, INNER, VOCABULARY = 32, 2, 2, 64, 259  # the ids of `tokenizer: bytes`


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(key, value):
    """Whole numbers as u32, but for those that say that they are others."""
    kind, raw = {str: lambda: (8, text(value)), int: lambda: (4, struct.pack("<I", value)),
                 float: lambda: (6, struct.pack("<f", value)), tuple: lambda: (value[0], value[1])}[type(value)]()
    return text(key) + struct.pack("<I", kind) + raw


def pack(metadata, tensors):
    """A file: tensors are name -> (shape as rows and columns, floats)."""
    head, data = b"", b""
    for name, (shape, values) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in reversed(shape))
        head += struct.pack("<IQ", 0, len(data))
        data += struct.pack(f"<{len(values)}f", *values)
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + \
        b"".join(entry(key, value) for key, value in metadata.items()) + head
    return head + bytes(-len(head) % 32) + data


def tiny(seed=1):
    """Metadata and tensors of a llama that knows no vocabulary of its own."""
    chooser = random.Random(seed)
    metadata = {"general.architecture": "llama", "llama.block_count": LAYERS, "llama.context_length": 64,
                "llama.embedding_length": WIDTH, "llama.feed_forward_length": INNER, "llama.attention.head_count": HEADS,
                "llama.attention.head_count_kv": HEADS, "llama.attention.layer_norm_rms_epsilon": 1e-5,
                "llama.vocab_size": VOCABULARY}
    shapes = {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,), "output.weight": (VOCABULARY, WIDTH)}
    for i in range(LAYERS):
        shapes |= {f"blk.{i}.attn_norm.weight": (WIDTH,), f"blk.{i}.ffn_norm.weight": (WIDTH,),
                   **{f"blk.{i}.attn_{one}.weight": (WIDTH, WIDTH) for one in ("q", "k", "v", "output")},
                   f"blk.{i}.ffn_gate.weight": (INNER, WIDTH), f"blk.{i}.ffn_up.weight": (INNER, WIDTH),
                   f"blk.{i}.ffn_down.weight": (WIDTH, INNER)}
    tensors = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        tensors[name] = (shape, [1.0] * count if len(shape) == 1 else [chooser.gauss(0, 0.05) for _ in range(count)])
    return metadata, tensors


def tiny_file(seed=1):
    return pack(*tiny(seed))


def tiny_parts(name, count, seed=1):
    """The same model in several files, as bytes by name."""
    metadata, tensors = tiny(seed)
    names = list(tensors)
    parts = {}
    for i in range(count):
        split = {"split.no": (2, struct.pack("<H", i)), "split.count": (2, struct.pack("<H", count)),
                 "split.tensors.count": (5, struct.pack("<i", len(tensors)))}
        parts[f"{name}-{i + 1:05}-of-{count:05}.gguf"] = pack({**(metadata if i == 0 else {}), **split},
                                                             {one: tensors[one] for one in names[i::count]})
    return parts
