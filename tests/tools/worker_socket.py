#!/usr/bin/env python3
"""Meddles with the control socket of a convoy-worker that runs, to see what the front makes of it.

    worker_socket.py PID shutdown       both directions are closed, as by a worker that closes its socket
    worker_socket.py PID say TEXT       the front hears TEXT (\\n is a new line) from its worker
    worker_socket.py PID flood BYTES    the front hears a line of BYTES bytes that has no end

Linux 5.6 or newer; exit status 77 where the system does not let one process borrow a socket of another.
"""

import ctypes
import os
import socket
import sys

CONTROL = 3  # CONVOY_FD_CONTROL
PIDFD_GETFD = 438  # the number of the system call, on every architecture


def borrow(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = libc.syscall(PIDFD_GETFD, os.pidfd_open(pid), CONTROL, 0)
    except (AttributeError, OSError) as error:
        print(f"process {pid} cannot be opened: {error}")
        sys.exit(77)
    if descriptor < 0:
        print(f"the socket of process {pid} cannot be borrowed: {os.strerror(ctypes.get_errno())}")
        sys.exit(77)
    return socket.socket(fileno=descriptor)


def main():
    control = borrow(int(sys.argv[1]))
    control.settimeout(10)
    if sys.argv[2] == "shutdown":
        control.shutdown(socket.SHUT_RDWR)
    elif sys.argv[2] == "say":
        control.sendall(sys.argv[3].encode().decode("unicode_escape").encode("latin-1"))
    else:
        try:
            control.sendall(b"x" * int(sys.argv[3]))
        except OSError:
            pass  # the front had enough


if __name__ == "__main__":
    main()
