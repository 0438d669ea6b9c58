#!/usr/bin/env bash
# sanitize: yes
# The access log: off, sampled, all; what a line says; answers before and without a request; nothing of a client's making.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
# lines [PATTERN]: answers in the log at level info that match.
lines() { grep -c "level=info msg=request .*${1:-}" "$work/log" || true; }
is_lines() { [ "$(lines "$2")" = "$1" ]; }
# has_line PATTERN: exactly one such line comes.
has_line() { until_true 20 is_lines 1 "$1" || fail "$(lines "$1") lines like: $1"; }
# raw BYTES: sends them as they are and reads what comes.
raw() { printf '%b' "$1" | timeout 5 "$python" -c 'import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(sys.stdin.buffer.read())
while s.recv(4096):
    pass' "$port" || true; }

# reread KEY=JSON...: takes over another configuration.
reread() {
  local before
  before=$(grep -c 'configuration read again' "$work/log" || true)
  configure 'default_model="cifar10-convnet"' "$@"
  kill -HUP "$daemon"
  # shellcheck disable=SC2317 # until_true calls it
  read_again() { [ "$(grep -c 'configuration read again' "$work/log" || true)" -gt "$before" ]; }
  until_true 10 read_again || fail "the configuration is not read again"
}

echo "Off, on and off again by SIGHUP."
configure 'default_model="cifar10-convnet"'
start --backend null --config "$work/config.json"
expect 200 --data-binary @$image "$url/classify"
expect 404 "$url/nothing"
is_lines 0 '' || fail "there is an access log"
reread 'log={"access": "all"}'
expect 404 -H 'X-Request-Id: on' "$url/nothing"
has_line 'request_id=on '
reread 'log={"access": "off"}'
expect 404 -H 'X-Request-Id: off' "$url/nothing"
stop
is_lines 0 'request_id=off ' || fail "SIGHUP does not end the access log"

echo "All."
# A request that ends in the middle is seen within a fifth of this timeout at the latest.
configure 'default_model="cifar10-convnet"' 'log={"access": "all"}' 'http={"request_timeout_ms": 5000}'
start --backend null --config "$work/config.json"
size=$(stat -c %s $image)
expect 200 -H 'X-Request-Id: one' --data-binary @$image "$url/classify?model=cifar10-resnet"
has_line "request_id=one client=127.0.0.1 method=POST route=/classify model=cifar10-resnet status=200 bytes=$size sent=$(stat -c %s "$work/body") total_us=[0-9]* unwritten=0\$"
expect 200 -H 'X-Request-Id: two' "$url/v2/models/cifar10-convnet"
has_line 'request_id=two .*method=GET route=/v2/models/{model} .*status=200 bytes=0'
expect 404 -H 'X-Request-Id: three' "$url/secret%0alevel=error?token=secret"
has_line 'request_id=three .*route="" model="" status=404'
expect 405 -H 'X-Request-Id: four' -X DELETE "$url/classify"
has_line 'request_id=four .*method=DELETE route=/classify .*status=405'
expect 415 -H 'X-Request-Id: five' --data-binary text "$url/classify"
has_line 'request_id=five .*status=415 bytes=4 '
expect 405 -H 'X-Request-Id: method' -X MY-SECRET "$url/classify"
has_line 'request_id=method .*method=other route=/classify .*status=405'
curl -fsSI -H 'X-Request-Id: head' "$url/v2/models" >"$work/headers" || fail "no answer to HEAD"
has_line 'request_id=head .*method=HEAD route=/v2/models .*status=200 bytes=0 sent=0 '
raw "POST /classify HTTP/1.1\r\nHost: x\r\nX-Request-Id: six\r\nContent-Length: 99999999999\r\n\r\n"
has_line 'request_id=six .*status=413'
raw "GET /?$(printf 'a&%.0s' {1..100}) HTTP/1.1\r\nHost: x\r\n\r\n"
has_line 'client=127.0.0.1 .*status=414 '
raw 'GET /v2\x0b HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\tlevel=error msg="made up"\r\n\r\n'
grep -i 'made up\|secret\|token' "$work/log" && fail "a client writes into the log"

echo "Requests that end in the middle."
received() { sample convoyd_received_bytes_total; }
before=$(received)
half="POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\nX-Request-Id:"
"$python" - "$url" <<'PYTHON'
import sys
sys.path.insert(0, "tests/tools")
from wire import Connection
with Connection(sys.argv[1]) as connection:
    connection.ask("POST", "/classify", headers=["Content-Length: 5000", "X-Request-Id: left"])
    connection.send(b"1234567")
PYTHON
has_line 'request_id=left .*route=/classify model="" status=499 bytes=7 sent=0 '
raw "POST /classify HTTP/1.1\r\nHost: x\r\nX-Request-Id: chunk\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nno\r\n"
has_line 'request_id=chunk .*route=/classify model="" status=400 bytes=3 sent=0 '
[ "$(received)" = $((before + 10)) ] || fail "$(received) bytes received, $before before"
[ "$(sample 'convoyd_requests_total{model="",route="/classify",status="499"}')" = 1 ] || fail "the client that left is not counted"

echo "Clients that leave while they wait behind others."
worker=$(workers)
stand_still "$worker"
"$python" - "$url" $image <<'PYTHON' || fail "see above"
import sys, time
sys.path.insert(0, "tests/tools")
from wire import Connection
connections = [Connection(sys.argv[1]) for _ in range(8)]
for connection in connections:
    connection.ask("POST", "/classify", open(sys.argv[2], "rb").read(), ["X-Request-Id: gone"])
end = time.monotonic() + 20
while any(connection.unread_by_server() for connection in connections):
    assert time.monotonic() < end, "the images are not read"
PYTHON
# Whether the library or the answer finds the connection closed first is chance: of the answer's bytes none or all count.
all_gone() { [ "$(lines "request_id=gone client=127.0.0.1 method=POST route=/classify model=cifar10-convnet status=499 bytes=$size sent=[0-9]* ")" = 8 ]; }
until_true 20 all_gone || fail "$(grep request_id=gone "$work/log")"
kill -CONT "$worker"

echo "JSON, at SIGHUP."
reread 'log={"access": "all", "format": "json"}'
expect 200 -H 'X-Request-Id: seven' --data-binary @$image "$url/classify"
in_json() { grep '"msg":"request","request_id":"seven"' "$work/log" >"$work/line"; }
until_true 20 in_json || fail "no line in JSON"
[ "$(json "$work/line" '(d["client"], d["status"], d["bytes"], d["route"])')" = "('127.0.0.1', 200, $size, '/classify')" ] ||
  fail "$(cat "$work/line")"
stop

echo "Slow clients, in mid-body and in mid-header."
configure 'default_model="cifar10-convnet"' 'log={"access": "all"}' 'http={"request_timeout_ms": 300}'
start --backend null --config "$work/config.json"
raw "$half slow\r\n\r\n1234567"
has_line 'request_id=slow .*method=POST route=/classify model="" status=408 bytes=7 sent=0 '
raw "$half never"
has_line 'request_id="" client=127.0.0.1 method="" route=/classify model="" status=408 bytes=0 sent=0 '
stop

echo "A log that is not read keeps no client waiting; what is lost is counted."
configure 'default_model="cifar10-convnet"' 'log={"access": "all"}'
mkfifo "$work/pipe"
: >"$work/log"
cat "$work/pipe" >>"$work/log" &
reader=$!
"$build/bin/convoyd" --listen 127.0.0.1:0 --backend null --config "$work/config.json" 2>"$work/pipe" &
daemon=$!
until_true 20 listening || fail "convoyd did not listen within 20 s"
url=http://127.0.0.1:$port
until_true 30 ready || fail "convoyd was not ready within 30 s"
stand_still "$reader"
# More lines than any pipe holds.
"$python" - "$url" <<'PYTHON'
import sys
sys.path.insert(0, "tests/tools")
from wire import Connection
with Connection(sys.argv[1]) as connection:
    for _ in range(3000):
        connection.ask("GET", "/nothing")
        assert connection.answer().status == 404
PYTHON
kill -CONT "$reader"
# The pipe has room now, so the next line comes, and with it the count.
all_told() {
  expect 404 "$url/nothing"
  asked=$((asked + 1))
  [ "$(awk '/msg=request .*status=404/ { lines++; sub(/.*unwritten=/, ""); lines += $1; lost += $1 } END { print lines, (lost > 0) }' "$work/log")" = "$asked 1" ]
}
asked=3000
until_true 20 all_told || fail "$asked answers: $(awk '/msg=request .*status=404/ { n++; sub(/.*unwritten=/, ""); lost += $1 } END { print n + 0 " lines, " lost + 0 " lost" }' "$work/log")"
stop
wait "$reader"

echo "Sampled: one a second of each class; the others are counted."
configure 'default_model="cifar10-convnet"' 'log={"access": "sampled"}'
start --backend null --config "$work/config.json"
before=$SECONDS
for _ in {1..40}; do
  expect 200 --data-binary @$image "$url/classify"
  expect 404 "$url/nothing"
done
took=$((SECONDS - before + 1))
for status in 200 404; do
  [ "$(lines "status=$status")" -ge 1 ] || fail "no line of status $status"
  [ "$(lines "status=$status")" -le $((took + 1)) ] || fail "$(lines "status=$status") lines of status $status in $took s"
done
counted() {
  expect 404 "$url/nothing"
  [ "$(sed -n 's/.*level=info msg=request .*status=404 .*unwritten=\([0-9]*\)$/\1/p' "$work/log" | awk '{ n += $1 + 1 } END { print n }')" -ge 41 ]
}
until_true 10 counted || fail "answers are neither written nor counted: $(grep 'status=404' "$work/log")"
stop
echo "passed"
