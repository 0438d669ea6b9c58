#!/usr/bin/env bash
# sanitize: yes
# Images of every format, size and kind that Pillow writes: the largest, the smallest, and those that are bombs.
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
    ("lossy.webp", "RGB", {"quality": 90}), ("lossless.webp", "RGBA", {"lossless": True}), ("rgb.bmp", "RGB", {}), ("palette.bmp", "P", {}),
    ("colours.gif", "P", {}), ("grey.gif", "L", {}), ("grey.bmp", "L", {}), ("bits.bmp", "1", {}), ("faint.webp", "RGBA", {"quality": 90}),
):
    ship.convert(mode).save(folder + kind, **save)
# Turned by a quarter, and the note that says so.
exif = Image.Exif()
exif[0x0112] = 6
ship.transpose(Image.ROTATE_90).save(folder + "turned.jpg", exif=exif, quality=95)
ship.transpose(Image.ROTATE_90).save(folder + "turned.webp", exif=exif, quality=95)
for kind in ("webp", "gif"):  # what comes later does not matter
    ship.save(folder + "moving." + kind, save_all=True, append_images=[ship.rotate(90 * i) for i in (1, 2, 3)], duration=40)
for kind in ("jpg", "png", "webp", "bmp", "gif"):
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
sys.path.insert(0, "tests/bench")
import image_bombs
open(folder + "bomb.webp", "wb").write(image_bombs.webp_lossless(9000))
open(folder + "bomb.gif", "wb").write(image_bombs.gif_of_one_colour(9000))
open(folder + "bomb.bmp", "wb").write(image_bombs.bmp(9000, 9000, 8, 1, b""))
# Few enough pixels, but far more than the bytes can have.
for name, data in (("webp", image_bombs.webp_lossless(7000)[:30]), ("gif", image_bombs.gif_of_one_colour(7000)[:200]),
                   ("bmp", image_bombs.bmp_runs(8)[:1000])):
    open(folder + "empty." + name, "wb").write(data)
# A second of work for next to nothing, of which none may remain once the deadline has passed.
open(folder + "clears.gif", "wb").write(image_bombs.gif_of_clear_codes(8000000))
import base64, json
uri = "data:image/webp;base64," + base64.b64encode(open(folder + "lossy.webp", "rb").read()).decode()
json.dump({"image": uri}, open(folder + "webp.json", "w"))
for name, head in (("tiff", b"II*\0\x08\0\0\0"), ("JPEG XL", b"\xff\x0a\xfa"), ("JPEG 2000", b"\0\0\0\x0cjP  \r\n\x87\n"), ("SVG", b"<svg/>"),
                   ("ICO", b"\0\0\1\0\1\0\x10\x10\0\0"), ("AVIF", b"\0\0\0\x10ftypavif\0\0\0\0"), ("HEIC", b"\0\0\0\x10ftypheic\0\0\0\0")):
    open(folder + "stranger " + name, "wb").write(head)
open(folder + "claim.jpg", "wb").write(dot[:at] + struct.pack(">HH", 65500, 65500) + dot[at + 4:])
PYTHON

configure 'default_model="cifar10-convnet"'
start --backend cpu --config "$work/config.json"
# Processor time of the daemon, in milliseconds.
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ printf "%d", ($14 + $15) * 1000 / hz }' "/proc/$(front)/stat"; }
label() { json "$work/body" "d['results'][0]['predictions'][0]['label']"; }

echo "20 megapixels and 1 pixel."
for image in large.jpg large.png; do
  expect 200 --data-binary "@$work/$image" "$url/classify"
  [ "$(label)" = ship ] || fail "$image is a $(label)"
done
for image in dot.jpg dot.png dot.webp dot.bmp dot.gif thin.png tall.jpg; do
  expect 200 --data-binary "@$work/$image" "$url/classify"
done

