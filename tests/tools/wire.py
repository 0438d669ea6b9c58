"""What the HTTP test clients share: one connection whose bytes the test decides on, and its answers."""

import json
import socket
import time
import urllib.parse

PATIENCE_S = 30


class Closed(Exception):
    """The server closed the connection, and no (whole) answer came."""


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:200]!r}"


class Connection:
    def __init__(self, url, receive_buffer=None, source=None):
        parts = urllib.parse.urlsplit(url)
        self.host = parts.netloc
        self.socket = socket.socket(socket.AF_INET)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect((parts.hostname, parts.port))
        self.ports = self._both_ports()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""

    def _both_ports(self):
        """Ours and the server's. Without a server there is none, though connect() succeeded: when the connection was reset at
        once, and when the kernel gave our end the port that the server had left, and connected it to itself."""
        try:
            ours, theirs = self.socket.getsockname(), self.socket.getpeername()
        except OSError as error:
            raise ConnectionResetError(str(error)) from error
        if ours == theirs:
            raise ConnectionRefusedError("the socket is connected to itself")
        return ours[1], theirs[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Closed(str(error)) from error

    def ask(self, method, target, body=b"", headers=(), version="1.1"):
        """Sends a request; a body gets its Content-Length."""
        lines = [f"{method} {target} HTTP/{version}", f"Host: {self.host}", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionError as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed(f"after {self.pending[:100]!r}")
        self.pending += data

    def answer(self, head=False):
        """The next answer; head when it is one to HEAD, which has no body."""
        while b"\r\n\r\n" not in self.pending:
            self.more()
        top, self.pending = self.pending.split(b"\r\n\r\n", 1)
        lines = top.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        length = 0 if head or status == 100 else int(headers.get("content-length", 0))
        while len(self.pending) < length:
            self.more()
        body, self.pending = self.pending[:length], self.pending[length:]
        return Answer(status, headers, body)

    def _queues(self):
        """(bytes that wait to be sent, bytes that wait to be read) of the server's end of the connection and of ours. None
        when the server has closed its end, or where the kernel does not tell."""
        ours, theirs = ("{:04X}".format(port) for port in self.ports)
        waiting = {}
        with open("/proc/net/tcp", encoding="ascii") as table:
            for line in table:
                _, local, remote, _, queues, *_ = line.split()[:6]
                waiting[local[-4:], remote[-4:]] = queues.split(":")
        if (theirs, ours) not in waiting or (ours, theirs) not in waiting:
            return None
        return tuple(tuple(int(queue, 16) for queue in waiting[end]) for end in ((theirs, ours), (ours, theirs)))

    def unread_by_client(self):
        """Bytes that a server on this machine has written here and no client has read; None as _queues()."""
        queues = self._queues()
        return queues and queues[0][0] + queues[1][1]

    def unread_by_server(self):
        """Bytes that were written here and that a server on this machine has not read; None as _queues()."""
        queues = self._queues()
        return queues and queues[1][0] + queues[0][1]

    def closed_within(self, seconds):
        """Waits for the server to close; how long that took, or None."""
        start = time.monotonic()
        while (left := start + seconds - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if not self.socket.recv(65536):
                    return time.monotonic() - start
            except ConnectionError:
                return time.monotonic() - start
            except TimeoutError:
                break
        return None
