#!/usr/bin/env bash
# Measures the front: requests a second with the null backend (every request is a JPEG of 32 x 32 pixels, decoded,
# batched, sent to a worker and back) beside the least that anyone must do, a bare libmicrohttpd that decodes the
# same JPEG and suspends and resumes every request (mhd_least.c); and, for scale, beside one that only takes the
# body. In turns; median of the ratios.
#   tests/bench/front.sh [ROUNDS [SECONDS [BACKEND [CONNECTIONS]]]]
# BACKEND is null, or another to see what computing costs besides; CONNECTIONS is 64, for both servers. CONVOY_BUILD=PACK measures
# a tree that tests/gpu/pack.sh made, with the wrk and the bare server that it brings along.
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-9}
seconds=${2:-2}
backend=${3:-null}
connections=${4:-64}

needs wrk wrk
small_jpeg
backend_here "$backend" mhd_least

start_least echo
echo_port=$least_port
start_least
options=(--models "$measured")
if [ -n "$emulated" ]; then
  printf '{"tune": "off"}' >"$work/config.json"
  options+=(--config "$work/config.json")
fi
serve "$backend" "${options[@]}"
until_tuned "$backend"
worker=$(pgrep -P "$daemon" convoy-worker)

# timed NAME URL PID...: a round; appends the rate, and the processor microseconds a request, to $work/NAME.
timed() {
  local name=$1 target=$2 before result
  shift 2
  before=$(ticks "$@")
  result=$(drive "$target/classify?top=1" "$connections" "$seconds")
  echo "$result $(awk -v t="$(($(ticks "$@") - before))" -v n="${result%% *}" -v s="$seconds" \
    'BEGIN { printf "%.1f", t * 10000 / (n * s) }')" >>"$work/$name"
}
for ((i = 0; i < rounds; i++)); do
  timed least "http://127.0.0.1:$least_port" "$least"
  timed front "$url" "$daemon" "$worker"
  drive "http://127.0.0.1:$echo_port/" "$connections" 1 >>"$work/echo"
done
printf '%d connections, a JPEG of %d bytes, %d rounds of %d s\n' "$connections" "$(stat -c %s "$IMAGE")" "$rounds" "$seconds"
printf 'bare libmicrohttpd, takes the body:            %7d requests/s\n' "$(median 1 <"$work/echo")"
printf 'the same, decodes, suspends and resumes:       %7d requests/s, %s us of processor time each\n' \
  "$(median 1 <"$work/least")" "$(median 5 <"$work/least")"
printf 'convoyd with the %-29s %7d requests/s, %s us (worker included)\n' "$backend backend:" \
  "$(median 1 <"$work/front")" "$(median 5 <"$work/front")"
echo "ratio convoyd to the second: $(ratios "$work/front" "$work/least")"
awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work/echo" "$work/least" "$work/front"
