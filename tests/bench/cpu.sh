#!/usr/bin/env bash
# Measures the CPU backend on models/cifar10-convnet, in turns, median of the ratios:
#  - by itself, batch 32 and all cores, beside ONNX Runtime on the same file with as many threads;
#  - through HTTP, a JPEG of 32 x 32 pixels a request from 64 connections, wrk on the same cores, beside itself.
#   tests/bench/cpu.sh [ROUNDS [SECONDS]]
# Or any networks by themselves beside ONNX Runtime, batches 1, 8 and 32, all cores, in turns, median of the ratios. A NETWORK is
# a FILE.onnx, or torchvision:NAME or timm:NAME, which is exported with random weights into build/networks:
#   tests/bench/cpu.sh ROUNDS NETWORK...
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-7}
model=models/cifar10-convnet/1/model.onnx
peer=build/venv-tests/bin/python

# exported NETWORK: prints the file's path.
exported() {
  local file=build/networks/${1//:/-}.onnx
  case $1 in
    *.onnx) echo "$1"; return ;;
    torchvision:* | timm:*) ;;
    *) die "'$1' is no file.onnx, torchvision:NAME or timm:NAME" ;;
  esac
  if [ ! -e "$file" ]; then
    mkdir -p build/networks
    # shellcheck source=tests/survey/lib.sh
    (. tests/survey/lib.sh
      python_with cpu.sh torch torchvision timm onnx numpy
      "$python" tests/bench/networks_export.py "$1" "$file.new") >&2 || return
    mv "$file.new" "$file"
  fi
  echo "$file"
}

if [ $# -gt 1 ] && [[ ! $2 =~ ^[0-9.]+$ ]]; then
  shift
  files=()
  for network; do
    file=$(exported "$network") || exit
    files+=("$file")
  done
  # shellcheck source=tests/survey/lib.sh
  (. tests/survey/lib.sh
    python_with cpu.sh onnxruntime numpy
    exec "$python" tests/bench/cpu_networks.py "$build/bin/bench_network_time" "$work" "$(nproc)" "$rounds" "${files[@]}")
  exit
fi
seconds=${2:-3}
needs wrk wrk
[ -x $peer ] || /usr/bin/python3 -m venv --system-site-packages build/venv-tests
$peer -c 'import onnxruntime, numpy' 2>/dev/null || $peer -m pip install -q onnxruntime numpy ||
  echo "cpu.sh: ONNX Runtime cannot be installed here: measuring without it" >&2
small_jpeg
serve cpu --models "$measured"
for ((i = 0; i < rounds; i++)); do
  "$build/bin/bench_backend_rate" cpu $model 32 "$seconds" f32 >>"$work/floats"
  "$build/bin/bench_backend_rate" cpu $model 32 "$seconds" u8 >>"$work/bytes"
  $peer tests/bench/onnxruntime_rate.py $model 32 "$seconds" "$(nproc)" >>"$work/peer" || true
  drive "$url/classify?top=1" 64 "$seconds" >>"$work/http"
  drive "$url/classify?top=1" 1 1 >>"$work/alone"
done
printf 'batch 32, %d threads, %d rounds of %d s\n' "$(nproc)" "$rounds" "$seconds"
printf 'CPU backend, float32 rows:  %6d images/s\n' "$(median <"$work/floats")"
printf 'CPU backend, 8-bit rows:    %6d images/s\n' "$(median <"$work/bytes")"
if [ -s "$work/peer" ]; then
  printf 'ONNX Runtime %s, float32: %6d images/s\n' \
    "$($peer -c 'import onnxruntime; print(onnxruntime.__version__)')" "$(median <"$work/peer")"
  echo "ratio CPU backend to ONNX Runtime: $(ratios "$work/floats" "$work/peer")"
fi
printf 'through HTTP, 64 connections: %6d requests/s, p50 %.2f ms, p99 %.2f ms\n' "$(median 1 <"$work/http")" \
  "$(median 2 <"$work/http" | awk '{ print $1 / 1000 }')" "$(median 3 <"$work/http" | awk '{ print $1 / 1000 }')"
printf 'through HTTP, 1 connection:   %6d requests/s, p50 %.2f ms, p99 %.2f ms\n' "$(median 1 <"$work/alone")" \
  "$(median 2 <"$work/alone" | awk '{ print $1 / 1000 }')" "$(median 3 <"$work/alone" | awk '{ print $1 / 1000 }')"
echo "ratio HTTP to the backend's own: $(ratios "$work/http" "$work/bytes")"
awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work/http" "$work/alone"
