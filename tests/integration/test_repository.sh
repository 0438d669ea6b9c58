#!/usr/bin/env bash
# sanitize: all
# Models come, change and go while requests are served: a watched folder, loads and unloads by request, version policies, a
# bound on device memory. Versions of one network answer differently (vary_model.py), so that each answer can be checked
# against the version that it claims. BACKEND=cuda (CONVOY_BUILD=PACK) does the same on a GPU, ROUNDS=N is shorter,
# CONVOY_WHOLE=1 takes 100 versions where continuous integration takes 30.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
models=$work/models
mkdir "$models"
rounds=30
[ "${CONVOY_WHOLE:-0}" = 0 ] || [[ $build == *asan* ]] || rounds=100
rounds=${ROUNDS:-$rounds}
backend=${BACKEND:-cpu}

# put NAME VERSION [TURN]: that version, whole from one moment to the next; its classes are turned by TURN (VERSION).
put() {
  "$python" tests/tools/vary_model.py models/cifar10-convnet/1/model.onnx "$work/new.onnx" "${3:-$2}"
  mkdir -p "$models/$1/$2"
  mv "$work/new.onnx" "$models/$1/$2/model.onnx"
}
# policy NAME JSON: its configuration, with that version_policy.
policy() {
  mkdir -p "$models/$1"
  json models/cifar10-convnet/config.json "__import__('json').dumps({**d, 'labels': 'labels.txt', 'version_policy': $2})" \
    >"$work/policy"
  cp models/cifar10-convnet/labels.txt "$models/$1/"
  mv "$work/policy" "$models/$1/config.json"
}
# index: "NAME/VERSION STATE" a line, and the reason where there is one.
index() {
  curl -fsS -X POST "$url/v2/repository/index" |
    "$python" -S -c 'import json, sys
for m in json.load(sys.stdin): print("%s/%s %s %s" % (m["name"], m["version"], m["state"], m["reason"]))'
}
# state NAME/VERSION: its state; states: all that are not UNAVAILABLE, in a line.
state() { index | awk -v name="$1" '$1 == name { print $2 }'; }
in_state() { [ "$(state "$1")" = "$2" ]; }
served() { index | awk '$2 != "UNAVAILABLE" { printf "%s%s", separator, $1; separator = " " }'; }
serves() { [ "$(served)" = "$*" ]; }
answers() { # NAME: VERSION CLASS, of the image
  expect 200 --data-binary @$image "$url/v2/models/$1/classify"
  json "$work/body" 'd["version"] + " " + str(d["results"][0]["predictions"][0]["index"])'
}
call() { expect "$1" -X POST "$url/v2/repository/models/$2"; }
load_begins() { # MODEL
  "$python" tests/tools/version_load.py "$url" "$1" $image "$first" >"$work/load" &
  loader=$!
}
load_ends() {
  local status=0
  kill -TERM "$loader"
  wait "$loader" || status=$?
  cut -c1-400 "$work/load"
  [ $status -eq 0 ] || fail "answers were wrong, refused or lost"
}

put one 1 0
policy one '{"latest": 1}'
configure 'auth={"loopback_admin": true}' "models=\"$models\"" 'model_control="poll"' 'repository={"poll_ms": 50}'
start --config "$work/config.json" --backend "$backend"
first=$(answers one | cut -d' ' -f2)
[ "$first" = 8 ] || fail "a ship is class $first"
first=$((first - 1)) # version V is turned by V, this one by 0
put one 1
first=$((first + 1))
turned() { [ "$(answers one)" = "1 $(((first + 1) % 10))" ]; }
until_true 10 turned || fail "files that are replaced are not read again: $(answers one)"

echo "A new version takes over $rounds times under load, and no request is refused, lost or mixed."
load_begins one
for ((version = 2; version <= rounds + 1; version++)); do
  put one $version
  until_true 20 serves "one/$version" || fail "version $version does not take over: $(index)"
  rm -r "${models:?}/one/$((version - 1))"
