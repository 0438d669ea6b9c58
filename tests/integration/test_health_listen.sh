#!/usr/bin/env bash
# sanitize: both
# timed: no answer of health_listen may take two seconds, where a mistake costs it more than three
# health_listen under attack and at the stop: clients that take all of it keep no other one waiting, readiness is 503 while the
# daemon drains, it is closed last, and a full queue of strangers does not keep the daemon from ending.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
# serve HTTP-SETTINGS ARGUMENTS...
serve() {
  configure 'default_model="cifar10-convnet"' "http=$1" 'drain_timeout_ms=20000'
  shift
  start --backend null --config "$work/config.json" --health-listen 127.0.0.1:0 "$@"
  health=http://127.0.0.1:$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
}

echo "100 idle connections of one client take all of http.connections: health answers at once, to the same client."
serve '{"connections": 100, "connections_per_address": 100}'
"$python" - "$url" "$health" <<'PYTHON' || fail "see above"
import sys, time
sys.path.insert(0, "tests/tools")
from wire import Closed, Connection
url, health = sys.argv[1:]

def ask(path, status=200):
    begun = time.monotonic()
    with Connection(health) as connection:
        connection.ask("GET", path)
        answer = connection.answer()
    took = time.monotonic() - begun
    assert answer.status == status, f"{path}: {answer}"
    assert took < 2, f"{path} takes {took:.1f} s"
    return answer

idle = [Connection(url) for _ in range(100)]
for path in ["/v2/health/live", "/v2/health/ready", "/metrics"]:
    ask(path)
assert "health_listen" in ask("/classify", 404).json()["error"], "the sentence is the other address's"

# All of health_listen's own connections, from the address that asks.
hogs = [Connection(health) for _ in range(150)]
for _ in range(10):
    ask("/v2/health/live")

# Clients that ask for a long answer again and again, and take none.
senders = []
for _ in range(64):
    connection = Connection(health, receive_buffer=4096)
    connection.socket.setblocking(False)
    try:
        for _ in range(200):
            connection.socket.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
    except OSError:
        pass
    senders.append(connection)
for connection in idle:
    connection.socket.close()

def answered():
    with Connection(url) as connection:
        connection.ask("GET", "/metrics")
        lines = connection.answer().body.decode().splitlines()
    return sum(int(l.rpartition(" ")[2]) for l in lines if l.startswith('convoyd_requests_total{model="",route="/metrics"'))

# Until their sockets are full: what is left of answering them is not what is timed.
end, before = time.monotonic() + 60, answered()
while True:
    time.sleep(0.1)
    now = answered()
    if now - before <= 1:  # the question itself
        break
    assert time.monotonic() < end, "the senders are answered for ever"
    before = now
for _ in range(10):
    ask("/v2/health/live")
PYTHON

echo "While it drains readiness is 503 there, and it is the last to close."
"$python" - "$url" "$health" "$daemon" $image <<'PYTHON' || fail "see above"
import os, signal, subprocess, sys, time
sys.path.insert(0, "tests/tools")
from processes import stand_still
from wire import Closed, Connection
url, health, daemon, image = sys.argv[1], sys.argv[2], int(sys.argv[3]), open(sys.argv[4], "rb").read()

def status(path):
    with Connection(health) as connection:
        connection.ask("GET", path)
        return connection.answer().status

def wait_for(what, sentence):
    end = time.monotonic() + 20
    while not what():
        if time.monotonic() > end:
            sys.exit(sentence)
        time.sleep(0.01)

def listens():
    try:
        with Connection(url):
            return True
    except OSError:
        return False

worker = int(subprocess.check_output(["pgrep", "-P", str(daemon), "convoy-worker"]))
assert status("/v2/health/ready") == 200
stand_still(worker)
waits = Connection(url)  # is answered when the worker goes on, so the drain lasts until then
waits.ask("POST", "/classify?timeout_ms=60000", image)
def images_run():
    with Connection(url) as connection:
        connection.ask("GET", "/metrics")
        return b"convoyd_slots_in_use 1\n" in connection.answer().body
