#!/usr/bin/env python3
"""The peer of bench_data: Python's `datasets` and `tokenizers` on the same file.

    data_peer.py prepare FOLDER ROWS   writes rows.jsonl and tokenizer.json (byte-level BPE, trained on the rows)
    data_peer.py serve FOLDER          for each line of standard input: from the file to packed ids on one thread;
                                       prints the seconds of CPU, the rows and the tokens

Both libraries (pinned in tests/requirements.txt) and what they need are fetched once with pip into
<build>/consumers. Exit 77: they cannot be had.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "support"))
import consumers  # noqa: E402

PROMPT = ("Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
          "### Instruction:\n{}\n\n### Response:")
PROMPT_INPUT = ("Below is an instruction that describes a task, paired with an input that provides further context. "
                "Write a response that appropriately completes the request.\n\n### Instruction:\n{}\n\n### Input:\n{}"
                "\n\n### Response:")
MAX_SEQ_LEN = 1024


def use_libraries():
    """With their dependencies, unlike the other consumers."""
    pinned = [consumers.requirement(name) for name in ("datasets", "tokenizers", "pyarrow")]
    folder = os.path.join(consumers.CONSUMERS, "data-peer-" + "-".join(one.split("==")[1] for one in pinned))
    if not os.path.isdir(folder):
        os.makedirs(consumers.CONSUMERS, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=consumers.CONSUMERS) as scratch:
            target = os.path.join(scratch, "python")
            done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:",
                                   "--target", target, *pinned], capture_output=True, text=True)
            if done.returncode:
                print("pip could not fetch " + ", ".join(pinned), file=sys.stderr)
                sys.exit(77)
            os.rename(target, folder)
    sys.path.insert(0, folder)
    os.environ.update({"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "RAYON_NUM_THREADS": "1",
                       "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"})


def source_rows():
    data = os.environ.get("MT_TEST_DATA", os.path.join(consumers.ROOT, "..", "shared", "data"))
    path = os.path.join(data, "llamafactory", "alpaca_en_demo.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    r = random.Random(1)
    words = ["".join(r.choice("etaoinshrdlucmfwypvbgkq") for _ in range(r.randrange(2, 11))) for _ in range(20000)]
    text = lambda n: " ".join(words[int(r.paretovariate(0.7)) % len(words)] for _ in range(n)) + "."
    return [{"instruction": text(12), "input": text(20) if r.random() < 0.4 else "", "output": text(r.randrange(20, 200))}
            for _ in range(1000)]


def prepare(folder, rows):
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers
    r = random.Random(2)
    source = source_rows()
    with open(os.path.join(folder, "rows.jsonl"), "w", encoding="utf-8") as file:
        for i in range(rows):
            row = {key: r.choice(source)[key] for key in ("instruction", "input", "output")}
            file.write(json.dumps({"id": i, **row}, ensure_ascii=False) + "\n")
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=30000, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator((row["instruction"] + " " + row["input"] + " " + row["output"] for row in source),
                                  trainer)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"eos_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}, file)


def run(folder, tokenizer, end, datasets):
    """From the file to packs: prompts and answers tokenised, labels, first fit in a window of packs."""
    def encode(batch):
        prompts = [PROMPT_INPUT.format(i, x) if x else PROMPT.format(i)
                   for i, x in zip(batch["instruction"], batch["input"])]
        asked = tokenizer.encode_batch_fast(prompts, add_special_tokens=False)
        answered = tokenizer.encode_batch_fast(batch["output"], add_special_tokens=False)
        ids, labels = [], []
        for prompt, answer in zip(asked, answered):
            prompt, answer = prompt.ids, answer.ids + [end]
            ids.append((prompt + answer)[:MAX_SEQ_LEN])
            labels.append(([-100] * len(prompt) + answer)[:MAX_SEQ_LEN])
        return {"ids": ids, "labels": labels}

    def pack(batch):
        packs, open_packs = [], []
        for ids in batch["ids"]:
            for one in open_packs:
                if len(one) + len(ids) <= MAX_SEQ_LEN:
                    one.extend(ids)
                    break
            else:
                open_packs.append(list(ids))
                if len(open_packs) > 64:
                    packs.append(open_packs.pop(0))
        return {"packs": packs + open_packs}

    with tempfile.TemporaryDirectory() as cache:
        start = time.process_time()
        rows = datasets.load_dataset("json", data_files=os.path.join(folder, "rows.jsonl"), split="train",
                                     cache_dir=cache)
        encoded = rows.map(encode, batched=True, remove_columns=rows.column_names, keep_in_memory=True)
        packed = encoded.shuffle(seed=42).map(pack, batched=True, batch_size=4000,
                                              remove_columns=encoded.column_names, keep_in_memory=True)
        seconds = time.process_time() - start
        tokens = sum(len(one) for one in packed["packs"])
        return seconds, len(rows), tokens


def main():
    use_libraries()
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2], int(sys.argv[3]))
        return
    import datasets
    import tokenizers
    datasets.disable_progress_bars()
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(sys.argv[2], "tokenizer.json"))
    for _ in sys.stdin:
        print(*run(sys.argv[2], tokenizer, tokenizer.token_to_id("<|endoftext|>"), datasets), flush=True)


if __name__ == "__main__":
    main()
