#!/bin/bash
# tests/gpu/check.sh, which is for real GPUs, runs to its end on the simulated one, with a stand-in for compute-sanitizer;
# what runs under that launches every kernel; and its pack, where there is nvcc, holds a golden case of each family.
# time limit: 600 s
build=$(readlink -f "${MT_BUILD:-build}")
[ -e "$build/megatrain-cudasim.so" ] || { echo "skip checks of a GPU: there is no simulated module"; exit 0; }
slowness=1
case $build in *asan* | *tsan*) slowness=8 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# say NAME CODE FILE: a case, with what was printed where it failed.
say() {
    [ "$2" = 0 ] && { echo "ok $1"; return; }
    sed 's/^/# /' "$3" >&2
    echo "not ok $1"
    failed=1
}

# check_with STAND_IN VARIABLE=VALUE...: check.sh with a program in the place of compute-sanitizer, which finds the name
# of the tool in $tool and the command in "$@".
check_with() {
    mkdir -p "$work/bin"
    printf '#!/bin/bash\nwhile [ "${1#--}" != "$1" ]; do [ "$1" = --tool ] && tool=$2; shift 2; done\n%s\n' "$1" >"$work/bin/compute-sanitizer"
    chmod +x "$work/bin/compute-sanitizer"
    env PATH="$work/bin:$PATH" LIMIT_SECONDS=$((250 * slowness)) MT_CHECK_SLOWNESS=$slowness "${@:2}" \
        tests/gpu/check.sh --tiny >"$work/said" 2>&1
}

check_with "[ \$tool = racecheck ] || export CUDASIM_LAUNCHES=$work/launched; exec \"\$@\"" MT_CHECK_UNITS=test_norms
code=$?
grep -q 'every check passed' "$work/said" && grep -q '| tiny | attention, backward |' "$work/said" &&
    [ "$(grep -cE 'check, agreement(_products|_products:plain)? \| passed, [1-9]' "$work/said")" = 6 ] || code=1
say "the checks and figures for a GPU run on the simulated one" $code "$work/said"

CUDASIM_DEVICES=0 tests/gpu/check.sh --tiny >"$work/said" 2>&1
[ $? = 1 ] && grep -q 'no GPU is visible' "$work/said" && tail -n 1 "$work/said" | grep -q 'no CUDA device that can be used'
say "without a GPU the checks end at once and say why" $? "$work/said"

CUDASIM_MEMORY=16M MEGATRAIN_CUDA_MODULE=$build/megatrain-cudasim.so "$build/tests/gpu/figures" --tiny --part steps >"$work/said" 2>&1 &&
    grep -q '| tiny | not run: .*memory of cuda:0' "$work/said"
say "the figure of a step that the GPU has no room for is left out, with the numbers" $? "$work/said"

# The kernels that stand in the sources, and those that the sanitized tests launch.
grep -o '__global__ void [A-Za-z0-9_]*' gpu/kernels/*.cu | sed 's/:__global__ void /: /' | sort -u >"$work/kernels"
sed 's/: (*\([A-Za-z0-9_]*\).*/: \1/' "$work/launched" | sort -u >"$work/seen"
comm -23 "$work/kernels" "$work/seen" >"$work/missing"
[ -s "$work/kernels" ] && [ ! -s "$work/missing" ]
say "compute-sanitizer watches every kernel" $? "$work/missing"

# finds STAND_IN WANTED CODE [VARIABLE=VALUE...]: the line of the table that memcheck gets.
finds() {
    check_with "[ \$tool = racecheck ] && exec \"\$@\"; $1" MT_CHECK_PARTS='operations sanitizers' MT_CHECK_UNITS=test_cuda \
        MT_CHECK_SANITIZED=test_cuda "${@:4}"
    [ $? = "$3" ] && grep -q "memcheck, cuda | $2" "$work/said"
}
finds 'echo "========= Invalid __global__ write of size 4 bytes"; echo "=========     at add_kernel+0x50 in add.cu:21"; "$@"; exit 9' \
    '\*\*FAILED\*\*: see its report' 1 && grep -q 'add_kernel' "$work/said" &&
    finds 'exit 3' '\*\*FAILED\*\* (3)' 1 &&
    began=$SECONDS && # with one that takes no SIGTERM, as who waits for a GPU that hangs
    finds 'echo "ok 1 - libraries_are_opened_and_counted_with_the_device"; trap "" TERM; sleep 400' \
        'nothing reported in 6 s; left out: .*what_a_device_is_or_lacks_is_told_at_the_start, who_waits' 0 \
        MT_CHECK_SANITIZED_SECONDS=6 MT_CHECK_SLOWNESS=1 && [ $((SECONDS - began)) -lt 300 ]
say "what a sanitizer finds fails the checks, and what it had no time for is told" $? "$work/said"

if [ -e "$build/megatrain-cuda.so" ]; then # there is nvcc
    families=$(sed -n 's/^ *"model_type": *"\(.*\)".*/\1/p' tests/golden/*/config.json | sort -u)
    tests/gpu/check.sh --pack "$work/pack" >"$work/said" 2>&1
    code=$?
    packed=$(sed -n 's/^ *"model_type": *"\(.*\)".*/\1/p' "$work"/pack/tests/golden/*/config.json 2>/dev/null | sort)
    [ -n "$families" ] && [ "$packed" = "$families" ] || { code=1; diff <(echo "$families") <(echo "$packed") >>"$work/said"; }
    say "the pack holds one golden case of each family, and is small" $code "$work/said"
    # With its own programs and libraries, on the simulated device.
    (cd / && MEGATRAIN_CUDA_MODULE=$build/megatrain-cudasim.so MT_CHECK_PARTS='operations golden jobs' \
        MT_CHECK_UNITS=test_cuda MT_GOLDEN_CASE=gpt2 "$work/pack/check.sh") >"$work/said" 2>&1
    say "the pack's checks run from its folder" $? "$work/said"
    # Its module comes out of the archive and loads, whether there is a GPU or not.
    (cd / && MT_CHECK_PARTS=jobs "$work/pack/check.sh") >"$work/said" 2>&1
    grep -q '"versions":"CUDA driver' "$work/said"
    say "the pack brings its own module" $? "$work/said"
fi
exit $failed
