"""Asks a daemon that serves the networks of input_models.py, and compares with NumPy and Pillow.

    input_check.py URL"""
import base64
import io
import json
import struct
import sys
import urllib.error
import urllib.request

import numpy
from PIL import Image, ImageOps

from input_models import BIAS, CHANNELS, CLASSES, HEIGHT, MEAN, STD, WEIGHTS, WIDTH

url = sys.argv[1]
chance = numpy.random.default_rng(11)


def ask(path, body=None, headers=None, status=200):
    request = urllib.request.Request(url + path, data=body, headers=headers or {})
    try:
        with urllib.request.urlopen(request) as answer:
            got, data, answered = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        got, data, answered = error.code, error.read(), error.headers
    if got != status:
        sys.exit(f"{path}: {got}, expected {status}: {data[:300]}")
    length = answered.get("Inference-Header-Content-Length")
    return (json.loads(data[: int(length)]), data[int(length):]) if length else json.loads(data)


def near(what, got, expected, tolerance=1e-4):
    got, expected = numpy.asarray(got, numpy.float64), numpy.asarray(expected, numpy.float64)
    if got.shape != expected.shape or not numpy.all(numpy.abs(got - expected) <= tolerance):
        sys.exit(f"{what}: {got.ravel()[:8]} {got.shape}, expected {expected.ravel()[:8]} {expected.shape}")


def file_of(image, kind="PNG"):
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def logits(planes):
    """The network's outputs for an image of C x H x W, in float64."""
    weights = WEIGHTS[len(planes)].astype(numpy.float64)
    views = numpy.lib.stride_tricks.sliding_window_view(planes.astype(numpy.float64), (3, 3), axis=(1, 2))
    out = numpy.einsum("chwrs,kcrs->khw", views, weights) + BIAS[:, None, None]
    return numpy.maximum(out, 0).mean(axis=(1, 2))


def softmax(values):
    powers = numpy.exp(values - values.max())
    return powers / powers.sum()


def normalised(pixels):
    """H x W x 3 of bytes to C x H x W."""
    return ((pixels / 255.0 - MEAN) / STD).transpose(2, 0, 1)


def classify(model, file, count=CLASSES):
    predictions = ask(f"/v2/models/{model}/classify?top={count}", file)["results"][0]["predictions"]
    found = numpy.zeros(count)
    for p in predictions:
        found[p["index"]] = p["probability"]
    return found


def infer(model, datatype, values):
    """The outputs for a tensor that is sent as JSON, as binary data and, where it may be, raw; all three must agree."""
    form = {"name": "x", "datatype": datatype, "shape": list(values.shape)}
    path = f"/v2/models/{model}/infer"
    as_json = ask(path, json.dumps({"inputs": [{**form, "data": values.ravel().tolist()}]}).encode())
    found = numpy.array(as_json["outputs"][0]["data"]).reshape(as_json["outputs"][0]["shape"])
    header = json.dumps({"inputs": [{**form, "parameters": {"binary_data_size": values.nbytes}}]}).encode()
    binary = ask(path, header + values.tobytes(), {"Inference-Header-Content-Length": str(len(header))})
    near(f"{model}: binary data beside JSON", numpy.array(binary["outputs"][0]["data"]).reshape(found.shape), found, 1e-6)
    return found


def infer_raw(model, values):
    answer, data = ask(f"/v2/models/{model}/infer", values.tobytes(), {"Inference-Header-Content-Length": "0"})
    return numpy.frombuffer(data, numpy.float32).reshape(answer["outputs"][0]["shape"])


def declared(model, datatype, shape):
    told = ask(f"/v2/models/{model}")["inputs"]
    if told != [{"name": "x", "datatype": datatype, "shape": [-1, *shape]}]:
        sys.exit(f"{model}: metadata {told}")
    told = ask(f"/v2/models/{model}/config")["input"]
    format_ = "FORMAT_NHWC" if shape[-1] in (3, 4) and model != "planes-forced" else "FORMAT_NCHW"
    if told != [{"name": "x", "data_type": f"TYPE_{datatype}", "format": format_, "dims": list(shape)}]:
        sys.exit(f"{model}: configuration {told}")


planes_shape, pixels_shape = (CHANNELS, HEIGHT, WIDTH), (HEIGHT, WIDTH, CHANNELS)
twins = {
    "nchw": ("FP32", planes_shape), "nchw-fixed": ("FP32", planes_shape), "open": ("FP32", planes_shape),
    "open-width": ("FP32", planes_shape), "nhwc": ("FP32", pixels_shape), "nhwc-fixed": ("FP32", pixels_shape),
    "nhwc-inside": ("FP32", pixels_shape), "open-nhwc": ("FP32", pixels_shape), "bgr-nhwc": ("FP32", pixels_shape),
    "fp16": ("FP16", planes_shape), "fp16-nhwc": ("FP16", pixels_shape), "uint8": ("UINT8", planes_shape),
    "uint8-nhwc": ("UINT8", pixels_shape), "uint8-turned-first": ("UINT8", pixels_shape),
    "uint8-configured": ("UINT8", planes_shape),
}

