#!/usr/bin/env python3
"""A soak: convoyd under good and bad clients, while its processes are killed, stopped, reloaded and upgraded.

    tests/soak/run.py [--seconds S] [--seed N] [--build BUILD] [--backend cpu] [--good 16] [--bad 4] [--pause 2]
                                                                                    (default: ten minutes, build, cpu)
    tests/soak/run.py --build PACK --backend cuda    on a machine with a GPU, PACK as tests/gpu/pack.sh made it

Good clients ask on kept connections and check each answer: status 200 and the label of the picture, or 503 with a sentence. Bad
clients send noise, halves of requests, promises of large bodies, and leave in the middle. Every few seconds one of these happens, in
an order of chance that the seed decides: a worker is killed or stopped, the front is killed, the configuration is reloaded, a model is
unloaded and loaded, the daemon is upgraded to itself, or to one whose channels have another ABI (BUILD/tests/next_abi); the disk with
the log and a model's file is full; memory runs out while a worker loads a model; an image makes the device fail. Each must be over,
and the daemon ready, within 30 s, on the emulated GPU within three minutes.

Faults of the device are those of build/bin/convoy-faults.so (tests/faults/faults.h): an image kills the worker, or makes it hang. With
--backend cuda on a GPU, or with "emulated" on the emulated one of the build, also a kernel that writes where no memory is, one that
stops, one that never ends, and a memory error. Without that module they are left out, as are upgrades to another ABI without
BUILD/tests/next_abi, and the first line says so. A full disk is one that takes no more: the limit on the size of files (RLIMIT_FSIZE) is
the log's size, and a model's file ends early. Memory is out when a worker's address space (RLIMIT_AS) may not grow.

At the end: no answer was wrong; answers were lost only to fronts that were killed, and at most one for each good client; connections
were closed before any byte of an answer only by these and by upgrades; descriptors and threads of master, front and worker are no more
than in the first round of all events, memory by a fifth and 8 MB at most. Prints a line for each event and JSON at the end; exit status 1 when something is not so.

Python's standard library only.
"""

import argparse
import asyncio
import collections
import json
import os
import pathlib
import random
import resource
import shutil
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

MODEL, LOADED, CUT = "cifar10-convnet", "fashion-lenet", "cut"
RELOADED = 'msg="configuration read again"'
PATIENCE_S, EMULATED_S = 30, 180  # an emulated device is slow; an image that makes it hang is computed up to four times
FULL_S = 1  # so long the disk is full
# A model's file takes address space of its own. Without this, glibc puts it where a GPU's driver has freed as much.
MAPS_LARGE = "glibc.malloc.mmap_threshold=131072"
# What the third colour of an image means to the fault "pixels".
FAULTS = ["kill", "hang"]
GPU_FAULTS = ["illegal", "trap", "spin", "ecc"]


def children(pid, name):
    found = subprocess.run(["pgrep", "-P", str(pid), "-x", name], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


PROGRAMS = ("convoyd", "convoy-worker")


def copy_of(build, backend, work):
    """A folder of what is needed of build, where programs can be replaced. An installed tree's modules and libraries stay in its own lib."""
    bin_ = work / "tree" / "bin"
    bin_.mkdir(parents=True)
    if (build / "lib" / "convoyd").is_dir():
        (work / "tree" / "lib").symlink_to(build / "lib")
    for name in (*PROGRAMS, "convoy-faults.so", *(f"convoy-backend-{kind}.so" for kind in ("cpu", "cuda", "null")), "libconvoy-kernels.so"):
        if (build / "bin" / name).exists():
            shutil.copy(build / "bin" / name, bin_)
    if backend == "emulated":
        shutil.copy(build / "tests" / "emulation" / "convoy-backend-cuda-emulated.so", bin_ / "convoy-backend-cuda.so")
    return bin_


def make_models(work):
    """Two models, and one whose file a full disk has cut."""
    for name in (MODEL, LOADED):
        shutil.copytree(ROOT / "models" / name, work / "models" / name)
    shutil.copytree(ROOT / "models" / LOADED, work / "models" / CUT)
    file = work / "models" / CUT / "1" / "model.onnx"
    os.truncate(file, file.stat().st_size // 2)


class Daemon:
    def __init__(self, build, backend, work):
        emulated = backend == "emulated"
        self.patience_s = EMULATED_S if emulated else PATIENCE_S
        self.log = work / "log"
        config = work / "config.json"
        make_models(work)
        # An emulated batch takes a while.
        config.write_text(json.dumps({
            "models": str(work / "models"), "default_model": MODEL, "model_control": "explicit", "tune": "off",
            "repository": {"load_at_start": [MODEL]}, "auth": {"loopback_admin": True},
            # A worker of another user cannot be given limits without CAP_SYS_RESOURCE.
            "worker": {"hang_timeout_ms": 6000 if emulated else 500} | ({"user": "root"} if os.geteuid() == 0 else {}), "http": {"request_timeout_ms": 2000}}))
        self.bin = copy_of(build, backend, work)
        backend = "cuda" if emulated else backend
        # The places where the worker looks for the module.
        has_faults = any((folder / "convoy-faults.so").exists() for folder in (self.bin, self.bin.parent / "lib" / "convoyd"))
        self.has_spare = backend == "cuda" and not emulated  # an emulated GPU has too little memory for one
        self.faults = FAULTS + (GPU_FAULTS if backend == "cuda" else []) if has_faults else []
        # Those that lie at the path are the first; the others have channels of another ABI.
        self.programs = [folder for folder in (build / "bin", build / "tests" / "next_abi") if (folder / "convoy-worker").exists()]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [self.bin / "convoyd", "--config", config, "--listen", "127.0.0.1:0", "--backend", backend],
                stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, "CONVOY_TEST_FAULT": "pixels:250,0", "GLIBC_TUNABLES": MAPS_LARGE})
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

    def rests(self):
        """Whether all processes are there: a spare costs front and master descriptors."""
        return not self.has_spare or bool(children(self.process.pid, "convoy-spare"))

    def count(self, text):
        return self.log.read_text().count(text)

    def wait(self, what, condition):
        end = time.monotonic() + self.patience_s
        while not (value := condition()):
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"{what} within {self.patience_s} s\n{self.log.read_text()[-3000:]}")
            time.sleep(0.02)
        return value

    def ask(self, path, body=None):
        """The status, or None: no answer. An error says why in a sentence."""
        request = urllib.request.Request(self.url + path, data=body, method="GET" if body is None else "POST")
        try:
            with urllib.request.urlopen(request, timeout=self.patience_s) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            self.sentence = json.load(error)["error"]
            assert len(self.sentence) > 10
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


