#!/usr/bin/env bash
# sanitize: all
# worker.per_model: each model has a worker of its own, which sees no image of another model, also when the model has taken
# it over; what happens to one worker concerns no other.
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"
stand_ins_use_files

mkdir "$work/models"
for name in good hostile; do cp -r models/cifar10-convnet "$work/models/$name"; done
cp -r models/fashion-lenet "$work/models/third"
python3 tests/tools/solid_png.py "$work/secret.png" 10 20 30
python3 tests/tools/solid_png.py "$work/other.png" 40 50 60
saw=$work/saw
pid_of() { curl -fsS "$url/metrics" >/dev/null && sed -n "s/.*\"\?worker \(started\|is for a model\)\"\? .*pid=\([0-9]*\).* model=$1$/\2/p" "$work/log" | tail -n 1; }
works() { expect 200 --data-binary @"${2:-$work/other.png}" "$url/v2/models/$1/classify"; }
states() { curl -fsS "$url/v2/models" | "$python" -S -c 'import json, sys; print(" ".join(sorted(m["name"] + ":" + m["state"] for m in json.load(sys.stdin)["models"])))'; }
all_ready() { [ "$(states)" = "good:READY hostile:READY third:READY" ]; }
write_config() { # PER_MODEL
  configure "models=\"$work/models\"" 'default_model="good"' 'model_control="explicit"' 'admin_listen=null' 'timeout_ms=20000' \
    'auth={"loopback_admin": true}' "worker={\"per_model\": $1, \"hang_timeout_ms\": 20000, \"canary_ms\": 0}" \
    'repository={"load_at_start": ["good", "hostile", "third"]}'
  sed -i 's/"models": "models", "default_model": "cifar10-convnet", //' "$work/config.json"
}
# Several at once: the next image takes the place of one of them.
show_secret() {
  local forms=(-F "image=@$work/secret.png" -F "image=@$work/secret.png" -F "image=@$work/secret.png" -F "image=@$work/secret.png")
  expect 200 "${forms[@]}" "${forms[@]}" "$url/v2/models/good/classify"
}

echo "One worker for all models: a model that has taken it over sees what others are sent."
write_config false
export CONVOY_TEST_FAULT=spy:hostile:10,20,30:$saw
start --backend cpu --config "$work/config.json"
until_true 30 all_ready || fail "$(states)"
show_secret
works hostile
[ "$(tail -n 1 "$saw")" = seen ] || fail "it would see nothing: the test is of no use"
stop

