#!/usr/bin/env bash
# sanitize: yes
# The command line and the configuration: what is wrong is told in one sentence and an exit status; logs.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
convoyd=$build/bin/convoyd

# refuses STATUS PATTERN ARGUMENTS...: convoyd ends with STATUS and one sentence that fits PATTERN.
refuses() {
  local wanted=$1 pattern=$2 status=0
  shift 2
  timeout 20 "$convoyd" "$@" >"$work/out" 2>"$work/said" || status=$?
  [ $status -eq "$wanted" ] || fail "convoyd $*: status $status, expected $wanted: $(cat "$work/said")"
  [ "$(wc -l <"$work/said")" = 1 ] || fail "convoyd $*: not one line: $(cat "$work/said")"
  grep -Eq "^convoyd: .*($pattern)" "$work/said" || fail "convoyd $*: does not say $pattern: $(cat "$work/said")"
}

echo "The command line."
[[ $("$convoyd" --version) =~ ^convoyd\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "--version: $("$convoyd" --version)"
"$convoyd" --help >"$work/help" || fail "--help fails"
for option in --config --models --listen --health-listen --backend --tune --check-config --version --help; do
  grep -q -- "^  $option" "$work/help" || fail "--help does not tell of $option"
done
refuses 2 'nonsense' --nonsense
refuses 2 'file.json' file.json
refuses 2 '\-\-listen' --listen
refuses 2 'port' --listen 127.0.0.1
refuses 2 '65535' --listen 127.0.0.1:65536
refuses 2 'brackets' --listen ::1:8080
refuses 2 'auto, cpu, cuda, null' --backend gpu
refuses 2 '\-\-models' --models ''
refuses 1 'nowhere.invalid' --listen nowhere.invalid:8080
refuses 1 '192.0.2.1' --listen 192.0.2.1:8080

echo "The configuration."
refuses 1 "$work/nowhere.json.*No such file" --config "$work/nowhere.json"
refuses 1 "$work.*" --config "$work"
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
  echo '{}' >"$work/secret.json"
  chmod 600 "$work/secret.json"
  chmod 755 "$work"
  convoyd=setpriv refuses 1 'secret.json.*Permission denied' --reuid=65534 --regid=65534 --clear-groups "$build/bin/convoyd" \
    --config "$work/secret.json"
fi
# invalid DOCUMENT PATTERN
invalid() {
  printf '%s' "$1" >"$work/config.json"
  refuses 1 "$work/config.json.*($2)" --config "$work/config.json"
  refuses 1 "$work/config.json.*($2)" --config "$work/config.json" --check-config
}
invalid '' ''
invalid '{' ''
invalid '[]' ''
invalid '{"listen": "127.0.0.1:8080"} {}' ''
invalid '{"listn": "127.0.0.1:8080"}' 'listn'
invalid '{"http": {"thread": 1}}' 'http.*thread'
invalid '{"http": 5}' 'http'
invalid '{"listen": 8080}' 'listen'
invalid '{"listen": "8080"}' 'listen'
invalid '{"timeout_ms": "5"}' 'timeout_ms'
invalid '{"timeout_ms": -1}' 'timeout_ms'
invalid '{"timeout_ms": 1.5}' 'timeout_ms'
invalid '{"batching": {"max_batch": 0}}' 'max_batch'
invalid '{"backend": "gpu"}' 'backend'
invalid '{"default_model": "../x"}' 'default_model'
invalid '{"log": {"level": "loud"}}' 'level'
invalid '{"http": {"max_body_bytes": 1e99}}' 'max_body_bytes'
printf '[%.0s' {1..5000} >"$work/config.json"
refuses 1 "$work/config.json" --config "$work/config.json"

echo "A port in use."
start --backend null
refuses 1 "127.0.0.1:$port.*(listens|in use)" --listen "127.0.0.1:$port"
expect 200 --data-binary @$image "$url/classify"
stop

echo "--check-config."
configure 'default_model="cifar10-convnet"'
"$convoyd" --check-config --config "$work/config.json" --backend cpu >"$work/out" 2>&1 || fail "$(cat "$work/out")"
grep -q "^configuration $work/config.json: ok" "$work/out" || fail "$(cat "$work/out")"
grep -q '^model cifar10-convnet version 1: ok' "$work/out" || fail "$(cat "$work/out")"
mkdir "$work/none"
"$convoyd" --check-config --models "$work/none" >"$work/out" 2>&1 && fail "no model is in order: $(cat "$work/out")"

echo "Options go over the file; every line of the log can be read, whatever clients send."
configure 'default_model="cifar10-convnet"' 'backend="cpu"' 'listen="192.0.2.1:1"' 'log={"level": "debug"}'
# strange: requests whose every word a client has chosen
strange() {
  "$python" - "$url" <<'PYTHON'
import sys
sys.path.insert(0, "tests/tools")
from wire import Closed, Connection
for request in (b'GET /a"b\\c HTTP/1.1\r\nHost: x\r\nX-Request-Id: a"b\r\n\r\n', b'G"\\\xff= /v2 HTTP/1.1\r\nHost: x\r\n\r\n',
                b'POST /classify?model=%0a%22level=error HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n',
                b'GET /%0d%0ats=2026 HTTP/1.1\r\nHost: x\r\n\r\n', b"\x16\x03\x01\r\n\r\n"):
    with Connection(sys.argv[1]) as connection:
        connection.send(request)
        try:
            connection.answer()
        except Closed:
            pass
PYTHON
}
start --config "$work/config.json" --backend null
expect 200 -H 'X-Request-Id: chosen.by-me_1' --data-binary @$image "$url/classify"
[ "$(json "$work/body" 'd["device"]')" = null ] || fail "--backend does not go over the file"
strange
line() { grep 'msg=request' "$work/log" | grep "$1"; }
until_true 20 line 'request_id=chosen.by-me_1' || fail "the request is not in the log"
line 'request_id=chosen.by-me_1' | grep -E 'level=debug .*method=POST route=/classify model=cifar10-convnet status=200 bytes=[0-9]+ sent=[0-9]+ total_us=[0-9]+' >/dev/null ||
  fail "$(line chosen)"
grep -Evq '^ts=[0-9T:.-]+Z level=(debug|info|warning|error) msg=("([^"\\]|\\.)*"|[^" =]+)( [a-z_]+=("([^"\\]|\\.)*"|[^" =]*))*$' "$work/log" &&
  fail "not logfmt: $(grep -Ev '^ts=[0-9T:.-]+Z level=(debug|info|warning|error) msg=("([^"\\]|\\.)*"|[^" =]+)( [a-z_]+=("([^"\\]|\\.)*"|[^" =]*))*$' "$work/log")"
stop

configure 'default_model="cifar10-convnet"' 'log={"format": "json", "level": "debug"}'
listening() {
  port=$(sed -n 's/.*"msg":"convoyd listens".*"port":\([0-9]*\).*/\1/p' "$work/log" | tail -n 1)
  [ -n "$port" ]
}
start --config "$work/config.json" --backend null
expect 200 -H 'X-Request-Id: chosen.by-me_1' --data-binary @$image "$url/classify"
strange
stop
"$python" - "$work/log" <<'PYTHON' || fail "not a JSON object a line"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
assert all({"ts", "level", "msg"} <= set(line) for line in lines)
request = next(line for line in lines if line.get("request_id") == "chosen.by-me_1")
assert (request["status"], request["method"], request["route"]) == (200, "POST", "/classify"), request
assert any(line["msg"] == "convoyd ends" for line in lines)
PYTHON

echo "Under systemd a line begins with its priority; elsewhere not."
: >"$work/log"
JOURNAL_STREAM=$(stat -c %d:%i "$work/log") start --config "$work/config.json" --backend null
stop
grep -vq '^<[3467]>{"ts":' "$work/log" && fail "$(cat "$work/log")"
JOURNAL_STREAM=1:2 start --config "$work/config.json" --backend null
stop
grep -q '^<' "$work/log" && fail "$(cat "$work/log")"
echo "passed"
