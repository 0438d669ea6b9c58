#!/usr/bin/env python3
"""Holds the end of a process: its parent is not told of it before this one ends, which does so with its own parent.

    hold_end.py PID

As where a driver takes long to take down what a process had opened: its threads have ended, and it is not waited for.
Nothing else of the process changes. Prints a line once it holds. Exit status 77 where ptrace(2) is not allowed.
"""

import ctypes
import os
import signal
import sys

SEIZE = 0x4206
PR_SET_PDEATHSIG = 1


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(SEIZE, int(sys.argv[1]), None, None) != 0:
        print(os.strerror(ctypes.get_errno()), file=sys.stderr)
        sys.exit(77)
    print("held", flush=True)
    signal.pause()  # with this process's end the kernel tells the parent


if __name__ == "__main__":
    main()
