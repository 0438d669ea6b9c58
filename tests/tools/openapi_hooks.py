"""What schemathesis cannot make out of convoyd's OpenAPI document by itself: image files, binary tensors, compressed bodies,
a region of shared memory that exists. Loaded by schemathesis (SCHEMATHESIS_HOOKS); test_openapi.sh sets the environment.

    OPENAPI_SAMPLES   files to send as images, separated by colons
    OPENAPI_REGION    the key of an object in shared memory that is there"""

import base64
import gzip
import json
import os
import struct
import urllib.request
import zlib

import schemathesis
from hypothesis import strategies

# Shorter deadlines may pass on a busy machine: the 503 would be right, and no fault of the daemon's.
LEAST_TIMEOUT_MS = 5000

SAMPLES = [open(path, "rb").read() for path in os.environ["OPENAPI_SAMPLES"].split(":")]
# Whole, cut off, or none at all: 200, 422, 415, and 400 for an empty one.
FILES = strategies.sampled_from(SAMPLES * 3 + [sample[: len(sample) // 2] for sample in SAMPLES] + [b"no image", b"\0", b""])
for kind in ("jpeg", "png", "webp", "bmp", "gif"):
    schemathesis.openapi.media_type(f"image/{kind}", FILES)
schemathesis.openapi.format("binary", FILES)


def binary_inference(files, damage):
    """The body of an inference of image files as binary data, and how many bytes of it are JSON."""
    data = b"".join(struct.pack("<I", len(file)) + file for file in files)
    tensor = {"name": "image", "datatype": "BYTES", "shape": [len(files)], "parameters": {"binary_data_size": len(data) + damage}}
    header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return header + data, len(header)


# The header that belongs to the body: the two are drawn apart.
HEADER_LENGTHS = {}


def remember(drawn):
    body, length = binary_inference(*drawn)
    HEADER_LENGTHS[body] = length
    return body


INFERENCES = strategies.tuples(strategies.lists(FILES, min_size=1, max_size=3), strategies.sampled_from([0, 0, 0, 1]))


# What the schema allows is hardly ever an inference that the model can run, so some are made that are.
OUTPUT = {"name": "logits"}
OUTPUTS = [[], [OUTPUT], *([{**OUTPUT, "parameters": {"classification": count}}] for count in (0, 1, 3, 10, 11, 1000)),
           *([{**OUTPUT, "parameters": {"binary_data": binary, "classification": 2}}] for binary in (True, False))]


# The region that the document's example registers, zeros: pixels of CIFAR-10's models, of Fashion-MNIST's, an output.
REGION = {"shared_memory_region": "input", "shared_memory_offset": 128}
OUTPUTS.append([{**OUTPUT, "parameters": {**REGION, "shared_memory_byte_size": 1024}}])
PIXELS = [{"name": "image", "datatype": "UINT8", "shape": shape, "parameters": {**REGION, "shared_memory_byte_size": size}}
          for shape, size in (([1, 32, 32, 3], 3072), ([2, 28, 28, 1], 1568))]


def tensor_of_files(draw):
    files = [base64.b64encode(file).decode() for file in draw(strategies.lists(FILES, min_size=1, max_size=4))]
    nested = draw(strategies.booleans())
    return {"name": "image", "datatype": "BYTES", "shape": [len(files), 1] if nested else [len(files)],
            "data": [[file] for file in files] if nested else files}


@strategies.composite
def inference(draw):
    body = {"inputs": [draw(strategies.sampled_from(PIXELS)) if draw(strategies.integers(0, 3)) == 0 else tensor_of_files(draw)]}
    for name, values in {"id": strategies.text(), "outputs": strategies.sampled_from(OUTPUTS),
                         "parameters": strategies.fixed_dictionaries({}, optional={
                             "binary_data_output": strategies.booleans(), "timeout": strategies.integers(0, 3600000000)})}.items():
        if draw(strategies.booleans()):
            body[name] = draw(values)
    return body


INSTANCES = strategies.one_of(
    strategies.lists(FILES.map(lambda file: {"b64": base64.b64encode(file).decode()}), min_size=1, max_size=3),
    strategies.sampled_from([3072, 784, 5]).map(lambda count: [[number % 7 for number in range(count)]] * 2),
)


@schemathesis.hook
def before_generate_body(context, strategy):
    if context.operation.path.endswith("/infer"):
        return strategies.one_of(strategy, inference(), INFERENCES.map(remember))
    if context.operation.path.endswith(":predict"):
        return strategies.one_of(strategy, strategies.fixed_dictionaries({"instances": INSTANCES}))
    return strategy


def ask(case, path, body=b""):
    request = urllib.request.Request(case.operation.schema.get_base_url().rstrip("/") + path, data=body, method="POST")
    urllib.request.urlopen(request, timeout=10).close()


def set_up_region(case):
    """The region of the document's example is there when it is asked for or used, and is not when it is registered."""
    region, body = "/v2/systemsharedmemory/region/input/", case.body if isinstance(case.body, dict) else {}
    registers = case.operation.path.endswith("/register")
    if case.path_parameters.get("region") != "input" and "shared_memory_region" not in json.dumps(body):
        return
    ask(case, region + "unregister")
    if not registers:
        ask(case, region + "register", json.dumps({"key": os.environ["OPENAPI_REGION"], "byte_size": 12288}).encode())
    elif body.get("key") == "/pixels":
        case.body = {**body, "key": os.environ["OPENAPI_REGION"]}


def after_unload(case, response):
    """Loads the model again: all that is asked for later is answered by it."""
    if case.operation.path.endswith("/unload") and response.status_code == 200:
        ask(case, case.formatted_path.removesuffix("unload") + "load")


def give_time(query, key, least):
    if isinstance(query, dict) and str(query.get(key, "")).isdigit() and 0 < int(query[key]) < least:
        query[key] = least


def fit_header(case):
    """Says where the JSON ends, where the body is one of those above."""
    if isinstance(case.body, bytes) and case.body in HEADER_LENGTHS:
        case.headers["Inference-Header-Content-Length"] = str(HEADER_LENGTHS[case.body])
    elif isinstance(case.body, dict) and '"name": "image"' in json.dumps(case.body):
        case.headers.pop("Inference-Header-Content-Length", None)


def compress(case, kwargs):
    """Does what Content-Encoding says."""
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}.get(case.headers.get("Content-Encoding"))
    if pack is not None and isinstance(case.body, (bytes, dict)):
        kwargs["data"] = pack(case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode())


@schemathesis.hook
def before_call(context, case, kwargs):
    give_time(case.query, "timeout_ms", LEAST_TIMEOUT_MS)
    if isinstance(case.body, dict):
        give_time(case.body.get("parameters"), "timeout", LEAST_TIMEOUT_MS * 1000)
    set_up_region(case)
    if case.operation.path.endswith("/infer"):
        fit_header(case)
    if case.operation.path.endswith(("/infer", ":predict")):
        compress(case, kwargs)


@schemathesis.hook
def after_call(context, case, response):
    if "/v2/repository/models/" in case.operation.path:
        after_unload(case, response)
