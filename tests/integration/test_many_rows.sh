#!/usr/bin/env bash
# sanitize: all
# Requests of hundreds of rows, more at a time than slots take: each row gets its own answer, with and without a response
# cache. BACKEND=cuda (CONVOY_BUILD=PACK) does the same on a GPU; ROUNDS (6): requests of each of six connections.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
backend=${BACKEND:-cpu}
rounds=${ROUNDS:-6}
[[ $build != *asan* ]] || rounds=2

cp -r models/cifar10-convnet "$work/convnet"
mkdir "$work/models"
mv "$work/convnet" "$work/models/cifar10-convnet"
for cache in 0 1000000; do
  configure 'shared_memory={"enabled": true}' 'worker={"slots": 3}' 'batching={"max_queue": 2048}' 'timeout_ms=100000' "response_cache={\"bytes\": $cache}"
  start --backend "$backend" --config "$work/config.json" --models "$work/models"
  rows=$("$python" tests/tools/many_rows.py "$url" cifar10-convnet "$rounds") || fail "see above"
  echo "response_cache.bytes $cache: $rows"
  hits=$(sample 'convoyd_cache_hits_total{model="cifar10-convnet"}')
  if [ $cache = 0 ]; then [ "${hits:-0}" = 0 ]; else [ "${hits:-0}" -gt 100 ]; fi || fail "$hits hits in the response cache"
  stop
done
echo "passed"
