#!/usr/bin/env bash
# sanitize: yes
# What is no image, no known model and no right number gets its own status and a sentence.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
start --backend cpu

# says PATTERN: the sentence of the last answer.
says() {
  local sentence
  sentence=$(json "$work/body" 'd["error"]')
  # shellcheck disable=SC2053 # the pattern is one
  [[ $sentence == $1 ]] || fail "the sentence is not $1: $sentence"
}

echo "Bodies that are no image."
expect 400 -X POST "$url/classify"
says '*empty*'
expect 400 -X POST -H 'Transfer-Encoding: chunked' --data-binary '' "$url/classify"
expect 415 --data-binary 'this is text' "$url/classify"
says '*text*JPEG, PNG, WebP, BMP or GIF*'
expect 415 --data-binary '<!DOCTYPE html><html></html>' "$url/classify"
says '*HTML*'
printf 'II*\0\10\0\0\0' >"$work/cut.tiff"
expect 415 --data-binary "@$work/cut.tiff" "$url/classify"
says '*a TIFF image*'
# What the header claims does not count.
expect 415 -H 'Content-Type: image/jpeg' --data-binary "@$work/cut.tiff" "$url/classify"
printf 'GIF89a\1\0\1\0\200\0\0\0\0\0\377\377\377!\371\4\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;' >"$work/dot.gif"
expect 200 -H 'Content-Type: image/jpeg' --data-binary "@$work/dot.gif" "$url/classify"
expect 200 -H 'Content-Type: text/html' --data-binary "@$image" "$url/classify"
printf '\377' >"$work/one"
expect 415 --data-binary "@$work/one" "$url/classify"
head -c 65536 /dev/zero >"$work/zeros"
expect 415 --data-binary "@$work/zeros" "$url/classify"

echo "JPEG and PNG that are cut, at many places, or damaged: an answer each, and none 500."
size=$(stat -c %s "$image")
for part in 2 3 4 20 100 300 $((size / 4)) $((size / 2)) $((size - 200)); do
  head -c "$part" "$image" >"$work/cut.jpg"
  status=$(curl -sS -o "$work/body" -w '%{http_code}' --data-binary "@$work/cut.jpg" "$url/classify")
  [ "$part" -lt 3 ] || [ "$status" = 422 ] || fail "a JPEG of $part bytes: status $status"
done
expect 422 --data-binary "@$work/cut.jpg" "$url/classify"
"$python" - "$work/whole.png" <<'PYTHON'
import struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
rows = b"".join(b"\0" + bytes((x * y) % 256 for x in range(96)) for y in range(32))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0))
                              + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
PYTHON
expect 200 --data-binary "@$work/whole.png" "$url/classify"
size=$(stat -c %s "$work/whole.png")
for part in 8 20 33 60 $((size / 2)) $((size - 20)); do
  head -c "$part" "$work/whole.png" >"$work/cut.png"
  expect 422 --data-binary "@$work/cut.png" "$url/classify"
done

echo "Numbers in the query."
for top in 0 abc 1e9 -1 1001 5x 1.5 '' 99999999999999999999 0x5 '%00' '5%00'; do
  expect 400 --data-binary "@$image" "$url/classify?top=$top"
  says '*top*'
done
for query in timeout_ms=0 timeout_ms=abc timeout_ms=3600001 profile=2 profile=yes; do
  expect 400 --data-binary "@$image" "$url/classify?$query"
  says "*${query%%=*}*"
done
for top in 1 3 1000; do
  expect 200 --data-binary "@$image" "$url/classify?top=$top"
  [ "$(json "$work/body" "len(d['results'][0]['predictions']) == min($top, 10)")" = True ] || fail "top=$top"
done
[ "$(json "$work/body" "[p['probability'] for p in d['results'][0]['predictions']] ==
  sorted((p['probability'] for p in d['results'][0]['predictions']), reverse=True)")" = True ] || fail "not by falling probability"
