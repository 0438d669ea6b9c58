#!/usr/bin/env bash
# sanitize: yes
# The limits that the configuration sets: connections, queue, deadline. (Bytes: test_http.sh; pixels: test_images.sh;
# images of a form: test_multipart.sh; time: test_slow_client.sh.)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
model=cifar10-convnet

echo "More connections than http.connections wait, and are served when others close."
configure 'default_model="cifar10-convnet"' 'http={"connections": 20, "connections_per_address": 40}'
start --backend null --config "$work/config.json"
"$python" - "$url" $image <<'PYTHON' || fail "see above"
import sys
sys.path.insert(0, "tests/tools")
from wire import Connection
url, image = sys.argv[1], open(sys.argv[2], "rb").read()
held = [Connection(url) for _ in range(20)]
for connection in held:
    connection.ask("GET", "/v2")
    assert connection.answer().status == 200
waiting = [Connection(url) for _ in range(10)]
for connection in waiting:
    connection.ask("POST", "/classify", image)
waiting[0].socket.settimeout(0.5)
try:
    waiting[0].answer()
    sys.exit("the 21st connection is served")
except TimeoutError:
    pass
held[0].ask("GET", "/v2")
assert held[0].answer().status == 200, "those that are in are not served"
for old in held[:10]:
    old.socket.close()
for connection in waiting:
    connection.socket.settimeout(20)
    assert connection.answer().status == 200
PYTHON
expect 200 --data-binary @$image "$url/classify"
stop

echo "One client takes at most three quarters of them, the others are not kept out."
configure 'default_model="cifar10-convnet"' 'http={"connections": 20}'
start --backend null --config "$work/config.json"
"$python" - "$url" $image <<'PYTHON' || fail "see above"
import sys, time
sys.path.insert(0, "tests/tools")
from wire import Closed, Connection
url, image = sys.argv[1], open(sys.argv[2], "rb").read()
def served(connection):
    try:
        connection.ask("POST", "/classify", image)
        return connection.answer().status == 200
    except (Closed, OSError):
        return False
held = [Connection(url)]
end = time.monotonic() + 20
while True:  # until what asked whether the daemon is ready counts no longer
    held[0].ask("GET", "/metrics")
    if b"\nconvoyd_connections 1\n" in held[0].answer().body:
        break
    assert time.monotonic() < end, "another connection stays"
held += [Connection(url) for _ in range(14)]
assert all(served(connection) for connection in held), "the 15 that it may have are not all served"
for _ in range(3):
    assert not served(Connection(url)), "the 16th of one client is served"
other = Connection(url, source="127.0.0.2")
assert served(other), "another client is kept out"
for _ in range(30): # what is closed may be opened again
    held.pop(0).socket.close()
    while True: # until the server has seen it
        held.append(Connection(url))
        if served(held[-1]):
            break
        held.pop()
assert served(Connection(url, source="127.0.0.2")), "another client is kept out after a while"
PYTHON
[ "$(sample convoyd_refused_connections_total)" -ge 3 ] || fail "refused: $(sample convoyd_refused_connections_total)"
[ "$(grep -c 'a client has too many connections' "$work/log")" -le 5 ] || fail "a client fills the log"
grep 'msg="a client has too many connections" connections=15 client=127.0.0.1 ' "$work/log" >/dev/null || fail "nothing in the log"
stop

echo "Health and metrics are answered while all connections are taken, theirs too."
configure 'default_model="cifar10-convnet"' 'http={"connections": 20, "connections_per_address": 20}' 'health_listen="127.0.0.1:0"'
start --backend null --config "$work/config.json"
health=http://127.0.0.1:$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
"$python" - "$url" "$health" <<'PYTHON' || fail "see above"
import sys, time
sys.path.insert(0, "tests/tools")
from wire import Closed, Connection
url, health = sys.argv[1:]
def took(path, status, **options):
    begun = time.monotonic()
    connection = Connection(health, **options)
    connection.socket.settimeout(5)
    connection.ask("GET", path)
    got = connection.answer().status
    assert got == status, f"{path}: status {got}"
    return time.monotonic() - begun
