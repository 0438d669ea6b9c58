#!/usr/bin/env bash
# sanitize: all
# Traces for a collector (tracing.otlp_url), which the test brings: identifiers, parents, names, times; whose trace is recorded;
# batches; what waits is sent at a stop; a collector that is away, refuses or hangs costs traces, which are counted, and no answer.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
image=models/samples/ship.jpg
trace=4bf92f3577b34da6a3ce929d0e0e473
parent=00f067aa0ba902b7

# collector MODE: $endpoint is where it takes traces.
collector() {
  [ -z "$proxy" ] || { kill $proxy; wait $proxy || true; }
  rm -rf "$work/collector"
  mkdir "$work/collector"
  : >"$work/collector/posts"
  "$python" tests/tools/trace_collector.py "$work/collector" "$1" &
  proxy=$!
  until_true 10 test -s "$work/collector/port" || fail "the collector did not start"
  endpoint=http://127.0.0.1:$(cat "$work/collector/port")/v1/traces
}
serve() { # SAMPLE
  configure 'default_model="cifar10-convnet"' "tracing={\"otlp_url\": \"$endpoint\", \"sample\": $1}" 'log={"access": "all"}'
  start --backend null --config "$work/config.json"
}
ask() { expect "$1" -H "traceparent: $2" --data-binary @$image "$url/classify"; }
outcome() { sample "convoyd_traces_total{outcome=\"$1\"}"; }
reached() { [ "$(outcome "$1")" -ge "$2" ]; }
# many N [HEADER]: so many images on one connection, each answered with 200.
many() {
  "$python" - "$url" $image "$@" <<'PYTHON' || fail "an answer is missing"
import http.client, sys
url, image, times, *header = sys.argv[1:]
connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
body = open(image, "rb").read()
for _ in range(int(times)):
    connection.request("POST", "/classify?top=1", body, dict(one.split(": ") for one in header))
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, answer.status
PYTHON
}

echo "Whose trace is recorded, and what a collector gets of it."
collector take
serve 1
begun=$(date +%s.%N)
ask 200 "00-${trace}1-$parent-01"
ask 200 "00-${trace}2-$parent-00" # the caller does not record it, so this does not
ask 200 "not to the letter"
traceparent() { tr -d '\r' <"$work/headers" | awk 'tolower($1) == "traceparent:" { print $2 }'; }
expect 200 -H 'X-Request-Id: begins' --data-binary @$image "$url/classify"
begins=$(traceparent)
[[ $begins =~ ^00-[0-9a-f]{32}-[0-9a-f]{16}-01$ ]] || fail "the answer does not name the trace that begins: '$begins'"
logged() { grep "msg=request request_id=begins .* trace_id=${begins:3:32}$" "$work/log"; }
until_true 10 logged || fail "the access log does not name it: $(grep begins "$work/log")"
expect 200 -H "traceparent: 00-${trace}3-$parent-01" -F i=@$image -F i=@$image -F i=@$image "$url/classify"
head -c 300 $image >"$work/cut"
expect 422 -H "traceparent: 00-${trace}4-$parent-01" --data-binary "@$work/cut" "$url/classify"
expect 200 -H "traceparent: 00-${trace}5-$parent-01" -d "{\"inputs\": [{\"name\": \"image\", \"datatype\": \"FP32\", \"shape\": [1, 3, 32, 32],
  \"data\": [$(printf '0,%.0s' {1..3071})0]}]}" "$url/v2/models/cifar10-convnet/infer"
expect 404 "$url/no/such/page"
until_true 10 reached exported 6 || fail "not all are exported: $(outcome exported)"
"$python" tests/tools/trace_check.py "$work/collector/posts" "$begun" "${trace}1" $parent 200 1 "${trace}3" $parent 200 3 \
  "${trace}4" $parent 422 1 "${trace}5" $parent 200 1 "${begins:3:32}" '' 200 1 - '' 200 1 >"$work/out" || fail "see above"
: >"$work/collector/posts"

