#!/usr/bin/env python3
"""How long from exec to the first right answer.

    first_answer.py RUNS [--fresh FOLDER] [--pair CONFIG CONFIG] CONVOYD [OPTION...]

Starts CONVOYD RUNS times on a free port and asks for the class of models/samples/ship.jpg, over and over, until the
answer is a ship. Prints one JSON line with the milliseconds of each run and their median. The first run, which reads
the files from the disk, does not count. With --fresh FOLDER is emptied before each start.

With --pair a run is two starts, one with each configuration, in an order of chance. Then there are two lists and two
medians, and later_ms: by how much the first configuration's answer comes later than the second's in the same run, the
median, its 95 % confidence interval (from the binomial distribution, whatever the times') and the quartiles. That takes
six runs or more.

Python's standard library only.
"""

import json
import math
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

PAUSE_S = 0.0005  # between two questions: what the measurement may be off by
LIMIT_S = 30
IMAGE = pathlib.Path(__file__).resolve().parents[2] / "models" / "samples" / "ship.jpg"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(port, request):
    """True when the answer is right; False when there is none or an error."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(request)
            answer = b""
            while block := connection.recv(65536):
                answer += block
    except OSError:
        return False
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        return False
    label = json.loads(body)["results"][0]["predictions"][0]["label"]
    if label != "ship":
        sys.exit(f"the ship was taken for {label}")
    return True


def measure(command, fresh):
    if fresh is not None:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
    image, port = IMAGE.read_bytes(), free_port()
    request = (
        f"POST /classify?top=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(image)}\r\n\r\n"
    ).encode() + image
    start = time.monotonic()
    daemon = subprocess.Popen([*command, "--listen", f"127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
    try:
        while not ask(port, request):
            if daemon.poll() is not None or time.monotonic() - start > LIMIT_S:
                sys.exit("convoyd gave no right answer")
            time.sleep(PAUSE_S)
        took = time.monotonic() - start
        daemon.send_signal(signal.SIGTERM)
        if daemon.wait(LIMIT_S) != 0:
            sys.exit(f"convoyd ended with {daemon.returncode}")
    finally:
        daemon.kill()  # nothing to a daemon that has ended
    return round(1000 * took, 1)


def interval(ordered):
    """Between which of the ordered values the median of what they were drawn from lies, with 95 % confidence."""
    n, below, outside = len(ordered), 0, 0.5**len(ordered)
    while outside + math.comb(n, below + 1) * 0.5**n <= 0.025:
        below += 1
        outside += math.comb(n, below) * 0.5**n
    return [ordered[below], ordered[n - 1 - below]]


def measure_pairs(runs, configs, command, fresh):
    pairs = []
    for _ in range(runs + 1):
        times = {which: measure([*command, "--config", configs[which]], fresh) for which in random.sample((0, 1), 2)}
        pairs.append((times[0], times[1]))
    sides = [list(side) for side in zip(*pairs[1:])]
    later = sorted(round(first - second, 1) for first, second in pairs[1:])
    return {"median_ms": [statistics.median(side) for side in sides], "runs_ms": sides,
            "later_ms": {"median": round(statistics.median(later), 2), "interval": interval(later),
                         "quartiles": [later[runs // 4], later[(3 * runs) // 4]]}}


def main():
    runs, command, fresh, configs = int(sys.argv[1]), sys.argv[2:], None, None
    if command[0] == "--fresh":
        fresh, command = pathlib.Path(command[1]), command[2:]
    if command[0] == "--pair":
        configs, command = command[1:3], command[3:]
    if configs is not None:
        if runs < 6:
            sys.exit(f"first_answer.py: {runs} runs are too few for --pair: six or more")
        print(json.dumps(measure_pairs(runs, configs, command, fresh)))
        return
    times = [measure(command, fresh) for _ in range(runs + 1)][1:]
    print(json.dumps({"median_ms": statistics.median(times), "runs_ms": times}))


if __name__ == "__main__":
    main()