[ "$(json "$work/body" "abs(sum(p['probability'] for p in d['results'][0]['predictions']) - 1) < 1e-4")" = True ] ||
  fail "the probabilities do not sum to 1"
[ "$(json "$work/body" "d['results'][0]['predictions'][0]['label']")" = ship ] || fail "no ship"
expect 200 --data-binary "@$image" "$url/classify"
[ "$(json "$work/body" "len(d['results'][0]['predictions'])")" = 5 ] || fail "top is not 5 by default"
expect 200 --data-binary "@$image" "$url/classify?top=2&top=abc&nonsense=1&&="
expect 200 --data-binary "@$image" "$url/classify?profile=1"
[ "$(json "$work/body" "len(d['layers']) > 0 and d['batch_size'] == 1 and
  all(set(l) == {'name', 'kernel', 'us'} for l in d['layers'])")" = True ] || fail "no layers: $(cat "$work/body")"

echo "Models that are not there."
long=$(head -c 5000 /dev/zero | tr '\0' a)
for name in nobody ../../etc/passwd ..%2f..%2fetc%2fpasswd '%2e%2e' . / "$long" cifar10-convnet/ CIFAR10-CONVNET 'a%0ab'; do
  expect 404 --data-binary "@$image" "$url/classify?model=$name"
  grep -q root: "$work/body" && fail "that is /etc/passwd"
done
expect 400 --data-binary "@$image" "$url/classify?model=cifar10-convnet%00x"
expect 404 --data-binary "@$image" "$url/classify?model="
for version in 2 0 01 -1 latest ../1 99999999999999999999; do
  expect 404 --data-binary "@$image" "$url/classify?version=$version"
  expect 404 --data-binary "@$image" "$url/classify?model=cifar10-convnet&version=$version"
done
expect 404 --path-as-is --data-binary "@$image" "$url/v2/models/../../etc/passwd/classify"
expect 404 --data-binary "@$image" "$url/v2/models/..%2f..%2fetc%2fpasswd/classify"
expect 404 --data-binary "@$image" "$url/v2/models/$long/classify"
expect 404 --data-binary "@$image" "$url/v2/models/cifar10-convnet/versions/2/classify"
expect 404 "$url/v2/models/nobody"
expect 404 "$url/v2/models/nobody/ready"
expect 404 "$url/v2/models/cifar10-convnet/versions/7"
expect 200 --data-binary "@$image" "$url/v2/models/cifar10-convnet/versions/1/classify"
expect 200 --data-binary "@$image" "$url/classify?model=cifar10-convnet&version=1"

echo "Paths and methods."
for path in // /web /web/ /web/none /classify/ /v2/ /v2/models/ /v3 '/%2fclassify' /CLASSIFY /v2/models//classify /metrics/x '/%00' '/classify%00'; do
  expect 404 "$url$path"
done
for method in GET PUT DELETE PATCH OPTIONS TRACE BREW; do
  expect 405 -X "$method" "$url/classify"
  grep -qi '^allow: POST' "$work/headers" || fail "$method /classify: no Allow: POST"
done
for path in /v2/health/live /v2/health/ready /v2 /v2/models /v2/models/cifar10-convnet /metrics; do
  for method in POST PUT DELETE; do
    expect 405 -X "$method" -d x "$url$path"
    grep -qiE '^allow: GET, ?HEAD' "$work/headers" || fail "$method $path: no Allow: $(cat "$work/headers")"
  done
done

echo "After all that it serves as before, and no refused image holds a place."
[ "$(sample 'convoyd_queue_images{model="cifar10-convnet"}')" = 0 ] || fail "images are left in the queue"
[ "$(sample convoyd_slots_in_use)" = 0 ] || fail "slots are left in use"
expect 200 --data-binary "@$image" "$url/classify"
[ "$(json "$work/body" "d['results'][0]['predictions'][0]['label']")" = ship ] || fail "no ship"
stop
echo "passed"