def upgrade_to_another_abi(daemon):
    """Its own worker loads the models beside the one that runs."""
    before, worker = daemon.count("the new front takes over"), daemon.worker
    daemon.programs.append(daemon.programs.pop(0))
    for name in PROGRAMS:
        shutil.copy(daemon.programs[0] / name, daemon.bin / "new")
        os.replace(daemon.bin / "new", daemon.bin / name)
    os.kill(daemon.process.pid, signal.SIGUSR2)
    daemon.wait("the upgrade does not end", lambda: daemon.count("the new front takes over") > before)
    daemon.wait("processes stay", lambda: [len(children(daemon.process.pid, name)) for name in PROGRAMS] == [1, 1])
    assert daemon.worker != worker, "the worker before was kept"


def limited(kind, value, pids):
    """Sets a soft limit of processes; returns what they had."""
    before = []
    for pid in pids:
        soft, hard = resource.prlimit(pid, kind)
        resource.prlimit(pid, kind, (min(value, hard) if hard != resource.RLIM_INFINITY else value, hard))
        before.append((pid, (soft, hard)))
    return before


def fill_disk(daemon):
    """The log takes no line, though each request has one, and a model's file is cut."""
    front, size = daemon.front, daemon.log.stat().st_size
    traced = b'{"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "1000"}'
    before = limited(resource.RLIMIT_FSIZE, size, (daemon.process.pid, front))
    full = daemon.log.stat().st_size  # a line may have been written until now
    assert daemon.ask("/v2/trace/setting", traced) == 200
    assert daemon.ask(f"/v2/repository/models/{CUT}/load", b"{}") not in (200, None), "half a model is served"
    time.sleep(FULL_S)
    assert daemon.ask("/v2/trace/setting", b'{"trace_level": ["OFF"]}') == 200
    assert daemon.log.stat().st_size == full, "the disk was not full"
    assert daemon.front == front, "the front has ended"
    for pid, limits in before:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    reload(daemon)  # which is logged


def exhaust_memory(daemon):
    """A worker that gets no memory for a model serves the others, or is replaced (oneDNN 2.6 writes to where it got none, and the next
    worker loads the model); later the model is loaded. The worker is a new one: what one has freed would do for the model."""
    kill_worker(daemon)
    daemon.wait("it is not ready", daemon.ready)
    worker = daemon.worker
    size = int(pathlib.Path(f"/proc/{worker}/statm").read_text().split()[0]) * resource.getpagesize()
    before = limited(resource.RLIMIT_AS, size, (worker,))
    got = daemon.ask(f"/v2/repository/models/{LOADED}/load", b"{}")
    assert got is not None and (got != 200 or daemon.worker != worker), f"without memory a load has status {got}"
    if daemon.worker == worker:
        resource.prlimit(worker, resource.RLIMIT_AS, before[0][1])
    daemon.wait("the model is not loaded", lambda: daemon.ask(f"/v2/repository/models/{LOADED}/load", b"{}") == 200)
    assert daemon.ask(f"/v2/repository/models/{LOADED}/unload", b"{}") == 200


