#!/usr/bin/env bash
# sanitize: all
# Two GPUs, or two emulated ones: both compute, the answers are those of one; a worker that dies and a device that never
# comes back lose no request; models lie where "devices" says. On a machine with two: CONVOY_BUILD=PACK (tests/gpu/pack.sh).
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"
stand_ins_use_files

needs_cuda
model=cifar10-convnet
lost=$work/lost # while it is there, device 1 is gone
if [ -n "$emulated" ]; then
  export CONVOY_EMULATED_DEVICES=2 CONVOY_EMULATED_LOST=1:$lost
else
  [ "$(nvidia-smi -L | wc -l)" -ge 2 ] || skip "there is one GPU only"
  export CUDA_VISIBLE_DEVICES=0,1
  # A worker that cannot be started stands for a GPU that has fallen off the bus.
  tree=$(realpath "$build")
  mkdir -p "$work/tree/bin"
  cp "$tree/bin/convoyd" "$work/tree/bin/"
  [ ! -d "$tree/lib" ] || ln -s "$tree/lib" "$work/tree/lib"
  cat >"$work/tree/bin/convoy-worker" <<SCRIPT
#!/bin/sh
case " \$* " in *" --device 1 "*) [ ! -e "$lost" ] || exit 1 ;; esac
exec "$tree/bin/convoy-worker" "\$@"
SCRIPT
  chmod +x "$work/tree/bin/convoy-worker"
  build=$work/tree
fi

# Batches of at most two, so that 16 connections fill more slots than one device takes. One model: each worker that dies
# loads all again.
mkdir "$work/small"
cp -r models/$model "$work/small"
json models/$model/config.json '__import__("json").dumps({**d, "batching": {"max_batch": 2}})' >"$work/small/$model/config.json"

# A spare has another name, but the arguments of its device.
worker_of() { pgrep -P "$daemon" -a -x convoy-worker | grep -e "--device $1 " | cut -d ' ' -f 1; }
both_up() { [ "$(metric convoyd_worker_up)" = 2 ]; }
batches_of() { sample "convoyd_batches_total{model=\"$model\",device=\"cuda:$1\"}"; }
ran_since() { [ "$(batches_of "$1")" -gt "$2" ]; }
deaths_of() { grep -c "worker \(died\|cannot start\).* device=\"\?cuda:$1" "$work/log" || true; }
died() { [ "$(deaths_of "$1")" -ge "$2" ]; }
start_two() {
  start --config "$work/config.json" --backend cuda
  until_true 30 both_up || fail "there are not two workers: $(curl -s "$url/metrics" | grep worker_up)"
}

# stop_both: under load, until both workers, which stop, have slots in flight: an idle one would be given the next.
stop_both() {
  # shellcheck disable=SC2317 # until_true calls it
  both_busy() { [ "$(sample convoyd_slots_in_use)" -ge 6 ]; }
  stand_still "$(worker_of 0)" "$(worker_of 1)"
  until_true 10 both_busy || fail "the devices are given nothing: $(sample convoyd_slots_in_use) slots are in use"
}

# answers FILE: 24 images of noise, 16 at a time, and what the network says to each.
answers() {
  "$python" -S - "$url/v2/models/$model/infer" >"$1" <<'PYTHON' || fail "see above"
import concurrent.futures, json, random, sys, urllib.request

def infer(number):
    noise = random.Random(number)
    body = {"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 3, 32, 32],
                        "data": [noise.randrange(256) for _ in range(3072)]}]}
    request = urllib.request.Request(sys.argv[1], json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["outputs"][0]["data"]

with concurrent.futures.ThreadPoolExecutor(16) as crew:
    print(json.dumps(list(crew.map(infer, range(24)))))
PYTHON
}

echo "Two devices compute, and their answers are those of one."
configure tune='"off"' timeout_ms=60000
sed -i "s#\"models\": \"models\"#\"models\": \"$work/small\"#" "$work/config.json"
(
  [ -z "$emulated" ] || export CONVOY_EMULATED_DEVICES=1
  export CUDA_VISIBLE_DEVICES=0
  start --config "$work/config.json" --backend cuda
  answers "$work/one"
  [ "$(workers | wc -l)" = 1 ] || fail "there is more than one worker"
  stop
  trap - EXIT # what follows needs $work
)
start_two
answers "$work/two"
json "$work/one" "'%d images, %d numbers each' % (len(d), len(d[0]))"
"$python" -S - "$work/one" "$work/two" <<'PYTHON' || fail "two devices do not answer as one"
import json, sys
one, two = (json.load(open(name)) for name in sys.argv[1:])
worst = max(abs(x - y) / max(map(abs, a)) for a, b in zip(one, two) for x, y in zip(a, b))
print(f"{worst:.1e} apart at most")
sys.exit(len(one) != 24 or len(two) != 24 or not worst < 5e-3) # batches differ, and the model may compute in fp16
PYTHON
echo "$(batches_of 0) batches on one, $(batches_of 1) on the other"
for device in 0 1; do ran_since $device 0 || fail "device $device did nothing"; done

echo "Workers killed under load, one device after the other: no request is lost."
load killed --seconds 600 --connections 16
for device in 1 0; do
  until_true 30 ran_since $device "$(batches_of $device)" || fail "device $device does nothing under load"
  stop_both
  kill -KILL "$(worker_of $device)"
  kill -CONT "$(worker_of $((1 - device)))"
  until_true 30 died $device 1 || fail "the worker's death was not noticed"
  until_true 30 both_up || fail "no worker took its place"
