"""A connection's script: what a client does, in a form that can be written down and played again.

A script is a dictionary of one line of JSON:
    case    which case of a run it was
    at      when it began, in seconds since the run began; a replay begins it then
    clean   the seeds that it sends unchanged before anything else, whose answers are therefore known
    steps   lists, the name of each first:
        ["send", BYTES]      as text, a character a byte
        ["wait", SECONDS]    reads what comes meanwhile
        ["answers", COUNT]   reads until so many answers came, within PATIENCE_S; fewer are wrong if the connection is open
        ["quiet", SECONDS, COUNT]   reads until so many answers came or nothing came for so long
        ["deaf"]             from here on nothing is read
        ["fin"]              ends the sending side
        ["ends"]             reads until the server closes, within PATIENCE_S
        ["close"], ["reset"] closes: without and with SO_LINGER 0
"""

import select
import socket
import struct
import time

from answers import Reader, Wrong

# For what must come. The front gives a request four seconds, and a connection that rests as long; the rest is for a machine
# that is busy.
PATIENCE_S = 30
# How long one that does not read goes on sending to a front that takes no more.
DEAF_S = 0.3


def sent_bytes(script):
    return b"".join(step[1].encode("latin-1") for step in script["steps"] if step[0] == "send")


class Play:
    def __init__(self, address, script):
        self.script = script
        data = sent_bytes(script)
        # A line that asks for something has a version, or the library answers once and closes.
        self.reader = Reader(head=b"HEAD" in data, most=data.count(b"HTTP/") + 1)
        self.deaf = self.was_deaf = False
        self.over = False  # the server closed, or reset
        self.was_reset = False
        self.sending = True
        self.socket = socket.create_connection(address, PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    def read(self):
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            self.over = True  # a reset; what was on its way is lost
            return
        if data:
            self.reader.feed(data)
        else:
            self.over = True
            # Neither one that did not read, which is cut off in the middle of an answer; nor one whose send() was told
            # of a reset, which recv() then shows as an end.
            if not self.was_deaf and not self.was_reset:
                self.reader.end()

    def until(self, seconds, done=lambda: False, quiet=False):
        """Reads for so long, or until done() or the server closed. quiet: the time begins again with every byte."""
        end = time.monotonic() + seconds
        while not self.over and not done():
            left = end - time.monotonic()
            if left <= 0:
                return False
            if self.deaf:
                time.sleep(left)
            elif select.select([self.socket], [], [], left)[0]:
                self.read()
                end = time.monotonic() + seconds if quiet else end
        return True

    def send(self, data):
        end = time.monotonic() + (DEAF_S if self.deaf else PATIENCE_S)
        at = 0
        while at < len(data) and not self.over:
            reads = [] if self.deaf else [self.socket]
            readable, writable, _ = select.select(reads, [self.socket], [], max(0, end - time.monotonic()))
            if readable:
                self.read()
            if writable:
                try:
                    at += self.socket.send(data[at : at + (1 << 18)])
                except BlockingIOError:
                    pass
                except OSError as error:
                    self.sending = False
                    self.was_reset = isinstance(error, ConnectionResetError)
                    if not self.deaf:
                        self.until(0.5)  # what it said before it closed
                    return
            if not readable and not writable:
                if self.deaf:
                    return
                raise Wrong(f"the server neither reads nor closes for {PATIENCE_S} s")

    def step(self, name, *arguments):
        if name == "send":
            if self.sending:
                self.send(arguments[0].encode("latin-1"))
        elif name == "wait":
            self.until(arguments[0])
        elif name == "answers":
            count = arguments[0]
            if not self.until(PATIENCE_S, lambda: len(self.reader.answers) >= count):
                raise Wrong(f"{len(self.reader.answers)} of {count} answers within {PATIENCE_S} s")
        elif name == "quiet":
            self.until(arguments[0], lambda: len(self.reader.answers) >= arguments[1], quiet=True)
        elif name == "deaf":
            self.deaf = self.was_deaf = True
        elif name == "fin":
            self.reader.gone = True
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            self.sending = False
        elif name == "ends":
            self.deaf = False
            if not self.until(PATIENCE_S):
                raise Wrong(f"the connection is open {PATIENCE_S} s after the client's last byte")
        elif name == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.socket.close()
        elif name == "close":
            self.socket.close()
        else:
            raise ValueError(name)

    def run(self):
        """Plays it; the answers. Wrong when the server does what it must not."""
        try:
            for step in self.script["steps"]:
                self.step(*step)
        finally:
            self.socket.close()
        return self.reader.answers
