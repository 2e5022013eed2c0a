#!/bin/bash
# Checks of the CUDA backend on a machine with a GPU: every operation against the CPU backend, golden cases, whole jobs,
# the same bits twice, compute-sanitizer; then figures. Prints Markdown (docs/gpu-results.md keeps it) and ends within 8
# minutes; exit 0 when every check passed. MT_CHECK_PARTS: only these (operations golden jobs sanitizers figures).
#
#   tests/gpu/check.sh               in a build tree (MT_BUILD: its build folder), or in the folder that --pack made
#   tests/gpu/check.sh --pack DIR    gathers programs, libraries and cases in DIR, below 60 MiB, for a machine with driver
#                                    and CUDA toolkit (its cuBLAS) but without our libraries: copy it there, run DIR/check.sh
#   tests/gpu/check.sh --tiny        the same on the simulated device: shows that this script works
set -u
here=$(cd "$(dirname "$0")" && pwd)
limit_seconds=${LIMIT_SECONDS:-470}
slowness=${MT_CHECK_SLOWNESS:-1} # by how much a build with sanitizers takes longer: a factor of each check's limit
start=$SECONDS
# plain: products by cuBLAS alone, which otherwise gets those that cuBLASLt has no algorithm for.
unit=${MT_CHECK_UNITS-"test_agreement test_agreement_products test_agreement_products:plain test_cuda test_attention test_cross_entropy
                        test_curves test_linear test_norms test_rows"}
# Under compute-sanitizer: these launch every kernel, in small (tests/e2e/cuda_check.sh sees to that).
sanitized_units=${MT_CHECK_SANITIZED-"test_agreement_products:plain test_agreement test_agreement_products"}
sanitized_seconds=${MT_CHECK_SANITIZED_SECONDS:-90} # of each tool, for all of them
parts=${MT_CHECK_PARTS:-operations golden jobs sanitizers figures}

pack() {
    local root build to=$1
    root=$(cd "$here/../.." && pwd)
    build=${MT_BUILD:-$root/build}
    rm -rf "$to" && mkdir -p "$to/build/tests/unit/device" "$to/build/tests/unit/stream" "$to/build/tests/gpu" "$to/lib" \
        "$to/tests/golden" || exit 74
    for name in $unit $sanitized_units; do
        cp "$build/tests/unit/device/${name%:*}" "$to/build/tests/unit/device/" || exit 74
    done
    cp "$build/tests/unit/stream/test_golden" "$to/build/tests/unit/stream/" &&
        cp "$build/tests/gpu/figures" "$to/build/tests/gpu/" &&
        cp "$build/megatrain-worker" "$to/build/" && cp "$build/megatrain-cuda.so" "$to/lib/" &&
        cp "$here/check.sh" "$to/" || exit 74
    # One case of each family; the test itself knows them.
    local families
    families=$(cd "$root" && "$build/tests/unit/stream/test_golden" --families) && [ -n "$families" ] || exit 74
    for case in $families; do
        mkdir "$to/tests/golden/$case" &&
            cp "$root/tests/golden/$case/"{config.json,model.safetensors,golden.safetensors} "$to/tests/golden/$case/" || exit 74
    done
    find "$to/build" "$to/lib" -type f -exec strip {} + 2>/dev/null
    # The C library is the machine's own, as are those of CUDA.
    find "$to/build" -type f -exec ldd {} + 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
        grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so|cuda|cublas' | while read -r library; do
        cp -L "$library" "$to/lib/"
    done
    # What they need in turn is much (OpenBLAS, and all that curl draws in), and shrinks to a third; the module with code
    # for every GPU, to a fifth.
    # The C++ library of the machine, where it has one, is new enough for its own programs; ours is for those without.
    mkdir "$to/lib/last" && for library in "$to"/lib/libstdc++.so* "$to"/lib/libgcc_s.so*; do
        [ ! -e "$library" ] || mv "$library" "$to/lib/last/" || exit 74
    done
    tar -C "$to" -czf "$to/lib.tar.gz" lib && rm -rf "${to:?}/lib" || exit 74
    local kib
    kib=$(du -sk "$to" | cut -f1)
    echo "$to: $((kib / 1024)) MiB; copy it to the machine and run check.sh in it"
    [ "$kib" -le $((60 * 1024)) ] || { echo "that is more than 60 MiB" >&2; exit 1; }
}

tiny=
case ${1:-} in
--pack)
    pack "${2:?--pack wants a folder}"
    exit
    ;;
--tiny) tiny=--tiny ;;
esac

