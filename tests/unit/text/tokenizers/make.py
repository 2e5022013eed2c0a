"""Makes the small tokenizers of this folder and what the library `tokenizers` says of them.

    python3 -m venv .venv && .venv/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3 protobuf
    .venv/bin/python tests/unit/text/tokenizers/make.py [KIND...]

Each kind gets <kind>/tokenizer.json (trained on the text below), <kind>/tokenizer_config.json and <kind>/golden.json: texts with
their ids, with and without special tokens, and what the ids decode to. Nothing here was made by our own code.
"""

import io
import json
import os
import random
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))

# The patterns as the models' own tokenizer.json files have them.
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")

SCRIPTS = [
    "The quick brown fox's dog won't jump; they'll say \"hi\" 1234567 times, it's I'VE.",
    "Größe Übung naïve café résumé Ångström; İstanbul, ﬁne Ⅷ ½ e\u0301a\u030a.",
    "Съешь ещё этих мягких французских булок, да выпей чаю.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "我能吞下玻璃而不伤身体。こんにちは、世界！カタカナ 한국어 안녕 \u1112\u1161\u11ab.",
    "أنا قادر على أكل الزجاج ١٢٣ و هذا لا يؤلمني", "אני יכול לאכול זכוכית", "मैं काँच खा सकता हूँ १२३",
    "আমি কাঁচ খেতে পারি", "நான் கண்ணாடி சாப்பிடுவேன்", "ฉันกินกระจกได้", "ကျွန်တော် ကျွန်မ", "Կրնամ ապակի ուտել",
    "მინას ვჭამ", "ᠪᠢ ᠰᠢᠯᠢ", "እኔ መስታወት", "ខ្ញុំអាច", "ᏣᎳᎩ", "𐌼𐌰𐌲", "🦙 👨‍👩‍👧‍👦 🏳️‍🌈 ☃️ 1️⃣",
    "def f(x):\n    return {'a': x[0] ** 2, \"b\": -1e-5}  # ok\n\n\n\tif x != y: pass\r\n",
    "a  b   c    d\t\te \n f \r\n\r\n g\u00a0h\u3000i\u2028j\u200bk\ufeffl\u180em\u0085n", "", " ", "\n", "   leading", "trailing   ",
    "http://example.org/a_b?c=d&e=%20#f 3.14159 2024-01-31 $1,234.56 C++ <tag/> ~~~ ___ ...!?",
    "'s'S'ſ 'lL don’t we’re <added> <added>x x<ls> y  <ls>z<rs>  w <both> word words sword word, <|end|> <|end|>> <|en <|begin|>",
]


def random_text(r):
    out = []
    for _ in range(r.randrange(1, 16)):
        kind = r.randrange(8)
        if kind == 0:
            out.append(" " * r.randrange(1, 5))
        elif kind == 1:
            out.append(r.choice(["<added>", "<ls>", "<rs>", "<both>", "word", "<|end|>", "<|end|>>", "<|e", "'ll", "\n", "\t"]))
        elif kind == 2:
            out.append(str(r.randrange(10 ** r.randrange(1, 8))))
        elif kind == 3:
            out.append("".join(r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(r.randrange(1, 4))))
        elif kind == 4:
            line = r.choice(SCRIPTS[:-1])
            at = r.randrange(len(line) + 1)
            out.append(line[at:at + r.randrange(8)])
        else:
            out.append("".join(r.choice("etaoinshrdluETAOIN") for _ in range(r.randrange(1, 8))))
        if r.randrange(3) == 0:
            out.append(" ")
    return "".join(out)


def split(pattern, behavior="isolated"):
    return pre_tokenizers.Split(Regex(pattern), behavior)


def byte_level(*before):
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def sentencepiece_decoder(strip=1):
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(parts + ([decoders.Strip(" ", strip, 0)] if strip else []))


# kind: normalizer, pre-tokenizer, decoder, are words bytes?
KINDS = {
    "gpt2": (None, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), True),
    "gpt2_prefix_space": (None, pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel(), True),
    "llama3": (None, byte_level(split(LLAMA3)), decoders.ByteLevel(), True),
    "qwen2": (normalizers.NFC(), byte_level(split(QWEN2)), decoders.ByteLevel(), True),
    "gpt4o": (None, byte_level(split(GPT4O)), decoders.ByteLevel(), True),
    "deepseek": (None, byte_level(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK)), decoders.ByteLevel(), True),
    "smollm": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                              pre_tokenizers.ByteLevel(add_prefix_space=False)]), decoders.ByteLevel(), True),
    "falcon": (None, pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"),
                                              pre_tokenizers.ByteLevel(add_prefix_space=False)]), decoders.ByteLevel(), True),
    "llama2": (normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None, sentencepiece_decoder(),
               False),
    "mistral": (None, pre_tokenizers.Metaspace("▁", "first", split=False), sentencepiece_decoder(), False),
    "metaspace": (None, pre_tokenizers.Metaspace("▁", "always"), decoders.Metaspace("▁", "always"), False),
    "gemma": (normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), sentencepiece_decoder(0), False),
}


