#!/usr/bin/env python3
"""What ONNX Runtime answers for the images of a tar archive, to compare convoyd with.

    onnxruntime_archive.py MODEL-FOLDER ARCHIVE OUT [BELOW]

Reads MODEL-FOLDER/config.json (color, scale, mean, std) and MODEL-FOLDER/1/model.onnx; decodes and resizes with
Pillow. OUT gets "path index lead" lines in the archive's order: what classify_archive.py writes, and by how much the
first logit leads the second. BELOW takes the images numbered below it alone. Needs onnxruntime, NumPy and Pillow.
"""

import io
import json
import pathlib
import sys

import numpy as np
import onnxruntime
from classify_archive import read_archive
from PIL import Image

BATCH = 50


def read_pixels(data, mode, height, width):
    """float32 H x W x C, 0 to 255"""
    image = Image.open(io.BytesIO(data)).convert(mode)
    if image.size != (width, height):
        image = image.resize((width, height), Image.BILINEAR)
    return np.asarray(image, dtype=np.float32).reshape(height, width, -1)


def main():
    folder, archive, out = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    below = int(sys.argv[4]) if len(sys.argv) > 4 else 1 << 30
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["input"]
    mode = {"rgb": "RGB", "grey": "L"}[config["color"]]
    session = onnxruntime.InferenceSession(
        str(folder / "1" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    network_input = session.get_inputs()[0]
    height, width = network_input.shape[2:]
    images = read_archive(archive, below)
    rows = [read_pixels(data, mode, height, width) for _, data in images]
    mean, std = (np.array(config[key], dtype=np.float32) for key in ("mean", "std"))
    with open(out, "w", encoding="utf-8") as file:
        for start in range(0, len(rows), BATCH):
            batch = (np.stack(rows[start : start + BATCH]) * np.float32(config["scale"]) - mean) / std
            scores = session.run(None, {network_input.name: batch.transpose(0, 3, 1, 2)})[0]
            best = np.sort(scores, axis=1)[:, -2:]
            for (name, _), row, (second, first) in zip(images[start : start + BATCH], scores, best):
                file.write(f"{name} {row.argmax()} {first - second:.6f}\n")


if __name__ == "__main__":
    main()
