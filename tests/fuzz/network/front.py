"""The front under test: started, looked at from outside, stopped. It and its worker are of a build with sanitizers."""

import collections
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

from answers import Wrong
from script import PATIENCE_S, Play

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Small, so that what is not given back runs out within a session. More than the fuzzer's own connections.
CONNECTIONS = 160
BODY = 262144
BODIES_AT_ONCE = 16  # see server/http/body_quota.h
SMALL_BODY = 65536

# LeakSanitizer falls over the thread-local blocks that glibc makes for modules loaded by dlopen(). A short quarantine, so
# that growing memory shows.
ASAN = "intercept_tls_get_addr=0:quarantine_size_mb=8:detect_leaks=1:detect_stack_use_after_return=1"


# A connection on which nothing moves for so long is closed by the front.
QUIET_S = 4


def configuration(chance):
    return {
        "listen": "127.0.0.1:0",
        "models": str(ROOT / "models"),
        "default_model": "cifar10-convnet",
        "model_control": "explicit",
        "repository": {"load_at_start": ["cifar10-convnet"]},
        "backend": "cpu",
        "auth": {"loopback_admin": True},
        "shared_memory": {"enabled": True},
        "http": {
            "threads": chance.choice([1, 2, 4]),
            "connections": CONNECTIONS,
            "connections_per_address": CONNECTIONS,
            "idle_timeout_ms": QUIET_S * 1000,
            "request_timeout_ms": QUIET_S * 1000,
            "max_header_bytes": 16384,
            "max_body_bytes": BODY,
        },
        "images": {"max_pixels": 1000000, "max_per_request": 64},
        # Remembered answers must be as right as computed ones; the small one is always full.
        "response_cache": {"bytes": chance.choice([0, 0, 65536])},
        "drain_timeout_ms": 10000,
        "log": {"level": "debug" if chance.random() < 0.2 else "info"},
    }


