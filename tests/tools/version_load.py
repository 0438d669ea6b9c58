#!/usr/bin/env python3
"""Load on a model whose versions change: every answer is checked against the version that it claims.

    version_load.py URL MODEL IMAGE CLASS [--connections N] [--images K]

Version V of MODEL is a network that calls IMAGE class (CLASS + V) mod 10 (vary_model.py made it). Each of N connections,
kept alive, sends K copies of IMAGE as a form to /v2/models/MODEL/classify, waits for the answer and sends the next, until
SIGTERM. Then it prints JSON: requests, statuses {status: count}, versions {version: count}, wrong (an answer that is not
what its version says), lost (no answer), example. Exit status 0 when nothing was wrong or lost and all were 200."""
import argparse
import asyncio
import collections
import json
import signal
import sys
import urllib.parse

parser = argparse.ArgumentParser()
parser.add_argument("url")
parser.add_argument("model")
parser.add_argument("image")
parser.add_argument("first", type=int)
parser.add_argument("--connections", type=int, default=8)
parser.add_argument("--images", type=int, default=3)
options = parser.parse_args()
address = urllib.parse.urlsplit(options.url)
image = open(options.image, "rb").read()
boundary = "b0undary"
body = b"".join(
    b"--%s\r\nContent-Disposition: form-data; name=\"image\"; filename=\"%d.jpg\"\r\n\r\n%s\r\n" % (boundary.encode(), i, image)
    for i in range(options.images)) + b"--%s--\r\n" % boundary.encode()
request = (f"POST /v2/models/{options.model}/classify HTTP/1.1\r\nHost: {address.netloc}\r\n"
           f"Content-Type: multipart/form-data; boundary={boundary}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
statuses, versions = collections.Counter(), collections.Counter()
result = {"requests": 0, "wrong": 0, "lost": 0, "example": None}
ending = asyncio.Event()


def check(status, text):
    statuses[status] += 1
    if status != 200:
        return result["example"] or text
    answer = json.loads(text)
    wanted = (options.first + int(answer["version"])) % 10
    found = [one["predictions"][0]["index"] for one in answer["results"]]
    versions[answer["version"]] += 1
    if found != [wanted] * options.images:
        result["wrong"] += 1
        return f"version {answer['version']}: classes {found}, not {wanted}"
    return result["example"]


async def ask(reader, writer):
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length:"))
    return int(head.split()[1]), (await reader.readexactly(length)).decode()


async def connection():
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    while not ending.is_set():
        result["requests"] += 1
        try:
            result["example"] = check(*await ask(reader, writer))
        except (OSError, asyncio.IncompleteReadError) as error:
            result["lost"] += 1
            result["example"] = repr(error)
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.close()


async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    await asyncio.gather(*(connection() for _ in range(options.connections)))


asyncio.run(main())
print(json.dumps({**result, "statuses": statuses, "versions": versions}))
sys.exit(result["wrong"] + result["lost"] > 0 or set(statuses) != {200})
