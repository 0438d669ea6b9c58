#!/usr/bin/env bash
# sanitize: yes
# Images of every size and kind that Pillow writes: the largest, the smallest, and those that are bombs.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
needs_pillow

"$python" - "$work" <<'PYTHON'
import io, struct, sys, zlib
from PIL import Image

folder = sys.argv[1] + "/"
ship = Image.open("models/samples/ship.jpg").convert("RGB")
# 5472 x 3648, as many cameras give: the ship, so that the answer can be told.
large = ship.resize((5472, 3648), Image.BICUBIC)
large.save(folder + "large.jpg", quality=90)
large.resize((3000, 2000)).save(folder + "large.png", compress_level=1)
for kind, mode, save in (
    ("grey.jpg", "L", {}), ("cmyk.jpg", "CMYK", {}), ("progressive.jpg", "RGB", {"progressive": True}),
    ("grey.png", "L", {}), ("palette.png", "P", {}), ("alpha.png", "RGBA", {}), ("bits.png", "1", {}), ("deep.png", "I", {}),
    ("rgb.png", "RGB", {}),
):
    ship.convert(mode).save(folder + kind, **save)
# Turned by a quarter, and the note that says so.
exif = Image.Exif()
exif[0x0112] = 6
ship.transpose(Image.ROTATE_90).save(folder + "turned.jpg", exif=exif, quality=95)
for kind in ("jpg", "png"):
    Image.new("RGB", (1, 1), (12, 200, 7)).save(f"{folder}dot.{kind}")
Image.new("RGB", (9000, 1)).save(folder + "thin.png")
Image.new("RGB", (1, 9000)).save(folder + "tall.jpg")

# Bombs: 100 million pixels in 100 KB that really unpack, and headers that claim more than there is.
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(width, height, data):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", data) + chunk(b"IEND", b""))
packer = zlib.compressobj(9)
row = b"\0" * 10001
open(folder + "bomb.png", "wb").write(
    png(10000, 10000, b"".join(packer.compress(row * 1000) for _ in range(10)) + packer.flush()))
open(folder + "claim.png", "wb").write(png(2**31 - 1, 2**31 - 1, zlib.compress(b"\0")))
dot = open(folder + "dot.jpg", "rb").read()
at = dot.index(b"\xff\xc0") + 5
open(folder + "claim.jpg", "wb").write(dot[:at] + struct.pack(">HH", 65500, 65500) + dot[at + 4:])
PYTHON

configure 'default_model="cifar10-convnet"'
start --backend cpu --config "$work/config.json"
label() { json "$work/body" "d['results'][0]['predictions'][0]['label']"; }

echo "20 megapixels and 1 pixel."
for image in large.jpg large.png; do
  expect 200 --data-binary "@$work/$image" "$url/classify"
  [ "$(label)" = ship ] || fail "$image is a $(label)"
done
for image in dot.jpg dot.png thin.png tall.jpg; do
  expect 200 --data-binary "@$work/$image" "$url/classify"
done

echo "Every kind of JPEG and PNG; one that is turned is turned back."
for image in progressive.jpg turned.jpg rgb.png alpha.png; do
  expect 200 --data-binary "@$work/$image" "$url/classify"
  [ "$(label)" = ship ] || fail "$image is a $(label)"
done
for image in grey.jpg cmyk.jpg grey.png palette.png bits.png deep.png; do
  expect 200 --data-binary "@$work/$image" "$url/classify"
done

echo "Decompression bombs are refused before they are unpacked."
before=$(awk '/VmHWM/ { print $2 }' "/proc/$daemon/status")
for image in bomb.png claim.png claim.jpg; do
  expect 413 --data-binary "@$work/$image" "$url/classify"
  [[ $(json "$work/body" 'd["error"]') == *pixels*more\ than\ the\ 50000000* ]] || fail "$image: $(cat "$work/body")"
done
after=$(awk '/VmHWM/ { print $2 }' "/proc/$daemon/status")
[ $((after - before)) -lt 20000 ] || fail "the bombs took $((after - before)) KiB"
expect 200 -F "a=@$work/rgb.png" -F "b=@$work/bomb.png" -F "c=@$work/rgb.png" "$url/classify"
[ "$(json "$work/body" "['predictions' in d['results'][0], d['results'][1]['status'], 'predictions' in d['results'][2]]")" = \
  "[True, 413, True]" ] || fail "a bomb among others: $(cat "$work/body")"
expect 413 -F "b=@$work/bomb.png" -F "c=@README.md" "$url/classify"
stop

echo "The bound is exact."
configure 'default_model="cifar10-convnet"' 'images={"max_pixels": 6000000}'
start --backend null --config "$work/config.json"
expect 200 --data-binary "@$work/large.png" "$url/classify"
stop
configure 'default_model="cifar10-convnet"' 'images={"max_pixels": 5999999}'
start --backend null --config "$work/config.json"
expect 413 --data-binary "@$work/large.png" "$url/classify"
stop
echo "passed"
