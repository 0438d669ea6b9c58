#!/usr/bin/env bash
# sanitize: all
# What a service manager is told: readiness, status, watchdog, reload, stop; and what a worker must not inherit.
# shellcheck source=tests/integration/manager.sh
. "$(dirname "$0")/manager.sh"

left_out=
echo "READY=1 comes when the daemon is ready, and says what it serves."
manage --watchdog-us 600000 -- --listen 127.0.0.1:0 --backend cpu
until_true 30 holds 'said("READY") == ["1"]' || fail "no READY: $(cat "$record")"
listening || fail "READY before it listens"
url=http://127.0.0.1:$port
ready || fail "READY=1 was said, but ready says otherwise"
holds 'said("STATUS")[-1] == "serving 4 models"' || fail "$(cat "$record")"
holds 'all(line["pid"] == r[0]["pid"] for line in r)' || fail "another process talks: $(cat "$record")"

echo "Its worker knows nothing of the manager."
tr '\0' '\n' <"/proc/$(pgrep -P "$convoyd" convoy-worker)/environ" >"$work/environment"
grep -q '^PATH=' "$work/environment" || fail "the worker has no environment"
grep -E '^(NOTIFY_SOCKET|WATCHDOG_|LISTEN_)' "$work/environment" && fail "the worker inherits the above"

echo "WATCHDOG=1 comes at half the time, twice and more."
beats=$(recorded 'len(said("WATCHDOG"))')
until_true 20 holds "len(said('WATCHDOG')) >= $((beats + 7))" || fail "no beats: $(cat "$record")"
between='(lambda at: sorted(b - a for a, b in zip(at, at[1:]))[len(at) // 2])([l["at"] for l in r if "WATCHDOG" in l.get("said", {})])'
holds "0.2 < $between < 0.4" || fail "600 ms are watched, and it beats every $(recorded "$between") s"

# Nothing happens while it is silent, so there is no event to wait for: two and a half periods, in which the watchdog
# would have struck.
silent() {
  local beats
  beats=$(recorded 'len(said("WATCHDOG"))')
  sleep 1.5
  [ "$(recorded 'len(said("WATCHDOG"))')" = "$beats" ] || fail "$1 beats"
}
beats_again() {
  local beats
  beats=$(recorded 'len(said("WATCHDOG"))')
  until_true 5 holds "len(said('WATCHDOG')) > $beats" || fail "$1 beats no more"
}

echo "A front whose control loop is stuck is silent, though its other threads answer."
mkfifo "$work/hold"
"$python" tests/tools/stop_thread.py "$(front_of "$convoyd")" <"$work/hold" >"$work/stopped" 2>"$work/refused" &
stopper=$!
exec 9>"$work/hold"
stopped_or_not() { [ -s "$work/stopped" ] || [ -s "$work/refused" ]; }
until_true 10 stopped_or_not || fail "the thread does not stop"
if [ -s "$work/stopped" ]; then
  silent "a stuck loop"
  expect 503 "$url/v2/health/live"
else
  left_out="a control loop that is stuck, as ptrace(2) is not allowed: $(tail -n 1 "$work/refused")"
fi
exec 9>&-
wait "$stopper" || [ -s "$work/refused" ] || fail "the thread does not go on"
beats_again "a loop that turns again"

echo "So is one that was stopped altogether."
stand_still "$(front_of "$convoyd")"
silent "a stopped front"
kill -CONT "$(front_of "$convoyd")"
beats_again "a front that goes on"

echo "A front that crashes, and one that takes over at SIGUSR2, are told of by the same process, and beat on."
ready_before=$(recorded 'len(said("READY"))')
for signal in KILL USR2; do
  if [ $signal = USR2 ]; then kill -USR2 "$convoyd"; else kill -KILL "$(front_of "$convoyd")"; fi
  ready_before=$((ready_before + 1))
  until_true 30 holds "len(said('READY')) == $ready_before" || fail "no READY after SIG$signal: $(cat "$record" "$work/log")"
  beats_again "a front after SIG$signal"
done
holds 'all(line["pid"] == r[0]["pid"] for line in r)' || fail "another process talks: $(cat "$record")"
until_true 10 ready || fail "not ready"

