#!/bin/sh
# The streaming executor on the simulated CUDA device under ThreadSanitizer: clean as it is, and each event wait of its
# schedule that is left out is a reported race (tests/unit/stream/test_waits.c).
# time limit: 600 s
build=${MT_BUILD:-build}
[ -x "$build/tests/cudasim/executor_races" ] || { echo "skip the executor under ThreadSanitizer: this build has another sanitizer"; exit 0; }
unset TSAN_OPTIONS # the program has its own
said=$(mktemp)
trap 'rm -f "$said"' EXIT
# Where the kernel spreads addresses wider than ThreadSanitizer was built for, it starts only now and then.
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    MEGATRAIN_CUDA_MODULE=$build/tests/cudasim/megatrain-cudasim-tsan.so "$build/tests/cudasim/executor_races" >"$said" 2>&1
    code=$?
    grep -q 'unexpected memory mapping' "$said" || break
done
cat "$said"
exit $code
