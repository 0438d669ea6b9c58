#!/usr/bin/env python3
"""Writes the seeds of the network fuzzer into tests/fuzz/corpus/network: seeds.py

A seed is the bytes of one request, NAME.STATUS: what a freshly started front answers when the seeds are sent in the order of
their names. Those of a name that begins with "z" change what the front serves, so that they are asked for no answer later.
Only the samples of this project go into them. Needs Pillow.
"""

import base64
import gzip
import io
import json
import pathlib
import struct
import sys
import zlib

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests/fuzz/corpus/network"
MODEL = "cifar10-convnet"
# A seed's own deadline: longer than the fuzzer waits (script.py), or a machine that stood still for a moment would be taken for
# a mistake.
DEADLINE_MS = 40000
# The fuzzer puts a name of its own here, of the same length.
OBJECT = "/convoy-fuzz-00000000"


def picture(name, size, format_, **options):
    file = io.BytesIO()
    Image.open(ROOT / "models/samples" / name).resize((size, size)).save(file, format_, **options)
    return file.getvalue()


def request(method, target, body=None, headers=(), host="localhost", version="1.1"):
    lines = [f"{method} {target} HTTP/{version}", f"Host: {host}", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def chunked(target, pieces, headers=(), trailer=b""):
    top = request("POST", target, headers=[*headers, "Transfer-Encoding: chunked"])
    return top + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + trailer + b"\r\n"


def form(parts, boundary="B0undary"):
    body = b"".join(
        b'--%s\r\nContent-Disposition: form-data; name="f%d"; filename="x.jpg"\r\nContent-Type: image/jpeg\r\n\r\n%s\r\n'
        % (boundary.encode(), number, part)
        for number, part in enumerate(parts)
    )
    return body + b"--%s--\r\n" % boundary.encode(), [f"Content-Type: multipart/form-data; boundary={boundary}"]


def tensor(datatype, shape, data=None, **parameters):
    one = {"name": "image", "datatype": datatype, "shape": shape}
    if data is not None:
        one["data"] = data
    if parameters:
        one["parameters"] = parameters
    return one


def infer(one, binary=b"", headers=(), **more):
    text = json.dumps({"inputs": [one], **more}).encode()
    if binary:
        headers = [*headers, f"Inference-Header-Content-Length: {len(text)}"]
    return text + binary, list(headers)


def seeds():
    ship = (ROOT / "models/samples/ship.jpg").read_bytes()
    small = {name: picture(f"{name}.jpg", 32, "JPEG", quality=60) for name in ("ship", "truck", "airplane")}
    png = picture("truck.jpg", 16, "PNG")
    infer_path, classify_path = f"/v2/models/{MODEL}/infer", f"/v2/models/{MODEL}/versions/1/classify"

    for name, target, status in (
        ("live", "/v2/health/live", 200),
        ("ready", "/v2/health/ready", 200),
        ("server", "/v2", 200),
        ("models", "/v2/models", 200),
        ("model", f"/v2/models/{MODEL}", 200),
        ("version", f"/v2/models/{MODEL}/versions/1/ready", 200),
        ("config", f"/v2/models/{MODEL}/config", 200),
        ("stats", "/v2/models/stats", 200),
        ("trace", "/v2/trace/setting", 200),
        ("regions", "/v2/systemsharedmemory/status", 200),
        ("v1_models", "/v1/models", 200),
        ("v1_model", f"/v1/models/{MODEL}", 200),
        ("logging", "/v2/logging", 200),
        ("cuda_regions", "/v2/cudasharedmemory/status", 200),
        ("metrics", "/metrics", 200),
        ("totals", "/totals", 200),
        ("page", "/", 200),
        ("page_file", "/web/dom.js", 200),
        ("nowhere", "/no%20where/at%2fall?x=%00", 404),
    ):
        yield f"get_{name}.{status}", request("GET", target)
    yield "get_openapi.200", request("GET", "/v2/openapi.json", headers=["Accept-Encoding: gzip, deflate;q=0.5"])
    yield "head.200", request("HEAD", f"/v2/models/{MODEL}")
    yield "options.405", request("OPTIONS", "/classify")
    yield "get_old.200", b"GET /v2/health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    yield "get_many_headers.200", request(
        "GET",
        "/v2",
        headers=["Cookie: a=1; b=2; c=%zz", "X-Request-Id: fuzz-1"] + [f"X-{n}: {n * 'y'}" for n in range(20)],
    )
    yield "get_many_arguments.200", request("GET", "/v2?" + "&".join(f"a{n}=%4{n % 10}" for n in range(30)))

    yield "classify_jpeg.200", request("POST", "/classify?top=3", ship)
    yield "classify_png.200", request("POST", classify_path + f"?top=10&timeout_ms={DEADLINE_MS}&priority=1", png)
    for kind, options in (("webp", {"quality": 60}), ("gif", {}), ("bmp", {})):
        yield f"classify_{kind}.200", request("POST", "/classify", picture("truck.jpg", 16, kind.upper(), **options))
    yield "classify_profile.200", request("POST", f"/classify?model={MODEL}&version=1&profile=1", small["truck"])
    yield "classify_expect.200", request(
        "POST", "/classify", small["airplane"], ["Expect: 100-continue", "Content-Type: image/jpeg"]
    )
    yield "classify_raw.415", request(
        "POST", "/classify", bytes(range(256)), ["Content-Type: application/octet-stream"]
    )
    yield "classify_packed.200", request(
        "POST", "/classify", gzip.compress(small["ship"], mtime=0), ["Content-Encoding: gzip"]
    )
    yield "classify_coding.415", request("POST", "/classify", small["ship"], ["Content-Encoding: br"])
    yield "classify_cut.422", request("POST", "/classify", small["ship"][:400])
    yield "classify_top.400", request("POST", "/classify?top=0&top=5", small["ship"])
    uri = "data:image/jpeg;base64," + base64.b64encode(small["ship"]).decode()
    as_json = ["Content-Type: application/json; charset=utf-8"]
    yield "classify_json.200", request("POST", "/classify?top=2", json.dumps({"image": uri}).encode(), as_json)
    lines = json.dumps({"image": base64.encodebytes(small["truck"]).decode()}).replace("/", "\\/").encode()
    yield "classify_json_lines.200", request("POST", classify_path, lines, as_json)
    yield "classify_json_member.400", request("POST", "/classify", b'{"picture": "AAAA"}', as_json)
    predict_path = f"/v1/models/{MODEL}:predict"
    images = [{"b64": base64.b64encode(small[name]).decode()} for name in ("ship", "truck")]
    yield "predict_images.200", request("POST", predict_path, json.dumps({"instances": images}).encode())
    rows = json.dumps({"instances": [[n % 9 for n in range(3072)]], "signature_name": "x"}).encode()
    yield "predict_rows.200", request("POST", predict_path.replace(":", "%3A"), rows)
    yield "predict_wrong.400", request("POST", predict_path, b'{"instances": [[1, 2], {"b64": "AAAA"}]}')
    half = len(small["ship"]) // 2
    yield "classify_chunked.200", chunked("/classify?top=1", [small["ship"][:half], small["ship"][half:]])
    yield "classify_trailer.200", chunked(
        "/classify?top=1", [small["truck"][:1], small["truck"][1:9], small["truck"][9:]], trailer=b"X-Sum: 5\r\n"
    )
    body, headers = form([small["ship"], small["airplane"], b"no image"])
    yield "form.200", request("POST", "/classify?top=2", body, headers)
    body, headers = form([small["truck"]] * 3, "'()+_,-./:=?")
    headers = ['Content-Type: multipart/form-data; charset=x; boundary="\'()+_,-./:=?"']
    yield "form_quoted.200", request("POST", classify_path, body, headers)

    pixels = bytes(n * 7 % 251 for n in range(3072))
    floats = struct.pack("<3072f", *(n % 17 / 8 - 1 for n in range(3072)))
    body, headers = infer(tensor("UINT8", [1, 3, 32, 32], list(pixels)))
    yield "infer_gzip.200", request(
        "POST", infer_path, gzip.compress(body, mtime=0), [*headers, "Content-Encoding: gzip"]
    )
    yield "infer_deflate.200", request("POST", infer_path, zlib.compress(body), [*headers, "Content-Encoding: deflate"])
    body, headers = infer(
        tensor("INT8", [2, 3, 32, 32], [n % 3 for n in range(6144)]), outputs=[{"name": "logits"}], id="7"
    )
    body = body.replace(b", ", b",")
    yield "infer_long.200", request("POST", infer_path, gzip.compress(body, mtime=0), ["Content-Encoding: gzip"])
    nested = [[[[n % 10] * 32] * 32 for n in range(3)]]
    body, headers = infer(tensor("FP32", [1, 3, 32, 32], nested), parameters={"timeout": DEADLINE_MS * 1000, "priority": 3})
    yield "infer_nested.200", request("POST", infer_path, gzip.compress(body, mtime=0), ["Content-Encoding: gzip"])
    body, headers = infer(tensor("FP32", [1, 3, 32, 32], [float("nan"), float("inf"), float("-inf")] * 1024))
    yield "infer_not_finite.200", request("POST", infer_path, gzip.compress(body, mtime=0), ["Content-Encoding: gzip"])
    body, headers = infer(
        tensor("UINT8", [1, 32, 32, 3], binary_data_size=3072), pixels, parameters={"binary_data_output": True}
    )
    yield "infer_pixels.200", request("POST", infer_path, body, headers)
    body, headers = infer(
        tensor("FP16", [1, 3, 32, 32], binary_data_size=6144),
        struct.pack("<3072e", *(n % 5 for n in range(3072))),
        outputs=[{"name": "logits", "parameters": {"classification": 3}}],
    )
    yield "infer_half.200", request(
        "POST", infer_path, gzip.compress(body, mtime=0), [*headers, "Content-Encoding: gzip"]
    )
    body, headers = infer(
        tensor("FP32", [1, 3, 32, 32], binary_data_size=len(floats)), floats, ["Accept-Encoding: gzip"]
    )
    yield "infer_floats.200", request(
        "POST", infer_path, gzip.compress(body, mtime=0), [*headers, "Content-Encoding: gzip"]
    )
    yield "infer_raw.200", request(
        "POST",
        infer_path,
        gzip.compress(2 * floats, mtime=0),
        ["Inference-Header-Content-Length: 0", "Content-Encoding: gzip"],
    )
    yield "infer_raw_cut.400", request("POST", infer_path, pixels, ["Inference-Header-Content-Length: 0"])
    files = b"".join(struct.pack("<I", len(small[name])) + small[name] for name in ("ship", "truck"))
    body, headers = infer(tensor("BYTES", [2], binary_data_size=len(files)), files)
    yield "infer_files.200", request("POST", infer_path, body, headers)
    body, headers = infer(tensor("BYTES", [1, 1], [base64.b64encode(small["airplane"]).decode()]))
    yield "infer_base64.200", request("POST", infer_path, body, headers)
    body, headers = infer(tensor("BYTES", [1], [base64.encodebytes(ship).decode()]))
    yield "infer_lines.200", request("POST", infer_path, body, headers)
    yield "infer_wrong.400", request(
        "POST", infer_path, b'{"inputs":[{"name":"image","datatype":"INT64","shape":[1]}]}'
    )
    yield "infer_coding.415", request("POST", infer_path, b"{}", ["Content-Encoding: br"])

    def post(target, document=None):
        return request("POST", target, json.dumps(document).encode() if document is not None else b"")

    memory = "/v2/systemsharedmemory"
    yield "cuda_register.400", post(
        "/v2/cudasharedmemory/region/gpu/register", {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 64}
    )
    yield "repository_index.200", post("/v2/repository/index", {"ready": True})
    yield "z1_register.200", post(f"{memory}/region/pixels/register", {"key": OBJECT, "offset": 0, "byte_size": 3072})
    yield "z2_register.200", post(
        f"{memory}/region/out%20put/register", {"key": OBJECT, "offset": 3072, "byte_size": 64}
    )
    body, _ = infer(
        tensor("UINT8", [1, 3, 32, 32], shared_memory_region="pixels", shared_memory_byte_size=3072),
        outputs=[{"name": "logits", "parameters": {"shared_memory_region": "out put", "shared_memory_byte_size": 64}}],
    )
    yield "z3_infer_memory.200", request("POST", infer_path, body)
    yield "z4_region.200", request("GET", f"{memory}/region/out%20put/status")
    yield "z5_unregister.200", post(f"{memory}/region/pixels/unregister")
    yield "z6_unregister.200", post(f"{memory}/unregister")
    yield "z7_load.200", post("/v2/repository/models/fashion-lenet/load", {"parameters": {"unload_dependents": False}})
    yield "z8_classify.200", request("POST", "/v2/models/fashion-lenet/classify?top=1", small["ship"])
    yield "z9_unload.200", post("/v2/repository/models/fashion-lenet/unload")
    yield "z_logging.200", post("/v2/logging", {"log_info": True, "log_verbose_level": 0, "log_file": ""})
    yield "zz_trace.200", post(
        f"/v2/models/{MODEL}/trace/setting", {"trace_level": ["TIMESTAMPS"], "trace_rate": "100", "trace_count": "50"}
    )


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (FOLDER / name).write_bytes(data)
    print(sum(path.stat().st_size for path in FOLDER.iterdir()), "bytes in", len(list(FOLDER.iterdir())), "files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
