#!/usr/bin/env python3
"""Writes a labelled set in IDX files as a tar of PNGs, for the tools that read archives.

    idx_archive.py IMAGES LABELS OUT

IMAGES (N x H x W grey bytes) and LABELS (N bytes) may be gzip'ed. OUT holds CLASS/NUMBER.png, CLASS being the label's
index, in the order of the files. Needs Pillow.
"""

import gzip
import io
import math
import sys
import tarfile

from PIL import Image


def read_idx(path):
    """(shape, bytes)"""
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        data = file.read()
    rank = data[3]
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank)]
    values = data[4 + 4 * rank :]
    if len(values) != math.prod(shape):
        sys.exit(f"{path} holds {len(values)} bytes, its head says {shape}")
    return shape, values


def main():
    (count, height, width), pixels = read_idx(sys.argv[1])
    labels = read_idx(sys.argv[2])[1]
    size = height * width
    with tarfile.open(sys.argv[3], "w") as archive:
        for i in range(count):
            png = io.BytesIO()
            Image.frombytes("L", (width, height), pixels[i * size : (i + 1) * size]).save(png, "PNG")
            member = tarfile.TarInfo(f"{labels[i]}/{i:05d}.png")
            member.size = png.tell()
            png.seek(0)
            archive.addfile(member, png)


if __name__ == "__main__":
    main()
