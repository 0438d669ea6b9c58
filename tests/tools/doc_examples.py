#!/usr/bin/env python3
"""Runs the examples of the documents against convoyd and compares what they print with what the documents show.

    doc_examples.py BUILD WORK DOCUMENT...

An example is a command in a fenced or indented block whose first line begins with "$ ": the rest of that line and the lines
that complete it (an open quote, a backslash, a here-document). The lines up to the next "$ " are its answer. Each block runs
on a convoyd of its own, on the CPU backend with the models that ship, just started; http://127.0.0.1:8080 becomes its
address. Commands that begin with one of PROGRAMS are run, the others are counted and named as not run. Comments of the
document's source, on a line of their own before the block, say what a reader need not see:

    <!-- example: not run: WHY -->                 the next block is not run, and the report names it
    <!-- example: configuration KEY=JSON ... -->   keys of config.json for the next block's daemon
    <!-- example: eventually -->                   commands of the next block are repeated until they print it, for 20 s
    <!-- example: status N -->                     the HTTP status of the next block's requests, where it is not 200

An answer that begins with { or [ is compared as JSON: folding and spaces do not matter, "..." stands for any value, any
further members or any further elements, and within a string for any text. A number must agree as far as its digits are
printed, within one unit of the last one (the arithmetic of CPUs differs), also when "..." follows them (0.89...); of times
(members in TIMES) only the type counts.
Other answers are compared line by line: "..." stands for any text, numbers agree as above, and on a line that names
microseconds ("in us") any number does. A command without an answer must succeed.

Exit status 0 only if every example that was run printed what its document shows.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

PROGRAMS = ("curl", "convoy", "python3", "truncate")
ADDRESS = "127.0.0.1:8080"
TIMES = re.compile(r"(_us|_ns|_ms|^ns|^us|^last_inference)$")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
# curl as in the examples; the status goes to a file of its own.
PROLOGUE = 'curl() { command curl -sS --max-time 60 -w "%{stderr}\\nstatus %{http_code}\\n" "$@"; }\nset -o pipefail\n'


class Mismatch(Exception):
    pass


# The documents


def complete(text):
    """Whether the shell would not read on after text."""
    if re.search(r"(?<!\\)(?:\\\\)*\\$", text):
        return False
    check = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True)
    return check.returncode == 0 and not check.stderr


def blocks(text):
    """(line number, lines, comments) of each fenced or indented block that begins with a command."""
    lines, at, comments = text.splitlines(), 0, []
    while at < len(lines):
        line = lines[at]
        fence = re.match(r"```+", line)
        if fence:
            end = at + 1
            while end < len(lines) and not lines[end].startswith(fence.group()):
                end += 1
            found, first = lines[at + 1:end], at + 2
            at = end + 1
        elif line.startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            found, first = [line[4:] for line in lines[at:end]], at + 1
            at = end
        else:
            comment = re.match(r"<!-- example: (.*) -->$", line.strip())
            if comment:
                comments.append(comment.group(1))
            elif line.strip():
                comments = []
            at += 1
            continue
        if found and found[0].startswith("$ "):
            yield first, found, comments
        comments = []


def examples(lines):
    """(line within the block, command, answer) of each command."""
    at = 0
    while at < len(lines):
        first, command = at, lines[at][2:]
        at += 1
        while not complete(command) and at < len(lines):
            command += "\n" + lines[at]
            at += 1
        answer = []
        while at < len(lines) and not lines[at].startswith("$ "):
            answer.append(lines[at])
            at += 1
        yield first, command, "\n".join(answer).strip()


# Answers


class Number(str):
    """A number as the document prints it."""


ANYTHING = object()


def parse(text):
    """Reads JSON in which "..." stands for anything; numbers stay as they are printed."""
    tokens = re.findall(r'"(?:\\.|[^"\\])*"|\.\.\.|[{}\[\]:,]|true|false|null|' + NUMBER.pattern + r"(?:\.\.\.)?|\S", text)
    tokens.append("")
    at = 0

    def take(wanted=None):
        nonlocal at
        token = tokens[at]
        if wanted is not None and token != wanted:
            raise Mismatch(f"the document's answer cannot be read: '{token}' where '{wanted}' should stand")
        at += 1
        return token

    def value():
        token = take()
        if token == "...":
            return ANYTHING
        if token == "{":
            members = {}
            while tokens[at] != "}":
                if tokens[at] == "...":
                    take()
                    members[ANYTHING] = ANYTHING
                else:
                    name = json.loads(take())
                    take(":")
                    members[name] = value()
                if tokens[at] != "}":
                    take(",")
            take("}")
            return members
        if token == "[":
            elements = []
            while tokens[at] != "]":
                elements.append(value())
                if tokens[at] != "]":
                    take(",")
            take("]")
            return elements
        if NUMBER.fullmatch(token.removesuffix("...")):
            return Number(token.removesuffix("..."))
        try:
            return json.loads(token)
        except ValueError:
            raise Mismatch(f"the document's answer cannot be read at '{token}'") from None

    read = value()
    take("")
    return read


def same_number(shown, got):
    digits = shown.lower().partition("e")[0].partition(".")[2]
    exponent = int(shown.lower().partition("e")[2] or 0)
    unit = 10.0 ** (exponent - len(digits)) if digits or exponent else 0
    return abs(float(shown) - float(got)) <= unit * 1.000001


def same_text(shown, got):
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), got, re.S) is not None


def compare(shown, got, place, name=""):
    if shown is ANYTHING:
        return
    if isinstance(shown, dict):
        if not isinstance(got, dict):
            raise Mismatch(f"{place} is no object: {got!r}")
        absent = [key for key in shown if key is not ANYTHING and key not in got]
        further = [key for key in got if key not in shown]
        if absent:
            raise Mismatch(f"{place} has no {', '.join(absent)}")
        if further and ANYTHING not in shown:
            raise Mismatch(f"{place} also has {', '.join(further)}")
        for key, member in shown.items():
            if key is not ANYTHING:
                compare(member, got[key], f"{place}.{key}", key)
    elif isinstance(shown, list):
        if not isinstance(got, list):
            raise Mismatch(f"{place} is no array: {got!r}")
        compare_list(shown, got, place, name)
    elif isinstance(shown, Number):
        if isinstance(got, bool) or not isinstance(got, (int, float)):
            raise Mismatch(f"{place} is no number: {got!r}")
        if not TIMES.search(name) and not same_number(shown, got):
            raise Mismatch(f"{place} is {got}, the document shows {shown}")
    elif isinstance(shown, str):
        if not isinstance(got, str) or not same_text(shown, got):
            raise Mismatch(f"{place} is {got!r}, the document shows {shown!r}")
    elif shown is not got and shown != got or isinstance(shown, bool) != isinstance(got, bool):
        raise Mismatch(f"{place} is {got!r}, the document shows {shown!r}")


def compare_list(shown, got, place, name):
    if ANYTHING not in shown:
        if len(shown) != len(got):
            raise Mismatch(f"{place} has {len(got)} elements, the document shows {len(shown)}")
        for i, (one, other) in enumerate(zip(shown, got)):
            compare(one, other, f"{place}[{i}]", name)
        return
    begin = shown.index(ANYTHING)
    end = len(shown) - shown[::-1].index(ANYTHING) - 1
    if begin != end:
        raise Mismatch(f"{place}: the document has several '...' in one array")
    tail = shown[end + 1:]
    if len(got) < begin + len(tail):
        raise Mismatch(f"{place} has {len(got)} elements, the document shows at least {begin + len(tail)}")
    for i in range(begin):
        compare(shown[i], got[i], f"{place}[{i}]", name)
    for i, element in enumerate(tail):
        index = len(got) - len(tail) + i
        compare(element, got[index], f"{place}[{index}]", name)


def compare_lines(shown, got):
    shown, got = ([line.rstrip() for line in text.strip().splitlines()] for text in (shown, got))
    if shown and shown[-1] == "...":
        shown, got = shown[:-1], got[:len(shown) - 1]
    if len(shown) != len(got):
        raise Mismatch(f"it printed {len(got)} lines, the document shows {len(shown)}")
    for one, other in zip(shown, got):
        # Columns may be wider by a digit: any spaces are as good as others.
        pieces = re.split(r"(\.\.\.|\s+|" + NUMBER.pattern + ")", one)
        pattern = "".join(r"\s+" if piece.isspace() else ".*" if piece == "..." else f"({NUMBER.pattern})"
                          if NUMBER.fullmatch(piece) else re.escape(piece) for piece in pieces)
        match = re.fullmatch(pattern, other)
        if not match:
            raise Mismatch(f"it printed '{other}', the document shows '{one}'")
        numbers = [piece for piece in pieces if NUMBER.fullmatch(piece)]
        for number, printed in zip(numbers, [group for group in match.groups() if group is not None]):
            if not re.search(r"\bin us\b", one) and not same_number(number, printed):
                raise Mismatch(f"it printed '{other}', the document shows '{one}'")


def check(shown, got):
    if not shown:
        return
    if shown[0] not in "{[" or re.match(r"\[+b'", shown):  # what NumPy prints of bytes begins like JSON
        compare_lines(shown, got)
        return
    try:
        document = json.loads(got)
    except ValueError:
        raise Mismatch("it printed no JSON") from None
    compare(parse(shown), document, "the answer")


# The daemon


class Daemon:
    def __init__(self, build, work, settings):
        self.build, self.log = build, work / "log"
        configuration = {"backend": "cpu", "models": "models", "default_model": "cifar10-resnet", "auth": {"loopback_admin": True},
                         "listen": "127.0.0.1:0"}
        for name, value in settings.items():
            configuration[name] = value
        (work / "config.json").write_text(json.dumps(configuration))
        with self.log.open("w") as log:
            self.process = subprocess.Popen([build / "bin" / "convoyd", "--config", work / "config.json"], stderr=log)
        self.address = self.wait(20, self.listening)
        self.wait(30, self.ready)

    def wait(self, seconds, condition):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.02)  # nothing tells from outside when a daemon is ready
        self.stop()
        sys.exit("convoyd did not start:\n" + self.log.read_text()[-3000:])

    def listening(self):
        match = re.search(r'msg="convoyd listens".* port=(\d+)', self.log.read_text())
        return match and f"127.0.0.1:{match.group(1)}"

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/v2/health/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def run(command, daemon, status, own):
    """Runs a command and gives what it printed, with names that are the same on the whole machine made this run's own."""
    command = command.replace(ADDRESS, daemon.address).replace("pixels", own)
    environment = {**os.environ, "CONVOY_URL": f"http://{daemon.address}", "NO_COLOR": "1", "TZ": "UTC",
                   "PATH": f"{daemon.build}/bin:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", PROLOGUE + command], capture_output=True, text=True, env=environment, timeout=120)
    statuses = re.findall(r"^status (\d+)$", done.stderr, re.M)
    for got in statuses:
        if got != status:
            raise Mismatch(f"its HTTP status is {got}, not {status}: {done.stdout[:300]}")
    if done.returncode != 0:
        raise Mismatch(f"exit status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout.replace(own, "pixels")


def run_until_it_matches(command, shown, patience_s, daemon, status, own):
    end = time.monotonic() + patience_s
    while True:
        try:
            return check(shown, run(command, daemon, status, own))
        except Mismatch:
            if time.monotonic() >= end:
                raise
            time.sleep(0.05)


def has_triton_client():
    return subprocess.run(["python3", "-c", "import tritonclient.http"], capture_output=True).returncode == 0


def main():
    build, work, documents = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3:]
    own, triton = f"convoy-example-{os.getpid()}", has_triton_client()
    passed, failed, left = 0, 0, []
    for document in documents:
        for first, lines, comments in blocks(pathlib.Path(document).read_text()):
            why, status, settings, patience_s = None, "200", {}, 0
            for comment in comments:
                if comment.startswith("not run: "):
                    why = comment[len("not run: "):]
                elif comment.startswith("status "):
                    status = comment[len("status "):]
                elif comment == "eventually":
                    patience_s = 20
                elif comment.startswith("configuration "):
                    for setting in comment.split()[1:]:
                        name, _, value = setting.partition("=")
                        settings[name] = json.loads(value)
                else:
                    sys.exit(f"{document}:{first}: what is the comment 'example: {comment}'?")
            daemon = None
            try:
                for offset, command, shown in examples(lines):
                    place = f"{document}:{first + offset}"
                    program = command.split()[0]
                    reason = (why or (f"'{program}' is none of {', '.join(PROGRAMS)}" if program not in PROGRAMS else None)
                              or ("tritonclient is not installed" if "tritonclient" in command and not triton else None))
                    if reason:
                        left.append(f"{place}: not run: {reason}")
                        continue
                    daemon = daemon or Daemon(build, work, settings)
                    try:
                        run_until_it_matches(command, shown, patience_s, daemon, status, own)
                        passed += 1
                    except Mismatch as mismatch:
                        failed += 1
                        print(f"{place}: {mismatch}\n    $ {command}", file=sys.stderr)
                    except subprocess.TimeoutExpired:
                        failed += 1
                        print(f"{place}: no end after 120 s\n    $ {command}", file=sys.stderr)
            finally:
                if daemon:
                    daemon.stop()
                pathlib.Path(f"/dev/shm/{own}").unlink(missing_ok=True)
    print(*left, sep="\n")
    print(f"{passed} examples printed what their documents show, {failed} did not, {len(left)} were not run")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
