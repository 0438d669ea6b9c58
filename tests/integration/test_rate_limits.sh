#!/usr/bin/env bash
# Limits of each client (limits.*): 429 with Retry-After by address and by key, requests at a time, images, slow bodies.
# sanitize: yes
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
image=models/samples/ship.jpg
(umask 077; : >"$work/keys")
for name in one two; do
  "$build/bin/convoy" key $name infer,metrics >>"$work/keys" 2>"$work/$name"
done
one=$(tail -n 1 "$work/one")
two=$(tail -n 1 "$work/two")
statuses() { # COUNT CURL-ARGUMENTS...: how many answers of each status, one after the other
  local count=$1
  shift
  for ((i = 0; i < count; i++)); do curl -s -o /dev/null -w '%{http_code}\n' "$@"; done | sort | uniq -c | awk '{ printf "%s%sx%s", (NR > 1 ? " " : ""), $1, $2 }'
}
wait_for() { [ "$1" = "$2" ] || fail "$3: $1, not $2"; }

echo "By key, and by address where there is none."
configure 'backend="null"' 'default_model="cifar10-convnet"' "auth={\"keys\": \"$work/keys\"}" \
  'limits={"requests_per_second": 0.01, "burst": 3, "by": "key"}'
start --config "$work/config.json" --models models
expect 200 "$url/v2/health/live" # asked before, while it started, and never limited
wait_for "$(statuses 4 -H "Authorization: Bearer $one" "$url/v2/models")" '3x200 1x429' 'key one'
wait_for "$(statuses 4 -H "Authorization: Bearer $two" "$url/v2/models")" '3x200 1x429' 'key two'
wait_for "$(statuses 2 -H "Authorization: Bearer wrong" "$url/v2/models")" '2x401' 'wrong keys'
wait_for "$(statuses 2 "$url/v2/models")" '1x200 1x429' 'no key, after wrong ones from this address'
wait_for "$(statuses 1 -H "Authorization: Bearer wrong" "$url/v2/models")" '1x429' 'guessing is limited'
wait_for "$(statuses 9 "$url/v2/health/ready")" '9x200' 'health'
expect 429 --data-binary @$image "$url/classify"
retry=$(tr -d '\r' <"$work/headers" | awk 'tolower($1) == "retry-after:" { print $2 }')
if [ "$retry" -lt 90 ] || [ "$retry" -gt 100 ]; then fail "Retry-After is $retry"; fi
# A small body is read, and the connection goes on.
connects=$(curl -s -o /dev/null -o /dev/null -w '%{num_connects} ' --data-binary @$image "$url/classify" "$url/classify")
[ "$connects" = '1 0 ' ] || fail "a 429 closes the connection: $connects"
expect 200 --unix-socket "$work/convoyd/admin-$port.sock" http://localhost/metrics
grep -x 'convoyd_key_requests_total{key="one",outcome="limited"} 1' "$work/body" >/dev/null || fail "$(grep key_requests "$work/body")"
stop

echo "What no endpoint answers counts, too: by key, and by address; but not on health's paths nor on the admin socket."
configure 'backend="null"' "auth={\"keys\": \"$work/keys\"}" 'http={"cors_origins": ["https://app.example"]}' 'health_listen="127.0.0.1:0"' \
  'limits={"requests_per_second": 0.01, "burst": 3, "by": "key"}'