echo "A worker for each: it sees nothing, whatever it claims."
write_config true
rm "$saw"
export CONVOY_TEST_FAULT=claim:hostile:10,20,30:$saw
start --backend cpu --config "$work/config.json"
until_true 30 all_ready || fail "$(states)"
[ "$(workers | wc -l)" = 3 ] || fail "$(workers | wc -l) workers"
show_secret
works hostile
works third
grep -q nothing "$saw" || fail "it did not look"
if grep -q seen "$saw"; then fail "it sees an image of another model"; fi
[ "$(metric convoyd_worker_up)" = 3 ] || fail "$(metric convoyd_worker_up) workers are up"
for name in good hostile third; do
  [ "$(sample "convoyd_worker_up{device=\"cpu\",model=\"$name\"}")" = 1 ] || fail "no metric of the worker of $name"
done

echo "While its own worker is away, an image waits for that, and the others are served."
stand_still "$(pid_of good)"
curl -sS -o "$work/waited" --data-binary @"$work/secret.png" "$url/v2/models/good/classify" &
waiting=$!
waits() { [ "$(sample convoyd_slots_in_use)" -ge 1 ]; }
until_true 10 waits || fail "the image does not wait"
kill -KILL "$(pid_of good)"
works hostile
works third
wait $waiting || fail "the image that waited got no answer"
[ "$(json "$work/waited" 'len(d["results"])')" = 1 ] || fail "$(cat "$work/waited")"
works hostile
if grep -q seen "$saw"; then fail "it sees an image of another model"; fi
grep -q 'msg="worker died and is replaced".* model=good' "$work/log" || fail "its end is not told"
[ "$(grep -c 'worker died' "$work/log")" = 1 ] || fail "others died, too"
[ "$(sample 'convoyd_worker_restarts_total{device="cpu",model="good",reason="signal"}')" = 1 ] || fail "its death is not counted"

echo "The front crashes, and another takes over: each model keeps its worker."
pids=$(workers | sort)
killed=$(front)
sleep 1.1 # a front that has served for a second has not failed to start
kill -KILL "$killed"
back() { [ -n "$(front)" ] && [ "$(front)" != "$killed" ] && all_ready; }
until_true 20 back || fail "no front after a crash: $(states)"
kill -USR2 "$daemon"
over() { grep -q 'msg="upgrade: the new front takes over"' "$work/log" && all_ready; }
until_true 20 over || fail "no front after an upgrade"
[ "$(workers | sort)" = "$pids" ] || fail "other workers: $(workers), before $pids"
[ "$(grep -c 'worker taken over.* models_kept=1 model=' "$work/log")" = 6 ] || fail "not each worker kept its model"
works good
works hostile
works third

echo "A model that is not served has no process; the next model gets another, which sees nothing of it."
old=$(pid_of hostile)
request() { expect 200 -X POST "$url/v2/repository/models/$2/$1"; }
gone() { [ ! -d "/proc/$1" ]; }
request unload good
request unload third
request unload hostile
until_true 10 gone "$old" || fail "the worker of hostile lives on"
one_idle_of() { [ "$(workers | wc -l)" = 1 ] && [ "$(curl -fsS "$url/metrics" | grep '^convoyd_worker_up')" = "convoyd_worker_up{device=\"$1\"} 1" ]; }
one_idle() { one_idle_of cpu; }
until_true 10 one_idle || fail "there is no worker for the next model: $(curl -s "$url/metrics" | grep worker_up)"
[ "$(grep -c 'worker died' "$work/log")" = 1 ] || fail "that is told as a death"
request load good
show_secret
request unload good
until_true 10 one_idle || fail "there is no worker for the next model"
: >"$saw"
request load hostile
works hostile
grep -q nothing "$saw" || fail "it did not look"
if grep -q seen "$saw"; then fail "it sees what the model before it was sent"; fi
[ "$(workers | wc -l)" = 1 ] || fail "$(workers | wc -l) workers for one model"

echo "A worker that was there before its model is taken over with that, and for no other that is without a worker."
own=$(workers)
request load good
killed=$(front)
kept=$(grep -c 'worker taken over.* models_kept=1 model=hostile$' "$work/log")
kill -KILL "$(workers | grep -vx "$own")" "$killed"
both_ready() { [ -n "$(front)" ] && [ "$(front)" != "$killed" ] && [ "$(states)" = "good:READY hostile:READY" ]; }
until_true 20 both_ready || fail "no front after a crash: $(states)"
workers | grep -x "$own" >/dev/null || fail "another worker"
[ "$(grep -c 'worker taken over.* models_kept=1 model=hostile$' "$work/log")" = $((kept + 1)) ] || fail "the model was loaded again"
works hostile
stop

if [ -z "${CONVOY_WHOLE:-}" ]; then # an emulated GPU takes seconds for what follows
  echo "passed"
  exit 0
fi
unset CONVOY_TEST_FAULT
echo "More models than there can be workers: the last one says so, and is loaded when another has gone."
rm -r "$work/models"
mkdir "$work/models"
for ((i = 0; i < 65; i++)); do cp -r models/fashion-lenet "$work/models/m$i"; done
configure "models=\"$work/models\"" 'default_model="m0"' 'model_control="explicit"' 'admin_listen=null' 'auth={"loopback_admin": true}' \
  'worker={"per_model": true, "hang_timeout_ms": 20000}'
sed -i 's/"models": "models", "default_model": "cifar10-convnet", //' "$work/config.json"
launch --backend null --config "$work/config.json"
until_true 30 one_idle_of null || fail "there is no worker"
for ((i = 0; i < 64; i++)); do request load m$i; done
[ "$(workers | wc -l)" = 64 ] || fail "$(workers | wc -l) workers"
expect 400 -X POST "$url/v2/repository/models/m64/load"
grep -q 'there are 64 workers already' "$work/body" || fail "$(cat "$work/body")"
fds=$(descriptors)
request unload m7
fewer() { [ "$(workers | wc -l)" = 63 ]; }
until_true 10 fewer || fail "the worker of m7 lives on"
request load m64
request unload m64
until_true 10 fewer || fail "the worker of m64 lives on"
request load m7
[ "$(descriptors)" = "$fds" ] || fail "the front has $(descriptors) descriptors, before $fds"
stop

echo "Two devices: a worker for each model on each of its own."
[ -e "$build/tests/emulation/convoy-backend-cuda-emulated.so" ] || skip "left out: two devices, as there is no emulated GPU; the rest passed"
needs_cuda
[ -n "$emulated" ] || skip "left out: two devices, which only an emulated GPU has for certain; the rest passed"
export CONVOY_EMULATED_DEVICES=2
rm -r "$work/models"
mkdir "$work/models"
for name in first second both; do cp -r models/fashion-lenet "$work/models/$name"; done
json models/fashion-lenet/config.json '__import__("json").dumps({**d, "devices": [0]})' >"$work/models/first/config.json"
json models/fashion-lenet/config.json '__import__("json").dumps({**d, "devices": [1]})' >"$work/models/second/config.json"
configure "models=\"$work/models\"" 'default_model="both"' 'tune="off"' 'timeout_ms=20000' 'worker={"per_model": true, "hang_timeout_ms": 20000}'
sed -i 's/"models": "models", "default_model": "cifar10-convnet", //' "$work/config.json"
start --backend cuda --config "$work/config.json"
up() { curl -fsS "$url/metrics" | sed -n 's/^convoyd_worker_up{device="\(.*\)",model="\(.*\)"} 1$/\2@\1/p' | sort | tr '\n' ' '; }
all_up() { [ "$(up)" = "both@cuda:0 both@cuda:1 first@cuda:0 second@cuda:1 " ]; }
until_true 30 all_up || fail "up are $(up)"
[ "$(workers | wc -l)" = 4 ] || fail "$(workers | wc -l) workers"
[ "$(grep -c '^convoyd_worker_up' <(curl -fsS "$url/metrics"))" = 4 ] || fail "there are metrics of other workers"
image=$(find models/samples/fashion -type f | sort | head -n 1)
on() { expect 200 --data-binary @"$image" "$url/v2/models/$1/classify" && json "$work/body" 'd["device"]'; }
[ "$(on first) $(on second)" = "cuda:0 cuda:1" ] || fail "$(on first) $(on second)"
kill -KILL "$(sed -n 's/.*"worker started" device=cuda:1 .*pid=\([0-9]*\) model=both$/\1/p' "$work/log")"
for _ in 1 2 3 4; do on both >/dev/null; done
until_true 30 all_up || fail "up are $(up)"
[ "$(grep -c 'worker died' "$work/log")" = 1 ] || fail "others died, too"
stop
echo "passed"
