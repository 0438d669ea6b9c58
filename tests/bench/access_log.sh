#!/usr/bin/env bash
# What the access log costs: requests a second, and processor time each, of three daemons with the null backend, one for each
# value of log.access, in turns. Their logs go to files. The last line is of a fourth with "all" whose log is read slowly:
# 4 KiB every 50 ms.
#   tests/bench/access_log.sh [ROUNDS [SECONDS]]
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-9}
seconds=${2:-2}
connections=64

needs wrk wrk
small_jpeg

# serve_log NAME ACCESS: a daemon that writes to $work/log, which keeps its place under another name.
declare -A urls daemons workers
serve_log() {
  printf '{"log": {"access": "%s"}}' "$2" >"$work/config.json"
  serve null --models "$measured" --config "$work/config.json"
  urls[$1]=$url
  daemons[$1]=$daemon
  workers[$1]=$(pgrep -P "$daemon" convoy-worker)
  mv "$work/log" "$work/log.$1" # the daemon goes on writing to it
}
for access in off sampled all; do serve_log $access $access; done

mkfifo "$work/pipe"
"$python" - "$work/pipe" "$work/log" <<'PYTHON' &
import sys, time
with open(sys.argv[1], "rb", 0) as pipe, open(sys.argv[2], "wb", 0) as log:
    while text := pipe.read(4096):
        log.write(text)
        time.sleep(0.05)
PYTHON
pids+=($!)
"$build/bin/convoyd" --listen 127.0.0.1:0 --backend null --models "$measured" --config "$work/config.json" 2>"$work/pipe" &
daemon=$!
pids+=("$daemon")
until [ -e "$work/log" ] && urls[slow]=http://127.0.0.1:$(sed -n 's/.*msg="convoyd listens".* port=\([0-9]*\).*/\1/p' "$work/log") &&
  curl -fs -o /dev/null "${urls[slow]}/v2/health/ready"; do
  kill -0 "$daemon" 2>/dev/null || die "convoyd ended: $(cat "$work/log")"
  sleep 0.05
done
daemons[slow]=$daemon
workers[slow]=$(pgrep -P "$daemon" convoy-worker)

for ((i = 0; i < rounds; i++)); do
  for name in off sampled all slow; do
    before=$(ticks "${daemons[$name]}" "${workers[$name]}")
    result=$(drive "${urls[$name]}/classify?top=1" $connections "$seconds")
    echo "$result $(awk -v t="$(($(ticks "${daemons[$name]}" "${workers[$name]}") - before))" -v n="${result%% *}" -v s="$seconds" \
      'BEGIN { printf "%.1f", t * 10000 / (n * s) }')" >>"$work/$name"
  done
done
printf '%d connections, a JPEG of %d bytes, %d rounds of %d s\n' $connections "$(stat -c %s "$IMAGE")" "$rounds" "$seconds"
for name in off sampled all slow; do
  printf '%-8s %7d requests/s, %s us of processor time each, ratio to off %s\n' $name "$(median 1 <"$work/$name")" \
    "$(median 5 <"$work/$name")" "$(ratios "$work/$name" "$work/off")"
done
awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work"/{off,sampled,all,slow}
grep -c msg=request "$work/log.all" | sed 's/$/ lines of "all"/'
awk '/msg=request/ { sub(/.*unwritten=/, ""); n += $1 } END { print n + 0 " lost" }' "$work/log.all"
