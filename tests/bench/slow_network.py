#!/usr/bin/env python3
"""Writes a network that keeps a CPU busy: a model repository with one model, slow.

    slow_network.py FOLDER LAYERS

LAYERS convolutions of 3 x 3 over 64 channels of 32 x 32 pixels: 38 million multiplications each for an image.
The weights are small random numbers: zeros might be computed faster than what a real network holds.
"""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from hostile_models import attribute, model, node, tensor  # noqa: E402

CHANNELS = 64


def weights(chance, out, given):
    count = out * given * 9
    raw = struct.pack(f"<{count}f", *(chance.gauss(0, (2 / (given * 9)) ** 0.5) for _ in range(count)))
    return (out, given, 3, 3), raw


def main():
    folder, layers = pathlib.Path(sys.argv[1]) / "slow" / "1", int(sys.argv[2])
    chance = random.Random(1)
    nodes, tensors, last, given = [], [], "x", 3
    for i in range(layers + 1):
        out = 10 if i == layers else CHANNELS
        dims, raw = weights(chance, out, given)
        tensors.append(tensor(f"w{i}", dims, raw))
        pads = [attribute("kernel_shape", (3, 3)), attribute("pads", (1, 1, 1, 1))]
        nodes += [node("Conv", f"conv{i}", [last, f"w{i}"], [f"c{i}"], pads)]
        nodes += [node("Relu", f"relu{i}", [f"c{i}"], [f"r{i}"])]
        last, given = f"r{i}", out
    nodes += [node("GlobalAveragePool", "pool", [last], ["p"]), node("Flatten", "flat", ["p"], ["y"])]
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model(nodes, tensors, given=(-1, 3, 32, 32)))


if __name__ == "__main__":
    main()
