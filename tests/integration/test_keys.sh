#!/usr/bin/env bash
# Keys and roles: who is let in with which answer, before the body; what SIGHUP takes over; the admin socket and the loopback;
# and that no key is ever shown.
# sanitize: yes
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
image=models/samples/ship.jpg
load=/v2/repository/models/cifar10-convnet/load
logging=/v2/logging

# make NAME ROLES: appends the line to the file of keys; $key is the key.
make() {
  "$build/bin/convoy" key "$1" "$2" >>"$work/keys" 2>"$work/key" || fail "convoy key $1 $2"
  key=$(tail -n 1 "$work/key")
  printf '%s\n' "$key" >>"$work/all_keys"
}
bearer() { printf 'Authorization: Bearer %s' "$1"; }
header() { grep -i "^$1:" "$work/headers" | tr -d '\r' | sed 's/^[^:]*: *//'; }

# --- convoy key
(umask 077; : >"$work/keys")
make camera infer
camera=$key
make prometheus metrics
metrics=$key
make boss infer,metrics,admin
boss=$key
[[ $camera =~ ^convoy-[0-9a-f]{64}$ ]] || fail "no key of 256 bits: $camera"
[ "$camera" != "$metrics" ] || fail "two keys are equal"
digest=$(printf %s "$camera" | sha256sum | cut -d' ' -f1)
grep -x "camera infer sha256:$digest" "$work/keys" >/dev/null || fail "the line is not NAME ROLES sha256:HEX: $(cat "$work/keys")"
for wrong in 'a' 'a b/c infer' 'a infer,root' 'a infer extra' 'a ,infer'; do
  status=0
  # shellcheck disable=SC2086 # several arguments
  "$build/bin/convoy" key $wrong >"$work/out" 2>"$work/err" || status=$?
  if [ $status -ne 2 ] || [ -s "$work/out" ]; then fail "convoy key $wrong: status $status"; fi
done

