#!/usr/bin/env bash
# What /infer costs beside what stands next to it, each pair measured in turns within one run; medians of the rounds.
#   tests/bench/infer.sh [ROUNDS [SECONDS [BACKEND]]]
# 1. Processor time of a request with one binary FP32 tensor, beside that of /classify with a JPEG less its decoding; null
#    backend.
# 2. Images/s of requests with 256 rows, pixels, FP32, and pixels in shared memory, beside the channel's without HTTP
#    (bench_channel_rate, which sends pixels) and beside bare libmicrohttpd that takes the same bodies; BACKEND (cpu).
# 3. p99 of small requests, 2,000 a second in open loop (Poisson), while a JSON tensor of 1.3 MB comes ten times a second, and
#    while one of as many bytes comes, which is not parsed, beside p99 without; null backend.
# CONVOY_BUILD=PACK measures a tree that tests/gpu/pack.sh made; in the environment: MODEL (cifar10-convnet) of 3 x 32 x 32,
# PARTS (123) of these, CONNECTIONS (8) and SLOTS (8, worker.slots) of 2.
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-9}
seconds=${2:-2}
backend=${3:-cpu}
parts=${PARTS:-123}
connections=${CONNECTIONS:-8}
slots=${SLOTS:-8}
model=${MODEL:-cifar10-convnet}
[ "$model" = cifar10-convnet ] || { rm -r "$measured/cifar10-convnet" && cp -r "models/$model" "$measured"; }
infer=/v2/models/$model/infer

needs wrk wrk
small_jpeg
backend_here "$backend" bench_channel_rate mhd_least
# The tensors, and how long the JSON before each is.
"$python" tests/bench/infer_body.py FP32 1 >"$work/one"
"$python" tests/bench/infer_body.py FP32 256 >"$work/floats"
"$python" tests/bench/infer_body.py UINT8 256 >"$work/pixels"
"$python" tests/bench/infer_body.py JSON 40 >"$work/json"
"$python" tests/bench/infer_body.py UINT8 416 >"$work/bytes"
header_length() { head -n 1 "$1" | wc -c; }

# drive_infer BODY CONNECTIONS SECONDS
drive_infer() { IMAGE=$1 HEADER_LENGTH=$(header_length "$1") drive "$url$infer" "$2" "$3"; }

# timed COMMAND...: "requests/s p50 p99 errors processor-us" of a round; the last is what front and worker took for each.
timed() {
  local before result
  before=$(ticks "$daemon" "$worker")
  result=$("$@")
  echo "$result $(awk -v t="$(($(ticks "$daemon" "$worker") - before))" -v n="${result%% *}" -v s="$seconds" \
    'BEGIN { printf "%.2f", t * 10000 / (n * s) }')"
}

# decoded: seconds of decoding and images so far.
decoded() { curl -fs "$url/metrics" | awk '/^convoyd_decode_seconds_sum/ { s = $2 } /^convoyd_decode_seconds_count/ { n = $2 } END { print s, n }'; }
# timed_classify: as timed(), then microseconds of decoding each, in that very load: an idle core decodes at another speed.
timed_classify() {
  local before result after
  before=$(decoded)
  result=$(timed drive "$url/classify?top=1" 64 "$seconds")
  after=$(decoded)
  echo "$result $(awk -v a="$before" -v b="$after" 'BEGIN { split(a, x); split(b, y); printf "%.2f", (y[1] - x[1]) / (y[2] - x[2]) * 1e6 }')"
}

front_time() {
  for ((i = 0; i < rounds; i++)); do
    timed_classify >>"$work/classify"
    timed drive_infer "$work/one" 64 "$seconds" >>"$work/infer"
  done
  awk '{ print $5 - $6 }' "$work/classify" >"$work/front"
  awk '{ print $5 }' "$work/infer" >"$work/tensor"
  echo "1. One FP32 tensor, 64 connections, $rounds rounds of $seconds s, null backend"
  echo "/classify, a JPEG:  $(median 1 <"$work/classify") requests/s, $(median 5 <"$work/classify") us of processor time each, $(median 6 <"$work/classify") us of it decoding"
  echo "/infer, FP32:       $(median 1 <"$work/infer") requests/s, $(median 5 <"$work/infer") us"
  echo "ratio of infer to the rest of classify: $(ratios "$work/tensor" "$work/front")"
  awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work/classify" "$work/infer"
}

