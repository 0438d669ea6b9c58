#!/usr/bin/env bash
# Measures the front: requests a second with the null backend (every request is a JPEG of 32x32 pixels, decoded,
# batched, sent to a worker and back) beside a bare libmicrohttpd that answers a line to the same request, in
# turns, median of 5; then the latency with the CPU backend, from one connection and from 64.
#   tests/bench/front.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${CONVOY_BUILD:-build}
seconds=${1:-4}
rounds=5
connections=64
work=$(mktemp -d)
pids=()
trap 'kill -TERM "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

command -v wrk >/dev/null || { echo "front.sh: wrk is missing (Debian package wrk)" >&2; exit 1; }
# shellcheck disable=SC2046 # flags are words
cc -std=gnu11 -O2 -Wall -Wextra tests/bench/mhd_echo.c -o "$work/mhd_echo" $(pkg-config --cflags --libs libmicrohttpd)

# The samples are larger: decoding them is most of the work.
/usr/bin/python3 - models/samples/ship.jpg "$work/small.jpg" <<'PYTHON'
import sys
from PIL import Image
Image.open(sys.argv[1]).resize((32, 32), Image.BILINEAR).save(sys.argv[2], quality=90)
PYTHON
export IMAGE=$work/small.jpg

start() { # backend: starts convoyd with it and sets $url
  "$build/bin/convoyd" --listen 127.0.0.1:0 --backend "$1" 2>"$work/log" &
  pids+=($!)
  until url=http://127.0.0.1:$(sed -n 's/.*msg="convoyd listens".* port=\([0-9]*\).*/\1/p' "$work/log") &&
    curl -fs -o /dev/null "$url/v2/health/ready"; do
    sleep 0.05
  done
}

# drive URL CONNECTIONS: prints "requests-a-second p50-us p99-us errors".
drive() {
  local threads=2
  [ "$2" -gt 1 ] || threads=1
  wrk -t$threads -c"$2" -d"${seconds}s" -s tests/bench/post.lua "$1/classify?top=1" | sed -n 's/^RESULT //p'
}

median() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }

echo_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/mhd_echo" "$echo_port" "$(nproc)" &
pids+=($!)
start null
for ((i = 0; i < rounds; i++)); do
  drive "http://127.0.0.1:$echo_port" $connections >>"$work/echo"
  drive "$url" $connections >>"$work/front"
done
echo_rate=$(cut -d' ' -f1 "$work/echo" | median)
front_rate=$(cut -d' ' -f1 "$work/front" | median)
awk -v e="$echo_rate" -v f="$front_rate" -v c=$connections 'BEGIN {
  printf "%d connections: bare libmicrohttpd %d requests/s, convoyd with the null backend %d: ratio %.2f\n",
    c, e, f, f / e }'
awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work/echo" "$work/front"

start cpu
for number in 1 $connections; do
  drive "$url" "$number" | awk -v c="$number" '{
    printf "cpu backend, %d connection(s): %d requests/s, p50 %.2f ms, p99 %.2f ms, errors %d\n",
      c, $1, $2 / 1000, $3 / 1000, $4 }'
done
