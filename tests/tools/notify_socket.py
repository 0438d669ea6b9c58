#!/usr/bin/env python3
"""Plays the service manager for one program: receives what it says by sd_notify(3), hands over sockets.

    notify_socket.py RECORD [--watchdog-us N] [--socket WHAT]... [--lazy] [--store WHERE] -- COMMAND [ARGUMENT...]

Starts COMMAND with NOTIFY_SOCKET, with N also WATCHDOG_USEC and WATCHDOG_PID, and with each socket as a descriptor
from 3 on, LISTEN_PID and LISTEN_FDS. WHAT is ADDRESS:PORT (TCP, listening), "udp" or "unix". With --lazy COMMAND
is started when a client connects.

RECORD gets a JSON line for each start, {"pid": of COMMAND, "ports": [...]} ("pid" 0: not started yet), and for each
message {"at": seconds, "pid": sender, "said": {NAME: value}}. SIGTERM and SIGHUP are handed on to COMMAND; at
SIGUSR1 it gets SIGTERM and is started again once it has ended, with the same sockets. Ends with the status of the
last COMMAND.

With --store what COMMAND stores (FDSTORE=1) is kept, and handed over "behind" or "before" the sockets at the next start,
until it is removed (FDSTOREREMOVE=1) or COMMAND is not started again; without it, it is closed at once. A message that stores or
removes has {"stored": names} beside what was said: those that are kept then.
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


class Store:
    """Descriptors by name. place: "behind", "before", or None: it keeps nothing."""

    def __init__(self, place):
        self.place, self.lock, self.entries = place, threading.Lock(), []

    def take(self, said, descriptors):
        """What a message wants. Returns whether it was about the store."""
        name = said.get("FDNAME", "stored")
        with self.lock:
            if said.get("FDSTORE") == "1" and self.place:
                self.entries += [(name, descriptor) for descriptor in descriptors]
                return True
            if said.get("FDSTOREREMOVE") == "1":
                for _, descriptor in [entry for entry in self.entries if entry[0] == name]:
                    os.close(descriptor)
                self.entries = [entry for entry in self.entries if entry[0] != name]
        for descriptor in descriptors:  # BARRIER=1: closing it is the answer
            os.close(descriptor)
        return "FDSTOREREMOVE" in said

    def close(self):
        with self.lock:
            for _, descriptor in self.entries:
                os.close(descriptor)
            self.entries = []


def start(command, environment, sockets, store):
    """exec in the child, as LISTEN_PID must be its own."""
    # systemd's order is that of a list to whose head it adds.
    handed = [("http", made.fileno()) for made in sockets]
    handed = store.entries[::-1] + handed if store.place == "before" else handed + store.entries[::-1]
    pid = os.fork()
    if pid == 0:
        try:
            # Out of the way first, so that none is overwritten by another.
            high = [os.dup2(fd, 500 + i, inheritable=False) for i, (_, fd) in enumerate(handed)]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i, inheritable=True)
            me = str(os.getpid())
            if handed:
                names = ":".join(name for name, _ in handed)
                environment |= {"LISTEN_PID": me, "LISTEN_FDS": str(len(handed)), "LISTEN_FDNAMES": names}
            if "WATCHDOG_USEC" in environment:
                environment["WATCHDOG_PID"] = me
            os.execve(command[0], command, environment)
        finally:
            os._exit(127)
    return pid


def record_messages(receiver, record, began, store):
    while True:
        data, ancillary, _, _ = receiver.recvmsg(65536, 1024)
        descriptors = []
        if data == b"END OF RECORD":
            return
        pid = 0
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid = struct.unpack("3i", value[:12])[0]
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors += struct.unpack(f"{len(value) // 4}i", value)
        said = dict(line.partition("=")[::2] for line in data.decode().splitlines())
        line = {"at": round(time.monotonic() - began, 3), "pid": pid, "said": said}
        if store.take(said, descriptors):
            line["stored"] = [name for name, _ in store.entries]
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
    parser.add_argument("--store", choices=["behind", "before"])
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    sockets = [listen(address) for address in arguments.socket]
    store = Store(arguments.store)
    with tempfile.TemporaryDirectory() as folder, open(arguments.record, "w") as record:
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        path = os.path.join(folder, "notify")
        receiver.bind(path)
        environment = dict(os.environ, NOTIFY_SOCKET=path)
        if arguments.watchdog_us:
            environment["WATCHDOG_USEC"] = str(arguments.watchdog_us)
        began = time.monotonic()
        listener = threading.Thread(target=record_messages, args=(receiver, record, began, store))
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
            child.pid = start(arguments.command, dict(environment), sockets, store)
            note()
            _, status = os.waitpid(child.pid, 0)
        store.close()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"END OF RECORD", path)
        listener.join()
    sys.exit(os.waitstatus_to_exitcode(status) % 256)


if __name__ == "__main__":
    main()
