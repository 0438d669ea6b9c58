#!/usr/bin/env bash
# Measures the front: requests a second with the null backend (every request is a JPEG of 32 x 32 pixels, decoded,
# batched, sent to a worker and back) beside the least that anyone must do, a bare libmicrohttpd that decodes the
# same JPEG and suspends and resumes every request (mhd_least.c); and, for scale, beside one that only takes the
# body. In turns; median of the ratios.
#   tests/bench/front.sh [ROUNDS [SECONDS]]
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-9}
seconds=${2:-2}
connections=64

needs wrk wrk
small_jpeg
# shellcheck disable=SC2046 # flags are words
cc -std=gnu11 -O2 -Wall -Wextra tests/bench/mhd_least.c -o "$work/mhd_least" \
  $(pkg-config --cflags --libs libmicrohttpd libjpeg) -lpthread

least_port=$(free_port)
"$work/mhd_least" "$least_port" "$(nproc)" &
pids+=($!)
least=$!
echo_port=$(free_port)
"$work/mhd_least" "$echo_port" "$(nproc)" echo &
pids+=($!)
serve null --models "$measured"
worker=$(pgrep -P "$daemon" convoy-worker)

# ticks PID...: processor time so far, in hundredths of a second.
ticks() { local pid; for pid in "$@"; do awk '{ print $14 + $15 }' "/proc/$pid/stat"; done | awk '{ s += $1 } END { print s }'; }
# timed NAME URL PID...: a round; appends the rate, and the processor microseconds a request, to $work/NAME.
timed() {
  local name=$1 target=$2 before result
  shift 2
  before=$(ticks "$@")
  result=$(drive "$target/classify?top=1" $connections "$seconds")
  echo "$result $(awk -v t="$(($(ticks "$@") - before))" -v n="${result%% *}" -v s="$seconds" \
    'BEGIN { printf "%.1f", t * 10000 / (n * s) }')" >>"$work/$name"
}
for ((i = 0; i < rounds; i++)); do
  timed least "http://127.0.0.1:$least_port" "$least"
  timed front "$url" "$daemon" "$worker"
  drive "http://127.0.0.1:$echo_port/" $connections 1 >>"$work/echo"
done
printf '%d connections, a JPEG of %d bytes, %d rounds of %d s\n' $connections "$(stat -c %s "$IMAGE")" "$rounds" "$seconds"
printf 'bare libmicrohttpd, takes the body:            %7d requests/s\n' "$(median 1 <"$work/echo")"
printf 'the same, decodes, suspends and resumes:       %7d requests/s, %s us of processor time each\n' \
  "$(median 1 <"$work/least")" "$(median 5 <"$work/least")"
printf 'convoyd with the null backend:                 %7d requests/s, %s us (worker included)\n' \
  "$(median 1 <"$work/front")" "$(median 5 <"$work/front")"
echo "ratio convoyd to the second: $(ratios "$work/front" "$work/least")"
awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work/echo" "$work/least" "$work/front"
