#!/usr/bin/env bash
# sanitize: all
# A restart of the daemon by its service manager, which holds the workers' sockets meanwhile (tests/tools/notify_socket.py
# plays it): workers stay with the models that they have loaded, and end when no daemon comes.
# shellcheck source=tests/integration/manager.sh
. "$(dirname "$0")/manager.sh"

image=models/samples/truck.jpg
classified() {
  expect 200 --data-binary @$image "$url/classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
}
logged() { [ "$(grep -c "$2" "$work/log")" -ge "$1" ]; }
started() { holds "len([l for l in r if 'ports' in l]) == $1 and len(said('READY')) >= $1"; }
starts=0
begin() { # MANAGER-OPTIONS... -- ARGUMENTS...
  manage "$@" --backend cpu --config "$work/config.json"
  starts=1
  until_true 30 started 1 || fail "no READY: $(cat "$record")"
  look
}
# look: where the daemon of the last start is.
look() {
  convoyd=$(recorded '[l["pid"] for l in r if "ports" in l][-1]')
  listening || fail "it does not listen"
  url=http://127.0.0.1:$port
  until_true 30 ready || fail "not ready"
}
restart() {
  kill -USR1 "$daemon"
  starts=$((starts + 1))
  until_true 30 started $starts || fail "start $starts: no READY: $(cat "$record")"
  look
}
worker_of() { pgrep -P "$convoyd" convoy-worker; }
lives() { [ -d "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status"; }
dead() { ! lives "$1"; }
stays() { # PID: this one is the only worker; it is no child of the last daemon
  lives "$1" || fail "the worker has ended"
  [ -z "$(worker_of)" ] || fail "there is another worker"
}
reads() { awk '/^rchar/ { print $2 }' "/proc/$1/io"; }
fds_of() { find "/proc/$1/fd" -mindepth 1 | wc -l; }
mkdir "$work/models"
cp -r models/cifar10-convnet "$work/models"
settings() { configure "models=\"$work/models\"" 'default_model="cifar10-convnet"' 'auth={"loopback_admin": true}' 'admin_listen=null' "worker={$1}"; }

echo "Two restarts, the store behind and before the sockets: the worker stays, and loads nothing."
settings '"hang_timeout_ms": 20000'
for place in behind before; do
  begin --store $place --socket 127.0.0.1:0 --
  worker=$(worker_of)
  read_bytes=$(reads "$worker")
  for i in 1 2; do
    restart
    logged $i 'msg="worker taken over.*" device=cpu pid='"$worker"' models_kept=1' || fail "restart $i: it is not taken over"
    classified
    [ "$(recorded '[l for l in r if "stored" in l][-1]["stored"]')" = '[]' ] || fail "the manager holds more: $(tail -n 5 "$record")"
    [ $i = 2 ] || fds=$(fds_of "$convoyd")
  done
  [ "$(fds_of "$convoyd")" = "$fds" ] || fail "the master has $(fds_of "$convoyd") descriptors, after the first restart $fds"
  stays "$worker"
  [ $(($(reads "$worker") - read_bytes)) -lt 100000 ] || fail "the worker has read $(($(reads "$worker") - read_bytes)) bytes: a model"
  [ "$(grep -c 'msg="worker started"' "$work/log")" = 1 ] || fail "a worker was started"
  if [ $place = behind ]; then
    end 0
    until_true 10 dead "$worker" || fail "the worker lives on though nobody holds its socket"
  fi
done

echo "A worker that was kept and dies is replaced: how it ended is not known, and counts as a signal."
kill -KILL "$worker"
until_true 20 logged 1 'msg="worker died and is replaced" device=cpu reason=signal' || fail "its end is not told"
until_true 30 ready || fail "no other worker"
classified
second=$(worker_of)
[ "$(sample 'convoyd_worker_restarts_total{device="cpu",reason="signal"}')" = 1 ] || fail "its end is not counted"

echo "The front crashes, and is upgraded: the kept worker goes on, and is kept again."
restart
killed=$(front_of "$convoyd")
kill -KILL "$killed"
back() { [ -n "$(front_of "$convoyd")" ] && [ "$(front_of "$convoyd")" != "$killed" ] && ready; }
until_true 20 back || fail "no front after a crash"
kill -USR2 "$convoyd"
until_true 20 logged 1 'msg="upgrade: the new front takes over"' || fail "no upgrade"
until_true 20 ready || fail "not ready"
restart
classified
stays "$second"

echo "With other settings the worker is ended, and another one started."
settings '"hang_timeout_ms": 20000, "orphan_ms": 50000'
restart
until_true 10 dead "$second" || fail "the worker of other settings lives on"
lives "$(worker_of)" || fail "no other worker"
end 0

echo "A manager that keeps nothing: the worker ends with the daemon, and the next start is one like any other."
settings '"hang_timeout_ms": 20000'
begin -- --listen 127.0.0.1:0
worker=$(worker_of)
restart
until_true 10 dead "$worker" || fail "the worker lives on"
classified
end 0

echo "So it is with worker.orphan_ms 0, whoever would keep it."
settings '"hang_timeout_ms": 20000, "orphan_ms": 0'
begin --store behind -- --listen 127.0.0.1:0
worker=$(worker_of)
restart
until_true 10 dead "$worker" || fail "the worker lives on"
holds 'not [l for l in r if "FDSTORE" in l.get("said", {})]' || fail "it stores what it does not keep"
end 0

echo "A worker that no front listens to for worker.orphan_ms ends."
settings '"hang_timeout_ms": 20000, "orphan_ms": 2000'
begin --store behind -- --listen 127.0.0.1:0
worker=$(worker_of)
sleep 2.5 # nothing happens while a front reads: there is no event to wait for
lives "$worker" || fail "it has ended while a front reads"
# All stand still, the worker with a message that was not read: it does not know how long the front could have read.
stand_still "$(front_of "$convoyd")"
sleep 0.3
stand_still "$worker"
sleep 2.5
kill -CONT "$worker"
kill -CONT "$(front_of "$convoyd")"
sleep 0.3
lives "$worker" || fail "it has ended though it stood still itself"
stand_still "$(front_of "$convoyd")"
until_true 10 dead "$worker" || fail "it lives on"
kill -CONT "$(front_of "$convoyd")"
until_true 20 logged 1 'msg="worker died and is replaced".*exit status 0' || fail "its end is not told"
until_true 30 ready || fail "no other worker"
end 0
echo "passed"
