#!/usr/bin/env python3
"""jpeg_slots.py URL MODEL UNDECODED DEADLY [CASE...]: sends JPEG files in all ways to a daemon whose null backend takes them
(tests/faults/faults.h: files:UNDECODED:DEADLY), and says what is wrong with the answers. A file's class is the sum of its bytes;
the null backend answers pixels with classes that are all equal. The cases: ways, kinds, many, late, prompt, alike."""

import base64
import collections
import concurrent.futures
import http.client
import io
import json
import os
import random
import struct
import sys
import threading
import time
import urllib.parse

from PIL import Image

URL, MODEL, UNDECODED, DEADLY = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
HOST = urllib.parse.urlparse(URL).netloc
CLASSES = 10
noise = random.Random(7)


def picture(width, height, mode="RGB"):
    small = Image.frombytes(mode, (8, 8), noise.randbytes(64 * len(mode)))
    return small.resize((width, height), Image.BICUBIC)


def jpeg(width, height, mode="RGB", **options):
    file = io.BytesIO()
    picture(width, height, mode).save(file, "JPEG", **options)
    return file.getvalue()


def noisy(count):
    """Files of a megabyte that differ in a comment."""
    file = io.BytesIO()
    Image.frombytes("RGB", (900, 700), noise.randbytes(900 * 700 * 3)).save(file, "JPEG", quality=90, subsampling=0)
    whole = file.getvalue()
    return [whole[:2] + b"\xff\xfe\0\x0a" + noise.randbytes(8) + whole[2:] for _ in range(count)]


def expected(file):
    """The decoder and the class that the answer must have; class None: all are equal."""
    total = sum(file)
    if (UNDECODED and total % UNDECODED == 0) or (DEADLY and total % DEADLY == 1):
        return "cpu", None
    return "gpu", total % CLASSES


def post(path, body, headers):
    connection = http.client.HTTPConnection(HOST, timeout=240)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def form(files):
    parts = [b"--limit\r\nContent-Disposition: form-data; name=image; filename=a.jpg\r\n\r\n" + file + b"\r\n" for file in files]
    return b"".join(parts) + b"--limit--\r\n", {"Content-Type": "multipart/form-data; boundary=limit"}


def check(where, result, file, decoder=None):
    by, index = expected(file)
    if decoder == "cpu":
        by, index = "cpu", None
    got, best = result.get("decoder"), result["predictions"][0] if "predictions" in result else {}
    if got != by or (best.get("index"), best.get("probability")) != ((index, 1.0) if index is not None else (0, 0.1)):
        sys.exit(f"{where}: {by} {index} was expected of a file of {len(file)} bytes: {result}")


def classify(files, how, query="decoder=gpu", decoder=None):
    path = f"/v2/models/{MODEL}/classify?top=1&{query}"
    if how == "image":
        answers = [post(path, file, {"Content-Type": "image/jpeg"}) for file in files]
    elif how == "json":
        bodies = [json.dumps({"image": base64.b64encode(file).decode()}) for file in files]
        answers = [post(path, body, {"Content-Type": "application/json"}) for body in bodies]
    else:
        answers = [post(path, *form(files))]
    results = [result for status, answer in answers for result in answer.get("results", [answer])]
    if len(results) != len(files):
        sys.exit(f"{how}: {len(results)} results of {len(files)} files: {answers}")
    for file, result in zip(files, results):
        check(how, result, file, decoder)


def infer(files, binary, decoder="gpu"):
    tensor = {"name": "image", "datatype": "BYTES", "shape": [len(files)]}
    headers, behind = {}, b""
    if binary:
        behind = b"".join(struct.pack("<I", len(file)) + file for file in files)
        tensor["parameters"] = {"binary_data_size": len(behind)}
    else:
        tensor["data"] = [base64.b64encode(file).decode() for file in files]
    text = json.dumps({"inputs": [tensor], "parameters": {"decoder": decoder}}).encode()
    if binary:
        headers["Inference-Header-Content-Length"] = str(len(text))
    status, answer = post(f"/v2/models/{MODEL}/infer", text + behind, headers)
    wanted = {expected(file)[0] if decoder == "gpu" else decoder for file in files}
    if status != 200 or answer["parameters"]["decoder"] != (wanted.pop() if len(wanted) == 1 else "mixed"):
        sys.exit(f"infer: {status} {answer}")
    rows(answer["outputs"][0]["data"], files, "infer", decoder)


