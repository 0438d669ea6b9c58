"""Writes small networks that have class activation maps, and some that have none.

    explain_models.py FOLDER [NAME...]

FOLDER/NAME is a model folder, for all or those that are named. Needs NumPy. NETWORKS says what a reference
(explain_check.py) must know of those that have maps, REFUSED what the refusal of the others must say."""
import json
import pathlib
import sys

import numpy

from hostile_models import attribute, model, node, whole
from input_models import MEAN, NORMAL, STD, floats

CHANNELS, FEATURES, CLASSES = 3, 6, 10
_chance = numpy.random.default_rng(3)
FILTERS = _chance.normal(0, 1, (FEATURES, CHANNELS, 3, 3)).astype(numpy.float32)
BIAS = _chance.normal(0, 1, FEATURES).astype(numpy.float32)
DENSE = _chance.normal(0, 1, (CLASSES, FEATURES)).astype(numpy.float32)
DENSE_BIAS = _chance.normal(0, 1, CLASSES).astype(numpy.float32)

# name: input's height and width, stride of the convolution, whether there is a dense layer, "input" of config.json
NETWORKS = {
    "dense": (12, 10, 1, True, {}),
    "softmax": (12, 10, 1, True, {}),
    "sigmoid": (12, 10, 1, True, {}),
    "convolution": (12, 10, 1, True, {}),
    "product": (12, 10, 1, True, {}),
    "mean": (16, 24, 2, True, {"resize": "crop"}),
    "channels": (12, 10, 1, False, {"resize": "pad"}),
    "pixels": (12, 10, 1, True, {}),
    "last": (12, 10, 1, True, {}),
    "turned": (12, 10, 1, True, {}),
    "two": (12, 10, 1, True, {}),
    "large": (400, 500, 8, True, {}),
}
REFUSED = {
    "flat": "which reads node 'relu' (Relu), not a global average pooling",
    "greatest": "which reads node 'pool' (GlobalMaxPool), not a global average pooling",
    "bent": "which reads node 'tanh' (Tanh), not a global average pooling",
    "wide": "its maps of 65 x 64 for 10 classes are too large",
}


def conv(source, stride=1):
    attributes = [attribute("kernel_shape", (3, 3)), attribute("pads", (1, 1, 1, 1)), attribute("strides", (stride, stride))]
    return [node("Conv", "conv", [source, "w", "b"], ["c"], attributes), node("Relu", "relu", ["c"], ["r"])]


def gemm(source, target):
    return node("Gemm", "fc", [source, "d", "e"], [target], [whole("transB", 1)])


def averaged(target="f"):
    return [node("GlobalAveragePool", "pool", ["r"], ["p"]), node("Flatten", "flat", ["p"], [target])]


def tail(name):
    """From the features r to the output y, and the constants for that."""
    dense = [floats("d", DENSE), floats("e", DENSE_BIAS)]
    if name == "channels":
        return averaged("y"), []
    if name == "softmax":
        return averaged() + [gemm("f", "s"), node("Softmax", "softmax", ["s"], ["y"])], dense
    if name == "sigmoid":
        return averaged() + [gemm("f", "s"), node("Sigmoid", "sigmoid", ["s"], ["y"])], dense
    if name == "convolution":
        classes = node("Conv", "fc", ["p", "d", "e"], ["s"], [attribute("kernel_shape", (1, 1))])
        nodes = averaged()[:1] + [classes, node("Flatten", "flat", ["s"], ["y"])]
        return nodes, [floats("d", DENSE[:, :, None, None]), floats("e", DENSE_BIAS)]
    if name == "product":
        nodes = averaged() + [node("MatMul", "fc", ["f", "d"], ["s"]), node("Add", "bias", ["s", "e"], ["y"])]
        return nodes, [floats("d", DENSE.T.copy()), floats("e", DENSE_BIAS)]
    if name == "mean":
        mean = node("ReduceMean", "mean", ["r"], ["f"], [attribute("axes", (2, 3)), whole("keepdims", 0)])
        return [mean, gemm("f", "y")], dense
    if name == "last": # as exporters of networks write it whose channels are the last
        turn = node("Transpose", "turn2", ["r"], ["n"], [attribute("perm", (0, 2, 3, 1))])
        mean = node("ReduceMean", "mean", ["n"], ["f"], [attribute("axes", (1, 2)), whole("keepdims", 0)])
        return [turn, mean, gemm("f", "y")], dense
    if name == "turned":
        turn = node("Transpose", "turn2", ["p"], ["q"], [attribute("perm", (0, 2, 3, 1))])
        return averaged()[:1] + [turn, node("Flatten", "flat", ["q"], ["f"]), gemm("f", "y")], dense
    if name == "flat":
        wide = numpy.resize(DENSE, (CLASSES, FEATURES * 12 * 10))
        return [node("Flatten", "flat", ["r"], ["f"]), gemm("f", "y")], [floats("d", wide), floats("e", DENSE_BIAS)]
    if name == "greatest":
        return [node("GlobalMaxPool", "pool", ["r"], ["p"]), node("Flatten", "flat", ["p"], ["f"]), gemm("f", "y")], dense
    if name == "bent":
        return averaged("g") + [node("Tanh", "tanh", ["g"], ["f"]), gemm("f", "y")], dense
    return averaged() + [gemm("f", "y")], dense


def network(name):
    """The bytes of the file."""
    height, width, stride = NETWORKS[name][:3] if name in NETWORKS else (65, 64, 1) if name == "wide" else (12, 10, 1)
    nodes, constants = tail(name)
    given, source = (-1, CHANNELS, height, width), "x"
    before = []
    if name in ("pixels", "last"):
        given, source = (-1, height, width, CHANNELS), "t"
        before = [node("Transpose", "turn", ["x"], ["t"], [attribute("perm", (0, 3, 1, 2))])]
    if name == "two":
        nodes = nodes + [node("Neg", "neg", ["f"], ["z"])]
    constants = [floats("w", FILTERS), floats("b", BIAS)] + constants
    return model(before + conv(source, stride) + nodes, constants, given, outputs=("y", "z") if name == "two" else ("y",))


def main():
    for name in sys.argv[2:] or [*NETWORKS, *REFUSED]:
        folder = pathlib.Path(sys.argv[1]) / name
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "model.onnx").write_bytes(network(name))
        given = {**NORMAL, **(NETWORKS[name][4] if name in NETWORKS else {})}
        (folder / "config.json").write_text(json.dumps({"input": given}))


if __name__ == "__main__":
    main()
