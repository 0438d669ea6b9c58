# shellcheck shell=bash
# What tests of the client share, on top of lib.sh.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

convoy=$build/bin/convoy
unset CONVOY_URL
# run STATUS ARGUMENT...: its output lands in $work/out, what it says of errors in $work/err.
run() {
  local wanted=$1 got=0
  shift
  "$convoy" "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$wanted" ] || fail "convoy $*: exit status $got, expected $wanted: $(head -c 3000 "$work/out" "$work/err")"
}
out() { grep -q -e "$1" "$work/out" || fail "the output lacks '$1': $(head -c 3000 "$work/out")"; }
err() { grep -q -e "$1" "$work/err" || fail "the error lacks '$1': $(cat "$work/err")"; }
holds() { [ "$(json "$work/out" "$1")" = True ] || fail "not so: $1: $(head -c 3000 "$work/out")"; }
