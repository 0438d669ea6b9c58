#!/usr/bin/env bash
# tests/bench/channel.sh at work: its program starts a worker, measures and prints a number for each column. No speed is judged.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

[ -e "$build/bin/convoy-backend-cpu.so" ] || skip "there is no CPU backend"

echo "A round of one model on the CPU."
BACKEND=cpu BATCHES=fashion-lenet:4 CACHE=$work/cache tests/bench/channel.sh "$build" 0.2 1 >"$work/out" 2>"$work/log" ||
  fail "it does not measure: $(cat "$work/out" "$work/log")"
line=$(sed -n 's/^round 1: //p' "$work/log")
[ "$(json <(echo "$line") "d['images_per_s'] > 0 and d['kernel_images_per_s'] > 0 and d['batch'] == 4")" = True ] ||
  fail "no such figures: $(cat "$work/out" "$work/log")"
grep '^| fashion-lenet | 4 | ' "$work/out" >/dev/null || fail "no line of the table: $(cat "$work/out")"

echo "A model that is not there is told."
if "$build/bin/bench_channel_rate" cpu models/none/1/model.onnx 4 2 1 0.2 >"$work/out" 2>"$work/log"; then
  fail "it measures a model that is not there"
fi
grep 'models/none' "$work/log" >/dev/null || fail "it does not name what is missing: $(cat "$work/log")"
