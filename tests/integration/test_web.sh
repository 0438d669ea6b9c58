#!/usr/bin/env bash
# sanitize: all
# The page at / and /totals, without a browser (test_web_browser.sh drives one): headers, policy, sizes, entity tags, references;
# what keys, limits, web.enabled and the prefix of a proxy make of them.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
(umask 077; : >"$work/keys")
for role in infer metrics,admin; do
  "$build/bin/convoy" key "${role//,/-}" "$role" >>"$work/keys" 2>"$work/key"
  tail -n 1 "$work/key" >"$work/key-$role"
done
bearer() { echo "Authorization: Bearer $(cat "$work/key-$1")"; }
files() { "$python" tests/tools/web_files.py "$1" server/web/page server/api/openapi.json || fail "see above"; }
# total EXPRESSION [CURL-ARGUMENT...]: of the document d at /totals.
total() { expect 200 "${@:2}" "$url/totals" && json "$work/body" "$1"; }
is() { [ "$(total "$1")" = "$2" ] || fail "$1 is $(total "$1"), not $2: $(cat "$work/body")"; }

echo "The files."
configure 'backend="null"' 'default_model="cifar10-convnet"'
start --config "$work/config.json"
files "$url"

echo "Totals."
is 'd["answers"]' "{'2xx': 0, '4xx': 0, '5xx': 0}"
expect 200 --data-binary @models/samples/ship.jpg "$url/classify"
expect 200 -F a=@models/samples/ship.jpg -F b=@models/samples/truck.jpg "$url/v2/models/cifar10-resnet/classify"
expect 415 --data-binary @README.md "$url/classify"
expect 404 --data-binary @models/samples/ship.jpg "$url/v2/models/none/classify"
expect 404 "$url/none"
is 'd["answers"]' "{'2xx': 2, '4xx': 2, '5xx': 0}"
is 'd["images"], sum(d["batch_size"]["counts"]) <= 3, len(d["batch_size"]["counts"]) - len(d["batch_size"]["bounds"])' '(3, True, 1)'
is 'sum(d["latency_us"]["counts"]), len(d["latency_us"]["counts"]) - len(d["latency_us"]["bounds"])' "(3, 1)"
is 'd["queue_images"], d["slots_in_use"], d["retried_images"], d["may_load"]' '(0, 0, 0, False)'
is '[(x["device"], x["up"], x["restarts"], x["batches"] == sum(d["batch_size"]["counts"])) for x in d["devices"]]' "[('null', True, 0, True)]"
first=$(total 'd["time_us"]')
[ "$(total "d['time_us'] > $first")" = True ] || fail "the clock does not rise"
[ "$(wc -c <"$work/body")" -lt 1500 ] || fail "it is not small: $(wc -c <"$work/body") bytes"
expect 405 -X POST "$url/totals"
kill -KILL "$(workers)"
restarted() { [ "$(total '[(x["up"], x["restarts"]) for x in d["devices"]]')" = '[(True, 1)]' ]; }
until_true 20 restarted || fail "the worker's restart is not told: $(cat "$work/body")"
stop

echo "Keys and limits: the page needs none, and what it asks for does."
configure 'backend="null"' 'default_model="cifar10-convnet"' 'model_control="explicit"' "auth={\"keys\": \"$work/keys\", \"anonymous\": []}" \
  'limits={"requests_per_second": 0.001, "burst": 10}'
start --config "$work/config.json"
files "$url" # of the paths that it asks for in vain, six are none of the page's and count
expect 401 "$url/totals"
expect 403 -H "$(bearer infer)" "$url/totals"
[ "$(total 'd["may_load"]' -H "$(bearer metrics,admin)")" = True ] || fail "admin may not load"
expect 401 -H 'Authorization: Bearer wrong' "$url/totals"
expect 429 -H "$(bearer metrics,admin)" "$url/totals"
expect 200 "$url/"
stop
configure 'backend="null"' 'model_control="explicit"' 'auth={"loopback_admin": true}'
start --config "$work/config.json"
is 'd["may_load"]' True
[ "$(total 'd["may_load"]' -H 'Origin: https://evil.example')" = False ] || fail "a page of another site may load"
[ "$(total 'd["may_load"]' -H 'X-Forwarded-For: 192.0.2.1')" = False ] || fail "a client behind a proxy may load"
[ "$(total 'd["may_load"]' --unix-socket "$work/convoyd/admin-$port.sock")" = True ] || fail "the admin socket may not load"
stop

if command -v nginx >/dev/null; then
  echo "Behind a proxy, below a prefix."
  configure 'backend="null"' 'default_model="cifar10-convnet"'
  start --config "$work/config.json"
  cat >"$work/nginx.conf" <<CONF
daemon off; master_process off; pid $work/nginx.pid; error_log stderr;
events {}
http {
  access_log off; client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
  server {
    listen unix:$work/proxy.sock;
    location = /convoy { return 301 /convoy/; }
    location /convoy/ { proxy_pass $url/; }
  }
}
CONF
  nginx -c "$work/nginx.conf" -e stderr 2>"$work/nginx" &
  proxy=$!
  until_true 10 curl -fs -o /dev/null --unix-socket "$work/proxy.sock" http://localhost/convoy/ || fail "nginx: $(cat "$work/nginx")"
  for path in convoy/ convoy/web/main.js convoy/totals convoy/v2/models; do
    expect 200 --unix-socket "$work/proxy.sock" "http://localhost/$path"
  done
  kill "$proxy"
  wait "$proxy" || true
  proxy=
  stop
fi

echo "Turned off."
configure 'backend="null"' 'web={"enabled": false}'
start --config "$work/config.json"
for path in / /web/main.js /web/none; do
  expect 404 "$url$path"
  expect 404 -X POST "$url$path"
done
expect 200 "$url/totals"
stop
echo "passed"
