#!/usr/bin/env python3
"""Load on a running convoyd: every answer is checked, none may be missing.

    load.py URL --seconds S [--connections N] [--image FILE]... [--query QUERY] [--mix] [--tensors MODEL] [--terminate PID]
            [--rate R] [--renew K] [--json]

Each of N connections, kept alive, asks and waits for the answer, again and again. Without --mix it POSTs the
images in turn to /classify (by default those of models/samples). With --mix forms, bad input, wrong paths and
methods, metrics and health come in between. With --tensors so do requests for inference, of MODEL.

An answer is right when it has the status and the body that its request must get, its Content-Length, and the
X-Request-Id that was sent: an answer to another request shows.

With --rate the load is an open loop: R requests a second are due at the times of a Poisson process, whatever
the server does, and the connection that is free first sends each. A 503 that is JSON with a sentence and
whose Retry-After is a whole number of seconds from 1 to 60 is right then and counted in refused, and in
expired too when it was accepted first and ran into its deadline. What finds no free connection before the time
is up is counted in unsent.

With --renew each connection is closed after K answers and opened again.

With --terminate the process PID gets SIGTERM after S seconds and the asking goes on until the server has
closed every connection. From that moment a 503 with "Connection: close" is right too: it is counted in
stopped, or, when its request was sent before the signal, in overtaken: the server had not read it yet. With
drain_ms there must be none of these. A right answer that ends its connection since then is counted in dismissed.
A request sent after the signal may find its connection closed (late).

The figures: requests, statuses {status: count}, kinds {what was asked: count}, wrong (answered otherwise than
it must be), lost (no answer), stopped, overtaken, dismissed, late, refused, expired, unsent, per_second,
median_ms, longest_ms, example (of a wrong answer). Exit status 0 when nothing was wrong or lost and something was asked.

One thread of Python's standard library, so that the client's own waiting stays out of the longest answer.
"""

import argparse
import asyncio
import collections
import gzip
import itertools
import json
import os
import pathlib
import random
import signal
import statistics
import struct
import sys
import time
import urllib.parse

BOUNDARY = "convoy-load-boundary"
RETRIES = {str(seconds) for seconds in range(1, 61)}
PATIENCE_S = 60  # for one answer; longer than any limit that a test configures


class Kind:
    """One kind of request and what its answer must be."""

    def __init__(self, name, method, target, body=b"", content_type="", status=200, check=None, headers=""):
        self.name, self.method, self.target, self.body = name, method, target, body
        self.content_type, self.status, self.check, self.headers = content_type, status, check, headers

    def bytes(self, host, request_id):
        head = f"{self.method} {self.target} HTTP/1.1\r\nHost: {host}\r\nX-Request-Id: {request_id}\r\n"
        if self.content_type:
            head += f"Content-Type: {self.content_type}\r\n"
        head += self.headers
        if self.method == "POST":
            head += f"Content-Length: {len(self.body)}\r\n"
        return head.encode() + b"\r\n" + self.body

    def right(self, status, headers, body):
        if status != self.status:
            return False
        if status >= 400:
            return len(json.loads(body)["error"]) > 10
        return self.check is None or self.check(headers, body)


def classified(count, bad=None):
    """Each of count images has predictions, but for the one at bad."""

    def check(_, body):
        results = json.loads(body)["results"]
        return len(results) == count and all(
            ("predictions" in result) == (place != bad) for place, result in enumerate(results)
        )

    return check


def form(images):
    parts = b"".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="i"; filename="i.jpg"\r\n\r\n'.encode()
        + data
        + b"\r\n"
        for data in images
    )
    return parts + f"--{BOUNDARY}--\r\n".encode()


def single(images, target):
    return [Kind("image", "POST", target, data, "image/jpeg", check=classified(1)) for data in images]


def inferred(rows):
    """So many rows of logits, in JSON or behind it."""

    def check(headers, body):
        length = int(headers.get("inference-header-content-length", len(body)))
        (output,) = json.loads(body[:length])["outputs"]
        values = len(output["data"]) if "data" in output else (len(body) - length) / 4
        return output["shape"] == [rows, 10] and values == rows * 10

    return check


