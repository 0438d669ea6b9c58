#!/usr/bin/env python3
"""HTTP byte by byte against a running convoyd: connections, pipelines, framing, and what is not HTTP.

    http_wire.py URL IMAGE MAX_HEADER_BYTES MAX_BODY_BYTES

Prints what it checks; exit status 1 at the first thing that is not as it should be.
"""

import os
import pathlib
import random
import re
import sys
import traceback

from wire import Closed, Connection

URL, IMAGE, MAX_HEADER, MAX_BODY = (
    sys.argv[1],
    pathlib.Path(sys.argv[2]).read_bytes(),
    int(sys.argv[3]),
    int(sys.argv[4]),
)
CLASSIFY = "/classify?top=1"


def expect(answer, status):
    assert answer.status == status, f"expected {status}: {answer}"
    if status >= 400:
        assert len(answer.json()["error"]) > 10, answer
    assert answer.headers.get("x-request-id"), answer
    return answer


def classified(answer):
    assert expect(answer, 200).json()["results"][0]["predictions"], answer


def serves():
    with Connection(URL) as connection:
        connection.ask("POST", CLASSIFY, IMAGE)
        classified(connection.answer())


def refused(data, *statuses):
    """What is no request gets one of statuses, or the end of its connection."""
    with Connection(URL) as connection:
        try:
            connection.send(data)
            answer = connection.answer()
        except Closed:
            return None
        assert answer.status in statuses, f"{data[:80]!r}: {answer}"
        return answer


def keep_alive():
    with Connection(URL) as connection:
        for _ in range(3):
            connection.ask("POST", CLASSIFY, IMAGE)
            classified(connection.answer())
            connection.ask("GET", "/v2/health/live")
            expect(connection.answer(), 200)
            for target, body, status in (
                (CLASSIFY, b"text", 415),
                (CLASSIFY, IMAGE[:500], 422),
                ("/classify?top=0", IMAGE, 400),
                ("/nowhere", IMAGE, 404),
                ("/metrics", b"a body", 405),
            ):
                connection.ask("POST", target, body)
                answer = expect(connection.answer(), status)
                assert answer.headers.get("connection", "").lower() != "close", f"{target} closes: {answer}"
        connection.ask("GET", "/v2", headers=["Connection: close"])
        expect(connection.answer(), 200)
        assert connection.closed_within(5) is not None, "open in spite of Connection: close"


def pipelining():
    with Connection(URL) as connection:
        asked = [
            ("POST", CLASSIFY, IMAGE, 200),
            ("GET", "/v2", b"", 200),
            ("POST", CLASSIFY, b"text", 415),
            ("POST", CLASSIFY, IMAGE, 200),
            ("GET", "/nowhere", b"", 404),
            ("GET", "/metrics", b"", 200),
            ("POST", CLASSIFY, IMAGE, 200),
        ] * 3
        parts = []
        for number, (method, target, body, _) in enumerate(asked):
            parts.append(
                f"{method} {target} HTTP/1.1\r\nHost: x\r\nX-Request-Id: pipe-{number}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode() + body
            )
        connection.send(b"".join(parts))
        for number, (_, _, _, status) in enumerate(asked):
            answer = expect(connection.answer(), status)
            assert answer.headers["x-request-id"] == f"pipe-{number}", f"not in order: {answer}"


def rubbish_behind_a_request():
    """The answer arrives whole, though the server closes with bytes in its socket that it has not read."""
    for rubbish in (b"this is not HTTP\r\n\r\n" * 3000, b"x" * 65536, b"GET /v2 HTTP/1.1\r\nno colon\r\n" * 2000):
        with Connection(URL, receive_buffer=4096) as connection:
            connection.ask("GET", "/v2/openapi.json")
            connection.send(rubbish)
            expect(connection.answer(), 200).json()


def request_ids():
    with Connection(URL) as connection:
        for kept in ("a", "A.b_c-9", "x" * 64):
            connection.ask("GET", "/v2", headers=[f"X-Request-Id: {kept}"])
            assert expect(connection.answer(), 200).headers["x-request-id"] == kept
            connection.ask("POST", CLASSIFY, b"text", headers=[f"x-request-id: {kept}"])
            assert expect(connection.answer(), 415).headers["x-request-id"] == kept
        seen = set()
        for replaced in (None, "", "x" * 65, "a b", "a\tb", "<script>", "caf\xe9", 'a"b', "a=b", "a,b"):
            connection.ask("GET", "/v2", headers=[] if replaced is None else [f"X-Request-Id: {replaced}"])
            made = expect(connection.answer(), 200).headers["x-request-id"]
            assert re.fullmatch("[0-9a-f]{32}", made), f"{replaced!r} became {made!r}"
            seen.add(made)
        assert len(seen) == 10, "ids that were made repeat"