def fail_device(daemon):
    """An image makes the device fail each time that it is computed, in one way after the other: it gets an error, no other does."""
    daemon.faults.append(fault := daemon.faults.pop(0))
    image = daemon.log.with_name(f"{fault}.png")
    blue = (FAULTS + GPU_FAULTS).index(fault)
    subprocess.run([sys.executable, ROOT / "tests" / "tools" / "solid_png.py", image, "250", "0", str(blue)], check=True)
    got = daemon.ask(f"/v2/models/{MODEL}/classify?timeout_ms={1000 * daemon.patience_s}", image.read_bytes())
    assert got == 500, f"{fault}: status {got}, {daemon.sentence}"


EVENTS = [kill_worker, stop_worker, kill_front, reload, change_models, upgrade, upgrade_to_another_abi, fill_disk, exhaust_memory, fail_device]


class Clients:
    """Good and bad ones, in a thread of their own, and what the good ones saw."""

    def __init__(self, daemon, seed, good, bad):
        self.url, self.dice, self.good, self.bad = urllib.parse.urlsplit(daemon.url), random.Random(seed), good, bad
        self.patience_s = daemon.patience_s
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
        self.thread.join(self.patience_s + 5)
        if self.thread.is_alive():
            self.wrong.append("a client does not end: an answer does not come")

    async def ask(self):
        await asyncio.gather(*(self.ask_well(i) for i in range(self.good)), *(self.ask_badly() for _ in range(self.bad)))

    async def ask_well(self, turn):
        client = steady_load.Client(self.url)
        while not self.ending:
            name, data = self.samples[turn % len(self.samples)]
            turn += 1
            began, kept = time.monotonic(), client.kept
            try:
                asked = client.post(f"/v2/models/{MODEL}/classify?top=1", data, "image/jpeg")
                status, document = await asyncio.wait_for(asked, self.patience_s)
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


def soak(daemon, clients, dice, seconds, pause, counts):
    """What was wrong."""
    events = [event for event in EVENTS if (event is not fail_device or daemon.faults) and
              (event is not upgrade_to_another_abi or len(daemon.programs) > 1)]
    order, first, threads = dice.sample(events, len(events)), None, 0  # each once, then by chance
    order += [fail_device] * (len(daemon.faults) - 1)
    clients.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end or order:
        event = order.pop() if order else dice.choice(events)
        began = time.monotonic()
        event(daemon)
        daemon.wait(f"not ready after {event.__name__}", daemon.ready)
        counts[event.__name__] += 1
        print(f"{event.__name__}: {time.monotonic() - began:.2f} s, {clients.statuses[200]} answers so far", flush=True)
        time.sleep(pause)
        if first is None:
            # Threads are started when there is work for them, so a front that is new has fewer.
            threads = max(threads, measure(daemon.front)["threads"])
        if not order and first is None:
            clients.stop()
            daemon.wait("no spare worker", daemon.rests)
            first = all_measured(daemon)
            first["front"]["threads"] = threads
            print(json.dumps(first), flush=True)
            clients.start()
    clients.stop()
    daemon.wait("no spare worker", daemon.rests)
    # The front may still close what clients left.
    settled = time.monotonic() + 10
    while (wrong := grown(first, all_measured(daemon))) and time.monotonic() < settled:
        time.sleep(0.1)
    print(json.dumps(all_measured(daemon)), flush=True)
    wrong += clients.wrong[:5]
    upgrades = counts["upgrade"] + counts["upgrade_to_another_abi"]
    for what, most in (("closed", counts["kill_front"] + upgrades), ("lost", counts["kill_front"]), ("refused", counts["kill_front"])):
        if getattr(clients, what) > most * clients.good:
            wrong.append(f"{getattr(clients, what)} connections were {what}, {most * clients.good} may be")
    return wrong if clients.statuses[200] > 0 else [*wrong, "no picture was classified"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--backend", default="cpu", help='"emulated": the emulated GPU of BUILD')
    parser.add_argument("--good", type=int, default=16, help="clients at a time")
    parser.add_argument("--bad", type=int, default=4)
    parser.add_argument("--pause", type=float, default=2, help="seconds between events, besides what an event takes")
    arguments = parser.parse_args()
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as work:
        daemon = Daemon(arguments.build.resolve(), arguments.backend, pathlib.Path(work))
        try:
            print(f"seed {arguments.seed}, faults of the device: {', '.join(daemon.faults) or 'none, there is no convoy-faults.so'}; "
                  f"upgrades to another ABI: {'yes' if len(daemon.programs) > 1 else 'none, there is no tests/next_abi'}", flush=True)
            daemon.wait("it is not ready", daemon.ready)
            clients = Clients(daemon, arguments.seed, arguments.good, arguments.bad)
            wrong = soak(daemon, clients, random.Random(arguments.seed), arguments.seconds, arguments.pause, counts)
            daemon.process.send_signal(signal.SIGTERM)
            if daemon.process.wait(daemon.patience_s) != 0:
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
