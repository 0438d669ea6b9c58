#!/usr/bin/env bash
# timed: more is sent than this machine reads within a deadline
# Compressed bodies count for what they hold: the images of one may not cost more than its bytes justify, and those that wait to be
# read are counted at their true size, so that what cannot be read in time is refused at once.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

infer=/v2/models/cifar10-convnet/infer
configure 'http={"max_body_bytes": 67108864}' 'timeout_ms=2000'
start --backend null --config "$work/config.json"

# First: what is read later teaches what a byte costs.
echo "Numbers that are packed 500 times count for what they are."
"$python" - "$work/numbers" <<'PYTHON'
import sys
numbers = ",".join(["0.000000000000000"] * 3072 * 256)
with open(sys.argv[1], "w") as file:
    file.write('{"inputs": [{"name": "image", "datatype": "FP32", "shape": [256, 3, 32, 32], "data": [' + numbers + "]}]}")
PYTHON
gzip -9 "$work/numbers"
# All of them are there before the first is read.
"$python" - "$url" "$infer" "$work/numbers.gz" "$(front)" <<'PYTHON' || fail "see above"
import collections, os, signal, sys
sys.path.insert(0, "tests/tools")
from processes import stand_still
from wire import Connection
url, target, file, daemon = sys.argv[1:]
with open(file, "rb") as numbers:
    body = numbers.read()
stand_still(int(daemon))
try:
    connections = [Connection(url) for _ in range(50 * len(os.sched_getaffinity(0)))]
    for connection in connections:
        connection.ask("POST", target, body, headers=["Content-Encoding: gzip"])
finally:
    os.kill(int(daemon), signal.SIGCONT)
found = collections.Counter()
for connection in connections:
    answer = connection.answer()
    found[answer.status, "" if answer.status == 200 else answer.json()["error"][:60]] += 1
for (status, error), count in sorted(found.items()):
    print(count, status, error)
if {status for status, _ in found} - {200, 503}:
    sys.exit("other statuses")
if not any(error.startswith("so much waits to be read") for _, error in found):
    sys.exit("none was refused for what waits")
PYTHON

# images COUNT SIDE FILE: a request with as many blank pages, of a bit a pixel, as binary data; its JSON's length is printed.
images() {
  "$python" - "$@" <<'PYTHON'
import json, struct, sys, zlib
count, side = int(sys.argv[1]), int(sys.argv[2])
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
page = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(bytes(1 + (side + 7) // 8) * side, 9)) + chunk(b"IEND", b""))
data = (struct.pack("<I", len(page)) + page) * count
header = json.dumps({"inputs": [{"name": "image", "datatype": "BYTES", "shape": [count],
                                 "parameters": {"binary_data_size": len(data)}}]}).encode()
with open(sys.argv[3], "wb") as file:
    file.write(header + data)
print(len(header))
PYTHON
}
# images_are STATUS COUNT SIDE [CURL-ARGUMENTS...]: what they get, compressed.
images_are() {
  local status=$1 length
  length=$(images "$2" "$3" "$work/images")
  gzip -9kf "$work/images"
  shift 3
  expect "$status" -H "Inference-Header-Content-Length: $length" --data-binary "@$work/images.gz" -H 'Content-Encoding: gzip' "$url$infer"
}

echo "A page by itself may be as blank as it can be; a hundred that are packed once more into a few KB may not."
length=$(images 1 7000 "$work/images")
expect 200 -H "Inference-Header-Content-Length: $length" --data-binary "@$work/images" "$url$infer"
images_are 200 1 1000
images_are 200 100 32
images_are 413 100 7000
[[ $(json "$work/body" 'd["error"]') == *4900000000*Content-Encoding* ]] || fail "$(cat "$work/body")"

expect 200 --data-binary "@models/samples/ship.jpg" "$url/classify?model=cifar10-convnet"
stop
echo "passed"