# --- Without keys: what asks is for everybody, what changes is for the admin socket
configure 'backend="null"' 'model_control="explicit"' 'repository={"load_at_start": ["cifar10-convnet"]}'
start --config "$work/config.json" --models models
expect 200 --data-binary @$image "$url/classify?model=cifar10-convnet"
expect 200 "$url/metrics"
expect 403 -X POST "$url$load"
expect 403 -d '{"log_verbose_level": 1}' "$url$logging"
expect 403 -d '{"trace_level": ["TIMESTAMPS"]}' "$url/v2/trace/setting"
expect 200 "$url$logging"
expect 200 -H "$(bearer wrong)" "$url/v2/models"
socket=$work/convoyd/admin-$port.sock
[ "$(stat -c %a "$socket")" = 600 ] || fail "the admin socket has mode $(stat -c %a "$socket")"
expect 200 --unix-socket "$socket" -X POST "http://localhost$load"
expect 200 --unix-socket "$socket" -d '{"log_verbose_level": 0}' "http://localhost$logging"
expect 200 --unix-socket "$socket" --data-binary @$image "http://localhost/classify?model=cifar10-convnet"
"$build/bin/convoy" load --url "$url" cifar10-convnet >"$work/out" || fail "convoy load does not find the admin socket"
"$build/bin/convoy" models --url "unix:$socket" >"$work/out" || fail "convoy --url unix:PATH"
grep cifar10-convnet "$work/out" >/dev/null || fail "convoy --url unix:PATH does not answer: $(cat "$work/out")"
status=0
XDG_RUNTIME_DIR=$work/none "$build/bin/convoy" load --url "$url" cifar10-convnet >"$work/out" 2>"$work/err" || status=$?
[ $status -eq 4 ] || fail "convoy load without the socket: status $status"
# A second daemon at the same path does not take it away; one that was killed leaves a file that the next one replaces.
configure 'backend="null"' "admin_listen=\"unix:$socket\""
status=0
"$build/bin/convoyd" --config "$work/config.json" --models models --listen 127.0.0.1:0 2>"$work/second" || status=$?
[ $status -eq 1 ] || fail "two daemons share an admin socket"
grep "admin_listen" "$work/second" >/dev/null || fail "no sentence: $(cat "$work/second")"
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null || true
unheard() { ! curl -s -o /dev/null --max-time 5 --unix-socket "$socket" http://localhost/v2; } # the front ends after its master
until_true 20 unheard || fail "the front outlives the master that was killed"
start --config "$work/config.json" --models models
expect 200 --unix-socket "$socket" "http://localhost/v2/models"
stop
[ ! -e "$socket" ] || fail "the admin socket is left behind"

# --- auth.loopback_admin: this machine alone, under its own name, with nothing between
configure 'backend="null"' 'model_control="explicit"' 'auth={"loopback_admin": true}' 'admin_listen=null' 'http={"hosts": ["gpu-box"]}'
start --config "$work/config.json" --models models
[ ! -e "$work/convoyd/admin-$port.sock" ] || fail "admin_listen null makes a socket"
expect 200 -X POST "$url$load"
expect 200 -X POST -H 'Host: localhost' "$url$load"
expect 200 -X POST -H 'Host: gpu-box:1' "$url$load"
expect 200 -X POST -H "Origin: $url" "$url$load"
expect 403 -X POST -H 'Host: convoy.example' "$url$load"
expect 403 -X POST -H 'Origin: http://evil.example' "$url$load"
for between in 'X-Forwarded-For: 127.0.0.1' 'Forwarded: for=127.0.0.1' 'X-Real-IP: 127.0.0.1' 'Via: 1.1 proxy'; do
  expect 403 -X POST -H "$between" "$url$load"
  expect 403 -d '{"log_verbose_level": 1}' -H "$between" "$url$logging"
done
stop
# What a trusted proxy sends is from elsewhere, whatever it adds.
configure 'backend="null"' 'model_control="explicit"' 'auth={"loopback_admin": true}' 'admin_listen=null' 'http={"trusted_proxies": ["127.0.0.1"]}'
start --config "$work/config.json" --models models
expect 403 -X POST "$url$load"
stop

# --- With keys
cp "$work/keys" "$work/good"
configure 'backend="null"' 'model_control="explicit"' 'repository={"load_at_start": ["cifar10-convnet"]}' \
  "auth={\"keys\": \"$work/keys\", \"anonymous\": []}" 'log={"access": "all", "level": "debug"}' 'health_listen="127.0.0.1:0"'
start --config "$work/config.json" --models models
classify() { expect "$1" "${@:2}" --data-binary @$image "$url/classify?model=cifar10-convnet"; }
classify 401
[ "$(header WWW-Authenticate)" = Bearer ] || fail "401 without WWW-Authenticate: Bearer: $(cat "$work/headers")"
classify 401 -H "$(bearer "${camera}0")"
classify 401 -H 'Authorization: Basic Y29udm95Og=='
classify 401 -H 'Authorization: Bearer'
classify 401 -H "$(bearer "$(printf 'x%.0s' {1..2000})")"
classify 401 -H "$(bearer "$digest")"
classify 200 -H "$(bearer "$camera")"
classify 200 -H "authorization: bearer   $camera"
classify 400 -H "$(bearer "$camera")" -H "$(bearer "$boss")"
classify 403 -H "$(bearer "$metrics")"
[ -z "$(header WWW-Authenticate)" ] || fail "a 403 asks for another key"
expect 200 -H "$(bearer "$metrics")" "$url/metrics"
expect 401 "$url/metrics"
expect 403 -H "$(bearer "$camera")" "$url/metrics"
expect 401 -X POST "$url$load"
expect 403 -H "$(bearer "$camera")" -X POST "$url$load"
expect 200 -H "$(bearer "$boss")" -X POST "$url$load"
expect 200 -H "$(bearer "$boss")" -X POST -H 'X-Forwarded-For: 203.0.113.7' "$url$load"
expect 200 -H "$(bearer "$boss")" -d '{"log_verbose_level": 1}' "$url$logging"
expect 403 -H "$(bearer "$metrics")" -d '{"log_verbose_level": 0}' "$url$logging"
expect 200 "$url/v2/health/live"
expect 200 -H "$(bearer wrong)" "$url/v2/health/ready"
health=$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
expect 200 "http://127.0.0.1:$health/v2/health/ready"
expect 401 "http://127.0.0.1:$health/metrics"
expect 200 -H "$(bearer "$metrics")" "http://127.0.0.1:$health/metrics"
expect 200 --unix-socket "$work/convoyd/admin-$port.sock" "http://localhost/metrics"
CONVOY_KEY=$boss XDG_RUNTIME_DIR=$work/none "$build/bin/convoy" load --url "$url" cifar10-convnet >"$work/out" ||
  fail "convoy does not send CONVOY_KEY"

# The refusal comes before the body: 20 MB are promised, none are sent.
got=$("$python" - "$port" <<'PYTHON'
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10) as s:
    s.sendall(b"POST /classify HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n")
    answer = b""
    while part := s.recv(65536):
        answer += part
print(answer.split(b" ")[1].decode(), b"connection: close" in answer.lower())
PYTHON
)
[ "$got" = "401 True" ] || fail "a body that may not come is waited for: $got"