echo "SIGHUP is told around the reload; a configuration that is wrong stands in the status."
kill -HUP "$daemon"
until_true 5 holds "len(said('READY')) == $((ready_before + 1))" || fail "$(cat "$record")"
holds 'len(said("RELOADING")) == 1 and 0 < int(said("MONOTONIC_USEC")[0]) < 10**15' || fail "$(cat "$record")"
holds '[k for l in r for k in l.get("said", {}) if k in ("RELOADING", "READY")] [-2:] == ["RELOADING", "READY"]' ||
  fail "$(cat "$record")"
end 0

echo "SIGTERM: STOPPING=1, and time for the drain."
holds 'said("STOPPING") == ["1"]' || fail "$(cat "$record")"
holds 'int(said("EXTEND_TIMEOUT_USEC")[-1]) >= 30_000_000' || fail "$(cat "$record")"
holds 'said("STATUS")[-1].startswith("draining: 0 requests")' || fail "$(cat "$record")"

echo "A wrong configuration, taken back."
configure 'drain_ms=100'
manage -- --listen 127.0.0.1:0 --backend null --config "$work/config.json"
until_true 30 holds 'len(said("READY")) == 1' || fail "no READY: $(cat "$record")"
holds 'said("WATCHDOG") == []' || fail "beats without a watchdog: $(cat "$record")"
echo '{"nonsense": 1}' >"$work/config.json"
kill -HUP "$daemon"
until_true 5 holds '"not taken over: " in said("STATUS")[-1] and "nonsense" in said("STATUS")[-1]' || fail "$(cat "$record")"
holds 'len(said("READY")) == 2' || fail "a reload that failed does not end: $(cat "$record")"
configure 'drain_ms=100'
kill -HUP "$daemon"
until_true 5 holds 'said("STATUS")[-1] == "serving 4 models"' || fail "$(cat "$record")"
end 0

echo "Started means answered for: a folder without models, and one whose only model is damaged."
mkdir "$work/none"
manage -- --listen 127.0.0.1:0 --backend null --models "$work/none"
until_true 30 holds 'said("READY") == ["1"]' || fail "no READY: $(cat "$record")"
holds '"no model to serve" in said("STATUS")[-1]' || fail "$(cat "$record")"
end 0
mkdir -p "$work/damaged/one/1"
echo nonsense >"$work/damaged/one/1/model.onnx"
manage -- --listen 127.0.0.1:0 --backend cpu --models "$work/damaged"
until_true 30 holds 'said("READY") == ["1"]' || fail "no READY: $(cat "$record")"
holds '"no model can be served, 1 FAILED" in said("STATUS")[-1]' || fail "$(cat "$record")"
end 0

echo "A model that takes its time is waited for, and asks for time."
touch "$work/stall"
export CONVOY_TEST_FAULT=stall:cifar10-convnet:$work/stall
stand_ins_use_files
open_files "$work/stalled.json"
manage -- --listen 127.0.0.1:0 --backend null --config "$work/stalled.json"
unset CONVOY_TEST_FAULT
# Nothing shows that it goes on waiting but time: a good two seconds more than the patience with what does not move.
begun=$SECONDS
waited() { [ $((SECONDS - begun)) -ge 13 ]; }
until_true 20 waited || fail "time stands still"
holds 'said("READY") == []' || fail "READY while a model is loading: $(cat "$record")"
holds 'len(said("EXTEND_TIMEOUT_USEC")) >= 1' || fail "no more time was asked for: $(cat "$record")"
rm "$work/stall"
until_true 10 holds 'said("READY") == ["1"] and said("STATUS")[-1] == "serving 4 models"' || fail "$(cat "$record")"
end 0

echo "A daemon that gets no worker counts as started: there is no CUDA module to start."
if [ ! -e "$build/bin/convoy-backend-cuda.so" ]; then
  manage -- --listen 127.0.0.1:0 --backend cuda
  until_true 40 holds 'said("READY") == ["1"]' || fail "no READY: $(cat "$record")"
  holds '"loading models: 0 of 4 done" in said("STATUS")[-1]' || fail "$(cat "$record")"
  holds '[l["at"] for l in r if "READY" in l.get("said", {})][0] >= 10' || fail "READY too early: $(cat "$record")"
  end 0
fi
[ -z "$left_out" ] || skip "left out: $left_out; the rest passed"
echo "passed"
