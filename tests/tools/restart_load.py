#!/usr/bin/env python3
"""Load on a daemon that is restarted meanwhile behind a socket that stays open.

    restart_load.py URL IMAGE [--connections N]

N connections each ask once and are closed; N more are kept and ask again and again. Runs until standard input
ends. On a connection of its own a request must get 200: nothing may be refused, reset, or answered otherwise. On a
kept connection, after its first answer, a 503 with "Connection: close" is right too (told), and so is a connection
that is closed without a byte of an answer (closed): the client connects again.

Prints one JSON line: fresh and kept (answers with 200), told, closed, wrong, example, longest_ms. Exit status 0 when
nothing was wrong and both kinds were answered.
"""

import argparse
import asyncio
import json
import pathlib
import sys
import time
import urllib.parse

PATIENCE_S = 60


class Figures:
    def __init__(self):
        self.fresh = self.kept = self.told = self.closed = self.wrong = 0
        self.example, self.longest_s = None, 0.0

    def complain(self, what):
        self.wrong += 1
        self.example = self.example or what


async def ask(reader, writer, request):
    """(status, closing, body), or None when the connection ended before the first byte of an answer."""
    writer.write(request)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None
    except ConnectionError:
        return None
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    body = await reader.readexactly(int(headers["content-length"]))
    return int(lines[0].split()[1]), headers.get("connection", "").lower() == "close", body


def head(url, image, close):
    return (
        f"POST /classify?top=1 HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: {len(image)}\r\n"
        + ("Connection: close\r\n\r\n" if close else "\r\n")
    ).encode() + image


async def use_connection(url, image, keep, figures, stop):
    """One connection from its opening to its end."""
    request = head(url, image, not keep)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    answers = 0
    while not stop.is_set():
        began = time.monotonic()
        answer = await asyncio.wait_for(ask(reader, writer, request), PATIENCE_S)
        figures.longest_s = max(figures.longest_s, time.monotonic() - began)
        if answer is None:
            if answers > 0:
                figures.closed += 1
            else:
                figures.complain("a new connection ended without an answer")
            break
        status, closing, body = answer
        if status == 200 and b'"predictions"' in body:
            answers += 1
            figures.kept += keep
            figures.fresh += not keep
        elif status == 503 and closing and answers > 0:
            figures.told += 1
        else:
            figures.complain(f"{'kept' if keep else 'fresh'}, after {answers} answers: {status} {body[:200]!r}")
        if closing:
            break
    writer.close()


async def client(url, image, keep, figures, stop):
    while not stop.is_set():
        try:
            await use_connection(url, image, keep, figures, stop)
        except (OSError, EOFError, asyncio.TimeoutError) as why:
            figures.complain(f"{'kept' if keep else 'fresh'}: {why!r}")
            await asyncio.sleep(0.02)  # a server that is gone would be asked in a busy loop


async def run(arguments):
    figures, stop = Figures(), asyncio.Event()
    url, image = arguments.url, arguments.image.read_bytes()
    clients = [
        asyncio.create_task(client(url, image, keep, figures, stop))
        for keep in (True, False)
        for _ in range(arguments.connections)
    ]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    stop.set()
    await asyncio.gather(*clients)
    return figures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", type=urllib.parse.urlsplit)
    parser.add_argument("image", type=pathlib.Path)
    parser.add_argument("--connections", type=int, default=4)
    figures = asyncio.run(run(parser.parse_args()))
    print(json.dumps(vars(figures)))
    sys.exit(0 if figures.wrong == 0 and figures.fresh > 0 and figures.kept > 0 else 1)


if __name__ == "__main__":
    main()
