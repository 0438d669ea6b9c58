#!/usr/bin/env bash
# sanitize: yes
# Model files that change under a running daemon, seen when a worker is replaced; and a worker that dies idle.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
stand_ins_use_files

mkdir -p "$work/models/a/1" "$work/models/b/1"
cp models/cifar10-convnet/1/model.onnx "$work/models/a/1/"
cp models/cifar10-convnet/1/model.onnx "$work/models/b/1/"
start --models "$work/models"

state() { curl -fsS "$url/v2/models" >"$work/list" && json "$work/list" "[m['state'] for m in d['models'] if m['name']=='$1'][0]"; }
is() { [ "$(state "$1")" = "$2" ]; }
replaced() { local now; now=$(workers) && [ "$now" != "$1" ] && ready; }
kill_worker() {
  local old
  old=$(workers)
  kill -KILL "$old"
  until_true 10 replaced "$old" || fail "the worker was not replaced"
}
classify() { curl -sS -o "$work/body" -w '%{http_code}' --data-binary @models/samples/ship.jpg "$url/v2/models/$1/classify"; }

# Another network under the same name: its rows and outputs are not what requests were prepared for.
cp tests/data/networks/resnet18_old_op11/model.onnx "$work/models/a/1/model.onnx"
kill_worker
until_true 10 is a FAILED || fail "a model whose shape changed is $(state a)"
grep -q 'restart convoyd' "$work/list" || fail "no word of what to do: $(cat "$work/list")"
[ "$(classify a)" = 503 ] || fail "a changed model answered $(cat "$work/body")"
[ "$(classify b)" = 200 ] || fail "the other model answered $(cat "$work/body")"

# The old file comes back: so does the model, without a restart.
cp models/cifar10-convnet/1/model.onnx "$work/models/a/1/model.onnx"
until_true 20 is a READY || fail "a model that was mended is $(state a)"
[ "$(classify a)" = 200 ] || fail "a mended model answered $(cat "$work/body")"

# The same for a file that is away for a while.
mv "$work/models/a/1/model.onnx" "$work/away"
kill_worker
until_true 10 is a FAILED || fail "a model without its file is $(state a)"
[ "$(classify b)" = 200 ] || fail "the other model answered $(cat "$work/body")"
mv "$work/away" "$work/models/a/1/model.onnx"
until_true 20 is a READY || fail "a model whose file came back is $(state a)"
[ "$(classify a)" = 200 ] || fail "a model that came back answered $(cat "$work/body")"

# A worker that served for a while and dies idle is replaced at once, every time.
for _ in 1 2 3; do
  sleep 1.2 # longer than a start that failed would live
  kill_worker
done
delays=$(grep -c 'msg="worker died and is replaced".* in_ms=0' "$work/log")
[ "$delays" -ge 4 ] || fail "an idle worker was not replaced at once: $(grep in_ms "$work/log")"
stop

# A worker whose loading does not end makes the daemon not ready, however well its heart beats.
echo '{"ready_grace_ms": 100}' >"$work/grace.json"
export CONVOY_TEST_FAULT="stall:a:$work/stalled"
rm -rf "$work/models/b"
start --config "$work/grace.json" --models "$work/models"
up() { curl -fsS "$url/metrics" >"$work/metrics" && grep -q "^convoyd_worker_up{device=\"cpu\"} $1\$" "$work/metrics"; }
not_ready() { ! ready; }
up 1 || fail "a worker that serves is not up"
touch "$work/stalled"
kill -KILL "$(workers)"
until_true 10 not_ready || fail "ready, though no worker can serve"
until_true 10 up 0 || fail "a worker that serves nothing is up"
rm "$work/stalled"
until_true 10 ready || fail "not ready, though the worker serves again"
until_true 10 up 1 || fail "a worker that serves again is not up"
[ "$(classify a)" = 200 ] || fail "after the stall: $(cat "$work/body")"
stop

# A model that takes long to load beside another that serves: requests are answered meanwhile, and between them the worker
# sleeps. In the time of ten heartbeats of its main thread, the others wake up some hundred times for the stall alone,
# and would do so ten thousand times if they looked for work by the clock.
mkdir -p "$work/models/b/1"
cp models/cifar10-convnet/1/model.onnx "$work/models/b/1/"
echo '{"model_control": "explicit", "repository": {"load_at_start": ["b"]}, "auth": {"loopback_admin": true}}' >"$work/explicit.json"
start --config "$work/explicit.json" --models "$work/models"
wakeups() { # of the main thread, of all others
  awk -v main="$1" 'FNR == 1 { split(FILENAME, part, "/") } /^voluntary/ { n[part[5] == main] += $2 }
    END { print n[1], n[0] }' "/proc/$1"/task/*/status
}
beaten() { [ "$(wakeups "$pid" | cut -d' ' -f1)" -ge $((main + 10)) ]; }
touch "$work/stalled"
curl -sS -o "$work/loading" -X POST "$url/v2/repository/models/a/load" &
loading=$!
until_true 10 is a LOADING || fail "a model that is to be loaded is $(state a)"
pid=$(workers)
[ "$(classify b)" = 200 ] || fail "beside a load: $(cat "$work/body")"
read -r main before < <(wakeups "$pid")
until_true 20 beaten || fail "no heartbeat beside a load"
read -r main after < <(wakeups "$pid")
[ $((after - before)) -lt 1000 ] || fail "the worker woke up $((after - before)) times while it had nothing to do"
[ "$(classify b)" = 200 ] || fail "beside a load: $(cat "$work/body")"
rm "$work/stalled"
wait "$loading"
[ "$(classify a)" = 200 ] || fail "after the load: $(cat "$work/body")"
stop
