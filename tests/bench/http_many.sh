#!/usr/bin/env bash
# Images a second through HTTP when a request carries many: forms of 1 to 1,024 JPEGs of 32 x 32 pixels to cifar10-convnet;
# and requests a second with a JPEG each beside a bare libmicrohttpd that decodes, suspends and resumes (mhd_least.c), in turns.
#   tests/bench/http_many.sh PACK_OR_BUILD BACKEND [SECONDS]
# BACKEND is cuda (without a GPU its emulation), cpu or null. In the environment: ROUNDS (3), SIZES ("1 8 64 256 1024", images
# a request), BATCH (256), CONNECTIONS (64; of them a quarter for forms of more than 64 images).
[ $# -ge 2 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
CONVOY_BUILD=$(cd "$1" && pwd)
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
backend=$2
seconds=${3:-5}
rounds=${ROUNDS:-3}
batch=${BATCH:-256}
most=${CONNECTIONS:-64}
read -ra sizes <<<"${SIZES:-1 8 64 256 1024}"
needs wrk wrk
small_jpeg
backend_here "$backend" mhd_least

connections_for() { if [ "$1" -gt 64 ]; then echo $(((most + 3) / 4)); else echo "$most"; fi; }
waiting=4096 # images that may wait: all that the connections can carry
for size in "${sizes[@]}"; do
  carried=$((size * $(connections_for "$size") * 2))
  [ $waiting -ge $carried ] || waiting=$carried
done
sed -i "s/\"max_batch\": [0-9]*/\"max_batch\": $batch/" "$measured/cifar10-convnet/config.json"
cat >"$work/config.json" <<JSON
{"tune": "$([ -n "$emulated" ] && echo off || echo on)", "timeout_ms": 600000, "batching": {"max_queue": $waiting}}
JSON
serve "$backend" --config "$work/config.json" --models "$measured"
worker=$(pgrep -P "$daemon" convoy-worker)
until_tuned "$backend"
# shellcheck disable=SC2119 # its argument is no argument of this script
start_least

# whole SIZE: fails unless a form of so many has as many answers.
whole() {
  local i form=()
  for ((i = 0; i < $1; i++)); do form+=(-F "image=@$IMAGE"); done
  curl -fsS -o "$work/answer" "${form[@]}" "$url/classify?top=1" || die "a form of $1 images is not answered"
  "$python" - "$work/answer" "$1" <<'PYTHON' || die "a form of $1 images has other answers: $(head -c 300 "$work/answer")"
import json, sys
results = json.load(open(sys.argv[1]))["results"]
sys.exit(len(results) != int(sys.argv[2]) or not all("predictions" in result for result in results))
PYTHON
}
# idle: waits until nothing of the last measurement is left.
idle() {
  until curl -fsS "$url/metrics" | awk '/^convoyd_(queue_images|slots_in_use)/ { sum += $NF } END { exit sum > 0 }'; do
    sleep 0.05
  done
}
# measure NAME SIZE: a round; appends "images/s requests/s p50-us p99-us errors front-us worker-us" to $work/NAME, the last two
# being processor time for each image.
measure() {
  local front device result
  export PER_REQUEST=$2
  idle
  front=$(ticks "$daemon")
  device=$(ticks "$worker")
  result=$(drive "$url/classify?top=1" "$(connections_for "$2")" "$seconds")
  awk -v r="$result" -v n="$2" -v s="$seconds" -v f="$(($(ticks "$daemon") - front))" \
    -v d="$(($(ticks "$worker") - device))" 'BEGIN {
      split(r, v, " "); i = v[1] * n
      printf "%.0f %s %.1f %.1f\n", i, r, i ? f * 10000 / (i * s) : 0, i ? d * 10000 / (i * s) : 0
    }' >>"$work/$1"
}

for size in "${sizes[@]}"; do whole "$size"; done
for ((i = 0; i < rounds; i++)); do
  for size in "${sizes[@]}"; do measure "by$size" "$size"; done
  PER_REQUEST=1 drive "http://127.0.0.1:$least_port/" "$most" "$seconds" >>"$work/least"
  measure single 1
done
printf '%s%s, cifar10-convnet, batches of %d at most, a JPEG of %d bytes, %d rounds of %d s, %d cores\n' "$backend" \
  "${emulated:+ (emulated)}" "$batch" "$(stat -c %s "$IMAGE")" "$rounds" "$seconds" "$(nproc)"
row='%10s %12s %10s %11s %9s %9s %7s %10s %10s\n'
# shellcheck disable=SC2059 # the rows have one format
{
  printf "$row" images/req connections images/s requests/s 'p50 ms' 'p99 ms' errors 'front us' 'worker us'
  for size in "${sizes[@]}"; do
    file=$work/by$size
    printf "$row" "$size" "$(connections_for "$size")" "$(median 1 <"$file")" "$(median 2 <"$file")" \
      "$(median 3 <"$file" | awk '{ printf "%.2f", $1 / 1000 }')" "$(median 4 <"$file" | awk '{ printf "%.2f", $1 / 1000 }')" \
      "$(awk '{ bad += $5 } END { print bad + 0 }' "$file")" "$(median 6 <"$file")" "$(median 7 <"$file")"
  done
}
echo "(the last two: processor time of front and worker for each image)"
printf 'a JPEG a request, %d connections: convoyd %d requests/s, the bare server %d; ratio %s\n' "$most" \
  "$(median 1 <"$work/single")" "$(median 1 <"$work/least")" "$(ratios "$work/single" "$work/least")"
awk '{ bad += $4 } END { print "errors of the bare server: " bad + 0 }' "$work/least"
