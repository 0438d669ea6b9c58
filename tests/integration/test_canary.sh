#!/usr/bin/env bash
# sanitize: all
# Devices that compute wrongly without reporting an error: found when a worker has loaded a model, and in idle time.
# shellcheck disable=SC2119 # start and launch take options of convoyd, which are not this script's
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"
stand_ins_use_files

image=models/samples/truck.jpg
meant=$work/meant # which worker goes wrong

logged() { grep -q "$@" "$work/log"; }
checks() { curl -fsS "$url/metrics" | awk -v name="convoyd_device_checks_total{device=\"cpu\",check=\"$1\",result=\"$2\"}" \
  '$1 == name { n = $2 } END { print n + 0 }'; }
restarts() { metric "convoyd_worker_restarts_total"; }
restarted() { [ "$(restarts)" -ge "$1" ]; }
checked() { [ "$(checks "$1" same)" -ge "$2" ]; }
classified() {
  expect 200 --data-binary @$image "$url/classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
}
state_of() { curl -fsS "$url/v2/models" >"$work/models.json" && json "$work/models.json" \
  "[m['state'] + ': ' + str(m.get('reason')) for m in d['models'] if m['name'] == '$1'][0]"; }
is_failed() { [[ $(state_of cifar10-convnet) == FAILED* ]]; }
died_of() { logged "worker died.* reason=$1 "; }

echo "An idle device is checked again and again, weights and answers; nothing differs."
mkdir "$work/models"
cp -r models/cifar10-convnet "$work/models/"
idle='{"canary_ms": 100}'
configure worker="$idle"
start --config "$work/config.json" --models "$work/models" --backend cpu
classified
until_true 20 checked weights 3 || fail "$(checks weights same) checks of the weights"
until_true 20 checked canary 4 || fail "$(checks canary same) canaries"
[ "$(checks canary differs)/$(checks weights differs)/$(restarts)" = 0/0/0 ] || fail "something differs"

echo "Checks keep out of the way of a load."
load busy --seconds 4
came() { [ "$(metric convoyd_images_total)" -gt "$1" ]; }
until_true 20 came 10 || fail "no load" # where others compute too, four seconds bring no hundred
before=$(checks canary same)
begun=$(date +%s%3N)
loaded busy
# Where the clients get no processor for 0.1 s the device is idle. With every pause between two batches it would be several times as many.
[ $(($(checks canary same) - before)) -le $((($(date +%s%3N) - begun) / 400)) ] || fail "$(($(checks canary same) - before)) checks under load"
all_answered busy $((2000 * slower))
stop

echo "With a rest of 0 nothing is checked in idle time."
configure worker='{"canary_ms": 0}'
start --config "$work/config.json" --models "$work/models" --backend cpu
classified

echo "Other files in the same place are no fault: the worker that comes next serves them."
cp models/cifar10-resnet/1/model.onnx "$work/other.onnx"
mv "$work/other.onnx" "$work/models/cifar10-convnet/1/model.onnx"
kill -KILL "$(worker)"
until_true 20 restarted 1 || fail "the worker was not replaced"
classified
[ "$(restarts)" = 1 ] || fail "$(restarts) restarts"
if died_of canary; then fail "other files count as a fault"; fi
[ "$(checks weights same)/$(checks canary same)" = 0/2 ] || fail "checked without being asked"
stop
cp models/cifar10-convnet/1/model.onnx "$work/models/cifar10-convnet/1/model.onnx"

echo "A device that begins to compute wrongly while it is idle: its worker ends, the next one serves."
export CONVOY_TEST_FAULT=wrong:$meant
configure worker="$idle"
start --config "$work/config.json" --models "$work/models" --backend cpu
classified
pid=$(worker)
echo "$pid" >"$meant"
until_true 20 restarted 1 || fail "a device that computes wrongly is not found"
died_of canary || fail "the log does not say why: $(grep 'worker died' "$work/log")"
logged 'a device computes wrongly.*device=cpu.*model=cifar10-convnet.*check=canary' || fail "the log does not name the device"
[ "$(curl -fsS "$url/metrics" | grep -c 'restarts_total{device="cpu",reason="canary"} 1$')" = 1 ] || fail "the reason is not counted"
[ "$(checks canary differs)" = 1 ] || fail "the check is not counted"
classified
[ "$(worker)" != "$pid" ] || fail "the same worker"

