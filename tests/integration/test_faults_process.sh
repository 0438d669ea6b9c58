#!/usr/bin/env bash
# sanitize: all
# timed: how long answers take while workers are meddled with is judged by the clock
# The processes and what ties them together: a front that is killed, Ctrl-C, a control socket that closes or speaks
# nonsense, a log that cannot be written.
# shellcheck disable=SC2119 # start and launch take options of convoyd, which are not this script's
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"

image=models/samples/truck.jpg

ended() { ! kill -0 "$1" 2>/dev/null; }
images_came() { [ "$(metric convoyd_images_total)" -gt 100 ]; }
replaced_once() { [ "$(metric convoyd_worker_restarts_total)" = 1 ]; }
classified() {
  expect 200 --data-binary @$image "$url/classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
}

echo "The front killed with -9 leaves no orphan, idle, busy or with a worker that just starts."
start
pid=$(worker)
kill -KILL "$daemon"
until_true 20 ended "$pid" || fail "the idle worker lives on"
start
load cut --seconds 600
pid=$(worker)
until_true 20 images_came || fail "no load"
kill -KILL "$daemon"
until_true 20 ended "$pid" || fail "the busy worker lives on"
kill -TERM "$load_pid"
wait "$load_pid" || true
launch
pid=$(worker)
kill -KILL "$daemon"
until_true 20 ended "$pid" || fail "the starting worker lives on"

echo "Ctrl-C reaches front and worker: what was accepted is answered, no worker dies, the front ends with 0."
set -m # a process group of its own
start
set +m
pid=$(worker)
load drained --seconds 600
until_true 20 images_came || fail "no load"
kill -INT -- "-$daemon"
status=0
wait "$daemon" || status=$?
[ $status = 0 ] || fail "the front ended with $status"
daemon=
ended "$pid" || fail "the worker outlives the front"
grep -q 'msg=draining signal=SIGINT' "$work/log" || fail "the log does not say why it drains"
grep -q 'worker died' "$work/log" && fail "the worker died of Ctrl-C"
kill -TERM "$load_pid"
loaded drained
[ "$(json "$work/drained.json" 'set(d["statuses"]) <= {"200", "503"} and d["wrong"] + d["lost"] == 0')" = True ] ||
  fail "an accepted request was not answered"

echo "A worker that hangs does not hold up the end."
start
stand_still "$(worker)"
stop

meddle() { # reason that the front should give, arguments of worker_socket.py
  local reason=$1 restarts status=0
  shift
  restarts=$(metric convoyd_worker_restarts_total)
  python3 tests/tools/worker_socket.py "$(worker)" "$@" >"$work/meddled" || status=$?
  [ $status != 77 ] || skip "$(cat "$work/meddled")"
  [ $status = 0 ] || fail "worker_socket.py $*: status $status"
  replaced() { [ "$(metric convoyd_worker_restarts_total)" -gt "$restarts" ]; }
  until_true 10 replaced || fail "no worker was replaced after: $*"
  grep -q "worker died.* reason=$reason" "$work/log" || fail "the log does not say '$reason' after: $*"
  classified
}

echo "A control socket that closes or speaks nonsense costs the worker, not requests."
# Long enough that no request is refused for the wait that a few images after an outage let the front expect (service_time.h).
configure timeout_ms=$((30000 * slower))
start --config "$work/config.json"
load meddled --seconds $((4 * (slower > 1 ? 3 : 1)))
meddle '\(exit\|signal\)' shutdown
stand_still "$(worker)" # it cannot follow by itself
meddle signal shutdown
meddle protocol say 'this is no JSON\n'
meddle protocol say '{"type": "loaded", "model": 4000000000}\n'
meddle protocol say '{"type": "hello"}\n'
meddle protocol say '[]\n'
meddle protocol flood 20000000
loaded meddled
all_answered meddled $((2000 * slower))
stop

echo "A log on a full disk, and no standard streams at all: served all the same."
rm -rf "$work/convoyd" # daemons that were killed have left their admin sockets
"$build/bin/convoyd" --listen 127.0.0.1:0 2>/dev/full &
daemon=$!
until_true 60 listening_unlogged || fail "convoyd does not listen with a full disk under the log"
until_true 20 ready || fail "not ready with a full disk under the log"
classified
kill -KILL "$(worker)"
until_true 10 replaced_once || fail "the worker was not replaced"
classified
stop
"$build/bin/convoyd" --listen 127.0.0.1:0 0<&- 1>&- 2>&- &
daemon=$!
until_true 60 listening_unlogged || fail "convoyd does not listen without standard streams"
until_true 20 ready || fail "not ready without standard streams"
classified
for descriptor in 0 1 2; do
  [[ $(readlink "/proc/$(front)/fd/$descriptor") == /dev/null ]] ||
    fail "descriptor $descriptor is $(readlink "/proc/$(front)/fd/$descriptor"): what a library prints would land there"
done
stop
