#!/usr/bin/env python3
"""A soak: convoyd under good and bad clients, while its processes are killed, stopped, reloaded and upgraded.

    tests/soak/run.py [--seconds S] [--seed N] [--build BUILD] [--backend cpu]      (default: ten minutes, build, cpu)

Good clients ask on kept connections and check each answer: status 200 and the label of the picture, or 503 with a sentence. Bad
clients send noise, halves of requests, promises of large bodies, and leave in the middle. Every few seconds one of these happens, in
an order of chance that the seed decides: a worker is killed or stopped, the front is killed, the configuration is reloaded, a model is
unloaded and loaded, the daemon is upgraded to itself. Each must be over, and the daemon ready, within 30 s.

At the end: no answer was wrong; answers were lost only to fronts that were killed, and at most one for each good client; connections
were closed before any byte of an answer only by these and by upgrades; descriptors and threads of master, front and worker are no more
than in the first round of all events, memory by a fifth and 8 MB at most. Prints a line for each event and JSON at the end; exit status 1 when something is not so.

Not part of it: full disks, faults of a device (illegal addresses, memory that runs out). Python's standard library only.
"""

import argparse
import asyncio
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))
import steady_load  # noqa: E402

MODEL, LOADED = "cifar10-convnet", "fashion-lenet"
RELOADED = 'msg="configuration read again"'
PATIENCE_S = 30
PAUSE_S = 2  # between events, besides what an event takes
GOOD, BAD = 16, 4


def children(pid, name):
    found = subprocess.run(["pgrep", "-P", str(pid), "-x", name], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


class Daemon:
    def __init__(self, build, backend, work):
        self.log = work / "log"
        config = work / "config.json"
        config.write_text(json.dumps({
            "models": str(ROOT / "models"), "default_model": MODEL, "model_control": "explicit",
            "repository": {"load_at_start": [MODEL]}, "auth": {"loopback_admin": True}, "worker": {"hang_timeout_ms": 500},
            "http": {"request_timeout_ms": 2000}}))
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [build / "bin" / "convoyd", "--config", config, "--listen", "127.0.0.1:0", "--backend", backend],
                stderr=log, stdin=subprocess.DEVNULL)
        self.url = self.wait("it does not listen", self.find_url)

    def find_url(self):
        for line in self.log.read_text().splitlines():
            if 'msg="convoyd listens"' in line:
                return "http://127.0.0.1:" + line.split(" port=")[1].split()[0]
        return None

    @property
    def front(self):
        return next(iter(children(self.process.pid, "convoyd")), None)

    @property
    def worker(self):
        return next(iter(children(self.process.pid, "convoy-worker")), None)

    def count(self, text):
        return self.log.read_text().count(text)

    def wait(self, what, condition, limit_s=PATIENCE_S):
        end = time.monotonic() + limit_s
        while not (value := condition()):
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"{what} within {limit_s} s\n{self.log.read_text()[-3000:]}")
            time.sleep(0.02)
        return value

    def ask(self, path, body=None):
        """The status, or None: no answer."""
        request = urllib.request.Request(self.url + path, data=body, method="GET" if body is None else "POST")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def ready(self):
        return self.ask("/v2/health/ready") == 200


def kill_worker(daemon):
    old = daemon.worker
    os.kill(old, signal.SIGKILL)
    daemon.wait("no worker takes its place", lambda: daemon.worker not in (None, old))


def stop_worker(daemon):
    """It hangs, and is replaced."""
    old = daemon.worker
    os.kill(old, signal.SIGSTOP)
    daemon.wait("a worker that hangs is not replaced", lambda: daemon.worker not in (None, old))


def kill_front(daemon):
    old, worker = daemon.front, daemon.worker
    os.kill(old, signal.SIGKILL)
    daemon.wait("no front takes its place", lambda: daemon.front not in (None, old))
    daemon.wait("it is not ready", daemon.ready)
    assert daemon.worker == worker, "the worker was not kept"


def reload(daemon):
    before = daemon.count(RELOADED)
    os.kill(daemon.process.pid, signal.SIGHUP)
    daemon.wait("the configuration is not reloaded", lambda: daemon.count(RELOADED) > before)


def change_models(daemon):
    for verb, status in (("load", 200), ("unload", 200)):
        got = daemon.ask(f"/v2/repository/models/{LOADED}/{verb}", b"{}")
        assert got == status, f"{verb}: status {got}"


def upgrade(daemon):
    before, worker = daemon.count("the new front takes over"), daemon.worker
    os.kill(daemon.process.pid, signal.SIGUSR2)
    daemon.wait("the upgrade does not end", lambda: daemon.count("the new front takes over") > before)
    daemon.wait("two fronts stay", lambda: len(children(daemon.process.pid, "convoyd")) == 1)
    assert daemon.worker == worker, "the worker was not kept"


EVENTS = [kill_worker, stop_worker, kill_front, reload, change_models, upgrade]


