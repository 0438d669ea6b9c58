#!/usr/bin/env bash
# Images a second through the channel with one GPU and with two at once, in turns: tests/bench/devices.sh PACK_OR_BUILD
# [SECONDS [ROUNDS]]; medians of 5 rounds of 3 s, 3 streams, 8 slots, kernels tuned before the first round. Each device has a
# worker and a channel of its own, one process plays the front to all (channel_rate.c). The environment may say BACKEND
# (cuda), DEVICES (2), BATCHES, a list of MODEL:BATCH, and CACHE, a folder for kernel times that stays.
# Where there is no GPU two are emulated, each on a core: that shows that it runs, and says nothing about GPUs.
[ -x "${1:-}/bin/bench_channel_rate" ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
CONVOY_BUILD=$(cd "$1" && pwd)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"

seconds=${2:-3}
rounds=${3:-5}
backend=${BACKEND:-cuda}
devices=${DEVICES:-2}
batches="cifar10-resnet:1024 cifar10-convnet:10000 fashion-ece408:10000 fashion-lenet:10000 cifar10-resnet:256 cifar10-convnet:256"
[ "$backend" = cuda ] || batches="cifar10-convnet:256"
if [ "$backend" = cuda ]; then
  tree=$build
  needs_cuda
  if [ -n "$emulated" ]; then
    cp "$tree/bin/bench_channel_rate" "$build/bin/"
    export CONVOY_EMULATED_DEVICES=${CONVOY_EMULATED_DEVICES:-$devices} TUNE=off
    batches="fashion-lenet:4"
  fi
fi
read -rd '' -a batches <<<"${BATCHES:-$batches}" || true
cache=${CACHE:-$work/cache}
mkdir -p "$cache"

# measure MODEL:BATCH DEVICES: a line of $work/lines, or status 3 when there are not so many devices.
measure() {
  local status=0
  "$build/bin/bench_channel_rate" "$backend" "models/${1%:*}/1/model.onnx" "${1#*:}" 8 3 "$seconds" "$cache" "$2" \
    >"$work/line" 2>"$work/log" || status=$?
  [ $status -ne 3 ] || return 3
  [ $status -eq 0 ] || fail "$1 on $2"
  sed "s/^{/{\"model\": \"${1%:*}\", \"count\": $2, /" "$work/line" >>"$work/lines"
  echo "round $round, $2: $(cat "$work/line")" >&2
}

for ((round = 1; round <= rounds; round++)); do
  for batch in "${batches[@]}"; do
    # Who is first changes, so that what warms up or cools down is no one's advantage.
    order=("$devices" 1)
    [ $((round % 2)) -eq 1 ] || order=(1 "$devices")
    for count in "${order[@]}"; do
      [ "$count" -gt 0 ] || continue
      status=0
      measure "$batch" "$count" || status=$?
      if [ $status -eq 3 ]; then
        echo "THERE IS ONE DEVICE ONLY, or fewer than $devices: $(tail -n 1 "$work/log"). No ratio can be measured here." >&2
        devices=0
      elif [ $status -ne 0 ]; then
        exit $status
      fi
    done
  done
done
"$python" -S - "$work/lines" <<'PYTHON'
import json, statistics, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
most = max(line["count"] for line in lines)
print("| model | batch | 1 device, images/s |" + (" %d devices, images/s | ratio | least to greatest |" % most if most > 1 else ""))
print("| --- |" + " ---: |" * (5 if most > 1 else 2))
for model, batch in dict.fromkeys((line["model"], line["batch"]) for line in lines):
    runs = {count: [line["images_per_s"] for line in lines if (line["model"], line["batch"], line["count"]) == (model, batch, count)]
            for count in (1, most)}
    cells = ["%.0f" % statistics.median(runs[1])]
    if most > 1:
        ratios = [several / one for one, several in zip(runs[1], runs[most])]
        cells += ["%.0f" % statistics.median(runs[most]), "%.2f" % statistics.median(ratios), "%.2f to %.2f" % (min(ratios), max(ratios))]
    print("| %s | %d | " % (model, batch) + " | ".join(cells) + " |")
several = next((line for line in lines if line["count"] == most), lines[0])
print("devices %s, %d streams, %d slots, precision %s, medians of %d rounds%s" % (
    ", ".join(several.get("devices", [several["device"]])), several["streams"], several["slots"],
    ", ".join(sorted({line["precision"] for line in lines})), len(runs[1]), "" if most > 1 else "; one device only, no ratio"))
PYTHON
