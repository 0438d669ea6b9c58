"""The record that `convoy verify` compares a daemon with: a test image, and what ONNX Runtime answers for it."""

import json

import numpy as np
import onnx
import onnxruntime

IMAGE = "verify.png"
TOP = 5
# By precision: of outputs max|y - y'| / max|y'|, of probabilities |p - p'|. Preparing the image alone may differ by a
# level in one pixel of a thousand.
TOLERANCES = {"fp32": (0.01, 0.02), "tf32": (0.02, 0.05), "fp16": (0.03, 0.05)}


def draw_image(width=400, height=300):
    """A picture of no thing: smooth colours, a disc, stripes and a checked corner, so that colours exchanged, a wrong
    crop or a wrong filter change what a network says. RGB, not square."""
    from PIL import Image

    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    red = 40 + 180 * x / width
    green = 200 - 160 * y / height
    blue = 128 + 100 * np.sin(x / 23) * np.cos(y / 31)
    pixels = np.stack([red, green, blue], axis=-1)
    disc = (x - 0.42 * width) ** 2 + (y - 0.55 * height) ** 2 < (0.25 * height) ** 2
    pixels[disc] = [230, 120, 30] + 20 * np.sin(x[disc] / 5)[:, None]
    stripes = (x > 0.7 * width) & (np.sin((x + 2 * y) / 6) > 0)
    pixels[stripes] = [20, 30, 90]
    checks = (y > 0.7 * height) & (x < 0.35 * width) & ((x // 8 + y // 8) % 2 == 0)
    pixels[checks] = [250, 250, 240]
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8), "RGB")


def last_operators(path):
    """By output, the operator that computes it."""
    graph = onnx.load(path, load_external_data=False).graph
    made_by = {name: node.op_type for node in graph.node for name in node.output}
    return [made_by.get(output.name) for output in graph.output]


def probabilities(path, values):
    """What /classify makes of the first output."""
    operator = last_operators(path)[0]
    values = values.astype(np.float64)
    if operator in ("Softmax", "Sigmoid"):
        return values
    if operator == "LogSoftmax":
        return np.exp(values)
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def written(folder, path, image, pixels, labels, precision, version="1"):
    """Writes folder/verify.png and verify.json. path: the network's file. pixels: the prepared image with a
    batch of 1 before, of the network's type. labels: a list, or None. Returns (the outputs of ONNX Runtime, the record)."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    outputs = session.run(None, {name: pixels})
    if not all(np.isfinite(output).all() for output in outputs):
        raise ValueError("the network's answer to the test image is not finite")
    shares = probabilities(path, outputs[0].reshape(-1))
    first = np.argsort(-shares, kind="stable")[:TOP]
    tolerance, probability_tolerance = TOLERANCES[precision]
    record = {
        "image": IMAGE,
        "input": name,
        "version": version,
        "by": f"ONNX Runtime {onnxruntime.__version__}",
        "tolerance": tolerance,
        "probability_tolerance": probability_tolerance,
        "classes": [
            {
                "index": int(index),
                "label": labels[index] if labels and index < len(labels) else None,
                "probability": float(f"{shares[index]:.6g}"),
            }
            for index in first
        ],
        "outputs": [
            {"name": about.name, "values": [float(f"{value:.9g}") for value in output.reshape(-1)]}
            for about, output in zip(session.get_outputs(), outputs, strict=True)
        ],
    }
    image.save(folder / IMAGE)
    text = json.dumps(record, indent=1)
    for output in record["outputs"]:  # a line each
        text = text.replace(json.dumps(output["values"], indent=1).replace("\n", "\n   "), json.dumps(output["values"]))
    (folder / "verify.json").write_text(text + "\n", encoding="utf-8")
    return outputs, record
