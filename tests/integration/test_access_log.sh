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
has_line() { until_true 5 is_lines 1 "$1" || fail "$(lines "$1") lines like: $1"; }
# raw BYTES: sends them as they are and reads what comes.
raw() { printf '%b' "$1" | timeout 5 "$python" -c 'import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(sys.stdin.buffer.read())
while s.recv(4096):
    pass' "$port" || true; }

echo "Off."
configure 'default_model="cifar10-convnet"'
start --backend null --config "$work/config.json"
expect 200 --data-binary @$image "$url/classify"
expect 404 "$url/nothing"
stop
is_lines 0 '' || fail "there is an access log"

echo "All."
configure 'default_model="cifar10-convnet"' 'log={"access": "all"}'
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
raw "POST /classify HTTP/1.1\r\nHost: x\r\nX-Request-Id: six\r\nContent-Length: 99999999999\r\n\r\n"
has_line 'request_id=six .*status=413'
raw "GET /?$(printf 'a&%.0s' {1..100}) HTTP/1.1\r\nHost: x\r\n\r\n"
has_line 'client=127.0.0.1 .*status=414 '
raw 'GET /v2\x0b HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\tlevel=error msg="made up"\r\n\r\n'
grep 'made up\|secret\|token' "$work/log" && fail "a client writes into the log"

echo "Clients that leave while they wait behind others."
worker=$(workers)
kill -STOP "$worker"
for _ in {1..8}; do timeout 0.5 curl -sS -H 'X-Request-Id: gone' --data-binary @$image "$url/classify" >/dev/null 2>&1 & done
some_gone() { [ "$(lines "request_id=gone client=127.0.0.1 method=POST route=/classify model=cifar10-convnet status=499 bytes=$size sent=0 ")" -ge 2 ]; }
until_true 5 some_gone || fail "$(grep 499 "$work/log")"
kill -CONT "$worker"

echo "JSON, at SIGHUP."
configure 'default_model="cifar10-convnet"' 'log={"access": "all", "format": "json"}'
kill -HUP "$daemon"
read_again() { grep 'configuration read again' "$work/log"; }
until_true 10 read_again || fail "the configuration is not read again"
expect 200 -H 'X-Request-Id: seven' --data-binary @$image "$url/classify"
in_json() { grep '"msg":"request","request_id":"seven"' "$work/log" >"$work/line"; }
until_true 5 in_json || fail "no line in JSON"
[ "$(json "$work/line" '(d["client"], d["status"], d["bytes"], d["route"])')" = "('127.0.0.1', 200, $size, '/classify')" ] ||
  fail "$(cat "$work/line")"
stop

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
