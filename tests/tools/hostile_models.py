#!/usr/bin/env python3
"""Writes a repository of models that must not be served, and one small model that must be.

    hostile_models.py FOLDER SOUND-MODEL.onnx

FOLDER/NAME/1/model.onnx for each; prints, for each that must fail, its name and a pattern (of Python's re)
that the reason must fit, separated by a space. The files are written field by field (onnx.proto has the
numbers), as no library would write them.
"""

import pathlib
import sys

from protobuf import number, text, varint

FLOAT = 1


def tensor(name, dims, raw=b"", extra=b""):
    return (
        b"".join(number(1, d) for d in dims)
        + number(2, FLOAT)
        + text(8, name)
        + (text(9, raw) if raw else b"")
        + extra
    )


def attribute(name, values):
    return text(1, name) + b"".join(number(8, v) for v in values) + number(20, 7)


def whole(name, value):
    """An attribute that is one whole number."""
    return text(1, name) + number(3, value) + number(20, 2)


def node(kind, name, inputs, outputs, attributes=()):
    return (
        b"".join(text(1, i) for i in inputs)
        + b"".join(text(2, o) for o in outputs)
        + text(3, name)
        + text(4, kind)
        + b"".join(text(5, a) for a in attributes)
    )


def value(name, dims, kind=FLOAT):
    shape = b"".join(text(1, number(1, d) if d >= 0 else text(2, "N")) for d in dims)
    return text(1, name) + text(2, text(1, number(1, kind) + text(2, shape)))


def model(nodes, tensors=(), given=(-1, 3, 8, 8), outputs=("y",), kind=FLOAT):
    graph = (
        b"".join(text(1, n) for n in nodes)
        + text(2, "graph")
        + b"".join(text(5, t) for t in tensors)
        + text(11, value("x", given, kind))
        + b"".join(text(12, value(output, (-1, 10))) for output in outputs)
    )
    return number(1, 8) + text(8, text(1, "") + number(2, 13)) + text(7, graph)


def weights(dims):
    count = 1
    for d in dims:
        count *= d
    return bytes(4 * count)


def conv(name="the_conv", kernel=(3, 3)):
    return node("Conv", name, ["x", "w"], ["c"], [attribute("kernel_shape", kernel)])


TAIL = [node("GlobalAveragePool", "pool", ["c"], ["p"]), node("Flatten", "flat", ["p"], ["y"])]


def nested(depth):
    """Graphs in attributes of nodes of graphs."""
    inner = b""
    for _ in range(depth):
        inner = text(1, text(4, "If") + text(5, text(1, "a") + text(6, inner) + number(20, 5)))
    return number(1, 8) + text(7, inner)


def outside(location):
    """A weight whose bytes lie in another file."""
    extra = text(13, text(1, "location") + text(2, location)) + number(14, 1)
    return model([conv()] + TAIL, [tensor("w", (10, 3, 3, 3), extra=extra)])


def hostile(sound):
    """name: (bytes, pattern)"""
    good = tensor("w", (10, 3, 3, 3), weights((10, 3, 3, 3)))
    return {
        "empty": (b"", ""),
        "text": (b"this is not a model\n" * 50, ""),
        "cut": (sound[: len(sound) // 2], ""),
        "cut-late": (sound[:-3], ""),
        "nested": (nested(5000), "nest|deep"),
        "past-the-end": (number(1, 8) + varint(7 << 3 | 2) + varint(1 << 40) + b"x" * 100, ""),
        "endless-number": (b"\xff" * 500, ""),
        "unknown-operator": (
            model([conv(), node("Frobnicate", "the_odd_one", ["c"], ["y"])], [good]),
            "Frobnicate.*the_odd_one|the_odd_one.*Frobnicate",
        ),
        "channels": (
            model([conv()] + TAIL, [tensor("w", (10, 4, 3, 3), weights((10, 4, 3, 3)))]),
            "the_conv",
        ),
        "too-wide": (
            model([conv(kernel=(99, 99))] + TAIL, [tensor("w", (10, 3, 99, 99), weights((10, 3, 99, 99)))]),
            "the_conv",
        ),
        "huge": (model([conv()] + TAIL, [tensor("w", (1 << 40, 1 << 40, 3, 3), b"1234")]), "w"),
        "overflow": (model([conv()] + TAIL, [tensor("w", (1 << 32, 1 << 32, 1, 1), b"1234")]), "w"),
        "negative": (model([conv()] + TAIL, [tensor("w", (-10, 3, 3, 3), b"1234")]), "w"),
        "short": (model([conv()] + TAIL, [tensor("w", (10, 3, 3, 3), b"1234")]), "w"),
        "huge-input": (model([conv()] + TAIL, [good], given=(-1, 3, 1 << 30, 1 << 30)), ""),
        "missing-input": (model([node("Relu", "the_orphan", ["nowhere"], ["y"])]), "the_orphan|nowhere"),
        "missing-output": (model([conv()] + TAIL, [good], outputs=("nothing",)), "nothing"),
        "circle": (
            model(
                [
                    node("Add", "one", ["x", "b"], ["a"]),
                    node("Add", "two", ["x", "a"], ["b"]),
                    node("Flatten", "f", ["b"], ["y"]),
                ]
            ),
            "cycle: .(a|b). depends",
        ),
        "outside": (outside("../../../../../../../../etc/passwd"), "passwd|outside|folder"),
        "absolute": (outside("/etc/passwd"), "passwd|outside|folder"),
        "elsewhere": (outside("missing.bin"), "missing.bin"),
    }


def main():
    folder, sound = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_bytes()
    small = model([conv()] + TAIL, [tensor("w", (10, 3, 3, 3), weights((10, 3, 3, 3)))])
    for name, (data, pattern) in {**hostile(sound), "small": (small, None)}.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "1" / "model.onnx").write_bytes(data)
        if pattern is not None:
            print(name, pattern)


if __name__ == "__main__":
    main()
