#!/usr/bin/env bash
# sanitize: all
# timed: no answer may take long beside 8,400 connections
# 8,400 connections that promise bodies of 64 KiB, together more than all bodies may take (16 x max_body_bytes), and send a few
# bytes: memory is counted by what came, so images are classified beside them.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
configure 'default_model="cifar10-convnet"'
start --backend null --config "$work/config.json"
status=0
"$python" - "$url" $image "$(front)" <<'PYTHON' || status=$?
import resource, sys, time
sys.path.insert(0, "tests/tools")
from wire import Connection
url, image, daemon, count = sys.argv[1], open(sys.argv[2], "rb").read(), sys.argv[3], 8400
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
if hard != resource.RLIM_INFINITY and hard < count + 200:
    print(f"{hard} descriptors are too few for {count} connections")
    sys.exit(77)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
resident = lambda: next(int(l.split()[1]) for l in open(f"/proc/{daemon}/status") if l.startswith("VmRSS"))
def received():
    with Connection(url) as connection:
        connection.ask("GET", "/metrics")
        lines = connection.answer().body.decode().splitlines()
    return next(int(l.split()[1]) for l in lines if l.startswith("convoyd_connections "))
before = resident()
held = []
for _ in range(count):
    connection = Connection(url)
    connection.send(b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n" + bytes(100))
    held.append(connection)
end = time.monotonic() + 30
while received() < count:
    if time.monotonic() > end:
        sys.exit("not all are taken")
for _ in range(50):
    begun = time.monotonic()
    with Connection(url) as connection:
        connection.ask("POST", "/classify", image)
        answer = connection.answer()
    if answer.status != 200:
        sys.exit(f"promises take the memory of bodies: {answer}")
    if time.monotonic() - begun > 5:
        sys.exit("an answer takes long")
print(f"a promise of 64 KiB takes {(resident() - before) * 1024 // count} bytes")
PYTHON
[ $status -ne 77 ] || skip "too few descriptors for 8400 connections"
[ $status -eq 0 ] || fail "see above"
stop
echo "passed"
