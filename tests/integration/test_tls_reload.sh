#!/usr/bin/env bash
# sanitize: yes
# Certificate and keys are replaced again and again, each time with SIGHUP, under 64 busy TLS connections: not one request fails whose
# key stands in the file before and in the one after; each time the new certificate and the new keys hold.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

command -v openssl >/dev/null || skip "there is no openssl (Debian package openssl)"
umask 077
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/authority.key" -out "$work/authority.pem" \
  -subj /CN=authority -days 2 2>/dev/null
for i in 0 1; do
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key-$i" -out "$work/csr" -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
  openssl x509 -req -in "$work/csr" -CA "$work/authority.pem" -CAkey "$work/authority.key" -copy_extensions copy -days 1 \
    -out "$work/certificate-$i" 2>/dev/null
done
for name in both first second; do
  "$build/bin/convoy" key $name infer >"$work/line.$name" 2>"$work/made"
  tail -n 1 "$work/made" >"$work/$name"
done
cat "$work/line.both" "$work/line.first" >"$work/keys-0"
cat "$work/line.second" "$work/line.both" >"$work/keys-1"
for kind in certificate key keys; do cp "$work/$kind-0" "$work/$kind"; done

configure 'default_model="cifar10-convnet"' "tls={\"certificate\": \"$work/certificate\", \"key\": \"$work/key\"}" \
  "auth={\"keys\": \"$work/keys\", \"anonymous\": []}" 'http={"connections": 256, "connections_per_address": 256}'
launch --backend null --config "$work/config.json"
url=https://127.0.0.1:$port
# shellcheck disable=SC2317 # until_true calls it
ready() { curl -fs --cacert "$work/authority.pem" -o /dev/null "$url/v2/health/ready"; }
until_true 30 ready || fail "convoyd was not ready within 30 s"

"$python" tests/tools/reload_load.py "$port" "$work" "$daemon" "$work/log" models/samples/ship.jpg 4 >"$work/result" || fail "see above"
cat "$work/result"
[ "$(json "$work/result" 'd["failed"]')" = 0 ] || fail "requests failed while certificate and keys were replaced"
[ "$(json "$work/result" 'd["reloads"] == 4 and d["requests"] > 64 * 10 and d["handshakes"] > 64')" = True ] || fail "that was no load"
if grep 'not taken over' "$work/log"; then fail "a file was not taken over"; fi
# The daemon counts the same: all of those, and what the rounds ask themselves, one at the start and two each.
curl -fsS --unix-socket "$work/convoyd/admin-$port.sock" -o "$work/metrics" http://localhost/metrics
counted() { awk -v status="status=\"$1\"" 'index($0, "convoyd_requests_total{") == 1 && index($0, "route=\"/classify\"") && index($0, status) { n += $NF } END { print n + 0 }' "$work/metrics"; }
wanted=$(json "$work/result" 'd["requests"] + 1 + d["reloads"]')
[ "$(counted 200)" = "$wanted" ] || fail "the daemon answered $(counted 200) requests, not $wanted"
[ "$(counted 401)" = 4 ] || fail "the daemon refused $(counted 401) keys, not 4"
stop
echo "passed"
