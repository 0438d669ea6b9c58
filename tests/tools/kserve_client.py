#!/usr/bin/env python3
"""A running convoyd as KServe's own Python client sees it (kserve from PyPI): its V1 and V2 protocols over HTTP.

    kserve_client.py URL SAMPLES

The daemon serves the shipped models with a backend that computes; SAMPLES has ship.jpg and truck.jpg. Every function below is a
test; prints a line for each, exit status 1 when one failed.
"""

import asyncio
import base64
import pathlib
import sys
import traceback

import httpx
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig

URL, SAMPLES = sys.argv[1], pathlib.Path(sys.argv[2])
MODEL, INPUT, OUTPUT = "cifar10-resnet", "image", "logits"
LABELS = (SAMPLES.parent / MODEL / "labels.txt").read_text().split()
NAMES = ("ship", "truck")
FILES = [(SAMPLES / f"{name}.jpg").read_bytes() for name in NAMES]
TENSOR = np.random.default_rng(1).standard_normal((3, 3, 32, 32)).astype(np.float32)


def near(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape, (a.shape, b.shape)
    assert np.abs(a - b).max() <= 1e-4 * np.abs(b).max(), np.abs(a - b).max()


async def refusal(call, status):
    try:
        await call
    except httpx.HTTPStatusError as error:
        assert error.response.status_code == status, error
        assert len(str(error)) > 20, error
        return
    raise AssertionError(f"no {status}")


def request(values, datatype="FP32", binary=True):
    tensor = InferInput(INPUT, list(values.shape), datatype)
    tensor.set_data_from_numpy(values, binary_data=binary)
    return InferRequest(MODEL, [tensor])


async def outputs(v2, values, datatype="FP32", binary=True):
    answer = await v2.infer(URL, request(values, datatype, binary), model_name=MODEL)
    assert answer.model_name == MODEL and [output.name for output in answer.outputs] == [OUTPUT], answer.to_dict()
    return answer.outputs[0].as_numpy()


async def health(v1, v2):
    assert await v2.is_server_ready(URL) and await v2.is_server_live(URL)
    assert await v2.is_model_ready(URL, MODEL) and await v1.is_model_ready(URL, MODEL)
    await refusal(v1.is_model_ready(URL, "nobody"), 404)


async def v2_tensors(_, v2):
    binary = await outputs(v2, TENSOR)
    assert binary.shape == (3, 10), binary.shape
    near(await outputs(v2, TENSOR, binary=False), binary)


async def v2_images(_, v2):
    values = await outputs(v2, np.array(FILES, np.object_), "BYTES")
    assert [LABELS[row.argmax()] for row in values] == list(NAMES), values


async def v1_images(v1, v2):
    instances = [{"b64": base64.b64encode(file).decode()} for file in FILES]
    answer = await v1.infer(URL, {"instances": instances}, model_name=MODEL)
    near(answer["predictions"], await outputs(v2, np.array(FILES, np.object_), "BYTES"))


async def v1_tensors(v1, v2):
    answer = await v1.infer(URL, {"instances": TENSOR.tolist()}, model_name=MODEL)
    near(answer["predictions"], await outputs(v2, TENSOR))


async def refusals(v1, v2):
    await refusal(v2.infer(URL, request(TENSOR), model_name="nobody"), 404)
    await refusal(v2.infer(URL, request(TENSOR[:, :1]), model_name=MODEL), 400)
    await refusal(v1.infer(URL, {"instances": []}, model_name=MODEL), 400)
    await refusal(v1.infer(URL, {"instances": [{"b64": "bm8gaW1hZ2U="}]}, model_name=MODEL), 415)


async def main():
    v1 = InferenceRESTClient(RESTConfig(protocol="v1"))
    v2 = InferenceRESTClient(RESTConfig(protocol="v2"))
    failed = 0
    for test in (health, v2_tensors, v2_images, v1_images, v1_tensors, refusals):
        try:
            await test(v1, v2)
            print("ok", test.__name__)
        except Exception:  # every test is to run
            traceback.print_exc()
            print("FAILED", test.__name__)
            failed += 1
    return failed


sys.exit(asyncio.run(main()) > 0)