# ---- where things are ----

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
if [ -f "$here/lib.tar.gz" ]; then
    root=$here build=$here/build
    tar -C "$work" -xzf "$here/lib.tar.gz" || exit 1
    export MEGATRAIN_CUDA_MODULE=${MEGATRAIN_CUDA_MODULE:-$work/lib/megatrain-cuda.so}
    export LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    for folder in /usr/local/cuda/lib64 /usr/local/cuda-*/lib64; do
        [ ! -d "$folder" ] || LD_LIBRARY_PATH+=:$folder
    done
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -q 'libstdc++\.so\.6' || LD_LIBRARY_PATH+=:$work/lib/last
else
    root=$(cd "$here/../.." && pwd)
    build=${MT_BUILD:-$root/build}
fi
cd "$root" || exit 1
export MEGATRAIN_CUDA_MODULE=${MEGATRAIN_CUDA_MODULE:-$build/megatrain-$([ -n "$tiny" ] && echo cudasim || echo cuda).so}
failed=0

left() { echo $((limit_seconds - (SECONDS - start))); }

# A program that waits for a GPU that hangs takes no SIGTERM: it is killed.
limited() { timeout -k 5 "$@"; }

# check NAME LIMIT COMMAND...: a line of the table; at most LIMIT seconds, and never past the end.
check() {
    local name=$1 limit=$(($2 * slowness)) code began=$SECONDS seconds
    shift 2
    seconds=$(left)
    [ "$seconds" -gt 5 ] || { echo "| $name | not run: no time left | |"; failed=1; return; }
    [ "$seconds" -lt "$limit" ] && limit=$seconds
    limited "$limit" "$@" >"$work/out" 2>&1
    code=$?
    if [ $code = 0 ]; then
        echo "| $name | passed | $((SECONDS - began)) s |"
    else
        failed=1
        echo "| $name | **FAILED** ($code) | $((SECONDS - began)) s |"
        { echo "### $name"; tail -n 25 "$work/out" | sed 's/^/    /'; } >>"$work/failures"
    fi
}

# train FOLDER DEVICE DTYPE: 20 steps of a small job, by the worker: the command line's libraries need not be there.
train() {
    local model='"architecture": "llama", "hidden_size": 128, "num_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2'
    mkdir "$work/$1" || return
    printf '{"name": "check", "method": "pretrain", "device": "%s", "model": {%s, "tokenizer": "bytes", "dtype": "%s"},
             "dataset": {"path": "%s", "max_seq_len": 64, "packing": true, "val_size": 0},
             "training": {"batch_size": 4, "max_steps": 20, "learning_rate": 1e-3}, "checkpoint": {"every_steps": 100}}' \
        "$2" "$model" "$3" "$work/text.txt" >"$work/$1/job.json"
    "$build/megatrain-worker" --task train --job-dir "$work/$1"
}

losses() { sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$1/metrics.jsonl"; }

# Losses of 20 steps by CUDA in bf16 beside the CPU's in fp32.
follows_the_cpu() {
    train cpu cpu float32 && train first cuda bfloat16 || return
    paste <(losses "$work/cpu") <(losses "$work/first") |
        awk '{d = $1 - $2; if (d < 0) d = -d; if (!(d <= 0.005 * $1)) bad = 1; n++; print} END {exit bad || n != 20}'
}

same_bits_twice() {
    train second cuda bfloat16 &&
        cmp "$work/first/checkpoints/final/model.safetensors" "$work/second/checkpoints/final/model.safetensors" &&
        cmp "$work/first/checkpoints/final/megatrain/optimizer.safetensors" \
            "$work/second/checkpoints/final/megatrain/optimizer.safetensors"
}

# The command of a test that is named as in $unit.
unit_command() {
    command=("$build/tests/unit/device/${1%:*}")
    [ "$1" = "${1%:plain}" ] || command=(env MEGATRAIN_CUDA_PRODUCTS=plain MT_TEST_CASE=products_agree "${command[@]}")
}

# sanitize TOOL TEST SECONDS: a line of the table. What the tests did not reach in the tool's time is named, and is no failure;
# a report is one, but for races that racecheck sees in kernels of cuBLAS alone: only ours name a line of a source.
# Calls that fail are the tests' own business: some are meant to.
sanitize() {
    local tool=$1 name=compute-sanitizer limit=$3 code began=$SECONDS cases done_cases missing result
    local log=$work/sanitized
    [ "$(left)" -gt $((limit + 60 * slowness)) ] || limit=$(($(left) - 60 * slowness)) # the figures' share
    name="$name $tool, ${2#test_}"
    [ "$limit" -gt 5 ] || { echo "| $name | not run: no time left | |"; failed=1; return; }
    unit_command "$2"
    CMOCKA_MESSAGE_OUTPUT=TAP limited "$limit" compute-sanitizer --tool "$tool" --error-exitcode 9 --report-api-errors no \
        --target-processes all "${command[@]}" >"$log" 2>&1
    code=$?
    cases=$(sed -n 's/^\(not \)*ok [0-9]* - //p' "$work/cases-$2" 2>/dev/null)
    done_cases=$(sed -n 's/^ok [0-9]* - //p' "$log")
    missing=$(comm -23 <(sort <<<"$cases") <(sort <<<"$done_cases") | paste -sd, | sed 's/,/, /g')
    if grep -q '^not ok' "$log"; then
        result="**FAILED**: a test failed"
    elif grep -vE 'Host Frame' "$log" | grep -qE '^=+ .*\.(cu|h):[0-9]+' || { [ $code = 9 ] && [ "$tool" != racecheck ]; }; then
        result="**FAILED**: see its report below"
    elif [ $code = 124 ] || [ $code = 137 ]; then # its time was up
        result="nothing reported in $limit s; left out: ${missing:-not known}"
    elif [ $code = 9 ]; then
        result="passed; what it reports is in kernels of cuBLAS alone"
    elif [ $code != 0 ]; then
        result="**FAILED** ($code)"
    else
        result="passed, $(grep -c . <<<"$done_cases") cases${missing:+; left out: $missing}"
    fi
    echo "| $name | $result | $((SECONDS - began)) s |"
    case $result in
    *FAILED* | *cuBLAS*)
        { echo "### $name"; { grep -A 12 -m 3 -E '^=+ (Invalid|Error|Warning|Race|Uninit)' "$log"; tail -n 12 "$log"; } | sed 's/^/    /'; } >>"$work/failures"
        ;;
    esac
    case $result in *FAILED*) failed=1 ;; esac
}

