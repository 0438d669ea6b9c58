#!/usr/bin/env bash
# sanitize: yes
# Traces: which requests get a line in the log, for all models and for one, set while serving.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

configure 'default_model="cifar10-convnet"' 'auth={"loopback_admin": true}'
start --backend null --config "$work/config.json"
all=$url/v2/trace/setting
one=$url/v2/models/fashion-lenet/trace/setting
image=models/samples/fashion/sneaker.png

# set_to URL JSON: and what comes back is what holds.
set_to() {
  expect 200 -d "$2" "$1"
  cp "$work/body" "$work/answered"
  expect 200 "$1"
  cmp "$work/body" "$work/answered" || fail "$1 says otherwise than its POST: $(cat "$work/body" "$work/answered")"
}
holds() { # URL LEVEL RATE COUNT
  expect 200 "$1"
  [ "$(json "$work/body" "' '.join((*d['trace_level'], d['trace_rate'], d['trace_count']))")" = "$2 $3 $4" ] ||
    fail "$1 holds $(cat "$work/body"), not $2 $3 $4"
}
traces() { grep -c 'msg=trace' "$work/log" || true; }
# ask MODEL TIMES
ask() { for ((i = 0; i < $2; i++)); do expect 200 -H "X-Request-Id: $1-$i" --data-binary @$image "$url/v2/models/$1/classify"; done; }
# adds N COMMAND...: so many lines more.
adds() {
  local before after
  before=$(traces)
  "${@:2}"
  after=$(traces)
  [ $((after - before)) = "$1" ] || fail "${*:2}: $((after - before)) lines more, not $1"
}

echo "Off."
holds "$all" OFF 1000 -1
holds "$one" OFF 1000 -1
adds 0 ask fashion-lenet 3

echo "All models: every third, then four of every one."
set_to "$all" '{"trace_level": ["TIMESTAMPS"], "trace_rate": "3"}'
holds "$all" TIMESTAMPS 3 -1
holds "$one" TIMESTAMPS 3 -1
adds 2 ask fashion-lenet 7
adds 1 ask cifar10-convnet 2
set_to "$all" '{"trace_rate": 1, "trace_count": 4}'
adds 3 ask fashion-lenet 3
holds "$all" TIMESTAMPS 1 1
adds 1 ask cifar10-convnet 3
holds "$all" TIMESTAMPS 1 0
line=$(grep 'msg=trace' "$work/log" | tail -n 1)
for part in request_id=cifar10-convnet-0 model=cifar10-convnet version=1 status=200 images=1 'total_us=[1-9]' batch_size=1 device=null \
  'route=/v2/models/{model}/classify'; do
  grep -q "$part" <<<"$line" || fail "no $part in $line"
done

echo "A client's trace goes on; a header that is wrong begins another; without one there is none."
trace_id=4bf92f3577b34da6a3ce929d0e0e4736
traced() { expect 200 "$@" "$url/v2/models"; tr -d '\r' <"$work/headers" | sed -n 's/^[Tt]raceparent: //p'; }
[[ $(traced -H "traceparent: 00-$trace_id-00f067aa0ba902b7-01") =~ ^00-$trace_id-[0-9a-f]{16}-01$ ]] || fail "$(cat "$work/headers")"
[[ $(traced -H "traceparent: 00-$trace_id-00f067aa0ba902b7-01") != *00f067aa0ba902b7* ]] || fail "the span is the client's own"
for wrong in "00-$trace_id-0000000000000000-01" "00-${trace_id^^}-00f067aa0ba902b7-01" hello; do
  got=$(traced -H "traceparent: $wrong")
  if [[ ! $got =~ ^00-[0-9a-f]{32}-[0-9a-f]{16}-00$ ]] || [[ $got == *$trace_id* ]]; then fail "traceparent: $wrong is answered $got"; fi
