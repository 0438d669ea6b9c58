"""The answers on one connection, read strictly: what a server sends must be HTTP/1.1, whatever it was sent."""

import gzip
import json
import re
import struct
import zlib

# What docs/http.md names. 499 is for those alone who ended their sending side; 500 means that a worker died or
# memory is out, which must not happen.
STATUSES = {100, 200, 400, 403, 404, 405, 413, 414, 415, 422, 431, 503, 505}
# The HTTP library answers these by itself, with a page of HTML.
LIBRARY_STATUSES = {400, 413, 414, 431, 505}
FIRST_LINE = re.compile(rb"HTTP/1\.[01] (\d{3}) [ -~]*")
HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\t -~]*)")
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
MOST_BYTES = 8 << 20
# Of answers that are no JSON: binary tensors, metrics, the page.
KINDS = {"application/octet-stream", "text/plain; version=0.0.4; charset=utf-8", "text/html; charset=utf-8", "text/css; charset=utf-8",
         "text/javascript; charset=utf-8", "image/svg+xml"}


class Wrong(Exception):
    """The server did what it must not."""


class Answer:
    def __init__(self, status, headers):
        self.status, self.headers, self.body = status, headers, b""

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:300]!r}"

    def unpacked(self):
        coding = self.headers.get("content-encoding", "identity")
        try:
            return {"identity": bytes, "gzip": gzip.decompress, "deflate": zlib.decompress}[coding](self.body)
        except (KeyError, OSError, EOFError, zlib.error) as error:
            raise Wrong(f"a body that is not {coding} ({error!r}): {self}") from error

    def json(self):
        return json.loads(self.unpacked())

    def signature(self):
        """What kind of answer it is: the status and what is said, without names and numbers."""
        text = ""
        if self.status >= 400 and self.body.startswith(b"{"):
            text = re.sub("[0-9]+", "#", re.split("['\"]", json.loads(self.body)["error"])[0])[:80]
        kind = self.headers.get("content-type", "")
        return f"{self.status} {kind} {self.headers.get('content-encoding', '')} {text}"

    def check(self, gone):
        """The body is what the headers promise. gone: the client said that it will send no more."""
        kind = self.headers.get("content-type", "")
        if self.status not in STATUSES and not (self.status == 499 and gone):
            raise Wrong(f"a status that is not documented: {self}")
        if self.status == 100:
            return
        identity = self.headers.get("x-request-id")
        if identity is not None and not REQUEST_ID.fullmatch(identity):
            raise Wrong(f"a request's id that is none: {self}")
        bodiless = not self.body and ":head" in self.headers
        if self.status in LIBRARY_STATUSES and identity is None and (bodiless or b"<html>" in self.body[:200]):
            return
        if self.status == 405 and not self.headers.get("allow"):
            raise Wrong(f"405 without Allow: {self}")
        if kind == "application/json":
            if not bodiless:
                self.check_json()
        elif self.status >= 400 or kind not in KINDS:
            raise Wrong(f"an answer of an unknown kind: {self}")

    def check_json(self):
        try:
            document = self.json()
        except ValueError as error:
            raise Wrong(f"no JSON ({error}): {self}") from error
        if self.status >= 400 and not (
            isinstance(document, dict) and isinstance(document.get("error"), str) and len(document["error"]) > 10
        ):
            raise Wrong(f"an error without a sentence: {self}")

    def essence(self):
        """What must be the same whenever the same images or tensors are sent: results or outputs; None for other answers."""
        kind = self.headers.get("content-type", "")
        if kind == "application/octet-stream":
            length = int(self.headers["inference-header-content-length"])
            body = self.unpacked()
            count = (len(body) - length) // 4
            return [list(struct.unpack_from(f"<{count}f", body, length))]
        if kind != "application/json" or self.status != 200 or not self.body:
            return None
        document = self.json()
        if not isinstance(document, dict):
            return None
        if "results" in document:
            return [
                (
                    [[entry["label"], entry["probability"]] for entry in result["predictions"]]
                    if "predictions" in result
                    else [result["status"], result["error"]]
                )
                for result in document["results"]
            ]
        if "outputs" in document:
            return [[output["name"], output["shape"], output.get("data")] for output in document["outputs"]]
        return None


