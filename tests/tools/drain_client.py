#!/usr/bin/env python3
"""Sees a running convoyd, whose only worker stands still, through SIGTERM.

    drain_client.py URL IMAGE COUNT DAEMON-PID WORKER-PID

The daemon has one slot. COUNT connections send an image each, the first of them alone, which cannot be
answered as the worker is stopped; COUNT more have had one answer and are kept. DAEMON-PID gets SIGTERM. Then
the socket must refuse connections, a new request on a kept connection must get 503 with "Connection: close",
and once WORKER-PID gets SIGCONT every image its 200. With a COUNT of 0 there is one kept connection and no
image.
"""

import os
import pathlib
import select
import signal
import sys
import time

from wire import Connection


def refuses(url):
    try:
        Connection(url).socket.close()
    except ConnectionError:  # refused, or reset in the moment of closing
        return True
    return False


def early(accepted):
    """What came on connections whose images cannot have been answered yet: their numbers, and the bytes; with them the numbers of
    those whose requests the daemon has not read."""
    readable = select.select([connection.socket for connection in accepted], [], [], 0)[0]
    came = [(i, c.socket.recv(4096)) for i, c in enumerate(accepted) if c.socket in readable]
    return f"came: {came}, not read: {[i for i, c in enumerate(accepted) if c.unread_by_server() != 0]}"


def wait_for(connection, name, wanted, accepted):
    """Until the sum of the samples whose line begins with NAME is that."""
    found, end = None, time.monotonic() + 10
    while found != wanted:
        assert time.monotonic() < end, f"{name} is {found}, not {wanted}; {early(accepted)}"
        connection.ask("GET", "/metrics")
        lines = connection.answer().body.decode().splitlines()
        found = sum(int(line.split()[-1]) for line in lines if line.startswith(name))


def main():
    url, image, count = sys.argv[1], pathlib.Path(sys.argv[2]).read_bytes(), int(sys.argv[3])
    daemon, worker = int(sys.argv[4]), int(sys.argv[5])
    kept = [Connection(url) for _ in range(max(count, 1))]
    for connection in kept:
        connection.ask("GET", "/v2")
        assert connection.answer().status == 200
    accepted = [Connection(url) for _ in range(count)]
    # Accepted is what has its place: one image in the slot, which has left before others could join it there, those in the queue.
    for connection in accepted[:1]:
        connection.ask("POST", "/classify", image)
        wait_for(kept[0], "convoyd_slots_in_use", 1, accepted)
        wait_for(kept[0], "convoyd_queue_images{", 0, accepted)
    for connection in accepted[1:]:
        connection.ask("POST", "/classify", image)
    wait_for(kept[0], "convoyd_queue_images{", max(count - 1, 0), accepted)
    os.kill(daemon, signal.SIGTERM)
    end = time.monotonic() + 10
    while not refuses(url):
        assert time.monotonic() < end, "the socket stays open"
    for connection in kept:
        connection.ask("POST", "/classify", image)
        answer = connection.answer()
        assert answer.status == 503, f"a new request on a kept connection: {answer}"
        assert answer.headers.get("connection", "").lower() == "close", answer
        assert answer.headers.get("retry-after"), answer
        assert connection.closed_within(10) is not None, "open in spite of Connection: close"
    if count > 0:
        os.kill(worker, signal.SIGCONT)
    for connection in accepted:
        answer = connection.answer()
        assert answer.status == 200, f"an accepted request: {answer}"
        assert connection.closed_within(10) is not None, "a connection stays open"


if __name__ == "__main__":
    main()