start --config "$work/config.json" --models models
wait_for "$(statuses 4 -H "Authorization: Bearer $one" "$url/no/such/page")" '3x404 1x429' "key one's 404"
wait_for "$(statuses 1 -H "Authorization: Bearer $one" "$url/v2/models")" '1x429' "key one's 404 are not of its requests"
wait_for "$(statuses 4 -H "Authorization: Bearer $two" "$url/classify")" '3x405 1x429' "key two's 405"
wait_for "$(statuses 1 -H "Authorization: Bearer wrong" "$url/no/such/page")" '1x404' 'a wrong key is none of those'
preflight=(-X OPTIONS -H 'Origin: https://app.example' -H 'Access-Control-Request-Method: POST')
wait_for "$(statuses 3 "${preflight[@]}" "$url/classify")" '2x204 1x429' 'preflights, after one with a wrong key'
wait_for "$(statuses 1 "$url/no/such/page")" '1x429' 'a 404 without a key'
expect 429 "$url/no/such/page"
grep -i '^retry-after: [0-9]' "$work/headers" >/dev/null || fail "a 429 in place of a 404 without Retry-After: $(cat "$work/headers")"
wait_for "$(statuses 9 -X POST "$url/v2/health/ready")" '9x405' "health's path with another method"
wait_for "$(statuses 9 --unix-socket "$work/convoyd/admin-$port.sock" http://localhost/no/such/page)" '9x404' 'the admin socket'
health=$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
wait_for "$(statuses 9 "http://127.0.0.1:$health/no/such/page")" '9x404' 'the address for health'
expect 200 --unix-socket "$work/convoyd/admin-$port.sock" http://localhost/metrics
grep -x 'convoyd_key_requests_total{key="two",outcome="limited"} 1' "$work/body" >/dev/null || fail "$(grep key_requests "$work/body")"
# A body that comes with it is kept out like any other's.
expect 429 --data-binary @models/samples/ship.jpg -H "Authorization: Bearer $one" "$url/no/such/page"
stop

echo "By the address that a trusted proxy tells."
configure 'backend="null"' 'http={"trusted_proxies": ["127.0.0.1"]}' 'limits={"requests_per_second": 0.01, "burst": 3}'
start --config "$work/config.json" --models models
for client in 1 2; do
  wait_for "$(statuses 4 -H "X-Forwarded-For: 192.0.2.$client" "$url/v2/models")" '3x200 1x429' "client $client"
done
wait_for "$(statuses 1 -H "X-Forwarded-For: 192.0.2.3, 192.0.2.1" "$url/v2/models")" '1x429' 'one that claims to be another'
stop

echo "Requests at a time, and images."
cat >"$work/asks.py" <<'PYTHON'
import socket, sys, time
from urllib.parse import urlsplit
address = urlsplit(sys.argv[1])
def connect():
    return socket.create_connection((address.hostname, address.port), timeout=20)
def status(s):
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = s.recv(65536)
        if not part:
            return "closed"
        answer += part
    return answer.split(b" ")[1].decode()
def ask():
    with connect() as s:
        s.sendall(b"GET /v2/models HTTP/1.1\r\nHost: a\r\n\r\n")
        return status(s)
def begin():
    """A request without the rest of its body, of which the front has read the header: that is told, and limits have seen it."""
    s = connect()
    s.sendall(b"POST /v2/repository/index HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9000\r\n\r\n")
    told = status(s)
    s.sendall(b"x")
    return s if told == "100" else None
PYTHON
configure 'backend="null"' 'default_model="cifar10-convnet"' 'admin_listen=null' 'limits={"images_per_second": 0.01, "concurrent": 2}'
start --config "$work/config.json" --models models
PYTHONPATH=$work "$python" -B - "$url" <<'PYTHON'
from asks import *
waiting = [begin(), begin()]
end = time.monotonic() + 10
while ask() != "429":  # until the front has read both headers
    assert time.monotonic() < end, "two requests at a time, and a third one passes"
waiting[0].sendall(b"x" * 8999)
assert status(waiting[0]) == "400"
while ask() != "200":
    assert time.monotonic() < end, "an answered request still counts"
waiting[1].close()
while (left := begin()) is None:
    assert time.monotonic() < end, "a request whose client left still counts"
while ask() != "200":
    assert time.monotonic() < end, "a request whose client left still counts"
PYTHON
free() { expect 200 "$url/v2/models"; }
until_true 10 free || fail "a client that left still counts"
wait_for "$(statuses 3 "$url/v2/models")" '3x200' 'no images'
wait_for "$(statuses 2 --data-binary @$image "$url/classify")" '1x200 1x429' 'images'
stop

