#!/usr/bin/env bash
# sanitize: all
# The model repository: damaged and hostile models are FAILED with a sentence and harm no other; versions, defaults.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
models=$work/models
logged() { grep -q "$@" "$work/log"; }
# state NAME[/VERSION]: as on /v2/models.
state() {
  curl -fsS "$url/v2/models" >"$work/states"
  json "$work/states" "' '.join(m['state'] for m in d['models'] if m['name'] + '/' + m['version'] == '$1' or m['name'] == '$1')"
}

echo "Models that cannot be are FAILED, each with a sentence that names the file and what is wrong."
mkdir "$models"
"$python" tests/tools/hostile_models.py "$models" models/cifar10-convnet/1/model.onnx >"$work/hostile"
cp -r models/cifar10-convnet "$models/good"
cp -r models/cifar10-convnet "$models/lost-labels"
rm "$models/lost-labels/labels.txt"
cp -r models/cifar10-convnet "$models/odd-key"
sed -i 's/"precision"/"precission"/' "$models/odd-key/config.json"
cp -r models/cifar10-convnet "$models/no-json"
echo '{"labels": ' >"$models/no-json/config.json"
cp -r models/cifar10-convnet "$models/way-out"
sed -i 's#"labels.txt"#"../../../etc/passwd"#' "$models/way-out/config.json"
mkdir -p "$models/nothing/1" "$models/folder/1/model.onnx"
{
  echo 'lost-labels labels.txt'
  echo 'odd-key config.json.*precission'
  echo 'no-json config.json'
  echo 'way-out config.json.*labels'
  echo 'nothing nothing/1'
  echo 'folder regular file'
} >>"$work/hostile"
start --models "$models" --backend cpu
worker=$(workers)
curl -fsS "$url/v2/models" >"$work/states"
"$python" - "$work/hostile" "$work/states" <<'PYTHON' || fail "see above"
import json, re, sys
states = {m["name"]: m for m in json.load(open(sys.argv[2]))["models"]}
wanted = [line.rstrip("\n").partition(" ") for line in open(sys.argv[1])]
wrong = 0
for name, _, pattern in wanted:
    model = states.pop(name)
    if model["state"] != "FAILED" or name not in model["reason"] or not re.search(pattern, model["reason"]):
        print(f"{name}: {model}")
        wrong += 1
for name, model in states.items():
    if model["state"] != "READY" or model["reason"] != "":
        print(f"{name}: {model}")
        wrong += 1
print(f"{len(wanted)} models FAILED, {len(states)} READY: {' '.join(states)}")
sys.exit(wrong > 0 or len(wanted) < 20 or set(states) != {"good", "small"})
PYTHON
logged 'worker died' && fail "a model killed a worker"
[ "$(workers)" = "$worker" ] || fail "the worker was replaced"

echo "The others are served, one that is FAILED is 503 without Retry-After."
expect 200 --data-binary @$image "$url/classify?model=good&top=1"
[ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = ship ] || fail "$(cat "$work/body")"
expect 200 --data-binary @$image "$url/v2/models/small/classify"
[ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = 0 ] || fail "without labels: $(cat "$work/body")"
for name in cut unknown-operator lost-labels; do
  expect 503 --data-binary @$image "$url/classify?model=$name"
  grep -qi '^retry-after' "$work/headers" && fail "$name: Retry-After though it would not help"
  [[ $(json "$work/body" 'd["error"]') == *"$models/$name"* ]] || fail "the 503 does not say why: $(cat "$work/body")"
  expect 503 "$url/v2/models/$name/ready"
done
expect 200 "$url/v2/models/good/ready"
[ "$(sample 'convoyd_model_ready{model="good",version="1"}')" = 1 ] || fail "convoyd_model_ready of good"
[ "$(sample 'convoyd_model_ready{model="cut",version="1"}')" = 0 ] || fail "convoyd_model_ready of cut"
expect 400 --data-binary @$image "$url/classify"
[[ $(json "$work/body" 'd["error"]') == *good* ]] || fail "the 400 does not list the models: $(cat "$work/body")"
stop

echo "--check-config says the same and fails."
status=0
"$build/bin/convoyd" --models "$models" --backend cpu --check-config >"$work/checked" 2>/dev/null || status=$?
[ $status -eq 1 ] || fail "status $status"
while read -r name pattern; do
  grep -E "^model $name version 1: .*($pattern)" "$work/checked" >/dev/null || fail "$name: $(grep "model $name " "$work/checked")"
  grep -q "^model $name version 1: ok" "$work/checked" && fail "$name is ok"
done <"$work/hostile"
grep -q '^model good version 1: ok$' "$work/checked" || fail "good: $(cat "$work/checked")"
rm -r "$models"

echo "Models that are damaged in one byte are READY or FAILED, and kill no worker."
mkdir "$models"
cp -r models/cifar10-convnet "$models/good"
for at in {0..39}; do
  mkdir -p "$models/damaged$at/1"
  "$python" - "$at" "$models/damaged$at/1/model.onnx" <<'PYTHON'
import sys
data = bytearray(open("models/cifar10-convnet/1/model.onnx", "rb").read())
at = int(sys.argv[1])
data[at * 37 if at < 30 else len(data) - 1 - (at - 30) * 31] ^= 1 << at % 8
open(sys.argv[2], "wb").write(data)
PYTHON
done
start --models "$models" --backend cpu
curl -fsS "$url/v2/models" >"$work/states"
json "$work/states" "'%d READY, %d FAILED' % tuple(sum(m['state'] == s for m in d['models']) for s in ('READY', 'FAILED'))"
[ "$(json "$work/states" "all((m['state'] == 'READY') != (len(m['reason']) > 20) for m in d['models'])")" = True ] ||
  fail "without a reason: $(cat "$work/states")"
