#!/usr/bin/env bash
# Where the front's processor time goes under the load of front.sh, by a sampling timer (sampler.c), which needs neither perf nor
# any permission: for each function of convoyd the share of the processor time, and of the library functions that it called; then
# the same of the control loop alone, which is the first thread. Before these, by thread: what of a core it took.
#   tests/bench/where.sh [SECONDS [BACKEND [CONNECTIONS]]]
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
seconds=${1:-5}
backend=${2:-null}
connections=${3:-64}

needs wrk wrk
needs nm binutils
small_jpeg
backend_here "$backend"
sampler=$PWD/$build/tests/convoy-sampler.so
[ "${build#/}" = "$build" ] || sampler=$build/tests/convoy-sampler.so
[ -e "$sampler" ] || die "$sampler is missing: build first"

export CONVOY_SAMPLES=$work/samples
LD_PRELOAD=$sampler serve "$backend" --models "$measured"
unset CONVOY_SAMPLES
until_tuned "$backend"
front=$(pgrep -P "$daemon" -x convoyd)
worker=$(pgrep -P "$daemon" -x convoy-worker | head -n 1)
# threads: a line for each of both processes, its number, its name, and the nanoseconds that it has run.
threads() { local task; for task in "/proc/$front/task"/* "/proc/$worker/task"/*; do echo "${task##*/} $(cat "$task/comm") $(cut -d ' ' -f 1 "$task/schedstat")"; done | LC_ALL=C sort; }
threads >"$work/before"
began=$(date +%s%N)
drive "$url/classify?top=1" "$connections" "$seconds"
threads >"$work/after"
LC_ALL=C join "$work/before" "$work/after" | awk -v ns=$(($(date +%s%N) - began)) -v control="$front" '
  $5 - $3 > ns / 100 { name = $1 == control ? "control loop" : $2; took[name] = took[name] sprintf(" %.2f", ($5 - $3) / ns) }
  END { for (name in took) printf "%-14s takes of a core%s\n", name, took[name] }'
end_daemon
"$python" tests/bench/sampler.py "$build/bin/convoyd" "$work/samples.$front"
