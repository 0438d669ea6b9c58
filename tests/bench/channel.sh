#!/usr/bin/env bash
# Images a second through the channel (bench_channel_rate) beside what the kernels and the copies alone would allow, for
# the models that ship: tests/bench/channel.sh PACK_OR_BUILD [SECONDS [ROUNDS]]; medians of 3 rounds of 3 s, 3 streams,
# 8 slots, kernels tuned before the first round. The environment may say BACKEND (cuda), BATCHES, a list of MODEL:BATCH (an
# emulated GPU needs small ones: "fashion-lenet:4"), and CACHE, a folder for kernel times that stays.
[ -x "${1:-}/bin/bench_channel_rate" ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
CONVOY_BUILD=$(cd "$1" && pwd)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"

seconds=${2:-3}
rounds=${3:-3}
backend=${BACKEND:-cuda}
if [ "$backend" = cuda ]; then
  tree=$build
  needs_cuda
  [ -z "$emulated" ] || cp "$tree/bin/bench_channel_rate" "$build/bin/"
fi
# 21,845 rows of 3,072 bytes are a slot of 64 MiB, the largest.
read -rd '' -a batches <<<"${BATCHES:-fashion-lenet:10000 cifar10-convnet:10000 fashion-ece408:10000
  cifar10-resnet:1024 cifar10-resnet:21845 fashion-lenet:256 cifar10-convnet:256 fashion-ece408:256 cifar10-resnet:256}" || true
cache=${CACHE:-$work/cache}
mkdir -p "$cache"
for ((round = 1; round <= rounds; round++)); do
  for batch in "${batches[@]}"; do
    "$build/bin/bench_channel_rate" "$backend" "models/${batch%:*}/1/model.onnx" "${batch#*:}" 8 3 "$seconds" \
      "$cache" >"$work/line" 2>"$work/log" || fail "$batch"
    sed "s/^{/{\"model\": \"${batch%:*}\", /" "$work/line" >>"$work/lines"
    # What was tuned, and how long it took.
    grep ' is tuned: ' "$work/log" >&2 || true
    echo "round $round: $(cat "$work/line")" >&2
  done
done
"$python" - "$work/lines" <<'PYTHON'
import json, statistics, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
columns = [("images/s", "images_per_s", "%.0f"),
           ("kernels alone", "kernel_images_per_s", "%.0f"), ("ratio", "of_kernels", "%.2f"),
           ("copies, GB/s", "copy_gb_per_s", "%.1f"),
           ("copies alone", "copy_images_per_s", "%.0f"), ("ratio", "of_copies", "%.2f"),
           ("input_us", "input_us", "%.1f"), ("compute_us", "compute_us", "%.1f"), ("output_us", "output_us", "%.1f"),
           ("busy compute_us", "busy_compute_us", "%.1f")]
print("| model | batch | " + " | ".join(name for name, _, _ in columns) + " |")
print("| --- |" + " ---: |" * (len(columns) + 1))
for model, batch in dict.fromkeys((line["model"], line["batch"]) for line in lines):
    runs = [line for line in lines if (line["model"], line["batch"]) == (model, batch)]
    cells = []
    for _, key, form in columns:
        values = [run[key] for run in runs if run[key] is not None]
        cells.append(form % statistics.median(values) if values else "-")
    print("| %s | %d | " % (model, batch) + " | ".join(cells) + " |")
print("device %s, %d streams, %d slots, precision %s, medians of %d" % (
    lines[0]["device"], lines[0]["streams"], lines[0]["slots"], ", ".join(sorted({l["precision"] for l in lines})), len(runs)))
PYTHON
