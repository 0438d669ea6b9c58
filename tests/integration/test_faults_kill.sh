#!/usr/bin/env bash
# timed: no answer may take a second, under load on every core
# A worker killed with -9 every 3 s for 12 s (CONVOY_WHOLE=1: every 5 s for a minute) under 64 connections: no request fails, every
# answer is right, the longest takes under 1 s, and a worker that comes gets the control socket, its doorbell and no other socket.
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"

# The control socket is held once more, under a high number (engine/worker/hold_last.h), which is the same socket.
sockets() { find "/proc/$1/fd" -lname 'socket:*' -printf '%f %l\n' 2>/dev/null; }

kills=3 apart=3
[ "${CONVOY_WHOLE:-0}" = 0 ] || kills=11 apart=5
configure log='{"level": "info"}'
start --config "$work/config.json"
load kills --seconds $((apart * (kills + 1)))
for ((i = 0; i < kills; i++)); do
  sleep $apart
  pid=$(worker)
  # Standard error is the test's own, which may be a socket.
  [ "$(sockets "$pid" | grep -vE '^[12] ' | cut -d ' ' -f 2 | sort -u | wc -l)" = 2 ] || fail "the worker holds sockets $(sockets "$pid")"
  kill -KILL "$pid"
done
loaded kills
all_answered kills $((1000 * slower))
restarts=$(metric convoyd_worker_restarts_total)
retried=$(metric convoyd_retried_images_total)
echo "$restarts restarts, $retried images ran again"
[ "$restarts" = $kills ] || fail "convoyd_worker_restarts_total is $restarts, not $kills"
[ "$retried" -gt 0 ] || fail "convoyd_retried_images_total stands still"
[ "$(json "$work/kills.json" "0 < d['retried'] <= $retried")" = True ] ||
  fail "\"retries\" is in no answer or in too many"
[ "$(metric convoyd_worker_up)" = 1 ] || fail "convoyd_worker_up is not 1"
stop
