#!/usr/bin/env python3
"""Writes the demo's data: numbers in digits and in English words, both ways, as JSON lines with a `text` column.

    make_numbers.py OUT_DIR [--limit 1000] [--held-out 50] [--seed 7]

OUT_DIR/train.jsonl holds every number below the limit but the held-out ones, each twice ("412 = four hundred twelve" and
"four hundred twelve = 412"). OUT_DIR/held_out.json holds ten questions about held-out numbers with their one right answer; a number
that is asked never occurs in the training file in either direction, which this script checks before it writes.
"""
import argparse
import json
import os
import random

UNITS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
         "seventeen eighteen nineteen").split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def words(number):
    """English words of 0 <= number < 1,000,000."""
    if number < 20:
        return UNITS[number]
    if number < 100:
        return TENS[number // 10] + ("-" + UNITS[number % 10] if number % 10 else "")
    if number < 1000:
        rest = number % 100
        return UNITS[number // 100] + " hundred" + (" " + words(rest) if rest else "")
    rest = number % 1000
    return words(number // 1000) + " thousand" + (" " + words(rest) if rest else "")


def main():
    parser = argparse.ArgumentParser(description="Write the demo's numbers-and-words data set.")
    parser.add_argument("out_dir")
    parser.add_argument("--limit", type=int, default=1000, help="numbers below this one (default 1000)")
    parser.add_argument("--held-out", type=int, default=50, help="numbers kept out of training (default 50)")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    if not 200 <= options.limit <= 1000000 or not 10 <= options.held_out <= options.limit // 4:
        parser.error("--limit must be 200 to 1000000, and --held-out 10 to a quarter of it")

    chooser = random.Random(options.seed)
    held_out = set(chooser.sample(range(100, options.limit), options.held_out))
    lines = []
    for number in range(options.limit):
        if number not in held_out:
            lines.append(f"{number} = {words(number)}")
            lines.append(f"{words(number)} = {number}")
    chooser.shuffle(lines)

    asked = chooser.sample(sorted(held_out), 10)
    questions = []
    for i, number in enumerate(asked):
        question, answer = (str(number), words(number)) if i % 2 == 0 else (words(number), str(number))
        questions.append({"prompt": f"{question} =", "answer": answer})
    seen = set(lines)
    for number in held_out:
        assert f"{number} = {words(number)}" not in seen and f"{words(number)} = {number}" not in seen

    os.makedirs(options.out_dir, exist_ok=True)
    with open(os.path.join(options.out_dir, "train.jsonl"), "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps({"text": line}) + "\n")
    with open(os.path.join(options.out_dir, "held_out.json"), "w", encoding="utf-8") as file:
        json.dump(questions, file, indent=1)
        file.write("\n")
    print(f"{len(lines)} training lines; {options.held_out} numbers held out")


if __name__ == "__main__":
    main()
