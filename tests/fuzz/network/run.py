#!/usr/bin/env python3
"""Fuzzes the front's sockets: run.py [options]

Sessions follow each other until the time is over. In each a front is started, the seeds are sent as they are, then cases are
made up from them (mutate.py) and played by many threads at a time, while neighbours send images whose answers are known and
the worker stands still now and then, so that clients leave while they wait. At a session's end everything must be free
again, or, in every other session, the front is stopped while clients are busy.

What is wrong: a process that ends, a sanitizer's report, a neighbour's wrong or late answer, an answer that is not HTTP or
not documented, a connection that does not end, anything that is not given back, memory that grows, a slow stop, a leak. The
connections that came before are then written to build-fuzz/broken/network-*, which --replay plays again with the same
times. What leads to a new kind of answer is kept in build-fuzz/found/network, and is a seed of the next session.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time
import traceback

from answers import Wrong, same
from front import ROOT, Front
from mutate import Cases, Seed
from neighbours import Neighbour
from script import PATIENCE_S, Play, sent_bytes

CORPUS = ROOT / "tests/fuzz/corpus/network"
FOUND = ROOT / "build-fuzz/found/network"
BROKEN = ROOT / "build-fuzz/broken"
SESSION_S = 120  # at most
STOP_S = 3  # idle, with LeakSanitizer's time; see stop() for busy clients
GROWTH_MIB = 96
KEPT = 300  # connections that a failure writes down
FOUND_MAX = 400
FOUND_BYTES = 8192
OBJECT = b"/convoy-fuzz-00000000"


def seeds_of_corpus(objects):
    """In the order of their names. NAME.STATUS is a request, NAME.script connections of a failure that was mended."""
    seeds, scripts = [], []
    for path in sorted(CORPUS.iterdir()):
        data = path.read_bytes().replace(OBJECT, objects)
        if path.suffix == ".script":
            scripts.append([json.loads(line) for line in data.splitlines()][1:])
        else:
            seeds.append(Seed(path.stem, data, int(path.suffix[1:])))
    return seeds, scripts


def seeds_found(objects):
    return [
        Seed(path.name, path.read_bytes().replace(OBJECT, objects))
        for path in sorted(FOUND.iterdir() if FOUND.is_dir() else [])[:FOUND_MAX]
    ]


class Session:
    """One front, from start to stop."""

    def __init__(self, options, number, kinds):
        self.options, self.number = options, number
        self.kinds = kinds  # of answers that were seen
        self.failure = None  # (what, script or None)
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.stopping = False  # SIGTERM was sent while clients are busy
        self.next_case = number * 10_000_000 + (options.case or 0)
        self.played = 0
        self.last = collections.deque(maxlen=KEPT)
        self.playing = {}
        self.objects = b"/convoy-fuzz-%08x" % (os.getpid() & 0xFFFFFFFF)
        self.chance = random.Random(f"{options.seed}/session/{number}")
        self.seeds, self.scripts = seeds_of_corpus(self.objects)
        self.begun = time.monotonic()
        self.front = None

    def fail(self, what, script=None):
        with self.lock:
            if self.failure is None:
                self.failure = (what, script)
        self.over.set()

    # Single connections.

    def play(self, script):
        """Plays it and checks it; the answers."""
        me = threading.get_ident()
        script.setdefault("at", round(time.monotonic() - self.begun, 3))
        with self.lock:
            self.playing[me] = script
        try:
            answers = Play(self.front.address, script).run()
            if not self.stopping:  # 503 from then on
                self.check_clean(script, answers)
            return answers
        finally:
            with self.lock:
                self.last.append(self.playing.pop(me))
                self.played += 1

    def check_clean(self, script, answers):
        wanted = [self.by_name[name] for name in script.get("clean", [])]
        for seed, answer in zip(wanted, answers):
            if answer.status != seed.status:
                raise Wrong(f"the seed {seed.name} got {answer}")
            if seed.essence is not None and not same(answer.essence(), seed.essence):
                raise Wrong(f"the seed {seed.name} got {answer}, and before {seed.essence}")

    def note(self, script, answers):
        """Keeps what led to a kind of answer that was not seen before."""
        for answer in answers:
            kind = answer.signature()
            if kind in self.kinds:
                continue
            with self.lock:
                known = kind in self.kinds
                self.kinds.add(kind)
            data = sent_bytes(script).replace(self.objects, OBJECT)
            if not known and self.options.keep and isinstance(script["case"], int) and len(data) <= FOUND_BYTES:
                FOUND.mkdir(parents=True, exist_ok=True)
                name = hashlib.sha256(kind.encode()).hexdigest()[:16]
                if not (FOUND / name).exists() and len(os.listdir(FOUND)) < FOUND_MAX:
                    (FOUND / name).write_bytes(data)

    def play_seeds(self):
        """As they are, one by one: what they get is what they must get from now on."""
        for seed in self.seeds:
            # Together: where the answer to a HEAD ends shows by the next one.
            times = 1 if seed.state else 2
            steps = [["send", (seed.data * times).decode("latin-1")], ["answers", times]]
            answers = self.play({"case": seed.name, "steps": [*steps, ["close"]]})
            # One that closes its connection, as a chunked body with a trailer does, is answered once.
            seed.closes = bool(answers) and answers[0].headers.get("connection", "").lower() == "close"
            times = 1 if seed.closes else times
            if [answer.status for answer in answers] != [seed.status] * times:
                raise Wrong(f"the seed {seed.name} got {answers}")
            if not seed.state:
                seed.essence = answers[0].essence()
                if not same(seed.essence, answers[-1].essence()):
                    raise Wrong(f"the seed {seed.name} got two answers: {answers}")
            self.note({"case": seed.name, "steps": steps}, answers)

    # Threads.

    def play_cases(self):
        while not self.over.is_set():
            with self.lock:
                number = self.next_case
                self.next_case += 1
            script = None
            try:
                script = self.cases.case(number)
                self.note(script, self.play(script))
            except Wrong as wrong:
                self.fail(f"case {number}: {wrong}", script)
            except OSError as error:
                if self.stopping or self.over.is_set():
                    return
                self.fail(f"case {number}: {error!r}", script)
            except Exception:
                self.fail(f"case {number}: the fuzzer itself: {traceback.format_exc()}", script)

    def replay_scripts(self, scripts):
        """Each at its time, counted from the first."""
        scripts = [json.loads(json.dumps(script).replace(OBJECT.decode(), self.objects.decode())) for script in scripts]
        first = min((script.get("at", 0) for script in scripts), default=0)
        begun = time.monotonic()

        def one(script):
            try:
                self.play(script)
            except (Wrong, OSError) as wrong:
                if not self.over.is_set():
                    self.fail(f"case {script.get('case')}: {wrong!r}", script)

        threads = []
        for script in scripts:
            due = begun + script.get("at", first) - first
            if self.over.wait(max(0, due - time.monotonic())):
                break
            threads.append(threading.Thread(target=one, args=({**script},)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def stall(self):
        """The worker stands still now and then, so that requests wait, and are left."""
        chance = random.Random(f"{self.options.seed}/stall/{self.number}")
        worker = self.front.worker()
        while worker is not None and not self.over.wait(chance.random()):
            try:
                os.kill(worker, signal.SIGSTOP)
                self.over.wait(chance.choice([0.02, 0.1, 0.3]))
                os.kill(worker, signal.SIGCONT)
            except ProcessLookupError:
                if not self.stopping:
                    self.fail("the worker ended")
                return

    # The whole.

    def start(self):
        path = pathlib.Path("/dev/shm") / self.objects.decode()[1:]
        path.write_bytes(bytes(range(256)) * 16)
        self.front = Front(self.options.build, self.chance)
        self.by_name = {seed.name: seed for seed in self.seeds}
        self.play_seeds()
        for scripts in self.scripts:
            self.replay_scripts(scripts)
        found = seeds_found(self.objects) if self.options.keep else []
        self.cases = Cases(self.options.seed, self.seeds + found)
        self.descriptors = self.front.descriptors()

    def run(self, seconds, scripts=None):
        """Fuzzes for so long, or replays scripts. Wrong, or nothing."""
        try:
            self.start()
            if self.failure is None:
                self.fuzz(seconds, scripts)
            if self.failure is not None:
                raise Wrong(self.failure[0])
        finally:
            self.over.set()
            (pathlib.Path("/dev/shm") / self.objects.decode()[1:]).unlink(missing_ok=True)

    def fuzz(self, seconds, scripts):
        busy_stop = scripts is None and self.number % 2 == 1
        neighbours = [Neighbour(self, number) for number in range(3)]
        threads = [threading.Thread(target=neighbour.run) for neighbour in neighbours]
        threads.append(threading.Thread(target=self.stall))
        if scripts is None:
            threads += [threading.Thread(target=self.play_cases) for _ in range(self.options.threads)]
        else:
            threads.append(threading.Thread(target=lambda: (self.replay_scripts(scripts), self.over.set())))
        for thread in threads:
            thread.start()
        begun = time.monotonic()
        warm = None
        try:
            while not self.over.wait(0.25):
                self.front.check()
                now = time.monotonic() - begun
                if warm is None and now > min(20, seconds / 3):
                    warm = self.front.resident_mib()
                if now > seconds and scripts is None:
                    break
            if busy_stop and self.failure is None:
                for neighbour in neighbours:
                    neighbour.stop()
                # Requests that have begun are waited for, 5 s at most, and those that wait are answered.
                self.stopping = True
                took = self.front.stop(9 + self.options.slack)
                self.report(neighbours, f"stopped among busy clients in {took:.1f} s")
                return
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        self.front.check()
        if self.failure is not None:
            return
        self.front.rested(self.descriptors)
        grown = self.front.resident_mib() - (warm or 0)
        took = self.front.stop(STOP_S + self.options.slack)
        self.report(neighbours, f"{grown if warm else 0} MiB more, stopped in {took:.1f} s")
        if warm is not None and grown > GROWTH_MIB:
            raise Wrong(f"{grown} MiB more than after a third of the session")

    def report(self, neighbours, end):
        print(
            f"session {self.number}: {self.played} connections, {len(self.kinds)} kinds of answers; neighbours: "
            f"{sum(n.asked for n in neighbours)} requests, the slowest {max(n.slowest for n in neighbours):.2f} s; {end}",
            flush=True,
        )

    def write_down(self):
        """The failure, for --replay; where."""
        BROKEN.mkdir(parents=True, exist_ok=True)
        name = BROKEN / f"network-{self.options.seed}-{self.number}-{os.getpid()}"
        with self.lock:
            scripts = list(self.last) + list(self.playing.values())
        if self.failure is not None and self.failure[1] is not None and self.failure[1] not in scripts:
            scripts.append(self.failure[1])
        scripts.sort(key=lambda script: script.get("at", 0))
        with open(f"{name}.script", "w", encoding="ascii") as file:
            file.write(json.dumps({"seed": self.options.seed, "session": self.number}) + "\n")
            for script in scripts:
                file.write(json.dumps(script).replace(self.objects.decode(), OBJECT.decode()) + "\n")
        if self.front is not None:
            with open(f"{name}.log", "w", encoding="latin-1", errors="replace") as file:
                file.write(
                    json.dumps(self.front.configuration)
                    + "\n"
                    + "\n".join(self.front.log)
                    + "\n"
                    + self.front.reports()
                )
        return f"{name}.script"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-asan", help="the folder of the build")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--seed", type=int, default=None, help="default: by the clock; it is printed")
    parser.add_argument("--case", type=int, default=None, help="begin with this case of the session")
    parser.add_argument("--session", type=int, default=0, help="begin with this session")
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--slack", type=float, default=0, help="seconds more for a stop")
    parser.add_argument("--replay", type=pathlib.Path, help="plays the connections of such a file")
    parser.add_argument(
        "--keep", action=argparse.BooleanOptionalAction, default=True, help="use and fill build-fuzz/found"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of all that is to be cleaned up
    if options.seed is None:
        options.seed = time.time_ns() // 1_000_000 % 1_000_000_000
    scripts = None
    if options.replay is not None:
        run, *scripts = [json.loads(line) for line in options.replay.read_text("ascii").splitlines()]
        options.seed, options.session = run["seed"], run["session"]
    end = time.monotonic() + options.seconds
    number, played, kinds = options.session, 0, set()
    print(f"seed {options.seed}", flush=True)
    while True:
        session = Session(options, number, kinds)
        try:
            left = end - time.monotonic()
            # Two at least, one that rests at its end and one that is stopped among its clients.
            session.run(min(SESSION_S, left if number != options.session else options.seconds / 2), scripts)
        except (Wrong, OSError) as wrong:
            path = session.write_down()
            if session.front is not None:
                print(session.front.reports() or "\n".join(list(session.front.log)[-20:]))
            print(f"FAILED: session {number} of seed {options.seed}: {wrong}")
            print(f"Again: tests/fuzz/run.sh --replay {os.path.relpath(path, ROOT)}")
            return 1
        finally:
            played += session.played
            if session.front is not None:
                session.front.kill()
        number += 1
        if scripts is not None or end - time.monotonic() < 5:
            break
    print(f"network: {played} connections in {number - options.session} sessions, {len(kinds)} kinds of answers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
