#!/usr/bin/env bash
# sanitize: all
# timed: no answer may take a second beside 10,000 connections
# 10,000 connections without a request: the daemon serves beside them, and they cost little while they last and
# nothing afterwards.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

count=10000
start --backend null
# What asked whether it is ready has hung up, but the daemon may not have closed its end yet.
alone() { ! grep -q "^ *[0-9]*: [0-9A-F]*:$(printf '%04X' "${url##*:}") [0-9A-F:]* \(01\|08\) " /proc/net/tcp; }
until_true 5 alone || fail "a client is connected: $(cat /proc/net/tcp)"
before=$(descriptors)
resident() { awk '/VmRSS/ { print $2 }' "/proc/$(front)/status"; }
small=$(resident)

mkfifo "$work/hold"
"$python" tests/tools/idle_connections.py "$url" $count <"$work/hold" >"$work/opened" &
client=$!
exec 9>"$work/hold"
settled() { [ -s "$work/opened" ] || ! kill -0 "$client"; }
until_true 60 settled || fail "$count connections are not open after a minute"
if [ "$(cat "$work/opened")" != open ]; then
  status=0
  wait "$client" || status=$?
  [ $status -ne 77 ] || skip "$(cat "$work/opened")"
  fail "$(cat "$work/opened")"
fi
all_there() { [ "$(descriptors)" -ge $((before + count)) ]; }
until_true 20 all_there || fail "the daemon has only $(descriptors) descriptors"

per_connection=$((($(resident) - small) * 1024 / count))
echo "$count idle connections take $per_connection bytes each"
# Their buffer is http.max_header_bytes and 4 KiB, of which an idle connection touches two or three pages.
[[ $build == *san* ]] || [ $per_connection -lt 20000 ] || fail "that is too much"

echo "Beside them it serves."
tests/integration/smoke.sh "$url" >"$work/smoke" || fail "$(cat "$work/smoke")"
"$python" tests/tools/load.py "$url" --seconds 2 --connections 16 --json >"$work/load" || fail "$(cat "$work/load")"
[ "$(json "$work/load" "d['longest_ms'] < 1000")" = True ] || fail "an answer took too long: $(cat "$work/load")"

echo "When they are gone, nothing of them is left."
exec 9>&-
wait "$client" || fail "the client: $(cat "$work/opened")"
as_before() { [ "$(descriptors)" -le "$before" ]; }
until_true 20 as_before || fail "$(descriptors) descriptors, $before before"
expect 200 --data-binary @models/samples/ship.jpg "$url/classify"
stop
echo "passed"
