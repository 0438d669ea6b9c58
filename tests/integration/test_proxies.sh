#!/usr/bin/env bash
# Requests that could be read in two ways, through a real HAProxy and a real nginx: what these let through is read in one way
# only, and proxy and convoyd count the same requests on the connections that they keep.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

haproxy=$(PATH=$PATH:/usr/sbin command -v haproxy) || skip "there is no haproxy (Debian package haproxy)"
nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || skip "there is no nginx (Debian package nginx-light)"
proxy=
tap=

stop_all() {
  local status=$? pid
  for pid in $proxy $tap; do kill -KILL "$pid" 2>/dev/null || true; done
  set +e # what was wrong must not end this
  finish "$status"
}
trap stop_all EXIT

# through NAME COUNTS COMMAND...: a proxy, which finds its listening socket as descriptor 3 and the server's address in
# $CONVOYD_A, then smuggler.py through it.
through() {
  local name=$1 counts=$2
  shift 2
  mkdir "$work/$name"
  "$python" tests/tools/wiretap.py "${url#http://}" "$work/$name.tap" "$work/$name" &
  tap=$!
  until_true 10 test -s "$work/$name.tap" || fail "the tap did not start"
  CONVOYD_A=127.0.0.1:$(cat "$work/$name.tap") CONVOYD_B=127.0.0.1:1 \
    "$python" tests/tools/on_free_port.py "$work/$name.port" "$@" >"$work/$name.log" 2>&1 &
  proxy=$!
  until_true 10 test -s "$work/$name.port" || fail "$name did not start"
  served() { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$(cat "$work/$name.port")/v2")" = 200 ]; }
  until_true 20 served || fail "$name does not reach convoyd: $(cat "$work/$name.log")"
  # shellcheck disable=SC2086 # words
  "$python" tests/tools/smuggler.py "http://127.0.0.1:$(cat "$work/$name.port")" "$work/$name" $counts >"$work/result" ||
    fail "$name: $(cat "$work/result")"
  echo "$name: $(tail -n 1 "$work/result")"
  kill -TERM $proxy
  wait $proxy || true
  kill -TERM $tap
  wait $tap || true
  proxy=
  tap=
}

start --backend null

CONVOYD_BIND=fd@3 CONVOYD_STATS_BIND=unix@$work/statistics \
  through haproxy "haproxy $work/statistics" "$haproxy" -q -db -f config/haproxy/haproxy.cfg

# nginx finds sockets that it is to take over, by their address, in $NGINX.
cat >"$work/run_nginx" <<'SCRIPT'
mkdir "$1"
port=$(cat "$2")
cat >"$1/nginx.conf" <<CONFIGURATION
daemon off;
worker_processes 1;
pid $1/pid;
error_log $1/errors;
events {}
http {
  client_body_temp_path $1/body;
  proxy_temp_path $1/proxy;
  fastcgi_temp_path $1/fastcgi;
  uwsgi_temp_path $1/uwsgi;
  scgi_temp_path $1/scgi;
  log_format answered \$upstream_status;
  access_log $1/answered answered;
  client_max_body_size 32m;
  upstream convoyd { server $CONVOYD_A; keepalive 8; }
  server {
    listen 127.0.0.1:$port;
    location / {
      proxy_pass http://convoyd;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_request_buffering $4;
    }
  }
}
CONFIGURATION
NGINX="3;" exec "$3" -p "$1" -c "$1/nginx.conf" -e "$1/errors"
SCRIPT
for buffering in on off; do
  name=nginx-$buffering
  through "$name" "nginx $work/run-$name/answered" \
    bash "$work/run_nginx" "$work/run-$name" "$work/$name.port" "$nginx" $buffering
done
stop
echo "passed"
