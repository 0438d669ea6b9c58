#!/usr/bin/env bash
# What /infer costs beside what stands next to it, each pair measured in turns within one run; medians of the rounds.
#   tests/bench/infer.sh [ROUNDS [SECONDS [BACKEND]]]
# 1. Processor time of a request with one binary FP32 tensor, beside that of /classify with a JPEG less its decoding; null
#    backend.
# 2. Images/s of requests with 256 rows, pixels and FP32, beside the channel's without HTTP (bench_channel_rate, which sends
#    pixels); BACKEND (cpu).
# 3. p99 of small requests, 2,000 a second in open loop (Poisson), while a JSON tensor of 1 MB comes ten times a second,
#    beside p99 without; null backend.
# CONVOY_BUILD=PACK measures a tree that tests/gpu/pack.sh made.
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-9}
seconds=${2:-2}
backend=${3:-cpu}
model=cifar10-convnet
infer=/v2/models/$model/infer

needs wrk wrk
small_jpeg
backend_here "$backend" bench_channel_rate
# The tensors, and how long the JSON before each is.
"$python" tests/bench/infer_body.py FP32 1 >"$work/one"
"$python" tests/bench/infer_body.py FP32 256 >"$work/floats"
"$python" tests/bench/infer_body.py UINT8 256 >"$work/pixels"
"$python" tests/bench/infer_body.py JSON 40 >"$work/json"
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
# One connection, so that nobody takes the core away from it; in the same round, since the machine's speed changes.
decode_us() {
  local before after
  before=$(decoded)
  drive "$url/classify?top=1" 1 1 >/dev/null
  after=$(decoded)
  awk -v a="$before" -v b="$after" 'BEGIN { split(a, x); split(b, y); printf "%.2f\n", (y[1] - x[1]) / (y[2] - x[2]) * 1e6 }'
}

serve null --models "$measured"
worker=$(pgrep -P "$daemon" convoy-worker)
for ((i = 0; i < rounds; i++)); do
  timed drive "$url/classify?top=1" 64 "$seconds" >>"$work/classify"
  decode_us >>"$work/decode"
  timed drive_infer "$work/one" 64 "$seconds" >>"$work/infer"
done
paste "$work/classify" "$work/decode" | awk '{ print $5 - $6 }' >"$work/front"
awk '{ print $5 }' "$work/infer" >"$work/tensor"
echo "1. One FP32 tensor, 64 connections, $rounds rounds of $seconds s, null backend"
echo "/classify, a JPEG:  $(median 1 <"$work/classify") requests/s, $(median 5 <"$work/classify") us of processor time each, $(median 1 <"$work/decode") us of it decoding"
echo "/infer, FP32:       $(median 1 <"$work/infer") requests/s, $(median 5 <"$work/infer") us"
echo "ratio of infer to the rest of classify: $(ratios "$work/tensor" "$work/front")"

# small_p99: in microseconds.
small_p99() {
  "$build/bin/convoy" bench --url "$url" --rate 2000 --seconds "$seconds" --json "$IMAGE" |
    "$python" -c 'import json, sys; print("%.0f" % (json.load(sys.stdin)["latency_ms"]["p99"] * 1000))'
}
for ((i = 0; i < rounds; i++)); do
  small_p99 >>"$work/quiet"
  "$python" tests/bench/infer_post.py "$url$infer" "$work/json" 0.1 >"$work/posted" &
  poster=$!
  small_p99 >>"$work/company"
  kill -TERM $poster
  wait $poster || die "the JSON tensors: $(cat "$work/posted")"
done
echo "3. 2,000 /classify a second while a JSON tensor of $(($(stat -c %s "$work/json") / 1000)) kB comes every 0.1 s ($(cat "$work/posted"))"
echo "p99: $(median 1 <"$work/quiet") us without, $(median 1 <"$work/company") us with; ratio $(ratios "$work/company" "$work/quiet")"
end_daemon

serve "$backend" --models "$measured"
until_tuned "$backend"
worker=$(pgrep -P "$daemon" convoy-worker)
for ((i = 0; i < rounds; i++)); do
  timed drive_infer "$work/pixels" 8 "$seconds" | awk '{ print $1 * 256, $0 }' >>"$work/pixels256"
  timed drive_infer "$work/floats" 8 "$seconds" | awk '{ print $1 * 256, $0 }' >>"$work/floats256"
  kill -STOP "$daemon" "$worker" # it is not to disturb the channel
  "$build/bin/bench_channel_rate" "$backend" models/$model/1/model.onnx 256 8 3 "$seconds" "$work" 2>"$work/log" |
    "$python" -c 'import json, sys; print(json.load(sys.stdin)["images_per_s"])' >>"$work/channel"
  kill -CONT "$worker" "$daemon"
done
echo "2. 256 rows a request, 8 connections, $backend backend"
echo "channel:        $(median 1 <"$work/channel") images/s"
echo "/infer, UINT8:  $(median 1 <"$work/pixels256") images/s; ratio $(ratios "$work/pixels256" "$work/channel")"
echo "/infer, FP32:   $(median 1 <"$work/floats256") images/s; ratio $(ratios "$work/floats256" "$work/channel")"
awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work/classify" "$work/infer"