print("The same picture gives the same probabilities, whatever the network's input.")
for size in ((WIDTH, HEIGHT), (33, 21)):
    image = Image.fromarray(chance.integers(0, 256, (size[1], size[0], 3), dtype=numpy.uint8))
    pixels = numpy.asarray(image.resize((WIDTH, HEIGHT), Image.BILINEAR))
    for model in twins:
        # Resized pixels may be a level from Pillow's.
        tolerance = 1e-5 if size == (WIDTH, HEIGHT) else 2e-3
        near(f"{model}, {size}", classify(model, file_of(image)), softmax(logits(normalised(pixels))), tolerance)

pixels = chance.integers(0, 256, (400, 500, CHANNELS), dtype=numpy.uint8)
declared("open-large", "FP32", (CHANNELS, 400, 500))
near("open-large", classify("open-large", file_of(Image.fromarray(pixels))), softmax(logits(normalised(pixels))), 1e-4)

print("Metadata and configuration tell datatype and order; a tensor that is sent so is computed rightly.")
images = chance.integers(0, 256, (2, HEIGHT, WIDTH, CHANNELS), dtype=numpy.uint8)
expected = numpy.array([logits(normalised(one)) for one in images])
for model, (datatype, shape) in twins.items():
    declared(model, datatype, shape)
    if datatype == "UINT8":
        values = images
    elif model == "nhwc-inside":
        values = images.astype(numpy.float32)
    else:
        order = slice(None, None, -1) if model == "bgr-nhwc" else slice(None)
        values = ((images / 255.0 - MEAN) / STD)[..., order].astype({"FP32": numpy.float32, "FP16": numpy.float16}[datatype])
    if shape == planes_shape:
        values = numpy.ascontiguousarray(values.transpose(0, 3, 1, 2))
    values = numpy.ascontiguousarray(values)
    tolerance = 5e-3 if datatype == "FP16" else 1e-4
    near(f"{model}: a tensor", infer(model, datatype, values), expected, tolerance)
    near(f"{model}: a raw tensor", infer_raw(model, values), expected, tolerance)
    for nested in (values.tolist(), values.reshape(2, -1).tolist()):
        answer = ask(f"/v1/models/{model}:predict", json.dumps({"instances": nested}).encode())
        near(f"{model}: instances", answer["predictions"], expected, tolerance)
    # Pixels come in either order.
    if model not in ("bgr-nhwc",):
        near(f"{model}: pixels", infer(model, "UINT8", images), expected)
        near(f"{model}: planes", infer(model, "UINT8", numpy.ascontiguousarray(images.transpose(0, 3, 1, 2))), expected)
    files = {"instances": [{"b64": base64.b64encode(file_of(Image.fromarray(one))).decode()} for one in images]}
    near(f"{model}: files", ask(f"/v1/models/{model}:predict", json.dumps(files).encode())["predictions"], expected)

print("What does not fit is refused.")


def refusal(model, datatype, values, words):
    form = {"name": "x", "datatype": datatype, "shape": list(values.shape), "data": values.ravel().tolist()}
    told = ask(f"/v2/models/{model}/infer", json.dumps({"inputs": [form]}).encode(), status=400)["error"]
    if words not in told:
        sys.exit(f"{model}, {datatype}: {told}")


row = numpy.zeros((1, HEIGHT, WIDTH, CHANNELS), numpy.float32)
refusal("nchw", "FP32", row, f"shape must be [N,{CHANNELS},{HEIGHT},{WIDTH}]")
refusal("nhwc", "FP32", row.transpose(0, 3, 1, 2), f"shape must be [N,{HEIGHT},{WIDTH},{CHANNELS}]")
refusal("uint8-nhwc", "FP32", row, "the model's input is UINT8, and FP32 is not")
refusal("uint8", "INT8", row.astype(numpy.int8), "the model's input is UINT8, and INT8 is not")
told = ask("/v1/models/uint8-nhwc:predict", json.dumps({"instances": (row + 0.5).tolist()}).encode(), status=400)
if "is no UINT8" not in told["error"]:
    sys.exit(told)
told = ask("/v2/models/uint8/infer", b"123", {"Inference-Header-Content-Length": "0"}, status=400)
if f"a row, UINT8 [{CHANNELS},{HEIGHT},{WIDTH}], has 360 bytes" not in told["error"]:
    sys.exit(told)

