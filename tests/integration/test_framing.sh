#!/usr/bin/env bash
# sanitize: both
# Requests that a proxy may read otherwise, headers that are too large for the library, pages of other sites, a log that may
# not grow: each is refused at once with a sentence, and nothing of it is left when the daemon stops.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg

echo "Framing that could be read in two ways, and too many headers."
start --backend null
"$python" tests/tools/framing.py "$url" || fail "see above"
# Headers that libmicrohttpd refuses by itself show as well.
refused=$(sample 'convoyd_requests_total{model="",route="",status="431"}')
[ "${refused:-0}" -ge 4 ] || fail "${refused:-0} answers of status 431 are counted"
begun=$(date +%s%N)
stop
took=$((($(date +%s%N) - begun) / 1000000))
# A request that was begun and never ended would be waited for, for a second.
most=900
[[ $build != *san* ]] || most=3000
[ $took -lt $most ] || fail "the stop took $took ms"
grep -q 'msg=draining .*open_requests=0' "$work/log" || fail "requests are left open: $(grep draining "$work/log")"

echo "Only this server's own pages, and programs, load and unload models."
configure 'model_control="explicit"' 'repository={"load_at_start": ["cifar10-convnet"]}' 'http={"hosts": ["convoy.example"]}' \
  'auth={"loopback_admin": true}'
start --backend null --config "$work/config.json"
port=${url##*:}
unload=$url/v2/repository/models/cifar10-convnet/unload
load=$url/v2/repository/models/cifar10-convnet/load
for origin in http://evil.example null "http://localhost:1" "http://evil.example:$port"; do
  expect 403 -X POST -H "Origin: $origin" "$unload"
done
expect 403 -X POST -H "Origin: http://rebound.example:$port" -H "Host: rebound.example:$port" "$unload"
expect 200 --data-binary @$image "$url/v2/models/cifar10-convnet/classify"
expect 200 -X POST -H "Origin: http://127.0.0.1:$port" "$unload"
expect 200 -X POST -H "Origin: https://convoy.example" -H "Host: convoy.example" "$load"
expect 200 -X POST "$unload"

echo "A body without an end, where none is wanted, is cut off and counted as too large."
"$python" - "$url" <<'PYTHON'
import socket, sys, urllib.parse
address = urllib.parse.urlsplit(sys.argv[1])
with socket.create_connection((address.hostname, address.port), timeout=20) as client:
    client.sendall(b"GET /v2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(40):  # 32 MiB are taken
            client.sendall(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
        while client.recv(4096):
            pass
    except ConnectionError:
        pass
PYTHON
too_large() { [ "$(sample 'convoyd_requests_total{model="",route="/v2",status="413"}')" = 1 ]; }
until_true 10 too_large || fail "$(curl -fsS "$url/metrics" | grep 'route="/v2"')"

echo "A half request does not delay the stop."
before=$(descriptors)
"$python" - "$url" <<'PYTHON' &
import sys
sys.path.insert(0, "tests/tools")
from wire import Connection
connections = [Connection(sys.argv[1]) for _ in range(20)]
for connection in connections[:10]:
    connection.send(b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
for connection in connections[10:]:
    connection.send(b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Le")
print("sent", flush=True)
for connection in connections:
    try:
        connection.more()
    except Exception:
        pass
PYTHON
client=$!
slower=1
[[ $build != *san* ]] || slower=8
open_connections() { [ "$(descriptors)" -ge $((before + 20)) ]; }
until_true 10 open_connections || fail "the connections do not come"
begun=$(date +%s%N)
stop
took=$((($(date +%s%N) - begun) / 1000000))
echo "$took ms"
[ $took -lt $((3000 * slower)) ] || fail "the stop took $took ms"
wait $client

echo "A log that may not grow does not end the daemon."
truncate -s 64M "$work/full" # the limit holds for the memory that worker and front share, too
(
  ulimit -f 65536
  exec "$build/bin/convoyd" --listen 127.0.0.1:0 --backend null 2>>"$work/full"
) &
daemon=$!
until_true 60 listening_unlogged || fail "convoyd does not listen"
until_true 120 ready || fail "convoyd was not ready"
expect 200 --data-binary @$image "$url/v2/models/cifar10-convnet/classify"
[ "$(stat -c %s "$work/full")" = 67108864 ] || fail "the log grew"
stop
echo passed
