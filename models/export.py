"""A trained network as a model folder that convoyd serves: model.onnx, config.json, labels.txt."""

import collections
import json
import pathlib
import warnings

import numpy as np
import onnx
import onnxruntime
import torch

OPSET = 18


def write_model(net, folder):
    """Exports net (folded, on the CPU) to folder/model.onnx: input "image" float32 batch x 3 x 32 x 32,
    output "logits" batch x 10, batch open, weights inside the file. Returns the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    example = torch.randn(2, 3, 32, 32)
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
    tidy(path)
    return path


def tidy(path):
    """Gives the nodes short names (conv1, relu1, maxpool1, ...), which users see beside each layer's time,
    and takes out the exporter's stack traces, which name files of the machine that trained."""
    model = onnx.load(path)
    graph = model.graph
    del model.metadata_props[:]
    del graph.value_info[:]
    graph.name = "cifar10-convnet"
    seen = collections.Counter()
    for node in graph.node:
        seen[node.op_type] += 1
        node.name = f"{node.op_type.lower()}{seen[node.op_type]}"
    for items in ([graph], graph.node, graph.input, graph.output, graph.initializer):
        for item in items:
            item.doc_string = ""
            del item.metadata_props[:]
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def write_settings(folder, labels, mean, std):
    """config.json and labels.txt; mean and std per channel of pixels already scaled to 0..1."""
    config = {
        "labels": "labels.txt",
        "input": {
            "color": "rgb",
            "resize": "stretch",
            "scale": 1.0 / 255.0,
            "mean": list(mean),
            "std": list(std),
        },
        "output": {"softmax": "auto"},
        "precision": "fp32",
        "batching": {"max_batch": 256, "max_delay_us": 500},
    }
    folder = pathlib.Path(folder)
    text = json.dumps(config, indent=4)
    for values in (config["input"]["mean"], config["input"]["std"]):
        text = text.replace(json.dumps(values, indent=4).replace("\n", "\n        "), json.dumps(values))
    (folder / "config.json").write_text(text + "\n")
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in labels))


def run_model(path, images, mean, std, chunk=1000):
    """Logits by ONNX Runtime of uint8 N x 3 x H x W images, prepared as config.json says."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    mean = np.asarray(mean, np.float32).reshape(1, 3, 1, 1)
    std = np.asarray(std, np.float32).reshape(1, 3, 1, 1)
    parts = [
        (images[i : i + chunk].astype(np.float32) * np.float32(1.0 / 255.0) - mean) / std
        for i in range(0, len(images), chunk)
    ]
    return np.concatenate([session.run(None, {name: part})[0] for part in parts])
