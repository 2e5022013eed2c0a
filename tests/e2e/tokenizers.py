#!/usr/bin/env python3
"""Tokenizers give the ids that the libraries `tokenizers`, `sentencepiece` and `tiktoken` give.   (time limit: 1800 s)

Random texts of every script, with and without added tokens and bytes that are not UTF-8, go through the tokenizers
of tests/unit/text and through SentencePiece models that are trained here. MT_TOKENIZER_TEXTS says how many for
each; 100,000 in `make check-consumers`. The libraries are those that tests/requirements.txt pins.
"""
import io
import json
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import consumers
from consumers import report
import texts

KINDS = os.path.join(consumers.ROOT, "tests", "unit", "text", "tokenizers")
COUNT = int(os.environ.get("MT_TOKENIZER_TEXTS", "4000"))
BATCH = 10000
ONLY = os.environ.get("MT_TOKENIZER_ONLY", "json sentencepiece")
ADDED = ["<added>", "<ls>", "<rs>", "<both>", "word", "<|end|>", "<|end|>>", "<|begin|>", "<s>", "</s>", "<unk>", "<0x0A>", "▁"]


def tokenize(folder, data, *options):
    """The lines that the texts give."""
    done = consumers.tokenize_lines(folder, data, *options)
    if done.returncode:
        return "tokenize_lines: " + done.stderr.decode(errors="replace").strip()
    return done.stdout.decode().split("\n")[:-1]


def compare(name, folder, expected_of, added, utf8_only=False, special=False):
    """`expected_of` gives the lists of ids of a list of bytes."""
    r = random.Random(name)
    done = 0
    while done < COUNT:
        data = []
        for i in range(min(BATCH, COUNT - done)):
            data.append(texts.random_text(r, added).encode() if utf8_only or i % 10 else texts.random_bytes(r, added))
        got = tokenize(folder, data, *(["special"] if special else []))
        if isinstance(got, str):
            return got
        for one, line, ids in zip(data, got, expected_of(data)):
            if line != " ".join(map(str, ids)):
                return f"{one!r} gives {line} instead of {ids}"
        done += len(data)
    return None


def check_json(kind):
    from tokenizers import Tokenizer
    folder = os.path.join(KINDS, kind)
    library = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))

    def expected(data):
        return [one.ids for one in library.encode_batch([one.decode(errors="replace") for one in data],
                                                        add_special_tokens=True)]
    report(f"{COUNT} random texts, {kind}", compare(kind, folder, expected, ADDED[:8], special=True))


# What each SentencePiece model is trained with.
MODELS = {
    "llama": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
              "allow_whitespace_only_pieces": True, "split_digits": True, "vocab_size": 900},
    "gemma": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
              "add_dummy_prefix": False, "split_by_whitespace": False, "vocab_size": 900,
              "user_defined_symbols": ["<added>", "\n", "\n\n", "▁▁", "▁▁▁▁", "<both>"]},
    "bpe": {"model_type": "bpe", "vocab_size": 700, "character_coverage": 0.98, "control_symbols": ["<|end|>"]},
    "t5": {"model_type": "unigram", "vocab_size": 700, "character_coverage": 0.98, "normalization_rule_name": "nmt_nfkc_cf"},
    "albert": {"model_type": "unigram", "vocab_size": 900, "byte_fallback": True, "normalization_rule_name": "nfkc",
               "user_defined_symbols": ["<added>", "word", "<ls>"], "control_symbols": ["<both>"]},
    "suffix": {"model_type": "unigram", "vocab_size": 600, "treat_whitespace_as_suffix": True, "character_coverage": 0.98},
}


def train(settings):
    import sentencepiece
    model = io.BytesIO()
    lines = [line.replace("\n", " ") for line in texts.SCRIPTS if "\0" not in line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((lines + [" ".join(lines)]) * 3), model_writer=model, minloglevel=2, hard_vocab_limit=False,
        num_threads=1, **settings)
    return model.getvalue()


