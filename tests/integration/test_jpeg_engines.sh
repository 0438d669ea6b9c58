#!/usr/bin/env bash
# JPEG files through the CUDA backend's decoder, on a GPU or an emulated one: the answers are those of the front's decoder, of damaged files
# among whole ones, too, and a worker's death loses none. CONVOY_WHOLE=1: thousands of files.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

needs_pillow
needs_cuda
count=240
[ "${CONVOY_WHOLE:-0}" = 0 ] || count=6000
exact=()
if [ -n "$emulated" ]; then
  exact=(--exact)
  LD_LIBRARY_PATH=$(dirname "$emulated")/nvjpeg${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
fi
model=pixels
# As a download of the Hugging Face hub: 13 x 13, of which 10 x 8 are cut, a pixel from the left, where others cut two.
"$python" tests/tools/pixel_model.py "$work/models/$model" 3 8 10 '{}'
mv "$work/models/$model/config.json" "$work/models/$model/keys.json"
"$python" - "$work/models/$model" <<'PYTHON'
import json, sys
folder = sys.argv[1]
keys = json.load(open(folder + "/keys.json"))
del keys["input"]
json.dump(keys, open(folder + "/convoyd-model.json", "w"))
json.dump({"model_type": "deit"}, open(folder + "/config.json", "w"))
json.dump({"image_processor_type": "DeiTImageProcessor", "size": 13, "crop_size": {"height": 8, "width": 10}, "do_rescale": False, "do_normalize": False},
          open(folder + "/preprocessor_config.json", "w"))
PYTHON
# Slots of fewer files than a form has, so that each form takes two.
configure models="\"$work/models\"" default_model="\"$model\"" backend='"cuda"' tune='"off"' 'images={"decoder": "gpu"}' \
  'batching={"max_batch": 20}'
start --config "$work/config.json"
"$python" tests/tools/jpeg_hostile.py "$url" "$model" "$count" "${exact[@]}" || fail "see above"
[ "$(sample "convoyd_undecoded_images_total{model=\"$model\"}")" -gt 0 ] || [ -z "$emulated" ] || fail "the device decoded all"

echo "The worker dies with files in flight."
for i in 1 2; do
  # shellcheck disable=SC2317 # until_true calls it
  in_use() { [ "$(sample convoyd_slots_in_use)" -ge 2 ]; }
  old=$(workers)
  stand_still "$old"
  "$python" tests/tools/jpeg_hostile.py "$url" "$model" 24 "${exact[@]}" --seed "1$i" &
  sending=$!
  until_true 10 in_use || fail "no slot is in use"
  kill -KILL "$old"
  wait "$sending" || fail "turn $i"
done
if [ -n "$emulated" ]; then
  echo "A file that the device cannot decode, and one of which the device is lost, among others."
  "$python" - "$work" models/samples/ship.jpg <<'PYTHON'
import sys
file = open(sys.argv[2], "rb").read()
for name in "whole", "fail", "lose":
    text = f"nvjpeg:{name}".encode()
    comment = b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text if name != "whole" else b""
    open(f"{sys.argv[1]}/{name}.jpg", "wb").write(file[:2] + comment + file[2:])
PYTHON
  classify="$url/v2/models/$model/classify?top=240&decoder=gpu"
  expect 200 -F "a=@$work/whole.jpg" -F "b=@$work/fail.jpg" -F "c=@$work/whole.jpg" -F "d=@$work/lose.jpg" -F "e=@$work/whole.jpg" "$classify"
  decoders=$(json "$work/body" '[r["decoder"] for r in d["results"]]')
  [ "$decoders" = "['gpu', 'cpu', 'gpu', 'cpu', 'gpu']" ] || fail "decoded by $decoders: $(tail -c 300 "$work/body")"
  [ "$(json "$work/body" 'all(r["predictions"] == d["results"][0]["predictions"] for r in d["results"])')" = True ] || fail "other pixels"
fi
[ "$(sample convoyd_slots_in_use) $(sample "convoyd_queue_images{model=\"$model\"}")" = "0 0" ] || fail "something is left"
stop