def rows(values, files, where, decoder="gpu"):
    for i, file in enumerate(files):
        by, index = expected(file) if decoder == "gpu" else (decoder, None)
        row = values[i * CLASSES:(i + 1) * CLASSES]
        if row != ([100.0 * (k == index) for k in range(CLASSES)] if by == "gpu" else row[:1] * CLASSES):
            sys.exit(f"{where}: row {i} is not that of its file ({by} {index}): {row}")


def v1(files, query="", decoder="gpu"):
    """By images.decoder, which must be gpu, unless the query says another."""
    body = json.dumps({"instances": [{"b64": base64.b64encode(file).decode()} for file in files]})
    status, answer = post(f"/v1/models/{MODEL}:predict{query}", body, {"Content-Type": "application/json"})
    if status != 200:
        sys.exit(f"v1: {status} {answer}")
    rows([value for row in answer["predictions"] for value in row], files, "v1", decoder)


def ways():
    files = [jpeg(noise.randint(8, 300), noise.randint(8, 300), quality=noise.randint(30, 95)) for _ in range(24)]
    for how in "image", "json", "form":
        classify(files, how)
    infer(files, False)
    infer(files, True)
    infer(files, True, "cpu")
    v1(files)
    for decoder in "gpu", "cpu":
        v1(files, f"?decoder={decoder}", decoder)
    status, answer = post(f"/v1/models/{MODEL}:predict?decoder=magic", "{}", {})
    if status != 400 or "decoder must be auto, cpu, gpu or fastest" not in answer.get("error", ""):
        sys.exit(f"v1 with a decoder that is none: {status} {answer}")
    large = noisy(12)
    classify(large[:2] + files[:5], "image")
    classify(large[:2] + files[:5], "form")
    if sum(map(len, large)) < 9 << 20:
        sys.exit("these are not more than an HTTP thread copies")
    classify(large + files[:2], "form")
    classify(files, "form", "decoder=cpu", "cpu")


def kinds():
    """What a device is not given, whatever is asked for, and what "auto" gives to it."""
    sizes = {"auto": ((255, 255, "cpu"), (256, 256, None)), "gpu": ((16, 16, None),), "cpu": ((400, 400, "cpu"),)}
    for decoder, cases in sizes.items():
        for width, height, by in cases:
            classify([jpeg(width, height)], "image", f"decoder={decoder}", by)
    odd = [jpeg(300, 300, progressive=True), jpeg(300, 300, "CMYK"), jpeg(300, 300) + b"\0", jpeg(300, 300)[:-2]]
    for file in odd:
        classify([file], "image", "decoder=gpu", "cpu")
    classify([jpeg(300, 300, "L")], "image")
    good = [jpeg(300, 300) for _ in range(6)]
    status, answer = post(f"/v2/models/{MODEL}/classify?top=1&decoder=gpu", *form(good[:3] + [good[5][:2000], b"no image", odd[0]] + good[3:]))
    results = answer["results"]
    for file, result in zip(good, results[:3] + results[6:]):
        check("among others", result, file)
    if [results[i].get("status") for i in (3, 4)] != [422, 415] or results[5].get("decoder") != "cpu":
        sys.exit(f"a damaged file, no image and a progressive one: {results[3:6]}")


def many():
    files = [jpeg(noise.randint(8, 400), noise.randint(8, 400), quality=noise.randint(30, 95)) for _ in range(48)]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        turns = [pool.submit(classify, noise.sample(files, noise.choice((1, 1, 1, 5))), noise.choice(("image", "form")))
                 for _ in range(40 if DEADLY else 120)]
        for turn in turns:
            turn.result()


