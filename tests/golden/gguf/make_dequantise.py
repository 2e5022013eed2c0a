#!/usr/bin/env python3
"""Writes dequantise.gguf: random blocks of every type that is read, and beside each tensor NAME a tensor
NAME.expected with what the package `gguf` (0.19) makes of it.

    python3 make_dequantise.py dequantise.gguf
"""
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

TYPES = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K,
         Type.Q6_K]
SCALES = {  # where the halves of a block stand
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0], Type.Q2_K: [80, 82],
    Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}

random = np.random.default_rng(6)
writer = gguf.GGUFWriter(sys.argv[1], "none")
writer.add_uint32("test.number", 7)
writer.add_array("test.texts", ["a", "", "\u00e4"])


def add(name, kind, raw, shape):
    writer.add_tensor(name, raw, raw_dtype=kind)
    expected = dequantize(raw, kind).reshape(shape)
    writer.add_tensor(name + ".expected", np.ascontiguousarray(expected, dtype=np.float32))


for kind in TYPES:
    elements, size = GGML_QUANT_SIZES[kind]
    rows, columns = 3, 512 if elements == 256 else 96
    blocks = random.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    for offset in SCALES[kind]:
        half = random.standard_normal(len(blocks)).astype(np.float16)
        half[0] = 2.0**-20  # a subnormal number
        half[-1] = -6e4
        blocks[:, offset:offset + 2] = half.view(np.uint8).reshape(-1, 2)
    add(kind.name.lower(), kind, blocks.reshape(rows, -1), (rows, columns))

halves = np.concatenate([random.standard_normal(58).astype(np.float16),
                         np.array([0.0, -0.0, np.inf, -np.inf, 2.0**-24, -2.0**-15], dtype=np.float16)])
add("f16", Type.F16, halves.reshape(2, 32), (2, 32))
brain = random.integers(0, 0x7f80, 64, dtype=np.uint16).view(np.uint8).reshape(2, 64)
add("bf16", Type.BF16, brain, (2, 32))

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
