#!/usr/bin/env bash
# Measures convoyd at four times its capacity in open loop: what is served and within what time, how soon the rest is refused, how
# soon /metrics and health answer meanwhile, and the memory. Three things limit the capacity in turn:
#   device   a worker that takes 5 ms for each image, asleep (CONVOY_TEST_FAULT=pace): as with a GPU, the cores are free
#   network  a network that the CPU backend computes in some 10 ms, on the cores that the load generator uses too
#   decoder  JPEGs of 1600 x 1200 pixels and the null backend: the front itself is the limit
# and, only if it is named, with a GPU or an emulated one:
#   engines:WIDTHxHEIGHT[:QUALITY]   photographs of that size, which the GPU's JPEG engines decode: they, or the bytes' way to them, are the
#            limit; a lower QUALITY than 85 makes the files smaller, where the generator cannot send so many bytes
#   [GENERATOR=COMMAND] tests/bench/overload.sh [SECONDS [ROUNDS [KIND...]]]
# GENERATOR is what the load generator and the witness are started with: GENERATOR="taskset -c 16-31" taskset -c 0-15 tests/bench/overload.sh
# gives them cores of their own.
# Capacity is the rate of a closed loop of 64 connections (of engines on a GPU 256) just before, of the same generator and daemon. A round counts
# only if the generator kept up (nothing unsent, and 99 % of the requests sent within 50 ms after they were due) and nothing was
# answered wrongly: each request has a 200 within its deadline or a 503, and a witness that asks beside the load (tests/tools/load.py)
# finds Retry-After with each 503, and predictions with each 200.
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
seconds=${1:-30}
rounds=${2:-3}
kinds=("${@:3}")
read -ra generator <<<"${GENERATOR:-}"
[ ${#kinds[@]} -gt 0 ] || kinds=(device network decoder)

timeout_ms=10000 # the built-in value
whole=$build     # the build, or the pack; a kind may need another

# metric NAME: the sum over its series.
metric() { curl -fsS "$url/metrics" | awk -v n="$1" 'index($0, n) == 1 { s += $NF } END { print s + 0 }'; }

start() { # kind
  local backend=null options=(--models "$measured") pace='' config='{}'
  images=models/samples build=$whole counted='' connections=64
  case $1 in
    device)
      pace=pace:5000
      ;;
    network)
      [ -d "$work/slow" ] || python3 tests/bench/slow_network.py "$work/slow" 10
      backend=cpu
      options=(--models "$work/slow")
      ;;
    decoder)
      mkdir -p "$work/large"
      "$python" - models/samples/ship.jpg "$work/large/ship.jpg" <<'PYTHON'
