#!/usr/bin/env python3
"""Requests that two readers could understand differently, and headers that are too large: framing.py URL
Each gets the status that it is to get, at once, and its connection is closed; a request that a smuggler hides in it is never answered."""
import sys
import time

from wire import Closed, Connection

HOST = "Host: x\r\n"
HIDDEN = "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
IMAGE_LENGTH = f"Content-Length: {len(HIDDEN)}\r\n"


def cookies(count):
    return f"GET /v2 HTTP/1.1\r\n{HOST}Cookie: {'; '.join(f'a{i}=1' for i in range(count))}\r\n\r\n"


def arguments(count):
    return f"GET /v2?{'&'.join(f'a{i}=1' for i in range(count))} HTTP/1.1\r\n{HOST}\r\n"


def post(headers, version="1.1"):
    return f"POST /classify HTTP/{version}\r\n{HOST}{headers}\r\n"


CASES = [
    ("Content-Length with a space", post(f"Content-Length : {len(HIDDEN)}\r\n") + HIDDEN, 400),
    ("Content-Length with a tab", post(f"Content-Length\t: {len(HIDDEN)}\r\n") + HIDDEN, 400),
    ("Content-Length folded", post(f"Content-Length:\r\n {len(HIDDEN)}\r\n") + HIDDEN, 400),
    ("two lengths", post(IMAGE_LENGTH + "Content-Length: 3\r\n") + HIDDEN, 400),
    ("length and chunked", post(IMAGE_LENGTH + "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n" + HIDDEN, 400),
    ("chunked with a space, and a length", post("Transfer-Encoding : chunked\r\n" + IMAGE_LENGTH) + "0\r\n\r\n" + HIDDEN, 400),
    ("chunked with a tab", post("Transfer-Encoding\t: chunked\r\n") + "0\r\n\r\n" + HIDDEN, 400),
    ("chunked in HTTP/1.0", post("Transfer-Encoding: chunked\r\n", "1.0") + "0\r\n\r\n" + HIDDEN, 400),
    ("another coding", post("Transfer-Encoding: gzip\r\n") + HIDDEN, 400),
    ("chunked twice", post("Transfer-Encoding: chunked, chunked\r\n") + "0\r\n\r\n" + HIDDEN, 400),
    ("no host", "GET /v2 HTTP/1.1\r\n\r\n" + HIDDEN, 400),
    ("no host, and a body", f"POST /classify HTTP/1.1\r\n{IMAGE_LENGTH}\r\n" + HIDDEN, 400),
    ("a space in the target", f"GET /v2/models /x HTTP/1.1\r\n{HOST}\r\n" + HIDDEN, 400),
    ("a space in the query", f"GET /v2?a b HTTP/1.1\r\n{HOST}\r\n" + HIDDEN, 400),
    ("two hosts", f"GET /v2 HTTP/1.1\r\n{HOST}Host: y\r\n\r\n" + HIDDEN, 400),
    ("a name with parentheses", f"GET /v2 HTTP/1.1\r\n{HOST}X(y): 1\r\n\r\n" + HIDDEN, 400),
    ("a name with a space", f"GET /v2 HTTP/1.1\r\n{HOST}X y: 1\r\n\r\n" + HIDDEN, 400),
    ("an empty name first", f"GET /v2 HTTP/1.1\r\n: 1\r\n{HOST}\r\n" + HIDDEN, 400),
    ("an empty name, then a request", f"GET /v2 HTTP/1.1\r\n{HOST}: 1\r\n" + HIDDEN, 400),
    ("an empty name last", f"GET /v2 HTTP/1.1\r\n{HOST}: 1\r\n\r\n" + HIDDEN, 400),
    ("a colon alone", f"GET /v2 HTTP/1.1\r\n{HOST}:\r\n" + HIDDEN, 400),
    ("an empty name before the length", post(": 1\r\n" + IMAGE_LENGTH) + HIDDEN, 400),
    ("a line that begins with NUL", f"GET /v2 HTTP/1.1\r\n{HOST}\0A: 1\r\n" + HIDDEN, 400),
    ("NUL in a value", f"GET /v2 HTTP/1.1\r\n{HOST}A: 1\0 2\r\n\r\n" + HIDDEN, 400),
    ("NUL behind the last value", f"GET /v2 HTTP/1.1\r\n{HOST}A: 1\0\r\n\r\n" + HIDDEN, 400),
    ("NUL behind chunked", post("Transfer-Encoding: chunked\0gzip\r\n") + "0\r\n\r\n" + HIDDEN, 400),
    ("NUL behind the length", post(f"Content-Length: {len(HIDDEN)}\0 1\r\n") + HIDDEN, 400),
    ("bare LF behind a header", f"GET /v2 HTTP/1.1\r\n{HOST}A: 1\nB: 2\r\n\r\n" + HIDDEN, 400),
    ("bare LF behind the first line", f"GET /v2 HTTP/1.1\n{HOST}\r\n" + HIDDEN, 400),
    ("bare LF behind the last header", f"GET /v2 HTTP/1.1\r\n{HOST}A: 1\n\r\n" + HIDDEN, 400),
    ("bare LF for the empty line", f"GET /v2 HTTP/1.1\r\n{HOST}A: 1\r\n\n" + HIDDEN, 400),
    ("a folded header", f"GET /v2 HTTP/1.1\r\n{HOST}X: 1\r\n 2\r\n\r\n" + HIDDEN, 400),
    ("a folded header that is blank", f"GET /v2 HTTP/1.1\r\n{HOST}X: 1\r\n \r\n\r\n" + HIDDEN, 400),
    ("an empty name in a trailer", post("Transfer-Encoding: chunked\r\n") + "0\r\nA: 1\r\n: 1\r\n" + HIDDEN, 400),
    ("300 cookies", cookies(300), 431),
    ("2000 cookies", cookies(2000), 431),
    ("305 arguments", arguments(305), 414),
    ("2000 arguments", arguments(2000), 414),
    ("a target of 18000 bytes", f"GET /{'a' * 18000} HTTP/1.1\r\n{HOST}\r\n", 414),
    ("a target of 20200 bytes", f"GET /{'a' * 20200} HTTP/1.1\r\n{HOST}\r\n", 414),
    ("a query of 20200 bytes", f"GET /v2?{'a' * 20200} HTTP/1.1\r\n{HOST}\r\n", 414),
    ("a query of 20400 bytes", f"GET /v2?{'a' * 20400} HTTP/1.1\r\n{HOST}\r\n", 414),
    ("a target of 40000 bytes", f"GET /{'a' * 40000} HTTP/1.1\r\n{HOST}\r\n", 414),
    ("a header of 40000 bytes", f"GET /v2 HTTP/1.1\r\n{HOST}X: {'a' * 40000}\r\n\r\n", 431),
    ("1000 headers", f"GET /v2 HTTP/1.1\r\n{HOST}{''.join(f'X{i}: 1' + chr(13) + chr(10) for i in range(1000))}\r\n", 431),
]
SERVED = [
    ("64 arguments", arguments(64), 200),
    ("100 cookies", cookies(100), 200),
    ("values that are empty, and blanks around them",
     f"GET /v2 HTTP/1.1\r\n{HOST}A:\r\nB: \r\nC:1\r\nD: \t 1 \t \r\nCookie: a=1; b\r\nE:\r\n\r\n", 200),
    ("a header of 15000 bytes", f"GET /v2 HTTP/1.1\r\n{HOST}X: {'a' * 15000}\r\nY: 1\r\n\r\n", 200),
    ("100 headers", f"GET /v2 HTTP/1.1\r\n{HOST}{''.join(f'X{i}: {i}' + chr(13) + chr(10) for i in range(100))}\r\n", 200),
    ("empty lines before", f"\r\n\r\nGET /v2?a=%41&b HTTP/1.1\r\n{HOST}\r\n", 200),
    ("HTTP/1.0 without a header", "GET /v2 HTTP/1.0\r\n\r\n", 200),
]


def ask(url, name, bytes_, status, closes):
    begun = time.monotonic()
    with Connection(url) as connection:
        connection.socket.settimeout(5)
        try:
            connection.send(bytes_.encode("latin-1"))
        except Closed:
            pass  # the answer may have come before all was sent
        answer = connection.answer()
        if status == 400 and answer.body[:1] != b"{":
            sys.exit(f"{name}: no answer of this server: {answer}")
        if answer.status != status:
            sys.exit(f"{name}: {answer.status} in place of {status}: {answer.body[:200]}")
        if closes:
            try:
                sys.exit(f"{name}: another answer: {connection.answer()}")
            except Closed:
                pass
    if time.monotonic() - begun > 3:
        sys.exit(f"{name}: it took {time.monotonic() - begun:.1f} s")


def in_pieces(url):
    """Heads that end anywhere in what is received, one behind the other on a kept connection, are served."""
    head = f"GET /v2?a=1 HTTP/1.1\r\n{HOST}A:\r\nCookie: a=1\r\nB: {'b' * 3000}\r\n\r\n".encode()
    with Connection(url) as connection:
        for size in (1, 2, 7, 700, len(head) - 1, len(head) + 1, 2 * len(head) - 3):
            heads = 2 * head
            for at in range(0, len(heads), size):
                connection.send(heads[at : at + size])
            for _ in range(2):
                if (status := connection.answer().status) != 200:
                    sys.exit(f"in pieces of {size} bytes: {status}")


def main():
    url = sys.argv[1]
    in_pieces(url)
    for _ in range(3):
        for name, bytes_, status in CASES:
            ask(url, name, bytes_, status, True)
        for name, bytes_, status in SERVED:
            ask(url, name, bytes_, status, False)


if __name__ == "__main__":
    main()
