#!/usr/bin/env python3
"""An inference request for a model of 3 x 32 x 32 as infer.sh sends it: infer_body.py FP32|UINT8|JSON ROWS [REGION].
Random numbers; the JSON is one line, binary data lies behind its newline, or in shared memory of that name, which is also
the region's."""

import json
import random
import struct
import sys

kind, rows = sys.argv[1], int(sys.argv[2])
region = sys.argv[3] if len(sys.argv) > 3 else None
count = rows * 3 * 32 * 32
tensor = {"name": "image", "datatype": "UINT8" if kind == "UINT8" else "FP32", "shape": [rows, 3, 32, 32]}
data = b""
if kind == "UINT8":
    data = random.randbytes(count)
elif kind == "FP32":
    data = struct.pack(f"<{count}f", *(random.gauss(0, 1) for _ in range(count)))
if kind == "JSON":
    tensor["data"] = [round(random.gauss(0, 1), 6) for _ in range(count)]
elif region:
    tensor["parameters"] = {"shared_memory_region": region, "shared_memory_byte_size": len(data)}
    with open("/dev/shm/" + region, "wb") as memory:
        memory.write(data)
    data = b""
else:
    tensor["parameters"] = {"binary_data_size": len(data)}
request = {"inputs": [tensor], "parameters": {"binary_data_output": kind != "JSON"}}
sys.stdout.buffer.write(json.dumps(request).encode() + b"\n" + data)