def head():
    with Connection(URL) as connection:
        for target in (
            "/v2/health/live",
            "/v2/health/ready",
            "/v2",
            "/v2/models",
            "/v2/models/cifar10-convnet",
            "/metrics",
        ):
            connection.ask("HEAD", target)
            answer = expect(connection.answer(head=True), 200)
            assert int(answer.headers["content-length"]) > 0, answer
        connection.ask("HEAD", "/classify")
        answer = connection.answer(head=True)
        assert answer.status == 405 and answer.headers["allow"] == "POST", answer
        connection.ask("HEAD", "/nowhere")
        assert connection.answer(head=True).status == 404
        connection.ask("GET", "/v2")
        assert expect(connection.answer(), 200).json()["name"] == "convoyd"


def expect_100():
    with Connection(URL) as connection:
        for _ in range(2):
            connection.ask(
                "POST", CLASSIFY, headers=["Expect: 100-continue", f"Content-Length: {len(IMAGE)}"]
            )
            assert connection.answer().status == 100
            connection.send(IMAGE)
            classified(connection.answer())
    for headers, target, status in (
        ([f"Content-Length: {MAX_BODY + 1}"], CLASSIFY, 413),
        (["Content-Length: 9"], "/nowhere", 404),
    ):
        with Connection(URL) as connection:
            connection.ask("POST", target, headers=["Expect: 100-continue", *headers])
            expect(connection.answer(), status)  # instead of 100: the body is never asked for


def old_http():
    with Connection(URL) as connection:
        connection.ask("POST", CLASSIFY, IMAGE, version="1.0")
        classified(connection.answer())
        assert connection.closed_within(5) is not None, "HTTP/1.0 without keep-alive stays open"
    with Connection(URL) as connection:
        connection.send(b"GET /v2 HTTP/1.0\r\n\r\n")  # no Host is needed
        expect(connection.answer(), 200)
    with Connection(URL) as connection:
        connection.ask("GET", "http://convoyd.example/v2")  # as to a proxy, which every server must take
        expect(connection.answer(), 200)


def pieces():
    with Connection(URL) as connection:
        request = (
            f"POST {CLASSIFY} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(IMAGE)}\r\n\r\n"
        ).encode() + IMAGE
        for at in range(200):
            connection.send(request[at : at + 1])
        connection.send(request[200:])
        classified(connection.answer())


def chunk(data, size=None, extension=b""):
    return b"%x" % (len(data) if size is None else size) + extension + b"\r\n" + data + b"\r\n"


def chunked():
    top = f"POST {CLASSIFY} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with Connection(URL) as connection:
        for size in (len(IMAGE), 100, 1000):
            parts = [chunk(IMAGE[at : at + size]) for at in range(0, len(IMAGE), size)]
            connection.send(top + b"".join(parts) + b"0\r\n\r\n")
            classified(connection.answer())
        connection.send(top + b"0\r\n\r\n")
        expect(connection.answer(), 400)
        connection.send(top)
        for at in range(0, 40):
            connection.send(chunk(IMAGE[at : at + 1]))
        connection.send(chunk(IMAGE[40:], extension=b";name=value") + b"0\r\nTrailer: x\r\n\r\n")
        answer = connection.answer()
        classified(answer)
        if answer.headers.get("connection") != "close" or connection.closed_within(5) is None:
            sys.exit(f"a trailer, and the connection stays: {answer.headers}")
    for broken in (
        b"zz\r\n",
        b"-5\r\nabcde\r\n",
        b"ffffffffffffffffff\r\nx",
        b"5\r\nabcdefgh\r\n0\r\n\r\n",
        b"\r\n\r\n",
    ):
        refused(top + broken, 400, 413)


def framing():
    """Requests whose end two readers could see in two places."""
    top = f"POST {CLASSIFY} HTTP/1.1\r\nHost: x\r\n"
    for headers in (
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 5x\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: \r\n",
        "Content-Length: 99999999999999999999999\r\n",
    ):
        answer = refused((top + headers + "\r\n").encode() + b"abcde", 400, 413)
        smuggled = (top + headers + "\r\n").encode() + b"0\r\n\r\nGET /v2 HTTP/1.1\r\nHost: x\r\n\r\n"
        with Connection(URL) as connection:
            try:
                connection.send(smuggled)
                connection.answer()
                second = connection.answer()
            except Closed:
                second = None
        assert second is None, f"{headers!r} let a second request in: {second}"
        assert answer is None or answer.status != 200, f"{headers!r}: {answer}"


