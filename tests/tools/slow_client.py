#!/usr/bin/env python3
"""Clients that are too slow for a running convoyd, all at once, and when it cuts each of them off.

    slow_client.py URL IMAGE TIMEOUT_MS

One sends its header, one its body, one a chunked body, one the second request of its connection at a byte
every tenth of TIMEOUT_MS; one stops in mid-body; one never reads its answers, which are many. Each must be
cut off between TIMEOUT_MS (but for 1 %) and 1.5 times that plus half a second. One more sends nothing at all
and must not be cut off (idle_timeout_ms is for it). Prints a line for each; exit status 1 when one was cut
too early, too late, or answered with 200.
"""

import pathlib
import select
import sys
import threading
import time

from wire import Closed, Connection

URL, IMAGE, TIMEOUT = sys.argv[1], pathlib.Path(sys.argv[2]).read_bytes(), int(sys.argv[3]) / 1000
EARLIEST, LATEST = TIMEOUT * 0.99, TIMEOUT * 1.5 + 0.5
failures = []


def dribble(connection, data, start):
    """A byte at a time until the server closes; how long after start that was, or None."""
    at = 0
    while time.monotonic() - start < LATEST + 1:
        if at < len(data):
            try:
                connection.send(data[at : at + 1])
            except Closed:
                return time.monotonic() - start
            at += 1
        if select.select([connection.socket], [], [], TIMEOUT / 10)[0]:
            try:
                connection.more()
            except Closed:
                assert b" 200 " not in connection.pending, "answered with 200"
                return time.monotonic() - start
    return None


def header():
    with Connection(URL) as connection:
        return dribble(
            connection, b"POST /classify HTTP/1.1\r\nHost: x\r\nX-Fill: " + b"x" * 9999, time.monotonic()
        )


def body():
    with Connection(URL) as connection:
        start = time.monotonic()
        connection.ask("POST", "/classify", headers=[f"Content-Length: {len(IMAGE)}"])
        return dribble(connection, IMAGE, start)


def chunked_body():
    with Connection(URL) as connection:
        start = time.monotonic()
        connection.ask("POST", "/classify", headers=["Transfer-Encoding: chunked"])
        return dribble(connection, b"1\r\nx\r\n" * 9999, start)


def second_request():
    with Connection(URL) as connection:
        connection.ask("POST", "/classify", IMAGE)
        assert connection.answer().status == 200
        # Rests for longer than the timeout: time without a request does not count.
        assert connection.closed_within(TIMEOUT * 1.3) is None, "cut off while it rested"
        return dribble(connection, b"GET /v2 HTTP/1.1\r\n" + b"X: y\r\n" * 9999, time.monotonic())


def mid_body():
    with Connection(URL) as connection:
        start = time.monotonic()
        connection.ask("POST", "/classify", headers=[f"Content-Length: {len(IMAGE)}"])
        connection.send(IMAGE[:100])
        taken = connection.closed_within(LATEST + 1)
        return taken and time.monotonic() - start


def never_reads():
    """Many pages of metrics are more than the kernel's buffers hold."""
    with Connection(URL, receive_buffer=4096) as connection:
        request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
        connection.socket.setblocking(False)
        start = last = time.monotonic()
        unread = 0
        while time.monotonic() - start < 3 * LATEST:
            try:
                connection.socket.send(request * 200)
            except BlockingIOError:
                time.sleep(TIMEOUT / 100)
            except OSError:
                # The answer that stuck began between start and last: buffers took bytes for a while after it.
                now = time.monotonic()
                return max(now - last, min(now - start, EARLIEST))
            # Not when requests were last taken: the kernel takes them for a daemon that writes no more, and a busy
            # daemon writes long after it took the last.
            if (waiting := connection.unread_by_client()) not in (None, unread):
                unread, last = waiting, time.monotonic()
        return None


def silent():
    with Connection(URL) as connection:
        taken = connection.closed_within(LATEST + 1)
        assert taken is None, f"cut off after {taken:.2f} s"
        connection.ask("GET", "/v2")
        assert connection.answer().status == 200


def run(client):
    name = client.__name__.replace("_", " ")
    try:
        taken = client()
        if client is silent:
            print(f"{name}: still open", flush=True)
        elif taken is None:
            failures.append(f"{name}: not cut off")
        elif not EARLIEST <= taken <= LATEST:
            failures.append(f"{name}: cut off after {taken:.2f} s")
        else:
            print(f"{name}: cut off after {taken:.2f} s", flush=True)
    except (AssertionError, OSError, Closed) as error:
        failures.append(f"{name}: {error!r}")


def main():
    clients = [header, body, chunked_body, second_request, mid_body, never_reads, silent]
    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        print(f"FAILED: {failure}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
