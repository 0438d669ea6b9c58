#!/usr/bin/env bash
# sanitize: all
# A spare takes the place of a worker that is ending and not dead. A process that holds the worker's end stands for the driver that
# takes it down. On the emulated GPU, whose memory is made large enough for spares.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
stand_ins_use_files
nvml=$(realpath "$build")/tests/emulation/nvml-new
needs_cuda
[ -z "$emulated" ] || export CONVOY_EMULATED_FAULT=memory:$((8 << 30)) LD_LIBRARY_PATH=$nvml
export CONVOY_EMULATED_BUSY=$work/busy CONVOY_EMULATED_NVML=$work/wishes # an emulated driver waits while the file is there
image=models/samples/truck.jpg
mkdir "$work/models"
cp -r models/cifar10-convnet "$work/models/"
"$python" tests/tools/solid_png.py "$work/poison.png" 250 0 250
configure models="\"$work/models\"" backend='"cuda"' tune='"off"' worker='{"spares": 2, "canary_ms": 0}'

# Those that live, in the order in which they were started and take a worker's place.
spares() {
  sed -n 's/.*msg="a spare worker was started" pid=\([0-9]*\).*/\1/p' "$work/log" | grep -Fx -f <(pgrep -P "$daemon" convoy-spare) || true
}
both_wait() { [ "$(spares | wc -l)" = 2 ]; }
two_spares() { until_true 60 both_wait || fail "spares: $(spares)"; }
ends() { [ ! -d "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status"; }
# The worker that lives.
living() {
  local pid
  for pid in $(workers); do ends "$pid" || echo "$pid"; done
}
is_living() { [ "$(living)" = "$1" ]; }
logged() { [ "$(grep -c "$2" "$work/log")" -ge "$1" ]; }
count() { grep -c "$1" "$work/log" || true; }
classified() { # [LABEL]: of the sample with that name
  local label=${1:-truck}
  expect 200 --data-binary "@models/samples/$label.jpg" "$url/classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = "$label" ] || fail "$(cat "$work/body")"
}
# hold PID NAME: its end is not told before release NAME
declare -A holder
hold() {
  "$python" tests/tools/hold_end.py "$1" >"$work/$2.held" 2>"$work/$2.refused" &
  holder[$2]=$!
  held_or_not() { [ -s "$work/$1.held" ] || [ -s "$work/$1.refused" ]; }
  until_true 10 held_or_not "$2" || fail "$1 is not held"
  [ -s "$work/$2.held" ] || skip "no process can be held: $(cat "$work/$2.refused")"
}
release() {
  kill -TERM "${holder[$1]}"
  wait "${holder[$1]}" || true
}
gone() { logged "$2" "the worker that was replaced is gone.*pid=$1 .*signal 9"; }

export CONVOY_TEST_FAULT=illegal:250,0,250
start --config "$work/config.json"

echo "A worker that says that its device is lost is replaced at once. The image that it was lost for is run again, and found to be why."
two_spares
worker=$(workers) next=$(spares | head -n 1) third=$(spares | tail -n 1)
hold "$worker" lost
curl -sS -o "$work/poison" -w '%{http_code}' --data-binary "@$work/poison.png" "$url/classify" >"$work/status" &
request=$!
until_true 20 logged 1 "the spare worker takes the place.*pid=$next" || fail "the spare $next does not take the place"
logged 1 'worker died and is replaced.*reason=lost text="[^"]*cuda' || fail "the log says another reason: $(grep 'is replaced' "$work/log")"
until_true 20 ends "$next" || fail "the image is not run again"
release lost
until_true 20 is_living "$third" || fail "the spare $third does not take the place: $(living)"
wait $request
[ "$(cat "$work/status")" = 500 ] || fail "status $(cat "$work/status"): $(cat "$work/poison")"
classified

echo "A worker that is killed and not dead yet is replaced, and its requests are answered. How it ended is told later, and counts once."
deaths=2
two_spares
worker=$(workers) next=$(spares | head -n 1) third=$(spares | tail -n 1)
hold "$worker" first
kill -KILL "$worker"
until_true 20 is_living "$next" || fail "the spare $next does not take the place: $(living)"
classified
[ -d "/proc/$worker" ] || fail "the worker's end is not held"
logged 1 'worker died and is replaced.*reason=unknown' || fail "the log says another reason: $(grep 'is replaced' "$work/log")"
! gone "$worker" 1 || fail "it is gone"
[ "$(spares)" = "$third" ] || fail "a spare is started beside a worker that is ending: $(spares)"

echo "A second one that dies meanwhile waits for the first to be gone."
hold "$next" second
kill -KILL "$next"
until_true 20 ends "$next" || fail "it lives"
curl -sS -o "$work/waits" -w '%{http_code}' --data-binary @$image "$url/classify?timeout_ms=60000" >"$work/status" &
request=$!
in_use() { [ "$(sample convoyd_slots_in_use)" -ge 1 ]; }
until_true 20 in_use || fail "the request does not wait"
[ -z "$(living)" ] || fail "two are left on the device: $(living)"
release first
until_true 20 gone "$worker" 1 || fail "the end of the first is not told"
until_true 20 is_living "$third" || fail "the spare $third does not take the second one's place: $(living)"
wait $request
[ "$(cat "$work/status")" = 200 ] || fail "status $(cat "$work/status"): $(cat "$work/waits")"
[ -d "/proc/$next" ] || fail "the second one's end is not held"
classified

echo "A front that crashes: the next one knows that a worker is ending, and starts no spare beside it."
kill -KILL "$(front)"
until_true 20 ready || fail "no front"
is_living "$third" || fail "another worker: $(living)"
classified
[ "$(count 'that was replaced is gone.*pid='"$next")" = 0 ] || fail "it is gone"
hold "$third" third
kill -KILL "$third"
until_true 20 ends "$third" || fail "it lives"
release second
until_true 20 gone "$next" 1 || fail "the end of the second is not told"
release third
replaced() { [ -n "$(living)" ] && [ "$(living)" != "$worker" ]; }
worker=$third
until_true 20 replaced || fail "no worker"
classified
two_spares

echo "Deaths count once."
[ "$(count 'worker died and is replaced')" = $((deaths + 3)) ] || fail "$(count 'worker died and is replaced') deaths"
[ "$(sample 'convoyd_worker_restarts_total{device="cuda:0",reason="signal"}')" = 1 ] ||
  fail "$(curl -fsS "$url/metrics" | grep restarts_total)"

echo "A front that crashes reads outputs where the worker writes them: not where a worker that is ending may."
worker=$(living) next=$(spares | head -n 1)
hold "$worker" last
kill -KILL "$worker"
until_true 20 is_living "$next" || fail "the spare $next does not take the place: $(living)"
classified
kill -KILL "$(front)"
until_true 20 ready || fail "no front"
is_living "$next" || fail "another worker: $(living)"
for _ in {1..8}; do classified ship; done # each slot has outputs of trucks in both areas

echo "When the worker that was replaced is gone, the device's memory is looked at again, and spares come."
questions() { sample 'convoyd_cuda_calls_total{device="cuda:0",call="cudaMemGetInfo"}'; }
asked_before=$(questions)
asked_again() { [ "$(questions)" = $((asked_before + 1)) ]; }
release last
until_true 20 gone "$worker" 1 || fail "its end is not told"
until_true 20 asked_again || fail "$asked_before questions before, $(questions) now"
two_spares

echo "Nothing that the spare does before its first answer waits for the driver, which takes down what the dead worker had opened."
worker=$(living) next=$(spares | head -n 1)
hold "$worker" busy
printf 'nvmlDeviceGetHandleByPciBusId_v2 hang\nnvmlEventSetCreate hang\n' >"$CONVOY_EMULATED_NVML"
touch "$CONVOY_EMULATED_BUSY"
kill -KILL "$worker"
until_true 20 is_living "$next" || fail "the spare $next does not take the place: $(living)"
expect 200 --max-time 10 --data-binary @$image "$url/classify" # the emulated driver waits for twice that
[ "$(count 'NVML does not answer')" = 0 ] || fail "it waits for NVML"
rm "$CONVOY_EMULATED_BUSY" "$CONVOY_EMULATED_NVML"
release busy
until_true 20 gone "$worker" 1 || fail "its end is not told"
two_spares

echo "The end of the daemon, while a worker is ending."
worker=$(living)
hold "$worker" end
kill -KILL "$worker"
until_true 20 replaced || fail "no worker"
kill -TERM "$daemon"
without_front() { [ -z "$(front || true)" ]; }
until_true 20 without_front || fail "the front waits for it"
release end
status=0
wait "$daemon" || status=$?
daemon=
[ $status = 0 ] || fail "convoyd ended with status $status"
