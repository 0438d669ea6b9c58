"""A process that is asked in lines and answers each with a line of JSON; for networks.py."""

import json
import os
import select
import signal
import subprocess
import time


class Failed(Exception):
    """Why there is no figure; a sentence."""


class Program:
    """name is for messages; log is the file that gets its standard error."""

    def __init__(self, name, command, log, environment=None):
        self.name, self.log, self.rest = name, log, b""
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                env=os.environ | (environment or {}),
                start_new_session=True,  # compilers start processes of their own, which end with it
            )

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def why(self):
        """What it said last."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"]
        return lines[-1][:300]

    def end(self):
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        self.process = None

    def answer(self, seconds):
        """The next line; what does not come in time ends the process."""
        until = time.monotonic() + seconds
        while b"\n" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.end()
                raise Failed(f"{self.name} did not answer within {seconds:.0f} s and was ended")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                status = self.process.wait()
                self.end()
                raise Failed(f"{self.name} ended with status {status}: {self.why()}")
            self.rest += piece
        line, self.rest = self.rest.split(b"\n", 1)
        try:
            answer = json.loads(line)
        except ValueError:
            self.end()
            raise Failed(f"{self.name} answered no JSON: {line[:200]!r}") from None
        if answer.get("lost"):
            self.end()
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer

    def ask(self, line, seconds):
        if not self.alive():
            self.end()
            raise Failed(f"{self.name} is gone: {self.why()}")
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # its end says more
        return self.answer(seconds)
