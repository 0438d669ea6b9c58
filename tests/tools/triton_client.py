#!/usr/bin/env python3
"""A running convoyd as NVIDIA's own client sees it (tritonclient from PyPI, http and http.aio), in the calls that
Triton's simple HTTP examples make.

    triton_client.py HOST:PORT SAMPLES

The daemon serves the shipped models with a backend that computes. Every function below is a test; prints a line
for each, exit status 1 when one failed.
"""

import asyncio
import base64
import io
import json
import os
import pathlib
import sys
import traceback
import urllib.error
import urllib.request

import numpy as np
import tritonclient.http as http
import tritonclient.http.aio as aio
import tritonclient.utils.shared_memory as shm
from PIL import Image
from tritonclient.utils import InferenceServerException

SERVER, SAMPLES = sys.argv[1], pathlib.Path(sys.argv[2])
MODEL, INPUT, OUTPUT = "cifar10-resnet", "image", "logits"
OTHER = "fashion-lenet"  # is loaded and unloaded
MEAN = np.array([0.4913, 0.4821, 0.4465], np.float64).reshape(3, 1, 1)
STD = np.array([0.2452, 0.2428, 0.2606], np.float64).reshape(3, 1, 1)
LABELS = (SAMPLES.parent / MODEL / "labels.txt").read_text().split()
random = np.random.default_rng()


def tensor(rows=3):
    return random.standard_normal((rows, 3, 32, 32)).astype(np.float32)


def given(values, datatype="FP32", binary=True):
    inputs = [http.InferInput(INPUT, list(values.shape), datatype)]
    inputs[0].set_data_from_numpy(values, binary_data=binary)
    return inputs


def wanted(binary=True, classes=0):
    return [http.InferRequestedOutput(OUTPUT, binary_data=binary, class_count=classes)]


def refusal(call, status):
    try:
        call()
    except InferenceServerException as error:
        assert error.status() == str(status), error
        assert len(error.message()) > 10, error
        return error.message()
    raise AssertionError(f"no {status}")


def near(a, b, tolerance):
    assert a.shape == b.shape, (a.shape, b.shape)
    assert np.abs(a - b).max() <= tolerance * np.abs(b).max(), np.abs(a - b).max()


