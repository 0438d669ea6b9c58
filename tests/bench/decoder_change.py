#!/usr/bin/env python3
"""decoder_change.py URL ARCHIVE COUNT: asks the models "decoded", "resized" and "classes" of tests/bench/decoder_change.sh with decoder=gpu and
with decoder=cpu and scaled_decoding=0, and prints by how much the answers differ."""

import concurrent.futures
import io
import json
import math
import multiprocessing
import random
import statistics
import struct
import sys
import tarfile
import urllib.request

from PIL import Image, ImageChops, ImageFilter

URL, ARCHIVE, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
LEVELS = max(COUNT // 10, 2)  # pictures whose pixels are compared


def encoded(image, quality, subsampling):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality, subsampling=subsampling)
    return file.getvalue()


def octaves(size):
    plane = Image.new("L", size, 128)
    for divisor, sigma in ((64, 80), (32, 50), (16, 30), (8, 20), (4, 12), (2, 8), (1, 4)):
        noise = Image.effect_noise((max(size[0] // divisor, 1), max(size[1] // divisor, 1)), sigma).resize(size, Image.BICUBIC)
        plane = ImageChops.add(plane, noise, 1, -128)
    return plane


def photograph(number, size=None):
    """As photograph.py makes them, of many sizes, kinds of sampling and qualities."""
    chance = random.Random(number)
    size = size or (chance.randrange(400, 1400), chance.randrange(400, 1400))
    return encoded(Image.merge("RGB", [octaves(size) for _ in range(3)]), chance.choice((75, 85, 92)), chance.choice((0, 1, 2, 2, 2)))


def of_500_375(number):
    return photograph(number, (500, 375))


def enlarged(file):
    chance = random.Random(len(file))
    image = Image.open(io.BytesIO(file))
    width = chance.randrange(300, 1501)
    size = width, max(width * chance.randrange(60, 141) // 100, 300)
    large = image.convert("RGB").resize(size, Image.LANCZOS).filter(ImageFilter.SHARPEN)
    noise = Image.merge("RGB", [Image.effect_noise(size, 12) for _ in range(3)])
    return encoded(ImageChops.add(large, noise, 1, -128), 88, 2)


def ask(path, body, headers=None):
    request = urllib.request.Request(URL + path, data=body, headers=headers or {})
    with urllib.request.urlopen(request) as answer:
        return answer.headers, answer.read()


def classify(picture, query):
    result = json.loads(ask(f"/v2/models/classes/classify?top=1&timeout_ms=600000&{query}", picture)[1])["results"][0]
    return result["predictions"][0]["index"], result["predictions"][0]["probability"], result["decoder"]


def both(picture):
    return classify(picture, "decoder=gpu"), classify(picture, "decoder=cpu&scaled_decoding=0")


def pixels(model, picture, decoder):
    text = json.dumps({
        "parameters": {"decoder": decoder, "scaled_decoding": False, "binary_data_output": True},
        "inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 4 + len(picture)}}],
    }).encode()
    headers, body = ask(f"/v2/models/{model}/infer", text + struct.pack("<I", len(picture)) + picture,
                        {"Inference-Header-Content-Length": str(len(text))})
    head = int(headers["Inference-Header-Content-Length"])
    if json.loads(body[:head])["parameters"]["decoder"] != decoder:
        print(f"  a picture was not decoded by the {decoder}")
    values = memoryview(body[head:]).cast("f")
    return bytes(int(value) for value in values)


def levels(title, model, pictures, pool):
    def differences(picture):
        one, other = (pixels(model, picture, decoder) for decoder in ("gpu", "cpu"))
        counts = [0] * 256
        for a, b in zip(one, other):
            counts[abs(a - b)] += 1
        return counts

    counts = [sum(column) for column in zip(*pool.map(differences, pictures))]
    total = sum(counts)
    square = sum(count * level * level for level, count in enumerate(counts)) / total
    psnr = f"{10 * math.log10(255 * 255 / square):.1f} dB" if square else "infinite"
    print(f"{title}, {len(pictures)} pictures: greatest difference {max(level for level, count in enumerate(counts) if count)} levels, mean "
          f"{sum(count * level for level, count in enumerate(counts)) / total:.3f}, PSNR {psnr}; equal {100 * counts[0] / total:.1f} % of values")


def classes(title, pictures, pool):
    answers = list(pool.map(both, pictures))
    same = sum(gpu[0] == cpu[0] for gpu, cpu in answers)
    sure = [(gpu, cpu) for gpu, cpu in answers if cpu[1] > 0.5]
    apart = sorted(abs(gpu[1] - cpu[1]) for gpu, cpu in answers)
    print(f"{title}, {len(answers)} pictures, {sum(gpu[2] == 'gpu' for gpu, _ in answers)} decoded by the device: the same first class "
          f"{100 * same / len(answers):.2f} % (of {len(sure)} with more than 0.5: {100 * sum(g[0] == c[0] for g, c in sure) / max(len(sure), 1):.2f} %); "
          f"its probability differs by {statistics.median(apart):.5f} in the median, {apart[len(apart) * 95 // 100]:.5f} at most in 95 %")


def main():
    with tarfile.open(ARCHIVE) as files:
        chosen = random.Random(1).sample([file for file in files if file.name.endswith(".jpg")], COUNT)
        labelled = [files.extractfile(file).read() for file in chosen]
    with multiprocessing.Pool() as makers, concurrent.futures.ThreadPoolExecutor(8) as pool:
        small = makers.map(of_500_375, range(LEVELS))
        levels("decoded 500 x 375, 4:2:0, 4:2:2 and 4:4:4", "decoded", small, pool)
        levels("the same, resized to 224 x 224", "resized", small, pool)
        classes("test images, enlarged", makers.map(enlarged, labelled), pool)
        classes("larger pictures made by a program", makers.map(photograph, range(COUNT)), pool)


main()
