#!/usr/bin/env bash
# sanitize: yes
# Models become READY one by one, the default model first: it answers while others are still loaded.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
stand_ins_use_files

image=models/samples/ship.jpg
state() { curl -fsS "$url/v2/models" >"$work/list" && json "$work/list" "[m['state'] for m in d['models'] if m['name'] == '$1'][0]"; }
is() { [ "$(state "$1")" = "$2" ]; }

echo "While another model is loaded."
touch "$work/stall"
export CONVOY_TEST_FAULT=stall:cifar10-convnet:$work/stall
configure 'default_model="cifar10-resnet"'
launch --backend cpu --config "$work/config.json"
until_true 20 is cifar10-resnet READY || fail "the default model is $(state cifar10-resnet)"
is cifar10-convnet LOADING || fail "cifar10-convnet is $(state cifar10-convnet)"
expect 200 --data-binary @$image "$url/classify?top=1"
[ "$(json "$work/body" 'd["model"], d["results"][0]["predictions"][0]["label"]')" = "('cifar10-resnet', 'ship')" ] || fail "$(cat "$work/body")"
expect 503 --data-binary @$image "$url/v2/models/cifar10-convnet/classify"
expect 200 "$url/v2/models/cifar10-resnet/ready"
expect 503 "$url/v2/models/cifar10-convnet/ready"
expect 503 "$url/v2/health/ready" # the server is ready when all are loaded, as ever
is cifar10-convnet LOADING || fail "the test is too slow: cifar10-convnet is $(state cifar10-convnet)"
rm "$work/stall"
until_true 20 ready || fail "not ready"
for model in cifar10-convnet cifar10-resnet fashion-ece408 fashion-lenet; do
  is $model READY || fail "$model is $(state $model)"
done
expect 200 --data-binary @$image "$url/v2/models/cifar10-convnet/classify"
[ "$(grep -c 'worker started' "$work/log")" = 1 ] || fail "a worker was replaced"
stop
unset CONVOY_TEST_FAULT

echo "The order, and that slots are large enough for all from the beginning."
configure 'default_model="fashion-lenet"' # the smallest rows
start --backend cpu --config "$work/config.json"
[ "$(sed -n 's/.*msg="model ready" model=\([^ ]*\).*/\1/p' "$work/log" | head -n 1)" = fashion-lenet ] || fail "another one is first"
[ "$(grep -c 'msg="model ready"' "$work/log")" = 4 ] || fail "not four are ready"
for model in cifar10-convnet cifar10-resnet fashion-ece408 fashion-lenet; do
  expect 200 --data-binary @$image "$url/v2/models/$model/classify"
done
stop

echo "One whose file is damaged keeps no other waiting."
mkdir -p "$work/models/broken/1"
cp -r models/cifar10-resnet models/fashion-lenet "$work/models"
head -c 1000 models/cifar10-resnet/1/model.onnx >"$work/models/broken/1/model.onnx"
configure 'default_model="cifar10-resnet"' "models=\"$work/models\""
start --backend cpu --config "$work/config.json"
is broken FAILED || fail "broken is $(state broken)"
expect 200 --data-binary @$image "$url/classify"
stop
echo "passed"
