#!/usr/bin/env python3
"""Runs a program that is given its listening socket: on_free_port.py FILE COMMAND...

COMMAND finds a TCP socket that listens on 127.0.0.1, on a port that the kernel chose, as descriptor 3; the port's
number is written to FILE. For programs that take a descriptor but not port 0. Python's standard library only."""

import os
import socket
import sys


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    os.dup2(listener.fileno(), 3)
    os.set_inheritable(3, True)  # it may have been 3 all along
    with open(sys.argv[1] + ".new", "w", encoding="ascii") as file:
        file.write(f"{port}\n")
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
