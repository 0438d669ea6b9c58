#!/usr/bin/env bash
# sanitize: all
# A worker that was taken over: it makes what it shares with the front block, rings without end, leaves a child that holds
# its sockets, and ends. The front answers all others meanwhile, and replaces it as quickly as any.
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"

image=models/samples/ship.jpg
export CONVOY_TEST_FAULT=seize:10,20,30
python3 tests/tools/solid_png.py "$work/poison.png" 10 20 30
configure 'timeout_ms=20000' 'worker={"sandbox": false}' # else it could not start a child
start --config "$work/config.json"
first=$(worker)
SECONDS=0
load steady --seconds $((3 * slower / 2 + 2))
expect 500 --data-binary @"$work/poison.png" "$url/classify"
took=$SECONDS
loaded steady
all_answered steady $((3000 * slower))
[ "$(worker)" != "$first" ] || fail "the worker was not replaced"
expect 200 --data-binary @$image "$url/classify"
[ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = ship ] || fail "$(cat "$work/body")"
[ $took -lt 15 ] || fail "the replacement waited for the child"
stop