# Normalization rules of the kind `unigram`: from and to, as characters' numbers.
RULES = {"\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "\ufeff": "", "\u200b": " ", "ﬁ": "fi", "Ⅷ": "VIII", "½": "1/2",
         "e\u0301": "é", "a\u030a": "å", "\u1112\u1161\u11ab": "한", "カ": "か", "Ö": "oe", "…": "..."}


def make_unigram(byte_fallback):
    """A SentencePiece model as the converters of `transformers` turn it into a tokenizer.json (T5 and others)."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/rules.tsv", "w") as file:
            for old, new in RULES.items():
                file.write(" ".join("%X" % ord(c) for c in old) + "\t" + " ".join("%X" % ord(c) for c in new) + "\n")
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([line.replace("\n", " ") for line in SCRIPTS if line.strip()] * 3), model_writer=model,
            vocab_size=600, model_type="unigram", byte_fallback=byte_fallback, character_coverage=0.98, minloglevel=2,
            hard_vocab_limit=False, normalization_rule_tsv=folder + "/rules.tsv")
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    vocab = [(piece.piece, round(piece.score, 4)) for piece in proto.pieces]
    t = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=byte_fallback))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
                                         normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", "always")
    t.decoder = sentencepiece_decoder() if byte_fallback else decoders.Metaspace("▁", "always")
    return t


def make_bpe(kind):
    normalizer, pre_tokenizer, decoder, is_bytes = KINDS[kind]
    t = Tokenizer(models.BPE(ignore_merges=kind == "llama3") if is_bytes else models.BPE(unk_token="<unk>", fuse_unk=True,
                                                                                         byte_fallback=True))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizer if is_bytes else pre_tokenizers.Metaspace("▁", "always")
    if is_bytes:
        trainer = trainers.BpeTrainer(vocab_size=520, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    else:
        fallback = ["<0x%02X>" % byte for byte in range(256)]
        trainer = trainers.BpeTrainer(vocab_size=520, special_tokens=["<unk>", *fallback], limit_alphabet=60, show_progress=False)
    t.train_from_iterator([" ".join(SCRIPTS)] * 2 + SCRIPTS * 3, trainer)
    # The trainer's special tokens are words of the model here, and the rest as the kind wants it.
    j = json.loads(t.to_str())
    j["added_tokens"] = []
    if pre_tokenizer is None:
        j["pre_tokenizer"] = None
    t = Tokenizer.from_str(json.dumps(j))
    if pre_tokenizer is not None:
        t.pre_tokenizer = pre_tokenizer
    t.decoder = decoder
    return t


def make(kind):
    t = make_unigram(kind == "unigram_bytes") if kind.startswith("unigram") else make_bpe(kind)
    t.add_tokens([AddedToken("<added>", normalized=True), AddedToken("<ls>", lstrip=True), AddedToken("<rs>", rstrip=True),
                  AddedToken("word", single_word=True)])
    t.add_special_tokens([AddedToken("<|begin|>"), AddedToken("<|end|>"), AddedToken("<|end|>>"),
                          AddedToken("<both>", lstrip=True, rstrip=True)])
    begin = t.token_to_id("<|begin|>")
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        "<|begin|> $A", "<|begin|> $A $B", [("<|begin|>", begin)])])

    folder = os.path.join(HERE, kind)
    os.makedirs(folder, exist_ok=True)
    document = json.loads(t.to_str())
    if kind in ("qwen2", "llama2"):  # merges as older files write them
        document["model"]["merges"] = [" ".join(merge) for merge in document["model"]["merges"]]
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"bos_token": "<|begin|>", "eos_token": {"content": "<|end|>", "special": True}}, file)

    t = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    r = random.Random(kind)
    cases = []
    for text in SCRIPTS + ["a" * 200 + " " * 200 + "\n" * 70] + [random_text(r) for _ in range(120)]:
        ids = t.encode(text, add_special_tokens=False).ids
        with_special = t.encode(text).ids
        assert with_special == [begin] + ids
        cases.append({"text": text, "ids": ids, "decoded": t.decode(ids, skip_special_tokens=True)})
    with open(os.path.join(folder, "golden.json"), "w") as file:
        file.write('{"begin": %d, "end": %d, "vocab_size": %d, "cases": [\n' % (
            begin, t.token_to_id("<|end|>"), max(t.get_vocab().values()) + 1))
        file.write(",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases) + "\n]}\n")


for name in sys.argv[1:] or [*KINDS, "unigram", "unigram_bytes"]:
    make(name)
