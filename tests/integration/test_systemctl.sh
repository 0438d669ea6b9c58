#!/usr/bin/env bash
# The units under a systemd of the test's own, a user manager: systemctl start, restart under load, reload, stop, and the end of the
# master. The manager has a cgroup and a /run of its own, so it needs root; nothing of the machine's own systemd is asked or changed.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/truck.jpg
units=$work/units
groups=() # the manager's cgroup, in each hierarchy where systemd keeps one

readelf -d "$build/bin/convoyd" | grep 'libsystemd' >/dev/null || skip "this build has no libsystemd (libsystemd-dev)"
systemd=/usr/lib/systemd/systemd
[ -x $systemd ] || systemd=/lib/systemd/systemd
if [ ! -x $systemd ] || ! command -v systemctl >/dev/null; then skip "there is no systemd (package systemd)"; fi
[ "$(id -u)" = 0 ] || skip "a systemd of the test's own needs root, for its cgroup and its /run"
unshare --mount --propagation private true 2>"$work/refused" || skip "it cannot have a /run of its own: $(cat "$work/refused")"

of_group() { find "${groups[@]}" "$@" 2>/dev/null; }
inside() { of_group -name cgroup.procs -exec cat {} + | sort -u; }
none_inside() {
  local pids
  mapfile -t pids < <(inside)
  [ ${#pids[@]} -eq 0 ] || { kill -KILL "${pids[@]}"; return 1; }
}
end_manager() {
  [ ${#groups[@]} -gt 0 ] || return 0
  until_true 10 none_inside || echo "processes are left in ${groups[0]}"
  of_group -depth -type d -exec rmdir {} \; || true
}
trap 'status=$?; end_manager; finish "$status"' EXIT

while IFS=: read -r _ controllers path; do
  case $controllers in
    name=systemd) at=/sys/fs/cgroup/systemd ;;
    '') if [ -d /sys/fs/cgroup/unified ]; then at=/sys/fs/cgroup/unified; else at=/sys/fs/cgroup; fi ;;
    *) continue ;;
  esac
  at=$at${path%/}
  [ -w "$at/cgroup.procs" ] || continue
  mkdir "$at/convoy-test-$$" 2>"$work/refused" || skip "it cannot have a cgroup of its own: $(cat "$work/refused")"
  groups+=("$at/convoy-test-$$")
done </proc/self/cgroup
[ ${#groups[@]} -gt 0 ] || skip "it cannot have a cgroup of its own: none can be written in /sys/fs/cgroup"

port=$("$python" -S -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
settings() { configure "models=\"$PWD/models\"" 'default_model="cifar10-convnet"' 'backend="cpu"' 'admin_listen=null' "$@"; }
settings
mkdir "$units"
for target in default basic shutdown; do printf '[Unit]\nDescription=%s\n' $target >"$units/$target.target"; done
# Less what this manager cannot do (a user that exists while it runs; bounds, for which it lacks the controllers of cgroups; two of
# Protect), and what would hide the test's files. The watchdog waits a fifth as long.
grep -vE '^(DynamicUser|SupplementaryGroups|CacheDirectory|CacheDirectoryMode|MemoryMax|TasksMax|DevicePolicy|DeviceAllow|ProtectHome|PrivateTmp|ProtectKernelLogs|ProtectKernelTunables)=' \
  systemd/convoyd.service | sed "s|^\\(WatchdogSec\\|TimeoutAbortSec\\)=10|\\1=2|; s|^ExecStart=.*|ExecStart=$(realpath "$build")/bin/convoyd --config $work/config.json\nStandardError=append:$work/log|" \
  >"$units/convoyd.service"
sed "s|^ListenStream=.*|ListenStream=127.0.0.1:$port|" systemd/convoyd.socket >"$units/convoyd.socket"
unset DBUS_SESSION_BUS_ADDRESS # systemctl would ask the machine's own
export SYSTEMD_UNIT_PATH=$units HOME=$work
# shellcheck disable=SC2016 # the shell that becomes the manager expands it
unshare --mount --propagation private sh -c 'systemd=$1
  shift
  for group; do echo $$ >"$group/cgroup.procs" || exit; done
  mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec "$systemd" --user --log-target=null' \
  sh $systemd "${groups[@]}" >"$work/manager" 2>&1 &
disown # its end is no news
until_true 20 test -S "$work/systemd/private" || skip "no systemd starts here, or it ends: $(tail -n 1 "$work/manager")"

status() { timeout 20 systemctl --user --no-pager status convoyd.service; }
manager() { timeout 60 systemctl --user --no-pager "$@" >"$work/said" 2>&1 || fail "systemctl $*: $(cat "$work/said") $(status)"; }
shown() { timeout 20 systemctl --user show --value -p "$1" convoyd.service; }
is() { # PROPERTY VALUE
  [ "$(shown "$1")" = "$2" ] || fail "$1 is $(shown "$1"), not $2: $(status)"
}
classified() {
  expect 200 --data-binary @$image "$url/classify"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
}
logged() { [ "$(grep -c "$2" "$work/log")" -ge "$1" ]; }
lives() { [ -d "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status"; }
dead() { ! lives "$1"; }
reads() { awk '/^rchar/ { print $2 }' "/proc/$1/io"; }

echo "systemctl start returns when the models are served."
: >"$work/log"
manager start convoyd.socket convoyd.service
expect 200 "$url/v2/health/ready"
grep 'msg="convoyd listens"' "$work/log" | grep 'socket=systemd' >/dev/null || fail "it does not use the socket: $(cat "$work/log")"
is ActiveState active
is StatusText "serving 4 models"
is NFileDescriptorStore 0
grep -E 'no files but its own|has no Landlock: (Function not implemented|Operation not supported)' "$work/log" >"$work/confined" ||
  fail "the unit's filter keeps the worker from confining its files: $(grep -a confined "$work/log")"
classified
daemon_of() { shown MainPID; }
worker=$(pgrep -P "$(daemon_of)" convoy-worker)
read_bytes=$(reads "$worker")

echo "systemctl restart under load: the worker stays, loads nothing, and no request on a new connection is refused or lost."
mkfifo "$work/hold"
"$python" tests/tools/restart_load.py "$url" $image <"$work/hold" >"$work/load" &
client=$!
exec 9>"$work/hold"
answering() {
  [ "$(sample 'convoyd_requests_total{model="cifar10-convnet",route="/classify",status="200"}' || true)" -ge 20 ]
}
for restart in 1 2 3; do
  until_true 20 answering || fail "no client is answered before restart $restart"
  before=$(daemon_of)
  manager restart convoyd.service
  [ "$(daemon_of)" != "$before" ] || fail "it is the same daemon"
  logged $restart 'msg="worker taken over.* pid='"$worker"' models_kept=4' || fail "restart $restart: the worker is not taken over"
  is NFileDescriptorStore 0
done
until_true 20 answering || fail "no client is answered after the last restart"
exec 9>&-
wait "$client" || fail "$(cat "$work/load")"
cat "$work/load"
[ "$(json "$work/load" 'd["told"] > 0')" = True ] || fail "the load saw no restart"
lives "$worker" || fail "the worker has ended"
[ "$(grep -c 'msg="worker started"' "$work/log")" = 1 ] || fail "a worker was started"
[ $(($(reads "$worker") - read_bytes)) -lt 1000000 ] || fail "the worker has read $(($(reads "$worker") - read_bytes)) bytes: a model"

echo "systemctl reload: the configuration is read again; a wrong one stands in the status line."
before=$(daemon_of)
manager reload convoyd.service
until_true 10 logged 1 'msg="configuration read again"' || fail "it is not read again"
settings 'batching={"max_delay_us": -1}'
manager reload convoyd.service
complains() { shown StatusText | grep max_delay_us; }
until_true 10 complains || fail "the status line is $(shown StatusText)"
settings
manager reload convoyd.service
serving() { [ "$(shown StatusText)" = "serving 4 models" ]; }
until_true 10 serving || fail "the status line is $(shown StatusText)"
[ "$(daemon_of)" = "$before" ] || fail "another daemon"
lives "$worker" || fail "the worker has ended"
classified

echo "The front is stuck: the watchdog ends the daemon, and systemd starts it again."
before=$(daemon_of)
front=$(pgrep -P "$before" -x convoyd)
kill -STOP "$front"
again() { [ "$(shown NRestarts)" = "$1" ] && [ "$(shown ActiveState)" = active ]; }
until_true 30 again 1 || fail "it is $(shown ActiveState) after $(shown NRestarts) restarts: $(status)"
[ "$(daemon_of)" != "$before" ] || fail "it is the same daemon"
dead "$front" || fail "the front that was stuck is still there"
classified

echo "The master is killed: systemd starts the service again; nothing is kept."
before=$(daemon_of)
worker=$(pgrep -P "$before" convoy-worker)
started=$(grep -c 'msg="worker started"' "$work/log")
kill -KILL "$before"
until_true 30 again 2 || fail "it is $(shown ActiveState) after $(shown NRestarts) restarts: $(status)"
classified
until_true 10 dead "$worker" || fail "the worker lives on"
logged $((started + 1)) 'msg="worker started"' || fail "no other worker"

echo "systemctl stop: all processes end, the worker, too."
worker=$(pgrep -P "$(daemon_of)" convoy-worker)
manager stop convoyd.socket convoyd.service
is ActiveState inactive
is Result success
until_true 10 dead "$worker" || fail "the worker lives on"
nothing_left() { [ -z "$(of_group -path '*/convoyd.service/cgroup.procs' -exec cat {} +)" ]; }
until_true 10 nothing_left || fail "processes are left"
echo "passed"
