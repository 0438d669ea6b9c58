# shellcheck shell=bash
# What the tests under a service manager share: tests/tools/notify_socket.py plays it.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
record=$work/record
readelf -d "$build/bin/convoyd" | grep 'libsystemd' >/dev/null || skip "this build has no libsystemd (libsystemd-dev)"

# recorded EXPRESSION: evaluates a Python expression over r, the record's lines, and said(NAME), the values of NAME in
# the order in which they came.
recorded() {
  "$python" -S -c 'import json, sys
r = [json.loads(line) for line in open(sys.argv[1])]
said = lambda name: [line["said"][name] for line in r if name in line.get("said", {})]
print(eval("(" + sys.argv[2] + ")"))' "$record" "$1"
}
holds() { [ "$(recorded "$1")" = True ]; }

# manage MANAGER-OPTIONS... -- ARGUMENTS...: starts convoyd under the manager; $daemon is the manager, $convoyd convoyd's master.
manage() {
  local options=()
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  shift
  : >"$work/log"
  : >"$record"
  "$python" tests/tools/notify_socket.py "$record" "${options[@]}" -- "$build/bin/convoyd" "$@" 2>>"$work/log" &
  daemon=$!
  until_true 10 test -s "$record" || fail "the manager does not start"
  # shellcheck disable=SC2034 # the tests use it
  convoyd=$(recorded 'r[0]["pid"]')
}

# end STATUS: SIGTERM by way of the manager; convoyd must end with STATUS.
gone() { ! kill -0 "$daemon"; }
end() {
  kill -TERM "$daemon"
  ended "$1"
}

ended() {
  local status=0
  until_true 30 gone || fail "convoyd does not end"
  wait "$daemon" || status=$?
  daemon=
  [ $status -eq "$1" ] || fail "convoyd ended with status $status, expected $1"
}

# A killed manager leaves convoyd behind.
trap 'status=$?; [ -z "${daemon:-}" ] || kill -KILL "$(recorded "[l[\"pid\"] for l in r if \"ports\" in l][-1]")" 2>/dev/null || true; finish "$status"' EXIT
