#!/usr/bin/env bash
# sanitize: yes
# KServe's V1 protocol: predictions for images and for tensors are the outputs of /infer; the models; what is refused.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

models=$work/models
mkdir -p "$models"
cp -r models/cifar10-resnet "$models/net"
mkdir -p "$models/net/2" "$models/planes/1" "$models/both/1" "$models/broken/1"
cp models/cifar10-resnet/1/model.onnx "$models/net/2/"
echo 'no model' >"$models/broken/1/model.onnx"
PYTHONPATH=tests/tools PYTHONDONTWRITEBYTECODE=1 "$python" - "$models" <<'PYTHON'
import pathlib, sys
from hostile_models import model, node, value
from protobuf import number, text
folder = pathlib.Path(sys.argv[1])
(folder / "planes/1/model.onnx").write_bytes(model([node("Relu", "only", ["x"], ["y"])]))
nodes = [node("Relu", "one", ["x"], ["y"]), node("GlobalAveragePool", "two", ["x"], ["z"])]
graph = b"".join(text(1, n) for n in nodes) + text(2, "graph") + text(11, value("x", (-1, 3, 8, 8)))
graph += text(12, value("y", (-1, 3, 8, 8))) + text(12, value("z", (-1, 3, 1, 1)))
(folder / "both/1/model.onnx").write_bytes(number(1, 8) + text(8, text(1, "") + number(2, 13)) + text(7, graph))
PYTHON
configure 'http={"max_body_bytes": 3000000}' 'images={"max_per_request": 20, "max_pixels": 100000}'
start --models "$models" --backend cpu --config "$work/config.json"

echo "The models."
expect 200 "$url/v1/models"
[ "$(json "$work/body" d)" = "{'models': ['both', 'broken', 'net', 'planes']}" ] || fail "$(cat "$work/body")"
expect 200 "$url/v1/models/net"
[ "$(json "$work/body" d)" = "{'name': 'net', 'ready': True}" ] || fail "$(cat "$work/body")"
expect 503 "$url/v1/models/broken"
expect 404 "$url/v1/models/nobody"
expect 200 -I "$url/v1/models"
expect 405 -d '' "$url/v1/models/net"

echo "Predictions are the outputs of /infer, image by image."
"$python" - "$url" <<'PYTHON' || fail "see above"
import base64, json, pathlib, sys, urllib.request

def post(path, document):
    request = urllib.request.Request(sys.argv[1] + path, json.dumps(document).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["Content-Type"] == "application/json", answer.headers
        return json.load(answer)

def infer(model, datatype, shape, data):
    answer = post(f"/v2/models/{model}/infer", {"inputs": [{"name": NAMES[model], "datatype": datatype, "shape": shape, "data": data}]})
    return {output["name"]: output for output in answer["outputs"]}

def flat(values):
    return [number for value in values for number in flat(value)] if isinstance(values, list) else [values]

def near(a, b):
    a, b = flat(a), flat(b)
    assert len(a) == len(b) and all(abs(x - y) <= 1e-4 * (1 + abs(y)) for x, y in zip(a, b)), (a[:5], b[:5])

NAMES = {"net": "image", "planes": "x", "both": "x"}
files = [base64.b64encode(pathlib.Path(f"models/samples/{name}.jpg").read_bytes()).decode() for name in ("ship", "airplane", "truck")]
expected = infer("net", "BYTES", [3], files)["logits"]["data"]
for separator in (":", "%3A", "%3a"):
    answer = post(f"/v1/models/net{separator}predict", {"instances": [{"b64": file} for file in files]})
    assert set(answer) == {"predictions"} and [len(row) for row in answer["predictions"]] == [10] * 3, answer
    near(answer["predictions"], expected)
lines = [{"b64": base64.encodebytes(base64.b64decode(file)).decode()} for file in files]
near(post("/v1/models/net:predict", {"instances": lines, "signature_name": "x", "parameters": {"a": 1}})["predictions"], expected)

for rows in (1, 3, 20):  # of 20 the decode pool reads the text
    values = [(n * 37 % 201 - 100) / 50 for n in range(rows * 3072)]
    expected = infer("net", "FP32", [rows, 3, 32, 32], values)["logits"]["data"]
    single = [values[row * 3072 : (row + 1) * 3072] for row in range(rows)]
    nested = [[[row[c * 1024 + y * 32 :][:32] for y in range(32)] for c in range(3)] for row in single]
    for instances in (single, nested):
        near(post("/v1/models/net:predict", {"instances": instances})["predictions"], expected)

values = [[[[n * (c + 1) - y - row for n in range(8)] for y in range(8)] for c in range(3)] for row in range(2)]
relu = [[[[max(0, n) for n in line] for line in plane] for plane in row] for row in values]
answer = post("/v1/models/planes:predict", {"instances": values})["predictions"]
assert answer == relu, answer
answer = post("/v1/models/both:predict", {"instances": values})["predictions"]
assert [set(row) for row in answer] == [{"y", "z"}] * 2, answer
assert [row["y"] for row in answer] == relu
near([row["z"] for row in answer], [[[[sum(flat(plane)) / 64]] for plane in row] for row in values])
assert [[len(row["z"]), len(row["z"][0]), len(row["z"][0][0])] for row in answer] == [[3, 1, 1]] * 2

values[0][0][0][0] = float("nan")
answer = post("/v1/models/both:predict", {"instances": values})["predictions"][0]["z"][0][0][0]
assert answer != answer, answer
PYTHON

echo "Refused."
predict=$url/v1/models/net:predict
refuse() { # STATUS PATTERN JSON
  printf '%s' "$3" >"$work/request"
  expect "$1" --data-binary "@$work/request" "$predict"
  # shellcheck disable=SC2053 # the pattern is one
  [[ $(json "$work/body" 'd["error"]') == $2 ]] || fail "the sentence is not $2: $(cat "$work/body")"
}
refuse 400 '*empty*instances*' ''
refuse 400 "*lacks 'instances'*" '{}'
refuse 400 "*lacks 'instances'*" '{"inputs": [[1]]}'
refuse 400 '*not empty*' '{"instances": []}'
refuse 400 '*\[3\]\[32\]\[32\]*' '{"instances": [1, 2]}'
refuse 400 "*model's shape*3072 elements*" '{"instances": [[1, 2]]}'
refuse 400 '*instances\[1\]*b64*' '{"instances": [{"b64": "AAAA"}, {"b46": "AAAA"}]}'
refuse 415 '*JPEG*' '{"instances": [{"b64": "AAAA"}]}'
refuse 422 '*' "{\"instances\": [{\"b64\": \"$(head -c 1000 models/samples/ship.jpg | base64 -w 0)\"}]}"
refuse 413 '*max_per_request*' "{\"instances\": [[]$(printf ',[]%.0s' {1..20})]}"
refuse 400 '*JSON*' '{"instances": [[1'
head -c 70000 /dev/zero | tr '\0' 1 >"$work/ones"
refuse 413 '*besides its instances*' "{\"instances\": [[1]], \"more\": \"$(cat "$work/ones")\"}"
expect 404 -d '{"instances": [[1]]}' "$url/v1/models/nobody:predict"
expect 503 -d '{"instances": [[1]]}' "$url/v1/models/broken:predict"
expect 405 "$predict"
grep -qi '^allow: POST' "$work/headers" || fail "$(cat "$work/headers")"
expect 405 -d '{"instances": [[1]]}' "$url/v1/models/net:explain"
expect 404 -d '{"instances": [[1]]}' "$url/v1/models/:predict/x"
stop
echo "passed"
