#!/bin/sh
# Runs the benchmark programs given, one after the other, and shows their lines
#   bench NAME VALUE UNIT LIMIT pass|fail
# Fails when a program fails, prints no such line, or misses a limit.
set -u
failed=0
if [ $# -eq 0 ]; then
    echo "no benchmarks: tests/bench/ has no programs"
fi
for program in "$@"; do
    name=$(basename "$program")
    log=${MT_BUILD:?}/check/bench-$name.log
    mkdir -p "$(dirname "$log")"
    "$program" >"$log" 2>&1
    status=$?
    cat "$log"
    if [ $status -ne 0 ] || ! grep -q '^bench ' "$log" || grep -q '^bench .* fail$' "$log"; then
        echo "bench: $name missed a limit or failed (status $status)" >&2
        failed=1
    fi
done
exit $failed
