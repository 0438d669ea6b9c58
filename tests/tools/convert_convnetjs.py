#!/usr/bin/env python3
"""Turns the text weights of the ConvNetJS CIFAR-10 network into a model folder that convoyd serves.

    python3 tests/tools/convert_convnetjs.py WEIGHTS OUT

WEIGHTS is the folder with layer1_conv.txt, layer4_conv.txt, layer7_conv.txt and layer10_fc.txt; OUT becomes
the model's folder: OUT/1/model.onnx, OUT/config.json, OUT/labels.txt. The network is 32x32x3, three times
(convolution 5x5 pad 2, ReLU, 2x2 max pool) with 16, 20 and 20 maps, a dense layer of 10, softmax; its input
is x / 255 - 0.5.

The text files: a convolution begins with "S R C K"; then for each of K filters, each column s, each row r,
each channel c, one number a line; then K biases. The dense layer begins with "320 10"; then for each output,
each row of 4, each column of 4, each of 20 channels; then 10 biases. ONNX wants K x C x R x S, and flattens C
x H x W: both orders change here.

Python's standard library is enough: the few protobuf messages that a small ONNX file needs are written below.
"""

import json
import pathlib
import struct
import sys

from protobuf import number, text

LABELS = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
# Name, file, and the shape that its first line must state.
CONVOLUTIONS = [
    ("conv1", "layer1_conv.txt", (5, 5, 3, 16)),
    ("conv2", "layer4_conv.txt", (5, 5, 16, 20)),
    ("conv3", "layer7_conv.txt", (5, 5, 20, 20)),
]
DENSE = ("dense", "layer10_fc.txt", (320, 10))
HEIGHT = WIDTH = 4
FLOAT, INT, INTS = 1, 2, 7  # TensorProto.FLOAT; AttributeProto.INT and INTS
IR_VERSION, OPSET = 8, 13


class ConversionError(Exception):
    """One sentence that names the file at fault."""


def read_numbers(path, shape):
    """(weights, biases) of a text file whose first line must be shape; the last number of shape counts the
    biases."""
    try:
        lines = path.read_text(encoding="ascii").split("\n")
    except OSError as error:
        raise ConversionError(f"{path} cannot be read ({error.strerror}).") from error
    try:
        stated = tuple(int(word) for word in lines[0].split())
        numbers = [float(word) for line in lines[1:] for word in line.split()]
    except ValueError as error:
        raise ConversionError(f"{path} holds something that is no number ({error}).") from error
    if stated != shape:
        raise ConversionError(
            f"{path} begins with {lines[0].strip()!r}; {' '.join(map(str, shape))!r} is expected."
        )
    count = 1
    for n in shape:
        count *= n
    if len(numbers) != count + shape[-1]:
        raise ConversionError(
            f"{path} holds {len(numbers)} numbers; {count} weights and {shape[-1]} biases are expected."
        )
    return numbers[:count], numbers[count:]


def to_kcrs(numbers, s_size, r_size, c_size, k_size):
    """From filters of columns of rows of channels to K x C x R x S."""
    return [
        numbers[((k * s_size + s) * r_size + r) * c_size + c]
        for k in range(k_size)
        for c in range(c_size)
        for r in range(r_size)
        for s in range(s_size)
    ]


def to_kchw(numbers, c_size, k_size):
    """From outputs of rows of columns of channels to K x (C x H x W)."""
    return [
        numbers[((k * HEIGHT + h) * WIDTH + w) * c_size + c]
        for k in range(k_size)
        for c in range(c_size)
        for h in range(HEIGHT)
        for w in range(WIDTH)
    ]


def tensor(name, dims, values):
    """A TensorProto of float32, its data little-endian in raw_data."""
    return (
        b"".join(number(1, d) for d in dims)
        + number(2, FLOAT)
        + text(8, name)
        + text(9, struct.pack(f"<{len(values)}f", *values))
    )


