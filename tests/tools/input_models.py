"""Writes one small network with its input declared in every way that convoyd reads, and some that it must refuse.

    input_models.py FOLDER

FOLDER/good/NAME and FOLDER/bad/NAME are model folders. NAME of a bad one is in REFUSED with what the refusal must say.
Needs NumPy. The network: 3 x 3 convolution, ReLU, mean over the image; SIDES, WEIGHTS, BIAS, MEAN and STD are here for
a reference (input_check.py)."""
import json
import pathlib
import sys

import numpy

from hostile_models import FLOAT, attribute, model, node, tensor, whole

UINT8, FLOAT16, INT32 = 2, 10, 6
CHANNELS, HEIGHT, WIDTH, CLASSES = 3, 12, 10, 6
_chance = numpy.random.default_rng(5)
WEIGHTS = {c: _chance.normal(0, 1, (CLASSES, c, 3, 3)).astype(numpy.float32) for c in (3, 4)}
BIAS = _chance.normal(0, 1, CLASSES).astype(numpy.float32)
MEAN = numpy.array([0.3, 0.4, 0.5], numpy.float32)
STD = numpy.array([0.2, 0.25, 0.3], numpy.float32)
NORMAL = {"mean": [float(x) for x in MEAN], "std": [float(x) for x in STD]}

NCHW, NHWC = (-1, CHANNELS, HEIGHT, WIDTH), (-1, HEIGHT, WIDTH, CHANNELS)
TO_PLANES = (0, 3, 1, 2)
# Networks that answer with their input.
PIXELS = ("rgba", "bgra", "rgba-padded", "rgba-nearest", "pixels-by-shape", "pixels-forced")


def floats(name, values):
    values = numpy.asarray(values, numpy.float32)
    return tensor(name, values.shape, values.tobytes())


def cast(source, target):
    return node("Cast", "cast", [source], [target], [whole("to", FLOAT)])


def transpose(source, target, perm=TO_PLANES):
    return node("Transpose", "turn", [source], [target], [attribute("perm", perm)])


def tail(source):
    return [
        node("Conv", "conv", [source, "w", "b"], ["c"], [attribute("kernel_shape", (3, 3))]),
        node("Relu", "relu", ["c"], ["r"]),
        node("GlobalAveragePool", "pool", ["r"], ["p"]),
        node("Flatten", "flat", ["p"], ["y"]),
    ]


def weights(channels=CHANNELS):
    return [floats("w", WEIGHTS[channels]), floats("b", BIAS)]


def normalise(source, target, last):
    """What the float networks leave to the configuration, for a constant's channels in the last axis or the first."""
    shape = (CHANNELS,) if last else (CHANNELS, 1, 1)
    nodes = [
        node("Mul", "scale", [source, "s"], [target + "1"]),
        node("Sub", "mean", [target + "1", "m"], [target + "2"]),
        node("Div", "std", [target + "2", "d"], [target]),
    ]
    scale = numpy.float32(1 / 255).reshape(1)
    return nodes, [floats("s", scale), floats("m", MEAN.reshape(shape)), floats("d", STD.reshape(shape))]


def networks():
    """name: (bytes of the file, "input" of config.json)"""
    inside_planes, planes_constants = normalise("f", "n", False)
    inside_pixels, pixels_constants = normalise("f", "n", True)
    later_pixels, _ = normalise("x", "n", True)
    size, plain, flat = {"height": HEIGHT, "width": WIDTH}, weights(), [node("Flatten", "flat", ["x"], ["y"])]
    return {
        "nchw": (model(tail("x"), plain, NCHW), NORMAL),
        "nchw-fixed": (model(tail("x"), plain, (1, CHANNELS, HEIGHT, WIDTH)), NORMAL),
        "nhwc": (model([transpose("x", "t")] + tail("t"), plain, NHWC), NORMAL),
        "nhwc-fixed": (model([transpose("x", "t")] + tail("t"), plain, (2, HEIGHT, WIDTH, CHANNELS)), NORMAL),
        "fp16": (model([cast("x", "f")] + tail("f"), plain, NCHW, kind=FLOAT16), NORMAL),
        "fp16-nhwc": (model([cast("x", "f"), transpose("f", "t")] + tail("t"), plain, NHWC, kind=FLOAT16), NORMAL),
        "uint8": (model([cast("x", "f")] + inside_planes + tail("n"), plain + planes_constants, NCHW, kind=UINT8), {}),
        "uint8-nhwc": (
            model([cast("x", "f")] + inside_pixels + [transpose("n", "t")] + tail("t"), plain + pixels_constants, NHWC, kind=UINT8),
            {},
        ),
        "uint8-turned-first": (
            model([transpose("x", "t"), cast("t", "f")] + inside_planes + tail("n"), plain + planes_constants, NHWC, kind=UINT8),
            {},
        ),
        # Pixels are normalised where the configuration says so.
        "uint8-configured": (model([cast("x", "f")] + tail("f"), plain, NCHW, kind=UINT8), NORMAL),
        "nhwc-inside": (
            model(later_pixels + [transpose("n", "t")] + tail("t"), plain + pixels_constants, NHWC),
            {"preset": "none"},
        ),
        "open": (model(tail("x"), plain, (-1, -1, -1, -1)), {**NORMAL, **size}),
        "open-width": (model(tail("x"), plain, (-1, CHANNELS, HEIGHT, -1)), {**NORMAL, "width": WIDTH}),
        # A slot for rows of the others has no room for one of this: its size must be known before slots are made.
        "open-large": (model(tail("x"), plain, (-1, CHANNELS, -1, -1)), {**NORMAL, "height": 400, "width": 500}),
        "open-nhwc": (model([transpose("x", "t")] + tail("t"), plain, (-1, -1, -1, CHANNELS)), {**NORMAL, **size}),
        "bgr-nhwc": (
            model([transpose("x", "t")] + tail("t"), [floats("w", WEIGHTS[3][:, ::-1]), floats("b", BIAS)], NHWC),
            {"color": "bgr", "mean": NORMAL["mean"][::-1], "std": NORMAL["std"][::-1]},
        ),
        # As pixels are, to see what a picture becomes; the axes told by the shape alone, and forced against it.
        "pixels-by-shape": (model(flat, given=NHWC), {"scale": 1}),
        "pixels-forced": (model(flat, given=(-1, 4, 5, CHANNELS)), {"scale": 1, "layout": "nhwc"}),
        "planes-forced": (model(flat, given=NHWC), {"layout": "nchw"}),
        "rgba": (model(flat, given=(-1, 4, HEIGHT, WIDTH)), {"scale": 1}),
        "bgra": (model(flat, given=(-1, 4, HEIGHT, WIDTH)), {"scale": 1, "color": "bgr"}),
        "rgba-padded": (
            model(flat, given=(-1, 4, HEIGHT, WIDTH)),
            {"scale": 1, "resize": "pad", "pad_color": [10, 20, 30], "interpolation": "bicubic"},
        ),
        "rgba-nearest": (
            model(flat, given=(-1, 4, HEIGHT, WIDTH)),
            {"scale": 1, "resize": "crop", "interpolation": "nearest"},
        ),
        "rgba-network": (
            model([transpose("x", "t")] + tail("t"), weights(4), (-1, HEIGHT, WIDTH, 4)),
            {"mean": NORMAL["mean"] + [0.6], "std": NORMAL["std"] + [0.7]},
        ),
    }


