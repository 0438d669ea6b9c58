#!/usr/bin/env bash
# sanitize: all
# The daemon with the CUDA backend, on a GPU where there is one, else on the emulation: answers, the calls that a request
# costs, and every fault of a GPU.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

export CUDA_VISIBLE_DEVICES=0 # what requests cost is counted for one device
needs_cuda
model=cifar10-convnet
image=models/samples/ship.jpg
classify=/v2/models/$model/classify
"$python" tests/tools/solid_png.py "$work/poison.png" 250 0 250
calls() { sample "convoyd_cuda_calls_total{device=\"cuda:0\",call=\"$1\"}"; }

echo "Answers, alone and many at once, and what they cost."
# JPEG engines off: they allocate on a thread of their own, on a fast GPU still behind the first answers.
configure tune='"off"' timeout_ms=60000 'images={"decoder": "cpu"}'
start --config "$work/config.json" --backend cuda
expect 200 --data-binary @$image "$url$classify"
[ "$(json "$work/body" '(d["results"][0]["predictions"][0]["label"], d["device"])')" = "('ship', 'cuda:0')" ] ||
  fail "$(cat "$work/body")"
form=()
for name in ship truck airplane automobile ship truck airplane; do form+=(-F "image=@models/samples/$name.jpg"); done
expect 200 "${form[@]}" "$url$classify"
[ "$(json "$work/body" '[r["predictions"][0]["label"] for r in d["results"]]')" = \
  "['ship', 'truck', 'airplane', 'automobile', 'ship', 'truck', 'airplane']" ] || fail "$(cat "$work/body")"
expect 200 --data-binary @$image "$url$classify?profile=1"
[ "$(json "$work/body" 'len(d["layers"]) >= 4 and all(l["us"] > 0 and l["kernel"] for l in d["layers"])')" = True ] ||
  fail "$(cat "$work/body")"
# A profile allocates: its calls are counted when a launch behind it is.
expect 200 --data-binary @$image "$url$classify"
counted() { [ -n "$(calls cudaGraphLaunch)" ] && [ "$(calls cudaGraphLaunch)" -ge "$1" ]; }
until_true 5 counted 3 || fail "no calls on /metrics: $(curl -s "$url/metrics" | grep cuda)"
before=$(calls cudaMalloc)
launches=$(calls cudaGraphLaunch)
for ((i = 0; i < 20; i++)); do expect 200 --data-binary @$image "$url$classify"; done
until_true 5 counted $((launches + 20)) || fail "20 requests, $(calls cudaGraphLaunch) launches after $launches"
[ "$(calls cudaMalloc)" = "$before" ] || fail "a request allocates: $before, then $(calls cudaMalloc)"
echo "Tensors: pixels, and the same normalised here, are the same to the network."
"$python" -S - "$url" models/$model/config.json <<'PYTHON' || fail "see above"
import json, random, sys, urllib.request

