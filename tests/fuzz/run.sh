#!/usr/bin/env bash
# Fuzzes what strangers send: each target for SECONDS (default 15) from its corpus. What is found new is kept in
# build-fuzz/found; an input that breaks something is left in build-fuzz/broken and belongs, once it is mended,
# into tests/fuzz/corpus. Exit status 77 where clang or its fuzzer is missing.
#   tests/fuzz/run.sh [SECONDS [TARGET...]]     SECONDS 0 only builds them; several may run at a time
# CONVOY_FUZZ_RUNS ends each target after as many inputs, at the latest after SECONDS. With CONVOY_FUZZ_LEVEL=0 the compiler
# does not optimise, as in continuous integration (default 1).
# The target network is no function but the front itself, in a build with sanitizers: CONVOY_BUILD, or build-asan, which is
# then brought up to date. It has a program of its own, tests/fuzz/network/run.py, whose options may follow instead:
#   tests/fuzz/run.sh 3600 network              an hour
#   tests/fuzz/run.sh --replay FILE             what a failure left in build-fuzz/broken, again (--help: the other options)
set -euo pipefail
cd "$(dirname "$0")/../.."

# network OPTION...
network() {
  local log status=0
  if [ -z "${CONVOY_BUILD:-}" ]; then
    log=$(mktemp)
    { cmake --preset asan &&
      cmake --build --preset asan --target bin/convoyd bin/convoy-worker bin/convoy-backend-cpu.so; } >"$log" 2>&1 || status=$?
    [ $status -eq 0 ] || tail -n 30 "$log"
    rm -f "$log"
    [ $status -eq 0 ] || return $status
  fi
  python3 tests/fuzz/network/run.py --build "${CONVOY_BUILD:-build-asan}" "$@"
}

if [[ ${1:-} == --* ]]; then
  network "$@"
  exit
fi
seconds=${1:-15}
shift || true
targets=()
given=("$@")
[ ${#given[@]} -gt 0 ] || given=(multipart image onnx config keys traceparent worker inference proxy network)
for target in "${given[@]}"; do
  if [ "$target" != network ]; then
    targets+=("$target")
  elif [ "$seconds" -gt 0 ]; then
    network --seconds "$seconds"
  fi
done
[ ${#targets[@]} -gt 0 ] || exit 0

command -v clang >/dev/null || { echo "clang is not installed"; exit 77; }
flags="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-sanitize=function"
# Without optimisation compiling all targets takes 17 s of processor time instead of 40, and 20,000 inputs of onnx 2.6 instead
# of 1.8; an input may take longer.
level=${CONVOY_FUZZ_LEVEL:-1}
most_seconds=10 # for one input
[ "$level" != 0 ] || most_seconds=16
log=$(mktemp)
trap 'rm -f "$log"' EXIT
mkdir -p build-fuzz
if ! {
  flock 9
  cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCONVOY_FUZZ=ON -DCONVOY_WERROR=ON \
    -DCMAKE_C_FLAGS="$flags" -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O$level -g1 -DNDEBUG" -DCMAKE_EXE_LINKER_FLAGS="-fsanitize=address,undefined" &&
    ninja -C build-fuzz "${targets[@]/#/fuzz_}"
} >"$log" 2>&1 9>build-fuzz/one-builds; then
  tail -n 30 "$log"
  exit 1
fi
[ "$seconds" -gt 0 ] || exit 0

for target in "${targets[@]}"; do
  mkdir -p "build-fuzz/found/$target" build-fuzz/broken
  seeds=("build-fuzz/found/$target")
  [ -d "tests/fuzz/corpus/$target" ] && seeds+=("tests/fuzz/corpus/$target")
  if [ "$target" = onnx ]; then
    # The networks that the tests run, the conformance cases (libonnx-testdata), and what was found from these are its seeds.
    # Larger ones would be cut at the most that an input may have.
    mkdir -p build-fuzz/onnx-seeds
    find tests/data/networks tests/data/forms models /usr/share/libonnx-testdata/data/node -name model.onnx -size -98k 2>/dev/null |
      while read -r model; do cp "$model" "build-fuzz/onnx-seeds/$(printf '%s' "$model" | tr / _)"; done
    rm -rf build-fuzz/onnx-kept
    mkdir build-fuzz/onnx-kept
    tar -xzf tests/fuzz/onnx-corpus.tar.gz -C build-fuzz/onnx-kept
    seeds+=(build-fuzz/onnx-seeds build-fuzz/onnx-kept)
  fi
  if ! "build-fuzz/fuzz/fuzz_$target" -max_total_time="$seconds" -runs="${CONVOY_FUZZ_RUNS:--1}" -timeout=$most_seconds -rss_limit_mb=4096 -max_len=100000 \
    -artifact_prefix="build-fuzz/broken/$target-" "${seeds[@]}" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "fuzz_$target broke; the input is in build-fuzz/broken"
    exit 1
  fi
  echo "$target: $(grep -o 'Done [0-9]* runs in [0-9]* second' "$log")s"
done