echo "Every kind of image; one that is turned is turned back."
for image in progressive.jpg turned.jpg rgb.png alpha.png lossy.webp lossless.webp turned.webp moving.webp rgb.bmp palette.bmp colours.gif \
  moving.gif faint.webp; do
  expect 200 --data-binary "@$work/$image" "$url/classify"
  [ "$(label)" = ship ] || fail "$image is a $(label)"
done
for image in grey.jpg cmyk.jpg grey.png palette.png bits.png deep.png grey.gif grey.bmp bits.bmp; do
  expect 200 --data-binary "@$work/$image" "$url/classify"
done
expect 200 -H 'Content-Type: application/json' --data-binary "@$work/webp.json" "$url/classify"
[ "$(label)" = ship ] || fail "a WebP in JSON is a $(label)"

echo "Other formats are refused by their names."
for file in "$work/stranger "*; do
  name=${file##*/stranger }
  expect 415 --data-binary "@$file" "$url/classify"
  [[ $(json "$work/body" 'd["error"]') == *"${name/tiff/TIFF}"*"send a JPEG, PNG, WebP, BMP or GIF image" ]] || fail "$name: $(cat "$work/body")"
done

echo "The client takes them, in folders too."
mkdir -p "$work/set/ship"
cp "$work"/{rgb.bmp,lossy.webp,colours.gif,rgb.png,progressive.jpg} "$work/set/ship"
"$build/bin/convoy" classify --url "$url" --top 1 "$work"/set/ship/* >"$work/said" || fail "$(cat "$work/said")"
[ "$(grep -c 'ship .*%' "$work/said")" = 5 ] || fail "$(cat "$work/said")"
"$build/bin/convoy" eval --url "$url" "$work/set" >"$work/said" || fail "$(cat "$work/said")"
grep -q '5 images' "$work/said" || fail "$(cat "$work/said")"
cp README.md "$work/set"
"$build/bin/convoy" bench --url "$url" --seconds 0.5 --json "$work/set" >"$work/said" || fail "$(cat "$work/said")"

echo "Decompression bombs are refused before they are unpacked."
before=$(awk '/VmHWM/ { print $2 }' "/proc/$(front)/status")
for image in bomb.png claim.png claim.jpg bomb.webp bomb.gif bomb.bmp; do
  expect 413 --data-binary "@$work/$image" "$url/classify"
  [[ $(json "$work/body" 'd["error"]') == *pixels*more\ than\ the\ 50000000* ]] || fail "$image: $(cat "$work/body")"
done
for image in empty.webp empty.gif empty.bmp; do
  expect 422 --data-binary "@$work/$image" "$url/classify"
done
after=$(awk '/VmHWM/ { print $2 }' "/proc/$(front)/status")
[ $((after - before)) -lt 20000 ] || fail "the bombs took $((after - before)) KiB"
expect 200 -F "a=@$work/rgb.png" -F "b=@$work/bomb.png" -F "c=@$work/rgb.png" "$url/classify"
[ "$(json "$work/body" "['predictions' in d['results'][0], d['results'][1]['status'], 'predictions' in d['results'][2]]")" = \
  "[True, 413, True]" ] || fail "a bomb among others: $(cat "$work/body")"
expect 413 -F "b=@$work/bomb.png" -F "c=@README.md" "$url/classify"
stop

echo "What is decoded for long ends with its deadline."
configure 'default_model="cifar10-convnet"'
start --backend null --config "$work/config.json"
before=$(cpu_ms)
expect 503 --data-binary "@$work/clears.gif" "$url/classify?timeout_ms=300"
[ $(($(cpu_ms) - before)) -lt 1000 ] || fail "decoding went on for $(($(cpu_ms) - before)) ms after a deadline of 300"
expect 200 --data-binary "@$work/clears.gif" "$url/classify?timeout_ms=60000"
[ $(($(cpu_ms) - before)) -gt 1000 ] || fail "this takes $(($(cpu_ms) - before)) ms: the test proves nothing"
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
