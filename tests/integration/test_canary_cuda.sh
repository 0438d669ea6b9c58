#!/usr/bin/env bash
# A GPU, emulated ones included, that computes wrongly or whose memory changes: found in idle time, with no other calls of CUDA than
# those that jobs make.
# shellcheck disable=SC2119 # start and launch take options of convoyd, which are not this script's
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"
stand_ins_use_files
needs_cuda

image=models/samples/truck.jpg
meant=$work/meant # which worker goes wrong
mkdir -p "$work/models"
cp -r models/cifar10-convnet "$work/models/"
configure worker='{"canary_ms": 200}' tune='"off"' images='{"decoder": "gpu"}'
engines=1 # JPEG files are decoded by the device, as far as is known
if [ -n "$emulated" ]; then
  LD_LIBRARY_PATH=$(dirname "$emulated")/nvjpeg${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
fi

logged() { grep -q "$@" "$work/log"; }
begin() { start --config "$work/config.json" --models "$work/models" --backend cuda; }
checks() { curl -fsS "$url/metrics" | awk -v name="convoyd_device_checks_total{device=\"cuda:0\",check=\"$1\",result=\"$2\"}" \
  'index($0, name " ") == 1 { n = $NF } END { print n + 0 }'; }
checked() { [ "$(checks "$1" same)" -ge "$2" ]; }
restarted() { [ "$(metric convoyd_worker_restarts_total)" -ge "$1" ]; }
by() { # DECODER: it decoded the file of the last answer
  [ "$(json "$work/body" 'd["results"][0]["decoder"]')" = "$1" ] || fail "not decoded by the $1: $(cat "$work/body")"
}
classified() {
  expect 200 --data-binary @$image "$url/classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
}
calls() { curl -fsS "$url/metrics" | grep '^convoyd_cuda_calls_total' | grep -v 'cudaMemcpyAsync\|cudaGraphLaunch\|cudaEvent\|cudaLaunchKernel\|cudaStreamWaitEvent'; }

echo "Checks of a device that is in order: nothing differs, and nothing is allocated or waited for."
export CONVOY_TEST_FAULT=wrong:$meant
begin
classified
if ! logged 'JPEG files are decoded by .*nvJPEG'; then
  [ -z "$emulated" ] || fail "there is no decoder: $(grep JPEG "$work/log")"
  echo "This GPU decodes no JPEG files: that is not checked."
  engines=0
fi
until_true 120 checked weights 1 || fail "the weights are not checked"
[ $engines = 0 ] || until_true 120 checked decoder 1 || fail "the decoder is not checked"
asked_for_memory() { calls | grep cudaMemGetInfo >/dev/null; } # a second after the model was loaded
until_true 20 asked_for_memory || fail "the device's memory is not told: $(calls)"
calls >"$work/before"
until_true 120 checked weights 2 || fail "$(checks weights same) checks of the weights"
until_true 120 checked canary 3 || fail "$(checks canary same) canaries"
[ $engines = 0 ] || until_true 120 checked decoder 3 || fail "$(checks decoder same) checks of the decoder"
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
until_true 120 checked weights 1 || fail "the weights are not checked"
worker >"$meant"
until_true 60 restarted 1 || fail "the flipped bit is not found"
logged 'worker died.* reason=weights ' || fail "$(grep 'worker died' "$work/log")"
logged 'text=.*is not what was uploaded' || fail "$(grep 'computes wrongly' "$work/log")"
classified
until_true 120 checked weights 2 || fail "the next worker's weights are not checked"
stop

echo "Its decoder begins to give wrong pixels: the worker ends, the next one decodes."
rm "$meant"
export CONVOY_TEST_FAULT='' CONVOY_EMULATED_NVJPEG=later:$meant
begin
classified
by gpu
until_true 120 checked decoder 2 || fail "$(checks decoder same) checks of the decoder"
worker >"$meant"
until_true 60 restarted 1 || fail "a decoder that goes wrong is not found"
logged 'worker died.* reason=decoder ' || fail "$(grep 'worker died' "$work/log")"
logged 'a device computes wrongly.*check=decoder.*text=.*of a known JPEG file are off by more than 6 levels' || fail "$(grep 'computes wrongly' "$work/log")"
[ "$(checks decoder differs)" = 1 ] || fail "$(checks decoder differs) checks of the decoder differ"
classified
by gpu

echo "It stays so: the worker that comes next leaves it out, and files are decoded by the front."
echo all >"$meant"
until_true 60 restarted 2 || fail "a decoder that goes wrong is not found"
classified
by cpu
logged 'JPEG files are decoded by the processor: .*of a known JPEG file' || fail "the log does not say why"
before=$(checks weights same)
until_true 120 checked weights $((before + 3)) || fail "no more checks"
[ "$(metric convoyd_worker_restarts_total)" = 2 ] || fail "$(metric convoyd_worker_restarts_total) restarts"
stop
