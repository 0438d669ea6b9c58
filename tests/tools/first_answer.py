#!/usr/bin/env python3
"""How long from exec to the first right answer.

    first_answer.py RUNS [--fresh FOLDER] CONVOYD [OPTION...]

Starts CONVOYD RUNS times on a free port and asks for the class of models/samples/ship.jpg, over and over, until the
answer is a ship. Prints one JSON line with the milliseconds of each run and their median. The first run, which reads
the files from the disk, does not count. With --fresh FOLDER is emptied before each start. Python's standard library
only.
"""

import json
import pathlib
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


def main():
    runs, command, fresh = int(sys.argv[1]), sys.argv[2:], None
    if command[0] == "--fresh":
        fresh, command = pathlib.Path(command[1]), command[2:]
    times = [measure(command, fresh) for _ in range(runs + 1)][1:]
    print(json.dumps({"median_ms": statistics.median(times), "runs_ms": times}))


if __name__ == "__main__":
    main()