class Clients:
    """Good and bad ones, in a thread of their own, and what the good ones saw."""

    def __init__(self, url, seed):
        self.url, self.dice = urllib.parse.urlsplit(url), random.Random(seed)
        self.samples = [(path.stem, path.read_bytes()) for path in sorted((ROOT / "models" / "samples").glob("*.jpg"))]
        self.statuses, self.wrong, self.longest_s = collections.Counter(), [], 0.0
        self.closed = self.lost = self.refused = 0
        self.thread = None

    def start(self):
        self.ending = False
        self.thread = threading.Thread(target=lambda: asyncio.run(self.ask()), daemon=True)
        self.thread.start()

    def stop(self):
        self.ending = True
        self.thread.join(PATIENCE_S + 5)
        if self.thread.is_alive():
            self.wrong.append("a client does not end: an answer does not come")

    async def ask(self):
        await asyncio.gather(*(self.ask_well(i) for i in range(GOOD)), *(self.ask_badly() for _ in range(BAD)))

    async def ask_well(self, turn):
        client = steady_load.Client(self.url)
        while not self.ending:
            name, data = self.samples[turn % len(self.samples)]
            turn += 1
            began, kept = time.monotonic(), client.kept
            try:
                asked = client.post(f"/v2/models/{MODEL}/classify?top=1", data, "image/jpeg")
                status, document = await asyncio.wait_for(asked, PATIENCE_S)
            except (OSError, EOFError, asyncio.TimeoutError) as error:
                if getattr(error, "partial", None) == b"" and kept:
                    self.closed += 1
                elif kept:
                    self.lost += 1
                else:
                    self.refused += 1
                client.close()
                await asyncio.sleep(0.01)
                continue
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.statuses[status] += 1
            label = steady_load.first_label(document["results"][0]) if status == 200 else None
            if not (label == name or (status == 503 and len(document.get("error", "")) > 10)):
                self.wrong.append(f"{status} {document}"[:300])
            await asyncio.sleep(0.02)
        client.close()

    async def ask_badly(self):
        noise = bytes(range(256))
        head = b"POST /classify HTTP/1.1\r\nHost: x\r\n"
        kinds = [noise, head, head + b"Content-Length: 99999999999\r\n\r\n",
                 head + b"Content-Length: 4000000\r\n\r\n" + noise, head + b"Transfer-Encoding: chunked\r\n\r\nffffff\r\n",
                 head + b"Content-Length: 256\r\n\r\n" + noise, b"GET /v2 HTTP/1.1\r\n" + b"X: y\r\n" * 5000, b"\r\n" * 1000]
        while not self.ending:
            try:
                reader, writer = await asyncio.open_connection(self.url.hostname, self.url.port)
            except OSError:  # no front listens for a moment
                await asyncio.sleep(0.05)
                continue
            try:
                writer.write(self.dice.choice(kinds))
                await asyncio.wait_for(reader.read(4096), self.dice.choice((0.05, 0.5, 3)))
            except (OSError, asyncio.TimeoutError):
                pass
            self.dice.choice((writer.close, writer.transport.abort))()


def measure(pid):
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": int(status["Threads"]),
            "kB": int(status["VmRSS"].split()[0])}


def all_measured(daemon):
    return {"master": measure(daemon.process.pid), "front": measure(daemon.front), "worker": measure(daemon.worker)}


def grown(first, last):
    """What is more than it was: descriptors and threads by any number, memory by a fifth and 8 MB."""
    return [f"{who}: {last[who][what]} {what}, {first[who][what]} before" for who in first for what in first[who]
            if last[who][what] > (first[who][what] * 1.2 + 8192 if what == "kB" else first[who][what])]


def soak(daemon, clients, dice, seconds, counts):
    """What was wrong."""
    order, first, threads = dice.sample(EVENTS, len(EVENTS)), None, 0  # each once, then by chance
    clients.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end or order:
        event = order.pop() if order else dice.choice(EVENTS)
        began = time.monotonic()
        event(daemon)
        daemon.wait(f"not ready after {event.__name__}", daemon.ready)
        counts[event.__name__] += 1
        print(f"{event.__name__}: {time.monotonic() - began:.2f} s", flush=True)
        time.sleep(PAUSE_S)
        if first is None:
            # Threads are started when there is work for them, so a front that is new has fewer.
            threads = max(threads, measure(daemon.front)["threads"])
        if not order and first is None:
            clients.stop()
            first = all_measured(daemon)
            first["front"]["threads"] = threads
            print(json.dumps(first), flush=True)
            clients.start()
    clients.stop()
    # The front may still close what clients left.
    settled = time.monotonic() + 10
    while (wrong := grown(first, all_measured(daemon))) and time.monotonic() < settled:
        time.sleep(0.1)
    print(json.dumps(all_measured(daemon)), flush=True)
    wrong += clients.wrong[:5]
    for what, most in (("closed", counts["kill_front"] + counts["upgrade"]), ("lost", counts["kill_front"]),
                       ("refused", counts["kill_front"])):
        if getattr(clients, what) > most * GOOD:
            wrong.append(f"{getattr(clients, what)} connections were {what}, {most * GOOD} may be")
    return wrong if clients.statuses[200] > 0 else [*wrong, "no picture was classified"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--backend", default="cpu")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as work:
        daemon = Daemon(arguments.build.resolve(), arguments.backend, pathlib.Path(work))
        try:
            daemon.wait("it is not ready", daemon.ready)
            clients = Clients(daemon.url, arguments.seed)
            wrong = soak(daemon, clients, random.Random(arguments.seed), arguments.seconds, counts)
            daemon.process.send_signal(signal.SIGTERM)
            if daemon.process.wait(PATIENCE_S) != 0:
                wrong.append(f"exit status {daemon.process.returncode}")
            if wrong:
                print(daemon.log.read_text()[-3000:], file=sys.stderr)
        finally:
            daemon.process.kill()
    print(json.dumps({"seed": arguments.seed, "events": counts, "statuses": clients.statuses, "closed": clients.closed,
                      "lost": clients.lost, "refused": clients.refused, "longest_s": round(clients.longest_s, 2), "wrong": wrong}))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
