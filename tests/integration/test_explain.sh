#!/usr/bin/env bash
# sanitize: all
# ?explain=cam: class activation maps against NumPy, what they cover of a picture, what is refused and why, how many there are
# at a time, and what becomes of the network that computes them.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
stand_ins_use_files

needs_pillow
"$python" -c 'import numpy' 2>/dev/null || skip "NumPy is missing (Debian package python3-numpy)"
export PYTHONPATH=tests/tools PYTHONDONTWRITEBYTECODE=1
"$python" tests/tools/explain_models.py "$work/models"
"$python" -c 'from PIL import Image
import sys
picture = Image.radial_gradient("L").resize((30, 20)).convert("RGB")
picture.save(sys.argv[1] + "/wide.png")
turned = picture.getexif()
turned[0x112] = 6
picture.save(sys.argv[1] + "/turned.jpg", exif=turned)' "$work"
image=$work/wide.png

export CONVOY_TEST_FAULT=stall:two:$work/stall # while that file is there, which is needed further down
configure "models=\"$work/models\"" 'default_model="dense"' 'worker={"hang_timeout_ms": 500}' 'response_cache={"bytes": 1000000}' 'log={"level": "debug"}'
start --config "$work/config.json" --backend cpu

echo "Maps, and their pictures."
"$python" tests/tools/explain_check.py "$url" || fail "see above"

# answer EXPECTED EXPRESSION
answer() { [ "$(json "$work/body" "$2")" = "$1" ] || fail "not $1: $(cut -c 1-600 "$work/body")"; }

echo "Which part of a picture a map covers: of 30 x 20 pixels, upright and turned."
box="[round(x, 4) for x in d['results'][0]['explanation']['box']]"
# patiently COMMAND...: until_true for what takes seconds, at a fraction of its cost.
patiently() {
  local end=$((SECONDS + 20))
  until "$@" >/dev/null; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.2
  done
}
# covers MODEL BOX FILE: waits for the rest after the load of another model's network.
asked() { [ "$(curl -s -o "$work/body" -w '%{http_code}' --data-binary "@$2" "$url/v2/models/$1/classify?explain=cam")" = 200 ]; }
covers() {
  patiently asked "$1" "$3" || fail "$1: $(cat "$work/body")"
  answer "$2" "$box"
}
covers dense '[0, 0, 1, 1]' "$image"              # stretched to 10 x 12
covers mean '[0, 0, 1, 1]' "$image"               # to 24 x 16, of the same form
covers mean '[0, 0.2778, 1, 0.7222]' "$work/turned.jpg" # 20 x 30: to 24 x 36, of which 16 rows
covers channels '[0, -0.2857, 1, 1.4286]' "$image" # 10 x 7, with 2 rows above and 3 below
covers channels '[-0.125, 0, 1.125, 1]' "$work/turned.jpg" # 8 x 12, with a column on each side

echo "One picture in a form, in JSON, packed; and what Accept may say."
classify=$url/v2/models/dense/classify
patiently asked dense "$image" || fail "$(cat "$work/body")"
label=$(json "$work/body" "d['results'][0]['explanation']['label']")
expect 200 -F "image=@$image" "$classify?explain=cam"
answer "$label" "d['results'][0]['explanation']['label']"
printf '{"image": "%s"}' "$(base64 -w 0 "$image")" >"$work/image.json"
expect 200 -H 'Content-Type: application/json' --data-binary "@$work/image.json" "$classify?explain=cam&top=1"
answer "1 $label" "str(len(d['results'][0]['predictions'])) + ' ' + d['results'][0]['explanation']['label']"
gzip -c "$image" >"$work/image.gz"
expect 200 -H 'Content-Encoding: gzip' --data-binary "@$work/image.gz" "$classify?explain=cam&class=3"
answer '3 [0, 0, 1, 1]' "d['results'][0]['explanation']['label'] + ' ' + str(d['results'][0]['explanation']['box'])"
type_for() { curl -sS -o "$work/png" -w '%{content_type}' -H "Accept: $1" --data-binary "@$image" "$classify?explain=cam"; }
for accept in image/png 'text/html;q=0.3 , IMAGE/PNG;q=0.5' 'image/*, image/png'; do
  [ "$(type_for "$accept")" = image/png ] || fail "Accept: $accept: $(type_for "$accept")"
