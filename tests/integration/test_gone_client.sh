#!/usr/bin/env bash
# sanitize: both
# Clients that go away, at every stage of a request, cost nothing that lasts: no descriptor, no place in the queue,
# no slot, no memory.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
model=cifar10-convnet
count=200
# A request that ends in the middle is seen within a fifth of this timeout.
configure 'default_model="cifar10-convnet"' 'http={"request_timeout_ms": 5000}' 'timeout_ms=60000'
start --backend null --config "$work/config.json"
before=$(descriptors)
resident() { awk '/VmRSS/ { print $2 }' "/proc/$(front)/status"; }
descriptors_as_before() { [ "$(descriptors)" -le "$before" ]; }
waiting() { [ "$(sample "convoyd_queue_images{model=\"$model\"}")" = "$1" ]; }
slots() { [ "$(sample convoyd_slots_in_use)" = "$1" ]; }
as_before() {
  until_true 10 descriptors_as_before || fail "$1: $(descriptors) descriptors, $before before"
  until_true 10 waiting 0 || fail "$1: images are left in the queue"
  until_true 10 slots 0 || fail "$1: slots are left in use"
}

rounds=3 # the first one fills what allocators keep
for ((round = 1; round <= rounds; round++)); do
  for stage in header body chunked form answer; do
    "$python" tests/tools/gone_client.py "$url" $image $count $stage
    as_before "gone in mid-$stage"
  done
  # All of them wait for a worker that stands still when they go.
  worker=$(workers)
  stand_still "$worker"
  "$python" tests/tools/gone_client.py "$url" $image $count whole &
  client=$!
  arrived() { [ "$(sample "convoyd_queue_images{model=\"$model\"}")" -gt 0 ] || ! kill -0 "$client"; }
  until_true 10 arrived
  wait "$client"
  kill -CONT "$worker"
  as_before "gone while they waited"
  [ "$round" -gt 1 ] || small=$(resident)
done
echo "$((rounds * count * 6)) clients went away; $(($(resident) - small)) KiB more than after the first $((count * 6))"
[[ $build == *san* ]] || [ $(($(resident) - small)) -lt 4000 ] || fail "memory grows"
[ "$(workers)" = "$worker" ] || fail "the worker was replaced"

echo "Those that will send no more, in the middle of a request, are not waited for."
for stage in header body chunked form; do
  "$python" tests/tools/gone_client.py "$url" $image $count $stage 3 || fail "in mid-$stage"
done

expect 200 --data-binary @$image "$url/classify"
as_before "at the end"
stop
echo "passed"
