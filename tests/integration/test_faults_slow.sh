#!/usr/bin/env bash
# alone: it fills all cores for seconds, and how long a batch takes is judged by the clock
# A batch that takes far longer than the hang timeout is work: its worker lives. The same model's job that never ends is a
# hang, found within the hang timeout and five times what the batch should have taken.
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"

images=64
hang_ms=1000 # less would also judge how soon heartbeats get a processor
mkdir -p "$work/models/slow/1"
echo '{"batching": {"max_batch": 64}}' >"$work/models/slow/config.json"
image=models/samples/ship.jpg
form=()
for ((i = 0; i < images; i++)); do form+=(-F "image=@$image"); done
now_ms() { date +%s%3N; }

echo "$images images of a network, in one batch that takes several times $hang_ms ms, kill no worker."
configure "models=\"$work/models\"" 'default_model="slow"' "worker={\"hang_timeout_ms\": $hang_ms}" timeout_ms=120000
sed -i 's/"default_model": "cifar10-convnet", //; s/"models": "models"/"backend": "cpu"/' "$work/config.json"
layers=4
slower_than() { [ "$(json "$work/body" "d['timing']['compute_us'] > $1 * 1000")" = True ]; }
while :; do
  "$python" tests/tools/slow_network.py "$work/models/slow/1/model.onnx" $layers
  start --config "$work/config.json"
  expect 200 "${form[@]}" "$url/classify"
  [ "$(metric convoyd_worker_restarts_total)" = 0 ] || fail "workers died of work"
  json "$work/body" 'd["batch_size"], d["timing"]'
  if slower_than $((2 * hang_ms)); then break; fi
  stop
  layers=$((layers * 4)) # on a fast machine
  [ $layers -le 64 ] || fail "no network is slow enough"
done
expect 200 --data-binary @$image "$url/classify"
one_ms=$(($(json "$work/body" 'int(d["timing"]["compute_us"])') / 1000 + 1))
stop

echo "A job of it that never ends is found."
"$python" tests/tools/solid_png.py "$work/poison.png" 250 0 250
export CONVOY_TEST_FAULT=hang:250,0,250
start --config "$work/config.json"
began=$(now_ms)
expect 500 --data-binary @"$work/poison.png" "$url/classify"
took=$(($(now_ms) - began))
echo "$took ms, where one image takes $one_ms ms"
grep -q 'msg="a worker hangs".*reason="its batches make no progress"' "$work/log" || fail "no line says what hung"
# Once together with nothing, once alone. What an image costs was measured by its first run, which may be slow, and a worker
# takes a second to start at most.
[ $took -lt $((2 * (hang_ms + 5 * 4 * one_ms + 1000))) ] || fail "it took $took ms to find two hangs"
stop
echo "passed"