# small_p99: in microseconds.
small_p99() {
  "$build/bin/convoy" bench --url "$url" --rate 2000 --seconds "$seconds" --json "$IMAGE" |
    "$python" -c 'import json, sys; print("%.0f" % (json.load(sys.stdin)["latency_ms"]["p99"] * 1000))'
}
# beside FILE [HEADER-LENGTH]: the same while FILE comes every 0.1 s.
beside() {
  local poster
  "$python" tests/bench/infer_post.py "$url$infer" "$work/$1" 0.1 ${2+"$2"} >"$work/$1.posted" &
  poster=$!
  small_p99 >>"$work/$1.p99"
  kill -TERM $poster
  wait $poster || die "the tensors: $(cat "$work/$1.posted")"
}
beside_large_tensors() {
  for ((i = 0; i < rounds; i++)); do
    small_p99 >>"$work/quiet"
    beside json
    beside bytes "$(header_length "$work/bytes")"
  done
  echo "3. 2,000 /classify a second while a tensor of $(($(stat -c %s "$work/json") / 1000)) kB comes every 0.1 s"
  echo "p99: $(median 1 <"$work/quiet") us without"
  for kind in json bytes; do
    echo "$(median 1 <"$work/$kind.p99") us with $kind ($(cat "$work/$kind.posted")): ratio $(ratios "$work/$kind.p99" "$work/quiet")"
  done
}

# line NAME KIND
line() {
  printf '%-31s %12.0f images/s; of the channel %s' "$1" "$(median 1 <"$work/$2.256")" "$(ratios "$work/$2.256" "$work/channel")"
  [ ! -e "$work/$2.least" ] || printf '; of bare libmicrohttpd %s' "$(ratios "$work/$2.256" "$work/$2.least")"
  echo
}
many_rows() {
  # What sends megabytes takes as much as what receives them.
  export WRK_THREADS=$(($(nproc) / 2))
  # Bare libmicrohttpd with as many threads takes the same bodies and does nothing with them.
  start_least echo
  region=convoy-bench-$$
  "$python" tests/bench/infer_body.py UINT8 256 "$region" >"$work/region"
  # Of the queue, what all connections send.
  echo "{\"shared_memory\": {\"enabled\": true}, \"worker\": {\"slots\": $slots}, \"batching\": {\"max_queue\": $((connections * 256 > 4096 ? connections * 256 : 4096))}}" >"$work/config.json"
  serve "$backend" --config "$work/config.json" --models "$measured"
  until_tuned "$backend" "$model"
  worker=$(pgrep -P "$daemon" convoy-worker)
  curl -fs -o /dev/null -d "{\"key\": \"/$region\", \"byte_size\": $(stat -c %s "/dev/shm/$region")}" \
    "$url/v2/systemsharedmemory/region/$region/register" || die "the shared memory is not registered"
  rm "/dev/shm/$region"
  for ((i = 0; i < rounds; i++)); do
    for kind in pixels floats region; do
      timed drive_infer "$work/$kind" "$connections" "$seconds" | awk '{ print $1 * 256, $0 }' >>"$work/$kind.256"
    done
    # shellcheck disable=SC2046 # process ids
    kill -STOP $(with_front "$daemon") "$worker" # it is not to disturb the others
    for kind in pixels floats; do
      IMAGE=$work/$kind drive "http://127.0.0.1:$least_port/" "$connections" "$seconds" | awk '{ print $1 * 256 }' >>"$work/$kind.least"
    done
    "$build/bin/bench_channel_rate" "$backend" "models/$model/1/model.onnx" 256 8 3 "$seconds" "$work" >"$work/line" 2>"$work/log" ||
      die "bench_channel_rate: $(tail -n 3 "$work/log")"
    "$python" -c 'import json, sys; print(json.load(sys.stdin)["images_per_s"])' <"$work/line" >>"$work/channel"
    # shellcheck disable=SC2046 # process ids
    kill -CONT "$worker" $(with_front "$daemon")
  done
  echo "2. $model, 256 rows a request, $connections connections, $slots slots, $backend backend"
  printf 'channel:                        %12.0f images/s\n' "$(median 1 <"$work/channel")"
  line '/infer, UINT8:' pixels
  line '/infer, FP32:' floats
  line '/infer, UINT8 in shared memory:' region
  awk '{ bad += $5 } END { print "errors: " bad + 0 }' "$work"/*.256
}

if [[ $parts == *[13]* ]]; then
  serve null --models "$measured"
  worker=$(pgrep -P "$daemon" convoy-worker)
  if [[ $parts == *1* ]]; then front_time; fi
  if [[ $parts == *3* ]]; then beside_large_tensors; fi
  end_daemon
fi
if [[ $parts == *2* ]]; then many_rows; fi