done
for accept in '*/*' 'image/*' image/pngx 'image/png, application/json'; do
  [ "$(type_for "$accept")" = application/json ] || fail "Accept: $accept: $(type_for "$accept")"
done
expect 422 -H 'Accept: image/png' --data-binary "$(printf '\x89PNG\r\n\x1a\n')" "$classify?explain=cam"
expect 200 -H 'Accept: image/png' --data-binary "@$image" "$classify"
answer True "'explanation' not in d['results'][0]"

echo "What is refused."
refuses() {
  local words=$1
  shift
  expect 400 "$@"
  grep -F "$words" "$work/body" >/dev/null || fail "'$(cat "$work/body")' lacks '$words'"
}
refuses 'explain takes cam' --data-binary "@$image" "$classify?explain=saliency"
refuses 'explain takes cam' --data-binary "@$image" "$classify?explain"
refuses 'ask with explain=cam' --data-binary "@$image" "$classify?class=1"
refuses 'model dense has 10 classes: class is from 0 to 9' --data-binary "@$image" "$classify?explain=cam&class=10"
refuses 'class' --data-binary "@$image" "$classify?explain=cam&class=4294967295"
refuses 'class' --data-binary "@$image" "$classify?explain=cam&class=ship"
refuses 'profile and explain exclude each other' --data-binary "@$image" "$classify?explain=cam&profile=1"
refuses 'one picture a request, not 2' -F "a=@$image" -F "b=@$image" "$classify?explain=cam"
"$python" -c 'import explain_models as m
for name, words in m.REFUSED.items(): print(f"{name}\t{words}")' >"$work/refused"
while IFS=$'\t' read -r name words; do
  refuses "model $name has no class activation map: its " --data-binary "@$image" "$url/v2/models/$name/classify?explain=cam"
  grep -F "$words" "$work/body" >/dev/null || fail "'$(cat "$work/body")' lacks '$words'"
  grep -F '(occlusion)' "$work/body" >/dev/null || fail "$(cat "$work/body")"
  expect 200 --data-binary "@$image" "$url/v2/models/$name/classify"
done <"$work/refused"

echo "The network is loaded while the first request waits, longer than a worker may hang; others wait for it, some are refused."
covers channels '[0, -0.2857, 1, 1.4286]' "$image" # that of "two" gives way
covers mean '[0, 0, 1, 1]' "$image"
before=$(workers)
touch "$work/stall"
waits=()
one() { curl -s -o "$work/$1" -w '%{http_code}' --data-binary "@$image" "$url/v2/models/two/classify?explain=cam&class=$1" >"$work/$1.status"; }
loads() { [ "$(sample convoyd_slots_in_use)" = "$1" ]; }
# The first one that does not come in the rest after the last load.
decided() { loads 1 || [ -s "$work/0.status" ]; }
begun() { rm -f "$work/0.status"; { one 0 & } && waits=($!) && until_true 5 decided && loads 1; }
patiently begun || fail "the network is not loaded"
too_often() {
  expect 503 --data-binary "@$image" "$classify?explain=cam"
  grep -F 'were loaded too often' "$work/body" >/dev/null || fail "$(cat "$work/body")"
  grep -qi '^Retry-After: 1' "$work/headers" || fail "$(cat "$work/headers")"
}
too_often # that of another model
expect 200 --data-binary "@$image" "$url/v2/models/mean/classify?explain=cam" # loaded before
for k in 1 2 3; do
  one $k &
  waits+=($!)
