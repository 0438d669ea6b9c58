#!/usr/bin/env bash
# Where the front's processor time goes under the load of front.sh, by a sampling timer (sampler.c), which needs neither perf nor
# any permission: for each function of convoyd the share of the processor time, and of the library functions that it called.
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
drive "$url/classify?top=1" "$connections" "$seconds"
front=$(pgrep -P "$daemon" -x convoyd)
end_daemon
"$python" tests/bench/sampler.py "$build/bin/convoyd" "$work/samples.$front"
