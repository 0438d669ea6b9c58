#!/usr/bin/env bash
# sanitize: both
# timed: how long others wait while workers are replaced is judged by the clock
# An image that kills the worker which runs it gets a 500, alone or as one of eight; everyone else is answered,
# whatever the slots in flight and their size.
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"

python3 tests/tools/solid_png.py "$work/poison.png" 250 0 250
export CONVOY_TEST_FAULT=kill:250,0,250

poisoned_only() { # name: the poison's figures are as they should be
  [ "$(json "$work/$1.json" 'set(d["poison"]["alone"]) == set(d["poison"]["entries"]) == {"500"}')" = True ] ||
    fail "$1: the poison got something else than 500"
  [ "$(json "$work/$1.json" 'set(d["poison"]["neighbours"]) == {"200"}')" = True ] ||
    fail "$1: an image beside the poison was not classified"
}

echo "Nothing else in flight."
configure timeout_ms=60000
start --config "$work/config.json"
expect 500 --data-binary @"$work/poison.png" "$url/classify"
form=()
for place in 1 2 3 4 5 6 7 8; do
  file=models/samples/ship.jpg
  [ $place != 5 ] || file=$work/poison.png
  form+=(-F "image=@$file")
done
expect 200 "${form[@]}" "$url/classify"
[ "$(json "$work/body" '[r.get("status", r.get("predictions", [{}])[0].get("label")) for r in d["results"]]')" = \
  "['ship', 'ship', 'ship', 'ship', 500, 'ship', 'ship', 'ship']" ] || fail "$(cat "$work/body")"
expect 200 --data-binary @models/samples/ship.jpg "$url/classify"

echo "Under 64 connections."
load crowd --seconds 5 --poison "$work/poison.png"
loaded crowd
all_answered crowd $((3000 * slower))
poisoned_only crowd
stop

echo "Eight slots in use, four images in each."
configure timeout_ms=60000 batching='{"max_batch": 4, "max_delay_us": 0}' worker='{"streams": 8, "slots": 8}'
cp -r models "$work/models"
python3 - "$work/models/cifar10-convnet/config.json" <<'PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
config["batching"] = {"max_batch": 4, "max_delay_us": 0}
json.dump(config, open(sys.argv[1], "w"))
PYTHON
start --config "$work/config.json" --models "$work/models"
load small --seconds 5 --form 8 --connections 32 --poison "$work/poison.png"
loaded small
all_answered small $((5000 * slower))
poisoned_only small
stop
