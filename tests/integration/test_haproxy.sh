#!/usr/bin/env bash
# The shipped HAProxy configuration in front of two convoyds under steady load: one is killed with -9 in the middle of
# requests and started again, then the other, then one drains. Not one request may fail or be answered wrongly.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

haproxy=$(PATH=$PATH:/usr/sbin command -v haproxy) || skip "there is no haproxy (Debian package haproxy)"
shipped=config/haproxy/haproxy.cfg
image=models/samples/ship.jpg
declare -A pid port
load=''
worker=''

stop_all() {
  local status=$? name
  for name in "${!pid[@]}"; do
    kill -KILL "${pid[$name]}" 2>/dev/null || true
  done
  [ -z "$load" ] || kill -KILL "$load" 2>/dev/null || true
  [ -z "$worker" ] || kill -CONT "$worker" 2>/dev/null || true # it ends by itself, unless it stands still
  set +e # what was wrong must not end this
  finish "$status"
}
trap stop_all EXIT

port_known() {
  port[$1]=$(sed -n 's/.*msg="convoyd listens".* port=\([0-9]*\).*/\1/p' "$work/log.$1" | tail -n 1)
  [ -n "${port[$1]}" ]
}

# convoyd NAME: starts it, on the port that it had before.
convoyd() {
  : >"$work/log.$1"
  "$build/bin/convoyd" --config "$work/config.json" --backend cpu --listen "127.0.0.1:${port[$1]:-0}" 2>"$work/log.$1" &
  pid[$1]=$!
  until_true 20 port_known "$1" || fail "convoyd $1 did not listen: $(cat "$work/log.$1")"
}

