#!/usr/bin/env python3
"""Wrong keys at a fixed rate, for keys.sh:

  guesser.py URL RATE FILE    sends until SIGTERM; then writes "RATE ANSWERS OTHERS BUSY" to FILE: answers a second, how many
                              there were in all, how many of them were not 401, and percent of a core that it took itself

Ten connections that stay open send one request each, a round at a time, with a pause between two rounds: that takes little of
the machine that is measured. A round that is late is not made up for. Writes a line to standard output once it has the first
answers. Python's standard library only."""

import select
import signal
import socket
import sys
import time
import urllib.parse

CONNECTIONS = 10


class Ended(Exception):
    pass


def end(*_):
    raise Ended


def answers(connection, left):
    """Reads one answer whole; the status."""
    data = left.pop(connection, b"")
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)
    left[connection] = body[length:]
    return head.split(b" ")[1]


def main():
    address = urllib.parse.urlsplit(sys.argv[1])
    rate, answered, others = int(sys.argv[2]), 0, 0
    connections = [socket.create_connection((address.hostname, address.port), timeout=20) for _ in range(CONNECTIONS)]
    requests = [f"GET /v2/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer guess-{i}\r\n\r\n".encode() for i in range(1000)]
    left, number = {}, 0
    signal.signal(signal.SIGTERM, end)
    begun_busy = time.process_time()
    begun = due = time.monotonic()
    try:
        while True:
            for connection in connections:
                connection.sendall(requests[number % len(requests)])
                number += 1
            for connection in connections:
                others += answers(connection, left) != b"401"
                answered += 1
            if answered == CONNECTIONS:
                print("guesses", flush=True)
            due = max(due + CONNECTIONS / rate, time.monotonic() - CONNECTIONS / rate)
            select.select([], [], [], max(0, due - time.monotonic()))
    except Ended:
        with open(sys.argv[3], "w", encoding="ascii") as file:
            took = time.monotonic() - begun
            busy = 100 * (time.process_time() - begun_busy) / took
            file.write(f"{answered / took:.0f} {answered} {others} {busy:.1f}\n")


if __name__ == "__main__":
    main()
