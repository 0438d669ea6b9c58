#!/usr/bin/env bash
# sanitize: yes
# Inference requests byte by byte, where a client's library would not go: compression, framing, limits, bad input.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

configure 'shared_memory={"enabled": true}' 'http={"max_body_bytes": 600000}' 'images={"max_per_request": 40}' 'auth={"loopback_admin": true}'
start --backend null --config "$work/config.json"
infer=$url/v2/models/cifar10-convnet/infer
# request ROWS KIND [EXTRA]: JSON, or JSON and binary data behind it; the length of the JSON is in $work/length.
request() {
  "$python" - "$work" "$@" <<'PYTHON' >"$work/request"
import json, sys
folder, rows, kind, *extra = sys.argv[1:]
count = int(rows) * 3072
tensor = {"name": "image", "datatype": "UINT8", "shape": [int(rows), 3, 32, 32]}
data = b""
if kind == "json":
    tensor["data"] = [i % 256 for i in range(count)]
else:
    data = bytes(i % 256 for i in range(count))
    tensor["parameters"] = {"binary_data_size": len(data)}
text = json.dumps({"inputs": [tensor], **(json.loads(extra[0]) if extra else {})}).encode()
open(folder + "/length", "w").write(str(len(text)))
sys.stdout.buffer.write(text + data)
PYTHON
}
rows() { [ "$(json "$work/body" "d['outputs'][0]['shape']")" = "[$1, 10]" ] || fail "$(head -c 300 "$work/body"), not $1 rows"; }
header() { grep -i "^$1:" "$work/headers" | tr -d '\r' | cut -d ' ' -f 2-; }
post() { expect "$1" --data-binary "@${3:-$work/request}" "${@:4}" "$2"; }

echo "JSON."
request 1 json
post 200 "$infer"
rows 1
[ "$(json "$work/body" "len(d['outputs'][0]['data'])")" = 10 ] || fail "$(cat "$work/body")"
[ "$(header content-type)" = application/json ] || fail "$(cat "$work/headers")"
request 8 json # another thread reads it
post 200 "$infer"
rows 8
request 8 json '{"id": "é\"\\"}'
post 200 "$infer"
[ "$(json "$work/body" "d['id'] == 'é\"\\\\'")" = True ] || fail "$(cat "$work/body")"

echo "Binary data."
request 2 binary '{"parameters": {"binary_data_output": true}}'
post 200 "$infer" "$work/request" -H "Inference-Header-Content-Length: $(cat "$work/length")"
[ "$(header content-type)" = application/octet-stream ] || fail "$(cat "$work/headers")"
length=$(header inference-header-content-length)
[ "$(($(stat -c %s "$work/body") - length))" = 80 ] || fail "$(cat "$work/headers")"
head -c "$length" "$work/body" >"$work/json"
[ "$(json "$work/json" "d['outputs'][0]['parameters']['binary_data_size']")" = 80 ] || fail "$(cat "$work/json")"
post 400 "$infer" # without the header it is no JSON
for wrong in 0 -1 x 1e3 "$(($(cat "$work/length") - 1))" 999999 99999999999999999999; do
  post 400 "$infer" "$work/request" -H "Inference-Header-Content-Length: $wrong"
done

echo "Base64 in lines: base64(1), from Python's encodebytes, as a shell puts it into a string."
for lines in "$(base64 -w 0 models/samples/ship.jpg)" "$(base64 models/samples/ship.jpg)" "$(base64 models/samples/ship.jpg | sed 's/$/\\r\\n/' | tr -d '\n')"; do
  printf '{"inputs":[{"name":"image","datatype":"BYTES","shape":[1],"data":["%s"]}]}' "$lines" >"$work/request"
  post 200 "$infer"
  rows 1
done

echo "Raw binary: rows of FP32 and no JSON."
raw=(-H 'Inference-Header-Content-Length: 0' -H 'Content-Type: application/octet-stream')
head -c $((3 * 12288)) /dev/urandom >"$work/raw"
post 200 "$infer" "$work/raw" "${raw[@]}"
[ "$(header content-type)" = application/octet-stream ] || fail "$(cat "$work/headers")"
length=$(header inference-header-content-length)
[ "$(($(stat -c %s "$work/body") - length))" = 120 ] || fail "not three rows of ten floats: $(cat "$work/headers")"
head -c "$length" "$work/body" >"$work/json"
[ "$(json "$work/json" "d['outputs']")" = "[{'name': 'logits', 'datatype': 'FP32', 'shape': [3, 10], 'parameters': {'binary_data_size': 120}}]" ] ||
  fail "$(cat "$work/json")"
gzip -kf "$work/raw"
post 200 "$infer" "$work/raw.gz" "${raw[@]}" -H 'Content-Encoding: gzip'
post 200 "$infer" "$work/raw" "${raw[@]}" -H 'Transfer-Encoding: chunked'
for bytes in 1 3072 12287 12289 36860; do
  head -c $bytes "$work/raw" >"$work/cut"
  post 400 "$infer" "$work/cut" "${raw[@]}"
  [[ $(json "$work/body" "d['error']") == *"FP32 [3,32,32], has 12288 bytes, and the body's $bytes"* ]] || fail "$(cat "$work/body")"
