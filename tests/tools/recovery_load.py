#!/usr/bin/env python3
"""What a fault costs those who ask meanwhile.

    recovery_load.py URL (--kill PID | --poison IMAGE) [--connections N] [--before S] [--after S]

N connections, kept alive, send the images of models/samples in turn and wait for each answer. After S seconds the
fault is made: the process PID gets SIGKILL, or IMAGE is sent once on a connection of its own. Once the requests that
were under way at that moment (and the poison) are answered, it goes on for S seconds more.

Prints one JSON object. Times count from the fault (the kill, or the sending of IMAGE) if nothing else is said:
  requests, failed    all but the poison; failed: no 200 with the right labels, or no answer; example: one of them
  settled_ms          until every request was answered that was under way at the fault
  gap_ms              the service gap: the longest time until then during which no request was answered
  silent_ms           those of all gaps until then together that are longer than 50 ms and than twice the longest
                      gap before the fault
  again_ms            until the first answer after the service gap
  rate_back_ms        until answers came as before: the beginning of the first window, once that is settled, with
                      80 % of the answers that such a window had before; windows of 100 ms, or four times the
                      longest gap before if that is more
  gap_before_ms, rate_before           before the fault: the longest gap; answers a second
  p99_before_ms, p99_ms, longest_ms    latencies of what was answered before the fault, and after
  retried             answers whose images ran more than once
  poison_ms, poison_status             the poison's own answer
Exit status 1 when a request failed or the poison got something else than 500.

Python's standard library only: one thread.
"""

import argparse
import asyncio
import bisect
import json
import os
import pathlib
import signal
import sys
import time
import urllib.parse

from steady_load import Client, first_label

WINDOW_S = 0.1
SILENT_S = 0.05
PATIENCE_S = 120


class Figures:
    def __init__(self):
        self.answers = []  # (when, seconds) of those that were right
        self.failed = self.retried = 0
        self.example = None
        self.stop = False

    def complain(self, what):
        self.failed += 1
        self.example = self.example or what


async def keep_asking(turn, url, samples, figures, under_way):
    """Sets under_way with every answer: cleared at the fault, it tells when what was under way is answered."""
    client = Client(url)
    while not figures.stop:
        name, image = samples[turn % len(samples)]
        turn += 1
        start = time.monotonic()
        try:
            asked = client.post("/classify?top=1", image, "image/jpeg")
            status, document = await asyncio.wait_for(asked, PATIENCE_S)
            labels = [first_label(result) for result in document.get("results", [])]
            if status == 200 and labels == [name]:
                now = time.monotonic()
                figures.answers.append((now, now - start))
                figures.retried += "retries" in document
            else:
                figures.complain(f"{name}: {status} {document}")
        except (OSError, EOFError, asyncio.TimeoutError) as why:
            figures.complain(f"{name}: {why!r}")
            client.close()
            await asyncio.sleep(0.05)  # a server that is gone would be asked in a busy loop
        under_way.set()
    client.close()


def gaps(times):
    """(length, end) of each time between two answers."""
    return [(b - a, b) for a, b in zip(times, times[1:])]


def percentile(seconds, part):
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0


def rate_back(times, start, window, least):
    """When the first window begins, not before start, that holds at least so many answers; else the last answer."""
    while start + window <= times[-1]:
        if bisect.bisect_left(times, start + window) - bisect.bisect_left(times, start) >= least:
            return start
        start += window / 10
    return times[-1]


def describe(figures, begun, fault, settled, poison):
    before = [answer for answer in figures.answers if answer[0] <= fault]
    after = [answer for answer in figures.answers if answer[0] > fault]
    report = {"requests": len(figures.answers) + figures.failed, "failed": figures.failed}
    if before and after:
        # The first answers come while connections are opened.
        steady = [when for when, _ in before if when > begun + (fault - begun) / 4]
        rate = len(steady) / (fault - begun) * 4 / 3
        longest_before = max(gaps(steady + [fault]))[0]
        window = max(WINDOW_S, 4 * longest_before)
        times = [before[-1][0]] + [when for when, _ in after]
        until_settled = gaps([when for when in times if when <= settled])
        gap, end = max(until_settled)
        silent = max(SILENT_S, 2 * longest_before)
        back = rate_back(times, settled, window, 0.8 * rate * window)
        report.update(
            settled_ms=1000 * (settled - fault),
            gap_ms=1000 * gap,
            silent_ms=1000 * sum(length for length, _ in until_settled if length > silent),
            again_ms=1000 * (end - fault),
            rate_back_ms=1000 * (back - fault),
            gap_before_ms=1000 * longest_before,
            rate_before=rate,
            p99_before_ms=1000 * percentile([s for _, s in before], 0.99),
            p99_ms=1000 * percentile([s for _, s in after], 0.99),
            longest_ms=1000 * max(s for _, s in after),
            retried=figures.retried,
        )
    if poison is not None:
        report.update(poison_status=poison[0], poison_ms=1000 * poison[1])
    report = {key: round(value, 1) for key, value in report.items()}
    if figures.example is not None:
        report["example"] = figures.example
    return report


async def send_poison(client, image):
    start = time.monotonic()
    status, _ = await asyncio.wait_for(client.post("/classify", image, "image/png"), PATIENCE_S)
    client.close()
    return status, time.monotonic() - start


async def run(arguments):
    folder = pathlib.Path(__file__).resolve().parents[2] / "models" / "samples"
    samples = [(path.stem, path.read_bytes()) for path in sorted(folder.glob("*.jpg"))]
    figures, begun, poison = Figures(), time.monotonic(), None
    under_way = [asyncio.Event() for _ in range(arguments.connections)]
    tasks = [
        asyncio.create_task(keep_asking(i, arguments.url, samples, figures, event))
        for i, event in enumerate(under_way)
    ]
    await asyncio.sleep(arguments.before)
    for event in under_way:
        event.clear()
    fault = time.monotonic()
    if arguments.kill is not None:
        os.kill(arguments.kill, signal.SIGKILL)
    else:
        poison = await send_poison(Client(arguments.url), arguments.poison.read_bytes())
    await asyncio.gather(*[event.wait() for event in under_way])
    settled = time.monotonic()
    await asyncio.sleep(arguments.after)
    figures.stop = True
    await asyncio.gather(*tasks)
    return describe(figures, begun, fault, settled, poison)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", type=urllib.parse.urlsplit)
    fault = parser.add_mutually_exclusive_group(required=True)
    fault.add_argument("--kill", type=int, metavar="PID")
    fault.add_argument("--poison", type=pathlib.Path, metavar="IMAGE")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--before", type=float, default=2)
    parser.add_argument("--after", type=float, default=2)
    report = asyncio.run(run(parser.parse_args()))
    print(json.dumps(report))
    sys.exit(0 if report["failed"] == 0 and report.get("poison_status", 500) == 500 else 1)


if __name__ == "__main__":
    main()
