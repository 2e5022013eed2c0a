"""Makes the small SentencePiece models of this folder and what the tokenizers of `transformers` 4 that are built on the
library `sentencepiece` (use_fast=False) say of them.

    python3 -m venv .venv && .venv/bin/pip install transformers==4.57.3 sentencepiece==0.2.3 protobuf
    .venv/bin/python tests/unit/text/sentencepiece/make.py

Each case has <case>/tokenizer.model, the files beside it, and golden.json: texts with their ids, with and without special
tokens. `golden.json` of the library alone has the ids of the model itself. Nothing here was made by our own code.
"""
import io
import json
import os
import random
import sys

import sentencepiece
from transformers import GemmaTokenizer, LlamaTokenizer, T5Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "e2e", "support"))
import texts  # noqa: E402

LLAMA = {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
         "allow_whitespace_only_pieces": True, "split_digits": True, "character_coverage": 0.99, "vocab_size": 700}
T5 = {"model_type": "unigram", "vocab_size": 420, "character_coverage": 0.98, "normalization_rule_name": "nmt_nfkc",
      "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
GEMMA = {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
         "add_dummy_prefix": False, "character_coverage": 0.99, "vocab_size": 700, "user_defined_symbols": ["\n", "▁▁", "<added>"]}

ADDED = [{"content": "<added>", "special": False, "normalized": True}, {"content": "<ls>", "special": False, "lstrip": True},
         {"content": "<rs>", "special": False, "rstrip": True}, {"content": "<|end|>", "special": True},
         {"content": "<both>", "special": True, "lstrip": True, "rstrip": True}]


def token(given):
    return {"content": "", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": False, **given}


def decoder(first, tokens=ADDED):
    return {str(first + i): token(one) for i, one in enumerate(tokens)}


def case(name, settings, cls, config, added=True, files=None):
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    model = io.BytesIO()
    lines = [line.replace("\n", " ") for line in texts.SCRIPTS[:24] if "\0" not in line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((lines + [" ".join(lines)]) * 3), model_writer=model, minloglevel=2, hard_vocab_limit=False,
        num_threads=1, **settings)
    with open(os.path.join(folder, "tokenizer.model"), "wb") as file:
        file.write(model.getvalue())
    size = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size()
    config = {"tokenizer_class": cls.__name__, **config}
    if added:
        config["added_tokens_decoder"] = {**config.pop("first", {}), **decoder(size)}
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump(config, file, ensure_ascii=False, indent=1)
    for other, document in (files or {}).items():
        with open(os.path.join(folder, other), "w") as file:
            json.dump(document(size), file, ensure_ascii=False)

    library = cls.from_pretrained(folder)
    r = random.Random(name)
    cases = []
    odd = ["", " ", "  ", "▁", "▁a", "a▁b", "<s>", " <s>", "<s> a", "<added>", "<added> a", "<|end|>a", "a<|end|> b <|end|>  c",
           " <added><added> x", "<unk>", "a<unk>b", "</s>", "This is 🦙.cpp", "<0x0A>", "\n\n  <ls> x <rs>  y  <both>  z"]
    if cls is T5Tokenizer:  # it puts no second end token behind a text that has one
        odd = [text for text in odd if "</s>" not in text]
    for text in texts.SCRIPTS + odd + [texts.random_text(r, ["<added>", "<ls>", "<rs>", "<both>", "<|end|>", "<s>"])
                                       for _ in range(100)]:
        cases.append({"text": text, "ids": library.encode(text, add_special_tokens=False), "special": library.encode(text)})
    with open(os.path.join(folder, "golden.json"), "w") as file:
        file.write('{"begin": %s, "end": %s, "pad": %s, "vocab_size": %d, "cases": [\n' % (
            json.dumps(library.bos_token_id), json.dumps(library.eos_token_id), json.dumps(library.pad_token_id), len(library)))
        file.write(",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in cases) + "\n]}\n")


NAMES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
FIRST = {"first": {"0": token({"content": "<unk>", "special": True}), "1": token({"content": "<s>", "special": True}),
                   "2": token({"content": "</s>", "special": True})}}
case("llama_legacy", LLAMA, LlamaTokenizer, {**NAMES, **FIRST, "legacy": True, "add_bos_token": True, "add_eos_token": False})
case("llama", LLAMA, LlamaTokenizer, {**NAMES, **FIRST, "legacy": False, "pad_token": "<unk>"})
case("llama_no_prefix", LLAMA, LlamaTokenizer, {**NAMES, **FIRST, "legacy": False, "add_prefix_space": False, "add_eos_token": True})
case("llama_old_files", LLAMA, LlamaTokenizer, {"legacy": True}, added=False, files={
    "special_tokens_map.json": lambda size: {"bos_token": token({"content": "<s>", "special": True}), "eos_token": "</s>",
                                             "unk_token": "<unk>", "pad_token": "[PAD]",
                                             "additional_special_tokens": ["<|end|>", "<both>"]},
    "added_tokens.json": lambda size: {"<added>": size, "<ls>": size + 1}})
case("gemma", GEMMA, GemmaTokenizer, {**NAMES, **FIRST, "pad_token": "<unk>"}, added=False)
case("t5", T5, T5Tokenizer, {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "legacy": True, "extra_ids": 0})
