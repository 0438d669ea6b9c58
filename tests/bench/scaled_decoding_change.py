#!/usr/bin/env python3
"""scaled_decoding_change.py URL MODEL ARCHIVE: what images.scaled_decoding changes. 1,000 of ARCHIVE's labelled test images are
enlarged to pictures of 300 to 1,500 pixels, sharpened and given noise, so that they have detail that a photograph has,
and classified twice, whole (scaled_decoding=0) and as the daemon is configured. Prints how often the first class is the
same, how often each is right, and by how much the probability of the first class differs."""

import io
import json
import random
import statistics
import sys
import tarfile
import urllib.request

from PIL import Image, ImageChops, ImageFilter

COUNT = 1000


def enlarge(image, chance):
    width = chance.randrange(300, 1501)
    size = width, max(width * chance.randrange(60, 141) // 100, 300)
    large = image.convert("RGB").resize(size, Image.LANCZOS).filter(ImageFilter.SHARPEN)
    noise = Image.merge("RGB", [Image.effect_noise(size, 12) for _ in range(3)])
    file = io.BytesIO()
    ImageChops.add(large, noise, 1, -128).save(file, "JPEG", quality=88)
    return file.getvalue()


def classify(url, model, picture, query):
    request = urllib.request.Request(f"{url}/classify?model={model}&top=1{query}", data=picture)
    with urllib.request.urlopen(request) as answer:
        first = json.load(answer)["results"][0]["predictions"][0]
    return first["label"], first["probability"]


def main():
    url, model, archive = sys.argv[1:]
    chance = random.Random(1)
    same, right_whole, right, differences = 0, 0, 0, []
    with tarfile.open(archive) as files:
        images = [file for file in files if file.name.endswith(".jpg")]
        for file in chance.sample(images, COUNT):
            picture = enlarge(Image.open(files.extractfile(file)), chance)
            whole, in_part = (classify(url, model, picture, query) for query in ("&scaled_decoding=0", ""))
            same += whole[0] == in_part[0]
            right_whole += whole[0] in file.name
            right += in_part[0] in file.name
            differences.append(abs(whole[1] - in_part[1]))
    differences.sort()
    print(
        f"{COUNT} pictures: the same first class {same}; right whole {right_whole}, in part {right}; its probability differs by "
        f"{statistics.median(differences):.4f} in the median, {differences[COUNT * 95 // 100]:.4f} at most in 95 %"
    )


main()
