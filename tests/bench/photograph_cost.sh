#!/usr/bin/env bash
# What a photograph costs the processor, HTTP and all: time of front and worker for a picture that the null backend answers, over that of a
# full decode of the same file by libjpeg-turbo, in turns; to 32 x 32 (cifar10-convnet), and to 224 x 224 of 256 as ImageNet's networks want it.
#   tests/bench/photograph_cost.sh [ROUNDS [SECONDS [CONNECTIONS]]]     7 3 1
# With one connection one core works at a time, as with the decode beside it. Medians of the rounds, and of the ratios.
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-7} seconds=${2:-3} connections=${3:-1}
needs wrk wrk
decode=$build/bin/bench_decode_time
[ -x "$decode" ] || die "$decode is missing: build first (./build.sh release)"
"$python" - "$measured/imagenet" <<'PYTHON'
import json, pathlib, sys
sys.path.insert(0, "tests/tools")
from hostile_models import model, node
folder = pathlib.Path(sys.argv[1])
(folder / "1").mkdir(parents=True)
nodes = [node("GlobalAveragePool", "pool", ["x"], ["p"]), node("Flatten", "flat", ["p"], ["y"])]
(folder / "1" / "model.onnx").write_bytes(model(nodes, given=(-1, 3, 224, 224)))
(folder / "config.json").write_text(json.dumps({"input": {"preset": "imagenet"}}))
PYTHON
printf '{}' >"$work/config.json" # the built-in values, whatever lies in ./config
serve null --config "$work/config.json" --models "$measured"
worker=$(pgrep -P "$daemon" convoy-worker)

# full TARGET: microseconds of a full decode.
full() { "$decode" "$IMAGE" "$1" | sed -n 's/.*: full decode \([0-9]*\) us.*/\1/p'; }

# busy_us: processor time of the threads of front and worker so far, to the nanosecond; that of ticks (lib.sh) is sampled by the kernel's timer.
busy_us() { local pid; for pid in $(with_front "$daemon" "$worker"); do cat "/proc/$pid/task/"*/schedstat; done | awk '{ s += $1 } END { printf "%.0f\n", s / 1000 }'; }

# cost MODEL: microseconds of processor time a picture, and how many were not answered.
cost() {
  local before result
  before=$(busy_us)
  result=$(drive "$url/v2/models/$1/classify?top=1" "$connections" "$seconds")
  awk -v us="$(($(busy_us) - before))" -v r="$result" -v s="$seconds" 'BEGIN { split(r, f, " "); printf "%.1f %d\n", us / (f[1] * s), f[4] }'
}

for size in "500 375" "1920 1080"; do
  read -r width height <<<"$size"
  export IMAGE=$work/$width.jpg
  "$python" tests/bench/photograph.py "$width" "$height" "$IMAGE" || die "Pillow is missing (Debian package python3-pil)"
  for to in "cifar10-convnet 32" "imagenet 224/256"; do
    read -r name target <<<"$to"
    rm -f "$work/ours" "$work/full"
    drive "$url/v2/models/$name/classify?top=1" "$connections" 1 >/dev/null
    for ((i = 0; i < rounds; i++)); do
      cost "$name" >>"$work/ours"
      full "$target" >>"$work/full"
    done
    echo "$width x $height, $(stat -c %s "$IMAGE") bytes, to $target: $(median 1 <"$work/ours") us, full decode $(median 1 <"$work/full") us, ratio $(ratios "$work/ours" "$work/full")," \
      "not answered $(awk '{ n += $2 } END { print n + 0 }' "$work/ours")"
  done
done
