#!/usr/bin/env bash
# A GPU, emulated ones included, that computes wrongly or whose memory changes: found in idle time, with no other calls of CUDA than
# those that jobs make.
# shellcheck disable=SC2119 # start and launch take options of convoyd, which are not this script's
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"
needs_cuda

image=models/samples/truck.jpg
meant=$work/meant # which worker goes wrong
mkdir -p "$work/models"
cp -r models/cifar10-convnet "$work/models/"
configure worker='{"canary_ms": 200}' tune='"off"'

logged() { grep -q "$@" "$work/log"; }
begin() { start --config "$work/config.json" --models "$work/models" --backend cuda; }
checks() { curl -fsS "$url/metrics" | awk -v name="convoyd_device_checks_total{device=\"cuda:0\",check=\"$1\",result=\"$2\"}" \
  'index($0, name " ") == 1 { n = $NF } END { print n + 0 }'; }
checked() { [ "$(checks "$1" same)" -ge "$2" ]; }
restarted() { [ "$(metric convoyd_worker_restarts_total)" -ge "$1" ]; }
classified() {
  expect 200 --data-binary @$image "$url/classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
}
calls() { curl -fsS "$url/metrics" | grep '^convoyd_cuda_calls_total' | grep -v 'cudaMemcpyAsync\|cudaGraphLaunch\|cudaEvent'; }

echo "Checks of a device that is in order: nothing differs, and nothing is allocated or waited for."
export CONVOY_TEST_FAULT=wrong:$meant
begin
classified
until_true 20 checked weights 1 || fail "the weights are not checked"
calls >"$work/before"
until_true 60 checked weights 2 || fail "$(checks weights same) checks of the weights"
until_true 60 checked canary 3 || fail "$(checks canary same) canaries"
calls | diff "$work/before" - || fail "checks make other calls than jobs"

echo "It begins to compute wrongly: the worker ends, the next one serves."
worker >"$meant"
until_true 60 restarted 1 || fail "a device that computes wrongly is not found"
logged 'worker died.* reason=canary ' || fail "$(grep 'worker died' "$work/log")"
classified
rm "$meant"
stop

[ -n "$emulated" ] || { echo "Bits of a GPU's own memory are not flipped here."; exit 0; }
echo "A bit of its memory flips."
export CONVOY_TEST_FAULT=flip:$meant
begin
classified
until_true 20 checked weights 1 || fail "the weights are not checked"
worker >"$meant"
until_true 60 restarted 1 || fail "the flipped bit is not found"
logged 'worker died.* reason=weights ' || fail "$(grep 'worker died' "$work/log")"
logged 'text=.*is not what was uploaded' || fail "$(grep 'computes wrongly' "$work/log")"
classified
until_true 60 checked weights 2 || fail "the next worker's weights are not checked"
stop
