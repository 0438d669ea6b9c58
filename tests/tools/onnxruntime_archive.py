#!/usr/bin/env python3
"""What ONNX Runtime answers for the images of a tar archive, to compare convoyd with.

    onnxruntime_archive.py MODEL-FOLDER ARCHIVE OUT

Reads MODEL-FOLDER/config.json (scale, mean, std) and MODEL-FOLDER/1/model.onnx; decodes with Pillow. OUT gets
"path index" lines in the archive's order, as classify_archive.py writes them. Needs onnxruntime, NumPy and Pillow.
"""

import io
import json
import pathlib
import sys
import tarfile

import numpy as np
import onnxruntime
from PIL import Image

BATCH = 250


def read_pixels(data, height, width):
    image = Image.open(io.BytesIO(data)).convert("RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.BILINEAR)
    return np.asarray(image, dtype=np.float32)


def main():
    folder, archive, out = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["input"]
    session = onnxruntime.InferenceSession(
        str(folder / "1" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    network_input = session.get_inputs()[0]
    height, width = network_input.shape[2:]
    names, rows = [], []
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and member.name.endswith(".jpg"):
                names.append(member.name)
                rows.append(read_pixels(tar.extractfile(member).read(), height, width))
    mean, std = (np.array(config[key], dtype=np.float32) for key in ("mean", "std"))
    with open(out, "w", encoding="utf-8") as file:
        for start in range(0, len(rows), BATCH):
            batch = (np.stack(rows[start : start + BATCH]) * np.float32(config["scale"]) - mean) / std
            scores = session.run(None, {network_input.name: batch.transpose(0, 3, 1, 2)})[0]
            for name, index in zip(names[start : start + BATCH], scores.argmax(axis=1)):
                file.write(f"{name} {index}\n")


if __name__ == "__main__":
    main()
