#!/usr/bin/env bash
# 64 connections at once: images, forms, bad input, wrong paths, pages; at the end SIGTERM under load. Every answer is
# right, none is missing, and no sanitizer has anything to say. Meant for every build: the thread sanitizer's as well,
# as the null backend has no threads of libraries that were built without it.
# sanitize: all
# timed: 64 connections at once must be read within drain_ms
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# A data race must not be passed over because a function was inlined or a report was the second of its kind.
export TSAN_OPTIONS="$TSAN_OPTIONS:second_deadlock_stack=1"
needs_pillow
"$python" - "$work/large.jpg" <<'PYTHON'
import sys
from PIL import Image
# Large enough to be decoded off the HTTP threads.
Image.open("models/samples/truck.jpg").resize((800, 600)).save(sys.argv[1])
PYTHON

# Longer than a request may wait to be read: under the thread sanitizer on a busy machine that is a second.
drain_ms=500
[[ $build != *san* ]] || drain_ms=4000
configure 'default_model="cifar10-convnet"' "drain_ms=$drain_ms" 'timeout_ms=60000' 'http={"threads": 4}'
start --backend null --config "$work/config.json"
worker=$(workers)
"$python" tests/tools/load.py "$url" --seconds 3 --connections 4 --image "$work/large.jpg" \
  --image models/samples/ship.jpg --json >"$work/large" &
other=$!
"$python" tests/tools/load.py "$url" --seconds 5 --connections 64 --mix --tensors cifar10-convnet --terminate "$daemon" --json >"$work/load" || {
  cat "$work/large"
  fail "$(cat "$work/load")"
}
wait $other || fail "large images: $(cat "$work/large")"
json "$work/load" "'%(requests)d requests, %(per_second)d a second, the longest took %(longest_ms)d ms; %(stopped)d were told that it stops' % d"
json "$work/load" "d['statuses']"
[ "$(json "$work/load" "len(d['kinds']) == 22 and d['overtaken'] == 0")" = True ] || fail "$(cat "$work/load")"
status=0
wait "$daemon" || status=$?
daemon=
[ $status -eq 0 ] || fail "convoyd ended with status $status"
gone() { ! kill -0 "$worker" 2>/dev/null; }
until_true 10 gone || fail "the worker lives on"
grep -q 'level=error' "$work/log" && fail "an error in the log"
echo "passed"
