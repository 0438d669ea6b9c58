#!/usr/bin/env bash
# What a photograph costs the processor: the front's decoder and resizing beside a full decode by libjpeg-turbo, on one
# thread, in turns, with images.scaled_decoding off and auto; to 32 x 32, to 224 x 224 as ImageNet's networks want it, and
# the same with the bicubic filter; and how much memory a decode takes.
#   tests/bench/decode_time.sh
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
program=$build/bin/bench_decode_time
[ -x "$program" ] || die "$program is missing: build first (./build.sh release)"
for size in "500 375" "1920 1080" "5472 3648"; do
  read -r width height <<<"$size"
  "$python" tests/bench/photograph.py "$width" "$height" "$work/photograph.jpg" || die "Pillow is missing (Debian package python3-pil)"
  "$program" "$work/photograph.jpg" 32 224/256 224/256:bicubic
  # As a telephone that was held upright writes it.
  "$python" -c 'import sys; from PIL import Image
image = Image.open(sys.argv[1])
exif = image.getexif()
exif[0x112] = 6
image.save(sys.argv[1], quality="keep", exif=exif)' "$work/photograph.jpg"
  echo "Turned:"
  "$program" "$work/photograph.jpg" 224/256
done
