#!/usr/bin/env bash
# alone: its proportional memory is measured: pages that another convoyd shares would count for less
# Proportional memory (PSS) of front and worker together stays under 120 MB with the models that ship: after 1,000
# requests one by one, after 64 connections at once, and after workers were replaced.
# shellcheck disable=SC2119 # start takes options of convoyd, which are not this script's
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"

limit_kb=120000
[[ $build != *san* ]] || skip "a sanitizer's own memory would be measured"
[ -r /proc/self/smaps_rollup ] || skip "this system has no /proc/PID/smaps_rollup"

pss_kb() { awk '/^Pss:/ { sum += $2 } END { print sum }' "/proc/$daemon/smaps_rollup" "/proc/$(front)/smaps_rollup" "/proc/$(worker)/smaps_rollup"; }
small_enough() { # when
  local kb
  kb=$(pss_kb)
  echo "$1: $kb kB"
  [ "$kb" -lt $limit_kb ] || fail "front and worker take $kb kB $1, more than $limit_kb"
}

start
seq 1000 | sed "s|.*|url = \"$url/classify\"\ndata-binary = \"@models/samples/ship.jpg\"\noutput = \"/dev/null\"|" \
  >"$work/curl"
curl -fsS -K "$work/curl"
[ "$(metric convoyd_images_total)" = 1000 ] || fail "not 1,000 images were classified"
small_enough "after 1,000 requests"
load crowd --seconds 2
loaded crowd
all_answered crowd 5000
small_enough "after 64 connections for 2 s"
# The small model: 1,024 images at once are seconds of the default one's work, and what is measured are new workers.
load forms --seconds 4 --connections 16 --form 64 --query model=cifar10-convnet
for _ in 1 2 3 4 5; do
  sleep 0.5
  kill -KILL "$(worker)"
done
loaded forms
all_answered forms 5000
small_enough "after five workers"
stop