class Front:
    def __init__(self, build, chance, patience_s=60):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="convoy-network-"))
        self.process = None
        self.address = None
        self.configuration = configuration(chance)
        self.log = collections.deque(maxlen=400)
        (self.folder / "config.json").write_text(json.dumps(self.configuration))
        reports = self.folder / "reports"  # of the worker, too, which has a user of its own
        reports.mkdir()
        reports.chmod(0o1777)
        self.folder.chmod(0o711)
        options = f"log_path={reports}/sanitizer"
        environment = dict(os.environ)
        environment["ASAN_OPTIONS"] = f"{ASAN}:{options}:{os.environ.get('ASAN_OPTIONS', '')}"
        environment["UBSAN_OPTIONS"] = f"print_stacktrace=1:{options}:{os.environ.get('UBSAN_OPTIONS', '')}"
        self.process = subprocess.Popen(
            [ROOT / build / "bin/convoyd", "--config", self.folder / "config.json"],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=ROOT,
        )
        self.listening = threading.Event()
        self.reads = threading.Thread(target=self.read_log, daemon=True)
        self.reads.start()
        end = time.monotonic() + patience_s
        while not self.listening.wait(0.1):
            self.check()
            if time.monotonic() > end:
                raise Wrong("convoyd does not listen")
        while not self.ready():
            self.check()
            if time.monotonic() > end:
                raise Wrong("convoyd is not ready")
            time.sleep(0.05)  # there is no event to wait for from the outside

    def read_log(self):
        """All the time, so that the front never waits for its log; the last lines are kept."""
        for line in self.process.stderr:
            text = line.decode("latin-1").rstrip()
            self.log.append(text)
            if not self.listening.is_set() and 'msg="convoyd listens"' in text:
                self.address = ("127.0.0.1", int(re.search(r" port=(\d+)", text)[1]))
                self.listening.set()

    def get(self, path, seconds=PATIENCE_S):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.address[1]}{path}", timeout=seconds) as answer:
            return answer.read().decode()

    def ready(self):
        try:
            return bool(self.get("/v2/health/ready"))
        except OSError:
            return False

    def metrics(self):
        """Every sample by its name with labels."""
        lines = self.get("/metrics").splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def worker(self):
        return self.child("convoy-worker")

    def child(self, name):
        """The process id of the master's child of that name, or None."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for child in children.split():
            try:
                if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == name:
                    return int(child)
            except OSError:
                pass  # it has ended
        return None

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.child('convoyd')}/fd"))

    def resident_mib(self):
        found = re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.child('convoyd')}/status").read_text())
        return int(found[1]) // 1024

    def check(self):
        """It lives, and no sanitizer had something to say."""
        if glob.glob(f"{self.folder}/reports/sanitizer.*"):
            try:
                self.process.wait(10)  # it writes the report, and ends
            except subprocess.TimeoutExpired:
                pass
            raise Wrong("a sanitizer's report")
        if self.process.poll() is not None:
            raise Wrong(f"convoyd ended with status {self.process.returncode}")

    def reports(self):
        return "".join(
            pathlib.Path(path).read_text("latin-1") for path in sorted(glob.glob(f"{self.folder}/reports/sanitizer.*"))
        )

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self, seconds):
        """SIGTERM: it must end with status 0 within so many seconds, and leak nothing. Returns the seconds that it took,
        with LeakSanitizer's."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Wrong(f"convoyd has not ended {seconds} s after SIGTERM") from None
        took = time.monotonic() - begun
        if glob.glob(f"{self.folder}/reports/sanitizer.*"):
            raise Wrong("a sanitizer's report at the end")
        if status != 0:
            raise Wrong(f"convoyd ended with status {status} after SIGTERM")
        return took

    # What must be there again when all clients are gone.

    def eventually(self, what, done, seconds=PATIENCE_S):
        end = time.monotonic() + seconds
        while not done():
            self.check()
            if time.monotonic() > end:
                raise Wrong(f"{what}, {seconds} s after the last client left")
            time.sleep(0.05)

    def rested(self, descriptors):
        def used(name):
            return sum(value for sample, value in self.metrics().items() if sample.split("{")[0] == name)

        Play(
            self.address,
            {
                "steps": [
                    ["send", "POST /v2/systemsharedmemory/unregister HTTP/1.1\r\nHost: x\r\n\r\n"],
                    ["answers", 1],
                    ["close"],
                ]
            },
        ).run()
        self.eventually("images are in the queue", lambda: used("convoyd_queue_images") == 0)
        self.eventually("slots are in use", lambda: used("convoyd_slots_in_use") == 0)
        self.eventually("more descriptors are open than before", lambda: self.descriptors() <= descriptors)
        samples = self.metrics()
        for sample, value in samples.items():
            if value and (sample.startswith("convoyd_worker_restarts_total") or 'status="500"' in sample):
                raise Wrong(f"{sample} is {value:.0f}")
        self.room_for_connections()
        self.room_for_bodies()

    def room_for_connections(self):
        """As many as are served at a time get an answer, all at once: one that is counted for ever is missed here."""
        sockets = []
        try:
            for _ in range(CONNECTIONS):
                sockets.append(socket.create_connection(self.address, PATIENCE_S))
                sockets[-1].sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            for number, one in enumerate(sockets):
                one.settimeout(PATIENCE_S)
                try:
                    data = one.recv(4096)
                except OSError as error:
                    raise Wrong(
                        f"connection {number + 1} of {CONNECTIONS} at a time gets no answer: {error}"
                    ) from error
                if not data.startswith(b"HTTP/1.1 200 "):
                    raise Wrong(f"connection {number + 1} of {CONNECTIONS} at a time: {data[:200]!r}")
        finally:
            for one in sockets:
                one.close()

    def room_for_bodies(self):
        """As many bodies as may be received at a time are, all but the last byte of each first: a byte that is counted for
        ever is missed here. A busy machine may be too slow to send all of them before the first is cut off."""
        for _ in range(10):
            if self.bodies_at_a_time():
                return
        raise Wrong("bodies are not read, or cut off")

    def bodies_at_a_time(self):
        """False when one was cut off."""
        large = BODIES_AT_ONCE * 7 // 8
        small = (BODIES_AT_ONCE - large) * BODY // SMALL_BODY  # the last eighth is for those
        sockets = []
        try:
            for size in [BODY] * large + [SMALL_BODY] * small:
                if len(sockets) == large:
                    self.eventually("bodies are not read", lambda: not unread(sockets))
                sockets.append(socket.create_connection(self.address, PATIENCE_S))
                head = b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
                sockets[-1].sendall(head + b"x" * (size - 1))
            self.eventually("bodies are not read", lambda: not unread(sockets))
            for one in sockets:
                one.sendall(b"x")
            for number, one in enumerate(sockets):
                answer = one.recv(4096)
                if not answer:
                    return False
                if not answer.startswith(b"HTTP/1.1 415 "):
                    raise Wrong(f"body {number + 1} of {large} large and {small} small ones at a time: {answer!r}")
        except (ConnectionError, BrokenPipeError):
            return False
        finally:
            for one in sockets:
                one.close()
        return True


def unread(sockets):
    """Bytes on their way to the front, or in its sockets' buffers."""
    ours = {one.getsockname()[1] for one in sockets}
    waiting = 0
    with open("/proc/net/tcp", encoding="ascii") as table:
        next(table)
        for line in table:
            # Thousands only wait for their time to pass; state 1 is an open connection.
            _, local, remote, state, queues, _ = line.split(None, 5)
            if state == "01":
                sent, received = queues.split(":")
                waiting += int(sent, 16) if int(local[-4:], 16) in ours else 0
                waiting += int(received, 16) if int(remote[-4:], 16) in ours else 0
    return waiting
