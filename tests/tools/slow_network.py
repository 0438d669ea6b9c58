"""Writes a network that takes long on a CPU.

    slow_network.py FILE LAYERS

LAYERS convolutions of 64 channels, 3 x 3, over 112 x 112 pixels: 0.46 billion multiply-adds for each and each image."""
import array
import pathlib
import sys

from hostile_models import attribute, model, node, tensor

CHANNELS, SIDE = 64, 112


def weights(name, *dims):
    count = 1
    for dim in dims:
        count *= dim
    return tensor(name, dims, array.array("f", [(i % 7 - 3) / 100 for i in range(count)]).tobytes())


def conv(number, source, target):
    pads = [attribute("kernel_shape", (3, 3)), attribute("pads", (1, 1, 1, 1))]
    return node("Conv", f"conv{number}", [source, f"w{number}"], [target], pads)


def main():
    layers = int(sys.argv[2])
    nodes = [conv(i, "x" if i == 0 else f"c{i - 1}", f"c{i}") for i in range(layers)]
    nodes += [node("GlobalAveragePool", "pool", [f"c{layers - 1}"], ["p"]), node("Flatten", "flat", ["p"], ["y"])]
    tensors = [weights(f"w{i}", CHANNELS, 3 if i == 0 else CHANNELS, 3, 3) for i in range(layers)]
    pathlib.Path(sys.argv[1]).write_bytes(model(nodes, tensors, (-1, 3, SIDE, SIDE)))


if __name__ == "__main__":
    main()