idle = [Connection(url) for _ in range(40)] # 20 wait in the kernel's queue
for path in ["/v2/health/live", "/v2/health/ready", "/metrics"]:
    assert took(path, 200) < 1, f"{path} takes long"
took("/v2/models", 404)
took("/classify", 404)
hogs = []
for number in range(200): # of four clients: each may have 48 of the 64
    hogs.append(Connection(health, source=f"127.0.0.{2 + number % 4}"))
for number, hog in enumerate(hogs): # some with half a header, some with half a request
    try:
        hog.send([b"", b"GET /metrics HTT", b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"][number % 3])
    except Closed:
        pass # one of those that made room
for _ in range(5):
    assert took("/v2/health/live", 200, source="127.0.0.9") < 1, "idle connections keep health waiting"
PYTHON
kill -TERM "$daemon"
wait "$daemon" || fail "status $?"
daemon=
"$build/bin/convoyd" --config "$work/config.json" --check-config >/dev/null || fail "the configuration is not taken"
"$python" -u -m http.server --bind 127.0.0.1 0 >"$work/server" 2>&1 &
other=$!
bound() { grep -o 'port [0-9]*' "$work/server"; }
until_true 10 bound || { kill $other; fail "Python's HTTP server did not start"; }
port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' "$work/server" | head -n 1)
configure "health_listen=\"127.0.0.1:$port\""
"$build/bin/convoyd" --listen 127.0.0.1:0 --backend null --config "$work/config.json" 2>"$work/log" && fail "it starts though the port is in use"
grep "$port" "$work/log" >/dev/null || fail "$(cat "$work/log")"
kill $other
wait $other 2>/dev/null || true

echo "More images than max_queue can hold are 413; no room now is 503 with Retry-After, at once; neither harms another request."
configure 'default_model="cifar10-convnet"' 'batching={"max_queue": 6, "max_batch": 2}' 'worker={"slots": 1, "streams": 1}' \
  'timeout_ms=20000'
start --backend null --config "$work/config.json"
form() { for ((i = 0; i < $1; i++)); do printf -- '-F i=@%s ' $image; done; }
# shellcheck disable=SC2046 # several arguments
expect 413 $(form 7) "$url/classify"
[[ $(json "$work/body" 'd["error"]') == *max_queue* ]] || fail "$(cat "$work/body")"
# shellcheck disable=SC2046
expect 200 $(form 6) "$url/classify"
worker=$(workers)
stand_still "$worker"
waiting=()
slots() { [ "$(sample convoyd_slots_in_use)" = "$1" ]; }
in_queue() { [ "$(sample "convoyd_queue_images{model=\"$model\"}")" = "$1" ]; }
for i in 1 2 3 4; do
  curl -sS -o "$work/answer$i" -w '%{http_code}' --data-binary @$image "$url/classify" >"$work/status$i" &
  waiting+=($!)
  # The first one is in flight, in the only slot; the queue is what waits for one.
  until_true 10 slots 1 || fail "the first image does not reach a slot"
  until_true 10 in_queue $((i - 1)) || fail "there are not $((i - 1)) images in the queue"
done
started=$(date +%s%N)
# shellcheck disable=SC2046
expect 503 $(form 4) "$url/classify"
[ $(($(date +%s%N) - started)) -lt 2000000000 ] || fail "the refusal took long"
grep -qi '^retry-after: [0-9]' "$work/headers" || fail "no Retry-After: $(cat "$work/headers")"
[[ $(json "$work/body" 'd["error"]') == *queue* ]] || fail "$(cat "$work/body")"
in_queue 3 || fail "the refusal changed the queue"

echo "A deadline that passes is 503, the others still wait."
started=$(date +%s%N)
expect 503 --data-binary @$image "$url/classify?timeout_ms=300"
took=$((($(date +%s%N) - started) / 1000000))
if [ $took -lt 300 ] || [ $took -ge 2000 ]; then fail "a deadline of 300 ms took $took ms"; fi
grep -qi '^retry-after: [0-9]' "$work/headers" || fail "no Retry-After: $(cat "$work/headers")"
[[ $(json "$work/body" 'd["error"]') == *time* ]] || fail "$(cat "$work/body")"
kill -CONT "$worker"
wait "${waiting[@]}"
for i in 1 2 3 4; do [ "$(cat "$work/status$i")" = 200 ] || fail "one that waited: $(cat "$work/answer$i")"; done
until_true 10 in_queue 0 || fail "images are left in the queue"
expect 200 --data-binary @$image "$url/classify?timeout_ms=3600000"
[ "$(workers)" = "$worker" ] || fail "the worker was replaced"
stop

echo "timeout_ms of the configuration holds where the request says nothing."
configure 'default_model="cifar10-convnet"' 'timeout_ms=300'
start --backend null --config "$work/config.json"
worker=$(workers)
stand_still "$worker"
expect 503 --data-binary @$image "$url/classify"
[ "$(curl -sS -o /dev/null -w '%{http_code}' "$url/v2/health/ready")" = 200 ] || fail "a slow worker is not an absent one"
kill -CONT "$worker"
stop

echo "Memory for bodies is taken by bytes that came, not by promises; large bodies leave room for small ones."
configure 'default_model="cifar10-convnet"' 'http={"max_body_bytes": 1048576}'
start --backend null --config "$work/config.json"
"$python" - "$url" $image <<'PYTHON' || fail "see above"
import sys, time
sys.path.insert(0, "tests/tools")
from wire import Connection
url, image = sys.argv[1], open(sys.argv[2], "rb").read()
def post(length, sent):
    connection = Connection(url)
    connection.send(b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length + bytes(sent))
    return connection
def served():
    with Connection(url) as connection:
        connection.ask("POST", "/classify", image)
        return connection.answer().status
# 20 bodies that come half way take more than is there for large ones.
held = [post(1048576, 1000000) for _ in range(20)]
end = time.monotonic() + 20
while post(1048576, 1048576).answer().status != 503:  # until all of those have come
    if time.monotonic() > end:
        sys.exit("the memory for bodies is not bounded")
for _ in range(10):
    if served() != 200:
        sys.exit("large bodies keep small ones out")
for connection in held:
    connection.socket.close()
# 400 promises of 64 KiB are more than the 16 MiB that bodies may take.
held = [post(65536, 100) for _ in range(400)]
for _ in range(10):
    if served() != 200:
        sys.exit("promises take the memory of bodies")
PYTHON
stop

echo "Connections leave descriptors for what the daemon needs."
configure 'default_model="cifar10-convnet"' 'http={"threads": 2}'
launch_as prlimit --nofile=200 "$build/bin/convoyd" --listen 127.0.0.1:0 --backend null --config "$work/config.json"
until_true 30 ready || fail "convoyd was not ready"
"$python" - "$url" $image "$(workers)" <<'PYTHON' || fail "see above"
import os, signal, sys, time
sys.path.insert(0, "tests/tools")
from wire import Closed, Connection
url, image, worker = sys.argv[1], open(sys.argv[2], "rb").read(), int(sys.argv[3])
first = Connection(url)
first.ask("GET", "/v2")
first.answer()
held = [Connection(url) for _ in range(300)]
os.kill(worker, signal.SIGKILL)  # its successor needs descriptors
first.ask("POST", "/classify", image)
status = first.answer().status
if status != 200:
    sys.exit(f"status {status}")
for connection in held:
    connection.socket.close()
# Until the daemon has seen that they are gone, it refuses another one of the same client.
end, status = time.monotonic() + 10, None
while status is None:
    try:
        with Connection(url) as connection:
            connection.ask("POST", "/classify", image)
            status = connection.answer().status
    except Closed:
        if time.monotonic() > end:
            sys.exit("refused when the others are gone")
if status != 200:
    sys.exit(f"status {status} when the others are gone")
PYTHON
! grep -q 'cannot accept' "$work/log" || fail "descriptors ran out: $(grep 'cannot accept' "$work/log")"
stop
echo "passed"