def same(one, other):
    """Are two essences equal, but for the last bits, which depend on what else was in the batch?"""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other))
    if isinstance(one, float) or isinstance(other, float):
        both_nan = one != one and other != other
        return both_nan or one == other or abs(one - other) <= 1e-3 * max(1, abs(one))
    # "value:index:label" of a classification
    if isinstance(one, str) and isinstance(other, str) and one.count(":") == 2 and other.count(":") == 2:
        a, b = one.split(":"), other.split(":")
        return a[1:] == b[1:] and same(float(a[0]), float(b[0]))
    return one == other


class Reader:
    """Takes the bytes as they arrive and cuts them into answers. head: was HEAD among what was sent, so that bodies may be
    missing? most: answers that the bytes sent can have asked for."""

    def __init__(self, head=False, most=None):
        self.head, self.most = head, most
        self.gone = False
        self.pending = b""
        self.answers = []  # those to requests: without 100
        self.total = 0

    def feed(self, data):
        self.pending += data
        self.total += len(data)
        if self.total > MOST_BYTES:
            raise Wrong(f"more than {MOST_BYTES} bytes of answers")
        while self.pending and self.take_one(False):
            pass

    def end(self):
        """The server sent its FIN: nothing may be left over."""
        while self.pending and self.take_one(True):
            pass
        if self.pending:
            raise Wrong(f"an answer that ends in its middle: {self.pending[:400]!r}")

    def take_one(self, ended):
        end = self.pending.find(b"\r\n\r\n")
        if end < 0:
            # What cannot become an answer any more is seen at once.
            if not b"HTTP/1.1 ".startswith(self.pending[:9]) and not self.pending.startswith(
                (b"HTTP/1.1 ", b"HTTP/1.0 ")
            ):
                raise Wrong(f"no answer: {self.pending[:200]!r}")
            if len(self.pending) > 65536:
                raise Wrong(f"a header without end: {self.pending[:200]!r}")
            return False
        first, *rest = self.pending[:end].split(b"\r\n")
        line = FIRST_LINE.fullmatch(first)
        if line is None:
            raise Wrong(f"no answer: {first[:200]!r}")
        headers = {}
        for text in rest:
            header = HEADER.fullmatch(text)
            if header is None:
                raise Wrong(f"no header: {text[:200]!r} in {self.pending[:end]!r}")
            name = header[1].decode().lower()
            if name in headers:
                raise Wrong(f"a header that is there twice: {self.pending[:end]!r}")
            headers[name] = header[2].decode()
        answer = Answer(int(line[1]), headers)
        # libmicrohttpd 0.9.75 sends the header of some of its own pages twice, and closes then.
        top = self.pending[: end + 4]
        if (
            answer.status in LIBRARY_STATUSES
            and "x-request-id" not in headers
            and self.pending.startswith(top, end + 4)
        ):
            self.pending = self.pending[end + 4 :]
        if not self.take_body(answer, end + 4, ended):
            return False
        answer.check(self.gone)
        if answer.status != 100:
            self.answers.append(answer)
            if self.most is not None and len(self.answers) > self.most:
                raise Wrong(f"{len(self.answers)} answers to at most {self.most} requests; the last one: {answer}")
        return True

    def take_body(self, answer, start, ended):
        length = answer.headers.get("content-length")
        if answer.status == 100:
            length = "0"
        if length is None or not re.fullmatch("[0-9]{1,9}", length) or "transfer-encoding" in answer.headers:
            raise Wrong(f"an answer whose end is not clear: {answer}")
        size, rest = int(length), self.pending[start:]
        # To HEAD there is none. No body begins as an answer does.
        if self.head and size > 0 and (rest[:8] in (b"HTTP/1.1", b"HTTP/1.0") or (ended and not rest)):
            answer.headers[":head"] = "yes"
            size = 0
        elif self.head and not rest:
            return size == 0 and self.consume(answer, start, 0)
        if len(rest) < size:
            return False
        return self.consume(answer, start, size)

    def consume(self, answer, start, size):
        answer.body = self.pending[start : start + size]
        self.pending = self.pending[start + size :]
        return True