done
load_ends
taken=$(json "$work/load" 'len(d["versions"])')
[ "$taken" -ge $((rounds * 9 / 10)) ] || fail "only $taken versions answered"
echo "$taken versions answered."
last=$((rounds + 1))
alone() { [ "$(index | wc -l)" -eq 1 ]; }
until_true 10 alone || fail "what is gone is listed still: $(index)"

echo "A worker that dies in the middle of it."
load_begins one
for ((version = last + 1; version <= last + 5; version++)); do
  put one $version
  kill -KILL "$(workers)" 2>/dev/null || true
  until_true 30 serves "one/$version" || fail "version $version does not take over: $(index)"
done
load_ends
last=$((last + 5))

echo "A broken version leaves the old one serving, and index, log and metric say why."
mkdir "$models/one/900"
echo damaged >"$models/one/900/model.onnx"
broken() { index | grep '^one/900 UNAVAILABLE .*damaged' >/dev/null; }
until_true 10 broken || fail "the index does not say why: $(index)"
in_state "one/$last" READY || fail "the old version is gone: $(index)"
[ "$(answers one)" = "$last $(((first + last) % 10))" ] || fail "$(answers one)"
grep -q 'level=error msg="model failed" model=one version=900 reason=".*damaged' "$work/log" || fail "the log does not say why"
[ "$(sample 'convoyd_model_failures_total{model="one",version="900"}')" = 1 ] || fail "the metric does not count it"
[ "$(sample 'convoyd_model_ready{model="one",version="900"}')" = 0 ] || fail "the metric calls it ready"
[ "$(sample "convoyd_model_failures_total{model=\"one\",version=\"$last\"}")" = 0 ] || fail "a version that did not fail is not at 0"
[ -z "$(sample 'convoyd_model_ready{model="one",version="2"}')" ] || fail "a version that is gone is called not ready"
expect 200 "$url/v2/health/ready"
expect 503 --data-binary @$image "$url/classify?version=900"
put one 900
until_true 10 serves one/900 || fail "mended it is not taken: $(index)"

echo "Files of a version that serves are replaced by broken ones: what was loaded goes on."
echo damaged >"$models/one/900/model.onnx"
goes_on() { index | grep '^one/900 READY .*damaged' >/dev/null; }
until_true 10 goes_on || fail "the index does not say both: $(index)"
[ "$(answers one)" = "900 $(((first + 900) % 10))" ] || fail "$(answers one)"
put one 900 901
again() { [ "$(answers one)" = "900 $(((first + 901) % 10))" ]; }
until_true 10 again || fail "mended files are not read: $(answers one)"
goes_on && fail "the reason stays: $(index)"

echo "Models come and go; versions are served as their policy says."
put two 1
put two 3
put two 4
until_true 10 serves one/900 two/1 two/3 two/4 || fail "$(index)"
policy two '{"latest": 2}'
until_true 10 serves one/900 two/3 two/4 || fail "latest 2: $(index)"
expect 200 "$url/v2/models/two/config"
[ "$(json "$work/body" 'd["version_policy"]')" = "{'latest': {'num_versions': 2}}" ] || fail "$(cat "$work/body")"
policy two '{"specific": [1, 4, 7]}'
until_true 10 serves one/900 two/1 two/4 || fail "specific: $(index)"
expect 200 "$url/v2/models/two/config"
[ "$(json "$work/body" 'd["version_policy"]')" = "{'specific': {'versions': [1, 4, 7]}}" ] || fail "$(cat "$work/body")"
expect 200 --data-binary @$image "$url/classify?model=two&version=1"
expect 503 --data-binary @$image "$url/classify?model=two&version=3"
put two 7
until_true 10 serves one/900 two/1 two/4 two/7 || fail "specific, when it comes: $(index)"
echo '{"version_policy": {"latest": 0}}' >"$models/two/config.json"
complains() { index | grep '^two/7 READY .*version_policy.latest' >/dev/null; }
until_true 10 complains || fail "a broken configuration: $(index)"
rm "$models/two/config.json"
until_true 10 serves one/900 two/1 two/3 two/4 two/7 || fail "mended: $(index)"
# The highest goes, and what is left is a version without a file.
mkdir "$models/two/5"
policy two '{"latest": 1}'
until_true 10 serves one/900 two/7 || fail "latest 1: $(index)"
rm -r "$models/two/7"
without_file() { index | grep '^two/5 UNAVAILABLE .*holds no model.onnx' >/dev/null; }
until_true 10 without_file || fail "$(index)"
rm -r "$models/two"
until_true 10 serves one/900 || fail "a model that is gone: $(index)"
expect 404 --data-binary @$image "$url/classify?model=two"
mv "$models" "$models.away"
until_true 10 grep -q 'the model repository is not looked through' "$work/log" || fail "a missing folder is not told"
mv "$models.away" "$models"
serves one/900 || fail "a folder that was away for a moment: $(index)"
for change in load unload; do call 400 one/$change; done
json "$work/body" 'd["error"]' | grep 'model_control is "poll"' >/dev/null || fail "$(cat "$work/body")"
stop

echo "By request: load, load again, unload."
rm -r "${models:?}"/*
for version in 1 2; do put one $version; done
put two 1
policy one '{"latest": 1}'
configure 'auth={"loopback_admin": true}' "models=\"$models\"" 'model_control="explicit"' 'repository={"load_at_start": ["one"]}'
start --config "$work/config.json" --backend "$backend"
serves one/2 || fail "at start: $(index)"
expect 200 --data-binary @$image "$url/classify" # the only one that is served is meant
index | grep '^two/1 UNAVAILABLE unloaded$' >/dev/null || fail "$(index)"
expect 503 --data-binary @$image "$url/v2/models/two/classify"
json "$work/body" 'd["error"]' | grep '/v2/repository/models/two/load' >/dev/null || fail "it does not say what to do: $(cat "$work/body")"
expect 503 "$url/v2/models/two/ready"
call 200 two/load
expect 200 --data-binary @$image "$url/v2/models/two/classify"
call 200 two/load # once more is no error
[ "$(grep -c 'msg="model ready" model=two' "$work/log")" = 1 ] || fail "what did not change is loaded again"
call 404 three/load
call 404 three/unload
call 404 ..%2Fone/load
call 200 two/unload
call 200 two/unload
expect 503 --data-binary @$image "$url/v2/models/two/classify"
until_true 10 in_state two/1 UNAVAILABLE || fail "$(index)"
expect 400 -X POST -d '{"parameters": {"config": "{}"}}' "$url/v2/repository/models/two/load"
expect 400 -X POST -d '{' "$url/v2/repository/models/two/load"
expect 200 -X POST -d '{"parameters": {"unload_dependents": true}}' "$url/v2/repository/models/two/unload"
echo damaged >"$models/two/1/model.onnx"
call 400 two/load
json "$work/body" 'd["error"]' | grep 'damaged' >/dev/null || fail "it does not say why: $(cat "$work/body")"
call 400 two/load # tried again, and as bad
put two 1
call 200 two/load
mkdir "$models/two/2" && echo damaged >"$models/two/2/model.onnx"
call 400 two/load
[ "$(answers two)" = "1 $(((first + 1) % 10))" ] || fail "the old version does not serve: $(index)"
load_begins one
for version in 3 4 5 6 7 8 9; do
  put one $version
  call 200 one/load
  [ "$(answers one)" = "$version $(((first + version) % 10))" ] || fail "after load it is $(answers one)"
done
load_ends
# Many at once, of both kinds, and the same model: each has an answer, and the last word is kept.
asking=()
for change in load unload load unload load unload load unload load unload load unload load unload load unload; do
  curl -sS -o /dev/null -w '%{http_code}\n' -X POST "$url/v2/repository/models/two/$change" >>"$work/many" &
  asking+=($!)
done
wait "${asking[@]}"
[ "$(wc -l <"$work/many")" = 16 ] || fail "requests without an answer: $(cat "$work/many")"
rm -r "$models/two/2"
call 200 two/load
# What cannot even be tried: a folder without a file, a configuration that cannot be read.
mkdir -p "$models/empty/1"
call 400 empty/load
json "$work/body" 'd["error"]' | grep 'holds no model.onnx' >/dev/null || fail "$(cat "$work/body")"
put three 1
echo '{"precission": 1}' >"$models/three/config.json"
call 400 three/load
json "$work/body" 'd["error"]' | grep "unknown key 'precission'" >/dev/null || fail "$(cat "$work/body")"
for name in empty three; do call 200 $name/unload; call 400 $name/load; done
rm "$models/three/config.json"
call 200 three/load
expect 200 --data-binary @$image "$url/v2/models/two/classify"
stop

echo "Device memory is bounded, and a version that was evicted is loaded again on the next request."
rm -r "${models:?}"/*
for name in a b c; do put $name 1; done
# Room for two of them. What the files become on the device is known once they were loaded; tuning would change it.
configure 'auth={"loopback_admin": true}' "models=\"$models\"" 'tune="off"'
start --config "$work/config.json" --backend "$backend"
weight=$(curl -fsS "$url/metrics" | awk '/^convoyd_weight_bytes.model="a"/ && !n++ { print $NF }')
stop
room=$((weight * 5 / 2))
configure 'auth={"loopback_admin": true}' "models=\"$models\"" 'tune="off"' 'model_control="explicit"' 'repository={"load_at_start": ["a", "b"], "device_bytes": '"$room"'}'
start --config "$work/config.json" --backend "$backend"
serves a/1 b/1 || fail "at start: $(index)"
call 400 c/load
json "$work/body" 'd["error"]' | grep 'repository.device_bytes = '"$room" >/dev/null || fail "$(cat "$work/body")"
call 200 a/unload
until_true 10 serves b/1 c/1 || fail "room that is free is not taken: $(index)"
stop
configure 'auth={"loopback_admin": true}' "models=\"$models\"" 'tune="off"' 'model_control="poll"' 'repository={"poll_ms": 50, "device_bytes": '"$room"', "unload_idle": true}'
start --config "$work/config.json" --backend "$backend"
resting() { [ "$(index | grep -c 'UNAVAILABLE unloaded until it is asked for')" = 1 ]; }
until_true 10 resting || fail "$(index)"
pids=()
for i in $(seq 32); do
  for name in a b c; do
    curl -sS -o /dev/null -w '%{http_code}\n' --data-binary @$image "$url/v2/models/$name/classify" >>"$work/asked-$name" &
    pids+=($!)
  done
  [ $((i % 5)) != 0 ] || { wait "${pids[@]}"; pids=(); }
done
wait "${pids[@]}"
[ "$(sort "$work"/asked-? | uniq -c | tr -s ' ')" = " 96 200" ] || fail "what rests is not woken: $(sort "$work"/asked-? | uniq -c)"
[ "$(grep -c 'msg="model unloaded"' "$work/log")" -ge 3 ] || fail "nothing made room"
for name in a b c; do expect 200 "$url/v2/models/$name/ready"; done
# It waits no longer than its deadline, while the worker loads nothing.
until_true 10 resting || fail "$(index)"
evicted=$(index | sed -n 's,^\([abc]\)/.*UNAVAILABLE unloaded until it is asked for.*,\1,p')
stand_still "$(workers)"
took=$(curl -sS -o "$work/body" -w '%{http_code} %{time_total}' --data-binary @$image "$url/v2/models/$evicted/classify?timeout_ms=300")
kill -CONT "$(workers)"
[ "${took% *}" = 503 ] || fail "$took: $(cat "$work/body")"
grep -q "before the model was loaded" "$work/body" || fail "$(cat "$work/body")"
most=1
[[ $build != *san* ]] || most=5
awk -v took="${took#* }" -v most=$most 'BEGIN { exit took > most }' || fail "it took ${took#* } s"
stop
echo passed
