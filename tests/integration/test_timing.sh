#!/usr/bin/env bash
# The stages of an answer's timing add up to its total: for a small image alone, and for photographs that wait for a decoder.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
configure 'default_model="cifar10-convnet"' 'timeout_ms=60000'
start --backend null --config "$work/config.json"
"$python" - "$work/photo.jpg" <<'PYTHON'
import sys
from PIL import Image
Image.effect_noise((3000, 3000), 40).convert("RGB").save(sys.argv[1], quality=60)
PYTHON
"$python" - "$url" $image "$work/photo.jpg" <<'PYTHON' || fail "see above"
import os, sys
sys.path.insert(0, "tests/tools")
from wire import Connection
url, image, photo = sys.argv[1], open(sys.argv[2], "rb").read(), open(sys.argv[3], "rb").read()
STAGES = ("decode_us", "wait_us", "queue_us", "input_us", "compute_us", "output_us")
def check(answer):
    timing = answer.json()["timing"]
    total = sum(timing[stage] for stage in STAGES)
    # Three stages are rounded, and the clock is read between others.
    if abs(total - timing["total_us"]) > 5:
        sys.exit(f"the stages make {total}: {timing}")
    return timing
# What no stage explains counts as waiting, so the sum alone says little: an image that is alone has nothing to wait for.
alone = []
with Connection(url) as connection:
    for _ in range(100):
        connection.ask("POST", "/classify", image)
        alone.append(check(connection.answer()))
alone.sort(key=lambda timing: timing["wait_us"])
print(f"of an image alone no stage explains {alone[50]['wait_us']} us of {alone[50]['total_us']} us")
if alone[50]["wait_us"] > 100 + alone[50]["total_us"] / 20:
    sys.exit("that is too much")
waits = []
connections = [Connection(url) for _ in range(4 * os.cpu_count())]
for connection in connections:
    connection.ask("POST", "/classify", photo)
for connection in connections:
    waits.append(check(connection.answer())["wait_us"])
print(f"photographs waited {min(waits)} to {max(waits)} us for a decoder")
# The last one waits while three others are decoded by its thread.
if max(waits) < 10000:
    sys.exit("none waited")
PYTHON
waited() { sample 'convoyd_wait_seconds_count{model="cifar10-convnet"}'; }
before=$(waited)
[ "$before" -ge 100 ] || fail "convoyd_wait_seconds is not counted"
head -c 3072 /dev/zero | tr '\0' 7 >"$work/pixels"
request='{"inputs":[{"name":"image","datatype":"UINT8","shape":[1,3,32,32],"parameters":{"binary_data_size":3072}}]}'
{ printf %s "$request" && cat "$work/pixels"; } >"$work/tensor"
expect 200 -H "Inference-Header-Content-Length: ${#request}" --data-binary "@$work/tensor" "$url/v2/models/cifar10-convnet/infer"
[ "$(waited)" = $((before + 1)) ] || fail "convoyd_wait_seconds does not count tensors"
stop
echo passed