def refused():
    """name: (bytes of the file, "input" of config.json, what the refusal says)"""
    plain, flat = weights(), [node("Flatten", "flat", ["x"], ["y"])]
    open_size = (-1, CHANNELS, -1, -1)
    return {
        "open": (
            model(tail("x"), plain, open_size),
            {},
            "the height and width of input 'x' open; to serve the model, give input.height and input.width in its config.json",
        ),
        "open-width": (model(tail("x"), plain, open_size), {"height": 9}, "the width of input 'x' open; to serve the model, give input.width in"),
        "other-height": (
            model(tail("x"), plain, NCHW),
            {"height": 11},
            "input.height of 11, but the file fixes the height of input 'x' to 12",
        ),
        "other-width": (
            model([transpose("x", "t")] + tail("t"), plain, NHWC),
            {"height": HEIGHT, "width": 11},
            "input.width of 11, but the file fixes the width of input 'x' to 10",
        ),
        "flat": (model(flat, given=(-1, 30)), {"layout": "nhwc"}, "input.layout, but input 'x' has 2 dimensions"),
        "flat-height": (model(flat, given=(-1, 30)), {"height": 30}, "input.height, but input 'x' has 2 dimensions"),
        "wrong-layout": (
            model([transpose("x", "t")] + tail("t"), plain, NHWC),
            {"layout": "hwc"},
            'input.layout must be "auto", "nchw" or "nhwc"',
        ),
        "height-0": (
            model(tail("x"), plain, open_size),
            {"height": 0, "width": 4},
            "input.height must be an integer from 1 to 65535",
        ),
        "int32": (
            model([cast("x", "f")] + tail("f"), plain, NCHW, kind=INT32),
            {},
            "is of type int32, convoyd takes float32, float16 and uint8",
        ),
        "uint8-sum": (
            model([node("Add", "sum", ["x", "x"], ["z"]), cast("z", "f")] + tail("f"), plain, NCHW, kind=UINT8),
            {},
            "it computes on 'x', which is uint8",
        ),
        "uint8-wide": (
            model([cast("x", "f"), node("Flatten", "flat", ["f"], ["y"])], given=(-1, 5, 6, 7), kind=UINT8),
            {},
            "is uint8 and has 5 channels",
        ),
        "rgba-mean": (
            model(flat, given=(-1, 4, HEIGHT, WIDTH)),
            NORMAL,
            "input.mean has 3 values, but the network reads 4 x 12 x 10",
        ),
        "rgba-grey": (model(flat, given=(-1, 4, HEIGHT, WIDTH)), {"color": "grey"}, 'input.color is "grey" (1 channels)'),
    }


def main():
    for kind, networks_of_kind in (("good", networks()), ("bad", refused())):
        for name, (data, given, *_) in networks_of_kind.items():
            folder = pathlib.Path(sys.argv[1]) / kind / name
            (folder / "1").mkdir(parents=True)
            (folder / "1" / "model.onnx").write_bytes(data)
            output = {"activation": "none"} if name in PIXELS else {}
            (folder / "config.json").write_text(json.dumps({"input": given, "output": output}))


if __name__ == "__main__":
    main()
