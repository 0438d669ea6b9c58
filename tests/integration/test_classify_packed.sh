#!/usr/bin/env bash
# sanitize: yes
# /classify of bodies with Content-Encoding: images, forms and JSON, limits, and what is damaged.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

configure 'default_model="cifar10-convnet"' 'http={"max_body_bytes": 3000000}'
start --backend cpu --config "$work/config.json"
image=models/samples/ship.jpg
predictions() { json "$work/body" '[r.get("predictions") or r["status"] for r in d["results"]]'; }
says() {
  local sentence
  sentence=$(json "$work/body" 'd["error"]')
  # shellcheck disable=SC2053 # the pattern is one
  [[ $sentence == $1 ]] || fail "the sentence is not $1: $sentence"
}
# post STATUS FILE [CURL-ARGUMENTS...]
post() { expect "$1" --data-binary "@$2" "${@:3}" "$url/classify"; }
packed=(-H 'Content-Encoding: gzip')

"$python" - "$work" <<'PYTHON'
import base64, gzip, json, struct, sys, zlib
folder = sys.argv[1] + "/"
def write(name, data):
    open(folder + name, "wb").write(data)
ship, truck = (open(f"models/samples/{name}.jpg", "rb").read() for name in ("ship", "truck"))
write("image.gz", gzip.compress(ship))
write("image.zz", zlib.compress(ship))
write("json", json.dumps({"image": base64.b64encode(ship).decode()}).encode())
write("json.gz", gzip.compress(json.dumps({"image": base64.encodebytes(ship).decode()}).encode()))
parts = b"".join(b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + part + b"\r\n" for part in (ship, b"no image", truck)) + b"--B--"
write("form", parts)
write("form.gz", gzip.compress(parts))
write("cut.gz", gzip.compress(ship)[:-30])
write("text.gz", gzip.compress(b"this is text"))
write("empty.gz", gzip.compress(b""))
write("large.gz", gzip.compress(ship + bytes(3000001 - len(ship))))
write("fits.gz", gzip.compress(ship + bytes(3000000 - len(ship))))
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
side = 7000  # of which a PNG by itself may have as many as it can hold
blank = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", side, side, 1, 0, 0, 0, 0))
blank += chunk(b"IDAT", zlib.compress(bytes(side * (side // 8 + 1)), 9)) + chunk(b"IEND", b"")
write("blank.png", blank)
write("blank.gz", gzip.compress(blank, 9))
PYTHON

echo "The same as what came uncompressed."
post 200 $image
expected=$(predictions)
post 200 "$work/image.gz" "${packed[@]}"
[ "$(predictions)" = "$expected" ] || fail "gzip: $(cat "$work/body")"
post 200 "$work/image.gz" -H 'Content-Encoding: X-GZIP' -H 'Transfer-Encoding: chunked' -H 'Content-Type: image/jpeg'
[ "$(predictions)" = "$expected" ] || fail "x-gzip: $(cat "$work/body")"
post 200 "$work/image.zz" -H 'Content-Encoding: deflate'
[ "$(predictions)" = "$expected" ] || fail "deflate: $(cat "$work/body")"
post 200 $image -H 'Content-Encoding: identity'
post 200 "$work/json.gz" "${packed[@]}" -H 'Content-Type: application/json'
[ "$(predictions)" = "$expected" ] || fail "JSON: $(cat "$work/body")"
post 200 "$work/form" -H 'Content-Type: multipart/form-data; boundary=B'
expected=$(predictions)
post 200 "$work/form.gz" "${packed[@]}" -H 'Content-Type: multipart/form-data; boundary=B'
[ "$(predictions)" = "$expected" ] || fail "form: $(cat "$work/body")"

echo "Limits."
post 200 "$work/fits.gz" "${packed[@]}"
post 413 "$work/large.gz" "${packed[@]}"
says '*3000000*'
post 200 "$work/blank.png"
post 413 "$work/blank.gz" "${packed[@]}"
says '*49000000 pixels*Content-Encoding*'

echo "What is no such thing."
post 415 "$work/image.gz" -H 'Content-Encoding: br'
says '*br*gzip*'
post 415 "$work/image.gz" # the image is not unpacked unless the header says so
post 400 $image "${packed[@]}"
post 400 "$work/cut.gz" "${packed[@]}"
post 415 "$work/text.gz" "${packed[@]}"
says '*text*'
post 400 "$work/empty.gz" "${packed[@]}"
says '*empty*'
post 400 "$work/image.gz" "${packed[@]}" -H 'Content-Type: application/json'
post 200 "$work/image.gz" "${packed[@]}"
stop
echo "passed"
