#!/usr/bin/env python3
"""Writes small training data of noise, laid out like the real ones, for tests of models/train.py.

    training_data.py FOLDER

FOLDER/cifar10-jpg/SPLIT/CLASS/N.jpg (32 x 32) and FOLDER/fashion-mnist/SPLIT-{images-idx3,labels-idx1}-ubyte.gz
(28 x 28), three images a class. Needs Pillow.
"""

import gzip
import pathlib
import random
import sys

from PIL import Image

CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()
EACH = 3


def idx(path, shape, data):
    head = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape)
    path.write_bytes(gzip.compress(head + data))


def main():
    folder = pathlib.Path(sys.argv[1])
    noise = random.Random(1)
    (folder / "fashion-mnist").mkdir(parents=True)
    for split in ("train", "test"):
        for name in CLASSES:
            images = folder / "cifar10-jpg" / split / name
            images.mkdir(parents=True)
            for i in range(EACH):
                Image.frombytes("RGB", (32, 32), noise.randbytes(3 * 32 * 32)).save(images / f"{i}.jpg")
        labels = bytes(range(len(CLASSES))) * EACH
        files = folder / "fashion-mnist"
        idx(files / f"{split}-images-idx3-ubyte.gz", (len(labels), 28, 28), noise.randbytes(784 * len(labels)))
        idx(files / f"{split}-labels-idx1-ubyte.gz", (len(labels),), labels)


if __name__ == "__main__":
    main()
