#!/usr/bin/env bash
# Many connections of one HTTP thread have a request at the same moment: each is answered at once. libmicrohttpd takes 128 events
# at a time, and sleeps once more after it took so many.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

configure 'http={"threads": 1}'
start --config "$work/config.json" --backend null
# What is sent while the front stands still is ready at the same moment.
"$python" - "$port" "$(front)" <<'PYTHON' || fail "a burst was not answered"
import os, select, signal, socket, sys

sys.path.insert(0, "tests/tools")
from processes import stand_still

port, front = int(sys.argv[1]), int(sys.argv[2])
request = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
opened = []
for connections in (1, 124, 125, 126, 127, 128, 129, 255, 256):
    while len(opened) < connections:
        opened.append(socket.create_connection(("127.0.0.1", port)))
        opened[-1].sendall(request)  # so that it is the thread's, and not on the way to it
        opened[-1].recv(4096)
    for _ in range(3):
        stand_still(front)
        for connection in opened:
            connection.sendall(request)
        os.kill(front, signal.SIGCONT)
        waiting = set(opened)
        while waiting:
            # The library would sleep for as long as its connections may be idle: a minute.
            ready, _, _ = select.select(list(waiting), [], [], 10)
            if not ready:
                sys.exit(f"{len(waiting)} of {connections} requests were not answered in 10 s")
            for connection in ready:
                answer = connection.recv(4096)
                if not answer.startswith(b"HTTP/1.1 200 "):
                    sys.exit(f"answered with {answer[:100]}")
                waiting.remove(connection)
print("as many as", len(opened), "at the same moment")
PYTHON
stop
echo passed
