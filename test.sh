#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests that this machine can run.
#   ./test.sh            what continuous integration runs: 15 to 20 minutes on two cores, compiling included
#   ./test.sh --quick    format, walls, the analyzer over changed files, the release build, units and smoke: under 2 minutes
#                        once the release build is there
#   ./test.sh --all      what continuous integration leaves out, too:
#                        - optimized CUDA kernels (CI, where no GPU is: not optimized; nothing runs them there)
#                        - the analyzer without a limit for each function (CI: a limit, but for changed files)
#                        - every unit test in the release build, too (CI: with the address sanitizer alone, but for the list
#                          optimized_units below)
#                        - integration tests that parse what strangers send in the release build, too (CI: with the address
#                          sanitizer alone): those with "# sanitize: yes" in their heads
#                        - integration tests under the address sanitizer that neither parse what strangers send nor break
#                          anything: those with "# sanitize: all" in their heads (CI: in the release build alone)
#                        - clients of other servers that take long to install: scripts with "# all: WHY" in their heads
#                        - the emulated GPU under the address sanitizer: kernels, backend, tuner, daemon
#                        - emulated kernels on 100 random shapes (CI: on the written shapes)
#                        - fuzzers for 60 seconds each, optimised (CI: not optimised, for 2 seconds, that of models for 240,000
#                          inputs), that of the network for 5 minutes (CI: a minute)
#                        - a worker killed 11 times in a minute under load (CI: 3 times), 100 versions of a model that take
#                          over under load (CI: 30), all images of cifar10-resnet compared with ONNX Runtime's answers
#                          (CI: 500 of 5,000) and its accuracy with the model card
#   ./test.sh [--quick|--all] PATTERN   of these the steps whose name contains PATTERN, e.g. unit, asan, integration/faults
# Exit status 0 only if there were steps and none failed. The last line counts tests; a test that cannot run here (no data, no package, no
# GPU) says why and is counted as skipped. tests/runner.sh says which steps may run beside which.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
level=ci
if [[ ${1:-} == --quick || ${1:-} == --all ]]; then
  level=${1#--}
  shift
fi
if [[ ${1:-} == -* || $# -gt 1 ]]; then
  sed -n '2,/^set /s/^# //p' "$0" >&2
  exit 2
fi
pattern=${1:-}
# shellcheck source=build.sh
. ./build.sh
set +e
# shellcheck source=tests/runner.sh
. tests/runner.sh

# in_ci A B: A in continuous integration, B where everything runs.
in_ci() { if [ "$level" = all ]; then echo "$2"; else echo "$1"; fi; }

# sources PATTERN: the tree's files of that name, without builds; git may not be there.
sources() { find . -path './build*' -prune -o -path './.[a-z]*' -prune -o -type f -name "$1" -print; }
product() { sources '*.c' | grep -v '^./tests/' | LC_ALL=C sort; }

# changed: the files that differ from upstream's branch where this one left it, or from the last commit where there is no
# upstream. Without git none.
changed() {
  local base
  base=$(git merge-base HEAD '@{upstream}' 2>/dev/null || git merge-base HEAD origin/HEAD 2>/dev/null ||
    git rev-parse -q --verify HEAD 2>/dev/null) || return 0
  { git diff --name-only --diff-filter=d "$base" && git ls-files --others --exclude-standard; } | sed 's,^,./,' | LC_ALL=C sort -u
}

clean_format() { { sources '*.[ch]' && sources '*.cu*' && sources '*.cc'; } | xargs clang-format --dry-run -Werror; }

# tidy OPTION...: clang-tidy over the files that standard input names. What is compiled twice (into the CUDA backend and the
# emulated one, into libconvoy and the command) is read once.
tidy() {
  local commands
  commands=$(mktemp -d "$results/tidy.XXXXXX") &&
    python3 -c 'import json, sys
commands = {command["file"]: command for command in reversed(json.load(sys.stdin))}
json.dump(list(commands.values()), sys.stdout)' <build/compile_commands.json >"$commands/compile_commands.json" &&
    xargs -r -P2 -n4 clang-tidy -p "$commands" --quiet "$@"
}
# Most of the time is the analyzer's (clang-analyzer-*), most of that for a few long functions. 1,500 nodes of its graph for each
# function are looked at instead of 225,000: all files take 75 s of processor time, with 4,000 nodes 92, without it 51.
clean_tidy() {
  local limit=()
  [ "$level" = all ] || limit=(--extra-arg={-Xclang,-analyzer-config,-Xclang,max-nodes=1500})
  product | tidy "${limit[@]}"
}
clean_changes() { LC_ALL=C comm -12 <(product) <(changed) | tidy; }

# The Criterion programs of the emulated GPU, the longest of all first. Continuous integration builds them in release alone.
emulated_units=(engine_cuda_tune engine_cuda_tune_own_clock emulated_backends emulation engine_cuda_runtime kernels)
# Those that show something else when what they test is optimised; continuous integration runs the others with the address
# sanitizer alone. Loops of vectors, and the reference of a backend:
optimized_units=("${emulated_units[@]}" engine_backends engine_cpu server_image)
# Bounds of memory, which a sanitizer's own would hide:
optimized_units+=(server_daemon_own_worker server_http_own_realloc server_security)

# other_units BUILD: the Criterion programs of a build that are not the emulated GPU's.
other_units() {
  local program
  for program in "$1"/tests/unit_*; do
    program=${program##*/unit_}
    [[ " ${emulated_units[*]} " == *" $program "* ]] || echo "$program"
  done
}

# units BUILD NAME PROGRAM...: queues Criterion programs of a build, each suite of the tuner's alone.
units() {
  local program suite
  for program in "${@:3}"; do
    if [ "$program" = engine_cuda_tune ]; then
      while read -r suite; do
        unit works "$2/$program/$suite" "$1/tests/unit_$program" --filter "$suite/*"
      done < <(sed -n 's/^TestSuite(\([a-z_]*\),.*/\1/p' tests/unit/engine/cuda/tune/*.c)
    else
      unit works "$2/$program" "$1/tests/unit_$program"
    fi
  done
}

# integration NAME SCRIPT [COMMAND...]: queues an integration test. A line of its head says when it cannot run beside
# others: "# timed: WHY" or "# alone: WHY".
integration() {
  local kind
  kind=$(sed -n 's/^# \(timed\|alone\): .*/\1/p' "$2")
  step "${kind:-waits}" "$1" "${@:3}" "$2"
}

queue_after_release() {
  local script name
  [ "$level" = all ] || step works style/tidy-changed clean_changes
  # shellcheck disable=SC2046 # words
  if [ "$level" = ci ]; then
    units build unit "${optimized_units[@]}"
  else
    units build unit "${emulated_units[@]}" $(other_units build)
  fi
  if [ "$level" = quick ]; then
    integration integration/smoke tests/integration/test_smoke.sh
    return
  fi
  # The longest of these first.
  step last style/tidy clean_tidy
  # Every kernel against float64, on the CPU (of random shapes a seed that fails is printed).
  step last emulated/kernels build/bin/convoy-kernels-emulated --check --in-turns --shapes "$(in_ci 0 100)"
  for script in tests/integration/test_*.sh; do
    [ "$level" = all ] || ! grep -qE '^# (all: |sanitize: *yes)' "$script" || continue
    name=${script##*/test_}
    integration "integration/${name%.sh}" "$script"
  done
}

queue_after_asan() {
  local script name
  [ "$level" != all ] ||
    step works asan-emulated/kernels build-asan/bin/convoy-kernels-emulated --check --in-turns --shapes 15
  # shellcheck disable=SC2046 # words
  units build-asan asan $(in_ci '' "${emulated_units[*]}") $(other_units build-asan)
  queue_fuzzers
  for script in tests/integration/test_*.sh; do
    grep -qE "^# sanitize: *$(in_ci '(yes|both)' '(yes|both|all)')" "$script" || continue
    name=${script##*/test_}
    integration "asan-integration/${name%.sh}" "$script" env CONVOY_BUILD=build-asan
  done
  # Behind what computes for as long as it takes: it gets as far as it can in its time, mostly while other steps wait. It
  # takes 0.8 of a core.
  step works fuzz/network env CONVOY_BUILD=build-asan tests/fuzz/run.sh "$(in_ci 60 300)" network
}

queue_after_tsan() {
  local program
  for program in build-tsan/tests/threads_*; do
    step works "threads/${program##*/threads_}" env TSAN_OPTIONS=halt_on_error=1 "$program"
  done
  integration tsan-integration/load tests/integration/test_load.sh env CONVOY_BUILD=build-tsan
}

# A failure of this build is reported by each fuzzer, which builds what is missing.
fuzz_targets=(multipart image onnx config keys traceparent proxy worker inference)
fuzz() { CONVOY_FUZZ_LEVEL=$(in_ci 0 1) tests/fuzz/run.sh "$@"; }
build_fuzzers() { fuzz 0 "${fuzz_targets[@]}" >/dev/null || true; }
queue_fuzzers() {
  local target
  for target in "${fuzz_targets[@]}"; do
    if wanted "fuzz/$target"; then
      build last fuzzers build_fuzzers
      return
    fi
  done
}
queue_after_fuzzers() {
  local target
  for target in "${fuzz_targets[@]}"; do
    if [ "$target" = onnx ] && [ "$level" != all ]; then
      step last fuzz/onnx env CONVOY_FUZZ_RUNS=240000 CONVOY_FUZZ_LEVEL=0 tests/fuzz/run.sh 60 onnx
    else
      step last "fuzz/$target" fuzz "$(in_ci 2 60)" "$target"
    fi
  done
}

convoy_install "${convoy_packages[@]}" "${convoy_test_packages[@]}" || exit 1
# With optimized kernels the build takes some 15 minutes on two cores, without 4. Those that are there are kept up to date.
release_options=()
if [ "$level" != all ] && [ ! -e /dev/nvidiactl ] &&
  { [ ! -e build/CMakeCache.txt ] || grep -q '^CONVOY_UNOPTIMIZED_KERNELS:BOOL=ON' build/CMakeCache.txt; }; then
  release_options=(-DCONVOY_UNOPTIMIZED_KERNELS=ON)
fi
[ "$level" != all ] || export CONVOY_WHOLE=1
release_targets=(all units)
[ "$level" != ci ] || release_targets=(all "${optimized_units[@]/#/unit_}")
build waits release convoy_build release "${release_options[@]}" -- "${release_targets[@]}"
if [ "$level" != quick ]; then
  build works asan convoy_build asan "-DCONVOY_EMULATION=$(in_ci OFF ON)"
  build works tsan convoy_build tsan
fi
step works style/format clean_format
step works style/walls tests/style/rooms.py
step works style/clashes tests/style/clashes.py
step works style/documents tests/style/docs.py
step last style/shell tests/style/scripts.sh build.sh run.sh test.sh .ci/run tests/*.sh tests/integration/*.sh tests/fuzz/*.sh \
  tests/style/*.sh tests/bench/*.sh tests/gpu/*.sh tests/survey/*.sh client/completion/convoy client/completion/convoyd packaging/deb/p* packaging/oci/*.sh
run_steps
summary