import sys
from PIL import Image
Image.open(sys.argv[1]).resize((1600, 1200), Image.BICUBIC).save(sys.argv[2], quality=50)
PYTHON
      images=$work/large
      ;;
    engines:[0-9]*x[0-9]*)
      local size=${1#*:} quality=85 i
      [[ $size != *:* ]] || { quality=${size#*:}; size=${size%:*}; }
      backend=cuda images=$work/$size-$quality counted=yes connections=256
      # Else the generator's 4000 connections wait for answers before the queue is full.
      config='{"images": {"decoder": "gpu"}, "batching": {"max_queue": 1024}}'
      if [ ! -d "$images" ]; then
        mkdir "$images"
        for i in 1 2 3 4; do
          "$python" tests/bench/photograph.py "${size%x*}" "${size#*x}" "$images/$i.jpg" "$quality" || die "Pillow is missing (Debian package python3-pil)"
        done
      fi
      backend_here cuda
      if [ -n "$emulated" ]; then
        engines_here
        connections=64
        config='{"images": {"decoder": "gpu"}, "tune": "off", "batching": {"max_batch": 4}, "worker": {"hang_timeout_ms": 20000}}'
      fi
      ;;
    *)
      die "the kinds are device, network, decoder and engines:WIDTHxHEIGHT[:QUALITY], not $1"
      ;;
  esac
  printf '%s' "$config" >"$work/config.json" # else the built-in values, whatever lies in ./config
  export CONVOY_TEST_FAULT=$pace
  serve $backend --config "$work/config.json" "${options[@]}"
  [ $backend != cuda ] || until_tuned cuda
}

bench() { "${generator[@]}" "$whole/bin/convoy" bench --url "$url" --json "$@" "$images" || [ $? -eq 1 ]; }

# judge KIND: puts the figures of a round together, prints them and keeps them.
judge() {
  "$python" - "$1" "$work" "$seconds" "$timeout_ms" <<'PYTHON'
import json, sys
kind, work, seconds, timeout_ms = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
closed, load, probe, witness, decoded = (
    json.load(open(f"{work}/{name}.json")) for name in ("closed", "open", "probe", "witness", "decoded")
)
capacity = closed["images_per_second"]
sent = sum(load["statuses"].values()) + load["no_answer"]
lag, refusal, answer = load["send_lag_ms"], load.get("refusal_ms", {}), load["latency_ms"]
pages = probe["pages"].values()
figures = {
    "capacity": capacity,
    "offered": sent / seconds / capacity,
    "served": load["images_per_second"] / capacity,
    "answer p99": answer["p99"],
    "answer longest": answer["max"],
    "refusal p50": refusal.get("p50", 0),
    "refusal p99": refusal.get("p99", 0),
    "refusal longest": refusal.get("max", 0),
    "pages p99": max(page["p99_ms"] for page in pages),
    "pages longest": max(page["longest_ms"] for page in pages),
    "memory": probe["memory_kb"]["warm"] / 1000,
    "growth": (probe["memory_kb"]["end"] - probe["memory_kb"]["warm"]) / 1000,
}
why = []
if load["not_sent"] or lag["p99"] > 50:
    why.append(f"the generator did not keep up ({load['not_sent']} unsent, 99 % within {lag['p99']:.1f} ms)")
if load["no_answer"] or any(page["wrong"] for page in pages) or set(load["statuses"]) - {"200", "503"}:
    why.append(f"wrong answers: {load['statuses']}, {load['no_answer']} without, {probe['pages']}")
if answer["max"] > timeout_ms + lag["max"]:
    why.append(f"an answer came after {answer['max']:.0f} ms, later than its deadline of {timeout_ms:.0f} ms")
if witness["wrong"] or witness["lost"] or not witness["requests"]:
    why.append(f"the witness: {witness}")
if load["statuses"].get("503") and not witness["refused"]:
    why.append("the witness saw no refusal")
if decoded and (decoded["cpu"] or decoded["back"] or not decoded["gpu"]):
    why.append(f"decoded by the GPU {decoded['gpu']}, by the processor {decoded['cpu']}, of which it had {decoded['back']} back")
print(f"{kind}: " + ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
      + f", sent late by 99 % {lag['p99']:.2f} longest {lag['max']:.2f}" + "".join("; NOT COUNTED: " + w for w in why))
if not why:
    open(f"{work}/{kind}.rounds", "a").write(json.dumps(figures) + "\n")
PYTHON
}

for kind in "${kinds[@]}"; do
  for ((round = 0; round < rounds; round++)); do
    start "$kind"
    bench --connections "$connections" --seconds 6 >"$work/closed.json"
    rate=$("$python" -c 'import json, sys; print(4 * json.load(open(sys.argv[1]))["requests_per_second"])' "$work/closed.json")
    "${generator[@]}" "$python" tests/tools/probe.py --seconds "$seconds" "$url" "$daemon" "$(pgrep -P "$daemon" -x convoyd)" "$(pgrep -P "$daemon" convoy-worker)" \
      >"$work/probe.json" &
    probe=$!
    pids+=("$probe")
    files=("$images"/*.jpg)
    # At a hundredth of the rate, within what one thread of Python does.
    "${generator[@]}" "$python" tests/tools/load.py "$url" --rate "$(awk -v r="$rate" 'BEGIN { print (r < 500 ? 5 : (r > 5000 ? 50 : r / 100)) }')" \
      --connections 200 --seconds "$seconds" --json --query top=1 --image "${files[0]}" >"$work/witness.json" &
    witness=$!
    pids+=("$witness")
    bench --rate "$rate" --connections 4000 --seconds "$seconds" >"$work/open.json"
    wait "$probe"
    wait "$witness" || [ -s "$work/witness.json" ] || die "the witness failed"
    echo null >"$work/decoded.json"
    [ -z "$counted" ] || printf '{"gpu": %s, "cpu": %s, "back": %s}' "$(metric 'convoyd_decoded_images_total{model="cifar10-convnet",decoder="gpu"}')" \
      "$(metric 'convoyd_decoded_images_total{model="cifar10-convnet",decoder="cpu"}')" "$(metric convoyd_undecoded_images_total)" >"$work/decoded.json"
    kill -TERM "$daemon"
    wait "$daemon"
    pids=()
    judge "$kind"
  done
done
echo
"$python" - "$work" "${kinds[@]}" <<'PYTHON'
import json, pathlib, statistics, sys
for kind in sys.argv[2:]:
    path = pathlib.Path(sys.argv[1], f"{kind}.rounds")
    rounds = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if not rounds:
        print(f"{kind}: no round counts")
        continue
    m = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    print(f"{kind} (median of {len(rounds)}): capacity {m['capacity']:.0f} images/s, offered {m['offered']:.2f} and "
          f"served {m['served']:.2f} of it, 99 % within {m['answer p99']:.0f} ms, longest {m['answer longest']:.0f} ms; 503 after {m['refusal p50']:.2f} ms, 99 % {m['refusal p99']:.1f} ms, longest "
          f"{m['refusal longest']:.1f} ms; health and metrics 99 % {m['pages p99']:.1f} ms, longest "
          f"{m['pages longest']:.1f} ms; memory {m['memory']:.1f} MB, {m['growth']:+.1f} MB later")
PYTHON
