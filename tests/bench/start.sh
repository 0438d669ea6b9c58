#!/usr/bin/env bash
# Measures what starting costs: from exec to the first right answer (median of 20; 150 ms or less is the aim), and
# the proportional memory (PSS) of front and worker together after 1,000 requests (under 120 MB is the aim).
#   tests/bench/start.sh [OPTION OF convoyd...]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${CONVOY_BUILD:-build}
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null || true; rm -rf "$work"' EXIT

python3 tests/tools/first_answer.py 20 "$build/bin/convoyd" "$@" >"$work/first.json"
python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
print("first right answer: median %.1f ms of %d runs, %.1f to %.1f ms"
      % (d["median_ms"], len(d["runs_ms"]), min(d["runs_ms"]), max(d["runs_ms"])))' "$work/first.json"

: >"$work/log"
"$build/bin/convoyd" --listen 127.0.0.1:0 "$@" 2>"$work/log" &
daemon=$!
until url=http://127.0.0.1:$(sed -n 's/.*msg="convoyd listens".* port=\([0-9]*\).*/\1/p' "$work/log") &&
  curl -fs -o /dev/null "$url/v2/health/ready"; do
  sleep 0.05
done
seq 1000 | sed "s|.*|url = \"$url/classify\"\ndata-binary = \"@models/samples/ship.jpg\"\noutput = \"/dev/null\"|" \
  >"$work/curl"
curl -fsS -K "$work/curl"
pss() { awk '/^Pss:/ { print $2 }' "/proc/$1/smaps_rollup"; }
front=$(($(pss "$daemon") + $(pss "$(pgrep -P "$daemon" -x convoyd)")))
worker=$(pss "$(pgrep -P "$daemon" convoy-worker)")
echo "memory after 1,000 requests: $((front + worker)) kB PSS (front $front, worker $worker)"
kill -TERM "$daemon"
wait "$daemon"
daemon=