def get_with_body():
    with Connection(URL) as connection:
        connection.ask("GET", "/v2", b"x" * 5000)
        expect(connection.answer(), 200)
        connection.ask("GET", "/v2/models")
        expect(connection.answer(), 200)


def no_http():
    chance = random.Random(7)
    for data in (
        b"\0" * 100,
        b"\r\n\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v2\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(range(64)),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /v2 HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\n: nameless\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\n\r\n",
        b"GET /v2\0/models HTTP/1.1\r\nHost: x\r\n\r\n",
    ):
        with Connection(URL) as connection:
            try:
                connection.send(data)
                connection.socket.shutdown(1)
                connection.answer()
            except (Closed, OSError):
                pass
    for _ in range(60):
        data = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 400)))
        with Connection(URL) as connection:
            connection.send(data + b"\r\n\r\n")
            connection.socket.shutdown(1)
            assert connection.closed_within(10) is not None, f"garbage keeps a connection: {data!r}"
    # A whole request in front of garbage is answered.
    with Connection(URL) as connection:
        connection.send(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n" + os.urandom(64) + b"\r\n\r\n")
        expect(connection.answer(), 200)
        assert connection.closed_within(10) is not None, "garbage after a request keeps its connection"


def no_host():
    refused(b"GET /v2 HTTP/1.1\r\n\r\n", 400)


def large_headers():
    with Connection(URL) as connection:
        connection.ask("GET", "/v2", headers=["X-Fill: " + "x" * (MAX_HEADER * 3 // 4)])
        expect(connection.answer(), 200)
    for request in (
        f"GET /v2 HTTP/1.1\r\nHost: x\r\nX-Fill: {'x' * (MAX_HEADER + 6000)}\r\n\r\n",
        "GET /v2 HTTP/1.1\r\nHost: x\r\n" + "".join(f"X-{i}: y\r\n" for i in range(MAX_HEADER // 4)) + "\r\n",
        f"GET /v2?{'x' * (MAX_HEADER + 6000)} HTTP/1.1\r\nHost: x\r\n\r\n",
        f"GET /{'x' * (1 << 20)} HTTP/1.1\r\nHost: x\r\n\r\n",
    ):
        refused(request.encode(), 414, 431)
    with Connection(URL) as connection:
        connection.ask("GET", "/v2/models/" + "x" * (MAX_HEADER // 2))
        expect(connection.answer(), 404)


def large_bodies():
    with Connection(URL) as connection:
        connection.ask("POST", CLASSIFY, headers=[f"Content-Length: {MAX_BODY + 1}"])
        answer = expect(connection.answer(), 413)  # at once: nothing of the body was sent
        assert str(MAX_BODY) in answer.json()["error"], answer
        assert answer.headers.get("connection", "").lower() == "close", answer
    with Connection(URL) as connection:  # a client that sends it all before it reads
        connection.ask("POST", CLASSIFY, b"x" * (MAX_BODY * 3))
        expect(connection.answer(), 413)
    with Connection(URL) as connection:  # the largest that is taken
        connection.ask("POST", CLASSIFY, IMAGE + b"\0" * (MAX_BODY - len(IMAGE)))
        classified(connection.answer())
        connection.ask("GET", "/v2")
        expect(connection.answer(), 200)
    top = f"POST {CLASSIFY} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    part = chunk(b"x" * 10000)
    with Connection(URL) as connection:  # chunked: answered at its end
        connection.send(top + part * (MAX_BODY // 10000 + 2) + b"0\r\n\r\n")
        expect(connection.answer(), 413)
        connection.ask("GET", "/v2")
        expect(connection.answer(), 200)
    with Connection(URL) as connection:  # without end: cut off
        try:
            connection.send(top)
            for _ in range(MAX_BODY // 10000 * 1000):
                connection.send(part)
        except Closed:
            return
        raise AssertionError("a chunked body without end is read for ever")


def main():
    for test in (
        keep_alive,
        pipelining,
        rubbish_behind_a_request,
        request_ids,
        head,
        expect_100,
        old_http,
        pieces,
        chunked,
        framing,
        get_with_body,
        no_http,
        no_host,
        large_headers,
        large_bodies,
    ):
        print(test.__name__.replace("_", " "), flush=True)
        try:
            test()
            serves()
        except Exception:
            traceback.print_exc()
            sys.exit(1)


if __name__ == "__main__":
    main()
