#!/usr/bin/env python3
"""Requests that two readers could understand differently, sent through a proxy: smuggler.py PROXY-URL FOLDER COUNTS...

FOLDER is wiretap.py's, which stands between the proxy and convoyd. Every request of framing.py is sent, and such that hide another one in
the lines of a chunked body, with a plain request behind each. What the proxy sends on is parsed here by the letter of RFC 9112. It is to
be readable in one way only, or convoyd must refuse it with 400 and close. convoyd must have answered as many requests as are found,
each connection for itself, and as many as the proxy says that it got answers to: COUNTS is "haproxy UNIX-SOCKET" (its statistics) or
"nginx LOG" (of $upstream_status).

Fails with a line that says what is wrong; else prints what became of each variant. Python's standard library only."""

import glob
import os
import re
import socket
import sys
import time

from framing import CASES, HIDDEN, SERVED, post
from wire import Closed, Connection

CHUNKED = "Transfer-Encoding: chunked\r\n"
LAST = "0\r\n\r\n"
SIZE = f"{len(HIDDEN):x}"
# A reader that takes another end of a chunk's line finds HIDDEN as a request, where the other finds data.
CHUNKS = [
    ("a bare LF behind a chunk's size", f"3\nabc\r\n{LAST}"),
    ("a bare LF behind a chunk's data", f"3\r\nabc\n{LAST}"),
    ("a bare LF behind the last chunk", f"3\r\nabc\r\n0\n\r\n{HIDDEN}"),
    ("a bare LF for the empty line", f"3\r\nabc\r\n0\r\n\n{HIDDEN}"),
    ("only bare LFs", f"3\nabc\n0\n\n{HIDDEN}"),
    ("a bare LF in an extension", f"3;\nab\r\n{SIZE}\r\n0\r\n\r\n{HIDDEN}"),
    ("a bare CR in an extension", f"3;\rab\r\n{SIZE}\r\n0\r\n\r\n{HIDDEN}"),
    ("a bare CR behind a chunk's size", f"3\rabc\r\n{LAST}{HIDDEN}"),
    ("LF CR behind a chunk's size", f"3\n\rabc\r\n{LAST}{HIDDEN}"),
    ("two more bytes behind a chunk's data", f"3\r\nabcXY{SIZE}\r\n{HIDDEN}\r\n{LAST}"),
    ("NUL in a chunk's size", f"3\0\r\nabc\r\n{LAST}{HIDDEN}"),
    ("NUL in an extension", f"3;a=\0\r\nabc\r\n{LAST}{HIDDEN}"),
    ("a blank before a chunk's size", f" 3\r\nabc\r\n{LAST}{HIDDEN}"),
    ("a blank behind a chunk's size", f"3 \r\nabc\r\n{LAST}{HIDDEN}"),
    ("a size of 0x3", f"0x3\r\nabc\r\n{LAST}{HIDDEN}"),
    ("a size of +3", f"+3\r\nabc\r\n{LAST}{HIDDEN}"),
    ("a size of -1", f"-1\r\nabc\r\n{LAST}{HIDDEN}"),
    ("a size of 2^64 + 3", f"10000000000000003\r\nabc\r\n{LAST}{HIDDEN}"),
    ("a size of 2^32 + 3", f"100000003\r\nabc\r\n{LAST}{HIDDEN}"),
    ("an extension in quotes with CR LF", f'3;a="\r\nabc"\r\n{LAST}{HIDDEN}'),
    ("an empty name in a trailer", f"3\r\nabc\r\n0\r\nA: 1\r\n: 1\r\n{HIDDEN}"),
    ("NUL in a trailer", f"3\r\nabc\r\n0\r\n\0A: 1\r\n{HIDDEN}"),
    ("a length in a trailer", f"3\r\nabc\r\n0\r\nContent-Length: {len(HIDDEN)}\r\n\r\n{HIDDEN}"),
    ("a folded trailer", f"3\r\nabc\r\n0\r\nA: 1\r\n {SIZE}\r\n\r\n{HIDDEN}"),
    ("plain chunks", f"3\r\nabc\r\n{LAST}"),
]
NAMED = [
    ("NUL behind chunked, with a length", post(f"Transfer-Encoding: chunked\0\r\nContent-Length: {len(HIDDEN)}\r\n") + LAST + HIDDEN),
    ("a tab behind chunked", post("Transfer-Encoding: chunked\t\r\n") + LAST + HIDDEN),
    ("a form feed before chunked", post(f"Transfer-Encoding: \x0cchunked\r\nContent-Length: {len(HIDDEN)}\r\n") + LAST + HIDDEN),
    ("chunked in quotes", post(f'Transfer-Encoding: "chunked"\r\nContent-Length: {len(HIDDEN)}\r\n') + LAST + HIDDEN),
    ("chunked, folded", post("Transfer-Encoding:\r\n chunked\r\n") + LAST + HIDDEN),
    ("a bare LF before chunked", post(f"A: 1\nTransfer-Encoding: chunked\r\nContent-Length: {len(HIDDEN)}\r\n") + LAST + HIDDEN),
    ("a bare CR before chunked", post(f"A: 1\rTransfer-Encoding: chunked\r\nContent-Length: {len(HIDDEN)}\r\n") + LAST + HIDDEN),
    ("a length of +n", post(f"Content-Length: +{len(HIDDEN)}\r\n") + HIDDEN),
    ("a length of 0xn", post(f"Content-Length: 0x{SIZE}\r\n") + HIDDEN),
    ("a length of n, n", post(f"Content-Length: {len(HIDDEN)}, {len(HIDDEN)}\r\n") + HIDDEN),
    ("a length of 0n", post(f"Content-Length: 0{len(HIDDEN)}\r\n") + HIDDEN),
    ("a bare LF behind every line", post(f"Content-Length: {len(HIDDEN)}\r\n").replace("\r\n", "\n") + HIDDEN),
    ("a bare LF, then a colon", f"GET /v2 HTTP/1.1\r\nHost: x\r\nA: 1\n:\r\n{HIDDEN}"),
    ("a colon, then a bare LF", f"GET /v2 HTTP/1.1\r\nHost: x\r\nA: 1\r\n:\n{HIDDEN}"),
    ("GET with a body", f"GET /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: {len(HIDDEN)}\r\n\r\n{HIDDEN}"),
    ("an absolute target", f"GET http://y/v2 HTTP/1.1\r\nHost: x\r\n\r\n{HIDDEN}"),
    ("Upgrade", f"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n{HIDDEN}"),
    ("Connection names the length", post(f"Connection: Content-Length\r\nContent-Length: {len(HIDDEN)}\r\n") + HIDDEN),
]
VARIANTS = (
    [(name, bytes_) for name, bytes_, _ in CASES + SERVED]
    + [(name, post(CHUNKED) + lines) for name, lines in CHUNKS]
    + NAMED
)

