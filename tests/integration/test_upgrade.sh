#!/usr/bin/env bash
# sanitize: all
# timed: it measures how long answers take while another front takes over
# SIGUSR2: the program that lies at the path now takes over, with the workers and their models. BACKEND=cuda (CONVOY_BUILD=PACK) does the
# same on a GPU.
# shellcheck source=tests/integration/faults.sh
. "$(dirname "$0")/faults.sh"

image=models/samples/truck.jpg
make_tree
cp "$built/bin/"convoyd "$built/bin/"convoy-worker "$tree/bin"
classified() {
  expect 200 --data-binary @$image "$url/classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
}
logged() { [ "$(grep -c "$2" "$work/log")" -ge "$1" ]; }
all_models() { [ "$(curl -fsS "$url/v2/models" | "$python" -S -c 'import json, sys; print({m["state"] for m in json.load(sys.stdin)["models"]})')" = "{'READY'}" ]; }
taken_over() { # COUNT: so many upgrades are over
  logged "$1" 'msg="upgrade: the new front takes over"' && [ "$(front | wc -l)" = 1 ] && ready
}
upgrades=0
upgrade() {
  upgrades=$((upgrades + 1))
  kill -USR2 "$daemon"
  until_true 30 taken_over $upgrades || fail "upgrade $upgrades does not end"
}
fds_of() { find "/proc/$1/fd" -mindepth 1 | wc -l; }
rss_of() { awk '/VmRSS/ { print $2 }' "/proc/$1/status"; }