# What HAProxy counts: balancer METRIC LABELS, e.g. balancer haproxy_server_retry_warnings_total 'server="a"'.
balancer() {
  curl -fsS --unix-socket "$work/statistics" http://haproxy/metrics |
    awk -v name="$1{" -v labels="$2" 'index($0, name) == 1 && index($0, labels) { sum += $NF } END { print sum + 0 }'
}
in_service() { [ "$(balancer haproxy_server_status "server=\"$1\",state=\"UP\"")" = 1 ]; }
out_of_service() { [ "$(balancer haproxy_server_status "server=\"$1\",state=\"DOWN\"")" = 1 ]; }
answers() { balancer haproxy_server_http_responses_total "server=\"$1\",code=\"2xx\""; }
more_answers() { [ "$(answers "$1")" -gt "$2" ]; }
serves() { more_answers "$1" "$(answers "$1")" || until_true 10 more_answers "$1" "$(answers "$1")"; }
computes() { [ "$(url=http://127.0.0.1:${port[$1]} sample convoyd_slots_in_use)" -gt 0 ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }

# kill_in_mid_request NAME: its worker stands still, so requests wait in it for certain when it is killed.
kill_in_mid_request() {
  worker=$(pgrep -P "${pid[$1]}" convoy-worker)
  stand_still "$worker"
  until_true 10 computes "$1" || fail "no request reaches $1"
  kill -KILL "${pid[$1]}"
  kill -CONT "$worker"
  wait "${pid[$1]}" 2>/dev/null || true
  until_true 10 gone "$worker" || fail "the worker of $1 lives on"
  worker=
}

echo "haproxy -c has nothing to say."
"$haproxy" -c -f $shipped >"$work/check" 2>&1 || fail "$(cat "$work/check")"
grep -iE 'warning|alert' "$work/check" && fail "haproxy -c warns"

echo "Two convoyds, one address."
configure 'shared_memory={"enabled": true}' 'default_model="cifar10-convnet"' 'drain_ms=4000'
convoyd a
convoyd b
# HAProxy takes a server as up until its first checks say otherwise: a convoyd that still loads would be taken out again.
for name in a b; do url=http://127.0.0.1:${port[$name]} until_true 30 ready || fail "$name was not ready: $(cat "$work/log.$name")"; done
CONVOYD_BIND=fd@3 CONVOYD_STATS_BIND=unix@$work/statistics \
  CONVOYD_A=127.0.0.1:${port[a]} CONVOYD_B=127.0.0.1:${port[b]} \
  "$python" tests/tools/on_free_port.py "$work/port" "$haproxy" -db -f $shipped >"$work/log" 2>&1 &
daemon=$!
until_true 10 test -s "$work/port" || fail "haproxy did not start"
url=http://127.0.0.1:$(cat "$work/port")
for name in a b; do until_true 20 in_service $name || fail "HAProxy does not find $name ready"; done
python3 tests/tools/steady_load.py "$url" --seconds 120 --connections 16 >"$work/load.json" 2>"$work/load.err" &
load=$!
for name in a b; do serves $name || fail "$name gets no requests"; done

for name in a b; do
  echo "kill -9 $name in the middle of requests; it comes back."
  kill_in_mid_request $name
  until_true 10 out_of_service $name || fail "HAProxy does not see that $name is gone"
  convoyd $name
  until_true 20 in_service $name || fail "HAProxy does not take $name back"
  serves $name || fail "$name gets no requests any more"
done

echo "SIGTERM: HAProxy looks away while a serves on, and a ends with status 0."
kill -TERM "${pid[a]}"
until_true 10 out_of_service a || fail "HAProxy sends requests to a convoyd that drains"
kill -0 "${pid[a]}" 2>/dev/null || fail "a was gone before HAProxy looked away"
status=0
wait "${pid[a]}" || status=$?
[ $status -eq 0 ] || fail "a ended with status $status"

echo "SIGTERM without drain_ms: the other convoyd gets what a refuses."
configure 'shared_memory={"enabled": true}' 'default_model="cifar10-convnet"' 'drain_ms=0'
convoyd a
until_true 20 in_service a || fail "HAProxy does not take a back"
serves a || fail "a gets no requests any more"
kill -TERM "${pid[a]}"
wait "${pid[a]}" || fail "a ended badly"
kill -0 $load 2>/dev/null || fail "the load ended before its time: $(cat "$work/load.err")"
kill -TERM $load
wait $load || fail "the load client: $(cat "$work/load.err")"
load=

cat "$work/load.json"
for name in a b; do
  echo "$name: $(answers $name) answers, $(balancer haproxy_server_redispatch_warnings_total "server=\"$name\"") sent on to the other"
done
[ "$(json "$work/load.json" 'set(d["statuses"]) == {"200"} and d["wrong"] + d["lost"] + d["refused"] == 0')" = True ] ||
  fail "not every request was answered rightly: $(grep -E '^Server .* is (UP|DOWN)' "$work/log")"
[ "$(json "$work/load.json" 'd["requests"]')" = $(($(answers a) + $(answers b))) ] || fail "a and b answered otherwise than the client was"
for name in a b; do
  [ "$(balancer haproxy_server_redispatch_warnings_total "server=\"$name\"")" -gt 0 ] || fail "nothing was lost with $name: was it killed in mid-request?"
done

echo "What does not fit in HAProxy's buffer goes through too; what is over max_body_bytes does not."
{ cat $image && head -c 3000000 /dev/zero; } >"$work/large"
expect 200 -H 'X-Request-Id: large-1' --data-binary "@$work/large" "$url/classify"
grep -qi '^x-request-id: large-1' "$work/headers" || fail "the request's identifier is lost"
expect 413 -H 'Expect:' -H 'Content-Length: 33554433' --data-binary @$image "$url/classify"
expect 404 "$url/metrics"
expect 404 "$url/v2/systemsharedmemory/status"
expect 403 -d '{"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 3, 32, 32], "parameters": {"shared_memory_region": "r",
  "shared_memory_byte_size": 12288}}]}' "$url/v2/models/cifar10-convnet/infer"
expect 403 -d '{"trace_rate": 7}' "$url/v2/trace/setting"
expect 415 --data-binary text "$url/classify"

echo "Without any convoyd: 503, in JSON, with Retry-After."
kill -TERM "${pid[b]}"
wait "${pid[b]}" || fail "b ended badly"
until_true 10 out_of_service b || fail "HAProxy does not see that b is gone"
expect 503 --data-binary @$image "$url/classify"
grep -qi '^retry-after: ' "$work/headers" || fail "no Retry-After: $(cat "$work/headers")"
echo "passed"