done
until_true 30 ran_since 0 "$(batches_of 0)" || fail "device 0 does nothing any more"
kill -TERM "$load_pid"
loaded killed
all_answered killed 30000
[ "$(metric convoyd_retried_images_total)" -gt 0 ] || fail "nothing was in flight when the workers died"
[ "$(json "$work/killed.json" "d['retried'] > 0")" = True ] || fail "no answer tells of a retry"

echo "A device that is lost for good: the other answers everything, also what was in flight."
retried=$(metric convoyd_retried_images_total)
load lost --seconds 600 --connections 16
until_true 30 ran_since 1 "$(batches_of 1)" || fail "device 1 does nothing under load"
stop_both
touch "$lost"
[ -n "$emulated" ] || kill -KILL "$(worker_of 1)"
kill -CONT "$(worker_of 0)" "$(worker_of 1)" 2>/dev/null || true
until_true 60 died 1 4 || fail "device 1 lives on: $(deaths_of 1)"
[ -z "$emulated" ] || grep -q 'reason=lost' "$work/log" || fail "it was not the device that was lost"
[ "$(metric convoyd_worker_up)" = 1 ] || fail "the lost device is up"
before=$(batches_of 1)
until_true 30 ran_since 0 "$(($(batches_of 0) + 5))" || fail "device 0 does nothing"
kill -TERM "$load_pid"
loaded lost
all_answered lost 30000
[ "$(batches_of 1)" = "$before" ] || fail "the lost device computes"
[ "$(metric convoyd_retried_images_total)" -gt "$retried" ] || fail "nothing was in flight when the device was lost"
[ "$(sample convoyd_slots_in_use)" = 0 ] || fail "slots are in use though nothing runs"

echo "It comes back and computes again."
rm "$lost"
until_true 30 both_up || fail "it is not up again"
load back --seconds 600 --connections 16
until_true 30 ran_since 1 "$before" || fail "device 1 does nothing since it is back"
kill -TERM "$load_pid"
loaded back
all_answered back 30000
stop

echo "Models lie where their configuration says."
mkdir "$work/models"
for name in first second both nowhere partly; do cp -r models/fashion-lenet "$work/models/$name"; done
place() { # MODEL DEVICES
  "$python" -S - "$work/models/$1/config.json" "$2" <<'PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
config["devices"] = json.loads(sys.argv[2])
json.dump(config, open(sys.argv[1], "w"))
PYTHON
}
place first '[0]'
place second '[1]'
place nowhere '[5, 7]'
place partly '[1, 9]'
configure "models=\"$work/models\"" 'default_model="both"' tune='"off"' timeout_ms=60000
sed -i 's/"models": "models", "default_model": "cifar10-convnet", //' "$work/config.json"
start_two
loaded_on() { curl -fsS "$url/metrics" | sed -n "s/^convoyd_weight_bytes{model=\"$1\",.*device=\"cuda:\([0-9]*\)\".*/\1/p" | sort | tr '\n' ' '; }
picture=$(find models/samples/fashion -type f | sort | head -n 1)
classify() { # MODEL: its answers' devices, of eight at once
  local i
  for ((i = 0; i < 8; i++)); do
    curl -sS --data-binary @"$picture" "$url/v2/models/$1/classify" >"$work/answer.$i" &
    posts[i]=$!
  done
  wait "${posts[@]}"
  for ((i = 0; i < 8; i++)); do json "$work/answer.$i" 'd.get("device", d)'; done | sort -u | tr '\n' ' '
}
posts=()
[ "$(loaded_on first)" = "0 " ] || fail "first is loaded on $(loaded_on first)"
[ "$(loaded_on second)" = "1 " ] || fail "second is loaded on $(loaded_on second)"
[ "$(loaded_on partly)" = "1 " ] || fail "partly is loaded on $(loaded_on partly)"
both_loaded() { [ "$(loaded_on both)" = "0 1 " ]; }
until_true 30 both_loaded || fail "both is loaded on $(loaded_on both)"
[ "$(classify first)" = "cuda:0 " ] || fail "first: $(classify first)"
[ "$(classify second)" = "cuda:1 " ] || fail "second: $(classify second)"
[ "$(classify partly)" = "cuda:1 " ] || fail "partly: $(classify partly)"
expect 503 --data-binary @"$picture" "$url/v2/models/nowhere/classify"
grep -q 'devices names 5, 7, but this machine has 2 (cuda), numbered from 0' "$work/body" || fail "$(cat "$work/body")"
grep -q "some of a model's devices are not there.*model=partly.*missing=9.*there=1" "$work/log" || fail "no warning"

echo "Its only device is lost: its images wait for that and get 503, the other models are served."
touch "$lost"
last=$(worker_of 1) || true # it may have found out by itself
[ -z "$last" ] || kill -KILL "$last" || true
until_true 30 died 1 1 || fail "the worker's death was not noticed"
expect 503 --data-binary @"$picture" "$url/v2/models/second/classify?timeout_ms=300"
[ "$(classify both)" = "cuda:0 " ] || fail "both: $(classify both)"
stop

echo "A device that is gone from the start delays no other; what is for it alone says so, and is served when it is there."
start --config "$work/config.json" --backend cuda
[ "$(classify both)" = "cuda:0 " ] || fail "both: $(classify both)"
expect 503 --data-binary @"$picture" "$url/v2/models/second/classify"
grep -q 'none of its devices has a worker' "$work/body" || fail "$(cat "$work/body")"
rm "$lost"
served() { [ "$(curl -s -o /dev/null -w '%{http_code}' --data-binary @"$picture" "$url/v2/models/second/classify")" = 200 ]; }
until_true 60 served || fail "second is not served though its device is there"
stop
echo "passed"
