#!/usr/bin/env bash
# sanitize: all
# timed: it measures how long the front is away
# The master: a front that crashes is started again, with sockets and workers where they were.
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"

image=models/samples/truck.jpg
# 300 ms is what is promised, on a machine that has nothing else to do.
back_ms=$((2000 * slower))
# A sanitizer would take SIGSEGV for a mistake, and end with a status.
export ASAN_OPTIONS="handle_segv=0:$ASAN_OPTIONS" UBSAN_OPTIONS="handle_segv=0:$UBSAN_OPTIONS"

classified() {
  expect 200 --data-binary @$image "$url/classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
}
logged() { [ "$(grep -c "$2" "$work/log")" -ge "$1" ]; }
# Nothing of it is told to anyone: a front that has served for a second has not failed to start.
settle() { sleep 1.2; }
back() { # KILLED
  [ -n "$(front)" ] && [ "$(front)" != "$1" ] && ready
}
kill_front() { # SIGNAL
  local killed
  killed=$(front)
  kill "-$1" "$killed"
  until_true 20 back "$killed" || fail "no front after SIG$1"
}
all_models() { [ "$(curl -fsS "$url/v2/models" | "$python" -S -c 'import json, sys; print({m["state"] for m in json.load(sys.stdin)["models"]})')" = "{'READY'}" ]; }

echo "A front that crashes under load is back with the same workers, which load nothing, and no answer is another's."
start --backend cpu
until_true 60 all_models || fail "models are not loaded"
pids=$(workers)
read_bytes() { awk '/^rchar/ { print $2 }' "/proc/$(worker)/io"; }
before=$(read_bytes)
fds=$(find "/proc/$daemon/fd" -mindepth 1 | wc -l)
for signal in SIGKILL SIGSEGV; do
  "$python" tests/tools/front_load.py "$url" "$daemon" $signal 5 >"$work/load" || fail "$(cat "$work/load")"
  echo "$signal: $(cat "$work/load")"
  [ "$(json "$work/load" "d['median_ms'] < $back_ms")" = True ] || fail "it is away for too long"
