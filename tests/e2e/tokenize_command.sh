#!/bin/sh
# `megatrain tokenize`: ids of a text and back, with what special tokens make of it, and what it refuses.
build=${MT_BUILD:-build}
megatrain=$build/megatrain
kinds=$(dirname "$0")/../unit/text/tokenizers
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# name, expected, got
same() {
    if [ "$2" = "$3" ]; then echo "ok $1"; else echo "not ok $1: '$3' instead of '$2'"; fi
}

# name, exit code, words of the message; the rest is the command, its input is $input
refused() {
    name=$1 code=$2 words=$3
    shift 3
    printf '%s' "$input" | "$@" >"$scratch/out" 2>"$scratch/error"
    got=$?
    if [ $got -ne "$code" ]; then
        echo "not ok $name: exit code $got instead of $code: $(cat "$scratch/error")"
    elif ! grep -q -- "$words" "$scratch/error"; then
        echo "not ok $name: $(cat "$scratch/error")"
    else
        echo "ok $name"
    fi
}

same "a text's ids stand on one line, the begin token first" "256 72 105 10 257" \
    "$(printf 'Hi\n<|end|>' | "$megatrain" tokenize --model bytes)"
same "without special tokens the begin token is not put before it" "72 105" \
    "$(printf 'Hi' | "$megatrain" tokenize --model bytes --no-special)"
same "an empty text is an empty line" "" "$(printf '' | "$megatrain" tokenize --model bytes --no-special)"
same "ids decode to the text" "<|begin|>Hi, é" \
    "$(printf 'Hi, é' | "$megatrain" tokenize --model bytes | "$megatrain" tokenize --model bytes --decode)"
same "special tokens are left out" "Hi, é" \
    "$(printf 'Hi, é' | "$megatrain" tokenize --model bytes | "$megatrain" tokenize --model bytes --decode --no-special)"
same "ids may come as JSON" "Hi" "$(echo '[72, 105]' | "$megatrain" tokenize --model bytes --decode)"

text="  The quick  brown fox's 1234 <added> 我能吞下玻璃 🦙"
for kind in llama3 qwen2 llama2 gemma deepseek; do
    same "there and back, $kind" "$text" "$(printf '%s' "$text" | "$megatrain" tokenize --model "$kinds/$kind" |
        "$megatrain" tokenize --model "$kinds/$kind" --decode --no-special)"
done

input=x
refused "no model is a mistake in usage" 64 "--model DIR is missing" "$megatrain" tokenize
refused "nor is an argument" 64 "one argument too many" "$megatrain" tokenize --model bytes x
refused "a folder that is not there is named" 65 "$scratch/none" "$megatrain" tokenize --model "$scratch/none"
mkdir "$scratch/empty"
refused "a folder without a tokenizer is told so" 65 "no tokenizer" "$megatrain" tokenize --model "$scratch/empty"
refused "words are not ids" 65 "is not an id" "$megatrain" tokenize --model bytes --decode
input='72 300'
refused "an id beyond the vocabulary is named with its end" 65 "300 is not an id of this tokenizer, which has 0 to 258" \
    "$megatrain" tokenize --model bytes --decode
input='99999999999999999999'
refused "an id beyond all numbers" 65 "is not an id" "$megatrain" tokenize --model bytes --decode