def check_model(name, settings, scratch):
    import sentencepiece
    folder = os.path.join(scratch, name)
    os.mkdir(folder)
    model = train(settings)
    with open(os.path.join(folder, "tokenizer.model"), "wb") as file:
        file.write(model)
    # As the library has it, without what transformers adds: special tokens are found in a text, and put around it.
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"add_bos_token": False, "add_eos_token": False, "bos_token": None, "eos_token": None, "unk_token": None}, file)
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    report(f"{COUNT} random texts, SentencePiece {name}",
           compare("sentencepiece " + name, folder, lambda data: [library.encode(one) for one in data], ADDED))
    check_decoding(name, folder, library)


def check_decoding(name, folder, library):
    """What the ids decode to; control pieces are written out here, and left out by the library."""
    r = random.Random("decoding " + name)
    data = [texts.random_text(r).encode() for _ in range(500)]
    out = consumers.tokenize_lines(folder, data, "decode").stdout
    for one in data:
        length, out = out.split(b"\n", 1)
        got, out = out[:int(length)], out[int(length) + 1:]
        ids = library.encode(one)
        if library.unk_id() in ids:
            continue  # "<unk>" here, U+2047 there
        if got.decode(errors="replace") != library.decode(ids):
            return report(f"decoding, SentencePiece {name}", f"{ids} gives {got!r} instead of {library.decode(ids)!r}")
    return report(f"decoding, SentencePiece {name}", None)


WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
EXTRAS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + ["<|extra_%d|>" % i for i in range(205)]
GLM = ["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>"]


def ranks_of(kind):
    """A vocabulary of tests/unit/text as ranks."""
    def byte(c):
        n = ord(c)
        return n - 256 if n <= 0x120 and n >= 0x100 else n - 0x121 + 0x7f if 0x121 <= n <= 0x142 else 0xad if n == 0x143 else n
    with open(os.path.join(KINDS, kind, "tokenizer.json"), encoding="utf-8") as file:
        vocab = json.load(file)["model"]["vocab"]
    return {bytes(byte(c) for c in text): rank for rank, text in enumerate(sorted(vocab, key=vocab.get))}


def check_ranks(name, kind, cls, pattern, special, file_name, scratch, nfc=False, prefix=()):
    import base64
    import unicodedata
    import tiktoken
    folder = os.path.join(scratch, name)
    os.mkdir(folder)
    ranks = ranks_of(kind)
    numbers = {text: len(ranks) + i for i, text in enumerate(special)}
    with open(os.path.join(folder, file_name), "wb") as file:
        file.write(b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items()))
    config = {"tokenizer_class": cls}
    if not nfc:
        config["added_tokens_decoder"] = {str(number): {"content": text, "special": True} for text, number in numbers.items()}
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    library = tiktoken.Encoding(name, pat_str=WORDS % pattern, mergeable_ranks=ranks, special_tokens=numbers)

    def expected(data):
        lines = [one.decode(errors="replace") for one in data]
        return [[*(numbers[one] for one in prefix),
                 *library.encode(unicodedata.normalize("NFC", one) if nfc else one, allowed_special="all")] for one in lines]
    report(f"{COUNT} random texts, tiktoken {name}", compare("tiktoken " + name, folder, expected, special[:8], special=True))


def main():
    why = consumers.packages("tokenizers", "sentencepiece", "tiktoken", "regex")
    if why:
        print("skip tokenizers: " + why)
        return
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for kind in sorted(os.listdir(KINDS)) if "json" in ONLY else []:
        if os.path.isdir(os.path.join(KINDS, kind)):
            check_json(kind)
    scratch = tempfile.mkdtemp(prefix="mt-tokenizers-")
    try:
        check_ranks("qwen", "qwen2", "QWenTokenizer", r"\p{N}", EXTRAS, "qwen.tiktoken", scratch, nfc=True)
        check_ranks("glm4", "llama3", "ChatGLM4Tokenizer", r"\p{N}{1,3}", GLM, "tokenizer.model", scratch,
                    prefix=["[gMASK]", "<sop>"])
        for name, settings in MODELS.items() if "tiktoken" != ONLY else []:
            check_model(name, settings, scratch)
    finally:
        shutil.rmtree(scratch)


main()