print("What the shape alone tells, and what input.layout forces.")
declared("pixels-by-shape", "FP32", pixels_shape)
declared("pixels-forced", "FP32", (4, 5, CHANNELS))
declared("planes-forced", "FP32", (HEIGHT, WIDTH, CHANNELS))
for model, (height, width) in {"pixels-by-shape": (HEIGHT, WIDTH), "pixels-forced": (4, 5)}.items():
    pixels = chance.integers(0, 256, (height, width, CHANNELS), dtype=numpy.uint8)
    near(model, classify(model, file_of(Image.fromarray(pixels)), pixels.size), pixels.ravel(), 1e-3)
if "takes 12 channels" not in ask("/v2/models/planes-forced/classify", file_of(image), status=400)["error"]:
    sys.exit("planes-forced takes pictures")

print("Four channels: alpha as it is, 255 where there is none.")
SIZE = (WIDTH, HEIGHT)


def planes_of(image, bgr=False):
    bands = image.split()
    bands = (bands[2], bands[1], bands[0], bands[3]) if bgr else bands
    return numpy.stack([numpy.asarray(band) for band in bands]).ravel()


def noise(mode, width, height):
    depth = len(Image.new(mode, (1, 1)).getbands())
    values = chance.integers(0, 256, (height, width, depth), dtype=numpy.uint8)
    return Image.fromarray(values if depth > 1 else values[..., 0], mode)


palette = noise("RGB", *SIZE).quantize(7)
few = noise("RGB", *SIZE).quantize(4)
pictures = {
    "RGBA": (noise("RGBA", *SIZE), "PNG", {}), "RGB": (noise("RGB", *SIZE), "PNG", {}), "grey": (noise("L", *SIZE), "PNG", {}),
    "grey with alpha": (noise("LA", *SIZE), "PNG", {}), "WebP": (noise("RGBA", *SIZE), "WEBP", {"lossless": True, "exact": True}),
    "WebP without alpha": (noise("RGB", *SIZE), "WEBP", {"lossless": True}), "JPEG": (noise("RGB", *SIZE), "JPEG", {"quality": 95}),
    "CMYK": (noise("CMYK", *SIZE), "JPEG", {"quality": 95}), "BMP": (noise("RGB", *SIZE), "BMP", {}),
    "palette": (palette, "PNG", {}), "palette with a clear colour": (palette, "PNG", {"transparency": 2}),
    "two bits with a clear colour": (few, "PNG", {"transparency": 1, "bits": 2}), "GIF": (palette, "GIF", {}),
    "GIF with a clear colour": (palette, "GIF", {"transparency": 3}),
}
for what, (image, kind, options) in pictures.items():
    out = io.BytesIO()
    image.save(out, kind, **options)
    seen = Image.open(io.BytesIO(out.getvalue())).convert("RGBA")
    got = classify("rgba", out.getvalue(), 4 * WIDTH * HEIGHT)
    near(what, got, planes_of(seen), 1e-3)
    near(f"{what}, blue first", classify("bgra", out.getvalue(), 4 * WIDTH * HEIGHT), planes_of(seen, bgr=True), 1e-3)
# Not one whose height loses more than twice as many pixels as its width: Debian's Pillow takes the passes in another order there.
for width, height in ((31, 47), (90, 8), (9, 8)):
    for mode in ("RGBA", "RGB", "L", "LA"):
        image = noise(mode, width, height)
        seen = image.convert("RGBA")
        near(f"{mode}, {image.size}", classify("rgba", file_of(image), 480), planes_of(seen.resize(SIZE, Image.BILINEAR)), 1.01)
        padded = ImageOps.pad(seen, SIZE, Image.BICUBIC, (10, 20, 30))
        near(f"{mode}, {image.size}, padded", classify("rgba-padded", file_of(image), 480), planes_of(padded), 1.01)
turned = noise("RGBA", HEIGHT, WIDTH)
exif = Image.Exif()
exif[0x0112] = 6
out = io.BytesIO()
turned.save(out, "PNG", exif=exif)
near("turned by EXIF", classify("rgba", out.getvalue(), 480), planes_of(turned.transpose(Image.ROTATE_270)), 1e-3)
tall = noise("RGBA", WIDTH, 2 * HEIGHT)
middle = tall.crop((0, HEIGHT // 2, WIDTH, HEIGHT // 2 + HEIGHT))
near("cropped", classify("rgba-nearest", file_of(tall), 480), planes_of(middle), 1e-3)

print("A network of four channels, beside NumPy.")
image = noise("RGBA", *SIZE)
declared("rgba-network", "FP32", (HEIGHT, WIDTH, 4))
planes = ((numpy.asarray(image) / 255.0 - [*MEAN, 0.6]) / [*STD, 0.7]).transpose(2, 0, 1)
near("rgba-network", classify("rgba-network", file_of(image)), softmax(logits(planes)), 1e-5)
near("rgba-network, tensor", infer("rgba-network", "UINT8", numpy.asarray(image)[None]), logits(planes)[None])
