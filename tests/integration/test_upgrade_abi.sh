#!/usr/bin/env bash
# sanitize: all
# SIGUSR2 with a program whose channels have another ABI than the workers that run: it loads the models into workers of its own
# while the front before serves, and takes over when they are loaded. BACKEND=cuda (CONVOY_BUILD=PACK) does the same on a GPU.
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"

image=models/samples/truck.jpg
make_tree
next=$built/tests/next_abi
if [ ! -x "$next/convoyd" ] || [ ! -x "$next/convoy-worker" ]; then skip "there is no convoyd of another ABI in $next"; fi
# lay_down FOLDER: its programs lie at the path from now on.
lay_down() {
  local program
  for program in convoyd convoy-worker; do
    cp "$1/$program" "$work/new"
    mv "$work/new" "$tree/bin/$program"
  done
}
# hold_workers: the workers that are started from now on wait, until release_workers lets them load.
hold_workers() {
  mv "$tree/bin/convoy-worker" "$tree/bin/real-worker"
  mkfifo "$work/gate"
  printf '#!/bin/sh\nread -r _ <"%s"\nexec "%s" "$@"\n' "$work/gate" "$tree/bin/real-worker" >"$tree/bin/convoy-worker"
  chmod +x "$tree/bin/convoy-worker"
}
held() { pgrep -P "$daemon" -x sh || pgrep -P "$daemon" -f "$tree/bin/convoy-worker --serve"; }
release_workers() {
  mv "$tree/bin/real-worker" "$tree/bin/convoy-worker"
  timeout 10 sh -c "echo >'$work/gate'" || fail "no worker waits"
  rm "$work/gate"
}
# Begins an upgrade whose new workers start and wait.
begin_held() {
  lay_down "$next"
  hold_workers
  kill -USR2 "$daemon"
  until_true 30 held || fail "no worker is started beside"
}
classified() { # [MODEL]
  expect 200 --data-binary @$image "$url/classify?model=${1:-cifar10-convnet}"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
}
logged() { [ "$(grep -c "$2" "$work/log")" -ge "$1" ]; }
states() { curl -fsS "$url/v2/models" | "$python" -S -c 'import json, sys; print({m["name"]: m["state"] for m in json.load(sys.stdin)["models"]})'; }
all_models() { [ "$(states | tr , '\n' | grep -c READY)" = "$1" ]; }
gone() { ! [ -d "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"; }
# A front and a worker; on a GPU a spare, which has another name, sooner or later.
alone() { [ "$(front | wc -l)" = 1 ] && [ "$(pgrep -P "$daemon" -x convoy-worker | wc -l)" = 1 ]; }
restarts() { sample "convoyd_front_restarts_total{reason=\"$1\"}"; }

echo "Under load, there and back: no request is lost, no connection refused; the workers before end."
lay_down "$built/bin"
cp config/convoyd.json "$work/config.json"
start "${on_backend[@]}"
until_true 60 all_models 4 || fail "models are not loaded"
for from in "$next" "$built/bin"; do
  before=$(worker)
  lay_down "$from"
  "$python" tests/tools/upgrade_load.py "$url" "$daemon" "$work/log" 1 --beside >"$work/load" || fail "$(cat "$work/load")"
  cat "$work/load"
  [ "$(cmp "/proc/$(front)/exe" "$from/convoyd" && echo same)" = same ] || fail "another program"
  until_true 10 gone "$before" || fail "the worker before lives"
  until_true 10 alone || fail "processes are left: $(pgrep -a -P "$daemon")"
  all_models 4 || fail "$(states)"
done
[ "$(restarts upgrade) $(restarts signal)" = "2 0" ] || fail "counted are $(restarts upgrade) $(restarts signal)"
logged 2 'msg="models are loaded beside the workers that run" ready=4 failed=0' || fail "not all models were loaded"
grep -q 'worker died' "$work/log" && fail "a worker died"

echo "An upgrade with the same ABI, a crash of the front and of the worker are met as before."
kill -USR2 "$daemon"
until_true 30 logged 3 'msg="upgrade: the new front takes over"' || fail "no upgrade"
until_true 30 logged 1 'msg="worker taken over.* models_kept=4' || fail "the worker is not taken over"
until_true 10 alone || fail "two fronts"
sleep 1.2 # a front that has served for a second has not failed to start
killed=$(front)
kill -KILL "$killed"
until_true 30 logged 2 'msg="worker taken over.* models_kept=4' || fail "the worker is not taken over"
kill -KILL "$(worker)"
until_true 30 logged 1 'msg="worker died and is replaced"' || fail "the worker's end is not told"
until_true 30 ready || fail "not ready"
classified

echo "A new worker has no memory for a model, or cannot start: the front before serves on, and the log says why."
lay_down "$next"
serving=$(front) old=$(worker) given_up=0
# worker_with COMMANDS: which run before the program of each worker that is started from now on.
worker_with() {
  printf '#!/bin/sh\n%s\nexec "%s" "$@"\n' "$1" "$tree/bin/other-worker" >"$work/new"
  chmod +x "$work/new"
  mv "$work/new" "$tree/bin/convoy-worker"
}
refused() { # SENTENCE
  given_up=$((given_up + 1))
  kill -USR2 "$daemon"
  until_true 60 logged $given_up 'msg="the upgrade is given up' || fail "not given up"
  grep -o 'msg="the \(models cannot be loaded beside\|upgrade is given up\).*' "$work/log" | tail -n 2 | grep "$1" >/dev/null || fail "not '$1'"
  until_true 10 alone || fail "processes are left: $(pgrep -a -P "$daemon")"
  [ "$(front) $(worker)" = "$serving $old" ] || fail "not the front and the worker before"
  all_models 4 || fail "$(states)"
  classified
}
cp "$next/convoy-worker" "$tree/bin/other-worker"
[ -d "$tree/lib" ] || cp "$built/bin/convoy-faults.so" "$tree/bin"
worker_with 'export CONVOY_TEST_FAULT=memory:cifar10-resnet'
refused 'model cifar10-resnet, version 1, is not loaded: .* is out of memory'
rm -f "$tree/bin/convoy-faults.so"
worker_with "$([[ $built == *san* ]] && echo 'exit 1' || echo 'ulimit -v 61440')" # a sanitizer's shadow takes all addresses
refused 'the new program has not loaded the models'
[ "$(restarts upgrade)" = 3 ] || fail "upgrades that were given up are counted"
stop

echo "A model whose file is gone is no reason where it was not served; where it was, it is."
mkdir "$work/models"
cp -r models/cifar10-convnet models/cifar10-resnet "$work/models"
cp -r models/fashion-lenet "$work/models/broken"
truncate -s 1000 "$work/models/broken/1/model.onnx"
lay_down "$built/bin"
configure
start --config "$work/config.json" --models "$work/models" "${on_backend[@]}"
until_true 30 all_models 2 || fail "$(states)"
lay_down "$next"
kill -USR2 "$daemon"
until_true 60 logged 1 'msg="upgrade: the new front takes over"' || fail "no upgrade: $(states)"
until_true 10 alone || fail "processes are left: $(pgrep -a -P "$daemon")"
logged 1 'msg="models are loaded beside the workers that run" ready=2 failed=1' || fail "not two models and a broken one"
classified
lay_down "$built/bin"
truncate -s 1000 "$work/models/cifar10-resnet/1/model.onnx"
kill -USR2 "$daemon"
until_true 60 logged 1 'msg="the upgrade is given up' || fail "not given up"
grep -q 'msg="the models cannot be loaded beside.*model cifar10-resnet, version 1, is not loaded' "$work/log" || fail "it does not say why"
until_true 10 alone || fail "processes are left: $(pgrep -a -P "$daemon")"
classified cifar10-resnet
stop

echo "While the new workers load: a model that is loaded by request is served later, SIGHUP is heard, a second SIGUSR2 is passed by."
rm -r "$work/models"
cp -r models "$work/models"
configure 'model_control="explicit"' 'repository={"load_at_start": ["cifar10-convnet", "fashion-lenet"]}' 'auth={"loopback_admin": true}'
lay_down "$built/bin"
start --config "$work/config.json" --models "$work/models" "${on_backend[@]}"
begin_held
expect 200 -X POST "$url/v2/repository/models/cifar10-resnet/load"
expect 200 -X POST "$url/v2/repository/models/fashion-lenet/unload"
kill -HUP "$daemon"
until_true 10 logged 1 'msg="configuration read again"' || fail "SIGHUP is lost"
kill -USR2 "$daemon"
until_true 10 logged 1 'msg="SIGUSR2 is passed by' || fail "a second upgrade begins"
release_workers
until_true 60 logged 1 'msg="upgrade: the new front takes over"' || fail "no upgrade"
until_true 10 logged 2 'msg="configuration read again"' || fail "what SIGHUP meant is not known to the new front"
served() { [ "$(states | tr , '\n' | grep READY | grep -o 'cifar10-[a-z]*\|fashion-[a-z]*' | sort | tr '\n' ' ')" = "$1 " ]; }
until_true 30 served "cifar10-convnet cifar10-resnet" || fail "$(states)"
classified cifar10-resnet
stop

echo "The front before crashes while the new workers load: the new one goes on in its place."
lay_down "$built/bin"
start --config "$work/config.json" --models "$work/models" "${on_backend[@]}"
classified
sleep 1.2 # as above
old=$(front)
begin_held
follows=$(front | grep -vx "$old")
kill -KILL "$old"
until_true 30 logged 1 'msg="upgrade: the new front takes over"' || fail "nothing follows"
release_workers
until_true 30 ready || fail "not ready"
[ "$(front)" = "$follows" ] || fail "another front than the one that was loading"
until_true 10 alone || fail "processes are left: $(pgrep -a -P "$daemon")"
classified
[ "$(restarts upgrade) $(restarts signal)" = "1 1" ] || fail "counted are $(restarts upgrade) $(restarts signal)"
stop

echo "SIGTERM while the new workers load ends all in order."
lay_down "$built/bin"
start --config "$work/config.json" --models "$work/models" "${on_backend[@]}"
begin_held
children=$(pgrep -P "$daemon")
stop
for child in $children; do
  until_true 10 gone "$child" || fail "process $child is left"
done
echo "passed"
