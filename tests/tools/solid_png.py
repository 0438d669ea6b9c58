#!/usr/bin/env python3
"""Writes a square PNG of one colour: solid_png.py FILE R G B [SIDE], of 32x32 pixels unless told. The test-only switches of the worker know such an
image by its first pixel. Python's standard library only."""

import struct
import sys
import zlib

SIDE = 32


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main():
    colour = bytes(int(value) for value in sys.argv[2:5])
    side = int(sys.argv[5]) if len(sys.argv) > 5 else SIDE
    rows = (b"\0" + colour * side) * side  # each row begins with its filter: none
    with open(sys.argv[1], "wb") as file:
        file.write(
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b"")
        )


if __name__ == "__main__":
    main()
