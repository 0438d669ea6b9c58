#!/usr/bin/env bash
# Every test that needs a GPU, from the root of the sources: tests/gpu/run.sh PACK [quick], PACK as tests/gpu/pack.sh made it.
# quick leaves compute-sanitizer out. CONVOY_ANSWERS names the file that tests/gpu/accuracy.sh --record wrote where the CPU
# backend is; then the four models' answers to the test images of CONVOY_DATA (../shared/data) are compared with it.
# Exit status 0 if all passed. The tuner's unit tests are not among these: they need the emulated GPU's clock.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ -x "${1:-}/bin/convoyd" ] || { echo "run.sh: name the folder that tests/gpu/pack.sh made" >&2; exit 2; }
pack=$(cd "$1" && pwd)
# Where there are several GPUs: but for the step devices, which names its own, these are tests of one.
export CUDA_VISIBLE_DEVICES=0
failed=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT
step() { # NAME COMMAND...
  local name=$1 begun=$SECONDS
  shift
  local status=0
  "$@" >"$log" 2>&1 || status=$?
  if [ $status -eq 0 ]; then
    echo "passed  $name ($((SECONDS - begun)) s)"
  elif [ $status -eq 77 ]; then
    echo "skipped $name: $(tail -n 1 "$log")"
  else
    echo "FAILED  $name ($((SECONDS - begun)) s)"
    tail -n 25 "$log" | cut -c1-300 | sed 's/^/    /'
    failed+=("$name")
  fi
}
# A process for each test, and each opens the device: with 32 hardware queues (docs/cuda.md) that takes half a second longer.
unit() { CUDA_DEVICE_MAX_CONNECTIONS=8 LD_LIBRARY_PATH=$pack/tests/lib CONVOY_TEST_MODULE=$pack/lib/convoyd/convoy-backend-cuda.so "$pack/tests/unit_$1"; }
accuracy() {
  [ -s "${CONVOY_ANSWERS:-}" ] || { echo "CONVOY_ANSWERS names no answers of the CPU backend"; return 77; }
  tests/gpu/accuracy.sh "$pack" "${CONVOY_DATA:-../shared/data}" "$CONVOY_ANSWERS"
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || exit 1
step kernels "$pack/bin/convoy-kernels" --check
step backends unit engine_backends
step daemon env CONVOY_BUILD="$pack" bash tests/integration/test_cuda.sh
step canary env CONVOY_BUILD="$pack" bash tests/integration/test_canary_cuda.sh
step confine env CONVOY_BUILD="$pack" BACKEND=cuda bash tests/integration/test_confine.sh
step spare env CONVOY_BUILD="$pack" bash tests/integration/test_spare.sh
step ending env CONVOY_BUILD="$pack" bash tests/integration/test_ending.sh
step health env CONVOY_BUILD="$pack" bash tests/integration/test_gpu_health.sh
step devices env CONVOY_BUILD="$pack" bash tests/integration/test_devices.sh # needs two GPUs
step repository env CONVOY_BUILD="$pack" BACKEND=cuda ROUNDS=20 bash tests/integration/test_repository.sh
step rows env CONVOY_BUILD="$pack" BACKEND=cuda ROUNDS=20 bash tests/integration/test_many_rows.sh
step upgrade env CONVOY_BUILD="$pack" BACKEND=cuda bash tests/integration/test_upgrade.sh
step abi env CONVOY_BUILD="$pack" BACKEND=cuda bash tests/integration/test_upgrade_abi.sh
step files env CONVOY_BUILD="$pack" CONVOY_WHOLE=1 bash tests/integration/test_jpeg_engines.sh
step calls tests/gpu/calls.sh "$pack"
step accuracy accuracy
if [ "${2:-}" != quick ]; then
  # The shapes that are awkward on purpose: under racecheck they take minutes already.
  for tool in memcheck racecheck synccheck; do
    step "$tool" compute-sanitizer --tool $tool --error-exitcode 9 "$pack/bin/convoy-kernels" --check --in-turns --shapes 0
  done
fi
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
echo "all passed"
