#!/usr/bin/env python3
"""Plays the service manager for one program: receives what it says by sd_notify(3), hands over sockets.

    notify_socket.py RECORD [--watchdog-us N] [--socket WHAT]... [--lazy] -- COMMAND [ARGUMENT...]

Starts COMMAND with NOTIFY_SOCKET, with N also WATCHDOG_USEC and WATCHDOG_PID, and with each socket as a descriptor
from 3 on, LISTEN_PID and LISTEN_FDS. WHAT is ADDRESS:PORT (TCP, listening), "udp" or "unix". With --lazy COMMAND
is started when a client connects.

RECORD gets a JSON line for each start, {"pid": of COMMAND, "ports": [...]} ("pid" 0: not started yet), and for each
message {"at": seconds, "pid": sender, "said": {NAME: value}}. SIGTERM and SIGHUP are handed on to COMMAND; at
SIGUSR1 it gets SIGTERM and is started again once it has ended, with the same sockets. Ends with the status of the
last COMMAND.
"""

import argparse
import json
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import time


def listen(what):
    if what == "udp":
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("127.0.0.1", 0))
    elif what == "unix":
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.bind("\0convoyd-test-%d" % os.getpid())
        made.listen()
    else:
        host, _, port = what.rpartition(":")
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
        made = socket.create_server((host.strip("[]"), int(port)), family=family, backlog=4096)
    return made


def start(command, environment, sockets):
    """exec in the child, as LISTEN_PID must be its own."""
    pid = os.fork()
    if pid == 0:
        try:
            # Out of the way first, so that none is overwritten by another.
            high = [os.dup2(made.fileno(), 100 + i, inheritable=False) for i, made in enumerate(sockets)]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i, inheritable=True)
            me = str(os.getpid())
            if sockets:
                environment |= {"LISTEN_PID": me, "LISTEN_FDS": str(len(sockets)), "LISTEN_FDNAMES": "http"}
            if "WATCHDOG_USEC" in environment:
                environment["WATCHDOG_PID"] = me
            os.execve(command[0], command, environment)
        finally:
            os._exit(127)
    return pid


def record_messages(receiver, record, began):
    while True:
        data, ancillary, _, _ = receiver.recvmsg(65536, 1024)
        if data == b"END OF RECORD":
            return
        pid = 0
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid = struct.unpack("3i", value[:12])[0]
        said = dict(line.partition("=")[::2] for line in data.decode().splitlines())
        line = {"at": round(time.monotonic() - began, 3), "pid": pid, "said": said}
        record.write(json.dumps(line) + "\n")
        record.flush()


class Child:
    """COMMAND, and the signals that are meant for it."""

    def __init__(self):
        self.pid, self.again = 0, False
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, self.hand_on)

    def hand_on(self, number, _):
        if number == signal.SIGUSR1:
            self.again, number = True, signal.SIGTERM
        if self.pid != 0:
            os.kill(self.pid, number)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("record")
    parser.add_argument("--watchdog-us", type=int)
    parser.add_argument("--socket", action="append", default=[])
    parser.add_argument("--lazy", action="store_true")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    sockets = [listen(address) for address in arguments.socket]
    with tempfile.TemporaryDirectory() as folder, open(arguments.record, "w") as record:
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        path = os.path.join(folder, "notify")
        receiver.bind(path)
        environment = dict(os.environ, NOTIFY_SOCKET=path)
        if arguments.watchdog_us:
            environment["WATCHDOG_USEC"] = str(arguments.watchdog_us)
        began = time.monotonic()
        listener = threading.Thread(target=record_messages, args=(receiver, record, began))
        listener.start()
        ports = [made.getsockname()[1] if made.family != socket.AF_UNIX else 0 for made in sockets]
        child = Child()

        def note():
            record.write(json.dumps({"pid": child.pid, "ports": ports}) + "\n")
            record.flush()

        if arguments.lazy:
            note()
            select.select(sockets, [], [])
        child.again = True
        while child.again:
            child.again = False
            child.pid = start(arguments.command, dict(environment), sockets)
            note()
            _, status = os.waitpid(child.pid, 0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"END OF RECORD", path)
        listener.join()
    sys.exit(os.waitstatus_to_exitcode(status) % 256)


if __name__ == "__main__":
    main()