logged 'worker died' && fail "a model killed a worker"
expect 200 --data-binary @$image "$url/classify?model=good"
stop
rm -r "$models"

echo "Weights beside the model are taken, a link that leads out of the folder is not."
mkdir -p "$models/beside" "$models/linked/1" "$work/elsewhere"
cp -r tests/data/networks/resnet18_new_op18_external "$models/beside/1"
cp "$models/beside/1/model.onnx" "$models/linked/1"
cp "$models"/beside/1/model.onnx.data "$work/elsewhere"
ln -s "$work/elsewhere/model.onnx.data" "$models/linked/1/model.onnx.data"
start --models "$models" --backend cpu
[ "$(state beside)" = READY ] || fail "beside is $(state beside)"
[ "$(state linked)" = FAILED ] || fail "linked is $(state linked)"
stop
rm -r "$models"

echo "Of several versions the highest number answers."
for version in 2 9 10; do
  mkdir -p "$models/one/$version"
  cp models/cifar10-convnet/1/model.onnx "$models/one/$version"
done
mkdir -p "$models/one/011" "$models/one/latest" "$models/one/.hidden" "$models/.git/1"
cp models/cifar10-convnet/1/model.onnx "$models/one/011"
cp models/cifar10-convnet/1/model.onnx "$models/one/latest"
cp models/cifar10-convnet/1/model.onnx "$models/.git/1"
start --models "$models" --backend null
answered() { json "$work/body" 'd["model"] + "/" + d["version"]'; }
# config/convoyd.json names another default; this is the only model there is.
logged "level=warning.*default_model=cifar10-resnet model=one" || fail "no warning that the default is another"
expect 200 --data-binary @$image "$url/classify"
[ "$(answered)" = one/10 ] || fail "$(answered)"
for version in 2 9 10; do
  expect 200 --data-binary @$image "$url/classify?version=$version"
  [ "$(answered)" = one/$version ] || fail "?version=$version: $(answered)"
  expect 200 --data-binary @$image "$url/v2/models/one/versions/$version/classify"
  [ "$(answered)" = one/$version ] || fail "versions/$version: $(answered)"
done
for version in 1 011 11 latest .hidden; do expect 404 --data-binary @$image "$url/classify?version=$version"; done
expect 200 "$url/v2/models/one"
[ "$(json "$work/body" 'd["versions"]')" = "['2', '9', '10']" ] || fail "$(cat "$work/body")"
logged '"model repository".*one/011 is passed over' || fail "the log does not tell of one/011"
logged '"model repository".*one/latest is passed over' || fail "the log does not tell of one/latest"
stop
echo 'damaged' >"$models/one/10/model.onnx"
start --models "$models" --backend null
expect 503 --data-binary @$image "$url/classify" # not silently an older one
expect 200 --data-binary @$image "$url/classify?version=9"
stop

echo "Two models: the default is what is configured, and there is none when it is missing."
mkdir -p "$models/two/1"
cp models/cifar10-convnet/1/model.onnx "$models/two/1"
rm -r "$models/one/10"
configure "models=\"$models\"" 'default_model="two"'
start --config "$work/config.json" --backend null
expect 200 --data-binary @$image "$url/classify"
[ "$(answered)" = two/1 ] || fail "$(answered)"
expect 200 --data-binary @$image "$url/classify?model=one"
[ "$(answered)" = one/9 ] || fail "$(answered)"
stop
configure "models=\"$models\"" 'default_model="three"'
start --config "$work/config.json" --backend null
logged 'level=warning.*default_model=three' || fail "no warning"
expect 400 --data-binary @$image "$url/classify"
[[ $(json "$work/body" 'd["error"]') == *one,\ two* ]] || fail "$(cat "$work/body")"
stop

echo "Fewer labels than classes: a warning, and the rest by number."
printf 'first\nsecond\n' >"$models/two/labels.txt"
start --models "$models" --backend null
logged 'level=warning.*model=two.*labels=2 classes=10' || fail "no warning"
expect 200 --data-binary @$image "$url/classify?model=two&top=3"
[ "$(json "$work/body" '[p["label"] for p in d["results"][0]["predictions"]]')" = "['first', 'second', '2']" ] ||
  fail "$(cat "$work/body")"
stop

echo "No model at all: live, never ready; no folder: one sentence."
rm -r "$models"
mkdir "$models"
launch --models "$models" --backend null
until_true 10 logged 'level=warning.*there is no model to serve' || fail "no warning"
expect 200 "$url/v2/health/live"
expect 503 "$url/v2/health/ready"
expect 400 --data-binary @$image "$url/classify"
expect 200 "$url/v2/models"
[ "$(cat "$work/body")" = '{"models":[]}' ] || fail "$(cat "$work/body")"
stop
status=0
"$build/bin/convoyd" --models "$work/nowhere" --listen 127.0.0.1:0 2>"$work/said" || status=$?
[ $status -eq 1 ] || fail "status $status without the folder"
[[ $(cat "$work/said") == "convoyd: "*"$work/nowhere"* && $(wc -l <"$work/said") = 1 ]] || fail "$(cat "$work/said")"
echo "passed"
