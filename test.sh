#!/usr/bin/env bash
# Installs what is missing, builds and runs every test that this machine can run.
#   ./test.sh            everything
#   ./test.sh PATTERN    only the steps whose name contains PATTERN, e.g. unit, asan, integration/faults
# Exit status 0 only if nothing failed. The last line counts tests; a test that cannot run here (no data, no
# package, no GPU) says why and is counted as skipped.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
# shellcheck source=build.sh
. ./build.sh
set +e

pattern=${1:-}
passed=0 failed=0 skipped=0
failures=() skips=()
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

wanted() { [[ -z $pattern || $1 == *"$pattern"* ]]; }

note_failure() { # name, log
  failed=$((failed + 1))
  failures+=("$1")
  echo "FAILED  $1"
  [ -f "$2" ] && tail -n 40 "$2" | sed 's/^/    /'
}

# step NAME COMMAND...: one test; exit status 77 means that it cannot run here, its last line says why.
step() {
  local name=$1 log status
  shift
  wanted "$name" || return 0
  log=$results/${name//\//_}.log
  "$@" >"$log" 2>&1
  status=$?
  if [ $status -eq 0 ]; then
    passed=$((passed + 1))
    echo "passed  $name"
  elif [ $status -eq 77 ]; then
    skipped=$((skipped + 1))
    skips+=("$name: $(tail -n 1 "$log")")
    echo "skipped $name: $(tail -n 1 "$log")"
  else
    note_failure "$name" "$log"
  fi
}

# unit PRESET-NAME PROGRAM: a Criterion program, each of whose tests counts. A sanitizer report fails it too,
# because a leak does not change Criterion's exit status.
unit() {
  local name=$1 program=$2 log status ok bad skip
  wanted "$name" || return 0
  log=$results/${name//\//_}.log
  rm -f "$results"/asan.*
  ASAN_OPTIONS=log_path=$results/asan UBSAN_OPTIONS=print_stacktrace=1:log_path=$results/asan \
    "$program" --tap="$results/tap" -j2 >"$log" 2>&1
  status=$?
  ok=$(grep -c '^ok' "$results/tap")
  bad=$(grep -c '^not ok' "$results/tap")
  skip=$(grep -ci '^ok.*# *skip' "$results/tap")
  ok=$((ok - skip))
  if ls "$results"/asan.* >/dev/null 2>&1; then
    cat "$results"/asan.* >>"$log"
    status=1
  fi
  passed=$((passed + ok))
  skipped=$((skipped + skip))
  while read -r line; do
    skips+=("$name: $line")
    echo "skipped $name: $line"
  done < <(grep -i '^ok.*# *skip' "$results/tap" | sed 's/^ok - //')
  if [ $status -ne 0 ] || [ "$bad" -gt 0 ] || [ $((ok + skip)) -eq 0 ]; then
    grep '^not ok' "$results/tap"
    note_failure "$name" "$log"
  else
    echo "passed  $name ($ok tests)"
  fi
  rm -f "$results/tap"
}

# sources PATTERN: the tree's files of that name, without builds; git may not be there.
sources() { find . -path './build*' -prune -o -path './.[a-z]*' -prune -o -type f -name "$1" -print; }

clean_format() { { sources '*.[ch]' && sources '*.cu*' && sources '*.cc'; } | xargs clang-format --dry-run -Werror; }

clean_tidy() { sources '*.c' | grep -v '^./tests/' | xargs -P2 -n4 clang-tidy -p build --quiet; }

convoy_install "${convoy_packages[@]}" "${convoy_test_packages[@]}" || exit 1
for preset in release asan tsan; do
  convoy_build $preset || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
done

for program in build/tests/unit_*; do
  unit "unit/${program##*/unit_}" "$program"
done
for program in build-asan/tests/unit_*; do
  unit "asan/${program##*/unit_}" "$program"
done
# Every kernel against float64, on the CPU, on shapes that are drawn anew (a seed that fails is printed).
step emulated/kernels build/bin/convoy-kernels-emulated --check --shapes 150
step asan-emulated/kernels build-asan/bin/convoy-kernels-emulated --check --shapes 15
for program in build-tsan/tests/threads_*; do
  step "threads/${program##*/threads_}" env TSAN_OPTIONS=halt_on_error=1 "$program"
done
for script in tests/integration/test_*.sh; do
  name=${script##*/test_}
  step "integration/${name%.sh}" "$script"
done
for script in tests/integration/test_*.sh; do
  grep -q '^# sanitize: *yes' "$script" || continue
  name=${script##*/test_}
  step "asan-integration/${name%.sh}" env CONVOY_BUILD=build-asan "$script"
done
step tsan-integration/load env CONVOY_BUILD=build-tsan tests/integration/test_load.sh
for target in multipart image onnx config worker; do
  step "fuzz/$target" tests/fuzz/run.sh 15 $target
done
step style/format clean_format
step style/tidy clean_tidy
step style/shell shellcheck -x build.sh run.sh test.sh .ci/run tests/integration/*.sh tests/fuzz/*.sh tests/bench/*.sh tests/gpu/*.sh \
  client/completion/convoy client/completion/convoyd packaging/deb/p*

echo
[ ${#skips[@]} -eq 0 ] || printf 'skipped: %s\n' "${skips[@]}"
[ ${#failures[@]} -eq 0 ] || printf 'failed: %s\n' "${failures[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
