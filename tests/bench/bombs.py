#!/usr/bin/env python3
"""Requests that cost a server as much as they can for each byte, for bombs.sh:

  bombs.py make FOLDER               writes one of each: NAME.body, and NAME.head, the target and headers
  bombs.py send URL FILE SECONDS PAUSE   sends FILE (without its ending) on one connection, one every PAUSE seconds at most; prints how many
                                     were answered, the kilobytes sent, and the statuses

Python's standard library only."""

import collections
import gzip
import http.client
import json
import os
import struct
import sys
import time
import urllib.parse
import zlib

import image_bombs

SIDE = 7064  # 49.9 million pixels: images.max_pixels is 50
CLASSIFY = "/classify"
INFER = "/v2/models/cifar10-convnet/infer"
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
COLOURS = bytes([1, 2, 3, 200, 100, 50])


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, bits, colour, samples=1, interlaced=False, extra=b"", palette=b""):
    """Blank: every byte of every row is 0."""
    packer = zlib.compressobj(9)
    data = b""
    passes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in PASSES] if interlaced else [(width, height)]
    for columns, rows in passes:
        row = 1 + (columns * bits * samples + 7) // 8
        for begun in range(0, row * rows, 1 << 20):
            data += packer.compress(bytes(min(1 << 20, row * rows - begun)))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced))
        + (chunk(b"PLTE", palette) if palette else b"")
        + extra
        + chunk(b"IDAT", data + packer.flush())
        + chunk(b"IEND", b"")
    )


def segment(marker, data):
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def jpeg(frame, components, scans, before=b"", side=SIDE, ac=0):
    """frame: the marker. Every code is one bit, 0: a DC difference of 0, and ac for the others."""
    tables = segment(0xDB, b"\0" + b"\1" * 64)
    for kind, symbol in ((0, 0), (0x10, ac)):
        tables += segment(0xC4, bytes([kind, 1] + [0] * 15 + [symbol]))
    ids = b"".join(bytes([i + 1, sampling, 0]) for i, sampling in enumerate(components))
    return b"\xff\xd8" + before + tables + segment(frame, struct.pack(">BHHB", 8, side, side, len(components)) + ids) + scans + b"\xff\xd9"


