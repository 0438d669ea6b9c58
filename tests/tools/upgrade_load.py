#!/usr/bin/env python3
"""Upgrades a convoyd by SIGUSR2 under load, and counts what that costs its clients.

    upgrade_load.py URL MASTER LOG UPGRADES [--null] [--beside]

Eight clients that keep their connections send the images of models/samples in turn; one more connects for each request.
An upgrade is over when LOG says that the new front has taken a worker over, or, with --beside, that it takes over with its own. A client that gets
"Connection: close" connects again. One whose kept connection closes before any byte of an answer came sends the
request once more (RFC 9112, 9.3.1). Prints one JSON object: statuses, wrong (another image's label; not with --null), lost,
refused, retried, and latencies in ms: median and p99 outside of upgrades, the longest of all, and for each upgrade gap_ms,
the longest time without an answer. Exit status 1 when something was lost, refused, wrong or not answered with 200.

Python's standard library only.
"""

import collections
import json
import os
import pathlib
import signal
import sys
import threading
import time

from wire import Closed, Connection

CLIENTS = 8
PATIENCE_S = 60
BETWEEN_S = 0.5


class Load:
    def __init__(self, url, checks):
        self.url, self.checks = url, checks
        self.samples = [(path.stem, path.read_bytes()) for path in sorted(pathlib.Path("models/samples").glob("*.jpg"))]
        self.lock = threading.Lock()
        self.statuses = collections.Counter()
        self.counts = collections.Counter()
        self.example = None
        self.answers = []  # (when, seconds)
        self.stop = False

    def count(self, what, why=""):
        with self.lock:
            self.counts[what] += 1
            self.example = self.example or f"{what}: {why}"

    def take(self, name, answer, began):
        now = time.monotonic()
        label = answer.json()["results"][0]["predictions"][0]["label"] if answer.status == 200 else None
        with self.lock:
            self.statuses[answer.status] += 1
            self.answers.append((now, now - began))
        if self.checks and answer.status == 200 and label != name:
            self.count("wrong", f"{label} for {name}")
        if answer.status != 200:
            self.count("unserved", answer)

    def send(self, connection, number):
        """A connection to go on with, or None."""
        name, image = self.samples[number % len(self.samples)]
        began = time.monotonic()
        for attempt in (1, 2):
            kept = connection is not None
            try:
                connection = connection or Connection(self.url)
            except OSError as error:
                self.count("refused", error)
                time.sleep(0.01)
                return None
            try:
                connection.ask("POST", "/classify?timeout_ms=30000", image)
                answer = connection.answer()
            except (Closed, OSError) as error:
                if kept and attempt == 1 and connection.pending == b"":
                    with self.lock:
                        self.counts["retried"] += 1
                    connection = None
                    continue
                self.count("lost", f"kept {kept}, attempt {attempt}: {error!r}")
                return None
            self.take(name, answer, began)
            if answer.headers.get("connection", "").lower() == "close":
                connection.socket.close()
                return None
            return connection
        return None

    def client(self, which, keeps):
        number, connection = which, None
        while not self.stop:
            connection = self.send(connection, number)
            if connection is not None and not keeps:
                connection.socket.close()
                connection = None
            number += 1


def main():
    url, master, log, upgrades = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4])
    load, gaps, spans = Load(url, "--null" not in sys.argv), [], []
    threads = [threading.Thread(target=load.client, args=(i, i < CLIENTS), daemon=True) for i in range(CLIENTS + 1)]
    for thread in threads:
        thread.start()
    over = "upgrade: the new front takes over" if "--beside" in sys.argv else "worker taken over from the front before"
    done = lambda: log.read_text().count(f'msg="{over}"')
    for _ in range(upgrades):
        time.sleep(BETWEEN_S)
        before, began = done(), time.monotonic()
        os.kill(master, signal.SIGUSR2)
        while done() == before:
            if time.monotonic() > began + PATIENCE_S or "upgrade is given up" in log.read_text():
                sys.exit("the upgrade does not end")
            time.sleep(0.002)
        time.sleep(BETWEEN_S)
        ended = time.monotonic()
        spans.append((began, ended))
        with load.lock:
            times = sorted(when for when, _ in load.answers if began - 0.2 < when)
        gaps.append(round(1000 * max((b - a for a, b in zip(times, times[1:])), default=0), 1))
    load.stop = True
    for thread in threads:
        thread.join(PATIENCE_S)
    within = sorted(s for when, s in load.answers if any(a <= when <= b for a, b in spans))
    outside = sorted(s for when, s in load.answers if not any(a <= when <= b for a, b in spans)) or [0]
    part = lambda of, share: round(1000 * of[int(share * (len(of) - 1))], 1)
    print(json.dumps({"statuses": load.statuses, **{k: load.counts[k] for k in ("wrong", "lost", "refused", "unserved", "retried")},
                      "example": load.example, "median_ms": part(outside, 0.5), "p99_ms": part(outside, 0.99),
                      "upgrade_p99_ms": part(within, 0.99), "longest_ms": part(sorted(outside + within), 1),
                      "gap_ms": gaps}))
    return any(load.counts[k] for k in ("wrong", "lost", "refused", "unserved"))


if __name__ == "__main__":
    sys.exit(main())
