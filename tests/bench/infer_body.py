#!/usr/bin/env python3
"""An inference request for a model of 3 x 32 x 32 as infer.sh sends it: infer_body.py FP32|UINT8|JSON ROWS. Random
numbers; the JSON is one line, binary data lies behind its newline."""

import json
import random
import struct
import sys

kind, rows = sys.argv[1], int(sys.argv[2])
count = rows * 3 * 32 * 32
tensor = {"name": "image", "datatype": "UINT8" if kind == "UINT8" else "FP32", "shape": [rows, 3, 32, 32]}
data = b""
if kind == "UINT8":
    data = random.randbytes(count)
elif kind == "FP32":
    data = struct.pack(f"<{count}f", *(random.gauss(0, 1) for _ in range(count)))
if kind == "JSON":
    tensor["data"] = [round(random.gauss(0, 1), 6) for _ in range(count)]
else:
    tensor["parameters"] = {"binary_data_size": len(data)}
request = {"inputs": [tensor], "parameters": {"binary_data_output": kind != "JSON"}}
sys.stdout.buffer.write(json.dumps(request).encode() + b"\n" + data)