# Counted and logged by name, and never by key.
curl -fsS -H "$(bearer "$metrics")" "$url/metrics" >"$work/metrics"
grep -x 'convoyd_key_requests_total{key="camera",outcome="passed"} 2' "$work/metrics" >/dev/null || fail "$(grep key_requests "$work/metrics")"
grep -x 'convoyd_key_requests_total{key="camera",outcome="forbidden"} 2' "$work/metrics" >/dev/null || fail "$(grep key_requests "$work/metrics")"
until_true 20 grep 'route=/v2/repository/models/{model}/load .*status=200 .* key_name=boss$' "$work/log" || fail "the access log does not name keys"

# --- SIGHUP: other keys hold at once; of a bad file nothing is taken, and its line is named
reread() { [ "$(grep -c -E 'keys read again|keys are not taken over' "$work/log")" -gt "$1" ]; }
reload() {
  local before
  before=$(grep -c -E 'keys read again|keys are not taken over' "$work/log" || true)
  kill -HUP "$daemon"
  until_true 10 reread "$before" || fail "SIGHUP does not read the keys"
}
grep -v '^camera ' "$work/good" >"$work/keys"
make late infer
reload
classify 401 -H "$(bearer "$camera")"
classify 200 -H "$(bearer "$key")"
{ cat "$work/good"; echo "oops infer $camera"; } >"$work/keys"
reload
grep "keys are not taken over.*line 4" "$work/log" >/dev/null || fail "the bad line is not named: $(grep 'not taken over' "$work/log")"
classify 200 -H "$(bearer "$key")"
classify 401 -H "$(bearer "$camera")"
cp "$work/good" "$work/keys"
chmod 644 "$work/keys"
reload
classify 200 -H "$(bearer "$camera")"
grep 'open to every user' "$work/log" >/dev/null || fail "a file that all may read is no warning"
# What only a restart takes over is said, and what is the same is not.
again='is taken over at a start alone: restart convoyd'
if grep "$again" "$work/log"; then fail "a restart is asked for, and nothing differs"; fi
configure 'backend="null"' 'log={"access": "all"}' 'auth={"loopback_admin": true}' 'admin_listen=null'
kill -HUP "$daemon"
all_said() { grep -F 'msg="auth.keys, auth.loopback_admin, admin_listen are taken over at a start alone: restart convoyd"' "$work/log"; }
until_true 10 all_said || fail "SIGHUP does not name all that needs a restart"
for change in 'auth.keys={"keys": null}' 'auth.keys={"keys": "other"}' "auth.loopback_admin={\"keys\": \"$work/keys\", \"loopback_admin\": true}" admin_listen; do
  if [ "$change" = admin_listen ]; then settings=("auth={\"keys\": \"$work/keys\"}" 'admin_listen=null'); else settings=("auth=${change#*=}"); fi
  configure 'backend="null"' 'log={"access": "all"}' "${settings[@]}"
  said=$(grep -cF "${change%%=*} $again" "$work/log" || true)
  kill -HUP "$daemon"
  restart_said() { [ "$(grep -cF "${change%%=*} $again" "$work/log")" -gt "$said" ]; }
  until_true 10 restart_said || fail "SIGHUP does not say that ${change%%=*} needs a restart"
done
classify 200 -H "$(bearer "$camera")"
stop
if grep -F -f "$work/all_keys" "$work/log"; then fail "a key is in the log"; fi
# Not even a bad start shows the line: the key itself may stand there.
echo "oops infer $camera" >"$work/keys"
status=0
timeout 60 "$build/bin/convoyd" --config "$work/config.json" --models models --listen 127.0.0.1:0 2>"$work/second" || status=$?
[ $status -eq 1 ] || fail "a daemon starts with a file of keys that is wrong: status $status"
grep "line 1" "$work/second" >/dev/null || fail "the line is not named: $(cat "$work/second")"
status=0
"$build/bin/convoyd" --check-config --config "$work/config.json" --models models >"$work/third" 2>&1 || status=$?
[ $status -eq 1 ] || fail "--check-config passes a file of keys that is wrong: status $status"
grep "line 1" "$work/third" >/dev/null || fail "--check-config does not name the line: $(cat "$work/third")"
if grep -F "$camera" "$work/second" "$work/third"; then fail "a key is in an error"; fi
echo "Keys, roles, the admin socket, the loopback and SIGHUP do what docs/keys.md says."
