#!/usr/bin/env bash
# What a flood on one model does to another, on one device: tests/bench/fairness.sh [ROUNDS [SECONDS [BACKEND]]]
# A flood is 16 connections that send requests of 256 rows of pixels in closed loop: nothing is decoded, so that the device has
# more to do than it can.
# 1. p50 and p99 of single images for cifar10-convnet, 20 a second in open loop (Poisson), alone and while cifar10-resnet is
#    flooded; medians of the rounds and of their ratios.
# 2. The device's time (convoyd_compute_seconds) that a model and its copy get while both are flooded, weights alike and 3 to 1:
#    cifar10-convnet on the CPU, cifar10-resnet on a GPU, which needs more than HTTP brings of the other.
# BACKEND is cpu, or cuda. CONVOY_BUILD=PACK measures a tree that tests/gpu/pack.sh made.
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5}
seconds=${2:-5}
backend=${3:-cpu}
needs wrk wrk
backend_here "$backend" convoy
small_jpeg
cp -r models/cifar10-resnet "$measured"

"$python" tests/bench/infer_body.py UINT8 256 >"$work/pixels"
flood() { # MODEL: until its process is ended
  IMAGE=$work/pixels HEADER_LENGTH=$(head -n 1 "$work/pixels" | wc -c) \
    wrk -t2 -c16 -d3600s --timeout 60s -s tests/bench/post.lua "$url/v2/models/$1/infer" >"$work/flood-$1" &
  flooder=$!
  pids+=("$flooder")
}
waiting() { curl -fs "$url/metrics" | awk -v name="convoyd_queue_images{model=\"$1\"}" '$1 == name && $2 >= 256 { found = 1 } END { exit !found }'; }
until_idle() { until curl -fs "$url/metrics" | grep '^convoyd_slots_in_use 0$' >/dev/null; do sleep 0.05; done; }
until_flooded() { until waiting "$1"; do sleep 0.05; done; }
probe() { # p50 and p99 in ms
  { "$build/bin/convoy" bench --url "$url" --model cifar10-convnet --rate 20 --seconds "$seconds" --json "$IMAGE" || true; } |
    "$python" -c 'import json, sys; d = json.load(sys.stdin); print(d["latency_ms"]["p50"], d["latency_ms"]["p99"], d["statuses"])'
}
# batches MODEL: device seconds and batches so far; batch_ms BEFORE AFTER: their mean.
batches() {
  curl -fs "$url/metrics" | awk -v sum="convoyd_compute_seconds_sum{model=\"$1\"}" -v count="convoyd_compute_seconds_count{model=\"$1\"}" \
    '$1 == sum { s = $2 } $1 == count { n = $2 } END { print s, n }'
}
batch_ms() { awk -v a="$1" -v b="$2" 'BEGIN { split(a, x); split(b, y); printf "%.1f\n", (y[1] - x[1]) / (y[2] - x[2]) * 1000 }'; }
device_time() { curl -fs "$url/metrics" | awk -v name="convoyd_compute_seconds_sum{model=\"$1\"}" '$1 == name { print $2 }'; }

serve "$backend" --models "$measured"
for ((i = 0; i < rounds; i++)); do
  probe >>"$work/alone"
  flood cifar10-resnet
  until_flooded cifar10-resnet
  before=$(batches cifar10-resnet)
  probe >>"$work/flooded"
  batch_ms "$before" "$(batches cifar10-resnet)" >>"$work/batch"
  kill -TERM "$flooder"
  wait "$flooder" || true
  until_idle # what it left in the queue is computed for a client that is gone
done
echo "1. Single images for cifar10-convnet, $backend backend"
echo "alone:                    p50 $(median 1 <"$work/alone") ms, p99 $(median 2 <"$work/alone") ms"
echo "cifar10-resnet is flooded: p50 $(median 1 <"$work/flooded") ms, p99 $(median 2 <"$work/flooded") ms; a batch of it takes $(median 1 <"$work/batch") ms"
echo "answers: $(awk '{ $1 = $2 = ""; print }' "$work/flooded" | sort | uniq -c | tr '\n' ';')"
end_daemon

pair=cifar10-convnet
[ "$backend" = cpu ] || pair=cifar10-resnet
cp -r "models/$pair" "$measured/copy"
for weight in 1 3; do
  "$python" - "$measured/copy/config.json" $weight <<'PYTHON'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    config = json.load(file)
config.setdefault("batching", {})["weight"] = int(sys.argv[2])
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(config, file)
PYTHON
  serve "$backend" --models "$measured"
  flood $pair
  first=$flooder
  flood copy
  until_flooded $pair
  until_flooded copy
  of_pair=$(device_time $pair) of_copy=$(device_time copy)
  sleep $((seconds * 2))
  awk -v a="$(device_time copy)" -v b="$of_copy" -v c="$(device_time $pair)" -v d="$of_pair" -v w=$weight -v of=$pair -v s=$((seconds * 2)) \
    'BEGIN { printf "2. both flooded, weights %d to 1: a copy of %s had %.2f times its device time; both together %.0f %% of the time\n", w, of, (a - b) / (c - d), (a - b + c - d) / s * 100 }'
  kill -TERM "$first" "$flooder"
  wait "$first" "$flooder" || true
  end_daemon
done
