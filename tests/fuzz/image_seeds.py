#!/usr/bin/env python3
"""Writes the seeds of the image fuzzer that are WebP, BMP or GIF into tests/fuzz/corpus/image: image_seeds.py

They are samples of tests/tools/image_reference.py behind the byte that chooses a target (fuzz_image.c). Needs Pillow."""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/fuzz/corpus/image"
NAMES = ("lossy.webp", "lossy-alpha.webp", "lossless-grey.webp", "size-9x1-lossless.webp", "size-15x17-lossless.webp", "exif6-rgb.webp",
         "animated-part-lossy.webp", "animated-part-alpha.webp", "palette1.bmp", "palette4-os2.bmp", "palette1-few.bmp", "rgb16.bmp",
         "fields-1555.bmp", "runs4.bmp", "runs8-skips.bmp", "palette2.gif", "interlaced-11x9.gif", "transparent.gif", "frame-part.gif")


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "tests/tools/image_reference.py", folder], check=True)
        for number, name in enumerate(NAMES):
            data = (pathlib.Path(folder) / name).read_bytes()
            (FOLDER / name.replace(".", "_").replace("-", "_")).write_bytes(bytes([number * 37 % 256]) + data)


main()
