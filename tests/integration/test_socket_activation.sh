#!/usr/bin/env bash
# sanitize: all
# A listening socket that the service manager holds: it is served, it outlives a restart under load without a request
# lost or a connection refused, and what cannot be served is refused with a sentence.
# shellcheck source=tests/integration/manager.sh
. "$(dirname "$0")/manager.sh"

image=models/samples/ship.jpg
refused() { # SENTENCE MANAGER-OPTIONS...
  local sentence=$1
  shift
  manage "$@" -- --listen 127.0.0.1:0 --backend null
  ended 1
  grep -q "$sentence" "$work/log" || fail "no such sentence: $(cat "$work/log")"
}
# The load has come so far that this daemon has answered a hundred.
answering() {
  [ "$(sample 'convoyd_requests_total{model="cifar10-resnet",route="/classify",status="200"}' || true)" -ge 100 ]
}

echo "The socket is served, over what --listen says; both families."
for address in 127.0.0.1 '[::1]'; do
  manage --socket "$address:0" -- --listen 127.0.0.1:1 --backend null
  until_true 30 holds 'said("READY") == ["1"]' || fail "no READY on $address: $(cat "$record" "$work/log")"
  url=http://$address:$(recorded 'r[0]["ports"][0]')
  expect 200 --data-binary @$image "$url/classify"
  grep 'msg="convoyd listens"' "$work/log" | grep 'socket=systemd' >/dev/null || fail "$(cat "$work/log")"
  tr '\0' '\n' <"/proc/$(pgrep -P "$convoyd" convoy-worker)/environ" >"$work/environment"
  grep -E '^(NOTIFY_SOCKET|WATCHDOG_|LISTEN_)' "$work/environment" && fail "the worker inherits the above"
  for signal in KILL USR2; do # the front crashes; another one takes over
    sleep 1.2                 # one that has served for a second has not failed to start
    killed=$(front_of "$convoyd")
    if [ $signal = USR2 ]; then kill -USR2 "$convoyd"; else kill -KILL "$killed"; fi
    back() { [ "$(front_of "$convoyd" | wc -l)" = 1 ] && [ "$(front_of "$convoyd")" != "$killed" ] && ready; }
    until_true 20 back || fail "no front after SIG$signal: $(cat "$work/log")"
    expect 200 --data-binary @$image "$url/classify"
  done
  end 0
done

echo "A client that connects before the daemon is started is answered by it."
manage --socket 127.0.0.1:0 --lazy -- --backend cpu
[ "$convoyd" = 0 ] || fail "it is started already"
url=http://127.0.0.1:$(recorded 'r[0]["ports"][0]')
curl -sS --max-time 30 -o "$work/first" "$url/v2/health/live" || fail "no answer: $(cat "$work/log")"
until_true 30 ready || fail "not ready"
[ "$(recorded 'r[1]["pid"] > 0')" = True ] || fail "$(cat "$record")"
end 0

echo "Restarts under load: no request is lost, no connection refused."
manage --socket 127.0.0.1:0 -- --backend null
until_true 30 holds 'said("READY") == ["1"]' || fail "no READY: $(cat "$record" "$work/log")"
url=http://127.0.0.1:$(recorded 'r[0]["ports"][0]')
mkfifo "$work/hold"
"$python" tests/tools/restart_load.py "$url" $image <"$work/hold" >"$work/load" &
client=$!
exec 9>"$work/hold"
for restart in 1 2 3 4; do
  until_true 10 answering || fail "no client is answered before restart $restart"
  kill -USR1 "$daemon"
  until_true 30 holds "said('READY') == ['1'] * $((restart + 1))" || fail "restart $restart: $(cat "$record" "$work/log")"
done
until_true 10 answering || fail "no client is answered after the last restart"
exec 9>&-
wait "$client" || fail "$(cat "$work/load")"
cat "$work/load"
[ "$(recorded 'len(set(l["pid"] for l in r if "ports" in l))')" = 5 ] || fail "not restarted: $(cat "$record")"
[ "$(json "$work/load" 'd["told"] > 0')" = True ] || fail "the load saw no restart: $(cat "$work/load")"
end 0

echo "Several sockets are served, a Unix socket among them."
manage --socket 127.0.0.1:0 --socket '[::1]:0' --socket unix -- --backend null
until_true 30 holds 'said("READY") == ["1"]' || fail "no READY: $(cat "$record" "$work/log")"
for i in 0 1; do
  url=http://$([ $i = 0 ] && echo 127.0.0.1 || echo '[::1]'):$(recorded "r[0][\"ports\"][$i]")
  expect 200 --data-binary @$image "$url/classify"
done
expect 200 --abstract-unix-socket "$(sed -n 's/.*msg="convoyd also listens" host=unix:@\([^ ]*\).*/\1/p' "$work/log")" http://localhost/v2
end 0

echo "What cannot be served is named."
refused 'is no listening socket' --socket udp

echo "Sockets that are for another process are left alone."
LISTEN_PID=1 LISTEN_FDS=1 launch --backend null
grep 'msg="convoyd listens"' "$work/log" | grep 'socket=own' >/dev/null || fail "$(cat "$work/log")"
stop
echo "passed"
