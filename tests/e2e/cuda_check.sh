#!/bin/sh
# tests/gpu/check.sh, which is for real GPUs, runs to its end on the simulated one, and gathers what it needs elsewhere.
# time limit: 300 s
build=${MT_BUILD:-build}
[ -e "$build/megatrain-cudasim.so" ] || { echo "skip checks of a GPU: there is no simulated module"; exit 0; }
slowness=1
case $build in *asan* | *tsan*) slowness=8 ;; esac
said=$(mktemp)
LIMIT_SECONDS=$((250 * slowness)) MT_CHECK_SLOWNESS=$slowness MT_CHECK_UNITS=test_norms tests/gpu/check.sh --tiny >"$said" 2>&1
code=$?
if [ $code = 0 ] && grep -q 'every check passed' "$said" && grep -q '| tiny | attention, backward |' "$said"; then
    echo "ok the checks and figures for a GPU run on the simulated one"
else
    cat "$said" >&2
    echo "not ok the checks and figures for a GPU run on the simulated one: exit $code"
    failed=1
fi
rm -f "$said"
exit ${failed:-0}
