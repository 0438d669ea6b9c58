#!/usr/bin/env bash
# Packs what tests/gpu/run.sh and tests/soak/run.py need on a machine with a GPU and without our libraries: tests/gpu/pack.sh DIR [BUILD].
# The tree that is installed, less the CPU backend (oneDNN alone is 40 MB), and the tests of the CUDA backend with the
# libraries that they were linked with; the programs that measure (tests/bench), and this machine's wrk where it has one.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
pack=$1
build=${2:-build}
[ -e "$build/bin/convoy-backend-cuda.so" ] || {
  echo "pack.sh: $build/bin/convoy-backend-cuda.so is missing: build where nvcc is" >&2
  exit 1
}
cmake --build "$build" --target unit_engine_backends >/dev/null # ./build.sh leaves test programs out
rm -rf "$pack"
cmake --install "$build" --prefix "$pack" >/dev/null
rm -rf "$pack"/lib/convoyd/{convoy-backend-cpu.so,libdnnl*,libgomp*,libOpenCL*} "$pack"/share
cp "$build/bin/convoy-faults.so" "$pack/lib/convoyd/"
cp "$build"/bin/{bench_backend_rate,bench_channel_rate,bench_fit_time,bench_jpeg_rate,bench_network_time,bench_nvjpeg_rate,bench_oneshot,mhd_least} "$pack/bin/"
# libraries_of FILE...: those that they are linked with, less the C library's own.
libraries_of() {
  ldd "$@" | awk '/=> \// { print $3 }' | sort -u | grep -v '/lib\(c\|m\|dl\|rt\|pthread\)\.so'
}
if wrk=$(command -v wrk); then
  mkdir -p "$pack/lib/wrk"
  cp "$wrk" "$pack/lib/wrk/"
  for library in $(libraries_of "$wrk"); do
    [ -e "$pack/lib/convoyd/$(basename "$library")" ] || cp -L "$library" "$pack/lib/wrk/"
  done
  cat >"$pack/bin/wrk" <<'SCRIPT'
#!/bin/sh
lib=$(dirname "$0")/../lib
exec env LD_LIBRARY_PATH="$lib/wrk:$lib/convoyd" "$lib/wrk/wrk" "$@"
SCRIPT
  chmod +x "$pack/bin/wrk"
fi
mkdir -p "$pack/tests" "$pack/tests/lib" "$pack/tests/next_abi"
cp "$build"/tests/{unit_engine_backends,convoy-sampler.so} "$pack/tests/"
cp "$build"/tests/next_abi/{convoyd,convoy-worker} "$pack/tests/next_abi/"
libraries_of "$pack"/tests/unit_* | xargs -I{} cp -L {} "$pack/tests/lib/"
cp "$pack/bin/convoyd" "$pack/named"
strip "$pack"/tests/unit_* "$pack"/tests/next_abi/* "$pack"/bin/* "$pack"/lib/convoyd/*.so* 2>/dev/null || true
strip -g -o "$pack/bin/convoyd" "$pack/named" # where.sh needs the names of its functions
rm "$pack/named"
du -sh "$pack"
