#!/usr/bin/env bash
# sanitize: all
# timed: answers under load, and who counts as hanging, are judged by the clock
# Workers that hang: stopped by a signal, or in a job that never ends. And a front that was stopped itself, which
# must not take that for its worker's fault.
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"
stand_ins_use_files

# The heartbeat comes every 100 ms in any build.
hang_ms=$((slower > 1 ? 1000 : 500))
configure worker="{\"hang_timeout_ms\": $hang_ms}" timeout_ms=60000

echo "A worker stopped under load is replaced after the hang timeout."
export CONVOY_TEST_FAULT=stall:cifar10-convnet:$work/stall # while that file is there, which is needed further down
start --config "$work/config.json"
# They pause: what is asked while the worker stands is what is lost or kept, not how much.
load stopped --seconds 9 --pause 200
for ((i = 0; i < 2; i++)); do
  sleep 3
  stand_still "$(worker)"
done
loaded stopped
all_answered stopped $((hang_ms + 1000 * slower))
[ "$(json "$work/stopped.json" 'd["retried"] > 0')" = True ] || fail "\"retries\" is in no answer"
[ "$(curl -fsS "$url/metrics" | grep -c 'worker_restarts_total{.*reason="hang"} 2$')" = 1 ] ||
  fail "not two workers were replaced for hanging"

echo "A worker that is stopped with nothing to do is replaced too: its heartbeat is missed."
replaced() { [ "$(metric convoyd_worker_restarts_total)" -gt "$restarts" ]; }
restarts=$(metric convoyd_worker_restarts_total)
stand_still "$(worker)"
until_true 20 replaced || fail "the hang was not noticed"
until_true 20 ready || fail "not ready again"

echo "What cannot wait for the next worker is told so in time."
restarts=$(metric convoyd_worker_restarts_total)
stand_still "$(worker)"
expect 503 --data-binary @models/samples/ship.jpg "$url/classify?timeout_ms=100"
grep -qi '^retry-after:' "$work/headers" || fail "a deadline that passed is answered without Retry-After"
until_true 20 replaced || fail "the hang was not noticed"
expect 200 --data-binary @models/samples/ship.jpg "$url/classify"

echo "A stopped worker that is killed before the timeout, and its successor stopped at once."
load both --seconds 4 --pause 200
sleep 1
first=$(worker)
starts() { grep -c 'msg="worker started"' "$work/log"; }
before=$(starts)
successor() { [ "$(starts)" -gt "$before" ]; }
stand_still "$first"
# The successor is stopped while it loads, before it gets an image: an image that is alone in it, and so loses its second
# worker, would rightly be blamed.
touch "$work/stall"
kill -KILL "$first"
until_true 20 successor || fail "no successor"
stand_still "$(workers)"
rm "$work/stall"
loaded both
all_answered both $((hang_ms + 1000 * slower))
restarts=$(metric convoyd_worker_restarts_total)

echo "The front stopped under load, shorter and longer than the hang timeout: its worker is not to blame."
load away --seconds 8 --pause 200
for pause in 0.3 0.8 1.5 3; do
  stand_still "$(front)"
  sleep "$pause"
  kill -CONT "$(front)"
  sleep 0.3
done
loaded away
all_answered away 4500
[ "$(metric convoyd_worker_restarts_total)" = "$restarts" ] || fail "a worker was replaced though the front was away"
stop

echo "A job that never ends: its image alone gets the 500."
python3 tests/tools/solid_png.py "$work/poison.png" 250 0 250
export CONVOY_TEST_FAULT=hang:250,0,250
start --config "$work/config.json"
load endless --seconds 6 --connections 16
sleep 1
expect 500 --data-binary @"$work/poison.png" "$url/classify"
loaded endless
# At worst: once together, then alone, among two of 16, and by itself.
all_answered endless $((4 * hang_ms + 3000 * slower))
expect 200 --data-binary @models/samples/ship.jpg "$url/classify"
stop
