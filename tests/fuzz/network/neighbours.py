"""Clients beside the fuzzed ones, who do nothing wrong and know their answers."""

import random
import struct
import threading
import time

from answers import Wrong, same
from front import QUIET_S, ROOT
from script import PATIENCE_S, Play

MODEL = "cifar10-convnet"
LIMIT_S = 10
# Where the machine stands still for the front's timeout, the front may close a neighbour's connection, but not often.
MOST_CLOSED = 2
NAMES = ("airplane", "automobile", "ship", "truck")


class Neighbour:
    """Asks again and again on a connection that it keeps, with pauses, until its session is over."""

    def __init__(self, session, number):
        self.session = session
        self.chance = random.Random(number)
        self.images = {name: (ROOT / "models/samples" / f"{name}.jpg").read_bytes() for name in NAMES}
        self.known = {}  # what was asked: its answer's essence
        self.asked = 0
        self.slowest = 0
        self.closed = 0  # connections, by a timeout of the front
        self.moved = 0  # when it sent what was answered last, or connected
        self.leave = threading.Event()
        self.ended = threading.Event()

    def stop(self):
        self.leave.set()
        self.ended.wait(PATIENCE_S)

    def request(self):
        """What it asks for, as a name, and the bytes; and the labels that the answer must have."""
        way = self.chance.randrange(4)
        name, other = self.chance.choice(NAMES), self.chance.choice(NAMES)
        if way == 0:
            return name, self.post(f"/classify?top=3&model={MODEL}", self.images[name]), [name]
        if way == 1:
            parts = b"".join(
                b'--edge\r\nContent-Disposition: form-data; name="x"\r\n\r\n' + self.images[one] + b"\r\n"
                for one in (name, other)
            )
            body = parts + b"--edge--\r\n"
            head = "Content-Type: multipart/form-data; boundary=edge\r\n"
            return f"{name} {other}", self.post("/classify?top=2", body, head), [name, other]
        if way == 2:
            level = self.chance.randrange(6)
            text = b'{"inputs":[{"name":"image","datatype":"FP32","shape":[1,3,32,32],'
            text += b'"parameters":{"binary_data_size":12288}}]}'
            pixels = struct.pack("<3072f", *((level * 37 + n) % 19 / 9 - 1 for n in range(3072)))
            head = f"Inference-Header-Content-Length: {len(text)}\r\n"
            return f"floats {level}", self.post(f"/v2/models/{MODEL}/infer", text + pixels, head), None
        return f"one {name}", self.post("/classify?top=1&priority=1", self.images[name]), [name]

    def post(self, target, body, head=""):
        name = f"X-Request-Id: neighbour-{self.asked}"
        top = f"POST {target} HTTP/1.1\r\nHost: x\r\n{name}\r\n{head}Content-Length: {len(body)}\r\n\r\n"
        return top.encode() + body

    def ask(self, play):
        """True if it was answered; False if the front closed the connection because nothing moved for its timeout."""
        what, data, labels = self.request()
        before = len(play.reader.answers)
        begun = time.monotonic()
        play.send(data)
        if not play.until(LIMIT_S, lambda: len(play.reader.answers) > before):
            raise Wrong(f"no answer within {LIMIT_S} s")
        if len(play.reader.answers) == before and time.monotonic() - self.moved >= QUIET_S:
            self.closed += 1
            if self.closed <= MOST_CLOSED:
                return False
        self.slowest = max(self.slowest, time.monotonic() - begun)
        if len(play.reader.answers) != before + 1:
            raise Wrong(f"the connection was closed: {play.reader.answers[before:]}")
        answer = play.reader.answers[-1]
        if answer.status != 200 or answer.headers.get("x-request-id") != f"neighbour-{self.asked}":
            raise Wrong(f"{what}: {answer}")
        essence = answer.essence()
        if labels is not None and [result[0][0] for result in essence] != labels:
            raise Wrong(f"{what}: {answer}")
        if not same(self.known.setdefault(what, essence), essence):
            raise Wrong(f"{what}: {answer}, and before {self.known[what]}")
        self.asked += 1
        self.moved = begun
        return True

    def run(self):
        try:
            while not (self.leave.is_set() or self.session.over.is_set()):
                play = Play(self.session.front.address, {"steps": []})
                play.reader.most = None
                self.moved = time.monotonic()
                with play.socket:
                    for _ in range(20):
                        if not self.ask(play):
                            break
                        play.reader.answers.clear()
                        play.reader.total = 0
                        if self.leave.wait(0.01) or self.session.over.is_set():
                            break
        except (Wrong, OSError) as wrong:
            if not self.session.over.is_set():
                self.session.fail(f"a neighbour: {wrong!r}")
        finally:
            self.ended.set()