wait_for(images_run, "the image does not reach the worker")
os.kill(daemon, signal.SIGTERM)
wait_for(lambda: not listens(), "the socket is not closed")
assert status("/v2/health/ready") == 503, "a draining daemon is ready"
assert status("/v2/health/live") == 200, "a draining daemon is not alive"
assert status("/metrics") == 200
os.kill(worker, signal.SIGCONT)
assert waits.answer().status == 200
PYTHON
wait "$daemon" || fail "status $?"
daemon=

echo "A port that is in use is named, with what to change."
mkfifo "$work/hold"
"$python" -c 'import socket, sys; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True); sys.stdin.read()' \
  <"$work/hold" >"$work/port" &
other=$!
exec 9>"$work/hold"
until_true 20 test -s "$work/port" || fail "no other program listens"
port=$(cat "$work/port")
status=0
"$build/bin/convoyd" --listen 127.0.0.1:0 --health-listen "127.0.0.1:$port" --backend null --models models 2>"$work/log" || status=$?
[ $status = 1 ] || fail "status $status"
grep "cannot listen on 127.0.0.1:$port: .* choose another port with --health-listen" "$work/log" >/dev/null || fail "$(cat "$work/log")"
exec 9>&-
wait $other
status=0
"$build/bin/convoyd" --check-config --listen 127.0.0.1:8081 --health-listen 127.0.0.1:8081 2>"$work/log" || status=$?
[ $status = 1 ] || fail "one address for both: status $status"
grep 'health_listen and listen are both 127.0.0.1:8081' "$work/log" >/dev/null || fail "$(cat "$work/log")"

echo "Descriptors are kept for it and for a new worker while both addresses are full."
configure 'default_model="cifar10-convnet"' 'http={"threads": 2}'
launch_as prlimit --nofile=250 "$build/bin/convoyd" --listen 127.0.0.1:0 --health-listen 127.0.0.1:0 --backend null --config "$work/config.json"
health=http://127.0.0.1:$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
until_true 120 ready || fail "convoyd was not ready"
"$python" - "$url" "$health" $image "$(workers)" <<'PYTHON' || fail "see above"
import os, signal, sys
sys.path.insert(0, "tests/tools")
from wire import Connection
url, health, image, worker = *sys.argv[1:3], open(sys.argv[3], "rb").read(), int(sys.argv[4])
def status(connection, *request):
    connection.ask(*request)
    return connection.answer().status
first = Connection(url)
assert status(first, "GET", "/v2") == 200
held = [Connection(address, source=f"127.0.0.{2 + i % 9}") for address in (url, health) for i in range(300)]
assert status(Connection(health), "GET", "/v2/health/live") == 200
os.kill(worker, signal.SIGKILL)  # its successor needs descriptors
assert status(first, "POST", "/classify", image) == 200
PYTHON
! grep -q 'cannot accept' "$work/log" || fail "descriptors ran out: $(grep 'cannot accept' "$work/log")"
stop

echo "Connections of more addresses than the table of a small daemon has clients wait in its queue: it ends all the same."
serve '{"connections": 20, "connections_per_address": 20}'
"$python" - "$url" "$daemon" <<'PYTHON' || fail "see above"
import os, signal, sys, time
sys.path.insert(0, "tests/tools")
from wire import Connection
url, daemon = sys.argv[1], int(sys.argv[2])
held = [Connection(url) for _ in range(20)]
for connection in held:
    connection.ask("GET", "/v2")
    assert connection.answer().status == 200
held += [Connection(url, source=f"127.0.{1 + i // 200}.{1 + i % 200}") for i in range(1000)]
os.kill(daemon, signal.SIGTERM)
end = time.monotonic() + 30
def runs():
    try:
        return open(f"/proc/{daemon}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False  # the shell has waited for it
while runs():
    if time.monotonic() > end:
        sys.exit("it does not end")
    time.sleep(0.05)
PYTHON
wait "$daemon" || fail "status $?"
daemon=
echo "passed"
