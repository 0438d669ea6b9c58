"""Cases of the network fuzzer: what a client does, made up from seeds.

A case depends on the run's seed, on its number and on the seeds alone.
"""

import gzip
import json
import random
import re
import urllib.parse
import zlib

# fmt: off
BYTES = [
    b"\0", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\n\n", b" ", b"\t", b":", b";", b",", b"%", b"%00", b"%2f",
    b"&", b"=", b"?", b"#", b'"', b"\\", b"'", b"--", b"{", b"}", b"[", b"]", b"\xff", b"\x80", b"\xc3\x28",
    b"\x1f\x8b", b"\xff\xd8\xff", b"\xff\xd9", b"HTTP/1.1", b"HTTP/1.0",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"0\r\n\r\n", b"chunked", b"gzip", b"null", b"-1", b"1e9",
]
NUMBERS = [
    "0", "-1", "+1", "1", "2", "7", "63", "64", "65", "255", "256", "1000", "1001", "3600000", "65535",
    "65536", "262144", "262145", "2147483647", "2147483648", "4294967295", "4294967296",
    "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
    "99999999999999999999999", "0x10", "1e3", "1.5", " 5", "5 ", "5, 5", "", "abc",
]
METHODS = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "P", "GE\0T",
    "PRI", "A" * 40,
]
VERSIONS = [
    "HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "HTTP/9.9", "HTTP/1", "http/1.1",
    "HTTP/1.1 x", "", "HTTP/11",
]
HEADERS = [
    "Expect: 100-continue", "Expect: x", "Connection: close", "Connection: keep-alive",
    "Connection: Upgrade", "Upgrade: h2c", "Accept-Encoding: gzip", "Accept-Encoding: *;q=0, deflate;q=1",
    "Content-Encoding: gzip", "Content-Encoding: deflate", "Content-Encoding: identity",
    "Content-Encoding: br", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding : chunked", "Transfer-Encoding: chunked\0", "Content-Length: 5",
    "Content-Length : 5", "Host: y", "Host:", "Origin: http://elsewhere", "X-Forwarded-For: 10.0.0.1",
    "Authorization: Bearer convoy-0", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "X-Request-Id: a b", "X-Request-Id: " + "i" * 65, ": x", "no colon",
    "Content-Type: multipart/form-data", "Content-Type: multipart/form-data; boundary=", "Range: bytes=0-1",
    "If-Match: *", "Content-Type: multipart/form-data; boundary=" + "b" * 71,
    'Content-Type: multipart/form-data; boundary="B0undary', "Inference-Header-Content-Length: 10",
    "Inference-Header-Content-Length: 99999999999999999999", "Cookie: a=b; c; =d;;",
    "Authorization: Basic eDp5", "Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded", "Trailer: X",
    "TE: trailers",
]
ARGUMENTS = [
    "top", "model", "version", "timeout_ms", "priority", "profile", "x", "", "%", "top%00", "m%6fdel",
]
VALUES = NUMBERS + [
    "cifar10-convnet", "fashion-lenet", "%", "%0", "%00", "%zz", "a" * 300, "..", "cifar10-convnet%00",
    "%ff%fe",
]
# fmt: on

# The neighbours' model must stay: see run.py.
PROTECTED = re.compile(rb"cifar10-convnet[^ ]{0,40}/unload", re.IGNORECASE)


class Seed:
    def __init__(self, name, data, status=None):
        self.name, self.data, self.status = name, data, status
        self.state = name.startswith("z")
        self.closes = False  # its answer is the connection's last
        self.essence = None  # of its answer, once that is known
        top, _, self.body = data.partition(b"\r\n\r\n")
        lines = top.decode("latin-1").split("\r\n")
        self.line = (lines[0].split(" ", 2) + ["", ""])[:3]
        self.headers = lines[1:]


def value_of(headers, name):
    for header in headers:
        if header.lower().startswith(name + ":"):
            return header.split(":", 1)[1].strip()
    return None


