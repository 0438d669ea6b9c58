#!/usr/bin/env bash
# What requests cost that are made to cost as much as they can, and what others notice of them; null backend.
#   tests/bench/bombs.sh [ROUNDS [SECONDS]]
# 1. Processor time of front and worker for each KB sent, while one connection sends the bomb again and again.
# 2. p99 of small images, $RATE (200) a second in open loop (Poisson), while a bomb comes every $PAUSE (0.2) s, beside p99 without, in
#    turns; medians of the rounds.
#    The first row is the control: beside them another process only computes, so its ratio is what the kernel's scheduler makes of a busy core.
# ONLY=PATTERN selects bombs by their names; PARTS (12) one of both. A JPEG of 31 MB is sent as fast as loopback takes it: see the size.
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5}
seconds=${2:-2}
rate=${RATE:-200}
pause=${PAUSE:-0.2}
parts=${PARTS:-12}

small_jpeg
mkdir "$work/bombs"
"$python" tests/bench/bombs.py make "$work/bombs"
serve null --models "$measured"
worker=$(pgrep -P "$daemon" convoy-worker)

# bomb NAME SECONDS PAUSE: what bombs.py send prints.
bomb() { "$python" tests/bench/bombs.py send "$url" "$1" "$2" "$3"; }
p99() {
  "$build/bin/convoy" bench --url "$url" --rate "$rate" --seconds "$seconds" --json "$IMAGE" |
    "$python" -c 'import json, sys; print("%.0f" % (json.load(sys.stdin)["latency_ms"]["p99"] * 1000))'
}

# compared COMMAND...: p99 without it and beside it, in turns; sets $without, $beside and $ratio.
compared() {
  : >"$work/without"
  : >"$work/beside"
  for ((i = 0; i < rounds; i++)); do
    p99 >>"$work/without"
    "$@" >"$work/sent" &
    other=$!
    p99 >>"$work/beside"
    wait $other
  done
  ratio=$(ratios "$work/beside" "$work/without")
  without=$(median 1 <"$work/without" | awk '{ printf "%.1f", $1 / 1000 }')
  beside=$(median 1 <"$work/beside" | awk '{ printf "%.1f", $1 / 1000 }')
}
# shellcheck disable=SC2317 # compared calls it
computing() { "$python" -c 'import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end: pass' "$seconds"; }
echo "| bomb | KB | answer | processor ms a KB | p99 ms without, beside it | ratio |"
echo "| --- | ---: | --- | ---: | --- | --- |"
if [[ $parts == *2* ]]; then
  compared computing
  echo "| (control: a process that computes) | - | - | - | $without, $beside | $ratio |"
fi
for head in "$work"/bombs/*.head; do
  file=${head%.head}
  name=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["name"])' "$head")
  [[ $name == *${ONLY:-}* ]] || continue
  cost=- sent=- status=- ratio=- without=- beside=-
  if [[ $parts == *1* ]]; then
    bomb "$file" 0 0 >/dev/null # memory that stays, and what is learnt once
    before=$(ticks "$daemon" "$worker")
    read -r _ kilobytes status sent _ < <(bomb "$file" 1 0)
    cost=$(awk -v t="$(($(ticks "$daemon" "$worker") - before))" -v k="$kilobytes" 'BEGIN { printf "%.2f", t * 10 / k }')
  fi
  if [[ $parts == *2* ]]; then
    compared bomb "$file" "$seconds" "$pause"
    read -r _ _ status sent _ <"$work/sent"
  fi
  echo "| $name | $sent | $status | $cost | $without, $beside | $ratio |"
done
end_daemon
