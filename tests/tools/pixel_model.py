#!/usr/bin/env python3
"""pixel_model.py FOLDER CHANNELS HEIGHT WIDTH [INPUT]: writes the folder of a model whose network answers with its input, so that the pixels that a
picture became can be read from the answer. INPUT: JSON of "input" in its config.json, beside "scale": 1."""

import json
import pathlib
import sys

from hostile_models import model, node

folder = pathlib.Path(sys.argv[1])
sides = tuple(int(side) for side in sys.argv[2:5])
(folder / "1").mkdir(parents=True)
nodes = [node("Relu", "relu", ["x"], ["r"]), node("Flatten", "flat", ["r"], ["y"])]
(folder / "1" / "model.onnx").write_bytes(model(nodes, given=(-1, *sides)))
config = {"precision": "fp32", "input": {"scale": 1, **json.loads(sys.argv[5] if len(sys.argv) > 5 else "{}")}, "output": {"activation": "none"}}
(folder / "config.json").write_text(json.dumps(config))
