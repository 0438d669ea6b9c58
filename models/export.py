"""A trained network as a model folder that convoyd serves: model.onnx, config.json, labels.txt."""

import collections
import json
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
# Fewer weights than this (biases, mostly) are left in 32 bits: there is nothing to gain.
LEAST_HALVED = 1024


def write_onnx(net, path, name, channels, size):
    """Exports net (folded, on the CPU) to path: input "image" float32 batch x channels x size x size, output
    "logits" batch x 10, batch open, weights inside the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    example = torch.randn(2, channels, size, size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            (example,),
            str(path),
            dynamo=True,
            opset_version=OPSET,
            input_names=["image"],
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            external_data=False,
            verbose=False,
        )
    model = onnx.load(path)
    tidy(model, name)
    onnx.save(model, path)


def tidy(model, name):
    """Gives the nodes short names (conv1, relu1, maxpool1, ...), which users see beside each layer's time,
    and takes out the exporter's stack traces, which name files of the machine that trained."""
    graph = model.graph
    del model.metadata_props[:]
    del graph.value_info[:]
    graph.name = name
    seen = collections.Counter()
    for node in graph.node:
        seen[node.op_type] += 1
        node.name = f"{node.op_type.lower()}{seen[node.op_type]}"
    for items in ([graph], graph.node, graph.input, graph.output, graph.initializer):
        for item in items:
            item.doc_string = ""
            del item.metadata_props[:]
    onnx.checker.check_model(model, full_check=True)


def halve(path, to):
    """Writes the network at path to another file with its weights stored in 16 bits: each large float32
    tensor becomes a float16 one that a Cast widens when the network is loaded. Arithmetic stays in
    float32."""
    model = onnx.load(path)
    casts = []
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if tensor.data_type != TensorProto.FLOAT or values.size < LEAST_HALVED:
            continue
        half = numpy_helper.from_array(values.astype(np.float16), tensor.name + ".half")
        casts.append(
            helper.make_node(
                "Cast", [half.name], [tensor.name], f"cast{len(casts) + 1}", to=TensorProto.FLOAT
            )
        )
        tensor.CopyFrom(half)
    nodes = casts + list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, to)


def write_settings(folder, images, mean, std):
    """config.json and labels.txt; mean and std per channel of pixels already scaled to 0..1."""
    config = {
        "labels": "labels.txt",
        "input": {
            "color": "rgb" if images.pixels.shape[1] == 3 else "grey",
            "resize": "stretch",
            "scale": 1.0 / 255.0,
            "mean": list(mean),
            "std": list(std),
        },
        "output": {"softmax": "auto"},
        "precision": "fp32",
        "batching": {"max_batch": 256, "max_delay_us": 500},
    }
    text = json.dumps(config, indent=4)
    for values in (config["input"]["mean"], config["input"]["std"]):
        text = text.replace(json.dumps(values, indent=4).replace("\n", "\n        "), json.dumps(values))
    (folder / "config.json").write_text(text + "\n")
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in images.classes))


def run_model(path, pixels, mean, std, chunk=500):
    """Logits by ONNX Runtime of uint8 N x C x H x W images, prepared as config.json says."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    mean = np.asarray(mean, np.float32).reshape(1, -1, 1, 1)
    std = np.asarray(std, np.float32).reshape(1, -1, 1, 1)
    parts = [
        (pixels[i : i + chunk].astype(np.float32) * np.float32(1.0 / 255.0) - mean) / std
        for i in range(0, len(pixels), chunk)
    ]
    return np.concatenate([session.run(None, {name: part})[0] for part in parts])