stop

echo "Its answers in the response cache are forgotten with it."
rm "$meant"
configure worker='{"canary_ms": 2000}' response_cache='{"bytes": 1000000}'
start --config "$work/config.json" --models "$work/models" --backend cpu
worker >"$meant"
expect 200 --data-binary @$image "$url/classify" # before the next check, as a rule: wrong, and kept
until_true 20 restarted 1 || fail "a device that computes wrongly is not found"
classified
rm "$meant"
stop
configure worker="$idle"
start --config "$work/config.json" --models "$work/models" --backend cpu

echo "A worker that computes wrongly from its start, in the middle of service: it answers no client."
echo next >"$meant"
load next --seconds 600
until_true 20 came $(($(metric convoyd_images_total) + 100)) || fail "no load"
kill -KILL "$(worker)"
until_true 20 restarted 2 || fail "the worker that differs was not replaced: $(restarts)"
until_true 20 came $(($(metric convoyd_images_total) + 100)) || fail "no answers afterwards"
kill -TERM "$load_pid"
loaded next
all_answered next $((4000 * slower))
[ "$(checks canary differs)" = 1 ] || fail "$(checks canary differs) checks differ"
rm "$meant"

echo "A device that stays so: the model is FAILED after two workers, no client gets a wrong answer, nothing loops."
load for_good --seconds 600
until_true 20 came $(($(metric convoyd_images_total) + 200)) || fail "no load"
pid=$(worker)
echo "not $pid" >"$meant"
kill -KILL "$pid"
until_true 20 is_failed || fail "the model is $(state_of cifar10-convnet)"
[[ $(state_of cifar10-convnet) == *"two workers in a row computed it wrongly"* ]] || fail "$(state_of cifar10-convnet)"
ended=$(restarts)
[ "$ended" -ge 5 ] || fail "only $ended workers were replaced"
kill -TERM "$load_pid"
loaded for_good
[ "$(json "$work/for_good.json" 'set(d["statuses"]) <= {"200", "503"} and d["wrong"] + d["lost"] == 0')" = True ] ||
  fail "a wrong answer"
expect 503 --data-binary @$image "$url/classify"
[ "$(restarts)" = "$ended" ] || fail "workers are killed on"
stop
rm "$meant"

echo "A difference in the last bit is found while the worker lives; a new worker may differ by that."
export CONVOY_TEST_FAULT=near:$meant
start --config "$work/config.json" --models "$work/models" --backend cpu
classified
echo next >"$meant"
kill -KILL "$(worker)"
until_true 20 restarted 1 || fail "the worker was not replaced"
classified
[ "$(cat "$meant")" = "$(worker)" ] || fail "the worker that came next has no fault"
before=$(checks canary same)
until_true 20 checked canary $((before + 2)) || fail "the next worker is not checked"
[ "$(restarts)" = 1 ] || fail "a worker died of the last bit of another"
rm "$meant"
until_true 20 restarted 2 || fail "a bit is not found"
logged 'text="the last bits differ, though the same kernels ran"' || fail "$(grep 'computes wrongly' "$work/log")"
stop

echo "A worker that does not agree with itself when it has loaded a model."
export CONVOY_TEST_FAULT=odd:$meant
echo next >"$meant"
launch --config "$work/config.json" --models "$work/models" --backend cpu
until_true 20 ready || fail "not ready"
classified
[ "$(restarts)" = 1 ] || fail "$(restarts) restarts"
died_of canary || fail "the log does not say why: $(grep 'worker died' "$work/log")"
rm "$meant"
stop

echo "A bit that flips in the weights: found though the answer hardly changes, and read again from the file."
export CONVOY_TEST_FAULT=flip:$meant
start --config "$work/config.json" --models "$work/models" --backend cpu
classified
until_true 20 checked weights 1 || fail "the weights are not checked"
worker >"$meant"
until_true 20 restarted 1 || fail "the flipped bit is not found"
died_of weights || fail "the log does not say why: $(grep 'worker died' "$work/log")"
logged 'a device computes wrongly.*check=weights.*text=.*is not what it was' || fail "the log does not say what differs"
classified
until_true 20 checked weights 3 || fail "the next worker's weights are not checked"
[ "$(restarts)" = 1 ] || fail "$(restarts) restarts"
stop
