#!/usr/bin/env bash
# sanitize: yes
# Forms: many images in order, spoilt ones in between, none, too many, and forms that are none.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

configure 'default_model="cifar10-convnet"' 'images={"max_per_request": 40}'
start --backend cpu --config "$work/config.json"
samples=models/samples
labels() { json "$work/body" "[r['predictions'][0]['label'] if 'predictions' in r else r['status'] for r in d['results']]"; }

echo "In order, whatever the parts' names, types and number."
expect 200 -F "a=@$samples/ship.jpg" -F "a=@$samples/truck.jpg;type=text/html" -F "=@$samples/airplane.jpg;filename=" \
  -F "b=@$samples/automobile.jpg" "$url/classify?top=1"
[ "$(labels)" = "['ship', 'truck', 'airplane', 'automobile']" ] || fail "$(labels)"
arguments=() expected=
for i in {1..10}; do
  for name in truck ship automobile airplane; do
    arguments+=(-F "i$i=@$samples/$name.jpg")
    expected="$expected${expected:+, }'$name'"
  done
done
expect 200 "${arguments[@]}" "$url/classify?top=1"
[ "$(labels)" = "[$expected]" ] || fail "40 images: $(labels)"
expect 200 -F "a=@$samples/ship.jpg" "$url/v2/models/cifar10-convnet/classify"
[ "$(labels)" = "['ship']" ] || fail "one image in a form: $(labels)"

echo "One that is spoilt has its error in its own entry."
head -c 1000 $samples/truck.jpg >"$work/cut.jpg"
expect 200 -F "a=@$samples/ship.jpg" -F "b=@$work/cut.jpg" -F "c=@README.md" -F "d=" -F "e=@$samples/truck.jpg" "$url/classify?top=1"
[ "$(labels)" = "['ship', 422, 415, 400, 'truck']" ] || fail "$(labels)"
[ "$(json "$work/body" "all(len(r['error']) > 10 for r in d['results'][1:4])")" = True ] || fail "$(cat "$work/body")"
# None at all: the first one's status, and all the entries.
expect 415 -F "c=@README.md" -F "b=@$work/cut.jpg" "$url/classify"
[ "$(labels)" = "[415, 422]" ] || fail "$(labels)"
expect 422 -F "b=@$work/cut.jpg" -F "c=@README.md" "$url/classify"

echo "Too many, none."
expect 413 "${arguments[@]}" -F "one=@$samples/ship.jpg" "$url/classify?top=1"
[[ $(json "$work/body" 'd["error"]') == *41*max_per_request*40* ]] || fail "$(cat "$work/body")"
form() { expect "$1" -H "Content-Type: multipart/form-data; boundary=${3:-B}" --data-binary "$2" "$url/classify"; }
form 400 '--B--'
form 400 $'--B--\r\n'

echo "Large forms, which are read off the HTTP threads."
head -c 300000 /dev/zero >"$work/large"
expect 200 -F "a=@$samples/ship.jpg" -F "b=@$work/large" -F "c=@$samples/truck.jpg" "$url/classify?top=1"
[ "$(labels)" = "['ship', 415, 'truck']" ] || fail "$(labels)"
expect 413 "${arguments[@]}" -F "one=@$work/large" "$url/classify?top=1"
[[ $(json "$work/body" 'd["error"]') == *41*max_per_request*40* ]] || fail "$(cat "$work/body")"
for end in '' $'\r\n--B' $'\r\n--B--'; do
  { cat "$work/large" && printf '%s' "$end"; } >"$work/form"
  expect 400 -H "Content-Type: multipart/form-data; boundary=B" --data-binary "@$work/form" "$url/classify"
done

echo "Forms that are none."
form 400 ''
form 400 'no boundary anywhere'
form 400 $'--B\r\n'
form 400 $'--B\r\nContent-Disposition: form-data; name="a"\r\n'
form 400 $'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\nan end that is missing'
form 400 $'--C\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n--C--\r\n'
form 415 $'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\nsound but text\r\n--B--\r\n'
form 415 $'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\nsound but text\r\n--B--\r\n' '"B"'
for type in 'multipart/form-data' 'multipart/form-data; boundary=' 'multipart/form-data; boundary=""' \
  "multipart/form-data; boundary=$(head -c 71 /dev/zero | tr '\0' b)"; do
  expect 400 -H "Content-Type: $type" --data-binary "@$samples/ship.jpg" "$url/classify"
  [[ $(json "$work/body" 'd["error"]') == *boundary* ]] || fail "$type: $(cat "$work/body")"
done
expect 200 --data-binary "@$samples/ship.jpg" "$url/classify?top=1"
stop

echo "They go into slots in runs: the null backend takes what is there, and would take them one by one."
start --backend null --config "$work/config.json"
batches() { curl -fsS "$url/metrics" | awk '/^convoyd_batches_total/ { sum += $2 } END { print sum + 0 }'; }
for side in 32 64; do # pixels; on the HTTP thread, by threads that decode
  python3 tests/tools/solid_png.py "$work/$side.png" 10 20 30 $side
  forty=()
  for i in {1..40}; do forty+=(-F "i$i=@$work/$side.png"); done
  before=$(batches)
  expect 200 "${forty[@]}" "$url/classify?top=1"
  [ $(($(batches) - before)) -le $((side / 16 - 1)) ] || fail "40 images took $(($(batches) - before)) batches"
done
stop
echo "passed"
