#!/usr/bin/env bash
# sanitize: yes
# Several addresses: TCP over both families and Unix sockets are served at once, also with TLS on, where Unix sockets stay
# plain; the file of a socket, its mode, and one that a killed daemon left.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
socket=$work/convoyd.sock
other_port() { sed -n 's/.*msg="convoyd also listens".* host=::1 port=\([0-9]*\).*/\1/p' "$work/log"; }
# over_socket CURL-ARGUMENTS...
over_socket() { expect 200 --unix-socket "$socket" "$@"; }

echo "Three addresses."
start --backend null --listen 127.0.0.1:0 --listen '[::1]:0' --listen "unix:$socket"
[ "$(stat -c '%F %a' "$socket")" = 'socket 660' ] || fail "the socket's file: $(stat -c '%F %a' "$socket")"
expect 200 --data-binary @$image "$url/classify"
expect 200 --data-binary @$image "http://[::1]:$(other_port)/classify"
over_socket --data-binary @$image http://localhost/classify
for address in "$url" "http://[::1]:$(other_port)" "unix:$socket"; do
  "$build/bin/convoy" --url "$address" classify $image >"$work/out" || fail "convoy --url $address"
  CONVOY_URL=$address "$build/bin/convoy" models >"$work/out" || fail "CONVOY_URL=$address"
done

echo "A second daemon does not take the socket of one that serves; the first removes its file at its end."
status=0
"$build/bin/convoyd" --backend null --listen "unix:$socket" 2>"$work/second" || status=$?
[ $status = 1 ] || fail "a second daemon: status $status"
grep "cannot listen on unix:$socket: .*another path with --listen" "$work/second" >/dev/null || fail "$(cat "$work/second")"
over_socket http://localhost/v2
stop
[ ! -e "$socket" ] || fail "the file of the socket stays"
status=0
"$build/bin/convoy" --url "unix:$socket" models >"$work/out" 2>&1 || status=$?
[ $status = 3 ] || fail "convoy and no server: status $status"
grep "no server answers at unix:$socket" "$work/out" >/dev/null || fail "$(cat "$work/out")"

echo "What a killed daemon left is replaced; a file that is no socket is not."
start --backend null --listen 127.0.0.1:0 --listen "unix:$socket"
kill -KILL "$daemon"
wait "$daemon" || true
[ -S "$socket" ] || fail "a killed daemon removes its file"
configure 'default_model="cifar10-convnet"' "listen=[\"unix:$socket\", \"127.0.0.1:0\"]" 'listen_mode="0600"'
: >"$work/log"
"$build/bin/convoyd" --backend null --config "$work/config.json" 2>"$work/log" &
daemon=$!
served() { curl -fs -o /dev/null --unix-socket "$socket" http://localhost/v2/health/ready; }
until_true 30 served || fail "convoyd is not ready on its socket"
[ "$(stat -c %a "$socket")" = 600 ] || fail "listen_mode is not the file's mode: $(stat -c %a "$socket")"
stop
echo precious >"$socket"
status=0
"$build/bin/convoyd" --backend null --config "$work/config.json" 2>"$work/log" || status=$?
[ $status = 1 ] || fail "a file that is no socket: status $status"
[ "$(cat "$socket")" = precious ] || fail "a file that is no socket is removed"
rm "$socket"

echo "With TLS the Unix socket is plain; one connection of each kind waits for the same worker."
command -v openssl >/dev/null || skip "there is no openssl (Debian package openssl); the rest passed"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key.pem" -out "$work/certificate.pem" \
  -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -days 2 2>/dev/null
configure 'default_model="cifar10-convnet"' "tls={\"certificate\": \"$work/certificate.pem\", \"key\": \"$work/key.pem\"}"
launch --backend null --config "$work/config.json" --listen 127.0.0.1:0 --listen "unix:$socket"
until_true 30 served || fail "convoyd is not ready on its socket"
secure=(--cacert "$work/certificate.pem" "https://localhost:$port")
expect 200 "${secure[@]::2}" --data-binary @$image "${secure[2]}/classify"
over_socket --data-binary @$image http://localhost/classify
stand_still "$(workers)"
curl -sS -o "$work/one" "${secure[@]::2}" --data-binary @$image "${secure[2]}/classify" &
one=$!
curl -sS -o "$work/two" --unix-socket "$socket" --data-binary @$image http://localhost/classify &
two=$!
both_wait() { [ "$(curl -fsS --unix-socket "$socket" http://localhost/metrics | awk '$1 == "convoyd_slots_in_use" { print $2 }')" = 2 ]; }
until_true 10 both_wait || fail "the two requests do not reach the worker"
kill -CONT "$(workers)"
wait $one || fail "over TLS"
wait $two || fail "over the socket"
for answer in one two; do [ "$(json "$work/$answer" 'len(d["results"])')" = 1 ] || fail "$(cat "$work/$answer")"; done
stop
echo "passed"