done
until_true 10 loads 4 || fail "$(sample convoyd_slots_in_use) slots in use, expected 4"
expect 503 --data-binary "@$image" "$classify?explain=cam"
grep -F '4 requests for class activation maps are under way' "$work/body" >/dev/null || fail "$(cat "$work/body")"
grep -qi '^Retry-After: 1' "$work/headers" || fail "$(cat "$work/headers")"
expect 200 --data-binary "@$work/turned.jpg" "$classify" # not yet in the response cache: computed beside the load
answer False "'cached' in d"
sleep 1.5 # three times hang_timeout_ms: a worker that hangs would be found
rm "$work/stall"
wait "${waits[@]}"
for k in 0 1 2 3; do
  [ "$(cat "$work/$k.status")" = 200 ] || fail "$(cat "$work/$k.status"): $(cat "$work/$k")"
  [ "$(json "$work/$k" "d['results'][0]['explanation']['index']")" = $k ] || fail "$(cat "$work/$k")"
done
[ "$(workers)" = "$before" ] || fail "the worker was replaced"
too_often # for some six seconds, as the load took a fourth of that
expect 200 --data-binary "@$image" "$classify"
expect 200 --data-binary "@$image" "$url/v2/models/two/classify?explain=cam" # this one is loaded

echo "A worker that dies meanwhile loses none of them."
covers channels '[0, -0.2857, 1, 1.4286]' "$image"
covers mean '[0, 0, 1, 1]' "$image"
touch "$work/stall"
patiently begun || fail "the network is not loaded"
one 1 &
waits=("${waits[-1]}" $!)
until_true 10 loads 2 || fail "$(sample convoyd_slots_in_use) slots in use, expected 2"
kill -KILL "$(workers)"
rm "$work/stall"
wait "${waits[@]}"
for k in 0 1; do
  [ "$(json "$work/$k" "(d['results'][0]['explanation']['index'], d['retries'] > 0)")" = "($k, True)" ] || fail "$(cat "$work/$k")"
done

echo "A front that dies meanwhile leaves a worker that the next one can use."
covers channels '[0, -0.2857, 1, 1.4286]' "$image"
covers mean '[0, 0, 1, 1]' "$image"
touch "$work/stall"
patiently begun || fail "the network is not loaded"
for k in 1 2 3; do
  one $k &
  waits+=($!)
done
until_true 10 loads 4 || fail "$(sample convoyd_slots_in_use) slots in use, expected 4"
before=$(workers)
kill -KILL "$(front)"
rm "$work/stall"
wait "${waits[@]}" || true # their connections are closed
again() { curl -fs -o "$work/body" --data-binary "@$image" "$classify"; }
until_true 20 again || fail "no front serves"
covers two '[0, 0, 1, 1]' "$image"
expect 200 --data-binary "@$image" "$url/v2/models/mean/classify"
[ "$(workers)" = "$before" ] || fail "the worker was replaced: $(grep 'worker' "$work/log" | tail -n 5)"

echo "Maps are those of the files that the model was loaded from."
covers channels '[0, -0.2857, 1, 1.4286]' "$image"
covers dense '[0, 0, 1, 1]' "$image" # that of "two" gives way
file=$work/models/two/1/model.onnx
touch -r "$file" "$work/time"
touch -d 2001-02-03 "$file"
stale() { ! asked two "$image" && grep -F "the model's files are not those that it was loaded from" "$work/body"; }
patiently stale || fail "$(cat "$work/body")"
expect 200 --data-binary "@$image" "$url/v2/models/two/classify"
touch -r "$work/time" "$file"
covers two '[0, 0, 1, 1]' "$image"

echo "Two networks for maps are loaded at most, and none when nobody asks."
awk '/class activation maps of .* is loaded/ { if (++n > 2) exit 1 } / died and is replaced/ { n = 0 }
  /class activation maps of .* is unloaded/ { n-- }' "$work/log" || fail "three are loaded: $(grep 'activation maps' "$work/log")"
gone() { [ "$(grep 'class activation maps of' "$work/log" | tail -n 2 | grep -c unloaded)" = 2 ]; }
! gone || fail "they are unloaded at once"
patiently gone || fail "$(grep 'activation maps' "$work/log")"
covers two '[0, 0, 1, 1]' "$image"
stop
unset CONVOY_TEST_FAULT
echo "passed"
