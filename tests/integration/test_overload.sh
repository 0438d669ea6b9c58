#!/usr/bin/env bash
# sanitize: all
# timed: the rate that is served is judged
# Four times the load that the worker can take, in open loop: what is not served is refused rightly, what is accepted is
# answered, the worker computes nothing in vain, memory stays, health and metrics answer, and SIGTERM loses nothing. The
# worker's capacity is its own (CONVOY_TEST_FAULT=pace), so that the test does not depend on the cores it shares with its
# clients. Speed is measured by tests/bench/overload.sh, not here.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

capacity=200      # images a second
while_served=1000 # drain_ms: longer than a request may wait to be read
[[ $build != *san* ]] || { capacity=50 while_served=3000; } # the front is several times slower
growth_kb=8192
connections=600 # more than wait at any time
[ -r /proc/self/smaps_rollup ] || skip "this system has no /proc/PID/smaps_rollup"
export CONVOY_TEST_FAULT=pace:$((1000000 / capacity))
load() { "$python" tests/tools/load.py "$url" --rate $((4 * capacity)) --connections $connections --renew 5 --json "$@"; }
holds() { [ "$(json "$work/load" "$1")" = True ] || fail "not so: $1: $(cat "$work/load")"; }
queue_is_empty() { [ "$(sample 'convoyd_queue_images{model="cifar10-convnet"}')" = 0 ]; }
# What an image costs is known afterwards. Before, it is guessed, so long as images wait behind each batch.
learn() {
  load --seconds 1 >"$work/load" || fail "$(cat "$work/load")"
  until_true 10 queue_is_empty || fail "images are left in the queue"
}
ended() { ! kill -0 "$daemon" 2>/dev/null; }

echo "Images whose deadline would pass in the queue are refused; those that are taken are answered."
configure 'default_model="cifar10-convnet"' 'timeout_ms=2000'
start --backend null --config "$work/config.json"
learn
before=$(sample 'convoyd_images_total{model="cifar10-convnet"}')
"$python" tests/tools/probe.py --seconds 12 "$url" "$daemon" "$(front)" "$(workers)" >"$work/probe" &
probe=$!
load --seconds 12 >"$work/load" || fail "$(cat "$work/load")"
wait "$probe" || fail "the probe: $(cat "$work/probe")"
cat "$work/load" "$work/probe"
holds "set(d['statuses']) == {'200', '503'} and d['refused'] == d['statuses']['503']"
holds "d['unsent'] == 0"
computed=$(($(sample 'convoyd_images_total{model="cifar10-convnet"}') - before))
echo "$before images were computed before, $computed since."
holds "d['statuses']['200'] >= 0.9 * $computed" # or the worker ran for clients that had their 503 already
if [[ $build != *san* ]]; then # under a sanitizer the client is slower than its rate
  holds "d['statuses']['200'] >= 0.9 * $capacity * 12"
fi
[ "$(json "$work/probe" "all(p['wrong'] == 0 and p['asked'] > 10 for p in d['pages'].values())")" = True ] ||
  fail "health or metrics were not answered"
if [[ $build != *san* ]]; then # a sanitizer keeps what was freed
  [ "$(json "$work/probe" "d['memory_kb']['end'] - d['memory_kb']['warm'] < $growth_kb")" = True ] ||
    fail "memory grows by more than $growth_kb kB"
fi
queue_is_empty || fail "images are left in the queue"
expect 200 --data-binary @models/samples/ship.jpg "$url/classify"
stop

echo "Before the first batch has ended images are refused by what one took at loading: a worker that stands still gets no more"
echo "than it could have answered."
configure 'default_model="cifar10-convnet"' 'timeout_ms=2000'
start --backend null --config "$work/config.json"
stand_still "$(workers)"
load --seconds 1 >"$work/load" || fail "$(cat "$work/load")"
kill -CONT "$(workers)"
cat "$work/load"
holds "set(d['statuses']) == {'503'} and 0 < d['expired'] <= 2 * $capacity and d['refused'] > d['expired']"
until_true 10 queue_is_empty || fail "images are left in the queue"
expect 200 --data-binary @models/samples/ship.jpg "$url/classify"
stop

echo "The queue's bound refuses as well."
configure 'default_model="cifar10-convnet"' 'batching={"max_batch": 8, "max_queue": 40}' 'timeout_ms=60000'
start --backend null --config "$work/config.json"
load --seconds 3 >"$work/load" || fail "$(cat "$work/load")"
holds "set(d['statuses']) == {'200', '503'} and d['refused'] == d['statuses']['503'] and d['expired'] == 0"
stop

echo "SIGTERM in the middle loses nothing: what was accepted is answered 200."
for drain_ms in 0 $while_served; do
  configure 'default_model="cifar10-convnet"' 'timeout_ms=2000' "drain_ms=$drain_ms"
  start --backend null --config "$work/config.json"
  learn
  load --seconds 3 --terminate "$daemon" >"$work/load" || fail "drain_ms $drain_ms: $(cat "$work/load")"
  holds "d['statuses']['200'] > 0 and d['refused'] > 0"
  [[ $build == *san* ]] || holds "d['expired'] == 0"
  [ "$drain_ms" -eq 0 ] || holds "d['overtaken'] == 0"
  until_true 10 ended || fail "it does not end"
  status=0
  wait "$daemon" || status=$?
  daemon=
  [ $status -eq 0 ] || fail "drain_ms $drain_ms: status $status"
  ! grep -q 'msg="requests are given up"' "$work/log" || fail "drain_ms $drain_ms: requests were given up"
done
echo "passed"
