#!/usr/bin/env bash
# sanitize: yes
# /classify of an image in JSON: base64 in one line or several, data: URIs, limits, and what is no such JSON.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

configure 'default_model="cifar10-convnet"' 'http={"max_body_bytes": 3000000}' 'images={"max_pixels": 100000}'
start --backend cpu --config "$work/config.json"
image=models/samples/ship.jpg
json=(-H 'Content-Type: application/json')
# post STATUS [CURL-ARGUMENTS...]: what is in $work/request.
post() { expect "$1" "${json[@]}" --data-binary "@$work/request" "${@:2}" "$url/classify"; }
predictions() { json "$work/body" 'd["results"]'; }
says() {
  local sentence
  sentence=$(json "$work/body" 'd["error"]')
  # shellcheck disable=SC2053 # the pattern is one
  [[ $sentence == $1 ]] || fail "the sentence is not $1: $sentence"
}

echo "The same as the file itself."
expect 200 --data-binary @$image "$url/classify"
expected=$(predictions)
for text in "$(base64 -w 0 $image)" "$(base64 $image)" "$(base64 $image | sed 's/$/\\n/' | tr -d '\n')" "$(base64 -w 0 $image | sed 's#/#\\/#g')" \
  "data:image/jpeg;base64,$(base64 -w 0 $image)" "data:image\\/png;base64,$(base64 -w 0 $image)"; do
  printf '{"image": "%s"}' "$text" >"$work/request"
  post 200
  [ "$(predictions)" = "$expected" ] || fail "$(cat "$work/body") is not $expected"
done
post 200 -H 'Transfer-Encoding: chunked'
json=(-H 'content-type: Application/JSON; charset=utf-8')
post 200
expect 200 "${json[@]}" --data-binary "@$work/request" "$url/v2/models/cifar10-resnet/classify?top=1"
[ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = ship ] || fail "$(cat "$work/body")"

echo "A long one, which another thread reads."
head -c 700000 /dev/zero >"$work/padding"
cat $image "$work/padding" >"$work/long.jpg"
printf '{"image": "%s"}' "$(base64 "$work/long.jpg")" >"$work/request"
expect 200 --data-binary "@$work/long.jpg" "$url/classify"
expected=$(predictions)
post 200
[ "$(predictions)" = "$expected" ] || fail "$(cat "$work/body") is not $expected"

echo "Limits."
head -c 3000001 /dev/zero | tr '\0' A >"$work/request"
post 413
says '*max_body_bytes*'
printf '{"image": "%s"}' "$("$python" - <<'PYTHON'
import base64, struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
side = 400
print(base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", side, side, 8, 0, 0, 0, 0)) +
                       chunk(b"IDAT", zlib.compress(bytes(side * (side + 1)))) + chunk(b"IEND", b"")).decode())
PYTHON
)" >"$work/request"
post 413
says '*160000 pixels*'

echo "What is no such JSON."
refuse() { # STATUS PATTERN TEXT
  printf '%s' "$3" >"$work/request"
  post "$1"
  says "$2"
}
refuse 400 '*empty*' ''
refuse 400 '*no JSON object*' '[]'
refuse 400 "*lacks 'image'*" '{}'
refuse 400 "*'picture'*not known*" '{"picture": "AAAA"}'
refuse 400 "*'top'*not known*" '{"image": "AAAA", "top": 3}'
refuse 400 '*no string*' '{"image": ["AAAA"]}'
refuse 400 '*no base64*' '{"image": "http://example.org/ship.jpg"}'
refuse 400 '*cut off*' '{"image": "AAAA'
refuse 400 '*not in base64*' '{"image": "data:image/png,AAAA"}'
refuse 400 '*JPEG*' '{"image": ""}'
refuse 415 '*JPEG*' '{"image": "AAAA"}'
refuse 422 '*' "{\"image\": \"$(head -c 1000 $image | base64 -w 0)\"}"
cp $image "$work/request"
post 400 # no JSON
says '*no JSON object*'
expect 200 -H 'Content-Type: application/octet-stream' --data-binary @$image "$url/classify"
expect 200 -H 'Content-Type: application/jsonl' --data-binary @$image "$url/classify"
stop
echo "passed"