echo "Under load: no request is lost, no connection refused, no model loaded; workers are the same."
start "${on_backend[@]}"
until_true 60 all_models || fail "models are not loaded"
pids=$(workers)
read_bytes() { awk '/^rchar/ { print $2 }' "/proc/$(worker)/io"; }
before=$(read_bytes)
"$python" tests/tools/upgrade_load.py "$url" "$daemon" "$work/log" 3 >"$work/load" || fail "$(cat "$work/load")"
cat "$work/load"
[ "$(workers)" = "$pids" ] || fail "other workers: $(workers), before $pids"
[ $(($(read_bytes) - before)) -lt 1000000 ] || fail "the worker has read $(($(read_bytes) - before)) bytes: a model"
[ "$(grep -c 'msg="worker taken over.* models_kept=4' "$work/log")" = 3 ] || fail "not all models were kept"
upgrades=3
restarts() { sample "convoyd_front_restarts_total{reason=\"$1\"}"; }
[ "$(restarts signal) $(restarts upgrade)" = "0 3" ] || fail "counted are $(restarts signal) $(restarts upgrade)"

echo "Ten more: memory and descriptors are as before, of the master, the front and the worker."
upgrade
fds="$(fds_of "$daemon") $(fds_of "$(front)") $(fds_of "$(worker)")"
rss=$(rss_of "$daemon")
worker_rss=$(rss_of "$(worker)")
for _ in 1 2 3 4 5 6 7 8 9 10; do
  upgrade
  classified
done
same_fds() { [ "$(fds_of "$daemon") $(fds_of "$(front)") $(fds_of "$(worker)")" = "$fds" ]; }
until_true 10 same_fds || fail "descriptors: $(fds_of "$daemon") $(fds_of "$(front)") $(fds_of "$(worker)"), before $fds"
if [[ $built != *san* ]]; then # a sanitizer keeps what was freed
  [ "$(rss_of "$daemon")" -lt $((rss + 500)) ] || fail "the master's memory: $(rss_of "$daemon") kB, before $rss"
  [ "$(rss_of "$(worker)")" -lt $((worker_rss + 4000)) ] || fail "the worker's memory: $(rss_of "$(worker)") kB, before $worker_rss"
fi
[ "$(workers)" = "$pids" ] || fail "other workers"

echo "It is the program that lies at the path now; crashes and the death of a worker are met as before."
cp "$built/bin/convoyd" "$work/new"
mv "$work/new" "$tree/bin/convoyd"
upgrade
[ "$(stat -L -c %i "/proc/$(front)/exe")" = "$(stat -c %i "$tree/bin/convoyd")" ] || fail "another program"
sleep 1.2 # a front that has served for a second has not failed to start
killed=$(front)
kill -KILL "$killed"
back() { [ -n "$(front)" ] && [ "$(front)" != "$killed" ] && ready; }
until_true 20 back || fail "no front after a crash"
[ "$(restarts signal) $(restarts upgrade)" = "1 $upgrades" ] || fail "counted are $(restarts signal) $(restarts upgrade)"
kill -KILL "$(worker)"
until_true 20 logged 1 'msg="worker died and is replaced"' || fail "the worker's end is not told"
until_true 30 ready || fail "no other worker"
classified

echo "A request that is being received is answered by the front that has it."
"$python" - "$url" "$daemon" $image "$work/log" <<'PYTHON' || fail "see above"
import os, signal, sys, time
sys.path.insert(0, "tests/tools")
from wire import Connection
url, daemon, image, log = sys.argv[1], int(sys.argv[2]), open(sys.argv[3], "rb").read(), sys.argv[4]
count = lambda: open(log).read().count('msg="handing over')
slow, kept = Connection(url), Connection(url)
kept.ask("GET", "/v2")
assert kept.answer().headers.get("connection", "") != "close"
half = len(image) // 2
slow.send(b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(image) + image[:half])
before = count()
os.kill(daemon, signal.SIGUSR2)
end = time.monotonic() + 20
while count() == before:
    assert time.monotonic() < end, "no handover"
    time.sleep(0.01)
kept.ask("GET", "/v2/health/live")
answer = kept.answer()
assert answer.status == 200 and answer.headers["connection"] == "close", answer
slow.send(image[half:])
answer = slow.answer()
assert answer.status == 200 and answer.headers["connection"] == "close", answer
PYTHON
upgrades=$((upgrades + 1))
until_true 30 taken_over $upgrades || fail "the upgrade does not end"

echo "A connection that was accepted before is served when its first request comes a moment later."
"$python" - "$url" "$daemon" "$work/log" <<'PYTHON' >"$work/upgraded" || fail "see above"
import os, signal, sys, time
sys.path.insert(0, "tests/tools")
from wire import Closed, Connection
url, daemon, log = sys.argv[1], int(sys.argv[2]), sys.argv[3]
count = lambda what: open(log).read().count(what)
def attempt():
    """Whether the request was answered. The front waits for it for 250 ms, which a busy machine may take away."""
    with Connection(url) as fresh, Connection(url) as other:
        other.ask("GET", "/v2")  # it was accepted later than the first
        other.answer()
        before, over, end = count('msg="handing over'), count("takes over"), time.monotonic() + 30
        os.kill(daemon, signal.SIGUSR2)
        while count('msg="handing over') == before and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(0.1)
        try:
            fresh.ask("GET", "/v2/health/live")
            answered = fresh.answer().status == 200
        except Closed:
            answered = False
        while count("takes over") == over:
            assert time.monotonic() < end, "the upgrade does not end"
            time.sleep(0.01)
        return answered
for attempts in range(1, 6):
    if attempt():
        print(attempts)
        sys.exit()
    time.sleep(1)
sys.exit("it is closed")
PYTHON
upgrades=$((upgrades + $(cat "$work/upgraded")))
until_true 30 taken_over $upgrades || fail "the upgrade does not end"

echo "A program that does not start, has another ABI and loads nothing, or is never prepared: the front before serves on, and the log says why."
serving=$(front)
given_up=0
refused() { # SENTENCE
  given_up=$((given_up + 1))
  kill -USR2 "$daemon"
  until_true 30 logged $given_up 'msg="the upgrade is given up' || fail "not given up: $1"
  grep 'msg="the upgrade is given up' "$work/log" | tail -n 1 | grep "$1" >/dev/null || fail "not '$1': $(grep 'given up' "$work/log")"
  alone() { [ "$(front)" = "$serving" ]; }
  until_true 10 alone || fail "another front: $(front)"
  classified
}
mv "$tree/bin/convoyd" "$work/kept_program"
refused "cannot start $tree/bin/convoyd"
printf '#!/bin/sh\nexit 3\n' >"$tree/bin/convoyd"
chmod +x "$tree/bin/convoyd"
refused 'status 3'
cat >"$tree/bin/convoyd" <<'PROGRAM'
#!/usr/bin/env python3
# Says that it is prepared, with another ABI, and does not know what it is told then.
import os, socket, struct
master = socket.socket(fileno=int(os.environ["CONVOYD_MASTER"]))
receive = lambda: struct.unpack("IIi", master.recv(20000)[:12])[0]
while receive() != 12:
    pass
master.send(struct.pack("IIi", 2, 0, 999))
raise SystemExit(4 if receive() == 21 else 5)
PROGRAM
refused 'status 4'
cat >"$tree/bin/convoyd" <<'PROGRAM'
#!/bin/sh
exec sleep 100
PROGRAM
refused 'not prepared in time'
cp "$work/kept_program" "$tree/bin/convoyd"
upgrade

echo "Told twice at once it upgrades once; SIGTERM in the middle ends it in order."
upgrades=$((upgrades + 1))
kill -USR2 "$daemon"
until_true 10 logged $((upgrades + given_up)) 'msg="upgrade: another front' || true
kill -USR2 "$daemon"
until_true 30 taken_over $upgrades || fail "no upgrade"
classified
load ended --seconds 2
kill -USR2 "$daemon"
stop
wait "$load_pid" || true

echo "Addresses, sockets and models are those of the configuration that the new front reads."
configure "listen=[\"127.0.0.1:0\", \"unix:$work/socket\"]" 'health_listen="127.0.0.1:0"' "admin_listen=\"unix:$work/admin\""
mkdir "$work/models"
cp -r models/cifar10-convnet models/fashion-lenet "$work/models"
launch_as "$build/bin/convoyd" --config "$work/config.json" --models "$work/models" "${on_backend[@]}"
upgrades=0
until_true 20 ready || fail "not ready"
until_true 20 all_models || fail "not all models"
first=$url
configure "listen=[\"127.0.0.2:0\", \"unix:$work/socket\"]" "admin_listen=\"unix:$work/admin\""
rm -r "$work/models/fashion-lenet"
kill -USR2 "$daemon"
moved() { listening && url=http://127.0.0.2:$port && [ "$url" != "$first" ] && logged 1 'takes over' && ready; }
until_true 30 moved || fail "the new address is not served"
classified
closed() { # refused, not left to wait
  local status=0
  curl -s -o /dev/null --max-time 2 "$first/v2" || status=$?
  [ $status = 7 ]
}
until_true 10 closed || fail "the old address is served"
first=http://127.0.0.1:$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
until_true 10 closed || fail "the old health_listen is served"
expect 200 --unix-socket "$work/socket" http://localhost/v2/health/live
expect 200 --unix-socket "$work/admin" http://localhost/v2/health/live
logged 1 'models_kept=1' || fail "$(grep taken "$work/log")"
[ "$(curl -fsS "$url/v2/models" | "$python" -S -c 'import json, sys; print(len(json.load(sys.stdin)["models"]))')" = 1 ] || fail "a model is left"
stop
for socket in socket admin; do [ ! -e "$work/$socket" ] || fail "$socket is left"; done
echo "passed"
