#!/usr/bin/env bash
# sanitize: all
# The smoke test against a sound convoyd, and against what is none.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

start --backend cpu
echo "A sound convoyd passes, whichever image is sent."
tests/integration/smoke.sh "$url" || fail "the smoke test does not pass"
tests/integration/smoke.sh "$url/" models/samples/truck.jpg >/dev/null || fail "not with another image"

echo "It answers 1 where a model that is named cannot be reached, 2 when it was called wrongly."
status=0
tests/integration/smoke.sh "$url" README.md >"$work/smoke" || status=$?
[ $status -eq 1 ] || fail "status $status for an image that is none"
grep -q 'FAILED  an image is classified: status 415' "$work/smoke" || fail "$(cat "$work/smoke")"
for arguments in "" "127.0.0.1:$port" "$url /nowhere.jpg"; do
  status=0
  # shellcheck disable=SC2086 # several arguments
  tests/integration/smoke.sh $arguments 2>/dev/null || status=$?
  [ $status -eq 2 ] || fail "status $status for the arguments '$arguments'"
done
stop

status=0
tests/integration/smoke.sh "$url" >"$work/smoke" 2>&1 || status=$?
[ $status -eq 1 ] || fail "status $status though nothing listens"

echo "A server that answers everything with 200 and an empty object does not pass."
"$python" tests/tools/yes_server.py >"$work/port" &
server=$!
until_true 10 test -s "$work/port" || fail "the other server does not start"
status=0
tests/integration/smoke.sh "http://127.0.0.1:$(cat "$work/port")" >"$work/smoke" || status=$?
kill "$server"
[ $status -eq 1 ] || fail "status $status from a server that is none"
grep -q '^ok' "$work/smoke" && fail "a check passed: $(cat "$work/smoke")"
echo "passed"
