#!/usr/bin/env bash
# The kernels of the networks that ship beside PyTorch, torch.compile and cuDNN: same file, same random input, one run, the
# error of each beside its time: tests/bench/networks.sh PACK_OR_BUILD [OPTION...]; --help lists the options. The environment
# may name the PYTHON that has NumPy, PyTorch and onnx. Without a GPU the emulated one does ours: --batches 1,2 --runs 1.
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
if [ "$1" = --help ]; then
  set -- "$(dirname "$0")/../../build" --help
fi
caller=$PWD
[ -d "$1" ] || { echo "networks.sh: $1 is no folder; name a build, or what tests/gpu/pack.sh made" >&2; exit 2; }
CONVOY_BUILD=$(cd "$1" && pwd)
shift
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
for program in bench_network_time convoy-worker convoy-kernels; do
  [ -x "$build/bin/$program" ] || die "$build/bin/$program is missing; build where nvcc is, or name what tests/gpu/pack.sh made"
done
# The first Python that has what the peers need, else one that has NumPy.
has() { "$1" -c "import $2" >/dev/null 2>&1; }
if [ -z "${PYTHON:-}" ]; then
  for modules in numpy,torch,onnx numpy; do
    for candidate in python3 /usr/bin/python3; do
      if [ -z "${PYTHON:-}" ] && has "$candidate" "$modules"; then PYTHON=$candidate; fi
    done
  done
fi
[ -n "${PYTHON:-}" ] || die "NumPy is missing (Debian package python3-numpy)"
# Of the tree itself, also where the emulation does the work: the CPU backend, for a reference.
cpu=$build/bin/bench_network_time
worker=$build/bin/convoy-worker
kernels=$build/bin/convoy-kernels
backend_here cuda bench_network_time
options=()
if [ -n "$emulated" ]; then
  echo "networks.sh: there is no GPU; the emulated one's times say nothing" >&2
  kernels+=-emulated
  options=(--tune-seconds 0)
fi
"$PYTHON" tests/bench/networks.py --caller "$caller" --program "$build/bin/bench_network_time" --cpu-program "$cpu" \
  --worker "$worker" --kernels "$kernels" "${options[@]}" "$@"
