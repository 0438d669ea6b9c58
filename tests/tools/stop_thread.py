#!/usr/bin/env python3
"""Stops one thread of a process, and no other, until standard input ends.

    stop_thread.py THREAD-ID

What SIGSTOP cannot do: with the thread id of a process's first thread, which is its own id, that thread stands still
while the others go on. Prints a line once it does. Exit status 77 where ptrace(2) is not allowed.
"""

import ctypes
import os
import sys

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
ALL_THREADS = 0x40000000  # __WALL


def main():
    thread = int(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for request in (SEIZE, INTERRUPT):
        if libc.ptrace(request, thread, None, None) != 0:
            print(os.strerror(ctypes.get_errno()), file=sys.stderr)
            sys.exit(77)
    os.waitpid(thread, ALL_THREADS)
    print("stopped", flush=True)
    sys.stdin.read()
    libc.ptrace(DETACH, thread, None, None)


if __name__ == "__main__":
    main()
