#!/usr/bin/env python3
"""Busy TLS connections while certificate and keys of a convoyd are replaced, from which no request may be missing.

    reload_load.py PORT FOLDER PID LOG IMAGE ROUNDS

FOLDER has authority.pem; KIND-0 and KIND-1 for KIND certificate, key and keys, of which round n copies KIND-(n % 2) to KIND and sends
SIGHUP to PID; and the files both, first and second with a key each: one of both keys-0 and keys-1, one of keys-0 alone, one of keys-1 alone.
Of 64 connections a half stays open from the first request to the last, and a half is opened again after each eighth request. Before
each reload, and after it, every connection must have had an answer. Prints one JSON object: requests, failed, handshakes, reloads.

Python's standard library only; one thread."""

import asyncio
import json
import os
import pathlib
import shutil
import signal
import ssl
import sys
import time

CONNECTIONS = 64
TURN_S = 30  # none of the events that are waited for takes so long


class Load:
    def __init__(self, port, folder, image):
        self.port = port
        self.context = ssl.create_default_context(cafile=folder / "authority.pem")
        self.key = (folder / "both").read_text().strip()
        self.body = image.read_bytes()
        self.answers = [0] * CONNECTIONS
        self.failures = []
        self.handshakes = 0
        self.ends = False

    async def connect(self):
        connection = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context, server_hostname="localhost")
        self.handshakes += 1
        return connection

    async def ask(self, connection, key):
        """The status."""
        reader, writer = connection
        head = (
            f"POST /classify?top=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Length: {len(self.body)}\r\n\r\n"
        )
        writer.write(head.encode() + self.body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        answer = json.loads(await reader.readexactly(int(headers["content-length"])))
        status = int(lines[0].split()[1])
        if status == 200 and len(answer["results"][0]["predictions"]) != 1:
            raise ValueError(answer)
        return status

    async def keep_busy(self, number):
        connection = None
        while not self.ends:
            try:
                if connection is None:
                    connection = await self.connect()
                status = await self.ask(connection, self.key)
                if status != 200:
                    raise ValueError(f"status {status}")
                self.answers[number] += 1
                if number % 2 == 0 and self.answers[number] % 8 == 0:
                    connection[1].transport.abort()
                    connection = None
            except (OSError, EOFError, ValueError, KeyError) as error:
                self.failures.append(f"connection {number}, request {self.answers[number]}: {error!r}")
                connection = None
                await asyncio.sleep(0.01)
        if connection is not None:
            connection[1].transport.abort()

    async def all_answered(self):
        """Waits until every connection has had one answer more to a request that was not sent before this call."""
        before = list(self.answers)
        end = time.monotonic() + TURN_S
        while any(now < was + 2 for now, was in zip(self.answers, before)):
            if time.monotonic() > end:
                raise SystemExit(f"not every connection is answered: {self.failures[:3]}")
            await asyncio.sleep(0.01)

    async def probe(self, key):
        """The status that the key gets on a connection of its own, and the certificate's number."""
        connection = await self.connect()
        status = await self.ask(connection, key)
        serial = connection[1].get_extra_info("peercert")["serialNumber"]
        connection[1].transport.abort()
        return status, serial


async def logged(log, sentence, times):
    end = time.monotonic() + TURN_S
    while log.read_text().count(sentence) < times:
        if time.monotonic() > end:
            raise SystemExit(f"the log does not say {times} times: {sentence}")
        await asyncio.sleep(0.01)


async def main():
    port, folder, pid, log, image, rounds = sys.argv[1:]
    folder, log = pathlib.Path(folder), pathlib.Path(log)
    load = Load(int(port), folder, pathlib.Path(image))
    tasks = [asyncio.create_task(load.keep_busy(number)) for number in range(CONNECTIONS)]
    keys = [(folder / name).read_text().strip() for name in ("first", "second")]
    await load.all_answered()
    serials = [(await load.probe(load.key))[1]]
    for turn in range(1, int(rounds) + 1):
        for kind in ("certificate", "key", "keys"):
            shutil.copy(folder / f"{kind}-{turn % 2}", folder / f"{kind}.new")
            os.rename(folder / f"{kind}.new", folder / kind)
        os.kill(int(pid), signal.SIGHUP)
        await logged(log, "keys read again", turn)
        await logged(log, "certificate read again", turn)
        good, bad = keys[turn % 2], keys[1 - turn % 2]
        status, serial = await load.probe(good)
        assert status == 200, f"round {turn}: a key of the new file: {status}"
        assert serial != serials[-1], f"round {turn}: the certificate is still the one before"
        serials.append(serial)
        status, _ = await load.probe(bad)
        assert status == 401, f"round {turn}: a key of the file before: {status}"
        await load.all_answered()
    load.ends = True
    await asyncio.gather(*tasks)
    print(
        json.dumps(
            {
                "requests": sum(load.answers) + len(load.failures),
                "failed": len(load.failures),
                "handshakes": load.handshakes,
                "reloads": len(serials) - 1,
                "first_failures": load.failures[:5],
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
