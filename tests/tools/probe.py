#!/usr/bin/env python3
"""Looks at a convoyd under load as its operator would: /metrics and both health pages, and its memory.

    probe.py --seconds S URL [PID]...

Each page is asked for ten times a second on a connection of its own, as a scraper or a kubelet would; the
memory is the sum of the proportional set sizes (PSS) of the processes PID, four times a second.

Prints {"pages": {path: {"asked", "wrong" (not 200, or no answer), "p50_ms", "p99_ms", "longest_ms"}},
"memory_kb": {"warm" (the most in the middle third of the time), "end" (the most in the last third)}}.
A time runs from connecting to the answer's last byte.
"""

import argparse
import asyncio
import json
import pathlib
import time
import urllib.parse

PAGES = ("/metrics", "/v2/health/live", "/v2/health/ready")
PATIENCE_S = 30


async def ask(url, page):
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        writer.write(f"GET {page} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n".encode())
        return int((await reader.read()).split()[1])
    finally:
        writer.close()


async def watch_page(url, page, end, times, wrong):
    while time.monotonic() < end:
        begun = time.monotonic()
        try:
            status = await asyncio.wait_for(ask(url, page), PATIENCE_S)
        except (OSError, IndexError, ValueError, asyncio.TimeoutError):
            status = 0
        times.append(1000 * (time.monotonic() - begun))
        wrong[page] += status != 200
        await asyncio.sleep(0.1)


def pss_kb(pid):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise ValueError(f"no Pss of {pid}")


async def watch_memory(pids, end, samples):
    while pids and time.monotonic() < end:
        samples.append((time.monotonic(), sum(pss_kb(pid) for pid in pids)))
        await asyncio.sleep(0.25)


def percentile(times, percent):
    return round(times[min(len(times) - 1, int(len(times) * percent / 100))], 2) if times else None


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url", type=urllib.parse.urlsplit)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("pid", type=int, nargs="*")
    arguments = parser.parse_args()
    begun = time.monotonic()
    end = begun + arguments.seconds
    times, wrong, samples = {page: [] for page in PAGES}, dict.fromkeys(PAGES, 0), []
    tasks = [watch_page(arguments.url, page, end, times[page], wrong) for page in PAGES]
    await asyncio.gather(*tasks, watch_memory(arguments.pid, end, samples))
    pages = {
        page: {
            "asked": len(each),
            "wrong": wrong[page],
            "p50_ms": percentile(sorted(each), 50),
            "p99_ms": percentile(sorted(each), 99),
            "longest_ms": percentile(sorted(each), 100),
        }
        for page, each in times.items()
    }
    third = arguments.seconds / 3
    memory = {
        name: max((kb for at, kb in samples if first <= at - begun < last), default=0)
        for name, first, last in (("warm", third, 2 * third), ("end", 2 * third, arguments.seconds + 1))
    }
    print(json.dumps({"pages": pages, "memory_kb": memory}))


if __name__ == "__main__":
    asyncio.run(main())
