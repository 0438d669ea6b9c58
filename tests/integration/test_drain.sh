#!/usr/bin/env bash
# sanitize: all
# timed: ready must turn 503 at once, and what is under way must be read within drain_ms
# Readiness, and SIGTERM: ready turns 503 at once, drain_ms of service, then the socket is closed, what was accepted is
# answered, exit 0.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
status_of() { curl -s -o "$work/body" -w '%{http_code}' "$@" || true; }
answers() { [ "$(status_of "$url/v2/health/$1")" = "$2" ]; }
ended() { ! kill -0 "$daemon" 2>/dev/null; }
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
slots() { [ "$(sample convoyd_slots_in_use)" = "$1" ]; }
ends_well() {
  local status=0
  wait "$daemon" || status=$?
  daemon=
  [ $status -eq 0 ] || fail "$1: status $status"
}
orphans() { kill -0 "$1" 2>/dev/null; }
no_orphan() { ! orphans "$1"; }

echo "While it drains for drain_ms: ready is 503, everything else is served, the socket is open."
configure 'default_model="cifar10-convnet"' 'drain_ms=1500'
start --backend cpu --config "$work/config.json"
worker=$(workers)
began=$(milliseconds)
kill -TERM "$daemon"
until_true 1 answers ready 503 || fail "ready does not turn 503"
[ $(($(milliseconds) - began)) -lt 1000 ] || fail "ready turned 503 after $(($(milliseconds) - began)) ms"
[ "$(json "$work/body" 'd["ready"]')" = False ] || fail "$(cat "$work/body")"
expect 200 "$url/v2/health/live"
expect 200 --data-binary @$image "$url/classify"
grep -qi '^connection: close' "$work/headers" && fail "connections are closed already"
expect 200 "$url/metrics"
until_true 10 ended || fail "it does not end"
took=$(($(milliseconds) - began))
if [ $took -lt 1500 ] || [ $took -ge 4000 ]; then fail "it ended after $took ms"; fi
ends_well "after drain_ms"
until_true 5 no_orphan "$worker" || fail "the worker lives on"
[ "$(status_of "$url/v2/health/live")" = 000 ] || fail "the port is still listened on"

echo "Accepted requests are answered after the socket is closed, new ones on kept connections get 503."
configure 'default_model="cifar10-convnet"' 'timeout_ms=60000' 'worker={"slots": 1, "streams": 1}'
start --backend null --config "$work/config.json"
worker=$(workers)
stand_still "$worker"
"$python" tests/tools/drain_client.py "$url" $image 20 "$daemon" "$worker" || fail "see above"
until_true 10 ended || fail "it does not end"
ends_well "with requests to answer"
until_true 5 no_orphan "$worker" || fail "the worker lives on"

echo "A kept connection hears of it, though there is nothing else to wait for."
start --backend null
"$python" tests/tools/drain_client.py "$url" $image 0 "$daemon" 0 || fail "see above"
until_true 10 ended || fail "it does not end"
ends_well "with one kept connection"

echo "What is not answered within drain_timeout_ms gets 503."
configure 'default_model="cifar10-convnet"' 'timeout_ms=60000' 'drain_timeout_ms=500'
start --backend null --config "$work/config.json"
worker=$(workers)
stand_still "$worker"
curl -sS -D "$work/headers" -o "$work/body" -w '%{http_code}' --data-binary @$image "$url/classify" >"$work/status" &
client=$!
until_true 10 slots 1 || fail "the image does not reach a slot"
began=$(milliseconds)
kill -TERM "$daemon"
wait "$client" || fail "the request was lost"
[ "$(cat "$work/status")" = 503 ] || fail "status $(cat "$work/status")"
grep -qi '^retry-after: ' "$work/headers" || fail "no Retry-After: $(cat "$work/headers")"
until_true 10 ended || fail "it does not end"
[ $(($(milliseconds) - began)) -lt 5000 ] || fail "it ended after $(($(milliseconds) - began)) ms"
ends_well "after drain_timeout_ms"
until_true 5 no_orphan "$worker" || fail "a worker that is stopped lives on"

echo "A second signal skips drain_ms; SIGINT is as good as SIGTERM."
configure 'default_model="cifar10-convnet"' 'drain_ms=60000'
start --backend null --config "$work/config.json"
kill -INT "$daemon"
until_true 5 answers ready 503 || fail "ready does not turn 503"
kill -INT "$daemon"
until_true 5 ended || fail "it does not end"
ends_well "after a second signal"

echo "Kept connections without a request do not hold it up."
start --backend null
mkfifo "$work/hold"
"$python" tests/tools/idle_connections.py "$url" 50 <"$work/hold" >"$work/opened" &
client=$!
exec 9>"$work/hold"
until_true 10 test -s "$work/opened"
kill -TERM "$daemon"
until_true 5 ended || fail "it does not end"
ends_well "with idle connections"
exec 9>&-
wait "$client"

echo "Just started, it can be stopped."
launch --backend null
kill -TERM "$daemon"
until_true 10 ended || fail "it does not end"
ends_well "just started"

echo "Under load, again and again: no answer is wrong, none is lost."
while_served=500 # longer than a request may wait to be read
[[ $build != *san* ]] || while_served=3000
for drain_ms in 0 0 0 $while_served; do
  configure 'default_model="cifar10-convnet"' "drain_ms=$drain_ms"
  start --backend null --config "$work/config.json"
  "$python" tests/tools/load.py "$url" --seconds 0.7 --connections 32 --mix --terminate "$daemon" --json >"$work/load" ||
    fail "$(cat "$work/load")"
  [ "$drain_ms" -eq 0 ] || [ "$(json "$work/load" "d['overtaken']")" = 0 ] || fail "not served during drain_ms: $(cat "$work/load")"
  # Told by a refusal; or, when every connection had a request that was accepted, by the answer, which is the last.
  [ "$(json "$work/load" "d['stopped'] + d['overtaken'] + d['dismissed'] > 0")" = True ] ||
    fail "no client was told that it stops: $(cat "$work/load")"
  until_true 10 ended || fail "it does not end"
  ends_well "under load"
done
echo "passed"