config = json.load(open(sys.argv[2]))["input"]
pixels = [random.randrange(256) for _ in range(3 * 3072)]
floats = [(x * config["scale"] - config["mean"][i // 1024 % 3]) / config["std"][i // 1024 % 3] for i, x in enumerate(pixels)]

def infer(datatype, data):
    body = {"inputs": [{"name": "image", "datatype": datatype, "shape": [3, 3, 32, 32], "data": data}]}
    request = urllib.request.Request(sys.argv[1] + "/v2/models/cifar10-convnet/infer", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["outputs"][0]["data"]

a, b = infer("UINT8", pixels), infer("FP32", floats)
worst = max(abs(x - y) for x, y in zip(a, b)) / max(map(abs, a))
print(f"30 outputs, {worst:.1e} apart")
sys.exit(len(a) != 30 or not worst < 5e-3) # the model may compute in fp16
PYTHON
stop

echo "Class activation maps, also of 16-bit tensors, where NumPy is there to compare with."
if "$python" -c 'import numpy, PIL' 2>/dev/null; then
  export PYTHONPATH=tests/tools PYTHONDONTWRITEBYTECODE=1
  "$python" tests/tools/explain_models.py "$work/maps" dense softmax channels last two
  configure tune='"off"' timeout_ms=60000 "models=\"$work/maps\""
  start --config "$work/config.json" --backend cuda
  "$python" tests/tools/explain_check.py "$url" 1e-4 dense softmax channels last two || fail "see above"
  stop
  sed -i 's/^{/{"precision": "fp16", /' "$work"/maps/*/config.json
  start --config "$work/config.json" --backend cuda
  "$python" tests/tools/explain_check.py "$url" 5e-3 dense channels || fail "see above"
  stop
fi

# On a busy machine an emulated batch takes a second and its process may stand still for three, under a sanitizer longer.
hang_ms=3000
if [ -n "$emulated" ]; then hang_ms=6000; fi
if [[ $build == *san* ]]; then hang_ms=12000; fi
# One model: each fault restarts the worker up to four times, and a worker loads all models.
mkdir -p "$work/one"
cp -r models/$model "$work/one/"
for fault in illegal trap ecc spin; do
  echo "A GPU fault ($fault) costs the image that caused it and no other."
  export CONVOY_TEST_FAULT=$fault:250,0,250
  configure tune='"off"' timeout_ms=120000 "models=\"$work/one\"" "worker={\"hang_timeout_ms\": $([ $fault = spin ] && echo $hang_ms || echo 30000)}"
  start --config "$work/config.json" --backend cuda
  expect 500 --data-binary @"$work/poison.png" "$url$classify"
  expect 200 -F image=@$image -F image=@"$work/poison.png" -F image=@models/samples/truck.jpg "$url$classify"
  [ "$(json "$work/body" '[r.get("status", r.get("predictions", [{}])[0].get("label")) for r in d["results"]]')" = \
    "['ship', 500, 'truck']" ] || fail "$(cat "$work/body")"
  case $fault in
    illegal) grep -q cudaErrorIllegalAddress "$work/log" || fail "the log does not say what happened" ;;
    trap) grep -q cudaErrorLaunchFailure "$work/log" || fail "the log does not say what happened" ;;
    ecc) grep -qi ecc "$work/log" || fail "the log does not say what happened" ;;
    spin) grep -q 'reason=hang' "$work/log" || fail "the log does not say that it hung" ;;
  esac
  stop
done

echo "A model for which there is no memory leaves the others served."
mkdir -p "$work/models"
cp -r models/$model "$work/models/"
cp -r models/$model "$work/models/large"
export CONVOY_TEST_FAULT=memory:large
configure tune='"off"' "models=\"$work/models\""
start --config "$work/config.json" --backend cuda
expect 200 --data-binary @$image "$url$classify"
expect 503 --data-binary @$image "$url/v2/models/large/classify"
grep -q 'bytes were asked for .* are free' "$work/body" || fail "$(cat "$work/body")"
stop

echo "A device that is lost while a model is loaded costs the worker, not the model; after the second time the model."
export CONVOY_TEST_FAULT=lost:large
start --config "$work/config.json" --backend cuda
expect 200 --data-binary @$image "$url$classify"
given_up() { [ "$(curl -s -o /dev/null -w '%{http_code}' --data-binary @$image "$url/v2/models/large/classify")" = 503 ] && grep -q 'msg="model failed"' "$work/log"; }
until_true 20 given_up || fail "the model that kills workers is loaded again and again"
[ "$(grep -c 'worker died and is replaced' "$work/log")" = 2 ] || fail "not two workers died of it"
expect 200 --data-binary @$image "$url$classify"
stop
unset CONVOY_TEST_FAULT

if [ -n "$emulated" ]; then
  echo "A GPU that the build has no code for is not used."
  export CONVOY_EMULATED_FAULT=code:1
  ! "$build/bin/convoy-worker" --check models/$model/1/model.onnx --backend cuda >"$work/check" 2>&1 || fail "it is used"
  grep -q 'CONVOY_CUDA_ARCHITECTURES' "$work/check" || fail "$(cat "$work/check")"
fi
echo "passed"