# timeout runs programs, not functions: bash runs them for it.
export -f train losses follows_the_cpu same_bits_twice
export build work

for _ in $(seq 300); do echo "The quick brown fox jumps over the lazy dog, and number $_ follows it."; done >"$work/text.txt"

# ---- the report ----

echo "## $(date -u +%Y-%m-%d)$([ -n "$tiny" ] && echo ', simulated')"
echo
"$build/megatrain-worker" --task devices >"$work/devices" 2>&1
sed "s|}, *|},\n|g" "$work/devices" | sed "s|^|    |"
echo
# Nothing below could be true: the lines above say why.
grep -q '"kind":"cuda"[^}]*"usable":true' "$work/devices" || { echo "there is no CUDA device that can be used"; exit 1; }
echo "| check | result | time |"
echo "|---|---|---|"
export CMOCKA_MESSAGE_OUTPUT=TAP
operations() {
    for name in $unit; do
        unit_command "$name"
        check "operations: ${name#test_}" 90 "${command[@]}"
        cp "$work/out" "$work/cases-$name"
    done
}

golden() {
    [ -z "$tiny" ] || export MT_GOLDEN_CASE=${MT_GOLDEN_CASE-llama_gqa}
    local what=${MT_GOLDEN_CASE:+"golden cases $MT_GOLDEN_CASE*"}
    MT_GOLDEN_FAMILIES=1 check "${what:-golden cases, one of each family}, fp32 and bf16" 120 "$build/tests/unit/stream/test_golden"
}

jobs() {
    check "losses of 20 steps in bf16 follow the CPU's" 60 bash -c follows_the_cpu
    check "the same bits twice" 60 bash -c same_bits_twice
}

sanitizers() {
    for folder in /usr/local/cuda/{bin,compute-sanitizer} /usr/local/cuda-*/{bin,compute-sanitizer}; do
        [ -n "$tiny" ] || PATH=$PATH:$folder
    done
    command -v compute-sanitizer >/dev/null || { echo "| compute-sanitizer | not on this machine | |"; return; }
    local tool name units end left_units
    read -ra units <<<"$sanitized_units"
    for tool in memcheck racecheck; do
        end=$((SECONDS + sanitized_seconds * slowness)) left_units=${#units[@]}
        for name in "${units[@]}"; do # what one does not need the others may
            sanitize $tool "$name" $(((end - SECONDS) / left_units))
            left_units=$((left_units - 1))
        done
    done
}

figures() {
    echo
    for part in bus operations steps; do
        limited "$(($(left) > 5 ? $(left) : 5))" "$build/tests/gpu/figures" $tiny --part $part >"$work/out" 2>"$work/errors"
        code=$?
        cat "$work/out"
        [ $code = 0 ] || { failed=1; echo "**FAILED** ($code): $(tail -n 3 "$work/errors")"; }
        echo
    done
}

for part in $parts; do
    "$part"
done
echo
[ ! -s "$work/failures" ] || cat "$work/failures"
echo "$((SECONDS - start)) s in all; $([ $failed = 0 ] && echo every check passed || echo there were failures)"
exit $failed
