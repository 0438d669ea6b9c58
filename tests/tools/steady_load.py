#!/usr/bin/env python3
"""Steady load on a running convoyd, from which no request may be missing.

    steady_load.py URL --seconds S [--connections N] [--pause MS] [--form N] [--poison IMAGE] [--query QUERY]

Each of N connections, kept alive, sends the images of models/samples in turn, each alone or --form at once, and
waits for the answer, and with --pause for so long again. An answer is right when its status is 200 and each image's first label is the image's name.
With --poison a second client meanwhile sends IMAGE: alone, then as the middle one of eight, again and again, and
keeps count of its own answers, which are not part of the others' figures. SIGTERM ends it before S seconds have
passed: what was asked is still answered and counted.

Prints one JSON object: requests, statuses {status: count}, wrong (answered with something else than the right
label), lost (kept connections that ended without an answer), refused (new connections that got none), retried
(answers that carry "retries"), median_ms, longest_ms; poison {alone: {status: count}, entries: {status: count}, neighbours: {status:
count}}.

Python's standard library only: one thread, so that the client's own waiting stays out of the longest answer.
"""

import argparse
import asyncio
import collections
import json
import pathlib
import random
import signal
import statistics
import time
import urllib.parse

BOUNDARY = "convoy-steady-boundary"
POISON_PAUSE_S = 0.5


class Client:
    """One connection, opened again when the server closed it."""

    def __init__(self, url):
        self.url = url
        self.reader = self.writer = None
        self.kept = False  # it had an answer before

    async def post(self, target, body, content_type):
        """(status, document)."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.url.hostname, self.url.port)
        head = (
            f"POST {target} HTTP/1.1\r\nHost: {self.url.netloc}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        answer = await self.reader.readexactly(int(headers["content-length"]))
        self.kept = True
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), json.loads(answer)

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.writer = None
        self.kept = False


def form(images):
    parts = b"".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="i"; filename="{name}.jpg"\r\n\r\n'.encode()
        + data
        + b"\r\n"
        for name, data in images
    )
    return parts + f"--{BOUNDARY}--\r\n".encode(), f"multipart/form-data; boundary={BOUNDARY}"


def first_label(result):
    return result["predictions"][0]["label"] if "predictions" in result else None


class Figures:
    def __init__(self, end):
        self.end = end  # when no more requests are sent, by time.monotonic()
        self.statuses = collections.Counter()
        self.wrong = self.lost = self.refused = self.retried = 0
        self.latencies = []
        self.example = None  # of an answer that should not have been
        self.alone, self.entries, self.neighbours = (collections.Counter() for _ in range(3))

    def take(self, status, document, names, seconds):
        self.statuses[status] += 1
        self.latencies.append(seconds)
        self.retried += "retries" in document
        labels = [first_label(result) for result in document.get("results", [])]
        if status != 200 or labels != names:
            self.wrong += status == 200
            self.example = self.example or document

    def report(self, poisoned):
        milliseconds = sorted(1000 * s for s in self.latencies) or [0]
        report = {
            "requests": sum(self.statuses.values()),
            "statuses": dict(self.statuses),
            "wrong": self.wrong,
            "lost": self.lost,
            "refused": self.refused,
            "retried": self.retried,
            "median_ms": round(statistics.median(milliseconds), 1),
            "longest_ms": round(milliseconds[-1], 1),
        }
        if poisoned:
            report["poison"] = {
                "alone": dict(self.alone),
                "entries": dict(self.entries),
                "neighbours": dict(self.neighbours),
            }
        if self.example is not None:
            report["example"] = self.example
        return report


async def keep_asking(number, arguments, samples, figures):
    client, turn = Client(arguments.url), number
    while time.monotonic() < figures.end:
        images = [samples[(turn + i) % len(samples)] for i in range(arguments.form or 1)]
        turn += 1
        body, kind = form(images) if arguments.form else (images[0][1], "image/jpeg")
        start = time.monotonic()
        try:
            status, document = await client.post(arguments.target, body, kind)
            figures.take(status, document, [name for name, _ in images], time.monotonic() - start)
        except (OSError, EOFError, asyncio.IncompleteReadError):
            figures.lost += client.kept
            figures.refused += not client.kept
            client.close()
            await asyncio.sleep(0.05)  # a server that is gone would be asked in a busy loop
        if arguments.pause > 0:
            await asyncio.sleep(arguments.pause / 1000)
    client.close()


async def keep_poisoning(arguments, samples, figures):
    client = Client(arguments.url)
    poison = ("poison", arguments.poison.read_bytes())
    while time.monotonic() < figures.end:
        status, _ = await client.post(arguments.target, poison[1], "image/png")
        figures.alone[status] += 1
        company = random.choices(samples, k=7)
        _, document = await client.post(arguments.target, *form(company[:4] + [poison] + company[4:]))
        for place, result in enumerate(document.get("results", [])):
            counter = figures.entries if place == 4 else figures.neighbours
            counter[result.get("status", 200)] += 1
        await asyncio.sleep(POISON_PAUSE_S)
    client.close()


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url", type=urllib.parse.urlsplit)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--form", type=int, default=0)
    parser.add_argument("--poison", type=pathlib.Path)
    parser.add_argument("--query", default="top=1")
    arguments = parser.parse_args()
    arguments.target = "/classify?" + arguments.query
    folder = pathlib.Path(__file__).resolve().parents[2] / "models" / "samples"
    samples = [(path.stem, path.read_bytes()) for path in sorted(folder.glob("*.jpg"))]
    figures = Figures(time.monotonic() + arguments.seconds)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, setattr, figures, "end", 0)
    tasks = [keep_asking(i, arguments, samples, figures) for i in range(arguments.connections)]
    if arguments.poison:
        tasks.append(keep_poisoning(arguments, samples, figures))
    await asyncio.gather(*tasks)
    print(json.dumps(figures.report(arguments.poison is not None)))


if __name__ == "__main__":
    asyncio.run(main())