# What HAProxy asks by itself.
CHECK = "/v2/health/ready"
# A client waits so long for the answer to a request whose end the proxy may still wait for.
QUIET_S = 0.3
# Counts agree after so many seconds at most: a proxy writes its log after the answer.
SETTLED_S = 10

TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
START = re.compile(rf"{TOKEN} [!-~\x80-\xff]+ HTTP/1\.[01]")
FIELD = re.compile(rf"({TOKEN}):[ \t]*([ \t!-~\x80-\xff]*)")
CHUNK = re.compile(r"([0-9a-fA-F]{1,15})(;[ \t!-~\x80-\xff]*)?")
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


class Unclear(Exception):
    """Bytes that RFC 9112 does not allow."""


def line_at(data, at):
    """The line there and where the next begins; None where it has not come whole."""
    end = data.find(b"\n", at)
    if end < 0:
        return None, at
    line = data[at : end + 1]
    if not line.endswith(b"\r\n") or line.count(b"\r") != 1:
        raise Unclear(f"a line's end in {line!r}")
    return line[:-2].decode("latin-1"), end + 1


def fields_at(data, at):
    fields = []
    while True:
        line, at = line_at(data, at)
        if line is None or line == "":
            return (None if line is None else fields), at
        if not (match := FIELD.fullmatch(line)):
            raise Unclear(f"a header's line {line!r}")
        fields.append((match[1].lower(), match[2].strip(" \t")))


def chunks_end(data, at):
    """Where a chunked body ends; None where it has not come whole."""
    while True:
        line, at = line_at(data, at)
        if line is None:
            return None
        if not (match := CHUNK.fullmatch(line)):
            raise Unclear(f"a chunk's line {line!r}")
        size = int(match[1], 16)
        if size == 0:
            fields, at = fields_at(data, at)
            return None if fields is None else at
        if len(data) < at + size + 2:
            return None
        if data[at + size : at + size + 2] != b"\r\n":
            raise Unclear("a chunk's end")
        at += size + 2


def request_at(data, at):
    """The target of the request there, and where the next begins; None where it has not come whole."""
    line, at = line_at(data, at)
    if line is None:
        return "?", None
    if not START.fullmatch(line):
        raise Unclear(f"a request's line {line!r}")
    target = line.split(" ")[1]
    fields, at = fields_at(data, at)
    if fields is None:
        return target, None
    lengths = [value for name, value in fields if name == "content-length"]
    codings = [value for name, value in fields if name == "transfer-encoding"]
    if len(lengths) + len(codings) > 1 or [name for name, _ in fields].count("host") > 1:
        raise Unclear(f"several lengths or hosts in {fields}")
    if codings:
        if codings[0].lower() != "chunked" or line.endswith("1.0"):
            raise Unclear(f"Transfer-Encoding: {codings[0]} behind {line!r}")
        return target, chunks_end(data, at)
    if lengths:
        if not re.fullmatch("[0-9]{1,18}", lengths[0]):
            raise Unclear(f"Content-Length: {lengths[0]}")
        at += int(lengths[0])
    return target, at if at <= len(data) else None


