#!/usr/bin/env python3
"""photograph.py WIDTH HEIGHT FILE [QUALITY]: a JPEG that costs a decoder about what a photograph does: noise in octaves, each half as
strong as the one before it, quality 85, 4:2:0. Of 500 x 375 it has some 60 KB, of 1920 x 1080 some 600."""

import sys

from PIL import Image, ImageChops

WIDTH, HEIGHT = int(sys.argv[1]), int(sys.argv[2])


def octaves():
    plane = Image.new("L", (WIDTH, HEIGHT), 128)
    for divisor, sigma in ((64, 80), (32, 50), (16, 30), (8, 20), (4, 12), (2, 8), (1, 4)):
        size = max(WIDTH // divisor, 1), max(HEIGHT // divisor, 1)
        noise = Image.effect_noise(size, sigma).resize((WIDTH, HEIGHT), Image.BICUBIC)
        plane = ImageChops.add(plane, noise, 1, -128)
    return plane


Image.merge("RGB", [octaves() for _ in range(3)]).save(sys.argv[3], quality=int(sys.argv[4]) if len(sys.argv) > 4 else 85)