def attribute(name, value):
    if isinstance(value, int):
        return text(1, name) + number(3, value) + number(20, INT)
    return text(1, name) + b"".join(number(8, v) for v in value) + number(20, INTS)


def node(op_type, name, inputs, output, **attributes):
    return (
        b"".join(text(1, i) for i in inputs)
        + text(2, output)
        + text(3, name)
        + text(4, op_type)
        + b"".join(text(5, attribute(k, v)) for k, v in attributes.items())
    )


def value_info(name, dims):
    """A ValueInfoProto: a float32 tensor; a dimension that is a string is left open under that name."""
    shape = b"".join(text(1, text(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return text(1, name) + text(2, text(1, number(1, FLOAT) + text(2, shape)))


def build(folder):
    """The ModelProto's bytes."""
    nodes, tensors, last = [], [], "image"
    for index, (name, file, shape) in enumerate(CONVOLUTIONS, 1):
        weights, biases = read_numbers(folder / file, shape)
        s, r, c, k = shape
        tensors += [
            tensor(f"{name}.weight", (k, c, r, s), to_kcrs(weights, *shape)),
            tensor(f"{name}.bias", (k,), biases),
        ]
        nodes += [
            node(
                "Conv",
                name,
                [last, f"{name}.weight", f"{name}.bias"],
                f"{name}.out",
                kernel_shape=[r, s],
                pads=[2, 2, 2, 2],
                strides=[1, 1],
            ),
            node("Relu", f"relu{index}", [f"{name}.out"], f"relu{index}.out"),
            node(
                "MaxPool",
                f"pool{index}",
                [f"relu{index}.out"],
                f"pool{index}.out",
                kernel_shape=[2, 2],
                strides=[2, 2],
            ),
        ]
        last = f"pool{index}.out"
    name, file, shape = DENSE
    weights, biases = read_numbers(folder / file, shape)
    inputs, outputs = shape
    tensors += [
        tensor(f"{name}.weight", (outputs, inputs), to_kchw(weights, inputs // (HEIGHT * WIDTH), outputs)),
        tensor(f"{name}.bias", (outputs,), biases),
    ]
    nodes += [
        node("Flatten", "flatten", [last], "flat", axis=1),
        node("Gemm", name, ["flat", f"{name}.weight", f"{name}.bias"], "logits", transB=1),
        node("Softmax", "softmax", ["logits"], "probabilities", axis=1),
    ]
    graph = (
        b"".join(text(1, n) for n in nodes)
        + text(2, "convnetjs-cifar10")
        + b"".join(text(5, t) for t in tensors)
        + text(11, value_info("image", ("batch", 3, 32, 32)))
        + text(12, value_info("probabilities", ("batch", outputs)))
    )
    return (
        number(1, IR_VERSION)
        + text(2, "convoyd")
        + text(7, graph)
        + text(8, text(1, "") + number(2, OPSET))
    )


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: convert_convnetjs.py WEIGHTS OUT")
    source, out = map(pathlib.Path, sys.argv[1:])
    try:
        model = build(source)
    except ConversionError as error:
        sys.exit(f"convert_convnetjs.py: {error}")
    config = {
        "labels": "labels.txt",
        "input": {
            "color": "rgb",
            "resize": "stretch",
            "scale": 1.0 / 255.0,
            "mean": [0.5] * 3,
            "std": [1.0] * 3,
        },
        "output": {"softmax": "auto"},
        "precision": "fp32",
        "batching": {"max_batch": 256, "max_delay_us": 500},
    }
    (out / "1").mkdir(parents=True, exist_ok=True)
    (out / "1" / "model.onnx").write_bytes(model)
    (out / "config.json").write_text(json.dumps(config, indent=4) + "\n")
    (out / "labels.txt").write_text("".join(f"{label}\n" for label in LABELS))


if __name__ == "__main__":
    main()
