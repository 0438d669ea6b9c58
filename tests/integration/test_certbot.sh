#!/usr/bin/env bash
# The steps of docs/internet.md from no certificate to HTTPS: the page's own lines, run with certbot and an authority that answers
# as Let's Encrypt does (pebble). Then a renewal, which convoyd takes over without being restarted.
# all: certbot and pebble are 40 MB that nothing else needs
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

for program in certbot pebble pebble-challtestsrv openssl; do
  command -v $program >/dev/null || skip "there is no $program (Debian packages certbot, pebble, openssl)"
done
umask 077
# The page's folders and its group are this test's; convoyd is told by a signal, as its unit does.
sed -n '/^2\. Let it make a certificate/,/^3\. /s/^ \{7\}//p' docs/internet.md |
  sed -e "s,/etc/letsencrypt,$work/letsencrypt,g; s,/etc/convoyd,$work/convoyd,g; s/-g convoyd-keys/-g $(id -gn)/" >"$work/steps"
grep '^certbot certonly .*-d convoy.example' "$work/steps" >/dev/null || fail "the page's step 2 has no certbot: $(cat "$work/steps")"
mkdir "$work/bin"
cat >"$work/bin/systemctl" <<END
#!/bin/sh
echo "\$@" >>$work/systemctl
[ ! -f $work/pid ] || kill -HUP "\$(cat $work/pid)"
END
chmod +x "$work/bin/systemctl"
PATH=$work/bin:$PATH

# The authority, what it resolves names by, and where it asks for the proof that the name is ours.
read -r acme manage proof names <<<"$("$python" -c '
import socket
sockets = [socket.socket() for _ in range(4)]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))')"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$work/acme.key" -out "$work/acme.pem" 2>/dev/null
cat >"$work/pebble.json" <<END
{"pebble": {"listenAddress": "127.0.0.1:$acme", "managementListenAddress": "127.0.0.1:$manage",
  "certificate": "$work/acme.pem", "privateKey": "$work/acme.key", "httpPort": $proof, "tlsPort": 1}}
END
pebble-challtestsrv -defaultIPv4 127.0.0.1 -defaultIPv6 "" -http01 "" -https01 "" -tlsalpn01 "" -dns01 "127.0.0.1:$names" \
  -management "" >"$work/names.log" 2>&1 &
resolver=$!
trap 'status=$?; kill $resolver 2>/dev/null; finish $status' EXIT
PEBBLE_VA_NOSLEEP=1 PEBBLE_WFE_NONCEREJECT=0 pebble -config "$work/pebble.json" -dnsserver "127.0.0.1:$names" >"$work/pebble.log" 2>&1 &
proxy=$!
authority() { curl -fsS --max-time 5 --cacert "$work/acme.pem" -o "$work/authority.pem" "https://127.0.0.1:$manage/roots/0"; }
until_true 20 authority || fail "pebble does not answer: $(cat "$work/pebble.log")"

export REQUESTS_CA_BUNDLE=$work/acme.pem
# What a public name and Let's Encrypt make unnecessary.
here=(--non-interactive --agree-tos --register-unsafely-without-email --server "https://localhost:$acme/dir" --http-01-port "$proof"
  --config-dir "$work/letsencrypt" --work-dir "$work/certbot" --logs-dir "$work/certbot-logs")
certbot=$(command -v certbot)
cat >"$work/bin/certbot" <<END
#!/bin/sh
exec timeout 120 $certbot "\$@" ${here[*]@Q}
END
chmod +x "$work/bin/certbot"
bash -e "$work/steps" >"$work/out" 2>&1 || fail "step 2 of the page: $(cat "$work/out")"
tls=$work/convoyd/tls
[ "$(stat -c %a "$tls" "$tls/key.pem" "$tls/certificate.pem" | xargs)" = "750 640 644" ] ||
  fail "the modes are not the page's: $(stat -c '%a %n' "$tls"/*)"

configure 'default_model="cifar10-convnet"' \
  "tls={\"certificate\": \"$tls/certificate.pem\", \"key\": \"$tls/key.pem\", \"client_ca\": null}"
"$build/bin/convoyd" --check-config --config "$work/config.json" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
grep -i 'valid until' "$work/out" >/dev/null || fail "--check-config does not say until when the certificate is valid: $(cat "$work/out")"
launch --backend null --config "$work/config.json"
echo "$daemon" >"$work/pid"
ask() { curl -fsS --max-time 10 --cacert "$work/authority.pem" --resolve "convoy.example:$port:127.0.0.1" "https://convoy.example:$port$1" "${@:2}"; }
until_true 30 ask /v2/health/ready || fail "convoyd was not ready within 30 s"
ask /classify --data-binary @models/samples/ship.jpg >/dev/null

serial() { openssl s_client -connect "127.0.0.1:$port" -servername convoy.example </dev/null 2>/dev/null | openssl x509 -noout -serial; }
first=$(serial)
certbot renew --force-renewal --no-random-sleep-on-renew >"$work/out" 2>&1 || fail "certbot renew: $(cat "$work/out")"
grep 'reload convoyd' "$work/systemctl" >/dev/null || fail "the renewal does not reload convoyd"
another() { [ "$(serial)" != "$first" ]; }
until_true 10 another || fail "the renewed certificate is not served: $first"
ask /classify --data-binary @models/samples/ship.jpg >/dev/null
stop
echo passed
