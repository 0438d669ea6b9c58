#!/usr/bin/env python3
"""Kills the front of a convoyd again and again under load, and checks every answer.

    front_load.py URL MASTER SIGNAL KILLS

Eight connections send the images of models/samples in turn and wait for each answer. Each time that all have been
answered for longer than a second, the child convoyd of MASTER gets SIGNAL. A connection that breaks is made again.
Prints one JSON object:
  back_ms       for each kill: until a connection that was made after it was told that the daemon is ready
  answered_ms   until then an image was classified rightly, behind those of the clients
  answers, wrong, statuses    wrong: 200 with another image's label
  lost          requests whose connection ended without an answer
  refused       connections that were refused
Exit status 1 when one was wrong or refused, or more were lost than were under way.

Python's standard library only.
"""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

from wire import Closed, Connection

CLIENTS = 8
SETTLED_S = 1.2  # after this a front that ends has not failed to start
PATIENCE_S = 60


class Load:
    def __init__(self, url):
        self.url = url
        self.samples = [(path.stem, path.read_bytes()) for path in sorted(pathlib.Path("models/samples").glob("*.jpg"))]
        self.lock = threading.Lock()
        self.statuses = collections.Counter()
        self.wrong = self.lost = self.refused = 0
        self.by_client = [0] * CLIENTS
        self.stop = False

    def ask(self, connection, number):
        name, image = self.samples[number % len(self.samples)]
        connection.ask("POST", "/classify?timeout_ms=30000", image)
        answer = connection.answer()
        label = answer.json()["results"][0]["predictions"][0]["label"] if answer.status == 200 else None
        with self.lock:
            self.statuses[answer.status] += 1
            self.wrong += answer.status == 200 and label != name
        return answer.status == 200 and label == name

    def connect(self):
        try:
            return Connection(self.url)
        except OSError:
            with self.lock:
                self.refused += 1
            time.sleep(0.01)
            return None

    def client(self, which):
        number, connection = which, None
        while not self.stop:
            connection = connection or self.connect()
            try:
                if connection is not None and self.ask(connection, number):
                    self.by_client[which] += 1
            except (Closed, OSError):
                with self.lock:
                    self.lost += 1
                connection = None
            number += 1

    def until_all_are_answered(self):
        before, end = list(self.by_client), time.monotonic() + PATIENCE_S
        while any(now <= was for now, was in zip(self.by_client, before)):
            if time.monotonic() > end:
                sys.exit("a client is not answered any more")
            time.sleep(0.005)

    def is_ready(self, connection):
        connection.ask("GET", "/v2/health/ready")
        return connection.answer().status == 200

    def until(self, begun, asked):
        """Milliseconds until a connection that is made from now on is answered rightly."""
        while time.monotonic() < begun + PATIENCE_S:
            try:
                with Connection(self.url) as connection:
                    if asked(connection):
                        return round(1000 * (time.monotonic() - begun), 1)
            except (Closed, OSError):
                with self.lock:
                    self.refused += 1
                time.sleep(0.002)
        sys.exit("the front does not come back")


def main():
    url, master, number, kills = sys.argv[1], sys.argv[2], getattr(signal, sys.argv[3]), int(sys.argv[4])
    load, back, answered = Load(url), [], []
    threads = [threading.Thread(target=load.client, args=(i,), daemon=True) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for _ in range(kills):
        time.sleep(SETTLED_S)
        load.until_all_are_answered()
        front = int(subprocess.check_output(["pgrep", "-P", master, "-x", "convoyd"]))
        begun = time.monotonic()
        os.kill(front, number)
        while front in map(int, subprocess.run(["pgrep", "-P", master, "-x", "convoyd"], stdout=subprocess.PIPE).stdout.split()):
            pass
        back.append(load.until(begun, load.is_ready))
        answered.append(load.until(begun, lambda connection: load.ask(connection, 0)))
    load.until_all_are_answered()
    load.stop = True
    for thread in threads:
        thread.join(PATIENCE_S)
    report = {"back_ms": back, "answered_ms": answered, "median_ms": sorted(back)[len(back) // 2], "answers": sum(load.by_client), "wrong": load.wrong,
              "statuses": load.statuses, "lost": load.lost, "refused": load.refused}
    print(json.dumps(report))
    return load.wrong > 0 or load.refused > 0 or load.lost > CLIENTS * kills


if __name__ == "__main__":
    sys.exit(main())
