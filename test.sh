#!/usr/bin/env bash
# Installs what is missing, builds and runs every test that this machine can run.
#   ./test.sh            everything
#   ./test.sh PATTERN    only the steps whose name contains PATTERN, e.g. unit, asan, integration/faults
# Exit status 0 only if nothing failed. The last line counts tests; a test that cannot run here (no data, no
# package, no GPU) says why and is counted as skipped. What may run beside what: tests/runner.sh.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
pattern=${1:-}
# shellcheck source=build.sh
. ./build.sh
set +e
# shellcheck source=tests/runner.sh
. tests/runner.sh

# sources PATTERN: the tree's files of that name, without builds; git may not be there.
sources() { find . -path './build*' -prune -o -path './.[a-z]*' -prune -o -type f -name "$1" -print; }

clean_format() { { sources '*.[ch]' && sources '*.cu*' && sources '*.cc'; } | xargs clang-format --dry-run -Werror; }

# What is compiled twice (into the CUDA backend and the emulated one, into libconvoy and the command) is read once.
clean_tidy() {
  mkdir -p build/tidy
  python3 -c 'import json, sys
commands = {command["file"]: command for command in reversed(json.load(sys.stdin))}
json.dump(list(commands.values()), sys.stdout)' <build/compile_commands.json >build/tidy/compile_commands.json &&
    sources '*.c' | grep -v '^./tests/' | xargs -P2 -n4 clang-tidy -p build/tidy --quiet
}

# units PRESET NAME: queues the Criterion programs of a build.
units() {
  local program
  for program in "$1"/tests/unit_*; do
    unit works "$2/${program##*/unit_}" "$program"
  done
}

# integration NAME SCRIPT [COMMAND...]: queues an integration test, which says itself when it cannot be beside others:
# "# timed: WHY" or "# alone: WHY".
integration() {
  local kind
  kind=$(sed -n 's/^# \(timed\|alone\): .*/\1/p' "$2")
  step "${kind:-waits}" "$1" "${@:3}" "$2"
}

queue_after_release() {
  local script name
  # The longest of these first.
  step works style/tidy clean_tidy
  # Every kernel against float64, on the CPU, on shapes that are drawn anew (a seed that fails is printed).
  step works emulated/kernels build/bin/convoy-kernels-emulated --check --in-turns --shapes 100
  units build unit
  for script in tests/integration/test_*.sh; do
    name=${script##*/test_}
    integration "integration/${name%.sh}" "$script"
  done
}

queue_after_asan() {
  local script name
  step works asan-emulated/kernels build-asan/bin/convoy-kernels-emulated --check --in-turns --shapes 15
  units build-asan asan
  queue_fuzzers
  for script in tests/integration/test_*.sh; do
    grep -q '^# sanitize: *yes' "$script" || continue
    name=${script##*/test_}
    integration "asan-integration/${name%.sh}" "$script" env CONVOY_BUILD=build-asan
  done
}

queue_after_tsan() {
  local program
  for program in build-tsan/tests/threads_*; do
    step works "threads/${program##*/threads_}" env TSAN_OPTIONS=halt_on_error=1 "$program"
  done
  integration tsan-integration/load tests/integration/test_load.sh env CONVOY_BUILD=build-tsan
}

# What is wrong with the build, each of the fuzzers says, as each would build what it needs.
fuzz_targets=(multipart image onnx config worker inference)
build_fuzzers() { tests/fuzz/run.sh 0 >/dev/null || true; }
queue_fuzzers() {
  local target
  for target in "${fuzz_targets[@]}"; do
    if wanted "fuzz/$target"; then
      build works fuzzers build_fuzzers
      return
    fi
  done
}
queue_after_fuzzers() {
  local target
  for target in "${fuzz_targets[@]}"; do
    step last "fuzz/$target" tests/fuzz/run.sh 15 "$target"
  done
}

convoy_install "${convoy_packages[@]}" "${convoy_test_packages[@]}" || exit 1
build waits release convoy_build release
for preset in asan tsan; do
  build works $preset convoy_build $preset
done
step works style/format clean_format
step works style/shell shellcheck -x build.sh run.sh test.sh .ci/run tests/*.sh tests/integration/*.sh tests/fuzz/*.sh \
  tests/bench/*.sh tests/gpu/*.sh client/completion/convoy client/completion/convoyd packaging/deb/p*
run_steps
summary