def health_and_metadata(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready(MODEL) and client.is_model_ready(MODEL, "1")
    assert not client.is_model_ready("nobody") and not client.is_model_ready(MODEL, "9")
    server = client.get_server_metadata()
    assert server["name"] == "convoyd" and "binary_tensor_data" in server["extensions"], server
    model = client.get_model_metadata(MODEL)
    assert model["name"] == MODEL and model["versions"] == ["1"], model
    assert model["inputs"] == [{"name": INPUT, "datatype": "FP32", "shape": [-1, 3, 32, 32]}], model
    assert model["outputs"] == [{"name": OUTPUT, "datatype": "FP32", "shape": [-1, 10]}], model
    assert client.get_model_metadata(MODEL, "1") == model
    refusal(lambda: client.get_model_metadata("nobody"), 404)


def configuration(client):
    config = client.get_model_config(MODEL)
    assert config["name"] == MODEL and config["max_batch_size"] == 256, config
    assert config["input"][0]["dims"] == [3, 32, 32] and config["input"][0]["data_type"] == "TYPE_FP32"
    assert config["output"][0]["dims"] == [10] and config["output"][0]["name"] == OUTPUT


def repository_index(client):
    index = {entry["name"]: entry for entry in client.get_model_repository_index()}
    assert index[MODEL]["state"] == "READY" and index[MODEL]["version"] == "1", index


def load_and_unload(client):
    """As in Triton's simple_http_model_control.py; the daemon takes them because model_control is explicit."""

    def state(name):
        return next(entry for entry in client.get_model_repository_index() if entry["name"] == name)

    assert client.is_model_ready(OTHER)
    client.unload_model(OTHER)
    assert not client.is_model_ready(OTHER) and client.is_model_ready(MODEL)
    assert state(OTHER)["state"] in ("UNLOADING", "UNAVAILABLE"), state(OTHER)
    picture = given(random.standard_normal((1, 1, 28, 28)).astype(np.float32))
    assert OTHER in refusal(lambda: client.infer(OTHER, picture), 503)
    client.load_model(OTHER)
    assert client.is_model_ready(OTHER) and state(OTHER)["state"] == "READY", state(OTHER)
    assert client.infer(OTHER, picture).get_response()["model_name"] == OTHER
    client.load_model(OTHER)
    client.unload_model(OTHER, unload_dependents=True)
    assert "nobody" in refusal(lambda: client.load_model("nobody"), 404)
    assert "nobody" in refusal(lambda: client.unload_model("nobody"), 404)
    assert "config" in refusal(lambda: client.load_model(OTHER, config="{}"), 400)
    assert "files" in refusal(lambda: client.load_model(OTHER, config="{}", files={"file:1/model.onnx": b"x"}), 400)

    async def run():
        async with aio.InferenceServerClient(SERVER) as other:
            await other.load_model(OTHER)
            assert await other.is_model_ready(OTHER)
            await other.unload_model(OTHER)
            assert not await other.is_model_ready(OTHER)
            await other.load_model(OTHER)

    asyncio.run(run())


def infer_simple(client):
    """Every way of sending and receiving gives the same bits, in the order of the rows."""
    x = tensor(5)
    first = client.infer(MODEL, given(x), outputs=wanted(), request_id="7")
    answer = first.get_response()
    assert answer["id"] == "7" and answer["model_name"] == MODEL and answer["model_version"] == "1", answer
    y = first.as_numpy(OUTPUT)
    assert y.shape == (5, 10) and y.dtype == np.float32 and y.std() > 0.1
    for binary_in in (True, False):
        for binary_out in (True, False):
            again = client.infer(MODEL, given(x, binary=binary_in), outputs=wanted(binary_out))
            assert "id" not in again.get_response()
            near(again.as_numpy(OUTPUT), y, 1e-5)
    near(client.infer(MODEL, given(x), model_version="1").as_numpy(OUTPUT), y, 1e-5)
    for row in range(5):
        near(client.infer(MODEL, given(x[row : row + 1])).as_numpy(OUTPUT)[0], y[row], 1e-4)


def raw_binary(client):
    """Triton's raw binary request: the input's bytes alone, and all outputs as binary data."""
    x = tensor(2)
    request = urllib.request.Request(
        f"http://{SERVER}/v2/models/{MODEL}/infer",
        x.tobytes(),
        {"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        length = int(answer.headers["Inference-Header-Content-Length"])
        result = http.InferenceServerClient.parse_response_body(answer.read(), header_length=length)
    near(result.as_numpy(OUTPUT), client.infer(MODEL, given(x)).as_numpy(OUTPUT), 1e-5)


def not_finite(client):
    """NaN and the infinities in JSON, in both directions, are those of binary data."""
    for _ in range(100):  # sums that overflow, or cancel out what did
        x = (random.standard_normal((8, 3, 32, 32)) * 1e37).astype(np.float32)
        x[0, 0, 5, 5], x[1, 1, 5, 5], x[2, 2, 5, 5] = np.nan, np.inf, -np.inf
        y = client.infer(MODEL, given(x), outputs=wanted()).as_numpy(OUTPUT)
        if np.isnan(y).any() and np.isposinf(y).any() and np.isneginf(y).any():
            break
    else:
        raise AssertionError("no infinity in any answer")
    for binary_in, binary_out in ((True, False), (False, False), (False, True)):
        again = client.infer(MODEL, given(x, binary=binary_in), outputs=wanted(binary_out)).as_numpy(OUTPUT)
        np.testing.assert_array_equal(again, y)
    assert "INT8" in refusal(lambda: client.infer(MODEL, nans_as("INT8")), 400)


def nans_as(datatype):
    inputs = given(np.zeros((1, 3, 32, 32), np.int8), datatype, False)
    inputs[0]._data[5] = float("nan")  # pylint: disable=protected-access
    return inputs


def datatypes(client):
    x = random.integers(-100, 100, (2, 3, 32, 32))
    y = client.infer(MODEL, given(x.astype(np.float32))).as_numpy(OUTPUT)
    for datatype, kind in (("FP16", np.float16), ("INT8", np.int8), ("INT16", np.int16)):
        for binary in (True, False) if datatype != "FP16" else (True,):
            near(client.infer(MODEL, given(x.astype(kind), datatype, binary)).as_numpy(OUTPUT), y, 1e-5)
    x = np.abs(x)
    y = client.infer(MODEL, given(x.astype(np.float32))).as_numpy(OUTPUT)
    near(client.infer(MODEL, given(x.astype(np.uint16), "UINT16")).as_numpy(OUTPUT), y, 1e-5)
    for datatype, kind in (("FP64", np.float64), ("INT32", np.int32), ("INT64", np.int64), ("BOOL", np.bool_)):
        assert datatype in refusal(lambda: client.infer(MODEL, given(x.astype(kind), datatype)), 400)


def pixels(client):
    """UINT8 is what the model's configuration makes of it; a PNG of the same pixels is the same image."""
    image = random.integers(0, 256, (2, 32, 32, 3), np.uint8)
    planes = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    y = client.infer(MODEL, given(((planes / 255 - MEAN) / STD).astype(np.float32))).as_numpy(OUTPUT)
    for values in (image, planes):
        for binary in (True, False):
            near(client.infer(MODEL, given(values, "UINT8", binary)).as_numpy(OUTPUT), y, 1e-4)
    files = []
    for row in image:
        file = io.BytesIO()
        Image.fromarray(row).save(file, "PNG")
        files.append(file.getvalue())
    near(client.infer(MODEL, given(np.array(files, np.object_), "BYTES")).as_numpy(OUTPUT), y, 1e-4)
    near(client.infer(MODEL, given(np.array(files, np.object_).reshape(2, 1), "BYTES")).as_numpy(OUTPUT), y, 1e-4)
    coded = np.array([base64.b64encode(file) for file in files], np.object_)
    near(client.infer(MODEL, given(coded, "BYTES", binary=False)).as_numpy(OUTPUT), y, 1e-4)
    in_lines = np.array([base64.encodebytes(file) for file in files], np.object_)
    assert b"\n" in in_lines[0][:-1]
    near(client.infer(MODEL, given(in_lines, "BYTES", binary=False)).as_numpy(OUTPUT), y, 1e-4)


def image_client(client):
    """What Triton's image client does, without a preprocessing of its own: the same classes as /classify."""
    files = [SAMPLES / name for name in ("ship.jpg", "airplane.jpg")]
    data = np.array([file.read_bytes() for file in files], np.object_)
    result = client.infer(MODEL, given(data, "BYTES"), outputs=wanted(classes=3))
    found = result.as_numpy(OUTPUT)
    assert found.shape == (len(files), 3) and found.dtype == np.object_, found
    for file, row in zip(files, found):
        request = urllib.request.Request(
            f"http://{SERVER}/v2/models/{MODEL}/classify?top=3", file.read_bytes(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            expected = json.load(answer)["results"][0]["predictions"]
        assert [text.decode().split(":")[2] for text in row] == [one["label"] for one in expected], (row, expected)


def classification(client):
    x = tensor(4)
    y = client.infer(MODEL, given(x)).as_numpy(OUTPUT)
    for binary in (True, False):
        found = client.infer(MODEL, given(x), outputs=wanted(binary, 10)).as_numpy(OUTPUT)
        for row, scores in zip(found, y):
            order = np.argsort(-scores, kind="stable")
            for text, index in zip(row, order):
                value, number, label = (text if isinstance(text, str) else text.decode()).split(":")
                assert int(number) == index and label == LABELS[index], (text, index)
                assert abs(float(value) - scores[index]) < 1e-5, (text, scores[index])
    # More than there are: all of them.
    assert client.infer(MODEL, given(x), outputs=wanted(True, 999)).as_numpy(OUTPUT).shape == (4, 10)
    refusal(lambda: client.infer(MODEL, given(x), outputs=wanted(True, 1001)), 400)


def batches(client):
    """More rows than one batch takes."""
    x = tensor(700)
    y = client.infer("cifar10-convnet", given(x)).as_numpy(OUTPUT)
    some = [0, 255, 256, 511, 699]
    near(client.infer("cifar10-convnet", given(x[some])).as_numpy(OUTPUT), y[some], 1e-4)
    # An answer that another thread writes, and compresses.
    for algorithm in (None, "gzip"):
        result = client.infer("cifar10-convnet", given(x), outputs=wanted(False), response_compression_algorithm=algorithm)
        near(result.as_numpy(OUTPUT), y, 1e-5)
    assert "max_per_request" in refusal(lambda: client.infer(MODEL, given(tensor(1025))), 413)


def large_json(client):
    """A megabyte and more of numbers, which another thread reads."""
    x = tensor(30)
    y = client.infer(MODEL, given(x)).as_numpy(OUTPUT)
    near(client.infer(MODEL, given(x, binary=False)).as_numpy(OUTPUT), y, 1e-5)
    near(client.infer(MODEL, given(x.astype(np.float16).repeat(10, axis=0), "FP16")).as_numpy(OUTPUT)[::10], y, 1e-2)


def compression(client):
    x = tensor(200)
    y = client.infer(MODEL, given(x)).as_numpy(OUTPUT)
    for algorithm in ("gzip", "deflate"):
        for binary in (True, False):
            result = client.infer(
                MODEL,
                given(x, binary=binary),
                outputs=wanted(binary),
                request_compression_algorithm=algorithm,
                response_compression_algorithm=algorithm,
            )
            near(result.as_numpy(OUTPUT), y, 1e-5)


def asynchronous(client):
    x = tensor(8)
    y = client.infer(MODEL, given(x)).as_numpy(OUTPUT)
    waiting = [client.async_infer(MODEL, given(x[row : row + 1]), request_id=str(row)) for row in range(8)]
    for row, request in enumerate(waiting):
        result = request.get_result()
        assert result.get_response()["id"] == str(row)
        near(result.as_numpy(OUTPUT)[0], y[row], 1e-4)


def asyncio_client(client):
    x = tensor(8)
    y = client.infer(MODEL, given(x)).as_numpy(OUTPUT)

    async def run():
        async with aio.InferenceServerClient(SERVER) as other:
            assert await other.is_server_ready() and await other.is_model_ready(MODEL)
            assert (await other.get_model_metadata(MODEL))["name"] == MODEL
            results = await asyncio.gather(*(other.infer(MODEL, given(x[row : row + 1])) for row in range(8)))
            for row, result in enumerate(results):
                near(result.as_numpy(OUTPUT)[0], y[row], 1e-4)
            try:
                await other.infer("nobody", given(x))
            except InferenceServerException as error:
                assert error.status() == "404", error
            else:
                raise AssertionError("no 404")

    asyncio.run(run())


def schedule(client):
    """A timeout that cannot be kept is a 503 that says so; one that can is kept."""
    x = tensor(1)
    assert "timeout" in refusal(lambda: client.infer(MODEL, given(x), timeout=1), 503)
    client.infer(MODEL, given(x), timeout=10_000_000)


def statistics(client):
    def numbers():
        stats = client.get_inference_statistics(MODEL)["model_stats"][0]
        return stats["inference_count"], stats["inference_stats"]["success"]["count"], stats["execution_count"]

    before = numbers()
    client.infer(MODEL, given(tensor(5)))
    after = numbers()
    assert after[0] - before[0] == 5 and after[1] - before[1] == 1 and after[2] - before[2] >= 1, (before, after)
    names = {stats["name"] for stats in client.get_inference_statistics()["model_stats"]}
    assert MODEL in names and len(names) == 4, names


def system_shared_memory(client):
    """Input and output in the client's own memory, as in Triton's example; bounds are kept."""
    x = tensor(6)
    y = client.infer(MODEL, given(x)).as_numpy(OUTPUT)
    keys = [f"/convoy-{os.getpid()}-{name}" for name in ("in", "out")]
    regions = [shm.create_shared_memory_region("in", keys[0], x.nbytes + 64)]
    try:
        regions.append(shm.create_shared_memory_region("out", keys[1], y.nbytes + 64))
        client.unregister_system_shared_memory()
        for name, key, size in (("in", keys[0], x.nbytes + 64), ("out", keys[1], y.nbytes + 64)):
            client.register_system_shared_memory(name, key, size)
        assert {region["name"] for region in client.get_system_shared_memory_status()} == {"in", "out"}
        shm.set_shared_memory_region(regions[0], [x], offset=64)

        def ask(offset=64, size=x.nbytes, out_offset=64, out_size=y.nbytes, values=x, datatype="FP32"):
            inputs = [http.InferInput(INPUT, list(values.shape), datatype)]
            inputs[0].set_shared_memory("in", size, offset=offset)
            outputs = wanted()
            outputs[0].set_shared_memory("out", out_size, offset=out_offset)
            return client.infer(MODEL, inputs, outputs=outputs)

        result = ask()
        output = result.get_output(OUTPUT)
        # NVIDIA's C++ client wants binary_data_size behind parameters: what is not there is in shared memory.
        assert output == {"name": OUTPUT, "datatype": "FP32", "shape": [6, 10]}, output
        near(shm.get_contents_as_numpy(regions[1], np.float32, y.shape, offset=64), y, 1e-5)
        assert not shm.get_contents_as_numpy(regions[1], np.float32, (16,)).any(), "written before the offset"
        # Only the input there, only the output there.
        inputs = [http.InferInput(INPUT, [6, 3, 32, 32], "FP32")]
        inputs[0].set_shared_memory("in", x.nbytes, offset=64)
        near(client.infer(MODEL, inputs).as_numpy(OUTPUT), y, 1e-5)
        shm.set_shared_memory_region(regions[0], [x.astype(np.float16)], offset=64)
        ask(size=x.nbytes // 2, values=x.astype(np.float16), datatype="FP16")
        near(shm.get_contents_as_numpy(regions[1], np.float32, y.shape, offset=64), y, 1e-2)
        for wrong in (
            {"offset": 65},
            {"offset": 1 << 40},
            {"size": x.nbytes - 4},
            {"out_offset": 65},
            {"out_size": y.nbytes - 1},
        ):
            refusal(lambda: ask(**wrong), 400)  # pylint: disable=cell-var-from-loop
        # A client that cuts its memory off is told so, and no other client notices.
        os.truncate("/dev/shm" + keys[0], 100)
        refusal(ask, 400)
        assert client.is_server_live()
        client.unregister_system_shared_memory("in")
        refusal(ask, 400)
        assert [region["name"] for region in client.get_system_shared_memory_status()] == ["out"]
        client.unregister_system_shared_memory()
        assert client.get_system_shared_memory_status() == []
    finally:
        for region in regions:
            shm.destroy_shared_memory_region(region)


def cuda_shared_memory(client):
    """There is none; NVIDIA's examples give up what is left of both kinds before they begin."""
    client.unregister_cuda_shared_memory()
    client.unregister_cuda_shared_memory("gpu")
    assert client.get_cuda_shared_memory_status() == []
    assert "CUDA" in refusal(lambda: client.get_cuda_shared_memory_status("gpu"), 404)
    handle = base64.b64encode(bytes(64))
    assert "CUDA" in refusal(lambda: client.register_cuda_shared_memory("gpu", handle, 0, 64), 400)


def logging(client):
    before = client.get_log_settings()
    assert before["log_info"] is True and before["log_verbose_level"] == 0, before
    assert client.update_log_settings({"log_verbose_level": 1})["log_verbose_level"] == 1
    assert client.update_log_settings(before) == before
    assert "log_file" in refusal(lambda: client.update_log_settings({"log_file": "x"}), 400)


def trace(client):
    before = client.get_trace_settings()
    assert before["trace_level"] == ["OFF"] and client.get_trace_settings(MODEL) == before, before
    settings = client.update_trace_settings(MODEL, {"trace_level": ["TIMESTAMPS"], "trace_rate": "2", "trace_count": "4"})
    assert settings["trace_rate"] == "2" and settings == client.get_trace_settings(MODEL), settings
    assert client.get_trace_settings() == before
    cleared = {"trace_level": None, "trace_rate": None, "trace_count": None}
    assert client.update_trace_settings(MODEL, cleared) == before
    refusal(lambda: client.update_trace_settings(settings={"trace_level": ["TENSORS"]}), 400)
    refusal(lambda: client.get_trace_settings("nobody"), 404)


def errors(client):
    x = tensor(2)
    assert MODEL in refusal(lambda: client.infer("nobody", given(x)), 404)
    refusal(lambda: client.infer(MODEL, given(x), model_version="9"), 404)
    other = [http.InferInput("other", [2, 3, 32, 32], "FP32")]
    other[0].set_data_from_numpy(x)
    assert INPUT in refusal(lambda: client.infer(MODEL, other), 400)
    assert "[N,3,32,32]" in refusal(lambda: client.infer(MODEL, given(tensor(2)[:, :, :, :31])), 400)
    assert OUTPUT not in refusal(
        lambda: client.infer(MODEL, given(x), outputs=[http.InferRequestedOutput("other")]), 400
    )
    assert "inputs" in refusal(lambda: client.infer(MODEL, given(x) + given(x)), 400)
    bad = np.array([b"no image", (SAMPLES / "ship.jpg").read_bytes()], np.object_)
    refusal(lambda: client.infer(MODEL, given(bad, "BYTES")), 415)
    cut = np.array([(SAMPLES / "ship.jpg").read_bytes()[:300]], np.object_)
    refusal(lambda: client.infer(MODEL, given(cut, "BYTES")), 422)


def main():
    client = http.InferenceServerClient(SERVER, concurrency=8)
    failed = 0
    for test in (
        health_and_metadata,
        configuration,
        repository_index,
        load_and_unload,
        infer_simple,
        raw_binary,
        not_finite,
        datatypes,
        pixels,
        image_client,
        classification,
        batches,
        large_json,
        compression,
        asynchronous,
        asyncio_client,
        schedule,
        statistics,
        system_shared_memory,
        cuda_shared_memory,
        logging,
        trace,
        errors,
    ):
        try:
            test(client)
            print(f"{test.__name__}: passed", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"{test.__name__}: FAILED\n{traceback.format_exc()}", flush=True)
    client.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
