#!/usr/bin/env bash
# What NVML tells of a GPU is on /metrics, in `convoy top` and in the page's totals: of the right GPU, started before the worker is
# confined; errors that take a worker are counted; and without NVML, or with one that hangs, everything else works.
# shellcheck disable=SC2119 # start takes options of convoyd, which are not this script's
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
stand_ins_use_files
built=$build
stand_in=$(realpath "$build")/tests/emulation/nvml-new
needs_cuda

image=models/samples/truck.jpg
export CONVOY_EMULATED_NVML=$work/wishes CONVOY_EMULATED_XID=$work/xid
mkdir "$work/models"
cp -r models/cifar10-convnet "$work/models/"
configure tune='"off"'
begin() { start --config "$work/config.json" --models "$work/models" --backend cuda; }
logged() { grep -q "$@" "$work/log"; }
value() { sample "convoyd_gpu_$1{device=\"$2\"${3:+,$3}}"; }
shows() { [ "$(value "${@:1:$#-1}")" = "${*: -1}" ]; }
classified() { expect 200 --data-binary @$image "$url/classify"; }

if [ -z "$emulated" ]; then
  echo "What nvidia-smi says, in a worker that is confined."
  begin
  until_true 10 logged "NVML tells of the GPU's health" || fail "$(grep NVML "$work/log")"
  logged 'confined: no sockets' || fail "the worker is not confined"
  classified
  nvidia-smi -i 0 --query-gpu=memory.total,enforced.power.limit,temperature.gpu --format=csv,noheader,nounits | tr -d , >"$work/smi"
  read -r mib watts celsius <"$work/smi"
  curl -fsS "$url/metrics" | grep '^convoyd_gpu' | tee "$work/gpu"
  [ $(($(value memory_bytes cuda:0 'kind="total"') >> 20)) = "$mib" ] || fail "$(cat "$work/smi")"
  awk "BEGIN { exit !($(value power_limit_watts cuda:0) == $watts && ($(value temperature_celsius cuda:0) - $celsius) ^ 2 <= 25) }" || fail "$(cat "$work/smi")"
  shows xid_errors_total cuda:0 0 || fail "errors are not reported"
  stop
  exit
fi
[ -e "$stand_in/libnvidia-ml.so.1" ] || skip "there is no stand-in for NVML"

echo "Without NVML nothing is known, and nothing is wrong."
begin
classified
until_true 10 logged 'health: libnvidia-ml.so.1' || fail "it is not said that nothing is known"
curl -fsS "$url/metrics" | grep '^convoyd_gpu' && fail "what is not known is shown"
grep 'level=warning' "$work/log" && fail "a GPU without NVML is no reason to warn"
stop

echo "Each GPU's own numbers, in a worker that is confined."
export LD_LIBRARY_PATH=$stand_in CONVOY_EMULATED_DEVICES=2
begin
logged 'confined: no sockets' || fail "the workers are not confined"
for gpu in "cuda:0 36 16.25" "cuda:1 52 32.25"; do
  read -r device celsius watts <<<"$gpu"
  until_true 10 shows temperature_celsius "$device" "$celsius" || fail "$(curl -fsS "$url/metrics" | grep gpu)"
  shows power_watts "$device" "$watts" || fail "$(curl -fsS "$url/metrics" | grep gpu)"
done
shows utilization_ratio cuda:1 'engine="jpeg"' 0.16 || fail "$(value utilization_ratio cuda:1 'engine="jpeg"')"
shows throttled cuda:1 'reason="power_cap"' 1 || fail "$(curl -fsS "$url/metrics" | grep throttled)"
shows ecc_uncorrected_errors_total cuda:1 'lifetime="aggregate"' 12 || fail "$(curl -fsS "$url/metrics" | grep ecc)"
shows xid_errors_total cuda:0 0 || fail "$(curl -fsS "$url/metrics" | grep xid)"
expect 200 "$url/totals"
[ "$(json "$work/body" '[x["gpu"]["temperature_celsius"] for x in d["devices"] if x["device"] == "cuda:1"]')" = '[52]' ] || fail "$(cat "$work/body")"
"$built/bin/convoy" top --count 1 --url "$url" >"$work/top"
grep -q 'GPU  kernels 32 %  memory 8 %  jpeg 16 %  32.0 GiB of 80.0 GiB  52 C  32 W of 632 W  throttled: power_cap, hw_thermal' "$work/top" || fail "$(cat "$work/top")"

echo "A call that fails is one number less."
echo 'nvmlDeviceGetPowerUsage 999' >"$work/wishes"
until_true 10 shows power_watts cuda:0 "" || fail "a number stays that cannot be read"
shows temperature_celsius cuda:0 36 || fail "others go, too"
rm "$work/wishes"
until_true 10 shows power_watts cuda:0 16.25 || fail "it does not come back"

echo "NVML hangs: its numbers go, the workers stay."
before=$(workers)
echo 'nvmlDeviceGetMemoryInfo hang' >"$work/wishes"
both_logged() { [ "$(grep -c 'health is not known any more' "$work/log")" = 2 ]; }
until_true 20 both_logged || fail "nothing is said"
shows temperature_celsius cuda:0 "" || fail "old numbers look like new ones"
classified
[ "$(workers)" = "$before" ] || fail "workers were replaced"
rm "$work/wishes"
until_true 10 shows temperature_celsius cuda:0 36 || fail "they do not come back"
stop

echo "The error that takes a worker is counted, though it is reported a little later, and stays when the next one begins."
export CONVOY_EMULATED_DEVICES=1 CONVOY_EMULATED_FAULT=illegal:8 # a worker runs a few batches of its own first
begin
until_true 10 shows xid_errors_total cuda:0 0 || fail "errors are not reported"
for _ in {1..8}; do
  classified
  logged 'worker died' && break
done
until_true 10 logged 'worker died.*reason=lost' || fail "the worker was not lost"
until_true 10 shows xid_errors_total cuda:0 1 || fail "$(curl -fsS "$url/metrics" | grep xid)"
shows last_xid cuda:0 31 || fail "$(curl -fsS "$url/metrics" | grep xid)"
until_true 10 shows temperature_celsius cuda:0 36 || fail "the next worker tells nothing"
shows xid_errors_total cuda:0 1 || fail "$(curl -fsS "$url/metrics" | grep xid)"
stop
