#!/usr/bin/env bash
# TLS behind a proxy in every way that docs/internet.md names: ended by nginx (a Unix socket behind it) and by HAProxy (a loopback
# address), passed through by HAProxy (mode tcp) and by nginx (stream). Each time an image is classified, the client's certificate check
# sees whose certificate it is, and the access log has the client's address, whatever the client claims in a header.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

command -v openssl >/dev/null || skip "there is no openssl (Debian package openssl)"
haproxy=$(PATH=$PATH:/usr/sbin command -v haproxy) || skip "there is no haproxy (Debian package haproxy)"
nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || skip "there is no nginx (Debian package nginx-light)"
image=models/samples/ship.jpg
client=127.0.0.7
user="$(id -un) $(id -gn)" # nginx as root gives its workers another user, which may not enter the test's folder

# certificate NAME: signed by itself; NAME.both.pem has the key, too, as HAProxy wants it.
certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/$1.key" -out "$work/$1.pem" \
    -subj "/CN=$1" -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -days 2 2>/dev/null
  cat "$work/$1.pem" "$work/$1.key" >"$work/$1.both.pem"
}

# through NAME CERTIFICATE COMMAND...: a proxy, which finds its listening socket as descriptor 3; then a client through it.
through() {
  local name=$1 certificate=$2 address
  shift 2
  "$python" tests/tools/on_free_port.py "$work/$name.port" "$@" >"$work/$name.log" 2>&1 &
  proxy=$!
  until_true 10 test -s "$work/$name.port" || fail "$name did not start"
  address=https://127.0.0.1:$(cat "$work/$name.port")
  ask=(curl -sS -o "$work/body" -w '%{http_code}' --cacert "$work/$certificate.pem" --interface "$client")
  # shellcheck disable=SC2317 # until_true calls it
  served() { [ "$("${ask[@]}" "$address/v2")" = 200 ]; }
  until_true 20 served || fail "$name does not reach convoyd: $(cat "$work/$name.log" "$work/$name.run/errors" 2>&1)"
  [ "$("${ask[@]}" -H "X-Request-Id: $name" -H 'X-Forwarded-For: 192.0.2.9' -H 'Forwarded: for=192.0.2.9' --data-binary @$image \
    "$address/classify")" = 200 ] || fail "$name: $(cat "$work/body")"
  [ "$(json "$work/body" 'len(d["results"][0]["predictions"])')" = 5 ] || fail "$name: $(cat "$work/body")"
  # shellcheck disable=SC2317 # until_true calls it
  logged() { grep "msg=request request_id=$name client=" "$work/log" >"$work/line"; }
  until_true 10 logged || fail "$name: the access log lacks the request"
  grep " client=$client " "$work/line" >/dev/null || fail "$name: another client than $client: $(cat "$work/line")"
  echo "$name: $(grep -o 'client=[^ ]*' "$work/line")"
  kill -TERM $proxy
  wait $proxy || true
  proxy=
}

# nginx finds sockets that it is to take over, by their address, in $NGINX. The line that listens has LISTEN where the address goes.
nginx_through() { # NAME CERTIFICATE
  mkdir "$work/$1.run"
  cat >"$work/$1.start" <<SCRIPT
sed "s/LISTEN/127.0.0.1:\$(cat "$work/$1.port")/" "$work/$1.conf" >"$work/$1.run/nginx.conf"
NGINX="3;" exec "$nginx" -p "$work/$1.run" -c "$work/$1.run/nginx.conf" -e "$work/$1.run/errors"
SCRIPT
  through "$1" "$2" bash "$work/$1.start"
}

certificate proxy
certificate own

echo "TLS ends in the proxy."
configure 'default_model="cifar10-convnet"' 'http={"trusted_proxies": ["127.0.0.1", "unix"], "forwarded_header": "x-forwarded-for"}' \
  "listen=[\"127.0.0.1:0\", \"unix:$work/convoyd.sock\"]" 'log={"access": "all"}'
launch_as "$build/bin/convoyd" --backend null --config "$work/config.json"
until_true 30 ready || fail "convoyd was not ready within 30 s"

cat >"$work/nginx-ends.conf" <<CONFIGURATION
daemon off;
user $user;
worker_processes 1;
pid pid;
events {}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream convoyd { server unix:$work/convoyd.sock; keepalive 8; }
  server {
    listen LISTEN ssl;
    ssl_certificate $work/proxy.pem;
    ssl_certificate_key $work/proxy.key;
    client_max_body_size 32m;
    location / {
      proxy_pass http://convoyd;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host \$host;
      proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;
    }
  }
}
CONFIGURATION
nginx_through nginx-ends proxy

cat >"$work/defaults" <<CONFIGURATION
defaults
  timeout connect 5s
  timeout client 30s
  timeout server 30s
CONFIGURATION
{
  cat "$work/defaults"
  cat <<CONFIGURATION
  mode http
  option forwardfor
frontend f
  bind fd@3 ssl crt $work/proxy.both.pem
  default_backend b
backend b
  server s 127.0.0.1:$port
CONFIGURATION
} >"$work/haproxy-ends.cfg"
through haproxy-ends proxy "$haproxy" -q -db -f "$work/haproxy-ends.cfg"
stop

echo "The proxy passes TLS through, and tells the client's address by the PROXY protocol."
configure 'default_model="cifar10-convnet"' 'http={"trusted_proxies": ["127.0.0.1"], "forwarded_header": "proxy-protocol"}' \
  "tls={\"certificate\": \"$work/own.pem\", \"key\": \"$work/own.key\"}" 'log={"access": "all"}'
launch --backend null --config "$work/config.json" --health-listen 127.0.0.1:0
url=http://127.0.0.1:$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
until_true 30 ready || fail "convoyd was not ready within 30 s"

{
  cat "$work/defaults"
  cat <<CONFIGURATION
  mode tcp
frontend f
  bind fd@3
  default_backend b
backend b
  server s 127.0.0.1:$port send-proxy-v2
CONFIGURATION
} >"$work/haproxy-passes.cfg"
through haproxy-passes own "$haproxy" -q -db -f "$work/haproxy-passes.cfg"

# Debian has nginx's stream as a module of its own, where nginx says that modules lie.
stream() {
  local module
  module=$("$nginx" -V 2>&1 | tr ' ' '\n' | sed -n 's/^--modules-path=//p')/ngx_stream_module.so
  if [ -e "$module" ]; then
    echo "load_module $module;"
  else
    "$nginx" -V 2>&1 | tr ' ' '\n' | grep -x -e --with-stream >/dev/null
  fi
}
if ! stream >"$work/load"; then
  stop
  skip "nginx has no stream (Debian package libnginx-mod-stream); the other proxies passed"
fi
{
  cat "$work/load"
  cat <<CONFIGURATION
daemon off;
user $user;
worker_processes 1;
pid pid;
events {}
stream {
  server {
    listen LISTEN;
    proxy_pass 127.0.0.1:$port;
    proxy_protocol on;
  }
}
CONFIGURATION
} >"$work/nginx-passes.conf"
nginx_through nginx-passes own
stop
echo "passed"
