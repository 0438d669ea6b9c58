#!/usr/bin/env bash
# sanitize: yes
# JPEG files travel in slots to a device that decodes them (the null backend, which tests/faults makes take them), in every way in which
# clients send images; those that the device gives back are decoded by the front; a worker's death loses none.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

[ -e "$build/bin/convoy-faults.so" ] || skip "the faults are not built"
needs_pillow
model=cifar10-convnet

# serve FAULT KEY=JSON...
serve() {
  local fault=$1
  shift
  configure timeout_ms=120000 models='"models"' default_model='"cifar10-convnet"' backend='"null"' "$@"
  CONVOY_TEST_FAULT=$fault start --config "$work/config.json"
}
# sent UNDECODED DEADLY CASE...
sent() { "$python" tests/tools/jpeg_slots.py "$url" "$model" "$@" || fail "jpeg_slots.py $*"; }
# count DECODER
count() { sample "convoyd_decoded_images_total{model=\"$model\",decoder=\"$1\"}"; }
undecoded() { sample "convoyd_undecoded_images_total{model=\"$model\"}"; }

echo "In all ways."
serve files:0:0 'images={"decoder": "gpu"}'
sent 0 0 ways kinds shared
[ "$(undecoded)" = 0 ] || fail "$(undecoded) files were not decoded"
[ "$(count gpu)" -gt 150 ] || fail "$(count gpu) files were decoded by the device"
[ "$(count cpu)" -gt 20 ] || fail "$(count cpu) files were decoded by the front"
expect 400 --data-binary @models/samples/ship.jpg "$url/classify?decoder=magic"
# The network that computes class activation maps takes pixels.
for query in 'gpu ' 'cpu &explain=cam' 'cpu &explain=cam&decoder=gpu'; do
  expect 200 --data-binary @models/samples/ship.jpg "$url/classify?model=cifar10-resnet${query#* }"
  [ "$(json "$work/body" "(d['results'][0]['decoder'], 'explanation' in d['results'][0])")" = \
    "('${query%% *}', $([ "$query" = 'gpu ' ] && echo False || echo True))" ] || fail "$query: $(cut -c 1-300 "$work/body")"
done
stop

echo "Some are given back."
serve files:3:0 'images={"decoder": "gpu"}'
sent 3 0 many
[ "$(undecoded)" -gt 30 ] || fail "only $(undecoded) files were given back"
[ "$(sample convoyd_slots_in_use) $(sample "convoyd_queue_images{model=\"$model\"}")" = "0 0" ] || fail "something is left"
stop

echo "All are given back, and decoding some takes longer than there is time."
serve files:1:0 'images={"decoder": "gpu"}'
sent 1 0 late
[ "${CONVOY_WHOLE:-0}" = 0 ] || sent 1 0 prompt
# shellcheck disable=SC2317 # until_true calls it
at_rest() { [ "$(sample convoyd_slots_in_use) $(sample "convoyd_queue_images{model=\"$model\"}")" = "0 0" ]; }
until_true 10 at_rest || fail "$(sample convoyd_slots_in_use) slots are in use, $(sample "convoyd_queue_images{model=\"$model\"}") images wait"
[ "$(undecoded)" -gt 0 ] || fail "no file was given back"
stop

echo "Some kill the worker."
serve files:0:40 'images={"decoder": "gpu"}'
sent 0 40 many
stop

echo "The worker dies with files in flight."
serve files:5:0 'images={"decoder": "gpu"}'
for i in 1 2 3; do
  # shellcheck disable=SC2317 # until_true calls it
  in_use() { [ "$(sample convoyd_slots_in_use)" -ge 4 ]; }
  old=$(workers)
  stand_still "$old"
  sent 5 0 many &
  sending=$!
  until_true 10 in_use || fail "no slot is in use"
  kill -KILL "$old"
  wait "$sending" || fail "turn $i"
done
[ "$(sample "convoyd_retried_images_total{model=\"$model\"}")" -gt 0 ] || fail "no image ran again"
stop

echo "The response cache knows the file, and who decoded it."
serve files:0:0 'images={"decoder": "gpu"}' 'response_cache={"bytes": 33554432}'
"$python" -c 'import sys
from PIL import Image
Image.radial_gradient("L").convert("RGB").save(sys.argv[1])' "$work/a.jpg"
for by in gpu cpu gpu cpu; do
  expect 200 --data-binary "@$work/a.jpg" "$url/classify?decoder=$by"
  [ "$(json "$work/body" 'd["results"][0]["decoder"]')" = $by ] || fail "not decoded by $by: $(cat "$work/body")"
done
[ "$(json "$work/body" 'd["cached"]')" = 1 ] || fail "not from the cache: $(cat "$work/body")"
[ "$(sample "convoyd_cache_hits_total{model=\"$model\"}") $(sample "convoyd_cache_misses_total{model=\"$model\"}")" = "2 2" ] ||
  fail "$(sample "convoyd_cache_hits_total{model=\"$model\"}") hits"
[ "$(count gpu) $(count cpu)" = "1 2" ] || fail "$(count gpu) were decoded by the device and $(count cpu) by the front, not 1 and 2"
sent 0 0 alike
stop
if [[ $build == *san* ]]; then # what was prepared for the device's answer is given back
  serve files:3:0 'images={"decoder": "gpu"}' 'response_cache={"bytes": 33554432}'
  sent 3 0 many
  stop
fi

echo "decoder: cpu, and a device that takes none."
serve files:0:0 'images={"decoder": "cpu"}'
expect 200 --data-binary "@$work/a.jpg" "$url/classify?decoder=gpu"
[ "$(json "$work/body" 'd["results"][0]["decoder"]')" = cpu ] || fail "$(cat "$work/body")"
stop
serve pace:0 'images={"decoder": "gpu"}'
expect 200 --data-binary "@$work/a.jpg" "$url/classify?decoder=gpu"
[ "$(json "$work/body" 'd["results"][0]["decoder"]')" = cpu ] || fail "$(cat "$work/body")"
stop
