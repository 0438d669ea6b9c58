#!/usr/bin/env python3
"""jpeg_hostile.py URL MODEL COUNT [--exact] [--seed N] [--most PIXELS]: sends COUNT damaged JPEG files (cut, with flipped bits, with markers and
tables bent) among whole ones in forms, once to be decoded by the device and once by the front, and compares the pixels that they
became, with which MODEL answers (pixel_model.py).

With --exact (a device that decodes as libjpeg does: the stand-in of tests/emulation) both must agree in all digits, and in what they
say of damaged files; else in the pixels of whole files, about. No request may be lost."""

import argparse
import collections
import concurrent.futures
import http.client
import io
import json
import random
import sys
import urllib.parse

from PIL import Image

arguments = argparse.ArgumentParser()
arguments.add_argument("url")
arguments.add_argument("model")
arguments.add_argument("count", type=int)
arguments.add_argument("--exact", action="store_true")
arguments.add_argument("--seed", type=int, default=1)
arguments.add_argument("--most", type=int, default=160, help="pixels of a side")
arguments = arguments.parse_args()
host = urllib.parse.urlparse(arguments.url).netloc
chance = random.Random(arguments.seed)
FORM = 24
CONNECTIONS = 4
TOP = 240  # pixels of an answer
NEAR = 40  # levels, of a picture of few pixels: chroma is upsampled otherwise


def whole():
    """A file as encoders write them."""
    mode = chance.choice(("RGB", "RGB", "RGB", "L"))
    size = chance.randint(8, arguments.most), chance.randint(8, arguments.most)
    grid = Image.frombytes(mode, (6, 6), chance.randbytes(36 * len(mode)))
    options = {"quality": chance.randint(20, 98)}
    if mode == "RGB":
        options["subsampling"] = chance.choice((0, 1, 2))
    if chance.random() < 0.3:
        exif = Image.Exif()
        exif[0x0112] = chance.randint(1, 8)
        options["exif"] = exif
    if chance.random() < 0.2:
        options["restart_marker_blocks"] = chance.randint(1, 9)
    if chance.random() < 0.2:
        options["optimize"] = True
    file = io.BytesIO()
    grid.resize(size, Image.BICUBIC).save(file, "JPEG", **options)
    return file.getvalue()


def scan_of(file):
    return file.index(b"\xff\xda") + 14


def damaged():
    file = bytearray(whole())
    scan = min(scan_of(file), len(file) - 8)
    kind = chance.randrange(7)
    if kind == 0:  # cut
        file = file[:chance.randint(2, len(file) - 1)]
    elif kind == 1:  # cut, and ended
        file = file[:chance.randint(2, len(file) - 1)] + b"\xff\xd9"
    elif kind == 2:  # flipped bits behind the header
        for _ in range(chance.randint(1, 20)):
            file[chance.randrange(scan, len(file) - 2)] ^= 1 << chance.randrange(8)
    elif kind == 3:  # and in it
        for _ in range(chance.randint(1, 4)):
            file[chance.randrange(2, scan)] ^= 1 << chance.randrange(8)
    elif kind == 4:  # a marker in the scan
        at = chance.randrange(scan, len(file) - 4)
        file[at:at + 2] = bytes((0xFF, chance.randrange(256)))
    elif kind == 5:  # bytes taken out, without an 0xFF that would be half a marker
        at = chance.randrange(scan, len(file) - 4)
        del file[at:min(at + chance.randint(1, 200), len(file) - 2)]
    else:  # other sizes than its data
        at = file.index(b"\xff\xc0") + 5
        file[at + 1] = chance.randrange(1, 256)
        file[at + 3] = chance.randrange(1, 256)
    return bytes(file)


def post(connection, path, files):
    parts = [b"--limit\r\nContent-Disposition: form-data; name=image; filename=a.jpg\r\n\r\n" + file + b"\r\n" for file in files]
    connection.request("POST", path, b"".join(parts) + b"--limit--\r\n", {"Content-Type": "multipart/form-data; boundary=limit"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def ask(files, decoder):
    connection = http.client.HTTPConnection(host, timeout=120)
    status, answer = post(connection, f"/v2/models/{arguments.model}/classify?top={TOP}&decoder={decoder}&scaled_decoding=0", files)
    connection.close()
    if "results" not in answer or len(answer["results"]) != len(files):
        sys.exit(f"{decoder}: {status} {answer}")
    return answer["results"]


def compare(file, is_whole, by_gpu, by_cpu, counts):
    counts[by_gpu.get("decoder", f"status {by_gpu.get('status')}") + (" whole" if is_whole else " damaged")] += 1
    if is_whole and ("predictions" not in by_gpu or by_gpu["decoder"] != "gpu"):
        image = Image.open(io.BytesIO(file))
        sys.exit(f"a whole file was not decoded by the device: {image.mode} {image.size} {getattr(image, 'layer', '')} {image.info}: {by_gpu}")
    if arguments.exact:
        if by_gpu.get("predictions") != by_cpu.get("predictions") or by_gpu.get("error") != by_cpu.get("error"):
            sys.exit(f"a {'whole' if is_whole else 'damaged'} file of {len(file)} bytes: {by_gpu}, by the front {by_cpu}")
    elif is_whole:
        one, other = ({p["index"]: p["probability"] for p in by["predictions"]} for by in (by_gpu, by_cpu))
        if max(abs(one[index] - other[index]) for index in one) > NEAR:
            sys.exit(f"a whole file of {len(file)} bytes: {by_gpu}, by the front {by_cpu}")


def turn(files):
    counts = collections.Counter()
    by_gpu = ask([file for file, _ in files], "gpu")
    by_cpu = ask([file for file, _ in files], "cpu")
    for (file, is_whole), one, other in zip(files, by_gpu, by_cpu):
        compare(file, is_whole, one, other, counts)
    return counts


forms = []
for _ in range(0, arguments.count, FORM // 2):
    files = [(whole(), True) for _ in range(FORM // 2)] + [(damaged(), False) for _ in range(FORM // 2)]
    chance.shuffle(files)
    forms.append(files)
with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
    print(dict(sorted(sum(pool.map(turn, forms), collections.Counter()).items())))