done
[ "$(workers)" = "$pids" ] || fail "other workers: $(workers), before $pids"
[ $(($(read_bytes) - before)) -lt 1000000 ] || fail "the worker has read $(($(read_bytes) - before)) bytes: a model"
[ "$(grep -c 'msg="worker started"' "$work/log")" = 1 ] || fail "workers were started"
[ "$(grep -c 'msg="worker taken over.* models_kept=4' "$work/log")" = 10 ] || fail "not all models were kept: $(grep taken "$work/log")"
grep -q 'msg="the front ended and is started again" text="killed by signal 11' "$work/log" || fail "the log does not say why"
until_true 10 all_models || fail "models are missing"
[ "$(find "/proc/$daemon/fd" -mindepth 1 | wc -l)" = "$fds" ] || fail "the master has other descriptors: $(ls -l "/proc/$daemon/fd")"
grep -q 'worker died' "$work/log" && fail "a worker died"
restarts() { sample "convoyd_front_restarts_total{reason=\"$1\"}"; }
[ "$(restarts signal) $(restarts exit) $(restarts upgrade)" = "10 0 0" ] || fail "counted are $(restarts signal) $(restarts exit) $(restarts upgrade)"

echo "SIGTERM, SIGHUP and the death of a worker arrive at the front that follows, too."
kill -HUP "$daemon"
until_true 10 logged 1 'msg="configuration read again"' || fail "SIGHUP is lost"
kill -KILL "$(worker)"
until_true 10 logged 1 'msg="worker died and is replaced".*signal 9' || fail "the worker's end is not told"
until_true 30 ready || fail "no other worker"
classified
stop

echo "A worker and the front killed at once: both come back."
start --backend cpu --models models
settle
kill -KILL "$(worker)" "$(front)"
until_true 30 logged 2 'msg="worker started"' || fail "no worker"
until_true 30 ready || fail "not ready"
classified
stop

echo "A front that crashes while its models change loads what is another, and nothing else."
mkdir "$work/models"
cp -r models/cifar10-convnet models/cifar10-resnet models/fashion-lenet "$work/models"
start --backend cpu --models "$work/models" --listen 127.0.0.1:0
settle
until_true 30 all_models || fail "models are not loaded"
stand_still "$(front)"
mv "$work/models/fashion-lenet" "$work/away"
touch "$work/models/cifar10-convnet/1/model.onnx"
cp -r models/cifar10-convnet "$work/models/another" # the others get other numbers
kill_front KILL
loaded_are() { [ "$(curl -fsS "$url/v2/models" | "$python" -S -c 'import json, sys; print(sorted(m["name"] for m in json.load(sys.stdin)["models"] if m["state"] == "READY"))')" = "$1" ]; }
until_true 30 loaded_are "['another', 'cifar10-convnet', 'cifar10-resnet']" || fail "$(curl -fsS "$url/v2/models")"
classified_by() {
  expect 200 --data-binary @$image "$url/classify?model=$1"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$1: $(cat "$work/body")"
}
classified_by another
classified_by cifar10-convnet
classified_by cifar10-resnet
logged 1 'models_kept=1' || fail "not one model was kept: $(cat "$work/log")"
stop

echo "Unix sockets, the admin socket and health_listen are where they were."
configure "listen=[\"127.0.0.1:0\", \"unix:$work/socket\"]" 'health_listen="127.0.0.1:0"' "admin_listen=\"unix:$work/admin\""
launch_as "$build/bin/convoyd" --config "$work/config.json" --backend null
until_true 20 ready || fail "not ready"
health=$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
settle
kill_front KILL
expect 200 "http://127.0.0.1:$health/v2/health/live"
expect 200 --unix-socket "$work/socket" http://localhost/v2/health/live
expect 200 --unix-socket "$work/admin" http://localhost/v2/health/live
stop
for socket in socket admin; do [ ! -e "$work/$socket" ] || fail "$socket is left"; done

echo "Models that were loaded by request are loaded still, and those that were unloaded are not."
configure 'model_control="explicit"' 'repository={"load_at_start": ["cifar10-convnet", "fashion-lenet"]}' 'auth={"loopback_admin": true}'
start --config "$work/config.json" --backend cpu
expect 200 -X POST "$url/v2/repository/models/cifar10-resnet/load"
expect 200 -X POST "$url/v2/repository/models/fashion-lenet/unload"
settle
kill_front KILL
until_true 20 loaded_are "['cifar10-convnet', 'cifar10-resnet']" || fail "$(curl -fsS "$url/v2/models")"
logged 1 'models_kept=2' || fail "$(grep taken "$work/log")"
stop

echo "A front that cannot start again is tried less and less often, and then the daemon ends and says so."
cp config/convoyd.json "$work/config.json"
start --config "$work/config.json" --backend null
echo '{' >"$work/config.json"
kill -KILL "$(front)"
status=0
until_true 30 logged 1 'msg="convoyd gives up' || fail "$(tail "$work/log")"
wait "$daemon" || status=$?
daemon=
[ $status = 1 ] || fail "status $status"
logged 1 'msg="workers are killed' || fail "it does not try without the workers"
[ "$(grep -c 'msg="the front ended and is started again"' "$work/log")" -ge 5 ] || fail "it gives up early"

echo "The first start ends with the front's own status; a killed master takes front and workers along."
status=0
"$build/bin/convoyd" --config "$work/config.json" 2>"$work/log" || status=$?
[ $status = 1 ] || fail "status $status"
grep -q "$work/config.json" "$work/log" || fail "$(cat "$work/log")"
status=0
"$build/bin/convoyd" --nonsense 2>"$work/log" || status=$?
[ $status = 2 ] || fail "status $status"
start --backend null
children=$(pgrep -P "$daemon")
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null || true
daemon=
# shellcheck disable=SC2317 # until_true calls it
none_lives() { local pid; for pid in $children; do [ ! -d "/proc/$pid" ] || grep -q '^State:.Z' "/proc/$pid/status" || return 1; done; }
until_true 10 none_lives || fail "the master left processes: $children"
echo "passed"
