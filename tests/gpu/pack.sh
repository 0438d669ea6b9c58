#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs on a machine with a GPU and without our libraries: tests/gpu/pack.sh DIR [BUILD].
# The tree that is installed, less the CPU backend (oneDNN alone is 40 MB), and the tests of the CUDA backend with the
# libraries that they were linked with.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
pack=$1
build=${2:-build}
[ -e "$build/bin/convoy-backend-cuda.so" ] || {
  echo "pack.sh: $build/bin/convoy-backend-cuda.so is missing: build where nvcc is" >&2
  exit 1
}
rm -rf "$pack"
cmake --install "$build" --prefix "$pack" >/dev/null
rm -rf "$pack"/lib/convoyd/{convoy-backend-cpu.so,libdnnl*,libgomp*,libOpenCL*} "$pack"/share
cp "$build"/bin/bench_{backend,channel}_rate "$pack/bin/"
mkdir -p "$pack/tests" "$pack/tests/lib"
for test in backend_operators backend_networks backend_exported; do cp "$build/tests/unit_$test" "$pack/tests/"; done
ldd "$pack"/tests/unit_* | awk '/=> \// { print $3 }' | sort -u | grep -v '/lib\(c\|m\|dl\|rt\|pthread\)\.so' |
  xargs -I{} cp -L {} "$pack/tests/lib/"
strip "$pack"/tests/unit_* "$pack"/bin/* "$pack"/lib/convoyd/*.so* 2>/dev/null || true
du -sh "$pack"
