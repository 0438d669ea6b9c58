#!/usr/bin/env bash
# sanitize: all
# worker.spares: a process that has opened the GPU takes a dead worker's place. On the emulated GPU, whose memory is made large
# enough for one.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
stand_ins_use_files
needs_cuda
[ -z "$emulated" ] || export CONVOY_EMULATED_FAULT=memory:$((8 << 30))
image=models/samples/truck.jpg
mkdir "$work/models"
cp -r models/cifar10-convnet "$work/models/"

# serve [KEY=JSON...]: without tuning, in which no spare is started
serve() {
  configure models="\"$work/models\"" backend='"cuda"' tune='"off"' "$@"
  start --config "$work/config.json"
}
spares() { pgrep -P "$daemon" convoy-spare; }
other_spare() { [ "$(spares | wc -l)" = 1 ] && [ "$(spares)" != "${1:-}" ]; }
# spare_waits [PID]: one waits, and not this one
spare_waits() { until_true 30 other_spare "${1:-}" || fail "no spare waits"; }
classified() {
  expect 200 --data-binary @$image "$url/classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
}
logged() { [ "$(grep -c "$2" "$work/log")" -ge "$1" ]; }
is_worker() { [ "$(workers)" = "$1" ]; }
ended() { [ ! -d "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status"; }

echo "A worker that is killed under load is replaced by the spare, and another spare comes. No request is lost."
serve
spare_waits
spare=$(spares) worker=$(workers)
"$python" tests/tools/steady_load.py "$url" --seconds 60 --connections 2 >"$work/load.json" &
load=$!
answers() { sample 'convoyd_requests_total{model="cifar10-convnet",route="/classify",status="200"}'; }
# An image that is in flight at two deaths in a row is taken for what kills: others are answered between.
more_answers() { [ "$(answers)" -gt $((seen + 4)) ]; }
seen=0
for _ in 1 2; do
  until_true 20 more_answers || fail "the load is not answered"
  seen=$(answers)
  kill -KILL "$worker"
  until_true 20 is_worker "$spare" || fail "the spare $spare does not take the place of $worker: $(workers)"
  until_true 20 logged 1 "worker started.*pid=$spare" || fail "it does not serve"
  spare_waits "$spare"
  worker=$spare spare=$(spares)
done
seen=$(answers)
until_true 20 more_answers || fail "the load is not answered"
kill -TERM $load
wait $load || fail "the load"
[ "$(json "$work/load.json" 'set(d["statuses"]) == {"200"} and d["wrong"] + d["lost"] + d["refused"] == 0')" = True ] ||
  fail "$(cat "$work/load.json")"
[ "$(tr '\0' ' ' <"/proc/$worker/cmdline" | grep -c -- --spare)" = 1 ] || fail "the worker was no spare"

echo "The worker that was a spare is confined as others are."
grep -q '^Seccomp:.*2$' "/proc/$worker/status" || grep -q 'not confined' "$work/log" || fail "it is not confined"

echo "A front that crashes: its spare ends, the worker stays, which was a spare itself, and the next front has a spare of its own."
worker=$(workers) spare=$(spares)
kill -KILL "$(front)"
until_true 20 ended "$spare" || fail "the spare of the front before stays"
until_true 20 ready || fail "no front"
is_worker "$worker" || fail "another worker: $(workers)"
classified
spare_waits "$spare"
spare=$(spares)

echo "A spare that dies: the worker goes on, which a start of its own replaces."
kill -KILL "$spare"
until_true 20 logged 1 'a spare worker ended.*signal 9' || fail "its end is not told"
[ -z "$(spares || true)" ] || fail "there is a spare at once"
new_worker() { [ -n "$(workers)" ] && [ "$(workers)" != "$worker" ]; }
kill -KILL "$worker"
until_true 20 new_worker || fail "the worker is not replaced"
classified
spare_waits

echo "Both are killed at once: a worker is started as without a spare."
worker=$(workers) spare=$(spares)
kill -KILL "$spare" "$worker"
until_true 20 new_worker || fail "neither is replaced"
classified
spare_waits

echo "An upgrade: as after a crash. A worker that was adopted has a spare, too."
worker=$(workers) spare=$(spares)
kill -USR2 "$daemon"
until_true 30 logged 1 'upgrade: the new front takes over' || fail "no upgrade"
until_true 20 ended "$spare" || fail "the spare of the front before stays"
until_true 20 ready || fail "no front"
is_worker "$worker" || fail "another worker: $(workers)"
spare_waits "$spare"
spare=$(spares)
kill -KILL "$worker"
until_true 20 is_worker "$spare" || fail "the spare $spare does not take the place of an adopted worker"
classified

echo "With the end of the daemon they end."
spare_waits
worker=$(workers) spare=$(spares)
stop
for pid in "$worker" "$spare"; do
  until_true 20 ended "$pid" || fail "a process is left"
done
serve
spare_waits
spare=$(spares)
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null || true
daemon=
until_true 20 ended "$spare" || fail "the spare of a daemon that was killed is left"

if [ -n "$emulated" ]; then
  echo "A spare that cannot open the device says why, and the worker serves on."
  export CONVOY_EMULATED_LOST=0:$work/lost
  serve worker='{"canary_ms": 0}'
  spare_waits
  worker=$(workers)
  touch "$work/lost"
  kill -KILL "$(spares)"
  until_true 30 logged 1 'a spare worker ended.*exit status 3" reason="cuda' || fail "it does not say why"
  rm "$work/lost"
  is_worker "$worker" || fail "the worker is another: $(workers)"
  classified
  stop
fi

echo "Two spares: two workers die, one right after the other."
serve worker='{"spares": 2}'
both_wait() { [ "$(spares | wc -l)" = 2 ]; }
until_true 30 both_wait || fail "spares: $(spares)"
worker=$(workers) first=$(spares | head -n 1) second=$(spares | tail -n 1)
kill -KILL "$worker"
until_true 20 is_worker "$first" || fail "the older spare, $first of $first and $second, does not take the place: $(workers)"
kill -KILL "$first"
until_true 20 is_worker "$second" || fail "the other spare does not take the place: $(workers)"
classified
until_true 30 both_wait || fail "spares: $(spares)"
stop

echo "None with worker.spares 0, with worker.per_model, and where the device's memory is short."
none() { # KEY=JSON...
  serve "$@"
  # One would be started, or the log would say why not, when the worker has served for two seconds.
  has_served() { [ "$(ps -o etimes= -p "$(workers)")" -ge 4 ]; }
  until_true 20 has_served
  [ -z "$(spares || true)" ] || fail "$*: there is a spare"
}
none worker='{"spares": 0}'
stop
none worker='{"per_model": true}'
stop
if [ -n "$emulated" ]; then
  CONVOY_EMULATED_FAULT=memory:$((3 << 30)) none
  logged 1 'no spare worker is kept.*4 GiB' || fail "the log does not say why"
  stop
fi
