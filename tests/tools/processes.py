"""What the tests that are written in Python do to processes."""
import os
import pathlib
import signal
import time


def stand_still(pid, limit_s=20):
    """Stops a process, and returns when all its threads stand. kill() returns before: on a busy machine a thread still
    takes an image then, and answers it."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + limit_s
    while True:
        states = [file.read_text().rsplit(")", 1)[1].split()[0] for file in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
        if all(state in "TtZX" for state in states):
            return
        assert time.monotonic() < end, f"process {pid} does not stop: {states}"
        time.sleep(0.01)
