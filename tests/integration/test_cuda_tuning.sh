#!/usr/bin/env bash
# sanitize: all
# Tuning seen from outside, on a GPU where there is one, else on the emulation: the daemon serves while it tunes, says
# when it is done, remembers it, and gives tuning up when workers die of it.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

needs_cuda
image=models/samples/ship.jpg
classify=/v2/models/net/classify
calls() { sample "convoyd_cuda_calls_total{device=\"cuda:0\",call=\"$1\"}"; }
memory() { sample "convoyd_device_memory_bytes{device=\"cuda:0\",kind=\"$1\"}"; }
weights() { sample 'convoyd_weight_bytes{model="net",version="1",device="cuda:0"}'; }
kernels() {
  expect 200 --data-binary @$image "$url$classify?profile=1"
  json "$work/body" '[(l["name"], l["kernel"]) for l in d["layers"]]'
}
precision() { curl -fsS "$url/v2/models/net" | "$python" -S -c 'import json, sys; print(json.load(sys.stdin)["precision"])'; }
logged() { grep -q "$@" "$work/log"; }
# phases NAME COUNT: the worker has been in that phase so many times.
phases() { [ "$(grep -c "msg=\"worker's phase\".* phase=$1" "$work/log")" -ge "$2" ]; }
last_phase() { [ "$(grep -o 'phase=[a-z]*' "$work/log" | tail -n 1)" = "phase=$1" ]; }
# died COUNT: so many workers have.
died() { [ "$(grep -c 'msg="worker died' "$work/log")" -ge "$1" ]; }
# It has tuned, or looked whether there is anything to tune, and is done.
at_rest() { phases tuning 1 && last_phase running; }
# On a busy machine an emulated batch takes a second, under a sanitizer several.
hang_ms=3000
if [[ $build == *san* ]]; then hang_ms=6000; fi
settings=("models=\"$work/models\"" "cache_dir=\"$work/cache\"" timeout_ms=60000 'log={"level": "debug"}'
  "worker={\"hang_timeout_ms\": $hang_ms}")
ship() {
  expect 200 --data-binary @$image "$url$classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = ship ] || fail "$(cat "$work/body")"
}

# One bucket, so that it does not take long.
mkdir -p "$work/models/net"
cp -r models/cifar10-convnet/. "$work/models/net"
"$python" -S - "$work/models/net/config.json" <<'PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
config["batching"]["max_batch"] = 1
config["precision"] = "fp16"
json.dump(config, open(sys.argv[1], "w"))
PYTHON

echo "Serves while it tunes, and no worker is taken for one that hangs."
# On the emulation: as if what launches fewer kernels were faster, so that the network runs whole, by the first kernel of those
# that can, which rounds nothing.
export CONVOY_EMULATED_CLOCK=launches
configure "${settings[@]}"
start --config "$work/config.json" --backend cuda
before=$(kernels)
[ -z "$emulated" ] || [ "$(precision)" = fp16 ] || fail "precision $(precision) is in use before it is tuned"
for _ in {1..5}; do ship; done
until_true 200 logged "text=\"model 'net' is tuned: .* layers, .* shapes timed in" || fail "it is never tuned"
until_true 5 at_rest || fail "the worker goes on tuning"
logged 'worker died' && fail "a worker died"
after=$(kernels)
[ -z "$emulated" ] || [ "$(precision)" = fp32 ] || fail "precision $(precision) is in use since it is tuned: $after"
[ -z "$emulated" ] || [ "$before" != "$after" ] || fail "a profile names the kernels that were there before: $after"
for kind in weights workspace free total; do
  [ "$(memory $kind)" -gt 0 ] || fail "no memory of kind $kind: $(curl -s "$url/metrics" | grep memory)"
done
[ "$(memory weights)" = "$(weights)" ] || fail "$(memory weights) bytes of weights, the model has $(weights)"
[ "$(memory free)" -lt "$(memory total)" ] || fail "nothing is in use"
[ "$(find "$work/cache" -type f -name '*-0.times' | wc -l)" = 1 ] || fail "nothing is remembered: $(ls "$work/cache")"
launches=$(calls cudaGraphLaunch)
counted() { [ "$(calls cudaGraphLaunch)" -ge $((launches + 10)) ]; }
curl -fsS "$url/metrics" | grep '^convoyd_cuda_calls_total' | grep -v 'cudaMemcpyAsync\|cudaGraphLaunch\|cudaEvent' >"$work/then"
for _ in {1..10}; do ship; done
until_true 5 counted || fail "10 requests are not $(calls cudaGraphLaunch) launches after $launches"
curl -fsS "$url/metrics" | grep '^convoyd_cuda_calls_total' | grep -v 'cudaMemcpyAsync\|cudaGraphLaunch\|cudaEvent' |
  diff "$work/then" - || fail "requests cost other calls than they may"
stop

echo "A second start remembers."
start --config "$work/config.json" --backend cuda
until_true 20 at_rest || fail "the worker does not come to rest"
logged 'text=".* kernel times are known from ' || fail "it does not say so"
logged 'is tuned' && fail "it is tuned again"
# The times of the two runs before the network is served, in, computing and out; measuring would take more.
[ "$(calls cudaEventElapsedTime)" = 6 ] || fail "$(calls cudaEventElapsedTime) measurements"
[ "$(kernels)" = "$after" ] || fail "other kernels than before: $(kernels), not $after"
stop

# A GPU is done before it can be interrupted.
echo "Kernels round what they multiply where the model allows it, and what is in use is said."
rm -r "$work/cache"
configure "${settings[@]}" tune='"off"'
start --config "$work/config.json" --backend cuda
ship
[ "$(precision)" = fp16 ] || fail "precision $(precision) is in use: $(kernels)"
[[ $(kernels) =~ tensor_fp16|nhwc_ ]] || fail "no kernel rounds: $(kernels)"
stop
[ -n "$emulated" ] || { echo "passed"; exit 0; }
echo "Workers that die while they tune: without tuning then."
configure "${settings[@]}"
start --config "$work/config.json" --backend cuda --tune force
for death in 1 2; do
  ship # its model is there: before that it looks whether there is anything to tune, too
  until_true 20 phases tuning $death || fail "worker $death does not tune"
  until_true 20 last_phase tuning || fail "worker $death no longer tunes"
  logged 'tuning is given up' && fail "tuning is given up too early"
  kill -KILL "$(workers)"
  # Else the next image may still be given to it, and it did not die of tuning.
  until_true 20 died $death || fail "nothing is said of the death of worker $death"
done
until_true 20 logged 'tuning is given up' || fail "tuning is not given up"
ship
logged 'is tuned' && fail "it tunes"
stop
echo "passed"
