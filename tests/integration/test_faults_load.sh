#!/usr/bin/env bash
# sanitize: both
# Workers that cannot start, that die while they load a model, and a model that kills them.
# shellcheck disable=SC2119 # start and launch take options of convoyd, which are not this script's
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg

logged() { grep -q "$@" "$work/log"; }
state_of() { curl -fsS "$url/v2/models" >"$work/models.json" && json "$work/models.json" \
  "[m['state'] + ': ' + str(m.get('reason')) for m in d['models'] if m['name'] == '$1'][0]"; }
# Ticks of CPU that the master, the front and the workers that were waited for have used.
cpu_ticks() { awk '{ sub(/^.*\) /, ""); sum += $12 + $13 + $14 + $15 } END { print sum }' "/proc/$daemon/stat" "/proc/$(front)/stat"; }

echo "A model whose loading kills two workers is FAILED; the other is served."
mkdir "$work/models"
cp -r models/cifar10-convnet "$work/models/good"
cp -r models/cifar10-convnet "$work/models/bad"
export CONVOY_TEST_FAULT=load:bad
start --models "$work/models"
[[ $(state_of bad) == "FAILED: "*"killed two workers"* ]] || fail "the bad model is $(state_of bad)"
[[ $(state_of good) == "READY: "* ]] || fail "the good model is $(state_of good)"
[ "$(grep -c 'worker died' "$work/log")" = 2 ] || fail "not two workers died"
expect 200 --data-binary @$image "$url/classify?model=good"
[ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = ship ] || fail "$(cat "$work/body")"
expect 503 --data-binary @$image "$url/classify?model=bad"
stop

echo "Requests that load it again kill no more workers, until its files change."
killed() { grep -c 'worker died' "$work/log" || true; }
configure 'model_control="explicit"' 'repository={"load_at_start": ["good"]}' 'auth={"loopback_admin": true}'
start --config "$work/config.json" --models "$work/models"
load_bad() {
  expect 400 -X POST "$url/v2/repository/models/bad/load"
  grep -q 'killed two workers: it is not loaded again until its files change' "$work/body" || fail "$(cat "$work/body")"
}
load_bad
[ "$(killed)" = 2 ] || fail "the first load killed $(killed) workers"
for _ in 1 2 3; do load_bad; done
expect 200 -X POST "$url/v2/repository/models/bad/unload"
load_bad
[ "$(killed)" = 2 ] || fail "further loads killed workers: $(killed) in all"
expect 200 --data-binary @$image "$url/classify?model=good"
touch "$work/models/bad/1/model.onnx"
load_bad
[ "$(killed)" = 4 ] || fail "changed files were not loaded: $(killed) workers died in all"
stop

echo "The same in the middle of service: a worker killed by hand comes back for the other model."
start --models "$work/models"
kill -KILL "$(workers)"
until_true 10 logged 'worker died.*text="killed by signal 9' || fail "the worker's death was not noticed"
expect 200 --data-binary @$image "$url/classify?model=good"
stop
unset CONVOY_TEST_FAULT

echo "Workers killed as soon as they are there, whatever they are at: no model is given up."
launch
# One that is killed before it has told the front what it is "cannot start".
deaths() { [ "$(grep -cE 'worker (died|cannot start)' "$work/log")" -ge "$1" ]; }
for round in 1 2 3 4; do
  until_true 10 workers || fail "round $round: no worker came"
  kill -KILL "$(workers | tail -n 1)"
  until_true 10 deaths $round || fail "round $round: the worker's death was not noticed"
  # Two deaths in a row while the model loads would be held against it.
  until_true 60 ready || fail "round $round: not ready again: $(state_of cifar10-convnet)"
  expect 200 --data-binary @$image "$url/classify"
done
stop

echo "No convoy-worker, then one that may not be executed, then a sound one."
mkdir "$work/bin"
cp "$build"/bin/convoyd "$build"/bin/convoy-backend-cpu.so "$work/bin"
whole=$build
build=$work
launch
until_true 10 logged "cannot start $work/bin/convoy-worker: No such file" || fail "the missing worker is not named"
expect 200 "$url/v2/health/live"
expect 503 "$url/v2/health/ready"
expect 503 --data-binary @$image "$url/classify"
cp "$whole/bin/convoy-worker" "$work/bin/convoy-worker.new"
chmod 644 "$work/bin/convoy-worker.new"
mv "$work/bin/convoy-worker.new" "$work/bin/convoy-worker"
until_true 10 logged "cannot start $work/bin/convoy-worker: Permission denied" || fail "the mode is not named"
chmod 755 "$work/bin/convoy-worker"
until_true 60 ready || fail "not ready though convoy-worker is there now"
expect 200 --data-binary @$image "$url/classify"
stop

echo "A backend that is not installed: live, never ready, tried ever less often, at no cost worth the name."
launch --backend cuda
until_true 10 logged 'worker cannot start.*in_ms=800' || fail "the delay does not reach 800 ms"
for delay in 100 200 400; do logged "worker cannot start.*in_ms=$delay" || fail "no start was tried after $delay ms"; done
logged "the cuda backend is not installed" || fail "the log does not name the missing module"
expect 200 "$url/v2/health/live"
expect 503 "$url/v2/health/ready"
expect 503 --data-binary @$image "$url/classify"
[ "$(grep -c 'worker cannot start' "$work/log")" -le 6 ] || fail "a busy loop of starts"
[ "$build" = "$work" ] && [[ $whole != *san ]] && [ "$(cpu_ticks)" -gt 50 ] && fail "$(cpu_ticks) ticks of CPU used"
stop
build=$whole
