#!/usr/bin/env bash
# sanitize: yes
# SIGHUP reads log settings, labels and delays again; what is wrong is told and leaves everything as it was.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
models=$work/models
mkdir "$models"
cp -r models/cifar10-convnet "$models/one"
# Without a say of its own in batching, which is left to the daemon's configuration.
json models/cifar10-convnet/config.json '__import__("json").dumps({k: v for k, v in d.items() if k != "batching"})' \
  >"$models/one/config.json"
times() { [ "$(grep -c "$1" "$work/log")" -ge "$2" ]; }
label() { json "$work/body" 'd["results"][0]["predictions"][0]["label"]'; }
reloads=0
# reload: sends SIGHUP and waits until it is done.
reload() {
  kill -HUP "$daemon"
  reloads=$((reloads + 1))
  until_true 10 times 'configuration read again' $reloads || fail "the configuration is not read again"
}

configure "models=\"$models\"" 'log={"level": "info"}' 'worker={"streams": 1}'
start --config "$work/config.json" --backend cpu
worker=$(workers)
expect 200 --data-binary @$image "$url/classify"
[ "$(label)" = ship ] || fail "$(label)"
grep -q 'msg=request' "$work/log" && fail "requests are logged at level info"

echo "Labels and the log's level and format."
sed -i 's/ship/vessel/' "$models/one/labels.txt"
configure "models=\"$models\"" 'log={"level": "debug"}'
reload
expect 200 --data-binary @$image "$url/classify"
[ "$(label)" = vessel ] || fail "the labels are the old ones: $(label)"
until_true 20 times 'msg=request ' 1 || fail "requests are not logged at level debug"
configure "models=\"$models\"" 'log={"level": "info", "format": "json"}'
reload
tail -n 1 "$work/log" | grep '^{"ts":' >/dev/null || fail "not JSON: $(tail -n 1 "$work/log")"
configure "models=\"$models\""
reload

echo "The delay for which a batch may wait while the device is busy."
slots() { [ "$(sample convoyd_slots_in_use)" = "$1" ]; }
queue() { [ "$(sample 'convoyd_queue_images{model="one"}')" = "$1" ]; }
# two_images IN-QUEUE: sends two while the worker, of one stream, stands still: the first is in flight, the second is
# handed over as soon as it has waited long enough, or stays in the queue.
two_images() {
  local sent=()
  stand_still "$worker"
  for slot in 1 2; do
    curl -sS -o "$work/answer$slot" -w '%{http_code}' --data-binary @$image "$url/classify" >"$work/status$slot" &
    sent+=($!)
    until_true 10 slots $slot || fail "image $slot does not reach a slot"
    [ $slot = 2 ] || until_true 10 queue 0 || fail "image $slot does not leave" # until it has, another joins it in its slot
  done
  until_true 10 queue "$1" || fail "not $1 in the queue"
  kill -CONT "$worker"
  wait "${sent[@]}"
  [ "$(cat "$work/status1" "$work/status2")" = 200200 ] || fail "$(cat "$work"/answer[12])"
  until_true 10 slots 0
}
two_images 0
configure "models=\"$models\"" 'batching={"max_delay_us": 10000000}'
reload
two_images 1
configure "models=\"$models\""
reload
two_images 0

echo "A configuration that is wrong leaves everything as it was."
echo '{"log": {"level": "loud"}}' >"$work/config.json"
kill -HUP "$daemon"
until_true 10 times 'level=error msg="the configuration is not taken over"' 1 || fail "the log does not tell"
expect 200 --data-binary @$image "$url/classify"
configure "models=\"$models\""
rm "$models/one/labels.txt"
reload
times "level=error msg=\"a model's configuration is not taken over\".*labels.txt" 1 || fail "the log does not tell of the labels"
expect 200 --data-binary @$image "$url/classify"
[ "$(label)" = vessel ] || fail "$(label)"

echo "Again and again under load: every answer is right."
cp models/cifar10-convnet/labels.txt "$models/one/labels.txt"
until [ $reloads -gt 20 ]; do # how many fit into the two seconds is the machine's affair
  "$python" tests/tools/load.py "$url" --seconds 2 --connections 16 --mix --json >"$work/load" &
  client=$!
  while kill -0 $client 2>/dev/null; do reload; done
  wait $client || fail "$(cat "$work/load")"
done
[ "$(workers)" = "$worker" ] || fail "the worker was replaced"
stop
echo "passed"
