#!/usr/bin/env python3
"""Clients of a running convoyd that go away before their answer.

    gone_client.py URL IMAGE COUNT header|body|chunked|form|whole|answer [WAIT]

COUNT connections each send a part of a request: a piece of its header, half of its body (with Content-Length,
chunked, or of a form), the whole request, or the whole with the first bytes of the answer read. Then half of
them close and the others reset. For "whole" all are sent before the first one leaves. With WAIT they only say
that they will send no more, and the server must close each of them within WAIT seconds.
"""

import pathlib
import socket
import struct
import sys
import time

from wire import Connection


def main():
    url, image, count, where = (
        sys.argv[1],
        pathlib.Path(sys.argv[2]).read_bytes(),
        int(sys.argv[3]),
        sys.argv[4],
    )
    half = image[: len(image) // 2]
    connections = [Connection(url) for _ in range(count)]
    for connection in connections:
        if where == "header":
            connection.send(b"POST /classify HTTP/1.1\r\nHost: x\r\nX-Fil")
        elif where == "body":
            connection.ask("POST", "/classify", headers=[f"Content-Length: {len(image)}"])
            connection.send(half)
        elif where == "chunked":
            connection.ask("POST", "/classify", headers=["Transfer-Encoding: chunked"])
            connection.send(b"%x\r\n" % len(image) + half)
        elif where == "form":
            connection.ask(
                "POST",
                "/classify",
                headers=["Content-Type: multipart/form-data; boundary=B", "Content-Length: 99999"],
            )
            connection.send(
                b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + image + b"\r\n--B\r\n"
            )
        else:
            connection.ask("POST", "/classify", image)
            if where == "answer":
                connection.socket.recv(10)
    if len(sys.argv) > 5:
        for connection in connections:
            connection.socket.shutdown(socket.SHUT_WR)
        end = time.monotonic() + float(sys.argv[5])
        late = sum(
            connection.closed_within(max(end - time.monotonic(), 0.01)) is None for connection in connections
        )
        sys.exit(f"{late} of {count} connections stay open" if late > 0 else 0)
    for number, connection in enumerate(connections):
        if number % 2:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.socket.close()


if __name__ == "__main__":
    main()