class Cases:
    def __init__(self, seed, seeds):
        self.seed, self.seeds = seed, seeds
        self.clean = [one for one in seeds if one.status is not None and not one.state and not one.closes]
        # Seeds with a body have more to be wrong.
        self.weights = [2 if one.body else 1 for one in seeds]

    def case(self, number):
        chance = random.Random(f"{self.seed}/{number}")
        while True:
            script = Case(self, chance).script()
            if not PROTECTED.search(urllib.parse.unquote_to_bytes(stream(script))):
                return {"case": number, **script}


def stream(script):
    return b"".join(step[1].encode("latin-1") for step in script["steps"] if step[0] == "send")


class Case:
    def __init__(self, cases, chance):
        self.cases, self.chance = cases, chance

    def one_of(self, choices):
        return self.chance.choice(choices)

    def often(self, share):
        return self.chance.random() < share

    def pick(self):
        return self.chance.choices(self.cases.seeds, self.cases.weights)[0]

    def place(self, data):
        return self.chance.randrange(len(data) + 1)

    def length(self, most):
        """Mostly short."""
        return min(most, int(2 ** (self.chance.random() * 17)))

    # Bytes.

    def flip(self, data):
        at = self.chance.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self.chance.randrange(8)]) + data[at + 1 :]

    def put(self, data):
        at = self.chance.randrange(len(data))
        return (
            data[:at]
            + bytes([self.one_of([0, 10, 13, 32, 127, 128, 255, self.chance.randrange(256)])])
            + data[at + 1 :]
        )

    def insert(self, data):
        at = self.place(data)
        return data[:at] + self.one_of(BYTES) + data[at:]

    def insert_random(self, data):
        at = self.place(data)
        return data[:at] + self.chance.randbytes(self.length(64)) + data[at:]

    def delete(self, data):
        at = self.place(data)
        return data[:at] + data[at + self.length(len(data)) :]

    def duplicate(self, data):
        at, length = self.place(data), self.length(4096)
        return data[: at + length] + data[at : at + length] * self.one_of([1, 1, 1, 2, 9]) + data[at + length :]

    def repeat(self, data):
        """Up to 64 KiB of the same few bytes."""
        at, length = self.place(data), self.length(40)
        piece = data[at : at + length] or b"\r\n"
        return data[:at] + piece * self.chance.randrange(1, 1 + 65536 // len(piece)) + data[at:]

    def copy(self, data):
        at, to, length = self.place(data), self.place(data), self.length(256)
        piece = data[at : at + length]
        return data[:to] + piece + data[to + len(piece) :]

    def truncate(self, data):
        return data[: self.place(data)]

    def splice(self, data):
        other = self.pick().data
        return data[: self.place(data)] + other[self.place(other) :]

    def number(self, data):
        found = list(re.finditer(rb"-?\d+", data[:65536]))
        if not found:
            return self.insert(data)
        one = self.one_of(found)
        return data[: one.start()] + self.one_of(NUMBERS).encode() + data[one.end() :]

    def bend(self, data):
        ways = [
            self.flip,
            self.put,
            self.insert,
            self.insert_random,
            self.delete,
            self.duplicate,
            self.repeat,
            self.copy,
        ]
        ways += [self.truncate, self.splice, self.number, self.number]
        for _ in range(self.one_of([1, 1, 1, 2, 3, 6])):
            if data:
                data = self.one_of(ways)(data)
        return data[:400000]

    # The parts of a request. Each works on [method, target, version], headers and body.

    def bend_line(self, line, headers, body):
        at = self.one_of([0, 1, 1, 1, 2])
        if at == 0:
            line[0] = self.one_of(METHODS)
        elif at == 2:
            line[2] = self.one_of(VERSIONS)
        else:
            line[1] = self.bend_target(line[1])
        return line, headers, body

    def bend_target(self, target):
        path, _, query = target.partition("?")
        arguments = query.split("&") if query else []
        way = self.chance.randrange(8)
        if way <= 2:
            for _ in range(self.one_of([1, 1, 2, 4])):
                arguments.insert(self.place(arguments), f"{self.one_of(ARGUMENTS)}={self.one_of(VALUES)}")
        elif way == 3 and arguments:
            arguments += [self.one_of(arguments)] * self.one_of([1, 2, 62, 64, 70, 400])
        elif way == 4:
            arguments += ["a"] * self.one_of([60, 64, 65, 300, 305, 2000])
        elif way == 5:
            steps = path.split("/")
            steps[self.chance.randrange(len(steps))] = self.one_of(VALUES + ["stats", "versions", "."])
            path = "/".join(steps)
        elif way == 6:
            path = self.one_of(
                [
                    f"http://x{path}",
                    f"//x{path}",
                    "*",
                    path + "/",
                    path + "x" * self.length(30000),
                    path.encode("latin-1").upper().decode("latin-1"),
                ]
            )
        else:
            return self.bend(target.encode("latin-1")).decode("latin-1")
        return path + ("?" + "&".join(arguments) if arguments else "")

    def bend_headers(self, line, headers, body):
        for _ in range(self.one_of([1, 1, 2, 3])):
            at = self.chance.randrange(len(headers)) if headers else 0
            header = headers[at] if headers else "X: y"
            way = self.chance.randrange(13)
            if way == 0:
                headers.insert(self.place(headers), header)
            elif way == 1:
                del headers[at : at + 1]
            elif way == 2:
                self.chance.shuffle(headers)
            elif way == 3:
                header = "".join(self.one_of([c, c.swapcase()]) if c.isascii() else c for c in header)
                headers[at : at + 1] = [header]
            elif way == 4:
                headers[at : at + 1] = [
                    header.replace(": ", self.one_of([":\r\n ", ":", ":\t ", " : ", ":\n", ": \r\n\t", ":\0"]), 1)
                ]
            elif way <= 7:
                headers.insert(self.place(headers), self.one_of(HEADERS))
            elif way == 8:
                name = header.split(":")[0]
                headers[at : at + 1] = [f"{name}: {self.one_of(NUMBERS)}"]
            elif way == 9:
                many = self.one_of([10, 100, 300, 1000])
                headers += [f"X-{n}: {n}" for n in range(many)]
            elif way == 10:
                headers.append("Cookie: " + "; ".join(f"a{n}=1" for n in range(self.one_of([10, 100, 300, 2000]))))
            elif way == 11:
                headers.append("X: " + "y" * self.length(40000))
            else:
                headers[at : at + 1] = [self.bend(header.encode("latin-1")).decode("latin-1")]
        return line, headers, body

    def bend_length(self, line, headers, body):
        true = len(body)
        value = self.one_of(
            NUMBERS + [str(true - 1), str(true + 1), str(2 * true), hex(true), f"{true}, {true}", f"0{true}"] * 3
        )
        headers = [header for header in headers if not header.lower().startswith("content-length:")]
        headers.append(f"Content-Length: {value}")
        return line, headers, body

    def repaired(self, line, headers, body):
        """With the length that the body has."""
        headers = [header for header in headers if not header.lower().startswith("content-length:")]
        if value_of(headers, "transfer-encoding") is None:
            headers.append(f"Content-Length: {len(body)}")
        return line, headers, body

    def bend_body(self, line, headers, body):
        coding = value_of(headers, "content-encoding")
        if coding in ("gzip", "deflate") and self.often(0.8):
            try:
                plain = gzip.decompress(body) if coding == "gzip" else zlib.decompress(body)
            except (OSError, EOFError, zlib.error):
                return self.repaired(line, headers, self.bend(body))
            if self.often(0.05):
                plain = plain + b" " * self.one_of([1 << 17, 1 << 18, 1 << 20, 1 << 23])
            else:
                plain = self.bend_document(plain)
            if self.often(0.3):  # unpacked
                headers = [header for header in headers if not header.lower().startswith("content-encoding:")]
                return self.repaired(line, headers, plain)
            return self.repaired(
                line, headers, gzip.compress(plain, 1, mtime=0) if coding == "gzip" else zlib.compress(plain)
            )
        return self.repaired(line, headers, self.bend_document(body))

    def bend_document(self, body):
        """JSON as JSON now and then: a member is replaced, removed or nested."""
        start = value = None
        if body[:1] == b"{" and self.often(0.5):
            try:
                value, end = json.JSONDecoder().raw_decode(body.decode("latin-1"))
                start = True
            except (ValueError, RecursionError):
                pass
        if not start:
            return self.bend(body)
        holder, key, at = None, None, value
        while isinstance(at, (dict, list)) and at and (holder is None or self.often(0.8)):
            holder, key = at, self.one_of(list(at)) if isinstance(at, dict) else self.chance.randrange(len(at))
            at = holder[key]
        odd = [
            None,
            True,
            -1,
            0,
            1.5,
            1e308,
            1 << 40,
            1 << 63,
            "",
            "x" * 300,
            "\0",
            [],
            {},
            [[]],
            "logits",
            "image",
            "BYTES",
            "UINT8",
        ]
        odd += ["FP32", [1, 3, 32, 32], [1 << 31, 1 << 31], [0], [-1], [64], [1, 1], 3072, 3073, 4294967296, {"a": {}}]
        if holder is not None and self.often(0.2):
            del holder[key]
        elif holder is not None and self.often(0.2) and isinstance(holder, list):
            holder.extend(holder[: self.one_of([1, 5, 70])])
        elif holder is not None:
            holder[key] = self.one_of(odd)
        return json.dumps(value).encode() + body[end:]

    def bend_boundary(self, line, headers, body):
        kind = value_of(headers, "content-type")
        if kind is None or "boundary=" not in kind:
            return self.bend_body(line, headers, body)
        boundary = kind.split("boundary=")[1].strip('"')
        other = self.one_of(
            [
                "b" * 70,
                "b" * 71,
                "",
                "x",
                boundary[:-1],
                boundary + "-",
                boundary + " ",
                "-",
                "\r\n",
                boundary.encode("latin-1").lower().decode("latin-1"),
            ]
        )
        if self.often(0.5):
            headers = [header.replace(boundary, other) for header in headers]
        else:
            at = body.find(boundary.encode(), self.place(body))
            body = (
                body[:at] + other.encode() + body[at + len(boundary) :]
                if at >= 0
                else body.replace(boundary.encode(), other.encode())
            )
        return self.repaired(line, headers, body)

    def rechunk(self, line, headers, body):
        headers = [
            header for header in headers if not header.lower().startswith(("content-length:", "transfer-encoding:"))
        ]
        headers.append("Transfer-Encoding: chunked")
        pieces, at = [], 0
        while at < len(body) and len(pieces) < 500:
            length = self.length(20000)
            pieces.append(body[at : at + length])
            at += length
        odd = self.chance.randrange(len(pieces) + 1) if self.often(0.6) else -1
        out = b""
        for number, piece in enumerate(pieces + [b""]):
            size, extension, end = b"%x" % len(piece), b"", b"\r\n"
            if number == odd:
                way = self.chance.randrange(9)
                if way == 0:
                    size = self.one_of(NUMBERS).encode()
                elif way == 1:
                    size = b"%x" % (len(piece) + self.one_of([-1, 1, 2, 100]) & 0xFFFF)
                elif way == 2:
                    size = self.one_of(
                        [
                            b"ffffffffffffffff",
                            b"10000000000000000",
                            b"7fffffffffffffff",
                            b"fffffffffffffff0",
                            b"80000000",
                        ]
                    )
                elif way == 3:
                    extension = b";" + b"x=y;" * self.length(3000)
                elif way == 4:
                    end = self.one_of([b"\n", b"\r", b"", b" \r\n", b"\r\n\r\n"])
                elif way == 5:
                    size = b"0" * self.length(3000) + size
                elif way == 6:
                    size = size.upper() + b" "
                elif way == 7:
                    continue
                else:
                    size = b"0"
            out += size + extension + end + piece + (b"\r\n" if piece else b"")
        trailers = b"".join(b"X-%d: y\r\n" % n for n in range(self.one_of([0, 0, 0, 1, 5, 500, 3000])))
        return line, headers, out + trailers + (b"\r\n" if self.often(0.9) else b"")

    def request(self):
        """A request that is bent somewhere."""
        seed = self.pick()
        if self.often(0.2):
            return self.bend(seed.data)
        parts = [list(seed.line), list(seed.headers), seed.body]
        ways = [self.bend_line, self.bend_headers, self.bend_headers, self.bend_boundary, self.rechunk]
        ways += [self.bend_length, self.bend_body, self.bend_body, self.bend_body]
        for _ in range(self.one_of([1, 1, 1, 2, 3])):
            parts = list(self.one_of(ways)(*parts))
        line, headers, body = parts
        top = "\r\n".join([" ".join(line), *headers]).encode("latin-1", "replace")
        data = top + b"\r\n\r\n" + body
        return self.bend(data) if self.often(0.1) else data

    # The connection.

    def split(self, data):
        """Sends data in pieces, with time between them."""
        steps, at = [], 0
        places = sorted(self.place(data) for _ in range(self.one_of([1, 1, 2, 4, 12])))
        end = data.find(b"\r\n\r\n")
        if end >= 0 and self.often(0.4):
            places = sorted(places + [end + self.chance.randrange(6)])
        for place in places + [len(data)]:
            if place > at:
                steps.append(["send", data[at:place].decode("latin-1")])
                steps.append(["wait", round(self.chance.random() ** 4 * 0.12, 3)])
                at = place
        return steps

    def sends(self, data):
        return self.split(data) if self.often(0.3) else [["send", data.decode("latin-1")]]

    def script(self):
        steps, clean = [], []
        if self.often(0.35):  # some that are known go before, mostly in one go with what follows
            clean = [self.one_of(self.cases.clean) for _ in range(self.one_of([1, 1, 2, 5]))]
        data = b"".join(seed.data for seed in clean)
        if self.often(0.12):  # nothing is wrong but the way it is sent
            requests = [self.pick() for _ in range(self.one_of([1, 2, 4, 16]))]
            bent = b"".join(one.data for one in requests)
            count = len(clean) + len(requests)
        else:
            bent = b"".join(self.request() for _ in range(self.one_of([1, 1, 1, 1, 2, 3])))
            count = len(clean) + 1
        ending = self.one_of(["answered"] * 6 + ["early"] * 3 + ["deaf"] if not clean else ["answered"])
        if ending == "early":
            data = data + bent
            data = data[: self.place(data)] if self.often(0.7) else data
            steps = self.sends(data)
            if self.often(0.4):
                steps.append(["wait", round(self.chance.random() ** 3 * 0.1, 3)])
            steps += self.one_of([[["reset"]], [["reset"]], [["close"]], [["fin"], ["ends"]], [["fin"], ["close"]]])
        elif ending == "deaf":
            steps = [["deaf"], *self.sends((data + bent) * self.one_of([1, 1, 20])), ["wait", 0.05]]
            steps += self.one_of([[["reset"]], [["close"]], [["fin"], ["ends"]]])
        else:
            if clean and self.often(0.3):
                steps = self.sends(data)
                steps.append(["answers", len(clean)])
                steps += self.sends(bent)
            else:
                steps = self.sends(data + bent)
                if clean:
                    steps.append(["answers", len(clean)])
            steps.append(["quiet", 0.15, count])
            steps += self.one_of([[["close"]], [["close"]], [["fin"], ["ends"]], [["fin"], ["ends"]], [["reset"]]])
            if self.often(0.01):
                steps[-1] = ["ends"]  # by the front's own timeout
        return {"clean": [seed.name for seed in clean], "steps": steps}
