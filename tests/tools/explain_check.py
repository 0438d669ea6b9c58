"""Asks a daemon that serves networks of explain_models.py for class activation maps, and compares them with NumPy.

    explain_check.py URL [TOLERANCE [NAME...]]

TOLERANCE: of a map's values, relative to its range (1e-4). NAME: of the networks with maps (all)."""
import base64
import io
import json
import sys
import time
import urllib.error
import urllib.request

import numpy
from PIL import Image

from explain_models import BIAS, CHANNELS, CLASSES, DENSE, DENSE_BIAS, FEATURES, FILTERS, NETWORKS
from input_models import MEAN, STD

url, tolerance, names = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1e-4, sys.argv[3:] or list(NETWORKS)
chance = numpy.random.default_rng(13)
LONGEST = 256  # side of a map's picture


def ask(path, body, headers=None):
    request = urllib.request.Request(url + path, data=body, headers=headers or {})
    for left in range(20, -1, -1):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as error:
            # After a network was loaded for one model, that of another is only loaded after a rest.
            if error.code != 503 or left == 0:
                sys.exit(f"{path}: {error.code}: {error.read()[:300]}")
            time.sleep(int(error.headers["Retry-After"]))


def file_of(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def reference(name, pixels):
    """The scores and the maps of all classes, in float64."""
    height, width, stride, dense, _ = NETWORKS[name]
    planes = ((pixels / 255.0 - MEAN) / STD).transpose(2, 0, 1)
    padded = numpy.pad(planes, ((0, 0), (1, 1), (1, 1)))
    views = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::stride, ::stride]
    features = numpy.einsum("chwrs,kcrs->khw", views, FILTERS.astype(numpy.float64)) + BIAS[:, None, None]
    features = numpy.maximum(features, 0)
    if not dense:
        return features.mean(axis=(1, 2)), features
    weights = DENSE.astype(numpy.float64)
    return weights @ features.mean(axis=(1, 2)) + DENSE_BIAS, numpy.einsum("kc,chw->khw", weights, features)


def picture_of(values, height, width):
    """A map as Pillow enlarges it, from its least value to its greatest."""
    longest = max(height, width)
    if longest > LONGEST:
        height, width = round(height * LONGEST / longest), round(width * LONGEST / longest)
    enlarged = numpy.asarray(Image.fromarray(values.astype(numpy.float32)).resize((width, height), Image.BILINEAR))
    return 255 * (enlarged - values.min()) / (values.max() - values.min())


def pixels_of(png):
    image = Image.open(io.BytesIO(png))
    if image.format != "PNG" or image.mode != "L":
        sys.exit(f"a map is a {image.format} picture of mode {image.mode}")
    return numpy.asarray(image).astype(numpy.float64)


def check(name, what, explanation, label, maps):
    height, width = NETWORKS[name][:2]
    expected = maps[label]
    span = expected.max() - expected.min()
    told = {key: explanation[key] for key in ("method", "index", "label", "height", "width")}
    if told != {"method": "cam", "index": label, "label": str(label), "height": maps.shape[1], "width": maps.shape[2]}:
        sys.exit(f"{name}, {what}: {told}")
    for key, value in (("low", expected.min()), ("high", expected.max())):
        if abs(explanation[key] - value) > tolerance * span + 1e-5 * abs(value):  # six digits are written
            sys.exit(f"{name}, {what}: {key} is {explanation[key]}, expected {value}")
    start = "data:image/png;base64,"
    if not explanation["png"].startswith(start):
        sys.exit(f"{name}, {what}: {explanation['png'][:40]}")
    png = base64.b64decode(explanation["png"][len(start):], validate=True)
    found, drawn = pixels_of(png), picture_of(expected, height, width)
    worst = numpy.abs(found - drawn).max() if found.shape == drawn.shape else found.shape
    if found.shape != drawn.shape or worst > 0.5 + 1e-3 + 512 * tolerance:
        sys.exit(f"{name}, {what}: the picture differs by {worst}")
    return png, worst


for name in names:
    height, width = NETWORKS[name][:2]
    pixels = chance.integers(0, 256, (height, width, CHANNELS), dtype=numpy.uint8)
    scores, maps = reference(name, pixels)
    body, path, best, greatest = file_of(pixels), f"/v2/models/{name}/classify", int(scores.argmax()), 0
    for asked in [None, *(range(len(scores)) if name == names[0] else (best, len(scores) - 1))]:
        chosen = "" if asked is None else f"&class={asked}"
        answer = json.loads(ask(f"{path}?explain=cam{chosen}", body)[1])
        result, label = answer["results"][0], best if asked is None else asked
        if answer["batch_size"] != 1 or "cached" in answer or result["predictions"][0]["index"] != best or len(result["predictions"]) != 5:
            sys.exit(f"{name}, class {asked}: {answer}")
        png, worst = check(name, f"class {asked}", result["explanation"], label, maps)
        greatest = max(greatest, worst)
        if result["explanation"]["box"] != [0, 0, 1, 1]:
            sys.exit(f"{name}: the picture has the input's size, and its map covers {result['explanation']['box']}")
    # What a request with a map leaves is not for the response cache, nor does it take anything from there.
    plain = json.loads(ask(path, body)[1])
    if "cached" in plain or "cached" in json.loads(ask(f"{path}?explain=cam", body)[1]):
        sys.exit(f"{name}: the response cache knows the picture, or answered in place of a map")
    without = plain["results"][0]["predictions"]
    for seen, plain in zip(result["predictions"], without):
        if seen["index"] != plain["index"] or abs(seen["probability"] - plain["probability"]) > max(tolerance, 1e-5):
            sys.exit(f"{name}: with a map {seen}, without {plain}")
    kind, alone = ask(f"{path}?explain=cam&class={len(scores) - 1}", body, {"Accept": "image/png"})
    if kind != "image/png" or alone != png:
        sys.exit(f"{name}: {kind} of {len(alone)} bytes instead of the same PNG of {len(png)}")
    print(f"{name}: maps of {maps.shape[1]} x {maps.shape[2]}, pictures within {greatest:.2f} of 255")