def scan(components, first, last, high, low, bits):
    ids = b"".join(bytes([i + 1, 0]) for i in components)
    return segment(0xDA, bytes([len(components)]) + ids + bytes([first, last, high << 4 | low])) + bytes((bits + 7) // 8)


def progressive():
    """A hundred scans; but for the first one, each has a run for every 16,384 blocks."""
    blocks = (SIDE // 8) ** 2
    run = 15 * (blocks // 16384 + 1)
    scans = scan([0], 0, 0, 0, 0, blocks) + scan([0], 1, 63, 0, 13, run)
    return jpeg(0xC2, [0x11], scans + 98 * scan([0], 1, 63, 1, 0, run), ac=0xE0)


def form(part, count):
    return b"".join(b"--B\r\nContent-Disposition: form-data\r\n\r\n" + part + b"\r\n" for _ in range(count)) + b"--B--"


def filled(unit, size=32 << 20):
    head = b"--B\r\nA: b\r\n\r\n"
    return head + unit * ((size - len(head)) // len(unit))


def images(part, count):
    data = (struct.pack("<I", len(part)) + part) * count
    header = json.dumps({"inputs": [{"name": "image", "datatype": "BYTES", "shape": [count],
                                     "parameters": {"binary_data_size": len(data)}}]}).encode()
    return header + data, len(header)


def numbers():
    text = ",".join(["0.0000000"] * 3072 * 1024)
    return ('{"inputs": [{"name": "image", "datatype": "FP32", "shape": [1024, 3, 32, 32], "data": [' + text + "]}]}").encode()


def bombs():
    """Names, bodies and headers."""
    blocks = (SIDE // 8) ** 2
    blank = png(SIDE, SIDE, 1, 0)
    tiny = png(1, 1, 8, 0)
    for name, body in (
        ("PNG, 1 bit grey", blank),
        ("PNG, 1 bit grey, transparent", png(SIDE, SIDE, 1, 0, extra=chunk(b"tRNS", b"\0\1"))),
        ("PNG, 1 bit grey, interlaced", png(SIDE, SIDE, 1, 0, interlaced=True)),
        ("PNG, 1 bit, two colours", png(SIDE, SIDE, 1, 3, palette=COLOURS)),
        ("PNG, 1 bit, two colours, interlaced", png(SIDE, SIDE, 1, 3, palette=COLOURS, interlaced=True)),
        ("PNG, 1 bit, two colours, one row", png(50000000, 1, 1, 3, palette=COLOURS)),
        ("PNG, 1 bit, two colours, 64 wide", png(64, 781250, 1, 3, palette=COLOURS)),
        ("PNG, 1 bit, two colours, 64 wide, interlaced", png(64, 781250, 1, 3, palette=COLOURS, interlaced=True)),
        ("PNG, 8 bits with a palette", png(SIDE, SIDE, 8, 3, palette=bytes(768))),
        ("PNG, 8 bits RGB, interlaced", png(SIDE, SIDE, 8, 2, 3, interlaced=True)),
        ("PNG, 16 bits RGBA", png(SIDE, SIDE, 16, 6, 4)),
        ("PNG, 1 wide", png(1, 50000000, 1, 0)),
        ("PNG with two zTXt of 1 GiB", png(32, 32, 8, 0, extra=2 * chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 30), 9)))),
        ("PNG of 80,000 empty IDAT", png(32, 32, 8, 0, extra=80000 * chunk(b"IDAT", b""))),
        ("JPEG, baseline, grey", jpeg(0xC0, [0x11], scan([0], 0, 63, 0, 0, 2 * blocks))),
        ("JPEG, baseline, 4:4:4", jpeg(0xC0, [0x11] * 3, scan([0, 1, 2], 0, 63, 0, 0, 6 * blocks))),
        ("JPEG, progressive, 100 scans", progressive()),
        ("JPEG of 8,000,000 empty comments", jpeg(0xC0, [0x11], scan([0], 0, 63, 0, 0, 2), b"\xff\xfe\0\2" * 8000000, side=8)),
        ("WebP without loss, one colour", image_bombs.webp_lossless(SIDE)),
        ("WebP without loss, one colour, 724 x 724", image_bombs.webp_lossless(724)),
        ("WebP without loss, 65,536 sets of tables", image_bombs.webp_tables(1024)),
        ("WebP, lossy, one colour", image_bombs.webp_lossy(SIDE)),
        ("GIF, one colour", image_bombs.gif_of_one_colour(SIDE)),
        ("GIF, one colour, interlaced", image_bombs.gif_of_one_colour(SIDE, interlaced=True)),
        ("GIF of 8,000,000 clear codes", image_bombs.gif_of_clear_codes(8000000)),
        ("GIF of 8,000,000 comments", image_bombs.gif_of_comments(8000000)),
        ("GIF, 1 x 1 on a large screen", image_bombs.gif_screen(SIDE)),
        ("BMP, runs of 8 bits", image_bombs.bmp_runs(8)),
        ("BMP, runs of 4 bits", image_bombs.bmp_runs(4)),
        ("BMP, all rows left out", image_bombs.bmp_that_ends_at_once()),
        ("BMP of 8,000,000 skips", image_bombs.bmp_of_skips(7900000)),
        ("1,024 PNG of 1 x 1 in a form", form(tiny, 1024)),
        ("form of CR", filled(b"\r")),
        ("form of CR LF - -", filled(b"\r\n--")),
        ("form of boundaries without an end", filled(b"\r\n--Bx")),
        ("form of the least parts", filled(b"\r\n--B\r\n\r\n")),
    ):
        yield name, body, CLASSIFY, {"Content-Type": "multipart/form-data; boundary=B"} if body.startswith(b"--B") else {}
    packed, length = images(blank, 200)
    headers = {"Content-Encoding": "gzip", "Inference-Header-Content-Length": str(length)}
    yield "gzip of 200 PNG of 1 bit", gzip.compress(packed, 9), INFER, headers
    packed, length = images(tiny, 1024)
    yield "gzip of 1,024 PNG of 1 x 1", gzip.compress(packed, 9), INFER, dict(headers, **{"Inference-Header-Content-Length": str(length)})
    yield "gzip of 31 MB of JSON", gzip.compress(numbers(), 9), INFER, {"Content-Encoding": "gzip"}


def make(folder):
    for number, (name, body, target, headers) in enumerate(bombs()):
        path = os.path.join(folder, f"{number:02}")
        with open(path + ".body", "wb") as file:
            file.write(body)
        with open(path + ".head", "w", encoding="utf-8") as file:
            json.dump({"name": name, "target": target, "headers": headers}, file)


def send(url, path, seconds, pause):
    with open(path + ".body", "rb") as file:
        body = file.read()
    with open(path + ".head", encoding="utf-8") as file:
        head = json.load(file)
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)
    statuses = collections.Counter()
    end = time.monotonic() + seconds
    while not statuses or time.monotonic() < end:
        begun = time.monotonic()
        connection.request("POST", head["target"], body, head["headers"])
        answer = connection.getresponse()
        answer.read()
        statuses[answer.status] += 1
        left = min(begun + pause, end) - time.monotonic()
        if left > 0:
            time.sleep(left)
    size = len(body) + sum(len(name) + len(value) + 4 for name, value in head["headers"].items()) + 100
    count = sum(statuses.values())
    print(f"{count} {size * count / 1024:.3f} {','.join(map(str, sorted(statuses)))} {size / 1024:.1f} {head['name']}")


def main():
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        send(sys.argv[2], sys.argv[3], float(sys.argv[4]), float(sys.argv[5]))


if __name__ == "__main__":
    main()
