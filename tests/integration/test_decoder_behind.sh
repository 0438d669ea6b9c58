#!/usr/bin/env bash
# sanitize: all
# The JPEG decoder of a GPU is prepared while models are served: until then the front decodes. On the emulated GPU, whose stand-in for
# nvJPEG is not prepared before a file is there.
# shellcheck disable=SC2119 # start and launch take options of convoyd, which are not this script's
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
stand_ins_use_files
needs_pillow
needs_cuda
[ -n "$emulated" ] || skip "a GPU's own nvJPEG is not held up"
LD_LIBRARY_PATH=$(dirname "$emulated")/nvjpeg${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH CONVOY_EMULATED_NVJPEG=hold:$work/go

"$python" -c 'import sys
from PIL import Image
Image.radial_gradient("L").resize((400, 300)).convert("RGB").save(sys.argv[1])
Image.new("RGB", (32, 32), (250, 0, 250)).save(sys.argv[2])' "$work/photo.jpg" "$work/illegal.png"
mkdir "$work/models"
cp -r models/cifar10-convnet "$work/models/"
# serve DECODER MODEL...: without waiting for a model. Time that is lost here is the test's: nothing is prepared before $work/go is there.
serve() {
  local decoder=$1 name
  shift
  rm -rf "$work/go" "$work/models"
  mkdir "$work/models"
  for name; do cp -r models/cifar10-convnet "$work/models/$name"; done
  configure models="\"$work/models\"" backend='"cuda"' tune='"off"' log='{"level": "debug"}' model_control='"explicit"' repository='{"load_at_start": ["a", "b"]}' auth='{"loopback_admin": true}' \
    "images={\"decoder\": \"$decoder\"}" ${more[@]+"${more[@]}"}
  launch --config "$work/config.json"
}
more=()
up() { until_true 30 ready || fail "convoyd was not ready within 30 s"; }
# by DECODER [QUERY [MODEL]]: who decodes the photograph
by() {
  expect 200 --data-binary "@$work/photo.jpg" "$url/v2/models/${3:-a}/classify?${2:-}"
  [ "$(json "$work/body" 'd["results"][0]["decoder"]')" = "$1" ] || fail "not decoded by $1: $(cat "$work/body")"
}
offers() { # DECODER [MODEL]: what the metadata says
  [ "$(curl -fsS "$url/v2/models/${2:-a}" | "$python" -c 'import json, sys; print(json.load(sys.stdin)["decoder"])')" = "$1" ]
}
logged() { grep -q "$@" "$work/log"; }
in_use() { [ "$(sample convoyd_slots_in_use)" -ge 1 ]; }
count() { [ "$(grep -c "$2" "$work/log")" -ge "$1" ]; }
prepares() { until_true 20 count "$1" 'the JPEG decoder is being prepared' || fail "the decoder is not being prepared"; }
answered() { # NAME: a load that has ended
  [ "$(json "$work/$1.json" 'set(d["statuses"]) == {"200"} and d["wrong"] + d["lost"] + d["refused"] == 0')" = True ] ||
    fail "$1: $(cat "$work/$1.json")"
}
answers() { answer_to /metrics | awk '/^convoyd_requests_total{.*route="\/classify",status="200"/ { sum += $NF } END { print sum + 0 }'; }
more_answers() { [ "$(answers)" -gt $((seen + 4)) ]; }
load() { # NAME: begins one, which is answered. Before that SIGTERM might end it without its figures.
  local seen
  seen=$(answers)
  "$python" tests/tools/steady_load.py "$url" --seconds 60 --connections 2 --query decoder=gpu >"$work/$1.json" &
  load=$!
  until_true 20 more_answers || fail "the load is not answered"
}
end_load() { # NAME
  kill -TERM $load
  wait $load || fail "the load"
  answered "$1"
}

echo "Served before it is there; then told, without another worker and without a lost request."
more=(default_model='"a"' response_cache='{"bytes": 1048576}')
serve auto a b
up
by cpu
prepares 1
by cpu
[ "$(json "$work/body" 'd["cached"]')" = 1 ] || fail "not from the cache: $(cat "$work/body")"
by cpu decoder=gpu b
offers cpu
! logged 'phase=tuning' || fail "the device is given idle time, in which kernels are timed, while it prepares"
old=$(workers)
load whole
expect 200 -X POST "$url/v2/repository/models/b/unload"
touch "$work/go"
until_true 20 offers gpu || fail "the device takes no files"
by gpu
[ "$(json "$work/body" 'd.get("cached", 0)')" = 0 ] || fail "an answer of the other decoder: $(cat "$work/body")"
by cpu decoder=cpu
end_load whole
until_true 20 logged 'phase=tuning' || fail "the device is given no idle time"
[ "$(workers)" = "$old" ] || fail "the worker was replaced"
logged 'text="the JPEG decoder was prepared in [0-9]* ms"' || fail "the log does not say how long it took"
echo "A model that is loaded later decodes at once."
expect 200 -X POST "$url/v2/repository/models/b/load"
by gpu '' b
stop

more=()
echo "A front that takes the worker over while it prepares learns of it."
serve auto a
up
prepares 1
old=$(workers)
kill -KILL "$(front)"
until_true 20 logged 'worker taken over from the front before.*models_kept=1' || fail "the worker is not taken over"
until_true 20 ready || fail "the next front is not ready"
by cpu
touch "$work/go"
until_true 20 offers gpu || fail "the device takes no files"
by gpu
echo "One that takes it over afterwards is told at once."
kill -KILL "$(front)"
until_true 20 count 2 'worker taken over from the front before.*models_kept=1' || fail "the worker is not taken over"
until_true 20 ready || fail "the next front is not ready"
by gpu
[ "$(workers)" = "$old" ] || fail "the worker was replaced"
echo "Files that wait for a worker that is replaced are answered, too."
load again
until_true 20 in_use || fail "nothing comes"
kill -KILL "$old"
until_true 20 count 2 'the JPEG decoder was prepared' || fail "the next worker does not prepare"
until_true 20 offers gpu || fail "the device takes no files"
by gpu
end_load again
stop

echo "A decoder that cannot be prepared: the front goes on."
serve auto a
up
prepares 1
echo none >"$work/go"
until_true 20 logged "model 'a': JPEG files are decoded by the processor: nvjpegCreateExV2: implementation not supported" || fail "the log does not say so"
by cpu
offers cpu
stop

echo "A library that ends the process: no model and no image is to blame; after two workers the front decodes."
serve auto a
up
prepares 1
load crash
echo crash >"$work/go"
until_true 60 logged 'JPEG files are no longer decoded by a device.*two workers in a row' || fail "the decoder is not given up"
prepared=$(grep -c 'the JPEG decoder is being prepared' "$work/log")
until_true 60 count 3 'msg="worker started"' || fail "there is no third worker"
until_true 20 ready || fail "not ready"
by cpu
end_load crash
[ "$(sample 'convoyd_worker_restarts_total{device="cuda:0",reason="signal"}')" = 2 ] || fail "$(grep 'worker started' "$work/log")"
[ "$prepared" = 2 ] || fail "$prepared preparations"
[ "$(curl -fsS "$url/v2/models" | "$python" -c 'import json, sys; print([m["state"] for m in json.load(sys.stdin)["models"]])')" = "['READY']" ] || fail "the model is blamed"
stop

echo "A worker that is killed meanwhile, or whose device is lost, is replaced; the next one prepares."
export CONVOY_TEST_FAULT=illegal:250,0,250
for fault in kill lose; do
  serve auto a
  up
  prepares 1
  if [ $fault = kill ]; then
    kill -KILL "$(workers)"
  else
    expect 500 --data-binary "@$work/illegal.png" "$url/v2/models/a/classify"
    logged 'worker died.* reason=lost ' || fail "the device is not lost"
  fi
  prepares 2
  by cpu
  touch "$work/go"
  until_true 20 offers gpu || fail "the device takes no files"
  by gpu
  stop
done
unset CONVOY_TEST_FAULT

echo "The end does not wait for it."
serve auto a
up
prepares 1
begun=$SECONDS
stop
[ $((SECONDS - begun)) -le 5 ] || fail "the end took $((SECONDS - begun)) s"

echo "With gpu a model is ready when its device decodes."
serve gpu a
prepares 1
expect 503 "$url/v2/health/ready"
touch "$work/go"
up
by gpu
stop

echo "With cpu the worker is told that no files come; a front that wants them takes another worker."
serve cpu a
up
by cpu
pixels_only() { tr '\0' ' ' <"/proc/$(workers)/cmdline" | grep -e '--files off' >/dev/null; }
pixels_only || fail "the worker is not told: $(tr '\0' ' ' <"/proc/$(workers)/cmdline")"
logged 'JPEG files are decoded by the processor: no other decoder is asked for' || fail "the device looks for a decoder"
! logged 'the JPEG decoder is being prepared' || fail "a decoder is prepared"
old=$(workers)
sed -i 's/"decoder": "cpu"/"decoder": "auto"/' "$work/config.json"
touch "$work/go"
kill -USR2 "$daemon"
until_true 30 offers gpu || fail "the device takes no files after the upgrade"
by gpu
[ "$(workers)" != "$old" ] || fail "the worker is the one that takes none"
! pixels_only || fail "the next worker is told that no files come"
stop
