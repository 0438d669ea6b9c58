#!/usr/bin/env bash
# sanitize: both
# timed: others may not wait 0.9 s for a slow one
# Clients that send, or take, a byte now and then are cut off at request_timeout_ms while others are served.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
# One thread: a client that blocks it blocks all.
configure 'default_model="cifar10-convnet"' 'http={"threads": 1, "request_timeout_ms": 1000}'
start --backend null --config "$work/config.json"
before=$(descriptors)
"$python" tests/tools/slow_client.py "$url" $image 1000 >"$work/slow" 2>&1 &
slow=$!
"$python" tests/tools/load.py "$url" --seconds 2.5 --connections 8 --json >"$work/load" || fail "the others: $(cat "$work/load")"
wait "$slow" || fail "$(cat "$work/slow")"
cat "$work/slow"
echo "Meanwhile others: $(json "$work/load" "str(d['requests']) + ' requests, the longest took ' + str(d['longest_ms']) + ' ms'")"
[ "$(json "$work/load" "d['longest_ms'] < 900")" = True ] || fail "the others had to wait"
cut=$(awk '/slow client cut off/ { n++; sub(/.*unwritten=/, ""); n += $1 } END { print n + 0 }' "$work/log")
lines=$(grep -c 'slow client cut off' "$work/log")
[ "$lines" -ge 1 ] || fail "the log does not tell"
echo "$lines lines for $cut clients or more"
as_before() { [ "$(descriptors)" -le "$before" ]; }
until_true 10 as_before || fail "$(descriptors) descriptors, $before before"
stop

echo "A connection without a request is closed after idle_timeout_ms."
configure 'http={"idle_timeout_ms": 1000, "request_timeout_ms": 1000}'
start --backend null --config "$work/config.json"
before=$(descriptors)
"$python" - "$url" <<'PYTHON' || fail "see above"
import sys
sys.path.insert(0, "tests/tools")
from wire import Connection
with Connection(sys.argv[1]) as silent, Connection(sys.argv[1]) as kept:
    kept.ask("GET", "/v2")
    assert kept.answer().status == 200
    for connection in (silent, kept):
        assert connection.closed_within(8) is not None, "an idle connection stays open"
PYTHON
until_true 10 as_before || fail "$(descriptors) descriptors, $before before"
stop
echo "passed"
