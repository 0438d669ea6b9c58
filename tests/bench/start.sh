#!/usr/bin/env bash
# Measures what starting costs: from exec to the first right answer (median of 20; 150 ms or less is the aim), how much later
# it comes because the worker confines itself (5 ms at most), and the proportional memory (PSS) of front and worker together
# after 1,000 requests (under 120 MB is the aim).
#   tests/bench/start.sh [PAIRS [OPTION OF convoyd...]]      PAIRS (50, at least 6): of starts, confined and not
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${CONVOY_BUILD:-build}
pairs=${1:-50}
[[ $pairs =~ ^[1-9][0-9]*$ && $pairs -ge 6 ]] || { echo "start.sh: '$pairs' is no number of pairs: six or more" >&2; exit 2; }
shift $(($# > 0))
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null || true; rm -rf "$work"' EXIT

python3 tests/tools/first_answer.py 20 "$build/bin/convoyd" "$@" >"$work/first.json"
python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
print("first right answer: median %.1f ms of %d runs, %.1f to %.1f ms"
      % (d["median_ms"], len(d["runs_ms"]), min(d["runs_ms"]), max(d["runs_ms"])))' "$work/first.json"

config=config/convoyd.json
for ((i = 1; i < $#; i++)); do
  next=$((i + 1))
  [ "${!i}" != --config ] || config=${!next}
done
python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
for path, confined in zip(sys.argv[2:], (True, False)):
    json.dump({**d, "worker": {**d.get("worker", {}), "sandbox": confined}}, open(path, "w"))' \
  "$config" "$work/confined.json" "$work/free.json"
python3 tests/tools/first_answer.py "$pairs" --pair "$work/confined.json" "$work/free.json" "$build/bin/convoyd" "$@" >"$work/pair.json"
python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
later = d["later_ms"]
print("worker.sandbox: %.1f ms with, %.1f ms without (medians); the answer comes %.2f ms later "
      "(median of %d pairs; 95 %% confidence %.1f to %.1f, quartiles %.1f to %.1f)"
      % (*d["median_ms"], later["median"], len(d["runs_ms"][0]), *later["interval"], *later["quartiles"]))' "$work/pair.json"

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