echo "SIGHUP: limits where there were none, other ones, and none again; the roles that need no key; slow bodies. Nothing is closed."
reload() { # KEY=JSON...: and waits until it holds.
  local before
  before=$(grep -c 'msg="configuration read again"' "$work/log" || true)
  configure 'backend="null"' 'default_model="cifar10-convnet"' "auth={\"keys\": \"$work/keys\", \"anonymous\": $1}" "limits=$2"
  kill -HUP "$daemon"
  read_again() { [ "$(grep -c 'msg="configuration read again"' "$work/log")" -gt "$before" ]; }
  until_true 10 read_again || fail "SIGHUP does not read the configuration"
}
configure 'backend="null"' 'default_model="cifar10-convnet"' "auth={\"keys\": \"$work/keys\"}"
start --config "$work/config.json" --models models
wait_for "$(statuses 9 "$url/v2/models")" '9x200' 'without limits'
mkfifo "$work/go"
PYTHONPATH=$work "$python" -B - "$url" "$work/go" <<'PYTHON' &
from asks import *
kept, slow = connect(), begin()
for turn in range(2):
    kept.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
    assert status(kept) == "200", "the connection was closed"
    if turn == 0:
        open(sys.argv[2], "w").write("asked")
        open(sys.argv[2]).read()
try:
    slow.settimeout(20)
    assert slow.recv(65536) == b"", "a body that came before the limit of its rate goes on"
except ConnectionError:
    pass
PYTHON
kept=$!
cat "$work/go" >/dev/null
reload '["infer", "metrics"]' '{"requests_per_second": 0.01, "burst": 3, "body_bytes_per_second": 1000}'
wait_for "$(statuses 4 "$url/v2/models")" '3x200 1x429' 'limits that come with SIGHUP'
wait_for "$(statuses 4 -H "Authorization: Bearer $one" "$url/v2/models")" '4x429' 'a key of that address'
echo go >"$work/go"
wait $kept || fail "the connections that were open"
reload '["infer", "metrics"]' '{"requests_per_second": 0.01, "burst": 2, "by": "key"}'
wait_for "$(statuses 3 "$url/v2/models")" '2x200 1x429' 'other limits: the debt at the old ones is forgotten'
wait_for "$(statuses 3 -H "Authorization: Bearer $one" "$url/v2/models")" '2x200 1x429' 'by key'
reload '["metrics"]' '{"requests_per_second": 0.01, "burst": 2, "by": "key"}'
wait_for "$(statuses 1 -H "Authorization: Bearer $one" "$url/v2/models")" '1x429' 'the same limits: nothing is forgotten'
reload '["metrics"]' '{}'
wait_for "$(statuses 9 -H "Authorization: Bearer $one" "$url/v2/models")" '9x200' 'no limits again'
expect 401 "$url/v2/models"
expect 200 "$url/metrics"
reload '[]' '{"requests_per_second": 0}'
expect 401 "$url/metrics"
configure 'auth={"anonymous": ["infer", "metrics"]}' 'limits={"requests_per_second": "many"}'
kill -HUP "$daemon"
not_taken() { grep 'configuration is not taken over.*requests_per_second' "$work/log"; }
until_true 10 not_taken || fail "a file that is wrong is not named"
expect 401 "$url/metrics"
stop

echo "Slow bodies."
configure 'backend="null"' 'limits={"body_bytes_per_second": 1000}'
start --config "$work/config.json" --models models
PYTHONPATH=$work "$python" -B - "$url" <<'PYTHON'
from asks import *
begun = time.monotonic()
slow = begin()
try:
    while time.monotonic() < begun + 20:  # a byte at a time: far below 1,000 a second
        slow.sendall(b"x")
        time.sleep(0.05)
    sys.exit("a body that dribbles is waited for")
except OSError:
    pass
took = time.monotonic() - begun
assert took > 1.9, took  # the first two seconds are free
PYTHON
slow() { sample 'convoyd_requests_total{model="",route="/v2/repository/index",status="408"}'; }
counted() { [ "$(slow)" = 1 ]; } # the connection is cut off before the thread that had it counts it
until_true 10 counted || fail "the slow body counts $(slow) times as 408"
stop
echo "passed"