def late():
    """All files come back (UNDECODED is 1), some with more time than decoding them takes, some with less, some without a client that waits."""
    files, counts = noisy(48), collections.Counter()

    def ask(file):
        timeout_ms = noise.choice((20, 50, 100, 200, 400, 60000))
        status, answer = post(f"/v2/models/{MODEL}/classify?top=1&decoder=gpu&timeout_ms={timeout_ms}", file, {})
        if status == 200:
            check("late", answer["results"][0], file)
        counts[status] += 1

    def leave(file):
        connection = http.client.HTTPConnection(HOST, timeout=240)
        connection.request("POST", f"/v2/models/{MODEL}/classify?decoder=gpu", file)
        connection.close()

    with concurrent.futures.ThreadPoolExecutor(48) as pool:
        list(pool.map(ask, files))
        list(pool.map(leave, files))
    if set(counts) - {200, 503} or not counts[200]:
        sys.exit(f"late: {counts}")


def alike():
    """With a response cache: a row of pixels whose bytes are those of a file gets an answer of its own."""
    file = jpeg(40, 40)
    file = file[:2] + b"\xff\xfe" + struct.pack(">H", 3072 - len(file) - 2) + bytes(3072 - len(file) - 4) + file[2:]
    for _ in range(2):
        classify([file], "image")
    row = bytes(file[3 * pixel + channel] for channel in range(3) for pixel in range(1024))
    text = json.dumps({"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 3, 32, 32], "parameters": {"binary_data_size": 3072}}]}).encode()
    status, answer = post(f"/v2/models/{MODEL}/infer", text + row, {"Inference-Header-Content-Length": str(len(text))})
    if status != 200 or len(set(answer["outputs"][0]["data"])) != 1:
        sys.exit(f"alike: {status} {answer}")


def prompt():
    """All files come back. While the front's threads are at images that take long, one whose deadline passes is answered soon after it."""
    file = io.BytesIO()
    Image.new("L", (7000, 7000)).save(file, "JPEG", progressive=True)
    path = f"/v2/models/{MODEL}/classify?top=1"
    with concurrent.futures.ThreadPoolExecutor(2 * os.cpu_count()) as pool:
        began = time.monotonic()
        large = [pool.submit(post, f"{path}&decoder=cpu", file.getvalue(), {}) for _ in range(2 * os.cpu_count())]
        time.sleep(0.2)  # until all are there
        asked = time.monotonic()
        status, answer = post(f"{path}&decoder=gpu&timeout_ms=50", noisy(1)[0], {})
        took = time.monotonic() - asked
        if status != 503 or large[-1].done():
            sys.exit(f"prompt: {status} {answer}, {large[-1].done()}")
        for turn in large:
            turn.result()
        if took > (time.monotonic() - began) / 4:
            sys.exit(f"prompt: answered after {took} s, the others after {time.monotonic() - began} s")


def shared():
    """Forms of a file that the front decodes and of some for the device, while others' images take turns with them in the front's threads:
    a form is answered before its last turn."""
    file = io.BytesIO()
    Image.new("L", (3000, 3000)).save(file, "JPEG", progressive=True)
    slow = io.BytesIO()
    Image.frombytes("RGB", (900, 700), noise.randbytes(900 * 700 * 3)).save(slow, "JPEG", quality=90, progressive=True)
    files = noisy(3)
    path = f"/v2/models/{MODEL}/classify?top=1"
    ended = threading.Event()

    def keep_busy():
        while not ended.is_set():
            post(f"{path}&decoder=cpu", file.getvalue(), {})

    others = [threading.Thread(target=keep_busy) for _ in range(3 * os.cpu_count())]
    for other in others:
        other.start()
    try:
        for _ in range(6):
            status, answer = post(f"{path}&decoder=gpu", *form([slow.getvalue(), *files]))
            if status != 200 or [result.get("decoder") for result in answer["results"]] != ["cpu", "gpu", "gpu", "gpu"]:
                sys.exit(f"shared: {status} {answer}")
    finally:
        ended.set()
        for other in others:
            other.join()


for case in sys.argv[5:]:
    globals()[case]()