def inferences(model):
    """Tensors for a model of 3 x 32 x 32 and 10 classes: binary, in JSON that is short or so long that another thread reads it, compressed, wrong."""
    target, chance = f"/v2/models/{model}/infer", random.Random(1)

    def request(rows, datatype="FP32", **members):
        return {"inputs": [{"name": "image", "datatype": datatype, "shape": [rows, 3, 32, 32], **members}]}

    def in_json(rows, datatype="UINT8"):
        return json.dumps(request(rows, datatype, data=[chance.randrange(256) for _ in range(rows * 3072)])).encode()

    header = json.dumps({**request(2, parameters={"binary_data_size": 24576}), "id": "2"}).encode()
    length = f"Inference-Header-Content-Length: {len(header)}\r\n"
    binary = struct.pack("<6144f", *(chance.gauss(0, 1) for _ in range(6144)))
    packed = "Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n"
    return [
        Kind("tensor", "POST", target, header + binary, check=inferred(2), headers=length),
        Kind("cut tensor", "POST", target, header + binary[:-1], status=400, headers=length),
        Kind("short JSON", "POST", target, in_json(1), check=inferred(1)),
        Kind("long JSON", "POST", target, in_json(8, "FP32"), check=inferred(8)),
        Kind("wrong JSON", "POST", target, in_json(8)[:-5] + b"x]}]}", status=400),
        Kind("packed JSON", "POST", target, gzip.compress(in_json(2)), check=inferred(2), headers=packed),
        Kind("damaged pack", "POST", target, gzip.compress(in_json(2))[:-9], status=400, headers=packed),
    ]


