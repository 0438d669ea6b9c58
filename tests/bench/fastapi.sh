#!/usr/bin/env bash
# Measures convoyd's CPU backend beside what most people write (peer_fastapi.py: FastAPI, uvicorn with two workers,
# Pillow, ONNX Runtime): the same JPEG, the same wrk, in turns. Requests a second, p50, p99, memory of all processes,
# time from exec to the first answer.
#   tests/bench/fastapi.sh [ROUNDS [SECONDS]]
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5}
seconds=${2:-3}
peer=build/venv-tests/bin/python

needs wrk wrk
[ -x $peer ] || /usr/bin/python3 -m venv --system-site-packages build/venv-tests
$peer -c 'import onnxruntime, numpy, PIL, fastapi, uvicorn, uvloop, httptools' 2>/dev/null ||
  $peer -m pip install -q onnxruntime numpy pillow fastapi 'uvicorn[standard]' ||
  die "FastAPI, uvicorn or ONNX Runtime cannot be installed here"
small_jpeg
export MODEL=models/cifar10-convnet

# first_answer URL PID LOG: waits for it, without a pause that counts, as long as that process is there.
first_answer() {
  until curl -fs -o /dev/null --data-binary "@$IMAGE" "$1/classify"; do
    kill -0 "$2" 2>/dev/null || die "who should answer at $1 has ended: $(cat "$3")"
    sleep 0.002
  done
}
now() { date +%s%N; }

start_peer() {
  peer_url=http://127.0.0.1:$(free_port)
  (cd tests/bench && MODEL=../../$MODEL exec ../../$peer -m uvicorn peer_fastapi:app --workers 2 --log-level error \
    --no-access-log --port "${peer_url##*:}" 2>"$work/peer.log") &
  peer_pid=$!
  pids+=("$peer_pid")
}
start_own() {
  url=http://127.0.0.1:$(free_port)
  "$build/bin/convoyd" --listen "${url#http://}" --backend cpu --models "$measured" 2>"$work/log" &
  daemon=$!
  pids+=("$daemon")
}
for ((i = 0; i <= rounds; i++)); do # the first warms the files and does not count
  begun=$(now)
  start_peer
  first_answer "$peer_url" "$peer_pid" "$work/peer.log"
  [ $i -eq 0 ] || echo $((($(now) - begun) / 1000)) >>"$work/peer.first"
  begun=$(now)
  start_own
  first_answer "$url" "$daemon" "$work/log"
  [ $i -eq 0 ] || echo $((($(now) - begun) / 1000)) >>"$work/own.first"
  for number in 64 1; do
    drive "$url/classify?top=1" $number "$seconds" >>"$work/own.$number"
    drive "$peer_url/classify?top=1" $number "$seconds" >>"$work/peer.$number"
  done
  # shellcheck disable=SC2046 # process ids are words
  { pss $(descendants "$daemon") >>"$work/own.pss"; echo >>"$work/own.pss"
    pss $(descendants "$peer_pid") >>"$work/peer.pss"; echo >>"$work/peer.pss"; }
  kill -TERM "${pids[@]}"
  wait "${pids[@]}" || true
  pids=()
done
report() { # NAME FILES
  printf '%-10s 64 connections: %6d requests/s, p50 %6.2f ms, p99 %6.2f ms; 1: %5d requests/s, p50 %5.2f ms; %.0f MB; first answer %.0f ms\n' \
    "$1" "$(median 1 <"$work/$2.64")" "$(median 2 <"$work/$2.64" | awk '{ print $1 / 1000 }')" \
    "$(median 3 <"$work/$2.64" | awk '{ print $1 / 1000 }')" "$(median 1 <"$work/$2.1")" \
    "$(median 2 <"$work/$2.1" | awk '{ print $1 / 1000 }')" "$(median <"$work/$2.pss")" \
    "$(median <"$work/$2.first" | awk '{ print $1 / 1000 }')"
}
report convoyd own
report FastAPI peer
echo "ratio of the requests/s at 64 connections: $(ratios "$work/own.64" "$work/peer.64")"
awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work"/own.64 "$work"/own.1 "$work"/peer.64 "$work"/peer.1