done
expect 400 -X POST "${raw[@]}" "$infer"
[[ $(json "$work/body" "d['error']") == *"has 12288 bytes"* ]] || fail "$(cat "$work/body")"
head -c $((41 * 12288)) /dev/zero >"$work/rows"
post 413 "$infer" "$work/rows" "${raw[@]}"

echo "Compressed."
request 30 json
gzip -kf "$work/request"
post 200 "$infer" "$work/request.gz" -H 'Content-Encoding: gzip'
rows 30
[ -z "$(header content-encoding)" ] || fail "it was not asked for: $(cat "$work/headers")"
post 200 "$infer" "$work/request.gz" -H 'Content-Encoding: gzip' -H 'Accept-Encoding: gzip'
[ "$(header content-encoding)" = gzip ] || fail "$(cat "$work/headers")"
gunzip <"$work/body" >"$work/json"
[ "$(json "$work/json" "d['outputs'][0]['shape']")" = "[30, 10]" ] || fail "$(cat "$work/json")"
request 1 json
post 200 "$infer" "$work/request" -H 'Accept-Encoding: gzip'
rows 1 # so small that it is not compressed
post 200 "$infer" "$work/request" -H 'Content-Encoding: identity'
post 415 "$infer" "$work/request" -H 'Content-Encoding: br'
post 400 "$infer" "$work/request" -H 'Content-Encoding: gzip'
head -c 300 "$work/request.gz" >"$work/cut"
post 400 "$infer" "$work/cut" -H 'Content-Encoding: gzip'
head -c 10000000 /dev/zero | gzip >"$work/bomb"
post 413 "$infer" "$work/bomb" -H 'Content-Encoding: gzip'

echo "Limits."
request 41 binary
post 413 "$infer" "$work/request" -H "Inference-Header-Content-Length: $(cat "$work/length")"
[[ $(json "$work/body" "d['error']") == *max_per_request* ]] || fail "$(cat "$work/body")"
request 1 json '{"parameters": {"timeout": 1}}'
post 503 "$infer"
request 1 json '{"parameters": {"priority": 1}}'
post 200 "$infer"
request 1 json '{"parameters": {"priority": 4}}'
post 400 "$infer"

echo "What is no request."
expect 400 -X POST "$infer"
post 400 "$infer" models/samples/ship.jpg
post 404 "$url/v2/models/nobody/infer"
post 404 "$url/v2/models/cifar10-convnet/versions/9/infer"
request 1 json
post 200 "$url/v2/models/cifar10-convnet/versions/1/infer"
expect 405 "$infer"
[ "$(header allow)" = POST ] || fail "$(cat "$work/headers")"
printf '[%.0s' {1..60000} >"$work/deep"
post 400 "$infer" "$work/deep"
printf '{"inputs":[{"data":%s' "$(cat "$work/deep")" >"$work/deeper"
post 400 "$infer" "$work/deeper"

echo "Shared memory is not for pages in a browser."
request 1 json '{"outputs": [{"name": "logits", "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 40}}]}'
post 403 "$infer" "$work/request" -H 'Origin: http://example.org'
post 400 "$infer" # no such region
[[ $(json "$work/body" "d['error']") == *"'r'"* ]] || fail "$(cat "$work/body")"

for by in 'X-Forwarded-For: 192.0.2.1' 'Forwarded: for=192.0.2.1' 'Via: 1.1 proxy' 'X-Real-IP: 192.0.2.1'; do
  post 403 "$infer" "$work/request" -H "$by"
done

echo "JSON besides the data is bounded: a parser's objects take much more than their text."
"$python" -c 'import json, sys; print(json.dumps({**json.load(open(sys.argv[1])), "more": [0] * 30000}))' "$work/request" >"$work/more"
post 413 "$infer" "$work/more"
expect 413 --data-binary "@$work/more" "$url/v2/repository/index"
expect 413 --data-binary "@$work/more" "$url/v2/trace/setting"
expect 413 --data-binary "@$work/more" "$url/v2/systemsharedmemory/region/r/register"

request 1 json
post 200 "$infer"
stop

echo "A row of floats that fits no slot is refused, and delays no other."
configure 'worker={"slot_bytes": 8192}'
start --backend null --config "$work/config.json"
infer=$url/v2/models/cifar10-convnet/infer
sed 's/UINT8/FP32/' "$work/request" >"$work/floats"
post 413 "$infer" "$work/floats"
[[ $(json "$work/body" "d['error']") == *slot_bytes* ]] || fail "$(cat "$work/body")"
post 200 "$infer"
expect 200 --data-binary @models/samples/ship.jpg "$url/v2/models/cifar10-convnet/classify"
stop
echo "passed"
