#!/usr/bin/env bash
# sanitize: yes
# The client's address behind a proxy: what a trusted one says is in the access log, what others say is not; through a real
# HAProxy and a real nginx, which pass a client's own claims on.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

haproxy=$(PATH=$PATH:/usr/sbin command -v haproxy) || skip "there is no haproxy (Debian package haproxy)"
nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || skip "there is no nginx (Debian package nginx-light)"

# logged ID: the client of the request with that id.
logged() { sed -n "s/.*msg=request request_id=$1 client=\([^ ]*\).*/\1/p" "$work/log"; }
is_logged() { [ "$(logged "$1")" = "$2" ]; }
number=0
# client ADDRESS CURL-ARGUMENTS...: the request is logged with that client.
client() {
  local wanted=$1
  shift
  number=$((number + 1))
  expect 200 -H "X-Request-Id: r$number" "$@"
  until_true 10 is_logged r$number "$wanted" || fail "$*: logged as '$(logged r$number)', expected $wanted"
}
# serve HEADER PROXIES
serve() {
  configure "http={\"forwarded_header\": \"$1\", \"trusted_proxies\": $2}" 'log={"access": "all"}'
  start --backend null --config "$work/config.json" --listen 127.0.0.1:0 --listen "unix:$work/socket"
}

echo "Without trusted proxies the header says nothing."
serve x-forwarded-for '[]'
client 127.0.0.1 -H 'X-Forwarded-For: 203.0.113.9' "$url/v2"
stop

echo "Of a trusted one it does, of another address it does not, and the other header never."
serve x-forwarded-for '["127.0.0.1", "10.0.0.0/8", "unix"]'
client 203.0.113.9 -H 'X-Forwarded-For: 203.0.113.9' "$url/v2"
client 203.0.113.9 -H 'X-Forwarded-For: 198.51.100.1' -H 'X-Forwarded-For: 203.0.113.9, 10.1.1.1' "$url/v2"
client 127.0.0.1 -H 'X-Forwarded-For: 203.0.113.9, unknown' "$url/v2"
client 127.0.0.1 -H 'Forwarded: for=203.0.113.9' "$url/v2"
client 127.0.0.2 --interface 127.0.0.2 -H 'X-Forwarded-For: 203.0.113.9' "$url/v2"
client 203.0.113.9 --unix-socket "$work/socket" -H 'X-Forwarded-For: 203.0.113.9' http://localhost/v2

echo "Through HAProxy and nginx: what the client claims does not count."
cat >"$work/haproxy.cfg" <<CONFIGURATION
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend f
  bind fd@3
  option forwardfor
  default_backend b
backend b
  server s 127.0.0.1:$port
CONFIGURATION
"$python" tests/tools/on_free_port.py "$work/port" "$haproxy" -q -db -f "$work/haproxy.cfg" >"$work/proxy.log" 2>&1 &
proxy=$!
until_true 10 test -s "$work/port" || fail "haproxy did not start"
through=http://127.0.0.1:$(cat "$work/port")
until_true 20 curl -fs -o /dev/null "$through/v2" || fail "haproxy does not reach convoyd: $(cat "$work/proxy.log")"
client 127.0.0.5 --interface 127.0.0.5 -H 'X-Forwarded-For: 203.0.113.9' "$through/v2"
kill -TERM $proxy
wait $proxy || true
proxy=
cat >"$work/nginx.conf" <<CONFIGURATION
daemon off;
user $(id -un);
worker_processes 1;
pid $work/pid;
error_log $work/errors;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
  server {
    listen unix:$work/nginx.sock;
    location / {
      proxy_pass http://unix:$work/socket;
      proxy_set_header X-Forwarded-For "\$http_x_forwarded_for, 192.0.2.33";
    }
  }
}
CONFIGURATION
"$nginx" -e "$work/errors" -c "$work/nginx.conf" >"$work/proxy.log" 2>&1 &
proxy=$!
until_true 20 curl -fs -o /dev/null --unix-socket "$work/nginx.sock" http://localhost/v2 ||
  fail "nginx does not reach convoyd: $(cat "$work/proxy.log" "$work/errors")"
client 192.0.2.33 --unix-socket "$work/nginx.sock" -H 'X-Forwarded-For: 203.0.113.9' http://localhost/v2
kill -TERM $proxy
wait $proxy || true
proxy=
stop

echo "Forwarded (RFC 7239)."
serve forwarded '["127.0.0.0/8"]'
client 2001:db8::1 -H 'Forwarded: for=1.1.1.1, for="[2001:db8::1]:80";proto=https' "$url/v2"
client 127.0.0.1 -H 'Forwarded: for=1.1.1.1;host=", for=203.0.113.9' "$url/v2"
client 127.0.0.1 -H 'X-Forwarded-For: 203.0.113.9' "$url/v2"
stop
echo "passed"
