"""What most people write: FastAPI, Pillow and ONNX Runtime; JPEG in, JSON out. The peer of fastapi.sh.

MODEL names a folder with config.json, labels.txt and 1/model.onnx. One thread a process for ONNX Runtime, since
uvicorn starts a process for each core.
"""

import io
import json
import os
import pathlib

import numpy as np
import onnxruntime
from fastapi import FastAPI, Request
from PIL import Image

FOLDER = pathlib.Path(os.environ["MODEL"])
CONFIG = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))["input"]
LABELS = (FOLDER / "labels.txt").read_text(encoding="utf-8").split()
MEAN, STD = (np.array(CONFIG[key], dtype=np.float32) for key in ("mean", "std"))

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(str(FOLDER / "1/model.onnx"), options, providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
height, width = session.get_inputs()[0].shape[2:]
app = FastAPI()


@app.post("/classify")
async def classify(request: Request, top: int = 5):
    image = Image.open(io.BytesIO(await request.body())).convert("RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.BILINEAR)
    pixels = (np.asarray(image, dtype=np.float32) * np.float32(CONFIG["scale"]) - MEAN) / STD
    scores = session.run(None, {name: pixels.transpose(2, 0, 1)[None]})[0][0]
    probabilities = np.exp(scores - scores.max())
    probabilities /= probabilities.sum()
    best = probabilities.argsort()[::-1][:top]
    return {
        "results": [
            {
                "predictions": [
                    {"label": LABELS[i], "index": int(i), "probability": float(probabilities[i])} for i in best
                ]
            }
        ]
    }
