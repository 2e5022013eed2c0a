#!/bin/bash
# The demo: starts megatraind with a state folder of its own, submits a job over HTTP, watches it train a small model from
# scratch, and asks the trained checkpoint ten questions about numbers that were held out of the training data.
# Everything it writes stands in $MT_BUILD/demo; a second run starts afresh.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=${MT_BUILD:-$here/../build}
home=$build/demo
state=$home/state
steps=${MT_DEMO_STEPS:-}

daemon=
stop_daemon() {
    if [ -n "$daemon" ] && kill -0 "$daemon" 2>/dev/null; then
        kill -TERM "$daemon"
        wait "$daemon" 2>/dev/null || true
    fi
    daemon=
}
trap stop_daemon EXIT
fail() {
    echo "demo: $*" >&2
    [ -s "$home/megatraind.log" ] && { echo "--- the daemon's last lines:" >&2; tail -n 15 "$home/megatraind.log" >&2; }
    exit 1
}
# A member of the JSON on standard input: field state, field progress step
field() {
    python3 -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1:]:
    value = value.get(key) if isinstance(value, dict) else None
print("" if value is None else value)' "$@"
}

rm -rf "$home"
mkdir -p "$state/datasets/numbers"
echo "1. Data: numbers in digits and in English words, both ways"
python3 "$here/make_numbers.py" "$state/datasets/numbers" --held-out 50

echo "2. The daemon"
"$build/megatraind" --state-dir "$state" --listen 127.0.0.1:0 >"$home/megatraind.log" 2>&1 &
daemon=$!
for _ in $(seq 100); do
    [ -s "$state/listen" ] && break
    kill -0 "$daemon" 2>/dev/null || fail "megatraind did not start"
    sleep 0.1
done
[ -s "$state/listen" ] || fail "megatraind does not listen"
address=$(head -n 1 "$state/listen")
case $address in http://*) url=$address ;; *) url=http://$address ;; esac
curl -fsS "$url/readyz" >/dev/null || fail "megatraind is not ready"
echo "   listens on $url"

echo "3. The job: POST $url/jobs"
job=$(sed "s/\"max_steps\": *[0-9]*/\"max_steps\": ${steps:-$(sed -n 's/.*"max_steps": *\([0-9]*\).*/\1/p' "$here/numbers.json")}/" "$here/numbers.json")
answer=$(curl -sS -X POST "$url/jobs" -H 'Content-Type: application/json' --data-binary "$job") || fail "the daemon did not answer"
id=$(printf '%s' "$answer" | field id)
[ -n "$id" ] || fail "the job was refused: $answer"
echo "   $id"

show() { # step max loss rate eta
    if [ -t 1 ]; then
        printf '\r   step %s/%s  loss %.4f  %.0f tokens/s  %.0f s left   ' "$@"
    else
        printf '   step %s/%s  loss %.4f  %.0f tokens/s  %.0f s left\n' "$@"
    fi
}
started=$SECONDS
moved=$SECONDS
last=
while :; do
    job=$(curl -fsS "$url/jobs/$id") || fail "the daemon went away"
    now=$(printf '%s' "$job" | field state)
    step=$(printf '%s' "$job" | field progress step)
    max=$(printf '%s' "$job" | field progress max_steps)
    loss=$(printf '%s' "$job" | field progress loss)
    rate=$(printf '%s' "$job" | field progress tokens_per_second)
    eta=$(printf '%s' "$job" | field progress eta_seconds)
    [ -n "$loss" ] && show "${step:-0}" "${max:-0}" "$loss" "${rate:-0}" "${eta:-0}"
    case $now in
    completed) break ;;
    failed | cancelled | paused) echo; fail "the job ended as $now: $(printf '%s' "$job" | field error message)" ;;
    esac
    [ "$step" = "$last" ] || moved=$SECONDS
    last=$step
    [ $((SECONDS - moved)) -lt 300 ] || fail "the job has made no step for five minutes"
    if [ -t 1 ]; then sleep 1; else sleep 5; fi
done
[ -t 1 ] && echo
echo "   completed in $((SECONDS - started)) s"

echo "4. Ten questions about numbers that it has never seen"
right=0
total=0
while IFS=$'\t' read -r prompt wanted; do
    got=$("$build/megatrain" generate --model "$state/jobs/$id" --prompt "$prompt" --max-new-tokens 64) ||
        fail "the trained model does not answer"
    got=${got# }
    total=$((total + 1))
    if [ "$got" = "$wanted" ]; then
        right=$((right + 1))
        mark=right
    else
        mark="wrong: it is $wanted"
    fi
    printf '   %-34s %-34s %s\n' "$prompt" "$got" "$mark"
done < <(python3 -c '
import json, sys
for question in json.load(open(sys.argv[1])):
    print(question["prompt"], question["answer"], sep="\t")' "$state/datasets/numbers/held_out.json")
stop_daemon
echo "$right of $total right"
[ "$right" -ge 9 ] || fail "fewer than 9 right answers: the training did not work as it should"
cat <<TEXT

The trained model is a folder that transformers loads: $state/jobs/$id/checkpoints/final
Next:
  $build/megatrain generate --model $state/jobs/$id --prompt '706 ='
  $build/megatraind --state-dir ~/megatrain --listen 127.0.0.1:8642     # a daemon of your own
  $build/megatrain submit JOB.yaml                                      # a job for it; docs/job.md says what it may hold
TEXT