done
[ -z "$(traced)" ] || fail "a trace that no client asked for"
set_to "$all" '{"trace_rate": 1, "trace_count": 1}'
expect 200 -H "traceparent: 00-$trace_id-00f067aa0ba902b7-01" --data-binary @$image "$url/v2/models/fashion-lenet/classify"
grep "msg=trace .*trace_id=$trace_id " "$work/log" >/dev/null || fail "the trace's line does not name it: $(grep msg=trace "$work/log" | tail -n 1)"
set_to "$all" '{"trace_level": ["OFF"], "trace_count": -1}'
set_to "$all" '{"trace_level": ["TIMESTAMPS"], "trace_rate": 1, "trace_count": 0}'

echo "One model: settings of its own, as far as it has them."
set_to "$one" '{"trace_count": "2"}'
holds "$one" TIMESTAMPS 1 2
adds 2 ask fashion-lenet 5
adds 0 ask cifar10-convnet 2
holds "$one" TIMESTAMPS 1 0
set_to "$all" '{"trace_count": "-1"}'
adds 0 ask fashion-lenet 2
set_to "$one" '{"trace_count": null}'
adds 2 ask fashion-lenet 2
set_to "$one" '{"trace_level": ["OFF"]}'
adds 0 ask fashion-lenet 2
adds 1 ask cifar10-convnet 1
set_to "$one" '{"trace_level": null, "trace_rate": "2"}'
adds 1 ask fashion-lenet 3
set_to "$all" '{"trace_level": "OFF"}'
adds 0 ask fashion-lenet 4
set_to "$one" '{"trace_level": ["TIMESTAMPS"], "trace_rate": "3"}'
adds 0 ask fashion-lenet 2
adds 0 ask cifar10-convnet 3
set_to "$one" '{"trace_rate": "3"}' # counts from the start
adds 0 ask fashion-lenet 2
adds 1 ask fashion-lenet 1
set_to "$all" '{"trace_count": "3"}'
adds 1 ask fashion-lenet 3 # the end is that of all
holds "$all" OFF 1 2
set_to "$one" '{"trace_level": null, "trace_rate": null}'
set_to "$all" '{"trace_count": null}'

echo "Inference, and images that fail, are traced too."
set_to "$all" '{"trace_level": ["TIMESTAMPS"], "trace_rate": null}'
holds "$all" TIMESTAMPS 1000 -1
set_to "$all" '{"trace_rate": "1"}'
adds 1 expect 415 --data-binary text "$url/classify"
grep 'msg=trace' "$work/log" | tail -n 1 | grep 'status=415' >/dev/null || fail "$(tail -n 1 "$work/log")"
adds 1 expect 200 -d '{"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "data": ["'"$(base64 -w0 models/samples/ship.jpg)"'"]}]}' \
  "$url/v2/models/cifar10-convnet/infer"

echo "What cannot be set changes nothing."
for wrong in '' '[]' '{' '{"trace_level": ["TENSORS"]}' '{"trace_level": []}' '{"trace_level": ["OFF", "TIMESTAMPS"]}' '{"trace_rate": 0}' \
  '{"trace_rate": "0"}' '{"trace_rate": 1.5}' '{"trace_rate": -1}' '{"trace_count": -2}' '{"trace_count": "many"}' '{"trace_file": "/tmp/x"}' \
  '{"trace_rate": "7", "nonsense": 1}'; do
  expect 400 -d "$wrong" "$all"
done
holds "$all" TIMESTAMPS 1 -1
expect 403 -d '{"trace_rate": 7}' -H 'Origin: http://example.org' "$all"
expect 403 -d '{"trace_rate": 7}' -H 'X-Forwarded-For: 192.0.2.1' "$one"
holds "$all" TIMESTAMPS 1 -1
expect 404 "$url/v2/models/nobody/trace/setting"
expect 404 -d '{}' "$url/v2/models/nobody/trace/setting"
expect 405 -X PUT -d '{}' "$all"
grep -qi '^allow: GET, HEAD, POST' "$work/headers" || fail "$(cat "$work/headers")"
stop
echo "passed"
