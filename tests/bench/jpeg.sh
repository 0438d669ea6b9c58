#!/usr/bin/env bash
# JPEG files on the GPU: nvJPEG by itself, then the CUDA backend with the same files and batches: decoded, resized, computed.
#   tests/bench/jpeg.sh [MODEL.onnx [PRECISION [RESIZE_TO]]]      cifar10-convnet, fp16, 0 (stretched)
# CONVOY_BUILD names a build, or a pack (tests/gpu/pack.sh). Without a GPU the emulated one shows that it works.
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
model=${1:-models/cifar10-convnet/1/model.onnx} precision=${2:-fp16} resize_to=${3:-0}
batch=${BATCH:-64} seconds=${SECONDS_EACH:-3}
bin=$build/bin
[ -x "$bin/bench_jpeg_rate" ] || die "$bin/bench_jpeg_rate is missing: build first (./build.sh release)"
if [ ! -e /dev/nvidiactl ]; then
  emulation=$build/tests/emulation
  [ -e "$emulation/convoy-backend-cuda-emulated.so" ] || die "there is neither a GPU nor an emulated one"
  echo "On an emulated GPU: the figures say nothing."
  cp "$bin/bench_jpeg_rate" "$work/"
  cp "$emulation/convoy-backend-cuda-emulated.so" "$work/convoy-backend-cuda.so"
  bin=$work batch=4 seconds=1
  export LD_LIBRARY_PATH=$emulation/nvjpeg
fi
for size in "500 375" "1920 1080"; do
  read -r width height <<<"$size"
  files=()
  for i in 1 2 3 4; do
    files+=("$work/$width-$i.jpg")
    "$python" tests/bench/photograph.py "$width" "$height" "$work/$width-$i.jpg" || die "Pillow is missing (Debian package python3-pil)"
  done
  echo "$width x $height, $(stat -c %s "${files[0]}") bytes, batches of $batch"
  if [ -x "$bin/bench_nvjpeg_rate" ]; then
    "$bin/bench_nvjpeg_rate" "$batch" "$seconds" "${files[@]}" | sed 's/^/  nvJPEG alone: /'
    "$bin/bench_nvjpeg_rate" --spin "$batch" "$seconds" "${files[@]}" | sed 's/^/  nvJPEG alone, threads spin: /'
  fi
  [ ! -x "$bin/bench_fit_time" ] || "$bin/bench_fit_time" "$width" "$height" "$batch" 224 256 | sed 's/^/  kernels to 224 x 224: /'
  "$bin/bench_jpeg_rate" cuda "$model" "$batch" "$seconds" "$precision" "$resize_to" "${files[@]}" 2>&1 | sed 's/^/  backend: /'
done