def mixed(images, target):
    """The kinds of the mix, each as often as it shall come."""
    multipart = f"multipart/form-data; boundary={BOUNDARY}"
    first = images[0]
    eight = [images[i % len(images)] for i in range(8)]
    spoilt = eight[:3] + [b"not an image at all"] + eight[4:]
    return single(images, target) * 4 + [
        Kind("form", "POST", target, form(eight), multipart, check=classified(8)),
        Kind("spoilt form", "POST", target, form(spoilt), multipart, check=classified(8, bad=3)),
        Kind("broken form", "POST", target, form(eight)[:-9], multipart, status=400),
        Kind("text", "POST", target, b"this is text", "image/jpeg", status=415),
        Kind("cut image", "POST", target, first[: len(first) // 2], "image/jpeg", status=422),
        Kind("empty", "POST", target, status=400),
        Kind("top=0", "POST", "/classify?top=0", first, "image/jpeg", status=400),
        Kind("unknown model", "POST", "/classify?model=nobody", first, "image/jpeg", status=404),
        Kind("unknown path", "GET", "/nowhere", status=404),
        Kind("body to nowhere", "POST", "/nowhere", first, "image/jpeg", status=404),
        Kind(
            "wrong method",
            "GET",
            "/classify",
            status=405,
            check=lambda headers, _: headers["allow"] == "POST",
        ),
        Kind("models", "GET", "/v2/models", check=lambda _, body: json.loads(body)["models"]),
        Kind("live", "GET", "/v2/health/live"),
        Kind("metrics", "GET", "/metrics", check=lambda _, body: b"convoyd_requests_total{" in body),
    ]


class Arrivals:
    """When requests are due: a Poisson process in open loop, always now in a closed one."""

    def __init__(self, rate):
        self.rate, self.chance = rate, random.Random(1)
        self.due = time.monotonic()

    def next(self):
        if self.rate is None:
            return time.monotonic()
        self.due += self.chance.expovariate(self.rate)
        return self.due


class Figures:
    def __init__(self, refusals):
        self.refusals = refusals
        self.statuses, self.kinds = collections.Counter(), collections.Counter()
        self.wrong = self.lost = self.stopped = self.overtaken = self.dismissed = self.late = 0
        self.refused = self.expired = self.unsent = 0
        self.latencies = []
        self.example = None
        self.signalled = None  # when SIGTERM was sent

    def after_signal(self, moment):
        return self.signalled is not None and moment >= self.signalled

    def answered(self, kind, status, headers, body, request_id, sent):
        self.statuses[status] += 1
        self.kinds[kind.name] += 1
        self.latencies.append(time.monotonic() - sent)
        if headers.get("x-request-id") == request_id:
            last = headers.get("connection", "").lower() == "close"
            if kind.right(status, headers, body):
                self.dismissed += last and self.signalled is not None
                return
            if self.refusals and status == 503 and "connection" not in headers:
                sentence = json.loads(body)["error"]
                if headers.get("retry-after") in RETRIES and len(sentence) > 10:
                    self.refused += 1
                    self.expired += sentence.startswith("the deadline passed")
                    return
            if status == 503 and last and self.signalled is not None:
                if self.after_signal(sent):
                    self.stopped += 1
                else:
                    self.overtaken += 1
                return
        self.wrong += 1
        self.example = self.example or f"{kind.name}: {status} {headers} {body[:300]!r}"

    def unanswered(self, kind, sent, why):
        if self.after_signal(sent):
            self.late += 1
            return
        self.lost += 1
        self.example = self.example or f"{kind.name}: no answer: {why!r}"

    def report(self, seconds):
        milliseconds = [1000 * s for s in self.latencies] or [0]
        return {
            "requests": sum(self.statuses.values()),
            "statuses": dict(self.statuses),
            "kinds": dict(self.kinds),
            "wrong": self.wrong,
            "lost": self.lost,
            "stopped": self.stopped,
            "overtaken": self.overtaken,
            "dismissed": self.dismissed,
            "late": self.late,
            "refused": self.refused,
            "expired": self.expired,
            "unsent": self.unsent,
            "per_second": round(sum(self.statuses.values()) / seconds),
            "median_ms": round(statistics.median(milliseconds), 1),
            "longest_ms": round(max(milliseconds), 1),
            "example": self.example,
        }


async def read_answer(reader):
    """(status, headers, body); headers with lower-case names."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
    body = await reader.readexactly(int(headers["content-length"]))
    return int(lines[0].split()[1]), headers, body


async def ask(number, arguments, kinds, figures, end, arrivals):
    """One connection's life."""
    chance = random.Random(number)
    answers = 0
    reader = writer = None
    for turn in itertools.count():
        stopping = figures.signalled is not None
        if time.monotonic() >= end and (arguments.terminate is None or (stopping and writer is None)):
            break
        due = arrivals.next()
        if arguments.rate is not None:
            if due >= end and arguments.terminate is None:
                break
            await asyncio.sleep(due - time.monotonic())
        kind = chance.choice(kinds) if arguments.mix else kinds[(number + turn) % len(kinds)]
        request_id = f"load-{number}-{turn}"
        sent = time.monotonic()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(arguments.url.hostname, arguments.url.port)
            writer.write(kind.bytes(arguments.url.netloc, request_id))
            # Taken by the kernel from here on, unless the request is larger than its buffers.
            sent = time.monotonic()
            status, headers, body = await asyncio.wait_for(read_answer(reader), PATIENCE_S)
            figures.answered(kind, status, headers, body, request_id, sent)
            stop = closing = headers.get("connection", "").lower() == "close"
            answers += 1
            closing = closing or (arguments.renew is not None and answers % arguments.renew == 0)
        except (OSError, EOFError, asyncio.TimeoutError) as why:
            figures.unanswered(kind, sent, why)
            stop = closing = True
            if not figures.after_signal(sent):
                await asyncio.sleep(0.05)  # a server that is gone would be asked in a busy loop
        if closing and writer is not None:
            writer.close()
            writer = None
            if stop and figures.signalled is not None:
                break
    if writer is not None:
        writer.close()


async def terminate(arguments, figures, end):
    await asyncio.sleep(end - time.monotonic())
    # What is written at this moment was written before it: one thread does both.
    figures.signalled = time.monotonic()
    os.kill(arguments.terminate, signal.SIGTERM)


async def run(arguments):
    folder = pathlib.Path(__file__).resolve().parents[2] / "models" / "samples"
    paths = arguments.image or sorted(folder.glob("*.jpg"))
    images = [path.read_bytes() for path in paths]
    target = "/classify" + ("?" + arguments.query if arguments.query else "")
    kinds = mixed(images, target) if arguments.mix else single(images, target)
    if arguments.tensors is not None:
        kinds += inferences(arguments.tensors)
    figures, start = Figures(arguments.rate is not None), time.monotonic()
    end, arrivals = start + arguments.seconds, Arrivals(arguments.rate)
    tasks = [ask(i, arguments, kinds, figures, end, arrivals) for i in range(arguments.connections)]
    if arguments.terminate is not None:
        tasks.append(terminate(arguments, figures, end))
    await asyncio.gather(*tasks)
    while arguments.rate is not None and arguments.terminate is None and arrivals.next() < end:
        figures.unsent += 1
    return figures.report(time.monotonic() - start)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", type=urllib.parse.urlsplit)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--image", type=pathlib.Path, action="append", help="may be given again")
    parser.add_argument("--query", default="top=1")
    parser.add_argument("--mix", action="store_true")
    parser.add_argument("--tensors", metavar="MODEL")
    parser.add_argument("--terminate", type=int, metavar="PID")
    parser.add_argument("--rate", type=float, metavar="R")
    parser.add_argument("--renew", type=int, metavar="K")
    parser.add_argument("--json", action="store_true", help="the figures as one JSON object")
    arguments = parser.parse_args()
    report = asyncio.run(run(arguments))
    if arguments.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name}: {value}")
    sys.exit(0 if report["requests"] > 0 and report["wrong"] + report["lost"] == 0 else 1)


if __name__ == "__main__":
    main()