echo "Batches; what waits is sent at a stop."
before=$(outcome exported)
many 600 "traceparent: 00-${trace}6-$parent-01"
until_true 10 reached exported $((before + 600)) || fail "not all are exported: $(outcome exported)"
read -r posts spans largest < <("$python" tests/tools/trace_check.py "$work/collector/posts" "$begun") || fail "see above"
echo "$spans requests in $posts batches of $largest at most"
if [ "$spans" != 600 ] || [ "$posts" -gt 60 ] || [ "$largest" -gt 256 ]; then fail "$spans requests in $posts batches of $largest at most"; fi
ask 200 "00-${trace}7-$parent-01"
stop
grep "${trace}7" "$work/collector/posts" >/dev/null || fail "what waited at the stop is lost"

echo "A part of the requests, by tracing.sample; of others' traces nothing but what they say."
serve 0.25
: >"$work/collector/posts"
many 1000
many 100 "traceparent: 00-${trace}8-$parent-00"
stop
read -r _ part _ < <("$python" tests/tools/trace_check.py "$work/collector/posts" "$begun") || fail "see above"
# By chance: one run in 8e9 has less than 165 or more than 340.
if [ "$part" -lt 165 ] || [ "$part" -gt 340 ]; then fail "$part of 1000 requests are sampled, of which a quarter is wanted"; fi
! grep "${trace}8" "$work/collector/posts" >/dev/null || fail "a trace that its caller does not record is exported"

echo "A collector that refuses, and one that is away: answers go on, and what is lost is counted."
collector refuse
serve 1
many 10
until_true 10 reached failed 10 || fail "a refusal is not counted: $(outcome failed)"
said() { grep 'traces are lost.*the collector answers 503' "$work/log"; } # after it is counted
until_true 10 said || fail "the log does not say why"
kill $proxy
wait $proxy || true
proxy=
many 300
until_true 10 reached failed 310 || fail "a collector that is away is not counted: $(outcome failed)"
[ "$(outcome exported) $(outcome dropped)" = "0 0" ] || fail "exported $(outcome exported), dropped $(outcome dropped)"
stop

echo "One that hangs: what finds no room is dropped; workers inherit nothing of it; a stop waits for 2 s, not for the collector."
collector hang
serve 1
sockets() { find "/proc/$(workers)/fd" -lname 'socket:*' | wc -l; }
before=$(sockets)
many 2500
# 2304 can wait. A batch that hangs is given up after 5 s, which so many requests may take on a busy machine: then another one waits.
others=$(($(outcome dropped) + $(outcome failed)))
[ $others -ge 196 ] || fail "$others of 2500 are dropped or failed, though 2304 can wait"
drops() { many 500 && [ "$(outcome dropped)" -ge 196 ]; }
until_true 60 drops || fail "$(outcome dropped) are dropped"
old=$(workers)
kill -KILL "$old"
renewed() { [ -n "$(workers)" ] && [ "$(workers)" != "$old" ] && ready; }
until_true 20 renewed || fail "the worker does not come back"
[ "$(sockets)" = "$before" ] || fail "the worker has $(sockets) sockets, and had $before"
begun=$SECONDS
stop
[ $((SECONDS - begun)) -le 10 ] || fail "the stop took $((SECONDS - begun)) s"

kill $proxy
wait $proxy || true
proxy=

echo "Without libcurl the start says what to do."
mkdir "$work/lib"
: >"$work/lib/libcurl.so.4"
for check in --check-config ''; do
  status=0
  LD_LIBRARY_PATH=$work/lib "$build/bin/convoyd" --listen 127.0.0.1:0 --backend null --config "$work/config.json" ${check:+"$check"} >"$work/out" \
    2>"$work/err" || status=$?
  [ $status = 1 ] || fail "status $status of '$check'"
  grep 'convoyd: tracing.otlp_url needs libcurl.so.4.*libcurl4' "$work/err" >/dev/null || fail "$check: $(cat "$work/err")"
done
echo "passed"