def answers(data):
    """The statuses of the answers."""
    statuses, at = [], 0
    while match := STATUS.match(data, at):
        head = data.find(b"\r\n\r\n", at)
        if head < 0:
            break
        length = re.search(rb"\r\n[Cc]ontent-[Ll]ength: (\d+)", data[at:head])
        at = head + 4 + (int(length[1]) if length else 0)
        if match[1] != b"100":
            statuses.append(int(match[1]))
    return statuses


def read(name):
    with open(name, "rb") as file:
        return file.read()


class Wire:
    """What wiretap.py has written, counted; without the connections of the proxy's own checks."""

    def __init__(self, folder):
        self.asked = self.answered = self.refused = self.dropped = self.most = 0
        self.unclear = []
        for name in glob.glob(f"{folder}/*.asked"):
            answered = name[: -len("asked")] + "answered"
            self.add(name, read(name), answers(read(answered)), os.path.exists(answered + ".ended"))

    def add(self, name, data, statuses, ended):
        targets, at, unclear = [], 0, None
        while at is not None and at < len(data):
            try:
                target, at = request_at(data, at)
            except Unclear as error:
                unclear, at = str(error), None
            else:
                targets += [target] * (at is not None)
        if targets and all(target == CHECK for target in targets):
            return
        more = statuses[len(targets) :]
        # One that can be read in two ways, or has not come whole, may be refused; then the connection ends.
        if len(more) > (at is None) or (more and unclear is not None and more != [400]):
            sys.exit(f"{name}: answers {statuses} to {targets}, then {unclear}: {data[-1000:]}")
        # Where a header is too large for libmicrohttpd, a kept connection ends without an answer.
        self.dropped += ended and len(targets) == len(statuses) + 1
        self.asked += len(targets)
        self.answered += len(statuses) - len(more)
        self.refused += len(more)
        self.unclear += [unclear] * (unclear is not None)
        self.most = max(self.most, len(statuses))


def haproxy_count(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        page = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    return sum(int(value) for value in re.findall(r'^haproxy_server_http_responses_total\{.*server="a".*\} (\d+)', page, re.M))


def nginx_count(path):
    """A status for each server that was asked; 502 is nginx's own, for a connection that ended without an answer."""
    return sum(status.isdigit() and status != "502" for status in re.split(r"[\s,:]+", read(path).decode()))


def send(url, bytes_):
    """The first status that comes; 0 when none does."""
    with Connection(url) as connection:
        connection.socket.settimeout(QUIET_S)
        status = 0
        try:
            connection.send(bytes_)
            status = connection.answer().status
            while True:
                connection.answer()
        except (Closed, TimeoutError, ValueError, IndexError):
            pass
        return status


def plain_request(url, number):
    identifier = f"plain-{number}"
    with Connection(url) as connection:
        connection.ask("GET", "/v2/models/fashion-lenet/ready", headers=[f"X-Request-Id: {identifier}"])
        answer = connection.answer()
    if answer.status != 200 or answer.headers.get("x-request-id") != identifier or answer.json()["name"] != "fashion-lenet":
        sys.exit(f"another answer than its own: {answer}")


def settle(name, folder, count):
    """The wire, once all counts are the same."""
    end = time.monotonic() + SETTLED_S
    while True:
        wire, believed = Wire(folder), count()
        if wire.asked == wire.answered + wire.dropped and believed == wire.answered + wire.refused and wire.refused >= len(wire.unclear):
            return wire
        if time.monotonic() > end:
            sys.exit(f"{name}: {wire.asked} requests are sent on, {wire.answered} answered, {wire.dropped} dropped, "
                     f"{wire.refused} refused before their end, {believed} answers by the proxy's count; in two ways: {wire.unclear}")
        time.sleep(0.02)


def main():
    url, folder, kind, source = sys.argv[1:]
    counted = haproxy_count if kind == "haproxy" else nginx_count
    became = {"refused by the proxy": 0, "sent on, in one reading": 0, "sent on, refused by convoyd": 0}
    before = Wire(folder)
    for number, (name, text) in enumerate(VARIANTS):
        status = send(url, text.encode("latin-1"))
        plain_request(url, number)
        wire = settle(name, folder, lambda: counted(source))
        more = wire.asked - before.asked - 1
        what = (
            "sent on, refused by convoyd" if wire.refused + wire.dropped > before.refused + before.dropped
            else "sent on, in one reading" if more > 0 else "refused by the proxy"
        )
        became[what] += 1
        print(f"{name}: {status}, {what}, {max(more, 0)} whole")
        before = wire
    if before.most < 10:
        sys.exit(f"the proxy keeps no connection: {before.most} answers at most on one")
    print(f"{len(VARIANTS)} variants: {', '.join(f'{count} {what}' for what, count in became.items())}; {before.asked} requests, "
          f"{before.most} on one connection")


if __name__ == "__main__":
    main()
