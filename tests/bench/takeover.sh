#!/usr/bin/env bash
# What a new version costs those who are served meanwhile: tests/bench/takeover.sh [ROUNDS [SECONDS [BACKEND [MODEL]]]]
# 64 connections send images of 32 x 32 pixels to MODEL (cifar10-convnet). In turns: SECONDS without a change, and SECONDS
# during which one version takes over from the other, again and again (version_policy latest 1, a folder that is watched
# every 50 ms); medians of the rounds, and of the ratio of the p99. A failed or lost request ends it with status 1.
# BACKEND is cpu, or cuda. CONVOY_BUILD=PACK measures a tree that tests/gpu/pack.sh made.
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5}
seconds=${2:-5}
backend=${3:-cpu}
model=${4:-cifar10-convnet}
backend_here "$backend"
needs wrk wrk
small_jpeg
rm -r "${measured:?}"/*
mkdir -p "$measured/it"
cp models/"$model"/*.txt "$measured/it/"
"$python" - "models/$model/config.json" >"$measured/it/config.json" <<'PYTHON'
import json, sys
print(json.dumps({**json.load(open(sys.argv[1])), "version_policy": {"latest": 1}}))
PYTHON
version=0
put() {
  version=$((version + 1))
  mkdir "$measured/it/$version"
  cp "models/$model/1/model.onnx" "$measured/it/$version/.new"
  mv "$measured/it/$version/.new" "$measured/it/$version/model.onnx"
}
serving() { curl -fs "$url/v2/models/it" | grep "\"versions\":\\[\"$version\"\\]" >/dev/null; }
put
cat >"$work/config.json" <<JSON
{"models": "$measured", "model_control": "poll", "repository": {"poll_ms": 50}, "cache_dir": "$work/cache"$(
  [ -z "$emulated" ] || printf ', "tune": "off"')}
JSON
mkdir -p "$work/cache"
serve "$backend" --config "$work/config.json"
until_tuned "$backend" it
changes() {
  while :; do
    put
    until serving; do sleep 0.01; done
    rm -r "${measured:?}/it/$((version - 1))"
    echo "$version" >"$work/changes"
  done
}
failed=0
for ((round = 1; round <= rounds; round++)); do
  drive "$url/classify" 64 "$seconds" | tee -a "$work/quiet" >"$work/line-quiet"
  before=$(cat "$work/changes" 2>/dev/null || echo 0)
  version=$(find "$measured/it" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort -n | tail -n 1)
  changes &
  changer=$!
  drive "$url/classify" 64 "$seconds" | tee -a "$work/changing" >"$work/line-changing"
  kill "$changer" 2>/dev/null || true
  wait "$changer" 2>/dev/null || true
  echo "round $round: quiet $(cut -d' ' -f1-3 "$work/line-quiet"), changing $(cut -d' ' -f1-3 "$work/line-changing")," \
    "$(($(cat "$work/changes") - before)) versions" >&2
  failed=$((failed + $(awk '{ s += $4 } END { print s + 0 }' "$work/line-quiet" "$work/line-changing")))
done
echo "quiet:    $(median 1 <"$work/quiet") requests/s, p50 $(median 2 <"$work/quiet") us, p99 $(median 3 <"$work/quiet") us"
echo "changing: $(median 1 <"$work/changing") requests/s, p50 $(median 2 <"$work/changing") us, p99 $(median 3 <"$work/changing") us"
echo "ratio of p99: $(ratios <(awk '{ print $3 }' "$work/changing") <(awk '{ print $3 }' "$work/quiet"))"
echo "errors: $failed"
[ "$failed" -eq 0 ]
