#!/usr/bin/env python3
"""Inference requests of many rows at once: many_rows.py URL MODEL ROUNDS. URL's model takes 3 x 32 x 32.

A pool of random images is asked for one by one first, as pixels and as floats. Then connections send ROUNDS requests each, of
1 to 700 images out of the pool in random order, as pixels, floats, or pixels in shared memory; each row of each answer must be
what its image had alone, to TOLERANCE of the largest output (in half precision batches of another size round otherwise),
which tells the pool's images apart. Prints how many rows came. Status 503 is tried again: so many may not
fit the queue. Exit status 1 when a row is wrong, or a request failed otherwise."""

import http.client
import json
import os
import random
import struct
import sys
import threading
import time
import urllib.parse

POOL = 24
CONNECTIONS = 6
ELEMENTS = 3 * 32 * 32
TOLERANCE = 4e-3
SIZES = (1, 7, 64, 255, 256, 257, 700)

url = urllib.parse.urlsplit(sys.argv[1])
model, rounds = sys.argv[2], int(sys.argv[3])
path = f"/v2/models/{model}/infer"
generator = random.Random(7)
pixels = [generator.randbytes(ELEMENTS) for _ in range(POOL)]
floats = [struct.pack(f"<{ELEMENTS}f", *(generator.gauss(0, 1) for _ in range(ELEMENTS))) for _ in range(POOL)]
pools = {"pixels": pixels, "floats": floats, "region": pixels}
failures = []
rows_done = [0] * CONNECTIONS


def post(connection, where, body, headers):
    for _ in range(2000):
        connection.request("POST", where, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 503:
            break
        time.sleep(0.005)
    if answer.status != 200:
        raise AssertionError(f"{answer.status}: {data[:300]!r}")
    return answer, data


def outputs_of(connection, kind, images, region=None):
    data = b"".join(pools[kind][i] for i in images)
    tensor = {"name": "image", "datatype": "FP32" if kind == "floats" else "UINT8", "shape": [len(images), 3, 32, 32]}
    if region:
        with open("/dev/shm/" + region, "r+b") as memory:
            memory.write(data)
        tensor["parameters"] = {"shared_memory_region": region, "shared_memory_byte_size": len(data)}
        data = b""
    else:
        tensor["parameters"] = {"binary_data_size": len(data)}
    header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    answer, body = post(connection, path, header + data, {"Inference-Header-Content-Length": str(len(header))})
    length = int(answer.headers["Inference-Header-Content-Length"])
    shape = json.loads(body[:length])["outputs"][0]["shape"]
    assert shape[0] == len(images), shape
    flat = struct.unpack(f"<{len(images) * shape[1]}f", body[length:])
    return [flat[i * shape[1] : (i + 1) * shape[1]] for i in range(len(images))]


def distance(output, wanted):
    """The greatest difference, of the largest output."""
    return max(abs(a - b) for a, b in zip(output, wanted)) / max(abs(value) for value in wanted)


def connect():
    return http.client.HTTPConnection(url.netloc, timeout=120)


def send(number, alone):
    mine = random.Random(number)
    region = f"convoy-rows-{os.getpid()}-{number}"
    connection = connect()
    try:
        with open("/dev/shm/" + region, "wb") as memory:
            memory.truncate(max(SIZES) * ELEMENTS)
        register = {"key": "/" + region, "byte_size": max(SIZES) * ELEMENTS}
        post(connection, f"/v2/systemsharedmemory/region/{region}/register", json.dumps(register), {})
        for _ in range(rounds):
            kind = mine.choice(list(pools))
            images = [mine.randrange(POOL) for _ in range(mine.choice(SIZES))]
            outputs = outputs_of(connection, kind, images, region if kind == "region" else None)
            for row, (image, output) in enumerate(zip(images, outputs)):
                wanted = alone[kind][image]
                if distance(output, wanted) > TOLERANCE:
                    raise AssertionError(f"row {row} of {len(images)} {kind}: image {image} is {output}, alone {wanted}")
            rows_done[number] += len(images)
    except Exception as error:  # the thread's failure is the program's
        failures.append(f"{type(error).__name__}: {error}")
    finally:
        os.unlink("/dev/shm/" + region)


one = connect()
alone = {kind: [outputs_of(one, kind, [i])[0] for i in range(POOL)] for kind in ("pixels", "floats")}
alone["region"] = alone["pixels"]
for kind, outputs in alone.items():
    closest = min(distance(a, b) for i, a in enumerate(outputs) for b in outputs[:i])
    if closest < 3 * TOLERANCE:
        sys.exit(f"two images of the pool have the same outputs to {closest:.2g}: nothing would be compared")
threads = [threading.Thread(target=send, args=(number, alone)) for number in range(CONNECTIONS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if failures:
    sys.exit(failures[0])
print(f"{sum(rows_done)} rows")
